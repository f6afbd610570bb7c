package gitstate_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

// damage rewrites the newest event of x1: files by name (nil removes), and the message.
func damage(t *testing.T, dir string, files map[string][]byte, message func(string) string, parents ...string) {
	t.Helper()
	ref := "refs/spot/runs/x1"
	run := func(input []byte, args ...string) string {
		t.Helper()
		return strings.TrimSpace(string(gitInput(t, dir, input, args...)))
	}
	tree := ref + "^{tree}"
	if len(files) > 0 {
		run(nil, "read-tree", ref)
		for name, data := range files {
			if data == nil {
				run(nil, "rm", "-q", "--cached", name)
				continue
			}
			run(nil, "update-index", "--add", "--cacheinfo", "100644,"+run(data, "hash-object", "-w", "--stdin")+","+name)
		}
		tree = run(nil, "write-tree")
	}
	text := git(t, dir, "log", "-1", "--format=%B", ref)
	if message != nil {
		text = message(text)
	}
	if parents == nil {
		parents = []string{ref + "^"}
	}
	args := []string{"commit-tree", tree}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	git(t, dir, "update-ref", ref, run([]byte(strings.TrimRight(text, "\n")+"\n"), args...))
}

func TestFsckFindsDamage(t *testing.T) {
	t.Parallel()
	edit := func(t *testing.T, dir, old, new string) map[string][]byte {
		t.Helper()
		state := git(t, dir, "show", "refs/spot/runs/x1:state.json") + "\n"
		if !strings.Contains(state, old) {
			t.Fatalf("no %q in %s", old, state)
		}
		return map[string][]byte{"state.json": []byte(strings.ReplaceAll(state, old, new))}
	}
	object := func(dir, id string) string { return filepath.Join(dir, ".git/objects", id[:2], id[2:]) }
	remove := func(t *testing.T, path string) {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	landed := repository(t, "sha1")
	l := open(t, landed)
	land(t, l, landed, "before")
	cand, approved := land(t, l, landed, "x1")
	land(t, l, landed, "y1")
	clean(t, l)
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string, c candidate, approved string)
		want  []gitstate.ProblemCode // of x1, each at least once, and no other
	}{
		"two parents": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, nil, nil, "refs/spot/runs/x1^", "main")
		}, []gitstate.ProblemCode{gitstate.ProblemChain}},
		"parent missing": {func(t *testing.T, dir string, _ candidate, _ string) {
			remove(t, object(dir, git(t, dir, "rev-parse", "refs/spot/runs/x1~2")))
		}, []gitstate.ProblemCode{gitstate.ProblemChain}},
		"foreign parent": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, nil, nil, "main")
		}, []gitstate.ProblemCode{gitstate.ProblemDocument}},
		"head missing": {func(t *testing.T, dir string, _ candidate, _ string) {
			remove(t, object(dir, git(t, dir, "rev-parse", "refs/spot/runs/x1")))
		}, []gitstate.ProblemCode{gitstate.ProblemChain}},
		"state cut": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, map[string][]byte{"state.json": []byte("{")}, nil)
		}, []gitstate.ProblemCode{gitstate.ProblemDocument}},
		"state of an unknown version": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, edit(t, dir, `"schemaVersion": 1`, `"schemaVersion": 2`), nil)
		}, []gitstate.ProblemCode{gitstate.ProblemDocument}},
		"state with an unknown key": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, edit(t, dir, `"caller"`, `"wisdom": 1, "caller"`), nil)
		}, []gitstate.ProblemCode{gitstate.ProblemDocument}},
		"state missing": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, map[string][]byte{"state.json": nil}, nil)
		}, []gitstate.ProblemCode{gitstate.ProblemDocument}},
		"contract invalid": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, map[string][]byte{"contract.json": []byte(`{"schemaVersion": 1}`)}, nil)
		}, []gitstate.ProblemCode{gitstate.ProblemDocument}},
		"receipt invalid": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, map[string][]byte{"attempts/1/worker.json": []byte(`{}`)}, nil)
		}, []gitstate.ProblemCode{gitstate.ProblemDocument}},
		"events invalid": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, map[string][]byte{"attempts/1/events.jsonl": []byte("{\"type\":\"text\",\"time\":\"2024-05-01T08:00:00Z\"}\n{\"ty")}, nil)
		}, []gitstate.ProblemCode{gitstate.ProblemDocument}},
		"configuration not JSON": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, map[string][]byte{"config.json": []byte(`x`)}, nil)
		}, []gitstate.ProblemCode{gitstate.ProblemDocument}},
		"a blob missing": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, map[string][]byte{"config.json": []byte(`"only here"`)}, nil)
			remove(t, object(dir, git(t, dir, "rev-parse", "refs/spot/runs/x1:config.json")))
		}, []gitstate.ProblemCode{gitstate.ProblemDocument}},
		"trailers lie": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, nil, func(m string) string { return strings.Replace(m, "Spot-State: reported", "Spot-State: cleaned", 1) })
		}, []gitstate.ProblemCode{gitstate.ProblemTrailers}},
		"no trailers": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, nil, func(string) string { return "nothing" })
		}, []gitstate.ProblemCode{gitstate.ProblemTrailers}},
		"hash wrong": {func(t *testing.T, dir string, c candidate, _ string) {
			other := strings.Repeat("a", 64)
			damage(t, dir, edit(t, dir, c.diff.SHA256, other), func(m string) string { return strings.ReplaceAll(m, c.diff.SHA256, other) })
		}, []gitstate.ProblemCode{gitstate.ProblemHash}},
		"tree wrong": {func(t *testing.T, dir string, c candidate, _ string) {
			damage(t, dir, edit(t, dir, `"tree": "`+string(c.tree), `"tree": "`+git(t, dir, "rev-parse", "main^{tree}")), nil)
		}, []gitstate.ProblemCode{gitstate.ProblemHash}},
		"candidate ref gone": {func(t *testing.T, dir string, _ candidate, _ string) {
			git(t, dir, "update-ref", "-d", "refs/spot/candidates/x1")
		}, []gitstate.ProblemCode{gitstate.ProblemMissing}},
		"candidate ref elsewhere": {func(t *testing.T, dir string, _ candidate, _ string) {
			git(t, dir, "update-ref", "refs/spot/candidates/x1", "main")
		}, []gitstate.ProblemCode{gitstate.ProblemMissing}},
		"attempt ref gone": {func(t *testing.T, dir string, _ candidate, _ string) {
			git(t, dir, "update-ref", "-d", "refs/spot/attempts/x1/1")
		}, []gitstate.ProblemCode{gitstate.ProblemMissing}},
		"candidate missing": {func(t *testing.T, dir string, c candidate, _ string) {
			remove(t, object(dir, string(c.commit)))
		}, []gitstate.ProblemCode{gitstate.ProblemMissing}},
		"approved commit missing": {func(t *testing.T, dir string, _ candidate, approved string) {
			remove(t, object(dir, approved))
		}, []gitstate.ProblemCode{gitstate.ProblemMissing}},
		"file of the candidate missing": {func(t *testing.T, dir string, c candidate, _ string) {
			remove(t, object(dir, git(t, dir, "rev-parse", string(c.commit)+":src/a.txt")))
		}, []gitstate.ProblemCode{gitstate.ProblemMissing}},
		"note gone": {func(t *testing.T, dir string, c candidate, _ string) {
			git(t, dir, "notes", "--ref=spot", "remove", string(c.commit))
		}, []gitstate.ProblemCode{gitstate.ProblemNote}},
		"note of another event of the run": {func(t *testing.T, dir string, _ candidate, _ string) {
			damage(t, dir, nil, nil, "refs/spot/runs/x1") // the notes are of the event before
		}, nil},
		"torn ref": {func(t *testing.T, dir string, _ candidate, _ string) {
			write(t, dir, ".git/refs/spot/runs/x1", "0123\n")
		}, []gitstate.ProblemCode{gitstate.ProblemRef}},
		"ledger gone": {func(t *testing.T, dir string, _ candidate, _ string) {
			git(t, dir, "update-ref", "-d", "refs/spot/runs/x1")
		}, []gitstate.ProblemCode{gitstate.ProblemRef}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(landed)); err != nil {
				t.Fatal(err)
			}
			loose := filepath.Join(dir, ".git/refs/spot/runs/x1")
			head, err := os.ReadFile(loose)
			if err != nil {
				t.Fatal(err)
			}
			c.spoil(t, dir, cand, string(approved))

			problems, err := open(t, dir).Fsck(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			found := map[gitstate.ProblemCode]bool{}
			for _, p := range problems {
				if p.Run != "x1" || p.What == "" || p.Remains == "" || strings.Contains(p.What+p.Remains, "\n") {
					t.Errorf("problem %+v", p)
				}
				found[p.Code] = true
			}
			if after, _ := os.ReadFile(loose); !bytes.Equal(after, head) {
				delete(found, gitstate.ProblemNote) // the notes name the event that was there before
			}
			for _, code := range c.want {
				if !found[code] {
					t.Errorf("no %s in %+v", code, problems)
				}
				delete(found, code)
			}
			if len(found) > 0 {
				t.Errorf("more than %v in %+v", c.want, problems)
			}
		})
	}
}

func TestFsckOfStrayRefs(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		land(t, l, dir, "x1")
		for _, ref := range []string{"refs/spot/candidates/no", "refs/spot/attempts/no/1", "refs/spot/slots/x", "refs/spot/slots/01", "refs/spot/else/x", "refs/spot/runs/x1.lockless/y"} {
			git(t, dir, "update-ref", ref, "main")
		}
		problems, err := l.Fsck(t.Context())
		if err != nil || len(problems) != 6 {
			t.Errorf("Fsck = %+v, %v", problems, err)
		}
		for _, p := range problems {
			if p.Code != gitstate.ProblemRef {
				t.Errorf("problem %+v", p)
			}
		}
	})
}

func TestFsckIsCleanInEveryState(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		prepare(t, l, dir, "x1")
		clean(t, l)
		turn(t, l, "x1", gitstate.ByRun, "1\n")
		clean(t, l)
		verify(t, l, "x1", schemas.VerdictFail)
		clean(t, l)
		verify(t, l, "x1", schemas.VerdictFail)
		c := turn(t, l, "x1", gitstate.ByRevise, "2\n")
		clean(t, l)
		verify(t, l, "x1", schemas.VerdictPass)
		clean(t, l)
		approve(t, l, "x1", c)
		clean(t, l)
		integrate(t, l, "x1")
		clean(t, l)
		report(t, l, "x1", nil)
		p := begin(t, l, "x1", gitstate.ByCleanup)
		appendEvent(t, p, gitstate.Event{To: schemas.StateCleaned})
		clean(t, l)
	})
}
