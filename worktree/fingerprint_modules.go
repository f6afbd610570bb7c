package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/git-spot/git-spot/internal/gitexec"
)

// A submodule has a git directory of its own below modules/ of the repository's, and a linked worktree may have a
// configuration of its own. What is configured there is run by the user's git status, and by our own checkouts of
// submodules.

// moduleKey is the key of a Fingerprint's configuration for a key in the file called name, which is another
// git directory's.
func moduleKey(name, key string) string { return name + "\x00" + key }

// bareKey is a key as git spells it.
func bareKey(key string) string { return key[strings.IndexByte(key, 0)+1:] }

// shownKey is a key as people are told it.
func shownKey(key string) string { return strings.Replace(key, "\x00", ": ", 1) }

// isOther reports whether a file of that name belongs to a submodule or another worktree.
func (f *Fingerprint) isOther(repo *gitexec.Repo, name string) bool {
	return !slices.Contains(ownSources(repo), f.path(name)) &&
		(strings.HasPrefix(name, "modules/") || strings.HasPrefix(name, "worktrees/") || name == "config.worktree")
}

var (
	// moduleConfigs are the configuration files of a git directory.
	moduleConfigs = []string{"config", "config.worktree"}
	// notModules are the folders of a git directory that have no other git directory in them.
	notModules = []string{"objects", "refs", "logs", "lfs", "hooks", "info", "branches", "worktrees", "rr-cache"}
)

// addOthers reads what git runs when it looks into a submodule or another worktree.
func (f *Fingerprint) addOthers(ctx context.Context, repo *gitexec.Repo) error {
	configs, err := f.findWorktrees(repo)
	if err != nil {
		return err
	}
	for _, dir := range slices.Compact([]string{repo.CommonDir, repo.GitDir}) {
		found, err := f.findModules(filepath.Join(dir, "modules"))
		if err != nil {
			return err
		}
		configs = append(configs, found...)
	}
	if len(configs) == 0 {
		return nil
	}
	return f.addOtherConfigs(ctx, repo, configs)
}

// findWorktrees lists the configuration files of other worktrees than repo is seen from.
func (f *Fingerprint) findWorktrees(repo *gitexec.Repo) (configs []string, err error) {
	dirs := []string{f.common}
	linked, err := os.ReadDir(filepath.Join(f.common, "worktrees"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return nil, err
	}
	for _, d := range linked {
		dirs = append(dirs, filepath.Join(f.common, "worktrees", d.Name()))
	}
	for _, dir := range dirs {
		config := filepath.Join(dir, "config.worktree")
		if _, err := os.Lstat(config); err == nil && dir != repo.GitDir {
			configs = append(configs, config)
		}
	}
	return configs, nil
}

// findModules reads hooks and attributes of the submodules whose git directories are below dir, and lists their
// configuration files. A link, which git would follow and nobody makes, is recorded for itself.
func (f *Fingerprint) findModules(dir string) (configs []string, err error) {
	isGitDir := func(path string) bool {
		_, err := os.Lstat(filepath.Join(path, "HEAD"))
		return err == nil
	}
	return configs, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.Type() == fs.ModeSymlink:
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				return addFile(f.files, f.name(path), path)
			}
			return nil
		case !d.IsDir():
			return nil
		case slices.Contains(notModules, d.Name()) && isGitDir(filepath.Dir(path)):
			return fs.SkipDir
		case !isGitDir(path):
			return nil
		}
		for _, name := range moduleConfigs {
			config := filepath.Join(path, name)
			if _, err := os.Lstat(config); err == nil {
				configs = append(configs, config)
			}
		}
		return f.addCommands(path)
	})
}

// addOtherConfigs reads configuration files of submodules and worktrees with what they include.
func (f *Fingerprint) addOtherConfigs(ctx context.Context, repo *gitexec.Repo, paths []string) error {
	found, err := repo.ConfigFiles(ctx, paths)
	if e, refused := errors.AsType[*gitexec.Error](err); refused && e.Status > 0 {
		if len(paths) == 1 {
			f.config[moduleKey(f.name(paths[0]), unreadable)] = []setting{{file: paths[0]}}
			return addFile(f.sources, f.name(paths[0]), paths[0])
		}
		for _, path := range paths { // it is one of them
			if err := f.addOtherConfigs(ctx, repo, []string{path}); err != nil {
				return err
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	for i, path := range paths {
		sources := []string{path}
		for _, e := range found[i] {
			file := strings.TrimPrefix(e.Origin, "file:")
			key := moduleKey(f.name(path), e.Key)
			f.config[key] = append(f.config[key], setting{value: e.Value, file: file})
			sources = append(sources, file)
		}
		for _, source := range sources {
			if err := addFile(f.sources, f.name(source), source); err != nil {
				return err
			}
		}
	}
	return nil
}

// unreadableModules names the configuration files of submodules and worktrees that git refuses to read, as Compare does.
func (f *Fingerprint) unreadableModules() []string {
	var names []string
	for key := range f.config {
		if bareKey(key) == unreadable {
			names = append(names, shownKey(key))
		}
	}
	slices.Sort(names)
	return names
}
