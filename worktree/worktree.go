// Package worktree makes and reads the folders that git spot hands out: the worker's checkout, the
// clean rooms of the verification, and the landing in the user's own checkout. It knows git, and not
// who uses a folder.
//
// A worker's folder is a checkout with a private git directory of its own: HEAD detached at the base
// commit, no remotes, no hooks, the repository's objects as alternates. Nothing that is done in it
// reaches the repository's configuration, hooks, refs or stash. In return this package never runs git
// through that private directory, and believes nothing in it: it reads the folder through the
// repository's own git directory, an index that it keeps itself, and an explicit work tree.
package worktree

import (
	"context"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
)

// Spec says which folder: Root is what the function Root returned.
type Spec struct {
	ID   gitstate.RunID
	Base gitstate.OID // commit
	Root string
}

// Identity names the author and committer of a commit.
type Identity struct {
	Name, Email string
	When        time.Time
}

// Worktree is a worker's folder. Its methods are not safe for concurrent use on one run.
type Worktree struct {
	// EmptySubmodules are the submodules of base whose objects are not in the repository's own store,
	// so that their folders are empty. Set by Create.
	EmptySubmodules []string
	// DisabledFilters are the filter drivers that were switched off because their command is content
	// of the repository. Set by Create.
	DisabledFilters []string

	repo *gitexec.Repo
	spec Spec
}

// Root returns the folder that holds all worktrees of a repository:
// <configured>/<repository>-<8 hex digits of its location>. Without a configured folder it is below
// the XDG state folder. It creates nothing. A folder inside the repository is a *RootError.
func Root(repo *gitexec.Repo, configured string, getenv func(string) string) (string, error) {
	return "", nil
}

// Create makes the worker's folder. Any number of Creates may run at once in one repository. If it
// fails nothing of it is left.
func Create(ctx context.Context, repo *gitexec.Repo, spec Spec) (*Worktree, error) {
	return nil, nil
}

// Open returns the folder that Create made earlier. It touches nothing; see Lost.
func Open(repo *gitexec.Repo, spec Spec) *Worktree { return &Worktree{repo: repo, spec: spec} }

// Path is the worker's folder, absolute.
func (w *Worktree) Path() string { return "" }

// Lost reports whether the folder is gone.
func (w *Worktree) Lost() bool { return false }

// Reset brings the folder to a tree: tracked files as in the tree, everything else removed, ignored
// files included. The worker's private git directory is made anew.
func (w *Worktree) Reset(ctx context.Context, tree gitstate.OID) error { return nil }

// Remove deletes the folder, its private git directory and the kept index. What is gone already is
// not an error.
func (w *Worktree) Remove(ctx context.Context) error { return nil }

// Snapshot is what a worker's folder held.
type Snapshot struct {
	Tree   gitstate.OID
	Commit gitstate.OID // its parent is base; base itself if Tree is base's tree
	// Nested are folders that hold a git repository of their own; nothing below them is in Tree.
	Nested []string
	// Skipped are paths that git cannot hold: sockets, pipes, devices, and names with a component .git.
	Skipped []string
	// Attributes are the .gitattributes files that differ from base's. They are in Tree and governed
	// nothing.
	Attributes []string
	// PointerChanged says that the file .git of the folder is not the one that Create wrote.
	PointerChanged bool
}

// Snapshot writes the folder's content as a commit on base into the repository's objects and moves no
// ref. What the worker did with its own index, HEAD and commits has no influence.
func (w *Worktree) Snapshot(ctx context.Context, message string, by Identity) (Snapshot, error) {
	return Snapshot{}, nil
}

// DirtyPaths lists what is changed, staged or untracked in the repository's checkout, sorted; nil for
// a bare repository.
func DirtyPaths(ctx context.Context, repo *gitexec.Repo) ([]string, error) { return nil, nil }
