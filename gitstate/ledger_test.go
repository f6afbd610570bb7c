package gitstate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// testEnv is the environment of git and of git spot in these tests: nothing of the machine's but PATH.
func testEnv(key string) string {
	switch key {
	case "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM":
		return os.DevNull
	case "PATH":
		return os.Getenv("PATH")
	case "HOME":
		return "/nonexistent"
	}
	return ""
}

// git runs git in dir and returns its standard output without the last line break.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return strings.TrimSuffix(string(gitInput(t, dir, nil, args...)), "\n")
}

func gitInput(t testing.TB, dir string, input []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(input)
	for _, key := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "PATH", "HOME"} {
		cmd.Env = append(cmd.Env, key+"="+testEnv(key))
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, stderr.String())
	}
	return out
}

var formats = []string{"sha1", "sha256"} // the first is for libgit2 where it is linked, the second never

// repository makes a repository with one commit.
func repository(t testing.TB, format string) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main", "--object-format="+format)
	git(t, dir, "config", "user.name", "A User")
	git(t, dir, "config", "user.email", "user@example.org")
	write(t, dir, "src/a.txt", "one\ntwo\nthree\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "base")
	return dir
}

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// open opens the ledger of the repository in dir. Its clock goes on by a second at each look.
func open(t testing.TB, dir string) *gitstate.Ledger {
	t.Helper()
	l, err := openLedger(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func openLedger(ctx context.Context, dir string) (*gitstate.Ledger, error) {
	repo, err := gitexec.Discover(ctx, gitexec.Options{Dir: dir, Getenv: testEnv})
	if err != nil {
		return nil, err
	}
	var seconds atomic.Int64
	now := func() time.Time { return time.Unix(1714550400+seconds.Add(1), 0).UTC() }
	return gitstate.Open(ctx, repo, now)
}

// eachFormat runs fn as a subtest for a SHA-1 and a SHA-256 repository.
func eachFormat(t *testing.T, fn func(t *testing.T, dir string, l *gitstate.Ledger)) {
	t.Helper()
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			dir := repository(t, format)
			fn(t, dir, open(t, dir))
		})
	}
}

func newState(l *gitstate.Ledger, title, base string) schemas.RunState {
	now := time.Unix(1714550400, 0).UTC()
	return schemas.RunState{
		SchemaVersion: schemas.Version, State: schemas.StatePrepared, Kind: schemas.KindCode, Title: title,
		CreatedAt: now, UpdatedAt: now, Caller: "cli",
		Profile:    schemas.ProfileRef{Name: "fake", Source: "flag", Adapter: "command", Model: "m1"},
		Fallback:   []string{},
		Difficulty: schemas.Difficulty{Level: schemas.LevelLow, Source: "explicit"},
		Base:       schemas.Base{Commit: base, Branch: "refs/heads/main"}, SourceDirty: []string{},
		Worktree: "/nonexistent/worktree",
	}
}

const contract = `{"schemaVersion": 1, "title": "a task", "objective": "do it", "domain": "tooling", "risk": "low", "allowedPaths": ["src/**"],
 "acceptance": [{"id": "A1", "text": "it works"}], "verification": [{"id": "V1", "argv": ["true"]}]}
`

func newFiles() map[string][]byte {
	return map[string][]byte{"contract.json": []byte(contract), "config.json": []byte("{}\n")}
}

// prepare creates a run.
func prepare(t testing.TB, l *gitstate.Ledger, dir string, id gitstate.RunID) {
	t.Helper()
	if err := prepareRun(t.Context(), l, id, git(t, dir, "rev-parse", "main"), 16); err != nil {
		t.Fatal(err)
	}
	unlocked(t, filepath.Join(l.Repo().CommonDir, "spot", string(id)+".lock"))
}

func prepareRun(ctx context.Context, l *gitstate.Ledger, id gitstate.RunID, base string, limit int) error {
	p, ctx, err := l.Reserve(ctx, id, "prepare", limit)
	if err != nil {
		return err
	}
	return errors.Join(p.Create(ctx, gitstate.NewRun{State: newState(l, "a task", base), Files: newFiles()}), p.Close())
}

// begin begins a phase that the test ends.
func begin(t testing.TB, l *gitstate.Ledger, id gitstate.RunID, by gitstate.Trigger) *gitstate.Phase {
	t.Helper()
	p, _, err := l.Begin(t.Context(), id, string(by), by)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { finish(t, p) })
	return p
}

// finish ends a phase that has no children any more.
func finish(t testing.TB, p *gitstate.Phase) {
	t.Helper()
	path := p.LockPath()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if path != "" {
		unlocked(t, path)
	}
}

// unlocked waits until a lock is free: a child that had it may end a little later than its phase or its owner,
// and whatever another test starts has a copy until it executes its program.
func unlocked(t testing.TB, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func appendEvent(t testing.TB, p *gitstate.Phase, ev gitstate.Event) {
	t.Helper()
	if err := p.Append(t.Context(), ev); err != nil {
		t.Fatal(err)
	}
}

// candidate is what a worker turn made.
type candidate struct {
	commit, tree gitstate.OID
	diff         *gitstate.Diff
}

// change commits src/a.txt with content on base, without a branch or a checkout.
func change(t testing.TB, l *gitstate.Ledger, base, content string) candidate {
	t.Helper()
	ctx := t.Context()
	c, err := l.Store().Commit(ctx, gitstate.OID(base))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := gitstate.WriteFiles(ctx, l.Store(), c.Tree, map[string][]byte{"src/a.txt": []byte(content)})
	if err != nil {
		t.Fatal(err)
	}
	who, err := l.Signature(ctx)
	if err != nil {
		t.Fatal(err)
	}
	commit, err := l.Store().WriteCommit(ctx, gitstate.Commit{
		Tree: tree, Parents: []gitstate.OID{gitstate.OID(base)}, Author: who, Committer: who, Message: "candidate\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Diff(ctx, gitstate.OID(base), commit)
	if err != nil {
		t.Fatal(err)
	}
	return candidate{commit: commit, tree: tree, diff: d}
}

// turn takes a run through a worker turn.
func turn(t testing.TB, l *gitstate.Ledger, id gitstate.RunID, by gitstate.Trigger, content string) candidate {
	t.Helper()
	p := begin(t, l, id, by)
	defer finish(t, p)
	to := schemas.StateRunning
	if by != gitstate.ByRun {
		to = schemas.StateRevising
		if err := l.ClaimSlot(t.Context(), p, 16); err != nil {
			t.Fatal(err)
		}
	}
	appendEvent(t, p, gitstate.Event{To: to, Subject: "start", Apply: func(s *schemas.RunState) { s.Attempt++ }})
	c := change(t, l, p.State.Base.Commit, content)
	old := gitstate.ZeroOID
	if p.State.Candidate != "" {
		old = gitstate.OID(p.State.Candidate)
	}
	appendEvent(t, p, gitstate.Event{
		To: schemas.StateImplemented, Subject: "end", Apply: c.apply,
		Files: map[string][]byte{fmt.Sprintf("attempts/%d/events.jsonl", p.State.Attempt): []byte("")},
		Refs: []gitstate.RefUpdate{
			{Ref: gitstate.CandidateRef(id), New: c.commit, Old: old},
			{Ref: gitstate.AttemptRef(id, fmt.Sprint(p.State.Attempt)), New: c.commit, Old: gitstate.ZeroOID},
		},
	})
	return c
}

func (c candidate) apply(s *schemas.RunState) {
	s.Candidate, s.Tree = string(c.commit), string(c.tree)
	s.DiffSHA256, s.Diff, s.Outcome = c.diff.SHA256, &c.diff.Stat, schemas.OutcomeCompleted
	s.Verification, s.Review = nil, nil
}

// verify takes a run through a verification.
func verify(t testing.TB, l *gitstate.Ledger, id gitstate.RunID, verdict schemas.Verdict) {
	t.Helper()
	p := begin(t, l, id, gitstate.ByVerify)
	defer finish(t, p)
	if err := l.ClaimSlot(t.Context(), p, 16); err != nil { // keeps the one it has, but when it is repeated
		t.Fatal(err)
	}
	appendEvent(t, p, gitstate.Event{To: schemas.StateVerifying})
	appendEvent(t, p, gitstate.Event{To: schemas.StateReviewing, Apply: func(s *schemas.RunState) {
		s.Verification = &schemas.VerificationSummary{Verdict: verdict, Passed: 1, Total: 1, DurationMS: 1500, DiffSHA256: s.DiffSHA256}
	}})
}

// approve takes a run through an approval and returns the approved commit.
func approve(t testing.TB, l *gitstate.Ledger, id gitstate.RunID, c candidate) gitstate.OID {
	t.Helper()
	p := begin(t, l, id, gitstate.ByApprove)
	defer finish(t, p)
	who, err := l.Signature(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	commit, err := l.Store().WriteCommit(t.Context(), gitstate.Commit{
		Tree: c.tree, Parents: []gitstate.OID{gitstate.OID(p.State.Base.Commit)}, Author: who, Committer: who, Message: "approved " + string(id) + "\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	appendEvent(t, p, gitstate.Event{
		To: schemas.StateApproved,
		Apply: func(s *schemas.RunState) {
			s.Approved = string(commit)
			s.Review = &schemas.ReviewSummary{Verdict: schemas.ReviewApprove, DiffSHA256: s.DiffSHA256}
		},
		Refs: []gitstate.RefUpdate{{Ref: gitstate.CandidateRef(id), New: commit, Old: c.commit}},
	})
	return commit
}

func integrate(t testing.TB, l *gitstate.Ledger, id gitstate.RunID) {
	t.Helper()
	p := begin(t, l, id, gitstate.ByIntegrate)
	defer finish(t, p)
	appendEvent(t, p, gitstate.Event{To: schemas.StateIntegrating, Apply: func(s *schemas.RunState) {
		s.Integration = &schemas.Integration{Branch: "refs/heads/main", Old: s.Base.Commit, New: s.Approved}
	}})
	appendEvent(t, p, gitstate.Event{To: schemas.StateIntegrated})
}

func load(t testing.TB, l *gitstate.Ledger, id gitstate.RunID) *gitstate.Run {
	t.Helper()
	run, err := l.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// clean fails the test if fsck finds something.
func clean(t testing.TB, l *gitstate.Ledger) {
	t.Helper()
	problems, err := l.Fsck(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("fsck: %+v", p)
	}
}

func TestLedgerLayoutIsWhatGitReads(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		prepare(t, l, dir, "x1")
		c := turn(t, l, "x1", gitstate.ByRun, "one\n2\nthree\n")
		verify(t, l, "x1", schemas.VerdictPass)
		approved := approve(t, l, "x1", c)
		integrate(t, l, "x1")

		run := load(t, l, "x1")
		if got := git(t, dir, "rev-parse", "refs/spot/runs/x1"); got != string(run.Head) {
			t.Errorf("head %s, want %s", run.Head, got)
		}
		want := strings.Join([]string{"integrated", "integrating", "approved", "reviewing", "verifying", "end", "start", "prepare"}, "\n")
		if got := git(t, dir, "log", "--format=%s", "refs/spot/runs/x1"); got != want {
			t.Errorf("log:\n%s\nwant:\n%s", got, want)
		}
		if got := git(t, dir, "log", "--format=%P", "refs/spot/runs/x1"); strings.Contains(got, " ") {
			t.Errorf("an event has more than one parent: %s", got)
		}
		trailers := git(t, dir, "log", "-1", "--format=%(trailers:only,unfold)", "refs/spot/runs/x1")
		wantTrailers := strings.Join([]string{
			"Spot-Run: x1", "Spot-State: integrated", "Spot-Attempt: 1", "Spot-Caller: cli", "Spot-Profile: fake", "Spot-Title: a task",
			"Spot-Candidate: " + string(c.commit), "Spot-Diff-Sha256: " + c.diff.SHA256,
			"Spot-Updated: " + run.State.UpdatedAt.Format(time.RFC3339Nano), "",
		}, "\n")
		if trailers != wantTrailers {
			t.Errorf("trailers:\n%s\nwant:\n%s", trailers, wantTrailers)
		}
		if got := git(t, dir, "show", "refs/spot/runs/x1:contract.json") + "\n"; got != contract {
			t.Errorf("contract.json is %q", got)
		}
		if got := git(t, dir, "log", "-1", "--format=%an <%ae> %cn <%ce>", "refs/spot/runs/x1"); got != "A User <user@example.org> A User <user@example.org>" {
			t.Errorf("written by %s", got)
		}
		files := git(t, dir, "ls-tree", "-r", "--name-only", "refs/spot/runs/x1")
		if files != "attempts/1/events.jsonl\nconfig.json\ncontract.json\nstate.json" {
			t.Errorf("files:\n%s", files)
		}
		if got := git(t, dir, "rev-parse", "refs/spot/candidates/x1"); got != string(approved) {
			t.Errorf("candidates/x1 is %s, want %s", got, approved)
		}
		clean(t, l)
	})
}

func TestLedgerWithoutIdentity(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, _ *gitstate.Ledger) {
		base := git(t, dir, "rev-parse", "main")
		git(t, dir, "config", "--unset", "user.email")
		l := open(t, dir) // it asks once
		if err := prepareRun(t.Context(), l, "x1", base, 4); err != nil {
			t.Fatal(err)
		}
		if got := git(t, dir, "log", "-1", "--format=%an <%ae> %cn <%ce>", "refs/spot/runs/x1"); got != "git-spot <git-spot@localhost> git-spot <git-spot@localhost>" {
			t.Errorf("written by %s", got)
		}
	})
}

func TestCreateRefusesAnIDWithRefs(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{
		"refs/spot/runs/x1", "refs/spot/runs/x1/y", "refs/spot/candidates/x1", "refs/spot/candidates/x1/y",
		"refs/spot/attempts/x1", "refs/spot/attempts/x1/1", "refs/spot/attempts/x1/2.1",
	} {
		t.Run(strings.ReplaceAll(ref, "/", "_"), func(t *testing.T) {
			t.Parallel()
			dir := repository(t, "sha1")
			l := open(t, dir)
			base := git(t, dir, "rev-parse", "main")
			git(t, dir, "update-ref", ref, base)
			err := prepareRun(t.Context(), l, "x1", base, 4)
			exists, ok := errors.AsType[*gitstate.ExistsError](err)
			if !ok || string(exists.Ref) != ref || exists.Code() != schemas.CodeRunExists {
				t.Errorf("err = %v, want RUN_EXISTS for %s", err, ref)
			}
			if refs := git(t, dir, "for-each-ref", "--format=%(refname)", "refs/spot"); refs != ref {
				t.Errorf("refs are %s", refs)
			}
			if err := prepareRun(t.Context(), l, "x1-2", base, 4); err != nil {
				t.Errorf("the id x1-2 is free: %v", err)
			}
		})
	}
}

func TestLoadResolveListHistory(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		ctx := t.Context()
		if runs, err := l.List(ctx); err != nil || len(runs) != 0 {
			t.Errorf("List of nothing: %v, %v", runs, err)
		}
		for _, id := range []gitstate.RunID{"ab", "abc", "abd", "b.1"} {
			prepare(t, l, dir, id)
		}
		for word, want := range map[string]string{
			"ab": "ab", "abc": "abc", "b": "b.1", "b.": "b.1", "a": "RUN_AMBIGUOUS", "z": "RUN_NOT_FOUND",
			"": "USAGE", "../x": "USAGE", "A": "USAGE", "b..": "USAGE", "a b": "USAGE", strings.Repeat("a", 65): "USAGE",
		} {
			id, err := l.Resolve(ctx, word)
			got := string(id)
			if coded, ok := errors.AsType[schemas.Coded](err); ok {
				got = string(coded.Code())
			}
			if got != want {
				t.Errorf("Resolve(%q) = %q, %v, want %s", word, id, err, want)
			}
		}
		if _, err := l.Load(ctx, "nope"); !hasCode(err, schemas.CodeRunNotFound) {
			t.Errorf("Load(nope): %v", err)
		}
		if _, err := l.History(ctx, "nope"); !hasCode(err, schemas.CodeRunNotFound) {
			t.Errorf("History(nope): %v", err)
		}
		c := turn(t, l, "abc", gitstate.ByRun, "1\n")
		entries, err := l.History(ctx, "abc")
		if err != nil {
			t.Fatal(err)
		}
		var story []string
		for _, e := range entries {
			story = append(story, e.Subject+" "+string(e.State))
		}
		if want := []string{"end implemented", "start running", "prepare prepared"}; !slices.Equal(story, want) {
			t.Errorf("History = %q, want %q", story, want)
		}
		if e := entries[0]; e.Candidate != c.commit || e.DiffSHA256 != c.diff.SHA256 || e.Attempt != 1 {
			t.Errorf("newest entry is %+v", e)
		}
		runs, err := l.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, r := range runs {
			ids = append(ids, string(r.ID))
			if r.Err != nil || r.Title != "a task" || r.Caller != "cli" || r.Profile != "fake" || r.Interrupted {
				t.Errorf("row %+v", r)
			}
		}
		if want := []string{"ab", "abc", "abd", "b.1"}; !slices.Equal(ids, want) {
			t.Errorf("List has %q, want %q", ids, want)
		}
		run := load(t, l, "abc")
		if data, err := l.File(ctx, run, "contract.json"); err != nil || string(data) != contract {
			t.Errorf("File = %q, %v", data, err)
		}
		for _, path := range []string{"nope", "attempts/7/x", "contract.json/x"} {
			if _, err := l.File(ctx, run, path); !errors.Is(err, gitstate.ErrNoFile) {
				t.Errorf("File(%s): %v, want ErrNoFile", path, err)
			}
		}
	})
}

func hasCode(err error, code schemas.Code) bool {
	coded, ok := errors.AsType[schemas.Coded](err)
	return ok && coded.Code() == code
}

func TestCorruptRunLeavesTheOthers(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		ctx := t.Context()
		prepare(t, l, dir, "good")
		blob := func(data string) string {
			return strings.TrimSpace(string(gitInput(t, dir, []byte(data), "hash-object", "-w", "--stdin")))
		}
		message := git(t, dir, "log", "-1", "--format=%B", "refs/spot/runs/good")
		event := func(id, state, message string) {
			tree := strings.TrimSpace(string(gitInput(t, dir, []byte("100644 blob "+blob(state)+"\tstate.json\n"), "mktree")))
			commit := strings.TrimSpace(string(gitInput(t, dir, []byte(strings.Replace(message, "Spot-Run: good", "Spot-Run: "+id, 1)), "commit-tree", tree)))
			git(t, dir, "update-ref", "refs/spot/runs/"+id, commit)
		}
		state := git(t, dir, "show", "refs/spot/runs/good:state.json")
		bad := map[string]string{"empty": "", "cut": `{"schemaVersion": 1`, "zeros": "\x00\x00\x00\x00", "list": "[]", "null": "null", "other": state}
		for id, content := range bad {
			event(id, content, message)
		}
		event("untold", strings.Replace(state, `"good"`, `"untold"`, 1), "no trailers\n")
		git(t, dir, "update-ref", "refs/spot/runs/blob", blob("x"))
		git(t, dir, "update-ref", "refs/spot/runs/foreign", "main")
		torn := filepath.Join(dir, ".git/refs/spot/runs/torn")
		if err := os.WriteFile(torn, []byte("\x00\x00\x00\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		before := git(t, dir, "for-each-ref")

		rows, err := l.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != 11 {
			t.Errorf("List has %d rows, want 11: %+v", len(rows), rows)
		}
		for _, row := range rows {
			_, loadErr := l.Load(ctx, row.ID)
			switch row.ID {
			case "good":
				if row.Err != nil || loadErr != nil {
					t.Errorf("good: %v, %v", row.Err, loadErr)
				}
				continue
			case "untold":
				if !hasCode(row.Err, schemas.CodeLedgerCorrupt) {
					t.Errorf("row %+v", row)
				}
				continue
			case "blob", "foreign", "torn":
				if !hasCode(row.Err, schemas.CodeLedgerCorrupt) {
					t.Errorf("row %+v", row)
				}
			}
			if !hasCode(loadErr, schemas.CodeLedgerCorrupt) {
				t.Errorf("Load(%s) = %v, want LEDGER_CORRUPT", row.ID, loadErr)
			}
			if _, _, err := l.Begin(ctx, row.ID, "run", gitstate.ByRun); !hasCode(err, schemas.CodeLedgerCorrupt) {
				t.Errorf("Begin(%s) = %v, want LEDGER_CORRUPT", row.ID, err)
			}
			if id, err := l.Resolve(ctx, string(row.ID)); err != nil || id != row.ID {
				t.Errorf("Resolve(%s) = %s, %v", row.ID, id, err)
			}
		}
		if err := prepareRun(ctx, l, "torn", git(t, dir, "rev-parse", "main"), 4); !hasCode(err, schemas.CodeRunExists) {
			t.Errorf("prepare over a torn ref: %v, want RUN_EXISTS", err)
		}
		problems, err := l.Fsck(ctx)
		if err != nil {
			t.Fatal(err)
		}
		found := map[gitstate.RunID]bool{}
		for _, p := range problems {
			found[p.Run] = true
			if strings.Contains(p.What+p.Remains, "\n") || p.What == "" || p.Remains == "" {
				t.Errorf("problem %+v", p)
			}
		}
		if len(found) != 10 || found["good"] {
			t.Errorf("Fsck found problems of %v", found)
		}
		if after := git(t, dir, "for-each-ref"); after != before {
			t.Errorf("refs changed from\n%s\nto\n%s", before, after)
		}
	})
}

func TestNewID(t *testing.T) {
	t.Parallel()
	l := open(t, repository(t, "sha1"))
	for title, want := range map[string]string{
		"Fix the parser":                   "20240501-fix-the-parser-",
		"":                                 "20240501-",
		"日本語":                              "20240501-",
		"Déjà vu: naïve café №5":           "20240501-deja-vu-naive-cafe-no5-",
		"../../etc/passwd\n.lock..":        "20240501-etc-passwd-lock-",
		strings.Repeat("x", 100):           "20240501-" + strings.Repeat("x", 40) + "-",
		strings.Repeat("word ", 100):       "20240501-" + strings.Repeat("word-", 8),
		"ﬁne \xff\xfe İstanbul ıı -- a__b": "20240501-fine-istanbul-a-b-",
	} {
		id := l.NewID(title)
		if got := string(id[:len(id)-6]); got != want {
			t.Errorf("NewID(%q) = %q, want %q and six characters", title, id, want)
		}
		if _, err := gitstate.ParseRunID(string(id)); err != nil {
			t.Errorf("NewID(%q): %v", title, err)
		}
	}
	seen := map[gitstate.RunID]bool{}
	for range 1000 {
		seen[l.NewID("x")] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d distinct ids of 1000", len(seen))
	}
}
