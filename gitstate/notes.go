package gitstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/git-spot/git-spot/schemas"
)

// NotesRef is the ref of the notes, for git log --notes=spot.
const NotesRef Ref = "refs/notes/spot"

// The notes are one tree. The path of a note, without its slashes, is the object id that it is on; git
// and others fan out the first digits into folders at depths of their own choice, so any fan-out is read.
// Ours is xx/38 (xx/62 for SHA-256), and writing a note removes it at every other depth: git would print
// both.
//
// Notes are a copy of the ledger. A note says what one event said, names that event in Spot-Ledger and
// can be made from it again.

// Note writes the note of commit from what the ledger says of run. Append does it by itself for the
// events that are noted; Note is for a commit that the state does not name. Other people's notes are
// kept, concurrent writers lose nothing.
//
// Errors: *ConflictError or *LockError after many lost races; the note is not written then.
func (l *Ledger) Note(ctx context.Context, commit OID, run *Run) error {
	text, err := l.noteText(ctx, run.Head, &run.State)
	if err != nil {
		return err
	}
	return l.swapNotes(ctx, map[OID]string{commit: text})
}

// RebuildNotes writes all notes anew from the ledgers and returns how many were missing or different.
// Notes of other people are kept; a run that cannot be read is passed over.
func (l *Ledger) RebuildNotes(ctx context.Context) (int, error) {
	refs, err := l.store.Refs(ctx, runsPrefix)
	if err != nil {
		return 0, err
	}
	want := map[OID]string{}
	for _, ref := range refs {
		id := RunID(strings.TrimPrefix(string(ref.Ref), runsPrefix))
		if ref.Err != nil {
			continue
		}
		notes, err := l.expectedNotes(ctx, id, ref.OID)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err != nil {
			continue
		}
		for commit, note := range notes {
			want[commit] = note.text
		}
	}
	different := map[OID]string{}
	for commit, text := range want {
		have, err := l.readNotes(ctx, commit)
		if err != nil {
			return 0, err
		}
		if len(have) != 1 || have[0] != text {
			different[commit] = text
		}
	}
	if len(different) == 0 {
		return 0, nil
	}
	return len(different), l.swapNotes(ctx, different)
}

// expectedNote is a note as the ledger would have it.
type expectedNote struct {
	event OID
	text  string
}

// expectedNotes makes the notes of one run from its ledger: for each commit that of the latest event that
// is noted and names it.
func (l *Ledger) expectedNotes(ctx context.Context, id RunID, head OID) (map[OID]expectedNote, error) {
	notes := map[OID]expectedNote{}
	var to *Run // the event after run
	for oid := head; ; {
		run, err := l.load(ctx, id, oid)
		if err != nil {
			return nil, err
		}
		if to != nil && noted(run.State.State, to.State.State) {
			for _, commit := range notedCommits(&to.State) {
				if _, later := notes[commit]; later {
					continue
				}
				text, err := l.noteText(ctx, to.Head, &to.State)
				if err != nil {
					return nil, err
				}
				notes[commit] = expectedNote{event: to.Head, text: text}
			}
		}
		c, err := l.store.Commit(ctx, oid)
		if err != nil {
			return nil, err
		}
		if len(c.Parents) != 1 {
			return notes, nil
		}
		to, oid = run, c.Parents[0]
	}
}

// notedCommits lists the commits that an event's notes are on: what the run made, never what it started from.
func notedCommits(s *schemas.RunState) []OID {
	var commits []OID
	for _, word := range []string{s.Candidate, s.Approved} {
		if word != "" && word != s.Base.Commit && !slices.Contains(commits, OID(word)) {
			commits = append(commits, OID(word))
		}
	}
	return commits
}

// noting is the update of the notes that belongs to the event head, or nothing.
func (l *Ledger) noting(ctx context.Context, head OID, s *schemas.RunState) ([]RefUpdate, error) {
	commits := notedCommits(s)
	if len(commits) == 0 {
		return nil, nil
	}
	text, err := l.noteText(ctx, head, s)
	if err != nil {
		return nil, err
	}
	notes := map[OID]string{}
	for _, commit := range commits {
		notes[commit] = text
	}
	return l.notesUpdate(ctx, notes)
}

// noteText is what the event head of a run says on the commits it names.
func (l *Ledger) noteText(ctx context.Context, head OID, s *schemas.RunState) (string, error) {
	worker, isolation, err := l.receipt(ctx, head, s)
	if err != nil {
		return "", err
	}
	avoided, err := l.tokensAvoided(ctx, head)
	if err != nil {
		return "", err
	}
	verification, review := "", ""
	if v := s.Verification; v != nil {
		verification = fmt.Sprintf("%d/%d, %.1fs", v.Passed, v.Total, float64(v.DurationMS)/1000)
	}
	if r := s.Review; r != nil {
		review = fmt.Sprintf("%s, %d open", r.Verdict, r.Open)
	}
	return formatTrailers(s.Title, []trailer{
		{trailerRun, s.ID},
		{trailerState, string(s.State)},
		{trailerAttempt, strconv.Itoa(s.Attempt)},
		{trailerTree, s.Tree},
		{trailerDiffSHA256, s.DiffSHA256},
		{trailerVerification, verification},
		{trailerReview, review},
		{trailerWorker, worker},
		{trailerIsolation, isolation},
		{trailerTokensAvoided, avoided},
		{trailerLedger, string(head)},
	}), nil
}

// receipt is what the receipt of the latest attempt says of worker and isolation; without a receipt the
// worker is the one that was chosen.
func (l *Ledger) receipt(ctx context.Context, head OID, s *schemas.RunState) (worker, isolation string, err error) {
	var receipt schemas.WorkerReceipt
	found, err := l.document(ctx, head, fmt.Sprintf("attempts/%d/worker.json", s.Attempt), &receipt)
	if err != nil {
		return "", "", err
	}
	profile := s.Profile
	if found && receipt.Profile.Adapter != "" {
		profile = receipt.Profile
	}
	worker = profile.Adapter
	if profile.Model != "" {
		worker += "/" + profile.Model
	}
	u, tokens, known := receipt.Usage, int64(0), false
	for _, n := range []*int64{u.UncachedInput, u.CacheRead, u.CacheWrite, u.Output} {
		if n != nil {
			tokens, known = tokens+*n, true
		}
	}
	if known {
		worker += fmt.Sprintf(", %d tokens", tokens)
	}
	return worker, string(receipt.Isolation.Level), nil
}

func (l *Ledger) tokensAvoided(ctx context.Context, head OID) (string, error) {
	var metrics schemas.Metrics
	if _, err := l.document(ctx, head, "metrics.json", &metrics); err != nil || metrics.ParentSavings == nil {
		return "", err
	}
	return strconv.FormatInt(metrics.ParentSavings.EstimatedTokensAvoided, 10), nil
}

// document reads a document of an event if it has it.
func (l *Ledger) document(ctx context.Context, head OID, path string, into any) (found bool, err error) {
	data, err := l.file(ctx, head, path)
	if errors.Is(err, ErrNoFile) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("%s of %s: %w", path, head, err)
	}
	return true, nil
}

// swapNotes writes notes, again and again if somebody else was faster.
func (l *Ledger) swapNotes(ctx context.Context, notes map[OID]string) error {
	l.notes.Lock()
	defer l.notes.Unlock()
	for try := 0; ; try++ {
		updates, err := l.notesUpdate(ctx, notes)
		if err != nil || len(updates) == 0 {
			return err
		}
		err = l.store.Update(ctx, updates)
		_, raced := errors.AsType[*ConflictError](err)
		_, locked := errors.AsType[*LockError](err)
		if !raced && !locked || try == noteTries {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// noteTries bounds the lost races of one writer: with pauses of at most 100 ms some ten seconds.
const noteTries = 200

// notesUpdate makes the notes commit that adds notes to what is there now, and the update that swaps the
// ref to it. There is none if everything is there already.
func (l *Ledger) notesUpdate(ctx context.Context, notes map[OID]string) ([]RefUpdate, error) {
	old, tree := ZeroOID, ZeroOID
	var parents []OID
	switch tip, err := l.store.Ref(ctx, NotesRef); {
	case err == nil:
		c, err := l.store.Commit(ctx, tip)
		if err != nil {
			return nil, err
		}
		old, tree, parents = tip, c.Tree, []OID{tip}
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	blobs := map[string]OID{}
	for commit, text := range notes {
		blob, err := l.store.WriteBlob(ctx, []byte(text))
		if err != nil {
			return nil, err
		}
		blobs[string(commit)] = blob
	}
	changed, err := l.writeNotes(ctx, tree, blobs, 0)
	if err != nil {
		return nil, err
	}
	if changed == tree {
		return nil, nil
	}
	who, err := l.Signature(ctx)
	if err != nil {
		return nil, err
	}
	commit, err := l.store.WriteCommit(ctx, Commit{
		Tree: changed, Parents: parents, Author: who, Committer: who,
		Message: "Notes added by 'git spot'\n",
	})
	if err != nil {
		return nil, err
	}
	return []RefUpdate{{Ref: NotesRef, New: commit, Old: old}}, nil
}

// fanOut is how many digits of an object id a folder of the notes tree stands for.
const fanOut = 2

// writeNotes returns the tree, maybe zero, with the notes at depth 1 and nowhere else. Blobs is keyed by
// the digits of the object ids that are left at depth; deeper than 1 the notes are only removed.
func (l *Ledger) writeNotes(ctx context.Context, tree OID, blobs map[string]OID, depth int) (OID, error) {
	var entries []TreeEntry
	if !tree.IsZero() {
		var err error
		if entries, err = l.store.Tree(ctx, tree); err != nil {
			return "", err
		}
	}
	groups := map[string]map[string]OID{} // by folder
	for digits, blob := range blobs {
		name := digits[:min(fanOut, len(digits))]
		if groups[name] == nil {
			groups[name] = map[string]OID{}
		}
		groups[name][digits[len(name):]] = blob
	}
	kept := make([]TreeEntry, 0, len(entries)+len(blobs))
	changed := false
	for _, e := range entries {
		group := groups[e.Name]
		blob, ours := blobs[e.Name]
		switch {
		case e.Kind == "tree" && len(group) > 0 && len(e.Name) == fanOut:
			sub, err := l.writeNotes(ctx, e.OID, group, depth+1)
			if err != nil {
				return "", err
			}
			delete(groups, e.Name)
			changed = changed || sub != e.OID
			if e.OID = sub; sub.IsZero() {
				continue
			}
		case depth == 0 && len(group) > 0:
			changed = true // Not a note, and where the folder must be.
			continue
		case ours && depth == 1 && e.Kind == "blob" && e.OID == blob:
			delete(blobs, e.Name)
		case ours:
			changed = true
			continue
		}
		kept = append(kept, e)
	}
	switch depth {
	case 0:
		for name, group := range groups {
			sub, err := l.writeNotes(ctx, ZeroOID, group, depth+1)
			if err != nil {
				return "", err
			}
			kept = append(kept, TreeEntry{Mode: "040000", Kind: "tree", OID: sub, Name: name})
			changed = true
		}
	case 1:
		for name, blob := range blobs {
			kept = append(kept, TreeEntry{Mode: "100644", Kind: "blob", OID: blob, Name: name})
			changed = true
		}
	}
	if !changed {
		return tree, nil
	}
	if len(kept) == 0 {
		return ZeroOID, nil
	}
	slices.SortFunc(kept, func(a, b TreeEntry) int { return strings.Compare(a.Name, b.Name) })
	return l.store.WriteTree(ctx, kept)
}

// readNotes reads the notes on an object, at whatever depth they are. More than one is somebody's
// mistake; git prints them all.
func (l *Ledger) readNotes(ctx context.Context, object OID) ([]string, error) {
	tip, err := l.store.Ref(ctx, NotesRef)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := l.store.Commit(ctx, tip)
	if err != nil {
		return nil, err
	}
	var notes []string
	tree := c.Tree
	for digits := string(object); ; {
		entries, err := l.store.Tree(ctx, tree)
		if err != nil {
			return nil, err
		}
		deeper := ZeroOID
		for _, e := range entries {
			switch {
			case e.Kind == "blob" && e.Name == digits:
				data, err := l.store.Blob(ctx, e.OID)
				if err != nil {
					return nil, err
				}
				notes = append(notes, string(data))
			case e.Kind == "tree" && len(e.Name) == fanOut && strings.HasPrefix(digits, e.Name):
				deeper = e.OID
			}
		}
		if deeper.IsZero() {
			return notes, nil
		}
		tree, digits = deeper, digits[fanOut:]
	}
}
