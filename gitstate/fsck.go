package gitstate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"

	"github.com/git-spot/git-spot/schemas"
)

// ProblemCode names a kind of Problem.
type ProblemCode string

// The kinds of problems.
const (
	ProblemRef      ProblemCode = "REF_UNREADABLE"   // a ref cannot be read, or belongs to no ledger
	ProblemChain    ProblemCode = "CHAIN_BROKEN"     // a ledger is not a chain of single-parent commits
	ProblemDocument ProblemCode = "DOCUMENT_INVALID" // a file of the ledger does not fit its schema
	ProblemTrailers ProblemCode = "TRAILERS_DIFFER"  // the trailers say something else than state.json
	ProblemHash     ProblemCode = "HASH_DIFFERS"     // diffSha256 or tree are not those of the candidate
	ProblemMissing  ProblemCode = "COMMIT_MISSING"   // a base, candidate or attempt is not there or not pinned
	ProblemNote     ProblemCode = "NOTE_DIFFERS"     // a note is missing or says something else than the ledger
)

// Problem is something that Fsck found.
type Problem struct {
	Run     RunID // "" if it belongs to no run
	Code    ProblemCode
	What    string // one line
	Remains string // what can still be read or done, one line
}

// Fsck checks every ledger: chain, documents, trailers, hashes, that what they name is there, and that
// the notes agree. It writes nothing, and reads on after a run that is corrupt; an error is returned only
// if the runs cannot be enumerated or ctx ends.
func (l *Ledger) Fsck(ctx context.Context) ([]Problem, error) {
	refs, err := l.store.Refs(ctx, "refs/spot/")
	if err != nil {
		return nil, err
	}
	f := &fsck{l: l, runs: map[RunID]bool{}, refs: map[Ref]OID{}, seen: map[string]bool{}}
	for _, ref := range refs {
		if ref.Err == nil {
			f.refs[ref.Ref] = ref.OID
		}
		if id, ok := strings.CutPrefix(string(ref.Ref), runsPrefix); ok {
			f.runs[RunID(id)] = true
		}
	}
	for _, ref := range refs {
		f.ref(ctx, ref)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return f.problems, nil
}

// fsck is one pass over all refs.
type fsck struct {
	l        *Ledger
	runs     map[RunID]bool // that have a ref, readable or not
	refs     map[Ref]OID    // that can be read
	seen     map[string]bool
	problems []Problem
}

func (f *fsck) found(run RunID, code ProblemCode, remains, format string, args ...any) {
	f.problems = append(f.problems, Problem{
		Run: run, Code: code, What: escape(fmt.Sprintf(format, args...), false), Remains: remains,
	})
}

// ref checks what belongs to one ref; a ledger with all that belongs to the run.
func (f *fsck) ref(ctx context.Context, ref RefValue) {
	name := string(ref.Ref)
	var id RunID
	switch {
	case strings.HasPrefix(name, runsPrefix):
		id = RunID(strings.TrimPrefix(name, runsPrefix))
	case strings.HasPrefix(name, candidatesPrefix):
		id = RunID(strings.TrimPrefix(name, candidatesPrefix))
	case strings.HasPrefix(name, attemptsPrefix):
		word, _, _ := strings.Cut(strings.TrimPrefix(name, attemptsPrefix), "/")
		id = RunID(word)
	}
	if ref.Err != nil {
		f.found(id, ProblemRef, "everything that other refs name", "%v", ref.Err)
		return
	}
	switch {
	case strings.HasPrefix(name, slotsPrefix):
		number := strings.TrimPrefix(name, slotsPrefix)
		if n, err := strconv.Atoi(number); err != nil || n < 1 || strconv.Itoa(n) != number {
			f.found("", ProblemRef, "all slots", "%s is no slot", name)
		} else if _, err := f.l.readClaim(ctx, ref.OID); err != nil && ctx.Err() == nil {
			f.found("", ProblemRef, "git update-ref -d "+name+" frees the slot", "%s: %v", name, err)
		}
	case id == "":
		f.found("", ProblemRef, "all runs", "%s is not one of ours", name)
	case !strings.HasPrefix(name, runsPrefix):
		if !f.runs[id] {
			f.found(id, ProblemRef, "the commit that it names", "%s belongs to no ledger", name)
		}
	default:
		if _, err := ParseRunID(string(id)); err != nil {
			f.found(id, ProblemRef, "the commit that it names", "%s: %v", name, err)
			return
		}
		f.run(ctx, id, ref.OID)
	}
}

// run checks one ledger.
func (f *fsck) run(ctx context.Context, id RunID, head OID) {
	newest := f.chain(ctx, id, head)
	if newest == nil {
		return
	}
	f.standing(ctx, newest)
	f.notes(ctx, newest)
}

// chain checks all events and returns the newest one, or nil if it cannot be read.
func (f *fsck) chain(ctx context.Context, id RunID, head OID) *Run {
	var newest *Run
	events := 0
	pinned := map[string]bool{}
	for oid := head; oid != ""; events++ {
		remains := fmt.Sprintf("the %d newer events", events)
		c, err := f.l.store.Commit(ctx, oid)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			f.found(id, ProblemChain, remains, "commit %s: %v", oid, err)
			break
		}
		run, err := f.l.load(ctx, id, oid)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			f.found(id, ProblemDocument, "the other events", "%v", err)
		default:
			if events == 0 {
				newest = run
			}
			f.trailers(run, c.Message)
			f.attempt(ctx, run, pinned)
		}
		f.documents(ctx, id, oid, c.Tree, "")
		switch len(c.Parents) {
		case 0:
			oid = ""
		case 1:
			oid = c.Parents[0]
		default:
			f.found(id, ProblemChain, remains, "commit %s has %d parents", oid, len(c.Parents))
			oid = ""
		}
	}
	return newest
}

func (f *fsck) trailers(run *Run, message string) {
	_, have, err := parseTrailers(message)
	if err != nil {
		f.found(run.ID, ProblemTrailers, "state.json of the event", "commit %s: %v", run.Head, err)
		return
	}
	want := map[string]string{}
	for _, t := range ledgerTrailers(&run.State) {
		if t.value != "" {
			want[t.key] = t.value
		}
	}
	if !maps.Equal(have, want) {
		f.found(run.ID, ProblemTrailers, "state.json of the event", "commit %s: the trailers are not those of its state.json", run.Head)
	}
}

// attempt checks that the attempt of an event with a candidate is pinned.
func (f *fsck) attempt(ctx context.Context, run *Run, pinned map[string]bool) {
	n := strconv.Itoa(run.State.Attempt)
	if run.State.Candidate == "" || run.State.Attempt == 0 || pinned[n] {
		return
	}
	switch run.State.State {
	case schemas.StateRunning, schemas.StateRevising:
		return // the attempt is pinned by the event that ends it; the candidate is still that of the one before
	}
	pinned[n] = true
	ref := AttemptRef(run.ID, n)
	oid, ok := f.refs[ref]
	if !ok {
		for aside, at := range f.refs { // recover put it aside, and it had the number until then
			if at == OID(run.State.Candidate) && strings.HasPrefix(string(aside), string(ref)+".") {
				oid, ok = at, true
			}
		}
	}
	if !ok {
		f.found(run.ID, ProblemMissing, "the other attempts", "%s does not exist", ref)
		return
	}
	if _, err := f.l.store.Commit(ctx, oid); err != nil && ctx.Err() == nil {
		f.found(run.ID, ProblemMissing, "the other attempts", "%s at %s: %v", ref, oid, err)
	}
}

// documents checks the files of one event, each distinct one once.
func (f *fsck) documents(ctx context.Context, id RunID, event, tree OID, dir string) {
	entries, err := f.l.store.Tree(ctx, tree)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		f.found(id, ProblemDocument, "the other events", "tree %s of %s: %v", tree, event, err)
		return
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		key := string(id) + "\x00" + name + "\x00" + string(e.OID)
		if f.seen[key] || name == stateFile {
			continue // load has read state.json
		}
		f.seen[key] = true
		if e.Kind == "tree" {
			f.documents(ctx, id, event, e.OID, name)
			continue
		}
		data, err := f.l.store.Blob(ctx, e.OID)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = validateDocument(name, data)
		}
		if err != nil {
			f.found(id, ProblemDocument, "the other files", "%s of %s: %v", name, event, err)
		}
	}
}

// documentSchemas maps the files of a ledger to their schemas; "" is any JSON.
var documentSchemas = map[string]string{
	"contract.json":     "task-contract",
	"config.json":       "",
	"start.json":        "attempt-start",
	"worker.json":       "worker-receipt",
	"verification.json": "verification",
	"self-review.json":  "self-review",
	"review.json":       "review-result",
	"result.json":       "",
	"metrics.json":      "metrics",
}

func validateDocument(name string, data []byte) error {
	base := path.Base(name)
	if base == "events.jsonl" {
		for line := range bytes.Lines(data) {
			if err := schemas.Validate("worker-event", bytes.TrimSuffix(line, []byte("\n"))); err != nil {
				return err
			}
		}
		return nil
	}
	schema, known := documentSchemas[base]
	switch {
	case known && schema != "":
		return schemas.Validate(schema, data)
	case known && !json.Valid(data):
		return errors.New("it is not JSON")
	}
	return nil
}

// standing checks what the newest event names.
func (f *fsck) standing(ctx context.Context, run *Run) {
	s := &run.State
	commit := func(what, word, remains string) *Commit {
		if word == "" {
			return nil
		}
		c, err := f.l.store.Commit(ctx, OID(word))
		if err != nil && ctx.Err() == nil {
			f.found(run.ID, ProblemMissing, remains, "%s %s: %v", what, word, err)
		}
		return c
	}
	base := commit("base", s.Base.Commit, "the ledger")
	candidate := commit("candidate", s.Candidate, "the ledger")
	approved := commit("approved commit", s.Approved, "the ledger and the candidate")
	if s.Candidate != "" {
		ref := CandidateRef(run.ID)
		if oid := f.refs[ref]; string(oid) != s.Candidate && (s.Approved == "" || string(oid) != s.Approved) {
			f.found(run.ID, ProblemMissing, "the attempts", "%s is at %q, not at the candidate", ref, oid)
		}
	}
	if candidate != nil && string(candidate.Tree) != s.Tree {
		f.found(run.ID, ProblemHash, "candidate and ledger", "tree of the candidate is %s, not %s", candidate.Tree, s.Tree)
	}
	if approved != nil && string(approved.Tree) != s.Tree {
		f.found(run.ID, ProblemHash, "candidate and ledger", "tree of the approved commit is %s, not %s", approved.Tree, s.Tree)
	}
	if base == nil || candidate == nil || s.DiffSHA256 == "" {
		return
	}
	d, err := f.l.Diff(ctx, OID(s.Base.Commit), OID(s.Candidate))
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.found(run.ID, ProblemMissing, "the ledger", "diff from base to candidate: %v", err)
	case d.SHA256 != s.DiffSHA256:
		f.found(run.ID, ProblemHash, "candidate and ledger", "diffSha256 is %s, not %s", d.SHA256, s.DiffSHA256)
	}
}

// notes checks the notes that the ledger calls for. A note that an earlier event of the same run made is
// a truth that is late, and no problem.
func (f *fsck) notes(ctx context.Context, run *Run) {
	const remains = "the ledger; fsck --rebuild-notes writes the note again"
	want, err := f.l.expectedNotes(ctx, run.ID, run.Head)
	if err != nil {
		return // The chain is broken, and that has been said.
	}
	for commit, expected := range want {
		have, err := f.l.readNotes(ctx, commit)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.found(run.ID, ProblemNote, remains, "%s: %v", NotesRef, err)
		case len(have) == 0:
			f.found(run.ID, ProblemNote, remains, "%s has no note", commit)
		case len(have) > 1:
			f.found(run.ID, ProblemNote, remains, "%s has %d notes", commit, len(have))
		case have[0] != expected.text && !f.said(ctx, run, have[0]):
			f.found(run.ID, ProblemNote, remains, "the note on %s is not what event %s says", commit, expected.event)
		}
	}
}

// said reports whether note is what an event of the run, or of another run, says.
func (f *fsck) said(ctx context.Context, run *Run, note string) bool {
	_, t, err := parseTrailers(note)
	if err != nil {
		return false
	}
	if other := RunID(t[trailerRun]); other != run.ID {
		return f.runs[other]
	}
	event, err := ParseOID(t[trailerLedger])
	if err != nil {
		return false
	}
	for oid := run.Head; ; {
		if oid == event {
			earlier, err := f.l.load(ctx, run.ID, oid)
			if err != nil {
				return false
			}
			text, err := f.l.noteText(ctx, oid, &earlier.State)
			return err == nil && text == note
		}
		c, err := f.l.store.Commit(ctx, oid)
		if err != nil || len(c.Parents) != 1 {
			return false
		}
		oid = c.Parents[0]
	}
}
