package gitstate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
)

// A slot is a ref, refs/spot/slots/<n> with n from 1, to a blob that says for which run and by whom it was
// claimed. It is created if absent, and deleted in the same transaction as the event that leads out of
// the states that hold a slot.
//
// A slot is held while its run is in such a state, and from the claim until the event that leads into
// one, as long as the claimant lives: claim.Head tells the two apart, because the event moves the head. A
// slot that is not held is taken over by compare-and-swap. What cannot be read is held.

// claim is the content of a slot.
type claim struct {
	SchemaVersion int           `json:"schemaVersion"`
	Run           RunID         `json:"run"`
	Head          OID           `json:"head"` // newest event of the run when the slot was claimed, zeros if there was none
	Claimant      schemas.Owner `json:"claimant"`
}

// claimedSlot is a slot that this process has claimed.
type claimedSlot struct {
	number  int
	oid     OID
	release func() error
}

// slot is one ref under refs/spot/slots as it was read.
type slot struct {
	number int
	oid    OID
	holder SlotHolder
	head   OID // as in claim
	held   bool
}

// SlotHolder is who holds a concurrency slot.
type SlotHolder struct {
	Slot     int           // from 1
	Run      RunID         // "" if the slot cannot be read
	State    schemas.State // "" before the run's first event
	Claimant proc.Identity // the process that claimed the slot
	Since    time.Time
}

// ClaimSlot claims a slot for a run that stands in a state without one, so that the next event may lead
// to a state with one. Close gives it back if no such event was written. A phase whose run has a slot
// keeps it.
//
// Errors: *ConcurrencyError (CONCURRENCY_LIMIT) if limit slots are held; the run is unchanged.
func (l *Ledger) ClaimSlot(ctx context.Context, p *Phase, limit int) error {
	if p.claim != nil || p.State.Slot != 0 {
		return nil
	}
	c := claim{SchemaVersion: schemas.Version, Run: p.ID, Head: p.Head, Claimant: p.owner}
	if c.Head == "" {
		c.Head = ZeroOID
	}
	data, err := schemas.MarshalIndent(c)
	if err != nil {
		return err
	}
	blob := OID("")
	for try, locked := 0, 0; ; try++ {
		slots, err := l.readSlots(ctx)
		if err != nil {
			return err
		}
		number, old := choose(slots, p.ID, limit)
		if number == 0 {
			return &ConcurrencyError{Max: limit, Holders: holders(slots)}
		}
		if blob == "" { // not before there is a slot: a refusal leaves nothing behind
			if blob, err = l.store.WriteBlob(ctx, data); err != nil {
				return err
			}
		}
		err = l.store.Update(ctx, []RefUpdate{{Ref: slotRef(number), New: blob, Old: old}})
		if err == nil {
			p.claim = &claimedSlot{number: number, oid: blob, release: l.releaser(ctx, number, blob)}
			return nil
		}
		_, raced := errors.AsType[*ConflictError](err)
		if _, ok := errors.AsType[*LockError](err); ok && locked < lockTries {
			locked, raced = locked+1, true
		}
		if !raced || try == claimTries {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// claimTries bounds the lost races of one claim: each of them was won by somebody else, and there are at
// most 16 slots to win.
const claimTries = 100

// choose picks a slot to claim and says what is there now, or 0 if limit slots are held. Where the limit
// was lowered while slots above it were held, only so many of the lower ones are for taking that all
// together stay within the limit, whoever else is choosing at this moment.
func choose(slots []slot, id RunID, limit int) (number int, old OID) {
	usable := limit
	for ; usable > 0; usable-- {
		above := 0
		for _, s := range slots {
			if s.held && s.number > usable {
				above++
			}
		}
		if usable+above <= limit {
			break
		}
	}
	at := map[int]slot{}
	for _, s := range slots {
		at[s.number] = s
		if !s.held && s.holder.Run == id && s.number <= usable {
			return s.number, s.oid // A claim that this run did not come to use.
		}
	}
	for n := 1; n <= usable; n++ {
		s, exists := at[n]
		switch {
		case !exists:
			return n, ZeroOID
		case !s.held && number == 0:
			number, old = n, s.oid
		}
	}
	return number, old
}

func slotRef(number int) Ref { return slotsPrefix + Ref(strconv.Itoa(number)) }

// readSlots reads and judges all slots, by number.
func (l *Ledger) readSlots(ctx context.Context) ([]slot, error) {
	refs, err := l.store.Refs(ctx, slotsPrefix)
	if err != nil {
		return nil, err
	}
	var slots []slot
	for _, ref := range refs {
		word, _, below := strings.Cut(strings.TrimPrefix(string(ref.Ref), slotsPrefix), "/")
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || strconv.Itoa(n) != word {
			continue // Not a slot; fsck says so.
		}
		if below {
			// Nor is this, but as long as it is there none of this number can be made.
			if len(slots) == 0 || slots[len(slots)-1].number != n {
				slots = append(slots, slot{number: n, held: true, holder: SlotHolder{Slot: n}})
			}
			continue
		}
		s := l.readSlot(ctx, n, ref)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		slots = append(slots, s)
	}
	return slots, nil
}

func (l *Ledger) readSlot(ctx context.Context, n int, ref RefValue) slot {
	s := slot{number: n, oid: ref.OID, held: true, holder: SlotHolder{Slot: n}}
	if ref.Err != nil {
		return s
	}
	c, err := l.readClaim(ctx, ref.OID)
	if err != nil {
		return s // It may have been given back, and pruned, since the refs were read; the swap will tell.
	}
	s.head = c.Head
	s.holder.Run, s.holder.Since, s.holder.Claimant = c.Run, c.Claimant.Since, identity(&c.Claimant)

	// Asked first: a claimant that is gone by now cannot move the run any more while it is read.
	alive := s.holder.Claimant.Alive()
	head, err := l.store.Ref(ctx, RunRef(c.Run))
	if errors.Is(err, ErrNotFound) {
		s.held = alive
		return s
	}
	if err != nil {
		return s
	}
	_, row, err := l.event(ctx, c.Run, head)
	if err != nil {
		return s
	}
	s.holder.State = row.State
	switch {
	case StandingOf(row.State).Slot:
	case head == c.Head:
		s.held = alive
	default:
		s.held = false
	}
	return s
}

func (l *Ledger) readClaim(ctx context.Context, oid OID) (*claim, error) {
	data, err := l.store.Blob(ctx, oid)
	if err != nil {
		return nil, err
	}
	return parseClaim(data)
}

func parseClaim(data []byte) (*claim, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	c := new(claim)
	if err := d.Decode(c); err != nil {
		return nil, err
	}
	if c.SchemaVersion != schemas.Version {
		return nil, fmt.Errorf("schemaVersion %d", c.SchemaVersion)
	}
	if _, err := ParseRunID(string(c.Run)); err != nil {
		return nil, err
	}
	if _, err := ParseOID(string(c.Head)); err != nil {
		return nil, err
	}
	return c, nil
}

// freeing is the deletion of the slot that the run of p leaves, or nothing if the slot is not known to be
// its own any more.
func (p *Phase) freeing(ctx context.Context) []RefUpdate {
	ref := slotRef(p.State.Slot)
	oid, err := p.ledger.store.Ref(ctx, ref)
	if err != nil {
		return nil
	}
	c, err := p.ledger.readClaim(ctx, oid)
	if err != nil || c.Run != p.ID {
		return nil
	}
	return []RefUpdate{{Ref: ref, New: ZeroOID, Old: oid}}
}

// releaser gives a claimed slot back, if it is still there.
func (l *Ledger) releaser(ctx context.Context, number int, blob OID) func() error {
	ctx = context.WithoutCancel(ctx)
	return func() error {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		for try := 0; ; try++ {
			err := l.store.Update(ctx, []RefUpdate{{Ref: slotRef(number), New: ZeroOID, Old: blob}})
			if _, moved := errors.AsType[*ConflictError](err); moved {
				return nil
			}
			if _, locked := errors.AsType[*LockError](err); !locked || try == lockTries {
				return err
			}
			if err := pause(ctx, try); err != nil {
				return err
			}
		}
	}
}

// Slots lists the slots that are held, by number.
func (l *Ledger) Slots(ctx context.Context) ([]SlotHolder, error) {
	slots, err := l.readSlots(ctx)
	if err != nil {
		return nil, err
	}
	return holders(slots), nil
}

// Abandoned lists the runs that a prepare which is gone had reserved and not created. A slot still names
// each of them; who takes the run by Reserve may remove what was made for it.
func (l *Ledger) Abandoned(ctx context.Context) ([]RunID, error) {
	slots, err := l.readSlots(ctx)
	if err != nil {
		return nil, err
	}
	var ids []RunID
	for _, s := range slots {
		if !s.held && s.head.IsZero() && s.holder.State == "" {
			ids = append(ids, s.holder.Run)
		}
	}
	return ids, nil
}

func holders(slots []slot) []SlotHolder {
	held := []SlotHolder{}
	for _, s := range slots {
		if s.held {
			held = append(held, s.holder)
		}
	}
	return held
}

// ConcurrencyError is the limit of runs that work at the same time. Nothing was written.
type ConcurrencyError struct {
	Max     int
	Holders []SlotHolder
}

func (e *ConcurrencyError) Error() string {
	return fmt.Sprintf("%d runs are working, and spot.maxConcurrentRuns is %d", len(e.Holders), e.Max)
}

// Code is CONCURRENCY_LIMIT.
func (e *ConcurrencyError) Code() schemas.Code { return schemas.CodeConcurrencyLimit }
