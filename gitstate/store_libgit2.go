//go:build cgo

package gitstate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	git "github.com/libgit2/git2go/v34"

	"github.com/git-spot/git-spot/internal/gitexec"
)

// libgit2 is the fast way for ordinary repositories. Whatever it cannot do, or says failed, is done
// again by git, whose answer counts: git knows why, fetches what a partial clone lacks, and creates,
// deletes and moves refs in transactions, which this libgit2 cannot do without losing writes.
type libgit2 struct {
	git       *plumbing
	commonDir string

	mu   sync.Mutex // a repository handle is not for several threads at once
	repo *git.Repository
	odb  *git.Odb
}

// openLibgit2 opens exactly the repository that git found. Opened as bare it has no work tree that could
// be the wrong one.
func openLibgit2(repo *gitexec.Repo, fallback *plumbing) (backend, error) {
	r, err := git.OpenRepositoryExtended(repo.CommonDir, git.RepositoryOpenNoSearch|git.RepositoryOpenNoDotGit|git.RepositoryOpenBare, "")
	if err != nil {
		return nil, err
	}
	odb, err := r.Odb()
	if err != nil {
		r.Free()
		return nil, err
	}
	return &libgit2{git: fallback, commonDir: repo.CommonDir, repo: r, odb: odb}, nil
}

func (l *libgit2) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.odb.Free()
	l.repo.Free()
	l.git.close()
}

var kinds = map[git.ObjectType]string{git.ObjectBlob: "blob", git.ObjectTree: "tree", git.ObjectCommit: "commit", git.ObjectTag: "tag"}

func (l *libgit2) read(ctx context.Context, oid OID) (string, []byte, error) {
	if ctx.Err() != nil {
		return "", nil, context.Cause(ctx)
	}
	if kind, data, err := l.readHere(oid); err == nil {
		return kind, data, nil
	}
	return l.git.read(ctx, oid)
}

func (l *libgit2) size(ctx context.Context, oid OID) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if id, err := git.NewOid(string(oid)); err == nil {
		l.mu.Lock()
		size, _, err := l.odb.ReadHeader(id)
		l.mu.Unlock()
		if err == nil {
			return int64(size), nil
		}
	}
	return l.git.size(ctx, oid)
}

func (l *libgit2) readAll(ctx context.Context, oids []OID, fn func(i int, kind string, data []byte)) error {
	if len(oids) > 300 {
		// A git that reads while fn works is faster from here on, although it has to be started.
		return l.git.readAll(ctx, oids, fn)
	}
	for i, oid := range oids {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if kind, data, err := l.readHere(oid); err == nil {
			fn(i, kind, data)
		}
	}
	return nil
}

func (l *libgit2) readHere(oid OID) (string, []byte, error) {
	id, err := git.NewOid(string(oid))
	if err != nil {
		return "", nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	size, _, err := l.odb.ReadHeader(id)
	if err != nil {
		return "", nil, err
	}
	if size > maxObject {
		return "", nil, &TooLargeError{OID: oid, Size: int64(size), Limit: maxObject}
	}
	object, err := l.odb.Read(id)
	if err != nil {
		return "", nil, err
	}
	defer object.Free()
	return kinds[object.Type()], append([]byte{}, object.Data()...), nil
}

func (l *libgit2) write(ctx context.Context, kind string, data []byte) (OID, error) {
	types := map[string]git.ObjectType{"blob": git.ObjectBlob, "tree": git.ObjectTree, "commit": git.ObjectCommit}
	l.mu.Lock()
	oid, err := l.odb.Write(data, types[kind])
	l.mu.Unlock()
	if err != nil {
		return l.git.write(ctx, kind, data)
	}
	return OID(oid.String()), nil
}

func (l *libgit2) ref(ctx context.Context, ref Ref) (OID, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	l.mu.Lock()
	oid, err := l.resolve(string(ref))
	l.mu.Unlock()
	if err != nil && !errors.Is(err, ErrNotFound) {
		return l.git.ref(ctx, ref)
	}
	return oid, err
}

// resolve returns ErrNotFound only if there is no ref of that name; one that leads nowhere, or is torn, is
// another error.
func (l *libgit2) resolve(name string) (OID, error) {
	ref, err := l.repo.References.Lookup(name)
	if git.IsErrorCode(err, git.ErrorCodeNotFound) {
		return "", fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	return target(ref)
}

// target is what ref leads to; it frees ref.
func target(ref *git.Reference) (OID, error) {
	defer func() { ref.Free() }()
	if ref.Type() != git.ReferenceOid { // the others libgit2 would look up again
		direct, err := ref.Resolve()
		if err != nil {
			return "", err
		}
		ref.Free()
		ref = direct
	}
	oid := OID(ref.Target().String())
	if oid.IsZero() {
		return "", &BrokenRefError{Ref: Ref(ref.Name())}
	}
	return oid, nil
}

func (l *libgit2) refs(ctx context.Context, folder string) ([]RefValue, error) {
	files := l.git.looseRefs(folder)
	values, err := l.refsHere(ctx, folder)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return l.git.refs(ctx, folder)
	}
	return l.git.addBroken(ctx, values, files)
}

// refsHere lists what can be read.
func (l *libgit2) refsHere(ctx context.Context, folder string) ([]RefValue, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	iterator, err := l.repo.NewReferenceIteratorGlob(folder + "*")
	if err != nil {
		return nil, err
	}
	defer iterator.Free()
	var values []RefValue
	for ctx.Err() == nil {
		ref, err := iterator.Next()
		if git.IsErrorCode(err, git.ErrorCodeIterOver) {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		name := ref.Name()
		if oid, err := target(ref); err == nil {
			values = append(values, RefValue{Ref: Ref(name), OID: oid})
		}
	}
	return nil, context.Cause(ctx)
}

func (l *libgit2) update(ctx context.Context, updates []RefUpdate) error {
	u := updates[0]
	if len(updates) == 1 && !u.Old.IsZero() && !u.New.IsZero() && !gitexec.Synced(ctx) {
		done, err := l.move(u)
		if done {
			return err
		}
	}
	return l.git.update(ctx, updates)
}

// move moves one ref that exists. SetTarget compares under the ref's lock with the value that was looked
// up. If it is not done, git has to do it or say why not.
func (l *libgit2) move(u RefUpdate) (done bool, err error) {
	target, err := git.NewOid(string(u.New))
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ref, err := l.repo.References.Lookup(string(u.Ref))
	if err != nil {
		return false, err
	}
	defer ref.Free()
	if ref.Type() != git.ReferenceOid {
		return false, nil
	}
	got := OID(ref.Target().String())
	if got.IsZero() {
		return false, nil // broken
	}
	if got != u.Old {
		return true, &ConflictError{Ref: u.Ref, Want: u.Old, Got: got}
	}
	moved, err := ref.SetTarget(target, "git spot")
	if git.IsErrorCode(err, git.ErrorCodeLocked) {
		return true, &LockError{Path: filepath.Join(l.commonDir, string(u.Ref)+".lock")}
	}
	if err != nil {
		return false, err
	}
	moved.Free()
	return true, nil
}
