package worktree

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/git-spot/git-spot/internal/gitexec"
)

// nameLimit is how much of a repository's name goes into a folder name, in bytes. Paths in a checkout
// can be long, and sockets below it short.
const nameLimit = 40

// Root returns the folder that holds all worktrees of a repository:
// <configured>/<repository>-<8 hex digits of its location>. A configured folder is absolute or begins
// with ~/. Without one it is git-spot/worktrees below the XDG state folder. Root creates nothing. A
// folder that is relative, inside the repository, below a file or where this process may not make it is a
// *RootError.
func Root(repo *gitexec.Repo, configured string, getenv func(string) string) (string, error) {
	parent, err := rootParent(configured, getenv)
	if err != nil {
		return "", err
	}
	common, err := filepath.EvalSymlinks(repo.CommonDir)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(common))
	root := filepath.Join(parent, repositoryName(common)+"-"+hex.EncodeToString(sum[:4]))
	if inside := containing(root, repositoryFolders(repo)); inside != "" {
		return "", &RootError{Root: root, Repository: inside}
	}
	if detail := unmakeable(root); detail != "" {
		return "", &RootError{Root: root, Detail: detail}
	}
	return root, nil
}

// unmakeable says why the folder path cannot be made, as far as that is known without trying; else "".
func unmakeable(path string) string {
	for above := path; ; above = filepath.Dir(above) {
		if _, err := os.Lstat(above); err != nil && above != filepath.Dir(above) {
			continue
		}
		if info, err := os.Stat(above); err != nil || !info.IsDir() {
			return fmt.Sprintf("%q is not a folder", above)
		}
		if err := unix.Access(above, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Sprintf("%q: %v", above, err)
		}
		return ""
	}
}

func rootParent(configured string, getenv func(string) string) (string, error) {
	home := getenv("HOME")
	if rest, ok := strings.CutPrefix(configured, "~/"); ok && filepath.IsAbs(home) {
		configured = filepath.Join(home, rest)
	}
	switch state := getenv("XDG_STATE_HOME"); {
	case filepath.IsAbs(configured):
		return filepath.Clean(configured), nil
	case configured != "":
		return "", &RootError{Root: configured, Detail: "it must be an absolute path"}
	case filepath.IsAbs(state): // the XDG specification has a relative one ignored
		return filepath.Join(state, "git-spot", "worktrees"), nil
	case filepath.IsAbs(home):
		return filepath.Join(home, ".local", "state", "git-spot", "worktrees"), nil
	}
	return "", &RootError{Detail: "neither spot.worktreeRoot, XDG_STATE_HOME nor HOME is an absolute path"}
}

// repositoryName is the last word of a repository's location that says something to people.
func repositoryName(common string) string {
	name := filepath.Base(common)
	if name == ".git" {
		name = filepath.Base(filepath.Dir(common))
	}
	name = strings.TrimSuffix(name, ".git")
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, name)
	if len(name) > nameLimit {
		name = name[:nameLimit]
	}
	if name = strings.TrimLeft(name, ".-"); name == "" {
		return "repository"
	}
	return name
}

// repositoryFolders are the folders that belong to the repository: its git directories and the
// checkouts that are known without asking git.
func repositoryFolders(repo *gitexec.Repo) []string {
	folders := []string{repo.CommonDir, repo.GitDir}
	if repo.WorkTree != "" {
		folders = append(folders, repo.WorkTree)
	}
	if filepath.Base(repo.CommonDir) == ".git" {
		folders = append(folders, filepath.Dir(repo.CommonDir))
	}
	return folders
}

// containing returns the folder of folders that path is, or will be, in. It compares files and not
// names: a link, or a file system that folds case, gives one folder many names.
func containing(path string, folders []string) string {
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			path = real
			break
		}
		parent := filepath.Dir(path)
		if parent == path {
			break
		}
		path = parent
	}
	for {
		if info, err := os.Stat(path); err == nil {
			for _, folder := range folders {
				if f, err := os.Stat(folder); err == nil && os.SameFile(info, f) {
					return folder
				}
			}
		}
		parent := filepath.Dir(path)
		if parent == path {
			return ""
		}
		path = parent
	}
}
