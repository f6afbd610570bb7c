package gitstate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/git-spot/git-spot/internal/fault"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// ErrNotFound says that there is no such ref, object or path. It is never returned for something that
// is there and cannot be read.
var ErrNotFound = errors.New("not found")

// Store reads and writes the objects and refs of one repository.
//
// Every method MUST be safe for concurrent use, by goroutines and beside other processes (git, gc, other
// git spots), MUST return the cause of ctx's end soon after it, and MUST NOT run hooks or follow
// replace refs. The same input MUST give the same object id in every implementation. Methods take
// full ref names and whole object ids only.
type Store interface {
	// Ref returns what ref points at, through symbolic refs. It MUST return ErrNotFound only if there is
	// no such ref, *BrokenRefError if there is one that cannot be read, and *RefNameError for a name that
	// cannot be a ref. That the object exists is not checked.
	Ref(ctx context.Context, ref Ref) (OID, error)
	// Refs returns the refs whose names begin with prefix, sorted by name. A broken ref MUST be a row with Err
	// and MUST NOT hide the others.
	Refs(ctx context.Context, prefix string) ([]RefValue, error)

	// Commit returns a commit. This and Blob, Tree and Lookup return ErrNotFound if there is no such object
	// and *TooLargeError above 64 MiB, without reading it into memory. An object of another type is another
	// error. In a partial clone a missing object MAY be fetched.
	Commit(ctx context.Context, oid OID) (*Commit, error)
	// Commits calls each with the commits that can be read, by their index in oids, in any order, and maybe
	// more than once; why another cannot be read, Commit says. It is for many: it MUST NOT wait for one
	// before it asks for the next where asking takes time.
	Commits(ctx context.Context, oids []OID, each func(i int, c *Commit)) error
	// Blob returns the content of a blob.
	Blob(ctx context.Context, oid OID) ([]byte, error)
	// Size is the length of an object of any type, of any size, without its content. ErrNotFound as above.
	Size(ctx context.Context, oid OID) (int64, error)
	// Tree returns one level of a tree, in git's order.
	Tree(ctx context.Context, oid OID) ([]TreeEntry, error)
	// Lookup returns the entry at path, with / between components, below a commit or tree. The empty path
	// is the root tree. ErrNotFound if there is nothing or a file on the way.
	Lookup(ctx context.Context, commitOrTree OID, path string) (TreeEntry, error)

	// WriteBlob stores a blob. Writing what exists already MUST succeed and protect it from a running gc.
	// After an error of this or the next two nothing or unreachable garbage was written.
	WriteBlob(ctx context.Context, data []byte) (OID, error)
	// WriteTree stores a tree of entries in any order. It MUST refuse names that git would not have in
	// a tree, and does not check that the objects exist.
	WriteTree(ctx context.Context, entries []TreeEntry) (OID, error)
	// WriteCommit stores a commit with exactly these bytes, never signed. It does not check that tree and
	// parents exist.
	WriteCommit(ctx context.Context, c Commit) (OID, error)

	// Update moves refs: all of them, if each is at its Old, or else none. It never follows a symbolic
	// ref. The error MUST be *ConflictError if a ref was elsewhere, *LockError if a lock file stayed in the way,
	// *BrokenRefError or *RefNameError; then nothing was written. A lock that comes and goes is waited
	// for, one that stays for a second is an error: it is never removed, because nobody can tell here whose
	// it is. SIGKILL of this process leaves each ref old or new (several refs: possibly some old, some
	// new) and possibly lock files.
	//
	// If ctx ends while the refs are moving, they may have moved in spite of the error.
	//
	// Under WithSync the refs, and before them every object that this Store wrote, MUST be on the disk, folders
	// included, when Update returns. If only the last flush fails, the error MUST be *FlushError: the refs
	// have moved.
	Update(ctx context.Context, updates []RefUpdate) error

	// Close ends what the Store holds. No other call may run or follow. Nothing that was written depends on it.
	Close() error
}

// RefValue is one row of Refs.
type RefValue struct {
	Ref Ref
	OID OID   // empty if Err is set
	Err error // *BrokenRefError
}

// RefUpdate moves Ref from Old to New. An Old of zeros means that there must be no such ref, a New of
// zeros deletes it.
type RefUpdate struct {
	Ref      Ref
	New, Old OID
}

// FlushError says that refs have moved, and that it is not certain that they are on the disk: a power cut may
// take them back.
type FlushError struct{ Err error }

func (e *FlushError) Error() string {
	return fmt.Sprintf("written, but maybe not yet on the disk: %v", e.Err)
}

// Unwrap returns the cause.
func (e *FlushError) Unwrap() error { return e.Err }

// ConflictError says that a ref was not at its expected value. Nothing was written; who read the value
// again may retry.
type ConflictError struct {
	Ref  Ref
	Want OID // zeros for absent
	Got  OID // zeros for absent; empty if it has moved again since
}

func (e *ConflictError) Error() string {
	name := func(o OID) string {
		switch {
		case o == "":
			return "moving"
		case o.IsZero():
			return "absent"
		}
		return string(o)
	}
	return fmt.Sprintf("%s is %s, expected %s", e.Ref, name(e.Got), name(e.Want))
}

// Code returns CONFLICT.
func (e *ConflictError) Code() schemas.Code { return schemas.CodeConflict }

// LockError says that a lock file is in the way. Nothing was written. Either a process that writes is
// slow, or one was killed and the file is left over: then a person, or recovery that can prove whose
// it was, removes it.
type LockError struct {
	Path string // absolute
}

func (e *LockError) Error() string { return fmt.Sprintf("the lock file %q is in the way", e.Path) }

// Code returns LOCK_HELD.
func (e *LockError) Code() schemas.Code { return schemas.CodeLockHeld }

// TooLargeError says that an object is larger than git spot reads.
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
	Err error // more about it, or nil
}

func (e *BrokenRefError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s is broken", e.Ref)
	}
	return fmt.Sprintf("%s is broken: %v", e.Ref, e.Err)
}

// Unwrap returns the cause.
func (e *BrokenRefError) Unwrap() error { return e.Err }

// Code returns LEDGER_CORRUPT.
func (e *BrokenRefError) Code() schemas.Code { return schemas.CodeLedgerCorrupt }

// RefNameError says that a name cannot be a ref, or not beside the refs that are there (refs/a and
// refs/a/b exclude each other). Nothing was written and a retry does not help.
type RefNameError struct {
	Ref   Ref
	Other Ref // the ref that excludes it; empty if the name itself is wrong
}

func (e *RefNameError) Error() string {
	if e.Other != "" {
		return fmt.Sprintf("%s cannot exist beside %s", e.Ref, e.Other)
	}
	return fmt.Sprintf("%q cannot be the name of a ref", string(e.Ref))
}

// Code returns RUN_EXISTS for refs that exclude each other, else INTERNAL.
func (e *RefNameError) Code() schemas.Code {
	if e.Other != "" {
		return schemas.CodeRunExists
	}
	return schemas.CodeInternal
}

// Backend says which implementation serves a repository.
type Backend struct {
	Name   string // libgit2 or plumbing
	Reason string // why not libgit2; empty for libgit2
}

// OpenStore opens the objects and refs of repo with libgit2 where libgit2 reads the repository as git
// does, and with git's plumbing everywhere else. It writes nothing. Processes that the Store starts do
// not end with ctx but with Close; they do not inherit the lock of contexts used later.
func OpenStore(ctx context.Context, repo *gitexec.Repo) (Store, Backend, error) {
	reason, err := unfit(ctx, repo)
	if err != nil {
		return nil, Backend{}, err
	}
	git := newPlumbing(ctx, repo)
	if reason == "" {
		fast, err := openLibgit2(repo, git)
		if err == nil {
			return newStore(repo, fast), Backend{Name: "libgit2"}, nil
		}
		reason = err.Error()
	}
	return newStore(repo, git), Backend{Name: "plumbing", Reason: reason}, nil
}

// unfit says why libgit2 1.5 cannot serve a repository, as git describes it. What is not refused here and
// cannot be opened is found by opening it; this is for what libgit2 opens and then gets wrong.
func unfit(ctx context.Context, repo *gitexec.Repo) (reason string, err error) {
	if repo.ObjectFormat != "sha1" {
		return "object format " + repo.ObjectFormat, nil
	}
	if repo.Format > 0 {
		for _, name := range repo.Extensions {
			if name != "noop" {
				return fmt.Sprintf("extensions.%s with format %d", name, repo.Format), nil
			}
		}
	}
	switch strings.ToLower(repo.Shared) {
	case "", "umask", "false", "no", "off", "0":
	default:
		return "core.sharedRepository, which libgit2 does not follow for refs", nil
	}
	// libgit2 1.5 never reads config.worktree. With core.bare moved there it takes a bare repository's
	// parent folder for the work tree.
	file := filepath.Join(repo.CommonDir, "config.worktree")
	if _, err := os.Lstat(file); err == nil && slices.Contains(repo.Extensions, "worktreeconfig") {
		out, err := repo.Run(ctx, gitexec.Call{Args: []string{"config", "--null", "--name-only", "--file", file, "--list"}})
		if err != nil {
			return "", err
		}
		for key := range strings.SplitSeq(string(out), "\x00") {
			if key == "core.bare" || key == "core.worktree" {
				return key + " in config.worktree", nil
			}
		}
	}
	return "", nil
}

// WithSync returns a context under which Update makes refs and objects durable before it returns, and
// git calls flush what they write.
func WithSync(ctx context.Context) context.Context { return gitexec.WithSync(ctx) }

// backend is what libgit2 and the plumbing do differently. Its methods follow the rules of Store; their
// arguments are checked.
type backend interface {
	size(ctx context.Context, oid OID) (int64, error)
	read(ctx context.Context, oid OID) (kind string, data []byte, err error)
	// readAll calls fn for those of oids that it reads, maybe more than once. The others are for read.
	readAll(ctx context.Context, oids []OID, fn func(i int, kind string, data []byte)) error
	write(ctx context.Context, kind string, data []byte) (OID, error)
	ref(ctx context.Context, ref Ref) (OID, error)
	refs(ctx context.Context, folder string) ([]RefValue, error) // below folder, which ends in a slash; any order
	update(ctx context.Context, updates []RefUpdate) error       // one try: *LockError at once
	close()
}

// maxObject is the largest object that is read, in bytes.
const maxObject = 64 << 20

type store struct {
	backend backend
	repo    *gitexec.Repo
	idSize  int // bytes

	mu      sync.Mutex
	unsaved map[OID]struct{} // written since the last durable Update
}

func newStore(repo *gitexec.Repo, b backend) *store {
	size := 20
	if repo.ObjectFormat == "sha256" {
		size = 32
	}
	return &store{backend: b, repo: repo, idSize: size, unsaved: map[OID]struct{}{}}
}

func (s *store) Close() error {
	s.backend.close()
	return nil
}

func (s *store) Ref(ctx context.Context, ref Ref) (OID, error) {
	if err := checkRef(ref); err != nil {
		return "", err
	}
	return s.backend.ref(ctx, ref)
}

func (s *store) Refs(ctx context.Context, prefix string) ([]RefValue, error) {
	folder := prefix[:strings.LastIndexByte(prefix, '/')+1]
	if err := checkRef(Ref(folder + "x")); err != nil {
		return nil, &RefNameError{Ref: Ref(prefix)}
	}
	values, err := s.backend.refs(ctx, folder)
	if err != nil {
		return nil, err
	}
	values = slices.DeleteFunc(values, func(v RefValue) bool { return !strings.HasPrefix(string(v.Ref), prefix) })
	slices.SortFunc(values, func(a, b RefValue) int { return strings.Compare(string(a.Ref), string(b.Ref)) })
	return values, nil
}

// object reads an object that must be of the given kind.
func (s *store) object(ctx context.Context, oid OID, want string) ([]byte, error) {
	if err := s.checkOID(oid); err != nil {
		return nil, err
	}
	kind, data, err := s.backend.read(ctx, oid)
	if err == nil && kind != want {
		err = fmt.Errorf("object %s is a %s, not a %s", oid, kind, want)
	}
	return data, err
}

func (s *store) Blob(ctx context.Context, oid OID) ([]byte, error) {
	return s.object(ctx, oid, "blob")
}

func (s *store) Size(ctx context.Context, oid OID) (int64, error) {
	if err := s.checkOID(oid); err != nil {
		return 0, err
	}
	return s.backend.size(ctx, oid)
}

func (s *store) Commit(ctx context.Context, oid OID) (*Commit, error) {
	data, err := s.object(ctx, oid, "commit")
	if err != nil {
		return nil, err
	}
	c, err := decodeCommit(data)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", oid, err)
	}
	return c, nil
}

func (s *store) Commits(ctx context.Context, oids []OID, each func(i int, c *Commit)) error {
	for _, oid := range oids {
		if err := s.checkOID(oid); err != nil {
			return err
		}
	}
	if len(oids) == 0 {
		return nil
	}
	return s.backend.readAll(ctx, oids, func(i int, kind string, data []byte) {
		if kind != "commit" {
			return
		}
		if c, err := decodeCommit(data); err == nil {
			each(i, c)
		}
	})
}

func (s *store) Tree(ctx context.Context, oid OID) ([]TreeEntry, error) {
	data, err := s.object(ctx, oid, "tree")
	if err != nil {
		return nil, err
	}
	return s.tree(oid, data)
}

func (s *store) tree(oid OID, data []byte) ([]TreeEntry, error) {
	entries, err := decodeTree(data, s.idSize)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", oid, err)
	}
	return entries, nil
}

func (s *store) Lookup(ctx context.Context, commitOrTree OID, path string) (TreeEntry, error) {
	if err := s.checkOID(commitOrTree); err != nil {
		return TreeEntry{}, err
	}
	at := TreeEntry{Mode: "040000", Kind: "tree", OID: commitOrTree}
	kind, data, err := s.backend.read(ctx, commitOrTree)
	if err == nil && kind == "commit" {
		var c *Commit
		if c, err = decodeCommit(data); err == nil {
			at.OID = c.Tree
			kind, data, err = s.backend.read(ctx, c.Tree)
		}
	}
	if err == nil && kind != "tree" {
		err = fmt.Errorf("object %s is a %s, not a commit or tree", at.OID, kind)
	}
	if err != nil || path == "" {
		return at, err
	}
	for i, name := range strings.Split(path, "/") {
		if i > 0 {
			if at.Kind != "tree" {
				return TreeEntry{}, fmt.Errorf("%q in %s: %w", path, commitOrTree, ErrNotFound)
			}
			if data, err = s.object(ctx, at.OID, "tree"); err != nil {
				return TreeEntry{}, err
			}
		}
		entries, err := s.tree(at.OID, data)
		if err != nil {
			return TreeEntry{}, err
		}
		j := slices.IndexFunc(entries, func(e TreeEntry) bool { return e.Name == name })
		if j < 0 {
			return TreeEntry{}, fmt.Errorf("%q in %s: %w", path, commitOrTree, ErrNotFound)
		}
		at = entries[j]
	}
	return at, nil
}

func (s *store) write(ctx context.Context, kind string, data []byte) (OID, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err := fault.At(fault.ObjectNew, kind); err != nil {
		return "", err
	}
	oid, err := s.backend.write(ctx, kind, data)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", kind, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsaved[oid] = struct{}{}
	return oid, nil
}

func (s *store) WriteBlob(ctx context.Context, data []byte) (OID, error) {
	return s.write(ctx, "blob", data)
}

func (s *store) WriteTree(ctx context.Context, entries []TreeEntry) (OID, error) {
	for _, e := range entries {
		if err := s.checkOID(e.OID); err != nil {
			return "", err
		}
	}
	data, err := encodeTree(entries)
	if err != nil {
		return "", err
	}
	return s.write(ctx, "tree", data)
}

func (s *store) WriteCommit(ctx context.Context, c Commit) (OID, error) {
	for _, oid := range append([]OID{c.Tree}, c.Parents...) {
		if err := s.checkOID(oid); err != nil {
			return "", err
		}
	}
	data, err := encodeCommit(c)
	if err != nil {
		return "", err
	}
	return s.write(ctx, "commit", data)
}

func (s *store) Update(ctx context.Context, updates []RefUpdate) error {
	if len(updates) == 0 {
		return nil
	}
	seen := map[Ref]bool{}
	for i, u := range updates {
		if err := checkRef(u.Ref); err != nil {
			return err
		}
		if seen[u.Ref] {
			return fmt.Errorf("%s is twice in one update", u.Ref)
		}
		seen[u.Ref] = true
		for _, oid := range []OID{u.Old, u.New} {
			if oid.IsZero() {
				continue
			}
			if err := s.checkOID(oid); err != nil {
				return fmt.Errorf("update %d, %s: %w", i, u.Ref, err)
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if gitexec.Synced(ctx) {
		if err := s.saveObjects(); err != nil {
			return err
		}
	}
	folders := s.refFolders(updates)
	if err := fault.At(fault.RefUpdate, string(updates[0].Ref)); err != nil {
		return err
	}
	if err := s.updatePatiently(ctx, updates); err != nil {
		return err
	}
	if gitexec.Synced(ctx) {
		return s.saveRefs(folders)
	}
	return nil
}

const (
	lockPatience  = time.Second      // for a lock file that stays
	crowdPatience = 10 * time.Second // for lock files that come and go
)

// updatePatiently waits for other writers, but not for those that were killed.
func (s *store) updatePatiently(ctx context.Context, updates []RefUpdate) error {
	var held fs.FileInfo
	var waited, still time.Duration
	for longest := 4 * time.Millisecond; ; longest = min(2*longest, 100*time.Millisecond) {
		err := s.backend.update(ctx, updates)
		lock, ok := errors.AsType[*LockError](err)
		if !ok {
			return err
		}
		info, _ := os.Lstat(lock.Path)
		if held == nil || info == nil || !os.SameFile(held, info) || !held.ModTime().Equal(info.ModTime()) {
			held, still = info, 0
		}
		if still > lockPatience || waited > crowdPatience {
			return err
		}
		pause := time.Millisecond + rand.N(longest)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		waited, still = waited+pause, still+pause
	}
}

// saveObjects flushes the loose objects written since the last time, and the folders that name them.
// An object that is not loose here is in a pack, which git flushes, or in another repository.
func (s *store) saveObjects() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := filepath.Join(s.repo.CommonDir, "objects")
	folders := map[string]bool{objects: true}
	for oid := range s.unsaved {
		folder := filepath.Join(objects, string(oid[:2]))
		if err := flush(filepath.Join(folder, string(oid[2:]))); err != nil {
			return err
		}
		folders[folder] = true
	}
	for folder := range folders {
		if err := flush(folder); err != nil {
			return err
		}
	}
	clear(s.unsaved)
	return nil
}

// refFolders are the folders that an update changes: those of the refs, those in which git will have to make
// folders, and that of packed-refs, from which it deletes.
func (s *store) refFolders(updates []RefUpdate) []string {
	var folders []string
	for _, u := range updates {
		for at := filepath.Join(s.repo.CommonDir, filepath.Dir(string(u.Ref))); ; at = filepath.Dir(at) {
			folders = append(folders, at)
			if _, err := os.Lstat(at); err == nil || at == s.repo.CommonDir {
				break
			}
		}
		if u.New.IsZero() {
			folders = append(folders, s.repo.CommonDir)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// saveRefs flushes folders of refs. Git has flushed the files, and may have removed a folder with its last ref.
func (s *store) saveRefs(folders []string) error {
	for _, folder := range folders {
		for _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) && folder != s.repo.CommonDir; _, err = os.Lstat(folder) {
			folder = filepath.Dir(folder)
		}
		if err := flush(folder); err != nil {
			return &FlushError{Err: err}
		}
	}
	return nil
}

// flush waits until a file or folder is on the disk. It is no error if there is none.
func flush(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // some network file systems cannot flush a folder
	}
	return errors.Join(err, f.Close())
}

// checkOID refuses what git would take for an abbreviation or an expression.
func (s *store) checkOID(oid OID) error {
	if parsed, err := ParseOID(string(oid)); err != nil || parsed != oid || len(oid) != 2*s.idSize {
		return fmt.Errorf("%q is not an object id of this repository", string(oid))
	}
	return nil
}

// checkRef applies the rules of git check-ref-format to a full name.
func checkRef(ref Ref) error {
	name, ok := strings.CutPrefix(string(ref), "refs/")
	if !ok || strings.ContainsAny(name, " ~^:?*[\\\x7f") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, ".") {
		return &RefNameError{Ref: ref}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return &RefNameError{Ref: ref}
		}
	}
	return nil
}

// WriteFiles writes files over the tree base, or over nothing if base is zero, and returns the new
// tree. Keys are paths with / between components; a nil value deletes, and folders that become empty go
// with it. A file and a folder in each other's place replace each other; two keys of which one is a folder
// of the other are an error. New files have mode 100644.
func WriteFiles(ctx context.Context, s Store, base OID, files map[string][]byte) (OID, error) {
	var entries []TreeEntry
	if !base.IsZero() {
		var err error
		if entries, err = s.Tree(ctx, base); err != nil {
			return "", err
		}
	}
	changed, err := overlay(ctx, s, entries, files)
	if err != nil {
		return "", err
	}
	return s.WriteTree(ctx, changed)
}

// overlay returns entries with files written over them.
func overlay(ctx context.Context, s Store, entries []TreeEntry, files map[string][]byte) ([]TreeEntry, error) {
	byName := map[string]TreeEntry{}
	for _, e := range entries {
		byName[e.Name] = e
	}
	below := map[string]map[string][]byte{}
	for path, data := range files {
		name, rest, nested := strings.Cut(path, "/")
		if nested {
			if below[name] == nil {
				below[name] = map[string][]byte{}
			}
			below[name][rest] = data
			continue
		}
		if data == nil {
			delete(byName, name)
			continue
		}
		oid, err := s.WriteBlob(ctx, data)
		if err != nil {
			return nil, err
		}
		byName[name] = TreeEntry{Mode: "100644", OID: oid, Name: name}
	}
	for name, inside := range below {
		if _, both := files[name]; both {
			return nil, fmt.Errorf("%q is to be a file and a folder", name)
		}
		var old []TreeEntry
		if e, ok := byName[name]; ok && e.Mode == "040000" {
			var err error
			if old, err = s.Tree(ctx, e.OID); err != nil {
				return nil, err
			}
		}
		entries, err := overlay(ctx, s, old, inside)
		if err != nil {
			return nil, err
		}
		delete(byName, name)
		if len(entries) > 0 {
			oid, err := s.WriteTree(ctx, entries)
			if err != nil {
				return nil, err
			}
			byName[name] = TreeEntry{Mode: "040000", OID: oid, Name: name}
		}
	}
	return slices.Collect(maps.Values(byName)), nil
}
