package gitstate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// Phase is a run in the hands of this process: it holds the run's lock, and nobody else writes events
// meanwhile. It is for one goroutine.
type Phase struct {
	Run
	ledger *Ledger
	by     Trigger
	owner  schemas.Owner
	entry  schemas.State // where the run stood when the phase began
	gone   bool          // the owner that the run had then is gone
	lock   *durable.Lock // nil once closed, and for an abort that an owner did not make room for
	claim  *claimedSlot  // a slot that no event uses yet
}

// NewRun is the first event of a run.
type NewRun struct {
	State   schemas.RunState  // State.State is prepared; ID, Slot and Owner are set by Create
	Files   map[string][]byte // contract.json and config.json
	Subject string            // of the ledger commit; "" is a plain one
}

// Create writes the first event of the run that the phase has reserved: the ref is created if it is
// absent, the slot is the one that Reserve claimed. On success p.Run is the event.
//
// Errors: *ExistsError (RUN_EXISTS) if another process was faster; nothing is left then but unreferenced
// objects. After a *FlushError there is a run.
func (p *Phase) Create(ctx context.Context, n NewRun) error {
	before, after := schemas.RunState{Kind: n.State.Kind}, n.State
	after.SchemaVersion, after.ID, after.Owner = schemas.Version, string(p.ID), nil
	after.CreatedAt, after.UpdatedAt = after.CreatedAt.UTC(), after.UpdatedAt.UTC()
	if p.claim != nil {
		after.Slot = p.claim.number
	}
	t, err := transition(&before, &after, p.by, false)
	if err != nil {
		return err
	}
	if n.Subject == "" {
		n.Subject = string(p.by)
	}
	err = p.write(ctx, t, &after, Event{Subject: n.Subject, Files: n.Files})
	if conflict, ok := errors.AsType[*ConflictError](err); ok && conflict.Ref == RunRef(p.ID) {
		return &ExistsError{ID: p.ID, Ref: conflict.Ref}
	}
	return err
}

// Event is a step of a run.
type Event struct {
	To      schemas.State
	Subject string                  // of the ledger commit; "" is a plain one
	Files   map[string][]byte       // by path in the ledger; a nil value removes the file
	Apply   func(*schemas.RunState) // changes the new state, after State, UpdatedAt, Code and Owner are set
	Refs    []RefUpdate             // candidates and attempts that move with the event
	Code    schemas.Code            // why the run stands where it stands, "" if there is nothing to say
}

// Append writes an event and swaps the run's ref to it, together with ev.Refs, the slot if the new state
// frees it, and the notes if the event is one that is noted. Either all of it is there afterwards or
// nothing but unreferenced objects; on success p.Run is the new event. Notes are a copy: if they alone
// cannot be written, the event stands without them and RebuildNotes makes them. A ctx that ends while
// Append works does not stop it.
//
// The owner is recorded if To is an owned phase, and in selfReviewing if Apply sets it to p.Owner(). Slot
// is the ledger's business, and so is Blocked.From if Apply leaves it empty. Blobs over 8 MiB, and an
// attempt over 32 MiB, are cut in the middle if they are streams (.jsonl, .log), and refused otherwise.
//
// Errors: *ConflictError (CONFLICT) if another process moved the run or one of ev.Refs; *LockError
// (LOCK_HELD) if a lock file of git's is in the way; *TransitionError for an event that the table does not
// have, which is a defect of the caller. After a *FlushError p.Run is the new event: it is written, and what
// it permits must wait until it is certain that it stays.
func (p *Phase) Append(ctx context.Context, ev Event) error {
	return p.append(ctx, p.by, ev)
}

func (p *Phase) append(ctx context.Context, by Trigger, ev Event) error {
	after, err := clone(&p.State)
	if err != nil {
		return err
	}
	standing := StandingOf(ev.To)
	after.State, after.UpdatedAt, after.Code, after.Owner = ev.To, p.ledger.now().UTC(), ev.Code, nil
	after.Reported = false
	if standing.Owned {
		after.Owner = p.Owner()
	}
	if ev.Apply != nil {
		ev.Apply(after)
	}
	after.SchemaVersion, after.ID, after.State, after.Kind = schemas.Version, string(p.ID), ev.To, p.State.Kind
	if !standing.Owned && !standing.Parked {
		after.Owner = nil
	}
	switch {
	case ev.To != schemas.StateBlocked:
		after.Blocked = nil
	case after.Blocked != nil && after.Blocked.From == "":
		after.Blocked.From = p.entry
	}
	switch {
	case !standing.Slot:
		after.Slot = 0
	case p.State.Slot != 0:
		after.Slot = p.State.Slot
	case p.claim != nil:
		after.Slot = p.claim.number
	default:
		after.Slot = 0
	}
	t, err := transition(&p.State, after, by, p.gone)
	if err != nil {
		return err
	}
	return p.write(ctx, t, after, ev)
}

// clone copies a state, so that Apply cannot change the one that stands.
func clone(s *schemas.RunState) (*schemas.RunState, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	c := new(schemas.RunState)
	return c, json.Unmarshal(data, c)
}

// writeTimeout bounds the writing of one event.
const writeTimeout = 2 * time.Minute

// write makes the objects of an event and swaps the refs.
func (p *Phase) write(ctx context.Context, t Transition, after *schemas.RunState, ev Event) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// A swap that is stopped half-way leaves the caller not knowing where the run stands.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	// An event is no more lasting than the events before it, so all of them are flushed, not only those
	// that money or the user's branch depend on.
	ctx = WithSync(ctx)
	// What is written is what a reader gets: JSON knows no bytes that are not UTF-8.
	after, err := clone(after)
	if err != nil {
		return err
	}
	commit, err := p.commit(ctx, after, ev)
	if err != nil {
		return err
	}
	err = p.swap(ctx, t, commit, after, ev.Refs)
	if _, moved := errors.AsType[*FlushError](err); err != nil && !moved {
		return err
	}
	if after.Slot != 0 {
		p.claim = nil
	}
	p.Head, p.State = commit, *after
	return err
}

func (p *Phase) commit(ctx context.Context, after *schemas.RunState, ev Event) (OID, error) {
	store := p.ledger.store
	state, err := schemas.MarshalIndent(after)
	if err != nil {
		return "", err
	}
	// What no reader would take would end the run for good. It is a defect, and so without the code of a
	// ledger that is corrupt.
	if _, err := schemas.ParseState(state); err != nil {
		return "", fmt.Errorf("event of run %q: %v", p.ID, err) //nolint:errorlint // as above
	}
	tree, parents := ZeroOID, []OID(nil)
	if p.Head != "" {
		c, err := store.Commit(ctx, p.Head)
		if err != nil {
			return "", corrupt(ctx, p.ID, "commit "+string(p.Head), err)
		}
		tree, parents = c.Tree, []OID{p.Head}
	}
	files, err := p.capped(ctx, tree, ev.Files, after.UpdatedAt)
	if err != nil {
		return "", err
	}
	files[stateFile] = state
	if tree, err = WriteFiles(ctx, store, tree, files); err != nil {
		return "", err
	}
	who, err := p.ledger.Signature(ctx)
	if err != nil {
		return "", err
	}
	return store.WriteCommit(ctx, Commit{
		Tree: tree, Parents: parents, Author: who, Committer: who,
		Message: ledgerMessage(ev.Subject, after),
	})
}

// swap moves the run's ref to commit with all that belongs to the event.
func (p *Phase) swap(ctx context.Context, t Transition, commit OID, after *schemas.RunState, refs []RefUpdate) error {
	old := p.Head
	if old == "" {
		old = ZeroOID
	}
	own := append([]RefUpdate{{Ref: RunRef(p.ID), New: commit, Old: old}}, refs...)
	notes := t.Note
	for try, locked := 0, 0; ; try++ {
		updates := own
		if after.Slot == 0 && p.State.Slot != 0 {
			updates = slices.Concat(updates, p.freeing(ctx))
		}
		if notes {
			note, err := p.ledger.noting(ctx, commit, after)
			if err == nil {
				updates = slices.Concat(updates, note)
			}
			notes = err == nil
		}
		err := p.ledger.store.Update(ctx, updates)
		if err == nil {
			return nil
		}
		// Whatever the error says: if the ref is at our commit, the event is written.
		if head, refErr := p.ledger.store.Ref(ctx, RunRef(p.ID)); refErr == nil && head == commit {
			return p.flushed(ctx, commit, err)
		}
		again, spent := false, try >= swapTries
		if conflict, ok := errors.AsType[*ConflictError](err); ok {
			again = conflict.Ref == NotesRef || strings.HasPrefix(string(conflict.Ref), slotsPrefix)
		} else if _, ok := errors.AsType[*LockError](err); ok {
			locked++
			again, spent = true, spent || locked > lockTries
		} else if name, ok := errors.AsType[*RefNameError](err); ok {
			again, spent = name.Ref == NotesRef, true // somebody's refs/notes/spot/x
		}
		switch {
		case !again:
			return err
		case !spent:
			if err := pause(ctx, try); err != nil {
				return err
			}
		case notes:
			notes, try, locked = false, 0, 0
		default:
			return err
		}
	}
}

// flushed makes sure that the event commit is on the disk, which the swap that wrote it and returned err
// may not have come to.
func (p *Phase) flushed(ctx context.Context, commit OID, err error) error {
	if _, moved := errors.AsType[*FlushError](err); !moved {
		err = p.ledger.store.Update(ctx, []RefUpdate{{Ref: RunRef(p.ID), New: commit, Old: commit}})
	}
	if _, moved := errors.AsType[*FlushError](err); err == nil || moved {
		return err
	}
	return &FlushError{Err: err}
}

const (
	// swapTries bounds how often a swap is tried again because a slot or the notes moved meanwhile: a few
	// seconds altogether.
	swapTries = 40
	// lockTries bounds how often anything is tried again because of a lock file of git's. Each try has waited
	// for the lock already, at least for a second.
	lockTries = 2
)

// pause waits before the next try of a lost race: longer each time, at most 100 ms, and never the same
// for two processes.
func pause(ctx context.Context, try int) error {
	most := 2 * time.Millisecond << min(try, 6)
	timer := time.NewTimer(time.Millisecond + rand.N(min(most, 100*time.Millisecond)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// The caps of what one event stores, in bytes.
const (
	maxBlob    = 8 << 20
	maxAttempt = 32 << 20
)

// capped returns files with streams cut so that no blob is over maxBlob and no attempt over maxAttempt.
func (p *Phase) capped(ctx context.Context, tree OID, files map[string][]byte, now time.Time) (map[string][]byte, error) {
	capped := make(map[string][]byte, len(files)+1)
	attempts := map[string]bool{}
	for name, data := range files {
		data, err := cut(name, data, maxBlob, now)
		if err != nil {
			return nil, err
		}
		capped[name] = data
		if n, ok := attemptOf(name); ok {
			attempts[n] = true
		}
	}
	for n := range attempts {
		if err := p.capAttempt(ctx, tree, n, capped, now); err != nil {
			return nil, err
		}
	}
	return capped, nil
}

// attemptOf is the folder of an attempt that a ledger path is in.
func attemptOf(name string) (dir string, ok bool) {
	dir = path.Dir(name)
	return dir, path.Dir(dir) == "attempts"
}

func (p *Phase) capAttempt(ctx context.Context, tree OID, dir string, files map[string][]byte, now time.Time) error {
	fixed, streams := 0, []string(nil)
	for name, data := range files {
		switch {
		case path.Dir(name) != dir:
		case isStream(name):
			streams = append(streams, name)
		default:
			fixed += len(data)
		}
	}
	if len(streams) == 0 && fixed == 0 {
		return nil
	}
	kept, err := p.keptBytes(ctx, tree, dir, files)
	if err != nil {
		return err
	}
	budget := maxAttempt - fixed - kept
	if budget < 0 {
		return fmt.Errorf("%s has more than %d bytes", dir, maxAttempt)
	}
	for _, name := range streams {
		if files[name], err = cut(name, files[name], budget/len(streams), now); err != nil {
			return err
		}
	}
	return nil
}

// keptBytes is the size of what an attempt has already and keeps.
func (p *Phase) keptBytes(ctx context.Context, tree OID, dir string, files map[string][]byte) (int, error) {
	if tree.IsZero() {
		return 0, nil
	}
	folder, err := p.ledger.store.Lookup(ctx, tree, dir)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	entries, err := p.ledger.store.Tree(ctx, folder.OID)
	if err != nil {
		return 0, err
	}
	kept := 0
	for _, e := range entries {
		if _, replaced := files[dir+"/"+e.Name]; replaced {
			continue
		}
		size, err := p.ledger.store.Size(ctx, e.OID)
		if err != nil {
			return 0, err
		}
		kept += int(size)
	}
	return kept, nil
}

func isStream(name string) bool {
	return strings.HasSuffix(name, ".jsonl") || strings.HasSuffix(name, ".log")
}

// cut keeps the head and the tail of a stream that is over limit, whole lines where there are some, with
// a marker line between them that says how many bytes are missing. In a .jsonl file the marker is an
// event of type dropped.
func cut(name string, data []byte, limit int, now time.Time) ([]byte, error) {
	if len(data) <= limit {
		return data, nil
	}
	if !isStream(name) {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, len(data), limit)
	}
	const room = 200 // for the marker
	half := max(limit-room, 0) / 2
	head, tail := data[:half], data[len(data)-half:]
	lines, begin := head[:bytes.LastIndexByte(head, '\n')+1], bytes.IndexByte(tail, '\n')+1
	events := strings.HasSuffix(name, ".jsonl")
	// A text without lines is worth more torn than missing; half an event is worth nothing.
	switch {
	case len(lines) > 0 || events:
		head = lines
	default:
		head = append(bytes.Clone(head), '\n')
	}
	switch {
	case begin > 0:
		tail = tail[begin:]
	case events:
		tail = nil
	}
	dropped := int64(len(data) - len(head) - len(tail))
	marker := []byte("[git spot: " + strconv.FormatInt(dropped, 10) + " bytes dropped here]\n")
	if events {
		line, err := json.Marshal(schemas.Event{Time: now, Type: schemas.EventDropped, Bytes: dropped})
		if err != nil {
			return nil, err
		}
		marker = append(line, '\n')
	}
	return bytes.Join([][]byte{head, marker, tail}, nil), nil
}

// Signature is who writes ledger commits and candidates, and when: the identity that git would take for
// an author, from environment and configuration, or git-spot where none is configured. Git is asked once.
func (l *Ledger) Signature(ctx context.Context) (Signature, error) {
	l.identity.Lock()
	defer l.identity.Unlock()
	if l.signature == nil {
		// Without this git would make up an address from the name of the machine.
		out, err := l.repo.Run(ctx, gitexec.Call{Args: []string{"var", "GIT_AUTHOR_IDENT"}, Config: []string{"user.useConfigOnly=true"}})
		if e, ok := errors.AsType[*gitexec.Error](err); ok && e.Status > 0 {
			err = nil
		}
		if err != nil {
			return Signature{}, err
		}
		who := decodeSignature(string(out))
		if who.Name == "" || who.Email == "" {
			who = Signature{Name: "git-spot", Email: "git-spot@localhost"}
		}
		l.signature = &who
	}
	who := *l.signature
	who.When = l.now()
	return who, nil
}
