package gitstate

import (
	"context"
	"fmt"
	"time"

	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
)

// SlotHolder is who holds a concurrency slot.
type SlotHolder struct {
	Slot     int // from 1
	Run      RunID
	State    schemas.State // "" before the run's first event
	Claimant proc.Identity // the process that claimed the slot
	Since    time.Time
}

// ClaimSlot claims a slot for a run that stands in a state without one, so that the next event may lead
// to a state with one. Close gives it back if no such event was written. A phase whose run has a slot
// keeps it.
//
// Errors: *ConcurrencyError (CONCURRENCY_LIMIT) if limit slots are held; the run is unchanged.
func (l *Ledger) ClaimSlot(ctx context.Context, p *Phase, limit int) error { return errStub }

// Slots lists the slots that are held, by number.
func (l *Ledger) Slots(ctx context.Context) ([]SlotHolder, error) { return nil, errStub }

// ConcurrencyError is the limit of runs that work at the same time. Nothing was written.
type ConcurrencyError struct {
	Max     int
	Holders []SlotHolder
}

func (e *ConcurrencyError) Error() string {
	return fmt.Sprintf("%d of %d concurrent runs are working", len(e.Holders), e.Max)
}

// Code is CONCURRENCY_LIMIT.
func (e *ConcurrencyError) Code() schemas.Code { return schemas.CodeConcurrencyLimit }
