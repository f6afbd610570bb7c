package gitstate_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

func slotRefs(t testing.TB, dir string) string {
	t.Helper()
	return git(t, dir, "for-each-ref", "--format=%(refname)", "refs/spot/slots")
}

// patiently does again what a lock file of git's was in the way of: whoever holds it may have to wait for a
// processor.
func patiently(do func() error) error {
	for {
		err := do()
		if _, locked := errors.AsType[*gitstate.LockError](err); !locked {
			return err
		}
	}
}

func TestSlotsAreExactUnderManyProcesses(t *testing.T) {
	t.Parallel()
	for format, processes := range map[string]int{"sha1": 64, "sha256": 16} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			dir := repository(t, format)
			base := git(t, dir, "rev-parse", "main")
			var all []*process
			for i := range processes {
				all = append(all, startChild(t, "prepare", dir, fmt.Sprintf("x%d", i), base, "4"))
			}
			for _, p := range all {
				p.expect(t, "ready")
			}
			for _, p := range all {
				p.release()
			}
			said := map[string]int{}
			for _, p := range all {
				said[p.next()]++
			}
			if said["prepared"] != 4 || said["CONCURRENCY_LIMIT"] != processes-4 {
				t.Errorf("children said %v", said)
			}
			refs := git(t, dir, "for-each-ref", "--format=%(refname)", "refs/spot")
			if n := strings.Count(refs, "refs/spot/runs/"); n != 4 || strings.Count(refs, "\n") != 7 {
				t.Errorf("refs:\n%s", refs)
			}
			l := open(t, dir)
			holders, err := l.Slots(t.Context())
			if err != nil || len(holders) != 4 {
				t.Errorf("Slots = %+v, %v", holders, err)
			}
			for i, h := range holders {
				if h.Slot != i+1 || h.State != schemas.StatePrepared || h.Run == "" || h.Since.IsZero() {
					t.Errorf("holder %+v", h)
				}
				if run := load(t, l, h.Run); run.State.Slot != h.Slot {
					t.Errorf("run %s says slot %d, slot %d names it", h.Run, run.State.Slot, h.Slot)
				}
			}
			clean(t, l)
		})
	}
}

func TestSlotsAreNeverOverfull(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, _ *gitstate.Ledger) {
		const limit, workers, rounds = 3, 8, 6
		var holding, most, got atomic.Int64
		var wg sync.WaitGroup
		for w := range workers {
			l := open(t, dir) // as another process would
			wg.Go(func() {
				for r := range rounds {
					var p *gitstate.Phase
					err := patiently(func() (err error) {
						p, _, err = l.Reserve(t.Context(), gitstate.RunID(fmt.Sprintf("w%d-%d", w, r)), "prepare", limit)
						return err
					})
					if _, full := errors.AsType[*gitstate.ConcurrencyError](err); full {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					n := holding.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					got.Add(1)
					holding.Add(-1)
					if err := p.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if most.Load() > limit || got.Load() < 1 {
			t.Errorf("%d held at once, %d claims", most.Load(), got.Load())
		}
		if left := slotRefs(t, dir); left != "" {
			t.Errorf("left behind: %s", left)
		}
	})
}

func TestSlotOfAClaimantThatIsGone(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		base := git(t, dir, "rev-parse", "main")
		p := startChild(t, "reserve", dir, "x1", "1")
		p.expect(t, "reserved")
		if err := prepareRun(t.Context(), l, "x2", base, 1); !hasCode(err, schemas.CodeConcurrencyLimit) {
			t.Errorf("while the claimant lives: %v", err)
		}
		if err := prepareRun(t.Context(), l, "x1", base, 2); !hasCode(err, schemas.CodeLockHeld) {
			t.Errorf("the same id while the claimant lives: %v", err)
		}
		p.kill(t)
		unlocked(t, filepath.Join(dir, ".git/spot/x1.lock"))
		if err := prepareRun(t.Context(), l, "x2", base, 1); err != nil {
			t.Errorf("after the claimant has gone: %v", err)
		}
		if err := prepareRun(t.Context(), l, "x1", base, 1); !hasCode(err, schemas.CodeConcurrencyLimit) {
			t.Errorf("while x2 is prepared: %v", err)
		}
		clean(t, l)
	})
}

func TestSlotIsHeldInHoldingStates(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		ctx := t.Context()
		base := git(t, dir, "rev-parse", "main")
		full := func() bool {
			t.Helper()
			p, _, err := l.Reserve(ctx, "probe", "prepare", 1)
			if hasCode(err, schemas.CodeConcurrencyLimit) {
				return true
			}
			if err != nil {
				t.Fatal(err)
			}
			finish(t, p)
			return false
		}
		if err := prepareRun(ctx, l, "x1", base, 1); err != nil {
			t.Fatal(err)
		}
		claim := git(t, dir, "rev-parse", "refs/spot/slots/1")
		if !full() {
			t.Error("free while prepared")
		}
		turn(t, l, "x1", gitstate.ByRun, "1\n")
		if !full() {
			t.Error("free while implemented")
		}
		verify(t, l, "x1", schemas.VerdictFail)
		if full() || slotRefs(t, dir) != "" {
			t.Errorf("held while reviewing: %s", slotRefs(t, dir))
		}

		// The same slot left behind by a killed transaction is free, whoever claimed it.
		git(t, dir, "update-ref", "refs/spot/slots/1", claim)
		if full() {
			t.Error("a slot whose run is reviewing is held")
		}
		if left := slotRefs(t, dir); left != "" {
			t.Errorf("left behind: %s", left)
		}

		// A revision claims again; the claim counts before its event.
		p := begin(t, l, "x1", gitstate.ByRevise)
		if err := p.Append(ctx, gitstate.Event{To: schemas.StateRevising}); err == nil {
			t.Error("revising without a slot")
		}
		if err := l.ClaimSlot(ctx, p, 1); err != nil {
			t.Fatal(err)
		}
		if !full() {
			t.Error("free while a revision has claimed it")
		}
		finish(t, p)
		if full() || slotRefs(t, dir) != "" {
			t.Errorf("held after a revision that did not start: %s", slotRefs(t, dir))
		}
		if run := load(t, l, "x1"); run.State.State != schemas.StateReviewing {
			t.Errorf("the run is %s", run.State.State)
		}

		if err := prepareRun(ctx, l, "x2", base, 1); err != nil {
			t.Fatal(err)
		}
		p = begin(t, l, "x1", gitstate.ByRevise)
		before := git(t, dir, "for-each-ref")
		if err := l.ClaimSlot(ctx, p, 1); !hasCode(err, schemas.CodeConcurrencyLimit) {
			t.Errorf("a revision beside x2: %v", err)
		} else if limit, ok := errors.AsType[*gitstate.ConcurrencyError](err); !ok || len(limit.Holders) != 1 || limit.Holders[0].Run != "x2" || limit.Max != 1 {
			t.Errorf("%+v", limit)
		}
		if after := git(t, dir, "for-each-ref"); after != before {
			t.Errorf("a refused claim changed refs from\n%s\nto\n%s", before, after)
		}
		finish(t, p)
		clean(t, l)
	})
}

func TestSlotThatCannotBeReadIsHeld(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		base := git(t, dir, "rev-parse", "main")
		for i, content := range []string{"", "{", "null", `{"schemaVersion": 2}`, `{"schemaVersion": 1, "run": "../x", "head": "0"}`} {
			blob := strings.TrimSpace(string(gitInput(t, dir, []byte(content), "hash-object", "-w", "--stdin")))
			git(t, dir, "update-ref", fmt.Sprintf("refs/spot/slots/%d", i+1), blob)
		}
		git(t, dir, "update-ref", "refs/spot/slots/6/x", base) // in the way of 6
		if err := prepareRun(t.Context(), l, "x1", base, 6); !hasCode(err, schemas.CodeConcurrencyLimit) {
			t.Errorf("six unreadable slots of six: %v", err)
		}
		if err := prepareRun(t.Context(), l, "x1", base, 7); err != nil {
			t.Errorf("six unreadable slots of seven: %v", err)
		}
		problems, err := l.Fsck(t.Context())
		if err != nil || len(problems) != 6 {
			t.Errorf("Fsck = %+v, %v", problems, err)
		}
	})
}

func TestChooseSlotUnderALoweredLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		held, stale []int
		limit, want int
	}{
		{nil, nil, 1, 1},
		{[]int{1}, nil, 1, 0},
		{[]int{1}, nil, 2, 2},
		{[]int{2}, nil, 2, 1},
		{[]int{1, 3}, []int{2}, 4, 4},
		{[]int{1, 3, 4}, []int{2}, 4, 2},
		{[]int{5, 6}, nil, 4, 1},
		{[]int{1, 2, 5, 6}, nil, 4, 0},
		{[]int{3, 4, 5, 6}, nil, 4, 0},
		{[]int{5, 6, 7, 8, 9}, nil, 4, 0},
		{[]int{3, 5}, []int{1, 2}, 3, 1},
		{nil, []int{7}, 4, 1},
	} {
		slots := map[int]bool{}
		for _, n := range c.held {
			slots[n] = true
		}
		for _, n := range c.stale {
			slots[n] = false
		}
		if got := gitstate.Choose(slots, c.limit); got != c.want {
			t.Errorf("held %v, stale %v, limit %d: %d, want %d", c.held, c.stale, c.limit, got, c.want)
		}
	}
}

func FuzzParseClaim(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":1,"run":"x1","head":"0000000000000000000000000000000000000000","claimant":{"pid":1,"processStart":2,"bootId":"b","pidNamespace":"n","host":"h","command":"c","since":"2024-05-01T08:00:00Z"}}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := gitstate.ParseClaim(data)
		if err != nil {
			return
		}
		if _, err := gitstate.ParseRunID(string(c.Run)); err != nil {
			t.Error(err)
		}
		again, err := schemas.MarshalIndent(c)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := gitstate.ParseClaim(again); err != nil || !d.Claimant.Since.Equal(c.Claimant.Since) {
			t.Errorf("%s: %v", again, err)
		}
	})
}
