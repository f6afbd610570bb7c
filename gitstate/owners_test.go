package gitstate_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
)

func TestBeginRefusesAndWritesNothing(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		prepare(t, l, dir, "x1")
		before := git(t, dir, "for-each-ref")
		for _, by := range triggers {
			if by == gitstate.ByRun || by == gitstate.ByAbort {
				continue
			}
			_, _, err := l.Begin(t.Context(), "x1", string(by), by)
			wrong, ok := errors.AsType[*gitstate.WrongStateError](err)
			if !ok || wrong.Code() != schemas.CodeWrongState || wrong.State != schemas.StatePrepared || wrong.Due != "git spot run --id x1" {
				t.Errorf("%s: %v", by, err)
			}
		}
		if _, _, err := l.Begin(t.Context(), "nope", "run", gitstate.ByRun); !hasCode(err, schemas.CodeRunNotFound) {
			t.Errorf("Begin(nope): %v", err)
		}
		if _, err := os.Stat(filepath.Join(dir, ".git/spot/nope.lock")); err == nil {
			t.Error("there is a lock of a run that does not exist")
		}
		p := begin(t, l, "x1", gitstate.ByRun)
		if _, _, err := l.Begin(t.Context(), "x1", "run", gitstate.ByRun); !hasCode(err, schemas.CodeLockHeld) {
			t.Errorf("beside a phase without an event: %v", err)
		}
		finish(t, p)
		finish(t, p) // again
		if after := git(t, dir, "for-each-ref"); after != before {
			t.Errorf("refs changed from\n%s\nto\n%s", before, after)
		}
		finish(t, begin(t, l, "x1", gitstate.ByRun))
	})
}

func TestAppendRefusesAndWritesNothing(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		ctx := t.Context()
		prepare(t, l, dir, "x1")
		p := begin(t, l, "x1", gitstate.ByRun)
		before := git(t, dir, "for-each-ref")
		run := p.Run
		refused := func(what string, ev gitstate.Event) {
			t.Helper()
			err := p.Append(ctx, ev)
			if _, ok := errors.AsType[*gitstate.TransitionError](err); !ok && !hasCode(err, schemas.CodeConflict) {
				t.Errorf("%s: %v", what, err)
			}
			if after := git(t, dir, "for-each-ref"); after != before {
				t.Fatalf("%s: refs changed from\n%s\nto\n%s", what, before, after)
			}
			if p.Head != run.Head || p.State.State != run.State.State {
				t.Errorf("%s: the phase is at %s %s", what, p.Head, p.State.State)
			}
		}
		refused("no row", gitstate.Event{To: schemas.StateApproved})
		base := gitstate.OID(run.State.Base.Commit)
		refused("a ref that is not where it should be", gitstate.Event{To: schemas.StateRunning, Refs: []gitstate.RefUpdate{
			{Ref: gitstate.CandidateRef("x1"), New: base, Old: base},
		}})
		// What no reader would take ends a run for good.
		unreadable := gitstate.Event{To: schemas.StateRunning, Apply: func(s *schemas.RunState) { s.Revisions = -1 }}
		if err := p.Append(ctx, unreadable); err == nil || hasCode(err, schemas.CodeLedgerCorrupt) || git(t, dir, "for-each-ref") != before {
			t.Errorf("a state that does not fit its schema: %v", err)
		}
		cancelled, cancel := context.WithCancelCause(ctx)
		stop := errors.New("stop")
		cancel(stop)
		if err := p.Append(cancelled, gitstate.Event{To: schemas.StateRunning}); !errors.Is(err, stop) {
			t.Errorf("Append after the end: %v", err)
		}

		// Somebody writes behind our back.
		git(t, dir, "update-ref", "refs/spot/runs/x1", git(t, dir, "commit-tree", "-p", string(run.Head), "-m", "x", string(run.Head)+"^{tree}"))
		before = git(t, dir, "for-each-ref")
		refused("the run has moved", gitstate.Event{To: schemas.StateRunning})
	})
}

func TestAppendKeepsWhatIsNotTheCallersBusiness(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		prepare(t, l, dir, "x1")
		p := begin(t, l, "x1", gitstate.ByRun)
		kept := p.State
		warnings := []string{"w"}
		appendEvent(t, p, gitstate.Event{To: schemas.StateRunning, Code: "X", Apply: func(s *schemas.RunState) {
			if s.State != schemas.StateRunning || s.Owner == nil || s.Owner.PID != os.Getpid() || s.Owner.Command != "run" || s.Code != "X" {
				t.Errorf("Apply sees %+v", s)
			}
			s.ID, s.State, s.Kind, s.SchemaVersion, s.Slot = "other", "other", "other", 9, 9
			s.Warnings, s.Fallback = warnings, append(s.Fallback, "z")
		}})
		if s := p.State; s.ID != "x1" || s.State != schemas.StateRunning || s.Kind != schemas.KindCode || s.SchemaVersion != 1 || s.Slot != 1 {
			t.Errorf("state %+v", s)
		}
		if len(kept.Fallback) != 0 || p.State.UpdatedAt.Equal(kept.UpdatedAt) {
			t.Errorf("the state before is %+v", kept)
		}
		appendEvent(t, p, gitstate.Event{To: schemas.StateBlocked, Apply: func(s *schemas.RunState) {
			s.Owner = p.Owner()
			s.Blocked = &schemas.Blocked{Cause: schemas.BlockedEnvironment, Code: schemas.CodeWorkerAuth, Message: "no key"}
		}})
		s := load(t, l, "x1").State
		if s.Owner != nil || s.Code != "" || s.Slot != 0 || s.Blocked.From != schemas.StatePrepared || slotRefs(t, dir) != "" {
			t.Errorf("state %+v", s)
		}
		finish(t, p)
		p = begin(t, l, "x1", gitstate.ByRecover)
		if err := l.ClaimSlot(t.Context(), p, 1); err != nil {
			t.Fatal(err)
		}
		appendEvent(t, p, gitstate.Event{To: schemas.StatePrepared})
		if s := load(t, l, "x1").State; s.Blocked != nil || s.Slot != 1 {
			t.Errorf("state %+v", s)
		}
	})
}

// own leaves run x1 in the hands of the owner that change makes of this process.
func own(t *testing.T, l *gitstate.Ledger, change func(*schemas.Owner)) *gitstate.Phase {
	t.Helper()
	p := begin(t, l, "x1", gitstate.ByRun)
	appendEvent(t, p, gitstate.Event{To: schemas.StateRunning, Apply: func(s *schemas.RunState) { change(s.Owner) }})
	finish(t, p)
	return p
}

func TestOwnerIsGoneOnlyIfThatIsProven(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*schemas.Owner)
		gone   bool
	}{
		"alive":                    {func(*schemas.Owner) {}, false},
		"old":                      {func(o *schemas.Owner) { o.Since = time.Unix(0, 0) }, false},
		"another start":            {func(o *schemas.Owner) { o.ProcessStart++ }, true},
		"no such pid":              {func(o *schemas.Owner) { o.PID = 1 << 30 }, true},
		"another boot":             {func(o *schemas.Owner) { o.BootID = "before" }, true},
		"another host":             {func(o *schemas.Owner) { o.Host, o.PID = "elsewhere", 1<<30 }, false},
		"another host and boot":    {func(o *schemas.Owner) { o.Host, o.BootID = "elsewhere", "before" }, false},
		"no host":                  {func(o *schemas.Owner) { o.Host, o.PID = "", 1<<30 }, false},
		"another pid namespace":    {func(o *schemas.Owner) { o.PIDNamespace, o.PID = "pid:[1]", 1<<30 }, false},
		"another boot and space":   {func(o *schemas.Owner) { o.PIDNamespace, o.BootID = "pid:[1]", "before" }, true},
		"no boot":                  {func(o *schemas.Owner) { o.BootID, o.PID = "", 1<<30 }, false},
		"no pid namespace":         {func(o *schemas.Owner) { o.PIDNamespace, o.PID = "", 1<<30 }, false},
		"unknown start, pid alive": {func(o *schemas.Owner) { o.ProcessStart = 0 }, false},
		"foreign process":          {func(o *schemas.Owner) { o.PID, o.ProcessStart = 1, 0 }, false},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			dir := repository(t, "sha1")
			l := open(t, dir)
			ctx := t.Context()
			prepare(t, l, dir, "x1")
			old := own(t, l, c.change)
			run := load(t, l, "x1")
			if got := l.Interrupted(ctx, run); got != c.gone {
				t.Errorf("Interrupted = %v, want %v", got, c.gone)
			}
			rows, err := l.List(ctx)
			if err != nil || len(rows) != 1 || rows[0].Interrupted != c.gone {
				t.Errorf("List = %+v, %v", rows, err)
			}
			before := git(t, dir, "for-each-ref")
			_, _, err = l.Begin(ctx, "x1", "run", gitstate.ByRun)
			if !c.gone {
				held, ok := errors.AsType[*gitstate.HeldError](err)
				if !ok || held.Owner == nil || held.Code() != schemas.CodeLockHeld {
					t.Errorf("Begin = %v, want LOCK_HELD", err)
				}
				if _, _, err := l.Begin(ctx, "x1", "recover", gitstate.ByRecover); !hasCode(err, schemas.CodeLockHeld) {
					t.Errorf("Begin for recover = %v, want LOCK_HELD", err)
				}
				if after := git(t, dir, "for-each-ref"); after != before {
					t.Errorf("refs changed from\n%s\nto\n%s", before, after)
				}
				return
			}
			wrong, ok := errors.AsType[*gitstate.WrongStateError](err)
			if !ok || !wrong.Interrupted || wrong.Due != "git spot recover --id x1" {
				t.Errorf("Begin = %v, want WRONG_STATE", err)
			}

			// A child of the owner still holds the lock: then it is not gone.
			lock, err := durable.TryLock(filepath.Join(dir, ".git/spot/x1.lock"))
			if err != nil {
				t.Fatal(err)
			}
			if l.Interrupted(ctx, run) {
				t.Error("interrupted while the lock is held")
			}
			if _, _, err := l.Begin(ctx, "x1", "recover", gitstate.ByRecover); !hasCode(err, schemas.CodeLockHeld) {
				t.Errorf("Begin for recover while the lock is held = %v", err)
			}
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
			if after := git(t, dir, "for-each-ref"); after != before {
				t.Errorf("refs changed from\n%s\nto\n%s", before, after)
			}

			p := begin(t, l, "x1", gitstate.ByRecover)
			if s := load(t, l, "x1").State; s.State != schemas.StateRunning || s.Owner == nil || s.Owner.PID != os.Getpid() || s.Owner.Command != "recover" {
				t.Errorf("after the take-over: %+v", s)
			}
			if err := old.Append(ctx, gitstate.Event{To: schemas.StateInterrupted}); !hasCode(err, schemas.CodeConflict) {
				t.Errorf("the old owner, revived, writes: %v", err)
			}
			appendEvent(t, p, gitstate.Event{To: schemas.StatePrepared})
			finish(t, p)
			finish(t, begin(t, l, "x1", gitstate.ByRun))
			clean(t, l)
		})
	}
}

func TestOwnerThatCrashed(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		ctx := t.Context()
		prepare(t, l, dir, "x1")
		owner := startChild(t, "own", dir, "x1", "")
		owner.expect(t, "owner")
		if l.Interrupted(ctx, load(t, l, "x1")) {
			t.Error("interrupted while the owner lives")
		}
		if _, _, err := l.Begin(ctx, "x1", "recover", gitstate.ByRecover); !hasCode(err, schemas.CodeLockHeld) {
			t.Errorf("recover while the owner lives: %v", err)
		}
		owner.kill(t)
		unlocked(t, filepath.Join(dir, ".git/spot/x1.lock"))
		if !l.Interrupted(ctx, load(t, l, "x1")) {
			t.Error("not interrupted after the owner was killed")
		}
		p := begin(t, l, "x1", gitstate.ByRecover)
		appendEvent(t, p, gitstate.Event{To: schemas.StatePrepared})
		if n := strings.Count(git(t, dir, "log", "--format=%s", "refs/spot/runs/x1"), "\n"); n != 3 {
			t.Errorf("%d events, want 4: prepare, run, take over, prepared", n+1)
		}
		clean(t, l)
	})
}

func TestAbortEndsALiveOwner(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		prepare(t, l, dir, "x1")
		owner := startChild(t, "own", dir, "x1", "")
		owner.expect(t, "owner")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = owner.Wait() // its end is judged below
		}()
		p, _, err := l.TakeOver(t.Context(), "x1", "abort", gitstate.ByAbort)
		if err != nil {
			t.Fatal(err)
		}
		defer finish(t, p)
		appendEvent(t, p, gitstate.Event{To: schemas.StateAborted})
		<-done
		if status, ok := owner.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
			t.Errorf("the owner ended with %v", owner.ProcessState)
		}
		if s := load(t, l, "x1").State; s.State != schemas.StateAborted || s.Owner != nil || slotRefs(t, dir) != "" {
			t.Errorf("state %+v, slots %q", s, slotRefs(t, dir))
		}
		clean(t, l)
	})
}

func TestAbortDisplacesAnOwnerThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		prepare(t, l, dir, "x1")
		owner := startChild(t, "own", dir, "x1", "ignore")
		owner.expect(t, "owner")
		l.SetAbortWait(300 * time.Millisecond)
		p, _, err := l.TakeOver(t.Context(), "x1", "abort", gitstate.ByAbort)
		if err != nil {
			t.Fatal(err)
		}
		appendEvent(t, p, gitstate.Event{To: schemas.StateAborted})
		finish(t, p)
		owner.release()
		owner.expect(t, string(schemas.CodeConflict))
		if s := load(t, l, "x1").State.State; s != schemas.StateAborted {
			t.Errorf("state %s", s)
		}
		clean(t, l)
	})
}

func TestAbortLeavesAnIntegratingOwnerAlone(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		prepare(t, l, dir, "x1")
		c := turn(t, l, "x1", gitstate.ByRun, "1\n")
		verify(t, l, "x1", schemas.VerdictPass)
		approve(t, l, "x1", c)
		owner := startChild(t, "own", dir, "x1", "")
		owner.expect(t, "owner")
		if _, _, err := l.TakeOver(t.Context(), "x1", "abort", gitstate.ByAbort); !hasCode(err, schemas.CodeLockHeld) {
			t.Errorf("abort of an integrating run: %v", err)
		}
		owner.release()
		owner.expect(t, "appended")
		if s := load(t, l, "x1").State.State; s != schemas.StateApproved {
			t.Errorf("state %s", s)
		}
	})
}

func TestAbortOfWhatCannotBeSignalled(t *testing.T) {
	t.Parallel()
	dir := repository(t, "sha1")
	l := open(t, dir)
	prepare(t, l, dir, "x1")
	own(t, l, func(o *schemas.Owner) { o.Host = "elsewhere" })
	before := git(t, dir, "for-each-ref")
	if _, _, err := l.TakeOver(t.Context(), "x1", "abort", gitstate.ByAbort); !hasCode(err, schemas.CodeLockHeld) {
		t.Errorf("abort: %v", err)
	}
	if after := git(t, dir, "for-each-ref"); after != before {
		t.Errorf("refs changed from\n%s\nto\n%s", before, after)
	}
}

func TestSelfReviewIsParkedOrOwned(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		ctx := t.Context()
		prepare(t, l, dir, "x1")
		turn(t, l, "x1", gitstate.ByRun, "1\n")
		p := begin(t, l, "x1", gitstate.ByVerify)
		appendEvent(t, p, gitstate.Event{To: schemas.StateVerifying})
		appendEvent(t, p, gitstate.Event{To: schemas.StateSelfReviewing, Apply: func(s *schemas.RunState) {
			s.Verification = &schemas.VerificationSummary{Verdict: schemas.VerdictPass, DiffSHA256: s.DiffSHA256}
		}})
		finish(t, p)
		for _, by := range []gitstate.Trigger{gitstate.BySelfReview, gitstate.ByApprove, gitstate.ByRevise, gitstate.ByRebase} {
			finish(t, begin(t, l, "x1", by))
		}
		if _, _, err := l.Begin(ctx, "x1", "recover", gitstate.ByRecover); !hasCode(err, schemas.CodeWrongState) {
			t.Errorf("recover of a parked run: %v", err)
		}
		p = begin(t, l, "x1", gitstate.BySelfReview)
		appendEvent(t, p, gitstate.Event{To: schemas.StateSelfReviewing, Apply: func(s *schemas.RunState) {
			s.Owner = p.Owner()
			s.Owner.PID = 1 << 30
		}})
		finish(t, p)
		if !l.Interrupted(ctx, load(t, l, "x1")) {
			t.Error("a self-review whose owner is gone is not interrupted")
		}
		if _, _, err := l.Begin(ctx, "x1", "approve", gitstate.ByApprove); !hasCode(err, schemas.CodeWrongState) {
			t.Errorf("approve of an interrupted self-review: %v", err)
		}
		p = begin(t, l, "x1", gitstate.ByRecover)
		appendEvent(t, p, gitstate.Event{To: schemas.StateReviewing})
		clean(t, l)
	})
}

// The lock outlives the phase as long as a child of the phase lives, and no longer.
func TestChildrenOfAPhaseHoldTheLock(t *testing.T) {
	t.Parallel()
	dir := repository(t, "sha1")
	l := open(t, dir)
	prepare(t, l, dir, "x1")
	p, ctx, err := l.Begin(t.Context(), "x1", "run", gitstate.ByRun)
	if err != nil {
		t.Fatal(err)
	}
	cat, err := proc.LookPath("cat", os.Getenv("PATH"))
	if err != nil {
		t.Fatal(err)
	}
	stdin, feed := io.Pipe()
	answer, said := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := proc.Exec(ctx, proc.Command{Argv: []string{cat}, Dir: dir, Env: []string{}, Stdin: stdin, Stdout: said})
		done <- err
	}()
	if _, err := feed.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(answer, make([]byte, 1)); err != nil { // it runs
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Begin(t.Context(), "x1", "run", gitstate.ByRun); !hasCode(err, schemas.CodeLockHeld) {
		t.Errorf("while a child lives: %v", err)
	}
	_ = feed.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	unlocked(t, filepath.Join(dir, ".git/spot/x1.lock"))
	finish(t, begin(t, l, "x1", gitstate.ByRun))
}
