package gitstate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// Ledger is the state of all runs of one repository. It is safe for concurrent use.
type Ledger struct {
	// MaxRevisions is how often a run may be revised, false if that is not known. What is due may depend on
	// it; it is asked only then. Nil is not known. To be set before the first use of the ledger.
	MaxRevisions func() (int, bool)

	store   Store
	backend Backend
	repo    *gitexec.Repo
	now     func() time.Time
	self    func() schemas.Owner // this process, without command and since

	identity  sync.Mutex // guards signature
	signature *Signature // without the time; nil until git was asked

	abortWait time.Duration // the constant, but in tests

	notes sync.Mutex // one writer of the notes in this process at a time; the others are other processes
}

// Open opens the ledger of repo; it writes nothing. Now stamps events; it is called with no lock held.
func Open(ctx context.Context, repo *gitexec.Repo, now func() time.Time) (*Ledger, error) {
	store, backend, err := OpenStore(ctx, repo)
	if err != nil {
		return nil, err
	}
	return &Ledger{store: store, backend: backend, repo: repo, now: now, self: sync.OnceValue(selfOwner), abortWait: abortWait}, nil
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

	maxRevisions func() (int, bool) // the ledger's
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
func (l *Ledger) Load(ctx context.Context, id RunID) (*Run, error) {
	head, err := l.store.Ref(ctx, RunRef(id))
	if errors.Is(err, ErrNotFound) {
		return nil, &NotFoundError{Word: string(id)}
	}
	if err != nil {
		return nil, corrupt(ctx, id, string(RunRef(id)), err)
	}
	return l.load(ctx, id, head)
}

// load reads the event head of a run.
func (l *Ledger) load(ctx context.Context, id RunID, head OID) (*Run, error) {
	data, err := l.file(ctx, head, stateFile)
	if err != nil {
		return nil, corrupt(ctx, id, fmt.Sprintf("%s of %s", stateFile, head), err)
	}
	state, err := schemas.ParseState(data)
	if err == nil && state.ID != string(id) {
		err = fmt.Errorf("it is the state of run %q", state.ID)
	}
	if err != nil {
		return nil, &CorruptError{ID: id, What: fmt.Sprintf("%s of %s", stateFile, head), Err: err}
	}
	return &Run{ID: id, Head: head, State: *state, maxRevisions: l.MaxRevisions}, nil
}

// corrupt is the error of a ledger that could not be read, unless the reader itself was stopped.
func corrupt(ctx context.Context, id RunID, what string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &CorruptError{ID: id, What: what, Err: err}
}

// Resolve finds the run that word names: the run with exactly this id, else the only one whose id
// begins with word.
//
// Errors: that of ParseRunID for a word that begins no id, *NotFoundError (RUN_NOT_FOUND),
// *AmbiguousError (RUN_AMBIGUOUS).
func (l *Ledger) Resolve(ctx context.Context, word string) (RunID, error) {
	id, invalid := ParseRunID(word)
	if invalid == nil {
		switch _, err := l.store.Ref(ctx, RunRef(id)); {
		case err == nil:
			return id, nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case !errors.Is(err, ErrNotFound):
			return id, nil // It is there; whoever reads it will say what is wrong.
		}
	} else if _, err := ParseRunID(word + "x"); err != nil || word == "" {
		return "", invalid // No id begins so.
	}
	refs, err := l.store.Refs(ctx, runsPrefix+word)
	if err != nil {
		return "", err
	}
	var ids []RunID
	for _, ref := range refs {
		if id, err := ParseRunID(strings.TrimPrefix(string(ref.Ref), runsPrefix)); err == nil {
			ids = append(ids, id)
		}
	}
	switch len(ids) {
	case 0:
		return "", &NotFoundError{Word: word}
	case 1:
		return ids[0], nil
	}
	return "", &AmbiguousError{Word: word, IDs: ids}
}

// List reads all runs, sorted by id. A run that cannot be read is a row with Err; an error is returned
// only if the runs cannot be enumerated.
func (l *Ledger) List(ctx context.Context) ([]Summary, error) {
	refs, err := l.store.Refs(ctx, runsPrefix)
	if err != nil {
		return nil, err
	}
	rows := make([]Summary, len(refs))
	read := make([]bool, len(refs))
	var heads []OID
	var at []int // their rows
	for i, ref := range refs {
		rows[i].ID = RunID(strings.TrimPrefix(string(ref.Ref), runsPrefix))
		if _, invalid := ParseRunID(string(rows[i].ID)); ref.Err == nil && invalid == nil {
			heads, at = append(heads, ref.OID), append(at, i)
		}
	}
	err = l.store.Commits(ctx, heads, func(i int, c *Commit) {
		if row, err := eventOf(rows[at[i]].ID, heads[i], c); err == nil {
			rows[at[i]], read[at[i]] = row, true
		}
	})
	if err != nil {
		return nil, err
	}
	for i, ref := range refs {
		var err error
		if !read[i] {
			rows[i], err = l.summary(ctx, rows[i].ID, ref)
		}
		if err == nil {
			rows[i].Head = ref.OID
			err = l.judge(ctx, &rows[i])
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			rows[i] = Summary{ID: RunID(strings.TrimPrefix(string(ref.Ref), runsPrefix)), Head: ref.OID, Err: err}
		}
	}
	return rows, nil
}

// summary reads one row, or says why it cannot be read.
func (l *Ledger) summary(ctx context.Context, id RunID, ref RefValue) (Summary, error) {
	if ref.Err != nil {
		return Summary{}, corrupt(ctx, id, string(ref.Ref), ref.Err)
	}
	if _, err := ParseRunID(string(id)); err != nil {
		return Summary{}, &CorruptError{ID: id, What: string(ref.Ref), Err: err}
	}
	_, row, err := l.event(ctx, id, ref.OID)
	return row, err
}

// judge says whether the owner of a row is gone.
func (l *Ledger) judge(ctx context.Context, row *Summary) error {
	// Only here may somebody work: the trailers do not name him.
	if standing := StandingOf(row.State); standing.Owned || standing.Parked {
		run, err := l.load(ctx, row.ID, row.Head)
		if err != nil {
			return err
		}
		row.Interrupted = l.Interrupted(ctx, run)
	}
	return nil
}

// event reads one ledger commit without its tree.
func (l *Ledger) event(ctx context.Context, id RunID, oid OID) (*Commit, Summary, error) {
	c, err := l.store.Commit(ctx, oid)
	if err != nil {
		return nil, Summary{}, corrupt(ctx, id, "commit "+string(oid), err)
	}
	row, err := eventOf(id, oid, c)
	if err != nil {
		return nil, Summary{}, err
	}
	return c, row, nil
}

// eventOf reads the message of a ledger commit.
func eventOf(id RunID, oid OID, c *Commit) (Summary, error) {
	_, row, err := parseLedgerMessage(c.Message, id)
	if err != nil {
		return Summary{}, &CorruptError{ID: id, What: "commit " + string(oid), Err: err}
	}
	return row, nil
}

// History reads the events of a run, newest first.
//
// Errors: *NotFoundError, *CorruptError; with the latter the entries that could be read are returned.
func (l *Ledger) History(ctx context.Context, id RunID) ([]Entry, error) {
	oid, err := l.store.Ref(ctx, RunRef(id))
	if errors.Is(err, ErrNotFound) {
		return nil, &NotFoundError{Word: string(id)}
	}
	if err != nil {
		return nil, corrupt(ctx, id, string(RunRef(id)), err)
	}
	var entries []Entry
	for {
		c, row, err := l.event(ctx, id, oid)
		if err != nil {
			return entries, err
		}
		title, _, _ := strings.Cut(c.Message, "\n")
		entries = append(entries, Entry{
			Commit: oid, Time: row.UpdatedAt, Subject: title, State: row.State, Attempt: row.Attempt,
			Candidate: row.Candidate, DiffSHA256: row.DiffSHA256, Code: row.Code,
		})
		switch len(c.Parents) {
		case 0:
			return entries, nil
		case 1:
			oid = c.Parents[0]
		default:
			return entries, &CorruptError{ID: id, What: "commit " + string(oid), Err: errManyParents}
		}
	}
}

var errManyParents = errors.New("it has more than one parent")

// ErrNoFile is returned by File for a path that the event does not have.
var ErrNoFile = errors.New("no such file in the ledger")

// File reads one file of the event that run was read from. The path is one of the ledger layout, e.g.
// "attempts/1/worker.json".
//
// Errors: ErrNoFile, *CorruptError.
func (l *Ledger) File(ctx context.Context, run *Run, path string) ([]byte, error) {
	data, err := l.file(ctx, run.Head, path)
	if err != nil && !errors.Is(err, ErrNoFile) {
		return nil, corrupt(ctx, run.ID, fmt.Sprintf("%s of %s", path, run.Head), err)
	}
	return data, err
}

func (l *Ledger) file(ctx context.Context, head OID, path string) ([]byte, error) {
	entry, err := l.store.Lookup(ctx, head, path)
	if errors.Is(err, ErrNotFound) {
		if _, err := l.store.Commit(ctx, head); err != nil {
			return nil, fmt.Errorf("commit %s: %w", head, err)
		}
		return nil, fmt.Errorf("%w: %q", ErrNoFile, path)
	}
	if err != nil {
		return nil, err
	}
	return l.store.Blob(ctx, entry.OID)
}

// NewID makes a run id from the date, the title and six random characters. It does not look whether
// the id is taken.
func (l *Ledger) NewID(title string) RunID {
	words := []string{l.now().Format("20060102")}
	if s := slug(title); s != "" {
		words = append(words, s)
	}
	var random [6]byte
	_, _ = rand.Read(random[:]) // It never fails.
	for i, c := range random {
		random[i] = idLetters[int(c)%len(idLetters)]
	}
	return RunID(strings.Join(append(words, string(random[:])), "-"))
}

const (
	idLetters = "abcdefghjkmnpqrstuvwxyz023456789" // 32, without what reads like another
	maxSlug   = 40                                 // so that an id has at most 8+1+40+1+6 of its 64 characters
)

// slug is the ASCII letters and digits of title, in lower case, words joined by "-".
func slug(title string) string {
	words := strings.FieldsFunc(strings.ToLower(norm.NFKD.String(title)), func(r rune) bool {
		// What NFKD splits off a letter does not end the word.
		return r < 0x300 && (r < 'a' || r > 'z') && (r < '0' || r > '9') || r > 0x36f
	})
	var b strings.Builder
	for _, word := range words {
		word = strings.Map(func(r rune) rune {
			if r > 0x7f {
				return -1
			}
			return r
		}, word)
		switch {
		case word == "":
		case b.Len() == 0:
			b.WriteString(word[:min(len(word), maxSlug)])
		case b.Len()+1+len(word) <= maxSlug:
			b.WriteString("-" + word)
		default:
			return b.String()
		}
	}
	return b.String()
}

// vacant fails with *ExistsError if any ref of the run exists, or one that keeps git from making them.
func (l *Ledger) vacant(ctx context.Context, id RunID) error {
	for _, ref := range []Ref{RunRef(id), CandidateRef(id), attemptsPrefix + Ref(id)} {
		refs, err := l.store.Refs(ctx, string(ref))
		if err != nil {
			return err
		}
		i := slices.IndexFunc(refs, func(v RefValue) bool {
			return v.Ref == ref || strings.HasPrefix(string(v.Ref), string(ref)+"/")
		})
		if i >= 0 {
			return &ExistsError{ID: id, Ref: refs[i].Ref}
		}
	}
	return nil
}

const (
	runsPrefix       = "refs/spot/runs/"
	candidatesPrefix = "refs/spot/candidates/"
	attemptsPrefix   = "refs/spot/attempts/"
	slotsPrefix      = "refs/spot/slots/"

	stateFile = "state.json"
)

// RunRef is the ref of a run's ledger.
func RunRef(id RunID) Ref { return runsPrefix + Ref(id) }

// CandidateRef is the ref of a run's latest candidate, later of its approved commit.
func CandidateRef(id RunID) Ref { return candidatesPrefix + Ref(id) }

// AttemptRef is the ref that keeps what attempt n made; n is "2", or "2.1" for the first try of it.
func AttemptRef(id RunID, n string) Ref { return attemptsPrefix + Ref(id) + "/" + Ref(n) }

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
	Ref Ref    // one that exists
	Due string // the command that brings the run on, "" if none is due or it is not known
}

func (e *ExistsError) Error() string { return fmt.Sprintf("run %q exists: %s", e.ID, e.Ref) }

// Code is RUN_EXISTS.
func (e *ExistsError) Code() schemas.Code { return schemas.CodeRunExists }
