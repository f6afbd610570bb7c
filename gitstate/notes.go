package gitstate

import "context"

// NotesRef is the ref of the notes, for git log --notes=spot.
const NotesRef Ref = "refs/notes/spot"

// Note writes the note of commit from what the ledger says of run. Append does it by itself for the
// events that are noted; Note is for a commit that it cannot know. Other people's notes are kept,
// concurrent writers lose nothing.
//
// Errors: *ConflictError after many lost races; the note is not written then and RebuildNotes will.
func (l *Ledger) Note(ctx context.Context, commit OID, run *Run) error { return errStub }

// RebuildNotes writes all notes anew from the ledgers and returns how many were missing or different.
// Notes of other people are kept; a run that cannot be read is passed over.
func (l *Ledger) RebuildNotes(ctx context.Context) (int, error) { return 0, errStub }
