package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
)

// A worker's folder is walked by this program and not by git, because git looks into whatever lies
// there: it opens .gitignore, .gitattributes and .git/HEAD, and waits for ever if one is a FIFO; it
// leaves out a folder that it may not read, and says so only to people. Only the question whether a
// path is ignored goes to git.

// walk is what a folder holds, as far as it could be in a tree: without what is ignored.
type walk struct {
	files map[string]fs.FileMode // regular files and symbolic links by path; only the type
	// gitlinks are the folders of base's submodules that exist. They are not entered.
	gitlinks map[string]bool
	// attributes are entries named .gitattributes, of any type and case, ignored ones too.
	attributes []string
	nested     []string // folders with a .git of their own
	skipped    []string
}

type walker struct {
	walk
	dir     string
	tracked map[string]entry
	folders map[string]bool // that hold tracked paths
	ignored func(ctx context.Context, paths []string) (map[string]bool, error)
}

// walkFolder walks dir. Tracked paths are never ignored. Folders that the owner may not read are
// opened up; special files that git would wait for are removed.
func walkFolder(ctx context.Context, dir string, tracked map[string]entry, ignored func(context.Context, []string) (map[string]bool, error)) (*walk, error) {
	w := &walker{
		walk:    walk{files: make(map[string]fs.FileMode, len(tracked)), gitlinks: map[string]bool{}},
		dir:     dir,
		tracked: tracked,
		folders: map[string]bool{"": true},
		ignored: ignored,
	}
	for path := range tracked {
		for parent := parentOf(path); !w.folders[parent]; parent = parentOf(parent) {
			w.folders[parent] = true
		}
	}
	// Level by level, so that one question to git settles a whole level and nothing below an ignored
	// folder is ever read.
	for level := []string{""}; len(level) > 0; {
		var err error
		if level, err = w.level(ctx, level); err != nil {
			return nil, err
		}
	}
	for _, list := range [][]string{w.attributes, w.nested, w.skipped} {
		slices.Sort(list)
	}
	return &w.walk, nil
}

// level reads folders and returns those in them that are to be read next.
func (w *walker) level(ctx context.Context, folders []string) (next []string, err error) {
	found := map[string]fs.FileMode{} // untracked
	for _, folder := range folders {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		entries, err := readFolder(filepath.Join(w.dir, folder))
		switch {
		case errors.Is(err, unix.ENAMETOOLONG):
			w.skipped = append(w.skipped, folder)
			continue
		case err != nil:
			return nil, err
		}
		if w.isNested(folder, entries) && !w.folders[folder] {
			continue
		}
		for _, e := range entries {
			path := joinPath(folder, e.Name())
			switch known, err := w.known(path, e); {
			case err != nil:
				return nil, err
			case known && w.folders[path] && e.IsDir():
				next = append(next, path)
			case !known:
				found[path] = e.Type()
			}
		}
	}
	paths := make([]string, 0, len(found))
	for path := range found {
		paths = append(paths, path)
	}
	ignored, err := w.ignored(ctx, paths)
	if err != nil {
		return nil, err
	}
	for path, mode := range found {
		switch {
		case ignored[path]:
		case mode.IsDir():
			next = append(next, path)
		case mode == 0 || mode == fs.ModeSymlink:
			w.files[path] = mode
		default:
			w.skipped = append(w.skipped, path)
		}
	}
	return next, nil
}

// isNested reports whether a folder below the top is, or claims to be, a repository of its own.
func (w *walker) isNested(folder string, entries []os.DirEntry) bool {
	if folder == "" {
		return false
	}
	for _, e := range entries {
		if e.Name() == ".git" && (e.IsDir() || e.Type() == 0 || e.Type() == fs.ModeSymlink) {
			w.nested = append(w.nested, folder)
			return true
		}
	}
	return false
}

// known deals with an entry that needs no question whether it is ignored.
func (w *walker) known(path string, e os.DirEntry) (bool, error) {
	name, mode := e.Name(), e.Type()
	special := mode != 0 && mode != fs.ModeDir && mode != fs.ModeSymlink
	switch {
	case path == ".git":
		return true, nil
	case strings.EqualFold(name, ".git"):
		if name != ".git" || special {
			w.skipped = append(w.skipped, path)
		}
		return true, nil
	case len(w.dir)+1+len(path) >= unix.PathMax:
		w.skipped = append(w.skipped, path)
		return true, nil
	}
	isAttributes := strings.EqualFold(name, ".gitattributes")
	if isAttributes && !special {
		w.attributes = append(w.attributes, path)
	}
	if special {
		if isAttributes || strings.EqualFold(name, ".gitignore") || strings.EqualFold(name, ".gitmodules") {
			w.skipped = append(w.skipped, path)
			return true, durable.Remove(filepath.Join(w.dir, path))
		}
		if _, tracked := w.tracked[path]; tracked {
			w.skipped = append(w.skipped, path)
			return true, nil
		}
		return false, nil
	}
	if e.IsDir() {
		if t, ok := w.tracked[path]; ok && t.mode == modeGitlink {
			w.gitlinks[path] = true
			if _, err := os.Lstat(filepath.Join(w.dir, path, ".git")); err == nil {
				w.nested = append(w.nested, path)
			}
			return true, nil
		}
		return w.folders[path], nil
	}
	if mode == 0 && name == ".gitignore" {
		if err := makeReadable(filepath.Join(w.dir, path)); err != nil {
			return false, err
		}
	}
	if _, tracked := w.tracked[path]; tracked {
		w.files[path] = mode
		return true, nil
	}
	return false, nil
}

// openUp gives us, the owner, the rights on a folder that reading and emptying it take. A worker may
// have taken them away.
func openUp(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o700 == 0o700 {
		return err
	}
	return os.Chmod(dir, info.Mode().Perm()|0o700) //nolint:forbidigo // no content, and nothing to lose
}

// makeReadable does the same for a regular file.
func makeReadable(file string) error {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o400 != 0 {
		return err
	}
	return os.Chmod(file, info.Mode().Perm()|0o400) //nolint:forbidigo // as above
}

// readFolder lists a folder that may have been closed to its owner.
func readFolder(dir string) ([]os.DirEntry, error) {
	if err := openUp(dir); err != nil {
		return nil, err
	}
	return os.ReadDir(dir)
}

// ignoreRules returns a function that asks git which paths the .gitignore files below dir ignore. The
// user's own excludes have no say: what lands must not depend on who verifies it. Scratch is an empty
// folder, in which it makes the git directory without info/exclude that this takes.
func ignoreRules(repo *gitexec.Repo, dir, scratch, foldCase string) (func(context.Context, []string) (map[string]bool, error), error) {
	for _, folder := range []string{"objects", "refs"} {
		if err := durable.Mkdir(filepath.Join(scratch, folder), 0o700); err != nil {
			return nil, err
		}
	}
	if err := writeNew(filepath.Join(scratch, "HEAD"), "ref: refs/heads/none\n", 0o600); err != nil {
		return nil, err
	}
	bare := repo.Linked(scratch, dir)
	bare.CommonDir = scratch
	return func(ctx context.Context, paths []string) (map[string]bool, error) {
		if len(paths) == 0 {
			return nil, nil
		}
		var ask strings.Builder
		for _, path := range paths {
			ask.WriteString("./") // or a leading colon would be pathspec magic
			ask.WriteString(path)
			ask.WriteByte(0)
		}
		out, err := bare.Run(ctx, gitexec.Call{
			Args:  []string{"check-ignore", "-z", "--stdin", "--no-index"},
			Stdin: strings.NewReader(ask.String()), WorkTree: dir,
			Config: []string{"core.excludesFile=/dev/null", foldCase},
		})
		if e, ok := errors.AsType[*gitexec.Error](err); ok && e.Status == 1 {
			return nil, nil // none is
		}
		if err != nil {
			return nil, err
		}
		ignored := map[string]bool{}
		for _, path := range splitNUL(out) {
			ignored[strings.TrimPrefix(path, "./")] = true
		}
		return ignored, nil
	}, nil
}

// foldsCase is core.ignoreCase as the file system of the existing path really is. The repository's own
// value is about another file system, or wrong: with a wrong one git does not see that a file is new.
func foldsCase(path string) string {
	folder, name := filepath.Split(path)
	asIs, err := os.Lstat(path)
	if err == nil {
		upper, err := os.Lstat(filepath.Join(folder, strings.ToUpper(name)))
		if err == nil && os.SameFile(asIs, upper) {
			return "core.ignoreCase=true"
		}
	}
	return "core.ignoreCase=false"
}

func joinPath(folder, name string) string {
	if folder == "" {
		return name
	}
	return folder + "/" + name
}

// parentOf returns the folder of a slash-separated path, "" for the top.
func parentOf(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return ""
	}
	return path[:i]
}
