package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// source is the branch to land on and the checkout that has it.
type source struct {
	repo   *gitexec.Repo // seen from the checkout, or from the common directory if there is none
	branch gitstate.Ref
}

func (s *source) error(reason schemas.Code, detail string, paths ...string) *SourceError {
	return &SourceError{Reason: reason, Branch: string(s.branch), Checkout: s.repo.WorkTree, Detail: detail, Paths: paths}
}

// findSource finds the checkout of branch, if it has one.
func findSource(ctx context.Context, repo *gitexec.Repo, branch gitstate.Ref) (*source, error) {
	s := &source{repo: repo.Linked(repo.CommonDir, ""), branch: branch}
	out, err := s.repo.Run(ctx, gitexec.Call{Args: []string{"worktree", "list", "--porcelain", "-z"}})
	if err != nil {
		return nil, err
	}
	if err := s.checkDetached(repo); err != nil {
		return nil, err
	}
	var found []string
	for i, block := range strings.Split(string(out), "\x00\x00") {
		lines := splitNUL([]byte(block))
		if !slices.Contains(lines, "branch "+string(branch)) {
			continue
		}
		path := strings.TrimPrefix(lines[0], "worktree ")
		gitDir := repo.CommonDir
		if i == 0 {
			path = mainCheckout(repo, path)
		} else {
			gitDir = linkedGitDir(repo, path)
		}
		if path == "" || gitDir == "" {
			s.repo.WorkTree = strings.TrimPrefix(lines[0], "worktree ")
			return nil, s.error(schemas.CodeSourceDirty, "it is missing or belongs to another repository")
		}
		found = append(found, path)
		s.repo = repo.Linked(gitDir, path)
	}
	if len(found) > 1 {
		return nil, s.error(schemas.CodeSourceDirty, fmt.Sprintf("the branch is checked out in %q as well", found[0]))
	}
	return s, nil
}

// mainCheckout is the folder of the main worktree. Git's listed path is a guess from the name of the
// common directory, and wrong for a submodule or a separate git directory. It is "" if nobody knows.
func mainCheckout(repo *gitexec.Repo, listed string) string {
	if repo.GitDir == repo.CommonDir {
		return repo.WorkTree
	}
	common, err := os.Stat(repo.CommonDir)
	if err != nil {
		return ""
	}
	dotGit := filepath.Join(listed, ".git")
	if target := readGitFile(dotGit); target != "" {
		dotGit = target
	}
	if info, err := os.Stat(dotGit); err == nil && os.SameFile(info, common) {
		return listed
	}
	return ""
}

// linkedGitDir is the git directory of the linked worktree at path, or "" if it is not there any more.
func linkedGitDir(repo *gitexec.Repo, path string) string {
	dir := readGitFile(filepath.Join(path, ".git"))
	if dir == "" {
		return ""
	}
	parent, err := os.Stat(filepath.Dir(dir))
	worktrees, err2 := os.Stat(filepath.Join(repo.CommonDir, "worktrees"))
	if err != nil || err2 != nil || !os.SameFile(parent, worktrees) {
		return ""
	}
	return filepath.Join(repo.CommonDir, "worktrees", filepath.Base(dir))
}

// readGitFile returns where a .git file points to, or "".
func readGitFile(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	data, err := os.ReadFile(path)
	target, ok := strings.CutPrefix(strings.TrimRight(string(data), "\r\n"), "gitdir: ")
	if err != nil || !ok {
		return ""
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	return target
}

// checkDetached looks for a checkout that has let go of the branch only for the time of a rebase or
// bisect, and will come back to it.
func (s *source) checkDetached(repo *gitexec.Repo) error {
	dirs := []string{s.repo.CommonDir}
	linked, err := os.ReadDir(filepath.Join(s.repo.CommonDir, "worktrees"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range linked {
		dirs = append(dirs, filepath.Join(s.repo.CommonDir, "worktrees", e.Name()))
	}
	names := []string{string(s.branch), strings.TrimPrefix(string(s.branch), "refs/heads/")}
	for _, dir := range dirs {
		for _, file := range []string{"rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"} {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if err == nil && slices.Contains(names, strings.TrimSpace(string(data))) {
				s.repo.WorkTree = checkoutOf(repo, dir)
				return s.error(schemas.CodeSourceDirty, "a rebase or bisect of the branch is in progress")
			}
		}
	}
	return nil
}

// checkoutOf is the folder of the checkout whose git directory is dir, or dir if nobody knows.
func checkoutOf(repo *gitexec.Repo, dir string) string {
	if dir == repo.CommonDir {
		if path := mainCheckout(repo, filepath.Dir(dir)); path != "" {
			return path
		}
		return dir
	}
	data, err := os.ReadFile(filepath.Join(dir, "gitdir"))
	if path := strings.TrimSpace(string(data)); err == nil && filepath.IsAbs(path) {
		return filepath.Dir(path)
	}
	return dir
}

// at returns the commit of the branch, "" if there is none.
func (s *source) at(ctx context.Context) (gitstate.OID, error) {
	out, err := s.repo.Run(ctx, gitexec.Call{Args: []string{"for-each-ref", "--format=%(refname) %(objectname) %(symref)", string(s.branch)}})
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(parts) != 3 || parts[0] != string(s.branch) {
			continue // a pattern also matches what is below it
		}
		if parts[2] != "" {
			return "", s.error(schemas.CodeSourceDirty, "it is a symbolic ref to "+parts[2])
		}
		return gitstate.ParseOID(parts[1])
	}
	return "", nil
}

// checkAt demands that the branch be at want.
func (s *source) checkAt(ctx context.Context, want gitstate.OID) error {
	got, err := s.at(ctx)
	if err != nil || got == want {
		return err
	}
	return &SourceError{Reason: schemas.CodeSourceMoved, Branch: string(s.branch), Checkout: s.repo.WorkTree, Want: string(want), Got: string(got)}
}

// checkClean demands that the checkout be clean, and the places of changes free.
func (s *source) checkClean(ctx context.Context, changes []change) error {
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply", "sequencer"} {
		if _, err := os.Lstat(filepath.Join(s.repo.GitDir, name)); err == nil {
			return s.error(schemas.CodeSourceDirty, name+" says that something is in progress")
		}
	}
	paths, err := status(ctx, s.repo, gitexec.Call{Args: []string{"--untracked-files=no", "--ignore-submodules=dirty"}})
	if err != nil {
		return err
	}
	if len(paths) > 0 {
		return s.error(schemas.CodeSourceDirty, "tracked files are changed", paths...)
	}
	if paths, err = inTheWay(s.repo.WorkTree, changes); err != nil {
		return err
	}
	if len(paths) > 0 {
		return s.error(schemas.CodeSourceDirty, "untracked files are in the way", paths...)
	}
	return nil
}

// change is one path that two commits have differently.
type change struct {
	path     string
	old, new entry // the zero value is no file
}

// changesBetween lists how the trees of two commits differ, without submodules.
func changesBetween(ctx context.Context, repo *gitexec.Repo, old, new gitstate.OID) ([]change, error) {
	out, err := repo.Run(ctx, gitexec.Call{Args: []string{"diff-tree", "-r", "-z", "--raw", "--full-index", "--no-renames", "--ignore-submodules=none", string(old), string(new)}})
	if err != nil {
		return nil, err
	}
	var changes []change
	fields := splitNUL(out)
	for pair := range slices.Chunk(fields, 2) {
		// :100644 100755 <old> <new> M
		meta := strings.Fields(strings.TrimPrefix(pair[0], ":"))
		if len(pair) != 2 || len(meta) != 5 {
			return nil, fmt.Errorf("git diff-tree printed %q", pair)
		}
		c := change{path: pair[1]}
		if meta[0] != "000000" {
			c.old = entry{mode: meta[0], oid: gitstate.OID(meta[2])}
		}
		if meta[1] != "000000" {
			c.new = entry{mode: meta[1], oid: gitstate.OID(meta[3])}
		}
		if meta[0] != modeGitlink && meta[1] != modeGitlink {
			changes = append(changes, c)
		}
	}
	return changes, nil
}

// inTheWay lists what git does not track and lies where the changes put a file or a folder. The
// checkout is otherwise as the old commit has it.
func inTheWay(dir string, changes []change) ([]string, error) {
	leaving := map[string]bool{} // files of the old commit that the new one has not
	for _, c := range changes {
		if c.new.mode == "" {
			leaving[c.path] = true
		}
	}
	found := map[string]bool{}
	for _, c := range changes {
		if c.old.mode != "" || c.new.mode == "" {
			continue // git wrote what lies there
		}
		for parent := parentOf(c.path); parent != ""; parent = parentOf(parent) {
			info, err := os.Lstat(filepath.Join(dir, parent))
			if err == nil && !info.IsDir() && !leaving[parent] {
				found[parent] = true
			}
		}
		if throughLink(dir, c.path) {
			continue
		}
		if err := occupants(dir, c.path, leaving, found); err != nil {
			return nil, err
		}
	}
	paths := make([]string, 0, len(found))
	for path := range found {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths, nil
}

// occupants adds to found what lies at path, or below it, and is not leaving.
func occupants(dir, path string, leaving, found map[string]bool) error {
	full := filepath.Join(dir, path)
	at, err := os.Lstat(full)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !at.IsDir() {
		// A file system that folds case shows readme, which is leaving, also as README.
		for name := range leaving {
			if info, err := os.Lstat(filepath.Join(dir, name)); strings.EqualFold(name, path) && err == nil && os.SameFile(info, at) {
				return nil
			}
		}
		found[path] = true
		return nil
	}
	return filepath.WalkDir(full, func(below string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, below)
		if err == nil && !leaving[rel] {
			found[rel] = true
		}
		return err
	})
}
