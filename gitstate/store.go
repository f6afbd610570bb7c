package gitstate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// ErrNotFound says that there is no such ref, object or path. It is never returned for something that
// is there and cannot be read.
var ErrNotFound = errors.New("not found")

// Store reads and writes objects and refs of one repository.
type Store interface {
	Ref(ctx context.Context, ref Ref) (OID, error)
	Refs(ctx context.Context, prefix string) ([]RefValue, error)
	Commit(ctx context.Context, oid OID) (*Commit, error)
	Blob(ctx context.Context, oid OID) ([]byte, error)
	Tree(ctx context.Context, oid OID) ([]TreeEntry, error)
	Lookup(ctx context.Context, commitOrTree OID, path string) (TreeEntry, error)
	WriteBlob(ctx context.Context, data []byte) (OID, error)
	WriteTree(ctx context.Context, entries []TreeEntry) (OID, error)
	WriteCommit(ctx context.Context, c Commit) (OID, error)
	Update(ctx context.Context, updates []RefUpdate) error
	Close() error
}

// RefValue is one row of Refs.
type RefValue struct {
	Ref Ref
	OID OID   // empty if Err is set
	Err error // *BrokenRefError
}

// RefUpdate moves Ref from Old to New. An Old of zeros means that it must not exist, a New of zeros deletes it.
type RefUpdate struct {
	Ref      Ref
	New, Old OID
}

// Signature is who and when.
type Signature struct {
	Name, Email string
	When        time.Time // whole seconds; its zone's offset is recorded
}

// Commit is a commit object.
type Commit struct {
	Tree      OID
	Parents   []OID
	Author    Signature
	Committer Signature
	Encoding  string // header of that name, empty for UTF-8
	Message   string // verbatim
}

// TreeEntry is one entry of a tree.
type TreeEntry struct {
	Mode string // six octal digits: 100644 100755 120000 040000 160000
	Kind string // blob, tree or commit; follows from Mode, WriteTree ignores it
	OID  OID
	Name string // one component, bytes
}

// ConflictError says that a ref was not at its expected value. Nothing was written.
type ConflictError struct {
	Ref       Ref
	Want, Got OID // zero for absent
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is at %s, not at %s", e.Ref, e.Got, e.Want)
}

// Code returns CONFLICT.
func (e *ConflictError) Code() schemas.Code { return schemas.CodeConflict }

// LockError says that a lock file is held by somebody else.
type LockError struct{ Path string }

func (e *LockError) Error() string { return fmt.Sprintf("%s is in the way", e.Path) }

// Code returns LOCK_HELD.
func (e *LockError) Code() schemas.Code { return schemas.CodeLockHeld }

// TooLargeError says that an object is larger than this program reads.
type TooLargeError struct {
	OID         OID
	Size, Limit int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("object %s has %d bytes, more than %d", e.OID, e.Size, e.Limit)
}

// BrokenRefError says that a ref is there and cannot be read.
type BrokenRefError struct {
	Ref Ref
	Err error
}

func (e *BrokenRefError) Error() string { return fmt.Sprintf("%s cannot be read: %v", e.Ref, e.Err) }

// Unwrap returns the cause.
func (e *BrokenRefError) Unwrap() error { return e.Err }

// Code returns LEDGER_CORRUPT.
func (e *BrokenRefError) Code() schemas.Code { return schemas.CodeLedgerCorrupt }

// Backend says which implementation serves a repository.
type Backend struct {
	Name   string // libgit2 or plumbing
	Reason string // why not libgit2; empty for libgit2
}

// OpenStore opens the objects and refs of repo.
func OpenStore(ctx context.Context, repo *gitexec.Repo) (Store, Backend, error) {
	return nil, Backend{}, errors.New("not written yet")
}

// WithSync makes ref updates under the returned context durable.
func WithSync(ctx context.Context) context.Context { return gitexec.WithSync(ctx) }

// WriteFiles writes files over the tree base (zero for none) and returns the new tree. A nil value deletes.
func WriteFiles(ctx context.Context, s Store, base OID, files map[string][]byte) (OID, error) {
	return "", errors.New("not written yet")
}
