package gitstate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

// report ends a run that has landed.
func report(t testing.TB, l *gitstate.Ledger, id gitstate.RunID, files map[string][]byte) {
	t.Helper()
	p := begin(t, l, id, gitstate.ByReport)
	defer finish(t, p)
	appendEvent(t, p, gitstate.Event{To: schemas.StateReported, Files: files})
}

// land takes a run from prepare to reported.
func land(t testing.TB, l *gitstate.Ledger, dir string, id gitstate.RunID) (c candidate, approved gitstate.OID) {
	t.Helper()
	prepare(t, l, dir, id)
	c = turn(t, l, id, gitstate.ByRun, string(id)+"\n")
	verify(t, l, id, schemas.VerdictPass)
	approved = approve(t, l, id, c)
	integrate(t, l, id)
	report(t, l, id, nil)
	return c, approved
}

func document(t testing.TB, v any) []byte {
	t.Helper()
	data, err := schemas.MarshalIndent(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestNotesOfARun(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		prepare(t, l, dir, "x1")
		c := turn(t, l, "x1", gitstate.ByRun, "1\n")
		if refs := git(t, dir, "for-each-ref", "refs/notes"); refs != "" {
			t.Errorf("notes before a verification: %s", refs)
		}
		note := func(commit gitstate.OID) string {
			t.Helper()
			return string(gitInput(t, dir, nil, "notes", "--ref=spot", "show", string(commit)))
		}
		verify(t, l, "x1", schemas.VerdictPass)
		want := strings.Join([]string{
			"a task", "", "Spot-Run: x1", "Spot-State: reviewing", "Spot-Attempt: 1", "Spot-Tree: " + string(c.tree), "Spot-Diff-Sha256: " + c.diff.SHA256,
			"Spot-Verification: 1/1, 1.5s", "Spot-Worker: command/m1", "Spot-Ledger: " + string(load(t, l, "x1").Head), "",
		}, "\n")
		if got := note(c.commit); got != want {
			t.Errorf("after verify:\n%s\nwant:\n%s", got, want)
		}
		approved := approve(t, l, "x1", c)
		want = strings.Replace(want, "reviewing", "approved", 1)
		want = strings.Replace(want, "Spot-Worker", "Spot-Review: approve, 0 open\nSpot-Worker", 1)
		want = want[:strings.Index(want, "Spot-Ledger")] + "Spot-Ledger: " + string(load(t, l, "x1").Head) + "\n"
		for _, commit := range []gitstate.OID{c.commit, approved} {
			if got := note(commit); got != want {
				t.Errorf("after approve:\n%s\nwant:\n%s", got, want)
			}
		}
		integrate(t, l, "x1")
		tokens := int64(100)
		report(t, l, "x1", map[string][]byte{
			"attempts/1/worker.json": document(t, schemas.WorkerReceipt{
				SchemaVersion: 1, Attempt: 1, Outcome: schemas.OutcomeCompleted,
				Profile: schemas.ProfileRef{Name: "second", Source: "flag", Adapter: "command", Model: "m2"},
				Usage:   schemas.Usage{UncachedInput: &tokens, Output: &tokens}, Isolation: schemas.Isolation{Level: schemas.IsolationNone},
			}),
			"metrics.json": document(t, schemas.Metrics{
				SchemaVersion: 1, ID: "x1", State: schemas.StateReported, PhasesMS: map[string]int64{},
				ParentSavings: &schemas.ParentSavings{EstimatedTokensAvoided: 4200},
			}),
		})
		got := note(approved)
		for _, line := range []string{"Spot-State: reported", "Spot-Worker: command/m2, 200 tokens", "Spot-Isolation: none", "Spot-Tokens-Avoided: 4200"} {
			if !strings.Contains(got, "\n"+line+"\n") {
				t.Errorf("after report, no %q in\n%s", line, got)
			}
		}
		parsed := string(gitInput(t, dir, []byte(got), "interpret-trailers", "--parse"))
		if parsed != got[strings.Index(got, "\n\n")+2:] {
			t.Errorf("git reads the trailers\n%s\nof\n%s", parsed, got)
		}
		git(t, dir, "update-ref", "refs/heads/main", string(approved))
		if log := git(t, dir, "log", "-1", "--notes=spot", "main"); !strings.Contains(log, "Spot-Run: x1") {
			t.Errorf("git log --notes=spot:\n%s", log)
		}
	})
}

func TestNotesOfAnEmptyTurnAreNotOnBase(t *testing.T) {
	t.Parallel()
	dir := repository(t, "sha1")
	l := open(t, dir)
	prepare(t, l, dir, "x1")
	p := begin(t, l, "x1", gitstate.ByRun)
	appendEvent(t, p, gitstate.Event{To: schemas.StateRunning})
	appendEvent(t, p, gitstate.Event{To: schemas.StateImplemented, Apply: func(s *schemas.RunState) {
		s.Candidate = s.Base.Commit
		s.DiffSHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // of no bytes
	}})
	finish(t, p)
	verify(t, l, "x1", schemas.VerdictFail)
	if refs := git(t, dir, "for-each-ref", "refs/notes"); refs != "" {
		t.Errorf("notes: %s", refs)
	}
}

func TestNotesAtAnyFanOut(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		ctx := t.Context()
		commit := git(t, dir, "rev-parse", "main")
		blob := func(text string) string {
			return strings.TrimSpace(string(gitInput(t, dir, []byte(text), "hash-object", "-w", "--stdin")))
		}
		// Somebody's notes on the same object at four depths, and on others that share its first digits.
		other := commit[:len(commit)-1] + "0"
		if other == commit {
			other = commit[:len(commit)-1] + "1"
		}
		files := map[string]string{}
		for depth := range 4 {
			for _, id := range []string{commit, other} {
				path := ""
				for d := range depth {
					path += id[2*d:2*d+2] + "/"
				}
				files[path+id[2*depth:]] = blob(fmt.Sprintf("depth %d of %s\n", depth, id))
			}
		}
		files["README"] = blob("not a note\n")
		files["zz/deep"] = blob("not a note\n")
		var input strings.Builder
		for path, id := range files {
			fmt.Fprintf(&input, "100644 %s\t%s\x00", id, path)
		}
		git(t, dir, "read-tree", "--empty")
		gitInput(t, dir, []byte(input.String()), "update-index", "-z", "--index-info")
		tree := git(t, dir, "write-tree")

		git(t, dir, "update-ref", "refs/notes/spot", git(t, dir, "commit-tree", "-m", "notes", tree))
		if have, err := l.ReadNotes(ctx, gitstate.OID(commit)); err != nil || len(have) != 4 {
			t.Errorf("ReadNotes = %q, %v", have, err)
		}
		want := maps.Clone(files)
		for path := range files {
			if strings.ReplaceAll(path, "/", "") == commit {
				delete(want, path)
			}
		}
		note := blob("ours\n")
		want[commit[:2]+"/"+commit[2:]] = note
		written, err := l.WriteNotes(ctx, gitstate.OID(tree), map[string]gitstate.OID{commit: gitstate.OID(note)})
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for path, id := range want {
			lines = append(lines, id+" "+path)
		}
		got := strings.Split(git(t, dir, "ls-tree", "-r", "--format=%(objectname) %(path)", string(written)), "\n")
		slices.Sort(lines)
		slices.Sort(got)
		if !slices.Equal(got, lines) {
			t.Errorf("tree:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
		}
		again, err := l.WriteNotes(ctx, written, map[string]gitstate.OID{commit: gitstate.OID(note)})
		if err != nil || again != written {
			t.Errorf("written again: %s, %v, want %s", again, err, written)
		}
		git(t, dir, "fsck", "--strict", string(written))
	})
}

func TestNotesWhereAFileIsInTheWay(t *testing.T) {
	t.Parallel()
	dir := repository(t, "sha1")
	l := open(t, dir)
	commit := git(t, dir, "rev-parse", "main")
	blob := strings.TrimSpace(string(gitInput(t, dir, []byte("x"), "hash-object", "-w", "--stdin")))
	tree := strings.TrimSpace(string(gitInput(t, dir, []byte("100644 blob "+blob+"\t"+commit[:2]+"\n"), "mktree")))
	written, err := l.WriteNotes(t.Context(), gitstate.OID(tree), map[string]gitstate.OID{commit: gitstate.OID(blob)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := git(t, dir, "ls-tree", "-r", "--name-only", string(written)), commit[:2]+"/"+commit[2:]; got != want {
		t.Errorf("tree has %q, want %q", got, want)
	}
}

func TestConcurrentNotesLoseNothing(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		const goroutines, processes, each = 32, 4, 3
		prepare(t, l, dir, "x1")
		tree, others := git(t, dir, "rev-parse", "main^{tree}"), map[string]string{}
		commit := func(name string) string { return git(t, dir, "commit-tree", "-m", name, tree) }
		for i := range 5 {
			others[commit(fmt.Sprintf("other %d", i))] = fmt.Sprintf("somebody's note %d", i)
		}
		for object, text := range others {
			git(t, dir, "notes", "--ref=spot", "add", "-m", text, object)
		}
		var all []string
		take := func(n int) []string {
			var commits []string
			for range n {
				commits = append(commits, commit(fmt.Sprintf("commit %d", len(all)+len(commits))))
			}
			all = append(all, commits...)
			return commits
		}
		var writers []*process
		for range processes {
			writers = append(writers, startChild(t, "note", dir, take(each)...))
		}
		run := load(t, l, "x1")
		for _, p := range writers {
			p.expect(t, "ready")
		}
		var work [goroutines][]string
		for i := range work {
			work[i] = take(each)
		}
		for _, p := range writers {
			p.release()
		}
		second := open(t, dir) // half of the goroutines do not share a lock with the other half
		var wg sync.WaitGroup
		for i, commits := range work {
			ledger := []*gitstate.Ledger{l, second}[i%2]
			wg.Go(func() {
				for _, c := range commits {
					if err := ledger.Note(t.Context(), gitstate.OID(c), run); err != nil {
						t.Errorf("writer %d: %v", i, err)
					}
				}
			})
		}
		wg.Wait()
		for _, p := range writers {
			p.expect(t, "done")
		}
		listed := git(t, dir, "notes", "--ref=spot", "list")
		for _, c := range all {
			if strings.Count(listed, " "+c) != 1 {
				t.Errorf("%d notes on %s", strings.Count(listed, " "+c), c)
			}
		}
		for object, text := range others {
			if got := git(t, dir, "notes", "--ref=spot", "show", object); got != text {
				t.Errorf("note on %s is %q, want %q", object, got, text)
			}
		}
		if n := strings.Count(listed, "\n") + 1; n != len(all)+len(others) {
			t.Errorf("%d notes, want %d", n, len(all)+len(others))
		}
		git(t, dir, "fsck", "--strict", "refs/notes/spot")
	})
}

func TestConcurrentEventsWriteAllNotes(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		t.Run("runs", func(t *testing.T) {
			for i := range 6 {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					t.Parallel()
					land(t, open(t, dir), dir, gitstate.RunID(fmt.Sprintf("x%d", i)))
				})
			}
		})
		clean(t, l)
		if n := strings.Count(git(t, dir, "notes", "--ref=spot", "list"), "\n") + 1; n != 12 {
			t.Errorf("%d notes, want 12", n)
		}
	})
}

func TestRebuildNotes(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		ctx := t.Context()
		land(t, l, dir, "x1")
		c, approved := land(t, l, dir, "x2")
		prepare(t, l, dir, "x3")
		turn(t, l, "x3", gitstate.ByRun, "3\n")
		verify(t, l, "x3", schemas.VerdictFail)
		clean(t, l)
		list := func() string { return git(t, dir, "notes", "--ref=spot", "list") }
		want := list()
		if n, err := l.RebuildNotes(ctx); n != 0 || err != nil {
			t.Errorf("RebuildNotes with nothing to do = %d, %v", n, err)
		}
		tip := git(t, dir, "rev-parse", "refs/notes/spot")

		git(t, dir, "update-ref", "-d", "refs/notes/spot")
		problems, err := l.Fsck(ctx)
		if err != nil || len(problems) != 5 {
			t.Errorf("Fsck without notes = %+v, %v", problems, err)
		}
		if n, err := l.RebuildNotes(ctx); n != 5 || err != nil {
			t.Errorf("RebuildNotes = %d, %v", n, err)
		}
		if got := list(); got != want {
			t.Errorf("notes:\n%s\nwant:\n%s", got, want)
		}

		git(t, dir, "update-ref", "refs/notes/spot", tip)
		git(t, dir, "notes", "--ref=spot", "append", "-m", "a lie", string(approved))
		git(t, dir, "notes", "--ref=spot", "add", "-f", "-m", "Spot-Run: x2", string(c.commit))
		git(t, dir, "notes", "--ref=spot", "add", "-m", "mine", "main")
		if problems, err = l.Fsck(ctx); err != nil || len(problems) != 2 {
			t.Errorf("Fsck with two lies = %+v, %v", problems, err)
		}
		if n, err := l.RebuildNotes(ctx); n != 2 || err != nil {
			t.Errorf("RebuildNotes = %d, %v", n, err)
		}
		mine := git(t, dir, "notes", "--ref=spot", "list", "main") + " " + git(t, dir, "rev-parse", "main")
		if got := strings.Split(list(), "\n"); len(got) != 6 || !slices.Contains(got, mine) {
			t.Errorf("notes:\n%s\nwant one more than\n%s", strings.Join(got, "\n"), want)
		}
		clean(t, l)
	})
}

// Notes are a copy: what is wrong with them does not stop a run.
func TestEventsDoNotNeedNotes(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		blob := strings.TrimSpace(string(gitInput(t, dir, []byte("x"), "hash-object", "-w", "--stdin")))
		git(t, dir, "update-ref", "refs/notes/spot", blob)
		land(t, l, dir, "x1")
		if got := git(t, dir, "rev-parse", "refs/notes/spot"); got != blob {
			t.Errorf("refs/notes/spot is %s, want %s", got, blob)
		}
		problems, err := l.Fsck(t.Context())
		if err != nil || len(problems) != 2 || problems[0].Code != gitstate.ProblemNote {
			t.Errorf("Fsck = %+v, %v", problems, err)
		}
	})
}

// Somebody's own notes can have a name below that of ours.
func TestEventsDoNotNeedTheNameOfTheNotes(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		git(t, dir, "update-ref", "refs/notes/spot/mine", "main")
		land(t, l, dir, "x1")
	})
}

// A lock file that was left does not hold up an event for long, and where it is only the notes', not at all.
// countingStore counts the updates of refs.
type countingStore struct {
	gitstate.Store
	updates atomic.Int64
}

func (s *countingStore) Update(ctx context.Context, updates []gitstate.RefUpdate) error {
	s.updates.Add(1)
	return s.Store.Update(ctx, updates)
}

func TestLockFilesThatStay(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		lock := func(ref string) {
			path := filepath.Join(dir, ".git", ref+".lock")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		prepare(t, l, dir, "x2")
		turn(t, l, "x2", gitstate.ByRun, "x2\n")
		// Each try waits for a second, and a little longer for every git that is slow to start.
		tries := &countingStore{Store: l.Store()}
		l.SetStore(tries)
		lock("refs/notes/spot")
		verify(t, l, "x2", schemas.VerdictPass)
		if n := tries.updates.Swap(0); n > 5 {
			t.Errorf("to verify took %d updates: one to begin, three with notes and one without", n)
		}
		run := load(t, l, "x2")
		lock("refs/spot/runs/x2")
		p := begin(t, l, "x2", gitstate.ByAbort)
		err := p.Append(t.Context(), gitstate.Event{To: schemas.StateAborted})
		if _, ok := errors.AsType[*gitstate.LockError](err); !ok || tries.updates.Load() > 3 {
			t.Errorf("after %d tries: %v", tries.updates.Load(), err)
		}
		if now := load(t, l, "x2"); now.Head != run.Head {
			t.Error("the event was written")
		}
	})
}
