// Package worktree makes and reads the folders that git spot hands out: the worker's checkout, the
// clean rooms of the verification, and the landing in the user's own checkout. It knows git, and not
// who uses a folder.
//
// A worker's folder is a checkout with a private git directory of its own: HEAD detached at the base
// commit, no remotes, no hooks, the repository's objects as alternates. Nothing that is done in it
// reaches the repository's configuration, hooks, refs or stash. In return this package never runs git
// through that private directory, and believes nothing in it: it reads the folder through the
// repository's own git directory, an index that it keeps itself, and an explicit work tree.
//
// A folder like this separates; it does not confine. Who runs in it with the user's rights can still
// reach the repository by its path: see Fingerprint.
package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// Spec says which folder.
type Spec struct {
	ID   gitstate.RunID
	Base gitstate.OID // commit
	Root string       // what the function Root returned
}

// Identity names the author and committer of a commit.
type Identity struct {
	Name, Email string
	When        time.Time
}

// Worktree is a worker's folder: <Root>/<id>. Beside it are its private git directory,
// <Root>/.git-dirs/<id>, and the index that git spot keeps, <git common dir>/spot/<id>/index, which can
// be deleted at any time. Its methods must not run at the same time as each other, or as a process that
// writes into the folder.
type Worktree struct {
	// EmptySubmodules are the submodules of base whose objects are not in the repository's own store,
	// so that their folders are empty. Sorted, set by Create.
	EmptySubmodules []string
	// DisabledFilters are the filter drivers that were switched off because their command is content of
	// the repository. Sorted, set by Create.
	DisabledFilters []string

	repo *gitexec.Repo
	spec Spec
}

// Open returns the folder that Create made earlier. It touches nothing; see Lost.
func Open(repo *gitexec.Repo, spec Spec) *Worktree { return &Worktree{repo: repo, spec: spec} }

// Path is the worker's folder, absolute.
func (w *Worktree) Path() string { return filepath.Join(w.spec.Root, string(w.spec.ID)) }

// gitDir is the private git directory.
func (w *Worktree) gitDir() string {
	return filepath.Join(w.spec.Root, ".git-dirs", string(w.spec.ID))
}

// mirror is where a snapshot copies the folder to when it must not be read in place.
func (w *Worktree) mirror() string {
	return filepath.Join(w.spec.Root, ".mirrors", string(w.spec.ID))
}

// stateDir holds what git spot keeps about the folder. The live logs of the run are there too.
func (w *Worktree) stateDir() string { return gitstate.RunFolder(w.repo, w.spec.ID) }

// index is the index of base as it was right after the checkout. It is never updated: a later index
// could hold stat data that a worker chose. A file's change time is not the worker's to choose, so
// whatever was written after the checkout differs from this one.
func (w *Worktree) index() string { return filepath.Join(w.stateDir(), "index") }

// resetMark exists while Reset is under way and holds its tree.
func (w *Worktree) resetMark() string { return filepath.Join(w.stateDir(), "reset") }

// pointer is the content of .git in the folder.
func (w *Worktree) pointer() string { return "gitdir: " + w.gitDir() + "\n" }

// Create makes the worker's folder. Any number of Creates may run at once in one repository. It fails
// with fs.ErrExist if the folder is there already, with *RootError if spec.Root cannot be made, and with
// *CheckoutError if git cannot fill the folder. If it fails, nothing of it is left.
func Create(ctx context.Context, repo *gitexec.Repo, spec Spec) (_ *Worktree, err error) {
	w := Open(repo, spec)
	for _, dir := range []string{spec.Root, filepath.Dir(w.gitDir())} {
		err := durable.MkdirAll(dir, 0o700)
		if _, coded := errors.AsType[schemas.Coded](err); err != nil && !coded {
			err = &RootError{Root: spec.Root, Detail: err.Error()}
		}
		if err != nil {
			return nil, err
		}
	}
	if err := gitstate.MakeRunFolder(w.repo, w.spec.ID); err != nil {
		return nil, err
	}
	if err := durable.Mkdir(w.Path(), 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			return
		}
		err = diskFull(spec.Root, err)
		_, full := errors.AsType[*durable.DiskError](err)
		if e, refused := errors.AsType[*gitexec.Error](err); refused && !full && e.Code() == schemas.CodeInternal {
			err = &CheckoutError{Err: err}
		}
		err = errors.Join(err, w.Remove())
	}()
	f, err := contentFilters(ctx, repo, spec.Base)
	if err != nil {
		return nil, err
	}
	c, err := w.fill(ctx, f, spec.Base)
	if err != nil {
		return nil, err
	}
	w.EmptySubmodules, w.DisabledFilters = c.emptySubmodules, f.names
	return w, nil
}

// fill makes the empty folder a checkout of tree with a private git directory and a kept index.
func (w *Worktree) fill(ctx context.Context, f filters, tree gitstate.OID) (c *checkout, err error) {
	scratch, err := durable.MkdirTemp(w.stateDir(), "fill-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, durable.RemoveAll(scratch)) }()
	index := filepath.Join(scratch, "index")
	if c, err = place(ctx, w.repo, f, tree, index, w.Path(), scratch); err != nil {
		return nil, err
	}
	if tree != w.spec.Base {
		// The kept index is that of base in any case: what base tracks is what counts as tracked.
		if _, err := w.repo.Run(ctx, gitexec.Call{
			Args: []string{"read-tree", "--reset", string(w.spec.Base)}, Index: index, WorkTree: w.Path(), Config: plainIndex,
		}); err != nil {
			return nil, err
		}
	}
	if err := w.recordSubmodules(c.gitlinks); err != nil {
		return nil, err
	}
	if err := durable.RemoveAll(w.gitDir()); err != nil {
		return nil, err
	}
	private := gitDir{path: w.gitDir(), head: w.spec.Base, index: index, filters: f}
	if err := private.create(ctx, w.repo); err != nil {
		return nil, err
	}
	if err := writeNew(filepath.Join(w.Path(), ".git"), w.pointer(), 0o644); err != nil {
		return nil, err
	}
	if err := stamp(index, filepath.Join(w.Path(), ".git")); err != nil {
		return nil, err
	}
	// A rename would not replace a folder.
	return c, errors.Join(durable.RemoveAll(w.index()), durable.Rename(index, w.index()))
}

// stamp makes the change time of the file last the modification time of index: see snapshot.touched. It
// is by the clock of the folder's file system, which may be another one than that of the index.
func stamp(index, last string) error {
	changed, err := changeTime(unix.AT_FDCWD, last)
	if err != nil {
		return err
	}
	return os.Chtimes(index, changed, changed) //nolint:forbidigo // no content, and nothing to lose
}

// changeTime is when content, name or mode of a file or link changed last. Its owner cannot set it. A
// relative path is one below the open folder dir.
func changeTime(dir int, path string) (time.Time, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, path, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return time.Time{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return time.Unix(st.Ctim.Unix()), nil
}

// Lost reports whether the folder is gone: deleted, or on a file system that is not mounted.
func (w *Worktree) Lost() bool {
	info, err := os.Lstat(w.Path())
	return err != nil || !info.IsDir()
}

// Reset brings the folder to a tree: tracked files as in the tree, everything else removed, ignored
// files included. The worker's private git directory is made anew. If Reset is interrupted, the next
// Reset or Snapshot begins by finishing it.
func (w *Worktree) Reset(ctx context.Context, tree gitstate.OID) error {
	if w.Lost() {
		return &fs.PathError{Op: "reset", Path: w.Path(), Err: fs.ErrNotExist}
	}
	if err := gitstate.MakeRunFolder(w.repo, w.spec.ID); err != nil {
		return err
	}
	if err := durable.Replace(w.resetMark(), []byte(tree), 0o600); err != nil {
		return err
	}
	if err := openUp(w.Path()); err != nil {
		return err
	}
	entries, err := os.ReadDir(w.Path())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := durable.RemoveAll(filepath.Join(w.Path(), e.Name())); err != nil {
			return err
		}
	}
	baseTree, err := treeOf(ctx, w.repo, w.spec.Base)
	if err != nil {
		return err
	}
	if tree == baseTree {
		tree = w.spec.Base
	}
	f, err := contentFilters(ctx, w.repo, w.spec.Base)
	if err != nil {
		return err
	}
	if _, err := w.fill(ctx, f, tree); err != nil {
		return diskFull(w.spec.Root, err)
	}
	return durable.Remove(w.resetMark())
}

// finishReset goes on with a Reset that was killed. A mark that Reset cannot have written is somebody
// else's, and no reset is under way. If the tree is gone that the folder was to become, it becomes base:
// what is left in it is not worth more than what Reset was to remove.
func (w *Worktree) finishReset(ctx context.Context) error {
	mark, err := durable.ReadFile(w.resetMark(), 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	foreign := errors.Is(err, fs.ErrInvalid)
	if err != nil && !foreign {
		return err
	}
	tree, err := gitstate.ParseOID(string(mark))
	if foreign || err != nil {
		return durable.RemoveAll(w.resetMark())
	}
	_, err = w.repo.Run(ctx, gitexec.Call{Args: []string{"cat-file", "-e", string(tree) + "^{tree}"}})
	if refused(ctx, err) {
		tree, err = treeOf(ctx, w.repo, w.spec.Base)
	}
	if err != nil {
		return err
	}
	return w.Reset(ctx, tree)
}

// Remove deletes the folder, its private git directory and what git spot keeps about it. What is gone
// already is not an error; what cannot be removed is, and the rest is removed all the same. The folder is
// Lost from the first instant: a half of it would look like work.
func (w *Worktree) Remove() error {
	errs := []error{w.removeFolder()}
	for _, path := range []string{w.gitDir(), w.mirror(), w.index(), w.resetMark(), w.submodulesFile()} {
		errs = append(errs, durable.RemoveAll(path))
	}
	errs = append(errs, w.removeScratch())
	// Other files in it are the live logs, which are not ours.
	if left, err := os.ReadDir(w.stateDir()); err == nil && len(left) == 0 {
		errs = append(errs, durable.Remove(w.stateDir()))
	}
	return errors.Join(errs...)
}

func (w *Worktree) removeFolder() error {
	removed := filepath.Join(w.spec.Root, ".removed", string(w.spec.ID))
	if err := durable.RemoveAll(removed); err != nil {
		return err
	}
	if !w.Lost() {
		if err := durable.MkdirAll(filepath.Dir(removed), 0o700); err != nil {
			return err
		}
		if err := durable.Rename(w.Path(), removed); err != nil {
			return errors.Join(err, durable.RemoveAll(w.Path())) // it may be a mount point
		}
	}
	if err := errors.Join(durable.RemoveAll(removed), durable.RemoveAll(w.Path())); err != nil {
		return err
	}
	removeEmpty(filepath.Dir(removed))
	return nil
}

// removeEmpty removes a folder that is shared with others if nothing is in it at the moment.
func removeEmpty(dir string) {
	if left, err := os.ReadDir(dir); err == nil && len(left) == 0 {
		_ = durable.Remove(dir)
	}
}

// removeScratch deletes what killed calls left.
func (w *Worktree) removeScratch() error {
	if info, err := os.Stat(w.stateDir()); err != nil || !info.IsDir() {
		return nil // nothing of ours can be there
	}
	entries, err := os.ReadDir(w.stateDir())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "fill-") || strings.HasPrefix(e.Name(), "snapshot-") {
			errs = append(errs, durable.RemoveAll(filepath.Join(w.stateDir(), e.Name())))
		}
	}
	return errors.Join(errs...)
}

// treeOf returns the tree of a commit.
func treeOf(ctx context.Context, repo *gitexec.Repo, commit gitstate.OID) (gitstate.OID, error) {
	out, err := repo.Run(ctx, gitexec.Call{Args: []string{"rev-parse", "--verify", "--end-of-options", string(commit) + "^{tree}"}})
	if err != nil {
		return "", err
	}
	return gitstate.ParseOID(strings.TrimSpace(string(out)))
}
