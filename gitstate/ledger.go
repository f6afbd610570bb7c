package gitstate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

var errStub = errors.New("gitstate: not built yet")

// Ledger is the state of all runs of one repository. It is safe for concurrent use.
type Ledger struct {
	store   Store
	backend Backend
	repo    *gitexec.Repo
	now     func() time.Time
}

// Open opens the ledger of repo; it writes nothing. Now stamps events; it is called with no lock held.
func Open(ctx context.Context, repo *gitexec.Repo, now func() time.Time) (*Ledger, error) {
	return nil, errStub
}

// Close releases the store. Phases must be closed before it.
func (l *Ledger) Close() error { return l.store.Close() }

// Store returns the store that the ledger writes to.
func (l *Ledger) Store() Store { return l.store }

// Backend says which store serves the repository, and why.
func (l *Ledger) Backend() Backend { return l.backend }

// Repo returns the repository.
func (l *Ledger) Repo() *gitexec.Repo { return l.repo }

// Run is one run as its newest event tells it.
type Run struct {
	ID    RunID
	Head  OID // the newest ledger commit
	State schemas.RunState
}

// Summary is one row of a list of runs, read from the trailers of the newest event.
type Summary struct {
	ID          RunID
	Head        OID
	State       schemas.State
	Interrupted bool // an owned phase whose owner is gone
	Title       string
	Caller      string
	Profile     string
	Attempt     int
	Candidate   OID // "" before the first
	DiffSHA256  string
	Code        schemas.Code
	UpdatedAt   time.Time
	Err         error // the run cannot be read; only ID, and Head if it is known, are set
}

// Entry is one event of a run's history, read from its commit alone.
type Entry struct {
	Commit     OID
	Time       time.Time
	Subject    string
	State      schemas.State
	Attempt    int
	Candidate  OID
	DiffSHA256 string
	Code       schemas.Code
}

// Load reads the newest event of a run.
//
// Errors: *NotFoundError (RUN_NOT_FOUND), *CorruptError (LEDGER_CORRUPT).
func (l *Ledger) Load(ctx context.Context, id RunID) (*Run, error) { return nil, errStub }

// Resolve finds the run that word names: the run with exactly this id, else the only one whose id
// begins with word.
//
// Errors: that of ParseRunID for a word that begins no id, *NotFoundError (RUN_NOT_FOUND),
// *AmbiguousError (RUN_AMBIGUOUS).
func (l *Ledger) Resolve(ctx context.Context, word string) (RunID, error) { return "", errStub }

// List reads all runs, sorted by id. A run that cannot be read is a row with Err; an error is returned
// only if the runs cannot be enumerated.
func (l *Ledger) List(ctx context.Context) ([]Summary, error) { return nil, errStub }

// History reads the events of a run, newest first.
//
// Errors: *NotFoundError, *CorruptError; with the latter the entries that could be read are returned.
func (l *Ledger) History(ctx context.Context, id RunID) ([]Entry, error) { return nil, errStub }

// ErrNoFile is returned by File for a path that the event does not have.
var ErrNoFile = errors.New("no such file in the ledger")

// File reads one file of the event that run was read from. The path is one of the ledger layout, e.g.
// "attempts/1/worker.json".
//
// Errors: ErrNoFile, *CorruptError.
func (l *Ledger) File(ctx context.Context, run *Run, path string) ([]byte, error) {
	return nil, errStub
}

// NewID makes a run id from the date, the title and six random characters. It does not look whether
// the id is taken.
func (l *Ledger) NewID(title string) RunID { return "" }

// NewRun is the first event of a run.
type NewRun struct {
	State   schemas.RunState  // State.State is prepared
	Files   map[string][]byte // contract.json and config.json
	Subject string            // "" is "prepare"
}

// Create writes the first event of the run that the phase has reserved: the ref is created if it is
// absent, the slot is the one that Reserve claimed.
//
// Errors: *ExistsError (RUN_EXISTS) if another process was faster; nothing is left then but unreferenced
// objects.
func (p *Phase) Create(ctx context.Context, n NewRun) error { return errStub }

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
// frees it, and the notes if the event is one that is noted. Either all of it is on disk afterwards or
// nothing but unreferenced objects; on success p.Run is the new event.
//
// The owner is recorded if To is an owned phase, or if Apply sets it to p.Owner(), and dropped else. Blobs
// over 8 MiB, and an attempt over 32 MiB, are cut in the middle if they are streams (.jsonl, .log) and
// refused otherwise.
//
// Errors: *ConflictError (CONFLICT) if another process moved the run or one of the refs; *TransitionError
// for an event that the table does not have, which is a defect of the caller.
func (p *Phase) Append(ctx context.Context, ev Event) error { return errStub }

// RunRef is the ref of a run's ledger.
func RunRef(id RunID) Ref { return Ref("refs/spot/runs/" + string(id)) }

// CandidateRef is the ref of a run's latest candidate, later of its approved commit.
func CandidateRef(id RunID) Ref { return Ref("refs/spot/candidates/" + string(id)) }

// AttemptRef is the ref that keeps what attempt n made; n is "2", or "2.1" for the first try of it.
func AttemptRef(id RunID, n string) Ref { return Ref("refs/spot/attempts/" + string(id) + "/" + n) }

// NotFoundError is a run that does not exist.
type NotFoundError struct{ Word string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("no run %q", e.Word) }

// Code is RUN_NOT_FOUND.
func (e *NotFoundError) Code() schemas.Code { return schemas.CodeRunNotFound }

// AmbiguousError is a prefix of more than one id.
type AmbiguousError struct {
	Word string
	IDs  []RunID
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q begins the id of %d runs", e.Word, len(e.IDs))
}

// Code is RUN_AMBIGUOUS.
func (e *AmbiguousError) Code() schemas.Code { return schemas.CodeRunAmbiguous }

// CorruptError is a run whose ledger cannot be read. Other runs are not affected, and nothing is
// overwritten.
type CorruptError struct {
	ID   RunID
	What string // the ref, commit or file
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("ledger of run %q: %s: %v", e.ID, e.What, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Code is LEDGER_CORRUPT.
func (e *CorruptError) Code() schemas.Code { return schemas.CodeLedgerCorrupt }

// ExistsError is an id whose refs, or some of them, exist.
type ExistsError struct {
	ID  RunID
	Ref Ref // one that exists
}

func (e *ExistsError) Error() string { return fmt.Sprintf("run %q exists: %s", e.ID, e.Ref) }

// Code is RUN_EXISTS.
func (e *ExistsError) Code() schemas.Code { return schemas.CodeRunExists }
