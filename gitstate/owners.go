package gitstate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
)

// The lock of a run is a flock on <git common dir>/spot/<id>.lock, which the owner, its supervisor and its
// git children hold and the kernel drops with the last of them. The file stays where the run is. Who is the
// owner is in the ledger; the lock only proves that somebody still is.
//
// An owner is gone only if the lock is free and its identity proves it: same host, and another boot or, in
// the same pid namespace, no such process. Age proves nothing.

const (
	// lockWait is how long Begin waits for a lock that nobody's event explains: a reader that judges an
	// owner holds it for an instant, the last child of an owner that has just ended a little longer.
	lockWait = 300 * time.Millisecond
	lockPoll = 10 * time.Millisecond

	// judgeTries is how often a reader looks whether a lock is free whose owner is gone.
	judgeTries = 10

	// abortWait is how long TakeOver gives an owner that was told to end.
	abortWait = 10 * time.Second
	abortPoll = 50 * time.Millisecond
)

// Begin makes this process the owner of a run, so that command may advance it by the trigger by. It
// takes the run's lock, reads the newest event and judges the recorded owner. The returned context hands
// the lock on to git children and the supervisor. The caller must Close the phase.
//
// If the recorded owner is gone, only ByRecover and ByAbort are accepted; for these an event that names
// this process as the owner is written first, so that the old owner, should it wake up, loses its next
// compare-and-swap. On a refusal nothing is written.
//
// Errors: *NotFoundError, *CorruptError, *HeldError (LOCK_HELD) if a live process is advancing the run,
// *WrongStateError (WRONG_STATE), *ConflictError.
func (l *Ledger) Begin(ctx context.Context, id RunID, command string, by Trigger) (*Phase, context.Context, error) {
	p, err := l.begin(ctx, id, command, by)
	if err != nil {
		return nil, ctx, err
	}
	return p, proc.WithLock(ctx, p.lock.File()), nil
}

func (l *Ledger) begin(ctx context.Context, id RunID, command string, by Trigger) (p *Phase, err error) {
	run, err := l.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	if o := recorded(&run.State); o != nil && identity(o).Alive() {
		return nil, &HeldError{ID: id, Owner: o}
	}
	lock, err := l.lock(ctx, id)
	if errors.Is(err, durable.ErrLocked) && proc.ContinueSupervisors(l.lockPath(id)) {
		lock, err = l.lock(ctx, id)
	}
	if errors.Is(err, durable.ErrLocked) {
		if run, err = l.Load(ctx, id); err != nil {
			return nil, err
		}
		return nil, &HeldError{ID: id, Owner: recorded(&run.State)}
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Unlock())
		}
	}()
	// The run may have moved before the lock was ours.
	if run, err = l.Load(ctx, id); err != nil {
		return nil, err
	}
	o := recorded(&run.State)
	if o != nil && identity(o).Alive() {
		return nil, &HeldError{ID: id, Owner: o}
	}
	p = l.phase(run, command, by)
	p.lock = lock
	p.gone = o != nil || StandingOf(run.State.State).Owned
	if err := p.admit(command, by); err != nil {
		return nil, err
	}
	if p.gone {
		if err := p.takeOver(ctx, o); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (l *Ledger) phase(run *Run, command string, by Trigger) *Phase {
	p := &Phase{Run: *run, ledger: l, by: by, entry: run.State.State, owner: l.self()}
	p.owner.Command, p.owner.Since = command, l.now().UTC()
	return p
}

// admit refuses a command that the run's state does not allow.
func (p *Phase) admit(command string, by Trigger) error {
	ok := by != ByTakeOver && allowed(&p.State, by, p.gone)
	if p.gone && by != ByRecover && by != ByAbort {
		ok = false
	}
	if ok {
		return nil
	}
	return &WrongStateError{
		ID: p.ID, State: p.State.State, Interrupted: p.gone, Command: command, Due: p.Due(p.gone),
	}
}

// takeOver records this process as the owner in the place of old.
func (p *Phase) takeOver(ctx context.Context, old *schemas.Owner) error {
	subject := "take over"
	if old != nil {
		subject = fmt.Sprintf("take over from %s, process %d", old.Command, old.PID)
	}
	return p.append(ctx, ByTakeOver, Event{
		To: p.State.State, Subject: subject, Code: p.State.Code,
		Apply: func(s *schemas.RunState) { s.Owner = p.Owner() },
	})
}

// TakeOver is Begin for abort: a live owner that this process can signal is sent SIGTERM and given at
// most 10 s to end; after that the run is taken over whether it has ended or not, and it loses its next
// compare-and-swap. An owner that is integrating is left alone. With any trigger but ByAbort it is Begin.
//
// Errors: those of Begin; *HeldError for an owner that is integrating, that cannot be signalled from here,
// or that the ledger does not name.
func (l *Ledger) TakeOver(ctx context.Context, id RunID, command string, by Trigger) (*Phase, context.Context, error) {
	p, newCtx, err := l.Begin(ctx, id, command, by)
	held, ok := errors.AsType[*HeldError](err)
	if !ok || by != ByAbort {
		return p, newCtx, err
	}
	run, err := l.Load(ctx, id)
	if err != nil {
		return nil, ctx, err
	}
	owner := recorded(&run.State)
	if owner != nil && (run.State.State == schemas.StateIntegrating || !l.signal(owner)) {
		return nil, ctx, held
	}
	timer := time.NewTimer(l.abortWait)
	defer timer.Stop()
	poll := time.NewTicker(abortPoll)
	defer poll.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return nil, ctx, context.Cause(ctx)
		case <-timer.C:
			waiting = false
		case <-poll.C:
		}
		p, newCtx, err = l.Begin(ctx, id, command, by)
		if held, ok = errors.AsType[*HeldError](err); !ok {
			return p, newCtx, err
		}
	}
	p, err = l.displace(ctx, id, command, by, owner)
	if err != nil {
		return nil, ctx, err
	}
	if p == nil {
		return nil, ctx, held
	}
	return p, ctx, nil
}

// displace takes a run from owner, which did not end when it was told to, without the lock. It returns
// nil if the run is in other hands by now.
func (l *Ledger) displace(ctx context.Context, id RunID, command string, by Trigger, owner *schemas.Owner) (*Phase, error) {
	run, err := l.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	now := recorded(&run.State)
	if owner == nil || now == nil || identity(now) != identity(owner) || run.State.State == schemas.StateIntegrating {
		return nil, nil
	}
	p := l.phase(run, command, by)
	p.gone = true
	if err := p.admit(command, by); err != nil {
		return nil, err
	}
	return p, p.takeOver(ctx, owner)
}

// signal asks a live owner to end. It reports false if the owner is this process, or one that this
// process cannot know to be the owner.
func (l *Ledger) signal(o *schemas.Owner) bool {
	self := l.self()
	if o.PID == self.PID || o.Host != self.Host || o.BootID != self.BootID || o.PIDNamespace != self.PIDNamespace ||
		self.BootID == "" || self.PIDNamespace == "" || o.ProcessStart == 0 {
		return false
	}
	// Where the system has descriptors of processes, the one that is found here is the one that is judged
	// and signalled, even if its number is used again meanwhile.
	process, err := os.FindProcess(o.PID)
	if err != nil {
		return false
	}
	defer process.Release() //nolint:errcheck // nothing was written
	if !identity(o).Alive() {
		return true
	}
	err = process.Signal(syscall.SIGTERM)
	return err == nil || errors.Is(err, os.ErrProcessDone)
}

// Reserve takes the lock of a run that does not exist yet and claims a slot for it, so that command may
// make its worktree and then Create it. Close gives the slot back if Create has not succeeded.
//
// Errors: *ExistsError (RUN_EXISTS), *HeldError (LOCK_HELD), *ConcurrencyError (CONCURRENCY_LIMIT).
func (l *Ledger) Reserve(ctx context.Context, id RunID, command string, limit int) (*Phase, context.Context, error) {
	lock, err := l.lock(ctx, id)
	if errors.Is(err, durable.ErrLocked) {
		if err := l.vacant(ctx, id); err != nil {
			return nil, ctx, err
		}
		return nil, ctx, &HeldError{ID: id}
	}
	if err != nil {
		return nil, ctx, err
	}
	p := l.phase(&Run{ID: id, maxRevisions: l.MaxRevisions}, command, ByPrepare)
	p.lock = lock
	if err = l.vacant(ctx, id); err == nil {
		err = l.ClaimSlot(ctx, p, limit)
	}
	if exists, ok := errors.AsType[*ExistsError](err); ok && exists.Ref == RunRef(id) {
		err = errors.Join(err, lock.Unlock()) // its file is that run's
		if run, loadErr := l.Load(ctx, id); loadErr == nil {
			exists.Due = run.Due(l.Interrupted(ctx, run))
		}
		return nil, ctx, err
	}
	if err != nil {
		return nil, ctx, errors.Join(err, p.Close())
	}
	return p, proc.WithLock(ctx, lock.File()), nil
}

// Owner is this process, as an event of the phase records it.
func (p *Phase) Owner() *schemas.Owner {
	o := p.owner
	return &o
}

// Close drops the lock, and a slot that was claimed and that no event used. Of a run that did not come
// to be, the lock's file goes too. It is idempotent.
func (p *Phase) Close() error {
	var errs []error
	if p.claim != nil {
		errs = append(errs, p.claim.release())
		p.claim = nil
	}
	if p.lock != nil {
		if p.Head == "" {
			// TryLock copes with a file that goes while it waits; no child has the descriptor any more.
			errs = append(errs, durable.Remove(p.ledger.lockPath(p.ID)))
		}
		errs = append(errs, p.lock.Unlock())
		p.lock = nil
	}
	return errors.Join(errs...)
}

// Interrupted reports whether run is in an owned phase and its owner is gone. When it cannot be told, it
// is not.
func (l *Ledger) Interrupted(ctx context.Context, run *Run) bool {
	o := recorded(&run.State)
	if o == nil && !StandingOf(run.State.State).Owned {
		return false
	}
	if o != nil && identity(o).Alive() {
		return false
	}
	path := l.lockPath(run.ID)
	if _, err := os.Lstat(path); err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	}
	// Another reader that judges the owner holds the lock for an instant.
	for range judgeTries {
		lock, err := durable.TryLock(path)
		if err == nil {
			return lock.Unlock() == nil
		}
		if !errors.Is(err, durable.ErrLocked) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(lockPoll):
		}
	}
	return false
}

// recorded is the owner that the state names, if it is one that may have an owner.
func recorded(s *schemas.RunState) *schemas.Owner {
	if standing := StandingOf(s.State); !standing.Owned && !standing.Parked {
		return nil
	}
	return s.Owner
}

// RunFolder is the folder for what is kept of a run outside of its ledger: the live logs of a turn, the index of
// base. It can be deleted at any time without losing a finished step.
func RunFolder(repo *gitexec.Repo, id RunID) string {
	return filepath.Join(repo.CommonDir, "spot", string(id))
}

// MakeRunFolder makes RunFolder, whatever a worker has put in its place.
func MakeRunFolder(repo *gitexec.Repo, id RunID) error {
	folder := RunFolder(repo, id)
	if err := durable.Folder(filepath.Dir(folder), 0o777); err != nil {
		return err
	}
	return durable.Folder(folder, 0o700)
}

func (l *Ledger) lockPath(id RunID) string { return RunFolder(l.repo, id) + ".lock" }

// lock takes the lock of a run, or returns durable.ErrLocked after lockWait.
func (l *Ledger) lock(ctx context.Context, id RunID) (*durable.Lock, error) {
	path := l.lockPath(id)
	if err := durable.Folder(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	for range lockWait / lockPoll {
		lock, err := durable.TryLock(path)
		if !errors.Is(err, durable.ErrLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
	return durable.TryLock(path)
}

func selfOwner() schemas.Owner {
	id, _ := proc.Self() // What is missing proves nothing about this process, ever.
	return schemas.Owner{
		PID: id.PID, ProcessStart: id.Start, BootID: id.BootID, PIDNamespace: id.PIDNamespace, Host: id.Host,
	}
}

func identity(o *schemas.Owner) proc.Identity {
	return proc.Identity{
		PID: o.PID, Start: o.ProcessStart, BootID: o.BootID, PIDNamespace: o.PIDNamespace, Host: o.Host,
	}
}

// HeldError is a run that a live process is advancing. Nothing was written; a later try may succeed.
type HeldError struct {
	ID    RunID
	Owner *schemas.Owner // nil if the ledger does not name it
}

func (e *HeldError) Error() string {
	if e.Owner == nil {
		return fmt.Sprintf("another process is advancing run %q", e.ID)
	}
	return fmt.Sprintf("process %d on %q is advancing run %q: %s since %s",
		e.Owner.PID, e.Owner.Host, e.ID, e.Owner.Command, e.Owner.Since.Format(time.RFC3339))
}

// Code is LOCK_HELD.
func (e *HeldError) Code() schemas.Code { return schemas.CodeLockHeld }
