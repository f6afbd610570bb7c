package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// Room is a clean room: a throw-away checkout of one commit, with a git directory of its own, so that
// tests which call git work and reach nothing. Its methods must not run at the same time.
type Room struct {
	Dir  string // the checkout
	Home string // private, empty, mode 0700
	Tmp  string // private, empty, mode 0700
	// EmptySubmodules and DisabledFilters are as in Worktree.
	EmptySubmodules []string
	DisabledFilters []string

	repo    *gitexec.Repo
	path    string // holds all of the above
	filters filters
}

// NewRoom checks commit out into <root>/.rooms/<name>; name is one path component. A room of that name
// that an earlier process left behind is replaced. It is a *RoomError if the room cannot be made, or the
// cause of ctx's end; then nothing of it is left.
func NewRoom(ctx context.Context, repo *gitexec.Repo, root, name string, commit gitstate.OID) (_ *Room, err error) {
	path := filepath.Join(root, ".rooms", name)
	r := &Room{Dir: filepath.Join(path, "tree"), Home: filepath.Join(path, "home"), Tmp: filepath.Join(path, "tmp"), repo: repo, path: path}
	defer func() {
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			err = &RoomError{Name: name, Err: diskFull(root, err), gone: repositoryGone(repo)}
		}
		err = errors.Join(err, r.Close())
	}()
	if !filepath.IsLocal(name) || name != filepath.Base(name) {
		return nil, fmt.Errorf("%q is not the name of a folder", name)
	}
	if err := durable.RemoveAll(path); err != nil {
		return nil, err
	}
	if err := durable.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	for _, dir := range []string{path, r.Home, r.Tmp} {
		if err := durable.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := durable.Mkdir(r.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := r.fill(ctx, commit); err != nil {
		return nil, err
	}
	return r, nil
}

func repositoryGone(repo *gitexec.Repo) bool {
	_, err := os.Stat(repo.CommonDir)
	return errors.Is(err, fs.ErrNotExist)
}

func (r *Room) fill(ctx context.Context, commit gitstate.OID) error {
	index, private := filepath.Join(r.path, "index"), filepath.Join(r.path, "git")
	var err error
	if r.filters, err = contentFilters(ctx, r.repo, commit); err != nil {
		return err
	}
	c, err := place(ctx, r.repo, r.filters, commit, index, r.Dir, r.path)
	if err != nil {
		return err
	}
	r.EmptySubmodules, r.DisabledFilters = c.emptySubmodules, r.filters.names
	if err := r.unskip(ctx, commit, index, c.entries); err != nil {
		return err
	}
	g := gitDir{path: private, head: commit, index: index, filters: r.filters}
	if err := g.create(ctx, r.repo); err != nil {
		return err
	}
	if err := durable.Remove(index); err != nil {
		return err
	}
	return writeNew(filepath.Join(r.Dir, ".git"), "gitdir: "+private+"\n", 0o644)
}

// unskip checks out what commit itself changed outside the sparse patterns. The rest of the room is as
// sparse as the user's checkout, but the change is there to be tested.
func (r *Room) unskip(ctx context.Context, commit gitstate.OID, index string, entries map[string]entry) error {
	sparse := false
	for _, e := range entries {
		sparse = sparse || e.skip
	}
	if !sparse {
		return nil
	}
	out, err := r.repo.Run(ctx, gitexec.Call{Args: []string{"diff-tree", "-r", "-z", "--no-commit-id", "--name-only", "--no-renames", "--root", string(commit)}})
	if err != nil {
		return err
	}
	changed := slices.DeleteFunc(splitNUL(out), func(path string) bool { return !entries[path].skip || entries[path].mode == modeGitlink })
	if len(changed) == 0 {
		return nil
	}
	for _, args := range [][]string{
		{"update-index", "-z", "--no-skip-worktree", "--stdin"},
		{"checkout-index", "-z", "-q", "-f", "-u", "--stdin"},
	} {
		if _, err := r.repo.Run(ctx, gitexec.Call{
			Args: args, Stdin: strings.NewReader(joinNUL(changed)), Index: index, WorkTree: r.Dir, Env: r.filters.env(),
			Config: append(slices.Clip(plainIndex), "core.sparseCheckout=false"),
		}); err != nil {
			return err
		}
	}
	return nil
}

// Overlay puts the given paths into the state that they have in base: written if base has them,
// removed if not. Nothing is written or removed through a link. The result is sorted by path; SHA256
// is that of the file as it now lies there (of a link its target), or "" if there is none now.
// Submodules are left alone and not listed.
func (r *Room) Overlay(ctx context.Context, base gitstate.OID, paths []string) (overlays []schemas.Overlay, err error) {
	if len(paths) == 0 {
		return nil, nil
	}
	index := filepath.Join(r.path, "overlay")
	defer func() { err = errors.Join(err, durable.Remove(index)) }()
	git := func(stdin string, args ...string) error {
		_, err := r.repo.Run(ctx, gitexec.Call{
			Args: args, Stdin: strings.NewReader(stdin), Index: index, WorkTree: r.Dir, Env: r.filters.env(),
			Config: append(slices.Clip(plainIndex), "core.sparseCheckout=false"),
		})
		return err
	}
	if err := git("", "read-tree", string(base)); err != nil {
		return nil, err
	}
	entries, err := readIndex(ctx, r.repo, index)
	if err != nil {
		return nil, err
	}
	paths = slices.Clone(paths)
	slices.Sort(paths)
	var present []string
	for _, path := range slices.Compact(paths) {
		if !filepath.IsLocal(path) || slices.ContainsFunc(strings.Split(path, "/"), func(c string) bool { return strings.EqualFold(c, ".git") }) {
			return nil, fmt.Errorf("overlay %q: not a path in a tree", path)
		}
		e, ok := entries[path]
		switch {
		case ok && e.mode == modeGitlink:
			continue
		case ok:
			present = append(present, path)
		case throughLink(r.Dir, path):
			// What lies behind a link is not in the tree.
		default:
			if err := durable.RemoveAll(filepath.Join(r.Dir, path)); err != nil {
				return nil, err
			}
		}
		overlays = append(overlays, schemas.Overlay{Path: path, Source: "base"})
	}
	// git replaces a link or file that is in the place of a folder.
	if err := git(joinNUL(present), "checkout-index", "-z", "-q", "-f", "--stdin"); err != nil {
		return nil, err
	}
	for i, o := range overlays {
		if _, ok := entries[o.Path]; ok {
			if overlays[i].SHA256, err = hashFile(filepath.Join(r.Dir, o.Path)); err != nil {
				return nil, err
			}
		}
	}
	return overlays, nil
}

// throughLink reports whether something above path, below dir, is not a folder.
func throughLink(dir, path string) bool {
	for parent := parentOf(path); parent != ""; parent = parentOf(parent) {
		if info, err := os.Lstat(filepath.Join(dir, parent)); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

// hashFile returns the SHA-256 of a regular file, or of a link's target, in hexadecimal.
func hashFile(path string) (sum string, err error) {
	h := sha256.New()
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		_, _ = io.WriteString(h, target)
	case info.Mode().IsRegular():
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if _, err := io.Copy(h, f); err != nil {
			return "", err
		}
	default:
		return "", fmt.Errorf("hash %q: neither a file nor a link", path)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// RemoveRoom removes the room of that name that a killed process left in root. It is no error if there
// is none.
func RemoveRoom(root, name string) error { return removeRoom(filepath.Join(root, ".rooms", name)) }

// Close removes the room, read-only folders in it too. It may be called more than once.
func (r *Room) Close() error { return removeRoom(r.path) }

func removeRoom(path string) error {
	if err := durable.RemoveAll(path); err != nil {
		return err
	}
	removeEmpty(filepath.Dir(path))
	return nil
}
