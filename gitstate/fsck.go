package gitstate

import "context"

// ProblemCode names a kind of Problem.
type ProblemCode string

// The kinds of problems.
const (
	ProblemRef      ProblemCode = "REF_UNREADABLE"   // a ref names no commit, or cannot be read
	ProblemChain    ProblemCode = "CHAIN_BROKEN"     // a ledger is not a chain of single-parent commits
	ProblemDocument ProblemCode = "DOCUMENT_INVALID" // a file of the ledger does not fit its schema
	ProblemTrailers ProblemCode = "TRAILERS_DIFFER"  // the trailers say something else than state.json
	ProblemHash     ProblemCode = "HASH_DIFFERS"     // diffSha256 is not that of base and candidate
	ProblemMissing  ProblemCode = "COMMIT_MISSING"   // a candidate, attempt or base is not there or not pinned
	ProblemNote     ProblemCode = "NOTE_DIFFERS"     // a note is missing or says something else than the ledger
)

// Problem is something that fsck found.
type Problem struct {
	Run     RunID // "" if it belongs to no run
	Code    ProblemCode
	What    string // one line
	Remains string // what can still be read or done, one line
}

// Fsck checks every ledger: chain, documents, trailers, hashes, that what they name is there, and that
// the notes agree. It writes nothing, and reads on after a run that is corrupt; an error is returned only
// if the runs cannot be enumerated or ctx ends.
func (l *Ledger) Fsck(ctx context.Context) ([]Problem, error) { return nil, errStub }
