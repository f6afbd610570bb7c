package gitstate

import (
	"context"
	"fmt"

	"github.com/git-spot/git-spot/schemas"
)

// Phase is a run in the hands of this process: it holds the run's lock. It is for one goroutine.
type Phase struct {
	Run
	ledger *Ledger
}

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
	return nil, ctx, errStub
}

// TakeOver is Begin for abort: a live owner on this host is sent SIGTERM and given at most 10 s to end;
// after that the run is taken over whether the owner has ended or not. An owner that is integrating is
// left alone.
//
// Errors: those of Begin; *HeldError for an owner that is integrating, or that this process cannot
// signal.
func (l *Ledger) TakeOver(ctx context.Context, id RunID, command string, by Trigger) (*Phase, context.Context, error) {
	return nil, ctx, errStub
}

// Reserve takes the lock of a run that does not exist yet and claims a slot for it, so that command may
// make its worktree and then Create it. Close gives the slot back if Create has not succeeded.
//
// Errors: *ExistsError (RUN_EXISTS), *HeldError (LOCK_HELD), *ConcurrencyError (CONCURRENCY_LIMIT).
func (l *Ledger) Reserve(ctx context.Context, id RunID, command string, limit int) (*Phase, context.Context, error) {
	return nil, ctx, errStub
}

// Owner is this process, as an event of the phase records it.
func (p *Phase) Owner() *schemas.Owner { return nil }

// Close drops the lock, and a slot that was claimed and that no event used. It is idempotent.
func (p *Phase) Close() error { return nil }

// Interrupted reports whether run is in an owned phase and its owner is gone. When it cannot be told, it
// is not.
func (l *Ledger) Interrupted(ctx context.Context, run *Run) bool { return false }

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
		e.Owner.PID, e.Owner.Host, e.ID, e.Owner.Command, e.Owner.Since.Format("15:04:05"))
}

// Code is LOCK_HELD.
func (e *HeldError) Code() schemas.Code { return schemas.CodeLockHeld }
