package gitstate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

func TestCut(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 5, 1, 8, 0, 0, 0, time.UTC)
	line := func(n int) string { return fmt.Sprintf(`{"type":"text","n":%d}`, n) + "\n" }
	var many strings.Builder
	for n := range 1000 {
		many.WriteString(line(n))
	}
	for name, c := range map[string]struct{ file, data string }{
		"lines":    {"a/events.jsonl", many.String()},
		"one line": {"a/events.jsonl", strings.Repeat("x", 5000)},
		"log":      {"a/worker.log", many.String()},
		"log line": {"a/worker.log", strings.Repeat("x", 5000)},
		"bytes":    {"a/worker.log", strings.Repeat("\xff\x00\n", 2000)},
	} {
		for _, limit := range []int{0, 1, 150, 500, 1000, 3000} {
			got, err := gitstate.Cut(c.file, []byte(c.data), limit, now)
			if err != nil || len(got) > max(limit, 200) {
				t.Errorf("%s at %d: %d bytes, %v", name, limit, len(got), err)
			}
			if c.file == "a/events.jsonl" {
				dropped := 0
				for l := range bytes.Lines(got) {
					var ev schemas.Event
					if err := json.Unmarshal(l, &ev); err != nil {
						t.Errorf("%s at %d: line %q: %v", name, limit, l, err)
					}
					if ev.Type == schemas.EventDropped {
						dropped++
						if want := int64(len(c.data) - len(got) + len(l)); ev.Bytes != want {
							t.Errorf("%s at %d: %d bytes dropped, want %d", name, limit, ev.Bytes, want)
						}
						if err := schemas.Validate("worker-event", bytes.TrimSpace(l)); err != nil {
							t.Error(err)
						}
					}
				}
				if dropped != 1 {
					t.Errorf("%s at %d: %d markers", name, limit, dropped)
				}
			} else if !bytes.Contains(got, []byte(" bytes dropped here]\n")) {
				t.Errorf("%s at %d: no marker in %q", name, limit, got)
			}
			if limit >= 1000 && name != "one line" && (!strings.HasPrefix(c.data, string(got[:300])) || !strings.HasSuffix(c.data, string(got[len(got)-300:]))) {
				t.Errorf("%s at %d: head and tail are not kept", name, limit)
			}
		}
		if got, err := gitstate.Cut(c.file, []byte(c.data), len(c.data), now); err != nil || string(got) != c.data {
			t.Errorf("%s: cut at its own length", name)
		}
	}
	if _, err := gitstate.Cut("a/verification.json", make([]byte, 11), 10, now); err == nil {
		t.Error("a document was cut")
	}
}

func TestAnAttemptIsCapped(t *testing.T) {
	t.Parallel()
	dir := repository(t, "sha1")
	l := open(t, dir)
	prepare(t, l, dir, "x1")
	p := begin(t, l, "x1", gitstate.ByRun)
	const mib = 1 << 20
	noise := func(n int) []byte {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rand.N(256))
		}
		return data
	}
	file := func(n int) []byte { return append(append([]byte(`"`), bytes.Repeat([]byte("a"), n)...), '"') }
	appendEvent(t, p, gitstate.Event{To: schemas.StateRunning, Files: map[string][]byte{
		"attempts/1/a.json": file(7 * mib), "attempts/1/b.json": file(7 * mib), "attempts/2/a.json": file(7 * mib),
	}})
	appendEvent(t, p, gitstate.Event{To: schemas.StateRunning, Files: map[string][]byte{
		"attempts/1/events.jsonl": bytes.Repeat([]byte("{}\n"), 4*mib), "attempts/1/worker.log": noise(9 * mib), "attempts/1/c.json": file(7 * mib),
	}})
	total := 0
	for line := range strings.Lines(git(t, dir, "ls-tree", "-r", "--format=%(objectsize) %(path)", "refs/spot/runs/x1", "attempts/1/") + "\n") {
		var size int
		var path string
		if _, err := fmt.Sscan(line, &size, &path); err != nil {
			t.Fatal(err)
		}
		if size > 8*mib {
			t.Errorf("%s has %d bytes", path, size)
		}
		total += size
	}
	if total > 32*mib || total < 31*mib {
		t.Errorf("the attempt has %d bytes", total)
	}
	before := p.Head
	if err := p.Append(t.Context(), gitstate.Event{To: schemas.StateRunning, Files: map[string][]byte{"attempts/1/d.json": file(7 * mib)}}); err == nil {
		t.Error("documents over the cap of an attempt")
	}
	if err := p.Append(t.Context(), gitstate.Event{To: schemas.StateRunning, Files: map[string][]byte{"attempts/3/d.json": file(9 * mib)}}); err == nil {
		t.Error("a document over the cap of a blob")
	}
	if head := load(t, l, "x1").Head; head != before {
		t.Errorf("head %s, want %s", head, before)
	}
}

// kills is how often TestKilledWriter kills; each time another writer goes on in the same repository.
const kills = 12

// A writer that is killed at any instant leaves every event that it has said to be written, the run where
// one event left it, and nothing that fsck would complain of.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			dir := repository(t, format)
			base := git(t, dir, "rev-parse", "main")
			order := []schemas.State{
				schemas.StatePrepared, schemas.StateRunning, schemas.StateImplemented, schemas.StateVerifying, schemas.StateReviewing,
				schemas.StateApproved, schemas.StateIntegrating, schemas.StateIntegrated,
			}
			rank := func(s string) int {
				for i, state := range order {
					if string(state) == s {
						return i
					}
				}
				return -1
			}
			events := 0
			for k := range kills {
				p := startChild(t, "write", dir, fmt.Sprintf("k%d", k), base)
				said := map[gitstate.RunID]int{}
				for range rand.N(7) {
					line := p.next()
					id, state, ok := strings.Cut(line, " ")
					if !ok {
						t.Fatalf("the writer ended: %q", p.log)
					}
					said[gitstate.RunID(id)] = rank(state)
				}
				// Somewhere in the next event, which takes some ten milliseconds.
				time.Sleep(rand.N(40 * time.Millisecond))
				if err := p.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
				for _, line := range p.rest() {
					id, state, _ := strings.Cut(line, " ")
					said[gitstate.RunID(id)] = rank(state)
				}
				_ = p.Wait()

				l := open(t, dir)
				rows, err := l.List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range rows {
					if row.Err != nil {
						t.Errorf("after kill %d: %v", k, row.Err)
						continue
					}
					if row.State == schemas.StateAborted {
						continue // by us
					}
					run := load(t, l, row.ID)
					if got := rank(string(run.State.State)); got < said[row.ID] {
						t.Errorf("after kill %d: %s is %s, the writer was further", k, row.ID, run.State.State)
					}
					delete(said, row.ID)
					if due := run.Due(l.Interrupted(t.Context(), run)); due == "" {
						t.Errorf("after kill %d: nothing is due for %s in %s", k, row.ID, run.State.State)
					}
					history, err := l.History(t.Context(), row.ID)
					if err != nil {
						t.Error(err)
					}
					events += len(history)
				}
				for id := range said {
					t.Errorf("after kill %d: %s is lost", k, id)
				}
				clean(t, l)
				for _, h := range slotsOf(t, l) {
					// Interrupted runs keep their slots until somebody recovers or aborts them.
					p, _, err := l.TakeOver(t.Context(), h.Run, "abort", gitstate.ByAbort)
					if err != nil {
						t.Errorf("abort %s: %v", h.Run, err)
						continue
					}
					appendEvent(t, p, gitstate.Event{To: schemas.StateAborted})
					finish(t, p)
				}
				if left := slotsOf(t, l); len(left) > 0 {
					t.Errorf("after kill %d: slots %+v", k, left)
				}
			}
			t.Logf("%d events read after %d kills", events, kills)
		})
	}
}

func slotsOf(t testing.TB, l *gitstate.Ledger) []gitstate.SlotHolder {
	t.Helper()
	holders, err := l.Slots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return holders
}

// watchedStore says which writes were not to be flushed.
type watchedStore struct {
	gitstate.Store
	writes atomic.Int64
	lazy   atomic.Int64
}

func (s *watchedStore) see(ctx context.Context) {
	s.writes.Add(1)
	if !gitexec.Synced(ctx) {
		s.lazy.Add(1)
	}
}

func (s *watchedStore) WriteBlob(ctx context.Context, data []byte) (gitstate.OID, error) {
	s.see(ctx)
	return s.Store.WriteBlob(ctx, data)
}

func (s *watchedStore) WriteTree(ctx context.Context, entries []gitstate.TreeEntry) (gitstate.OID, error) {
	s.see(ctx)
	return s.Store.WriteTree(ctx, entries)
}

func (s *watchedStore) WriteCommit(ctx context.Context, c gitstate.Commit) (gitstate.OID, error) {
	s.see(ctx)
	return s.Store.WriteCommit(ctx, c)
}

func (s *watchedStore) Update(ctx context.Context, updates []gitstate.RefUpdate) error {
	s.see(ctx)
	return s.Store.Update(ctx, updates)
}

func TestEveryEventIsFlushed(t *testing.T) {
	t.Parallel()
	dir := repository(t, "sha1")
	l := open(t, dir)
	watched := &watchedStore{Store: l.Store()}
	base := git(t, dir, "rev-parse", "main")
	ctx := t.Context()
	p, ctx, err := l.Reserve(ctx, "run", "prepare", 4)
	if err != nil {
		t.Fatal(err)
	}
	l.SetStore(watched)
	if err := errors.Join(p.Create(ctx, gitstate.NewRun{State: newState(l, "a task", base), Files: newFiles()}), p.Close()); err != nil {
		t.Fatal(err)
	}
	p = begin(t, l, "run", gitstate.ByAbort)
	appendEvent(t, p, gitstate.Event{To: schemas.StateAborted})
	if watched.writes.Load() < 8 || watched.lazy.Load() > 0 {
		t.Errorf("%d of %d writes were not to be flushed", watched.lazy.Load(), watched.writes.Load())
	}
}

// flushlessStore moves refs and then fails as often as it is told to.
type flushlessStore struct {
	gitstate.Store
	failures []error
}

func (s *flushlessStore) Update(ctx context.Context, updates []gitstate.RefUpdate) error {
	err := s.Store.Update(ctx, updates)
	if err == nil && len(s.failures) > 0 {
		err, s.failures = s.failures[0], s.failures[1:]
	}
	return err
}

// An event that is written, but maybe not on the disk, is neither a success nor undone.
func TestEventThatIsNotFlushed(t *testing.T) {
	t.Parallel()
	dir := repository(t, "sha1")
	base := git(t, dir, "rev-parse", "main")
	lost, io := errors.New("git was killed"), &gitstate.FlushError{Err: syscall.EIO}
	for name, c := range map[string]struct {
		failures []error
		want     error
	}{
		"the disk fails":               {[]error{io}, io},
		"git is lost":                  {[]error{lost}, nil},
		"git is lost and disk fails":   {[]error{lost, io}, io},
		"git is lost once more":        {[]error{lost, lost}, lost},
		"what failed is only the lock": {[]error{&gitstate.LockError{Path: "x.lock"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, dir)
			id := gitstate.RunID(strings.ReplaceAll(name, " ", "-"))
			if err := prepareRun(t.Context(), l, id, base, 16); err != nil {
				t.Fatal(err)
			}
			store := &flushlessStore{Store: l.Store(), failures: c.failures}
			p := begin(t, l, id, gitstate.ByAbort)
			l.SetStore(store)
			err := p.Append(t.Context(), gitstate.Event{To: schemas.StateAborted})
			_, flush := errors.AsType[*gitstate.FlushError](err)
			if !errors.Is(err, c.want) || flush != (c.want != nil) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			run := load(t, l, id)
			if run.State.State != schemas.StateAborted || p.Head != run.Head || p.State.State != schemas.StateAborted {
				t.Errorf("the ledger is %s at %s, the phase %s at %s", run.State.State, run.Head, p.State.State, p.Head)
			}
			finish(t, p)
		})
	}
}
