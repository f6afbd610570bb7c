package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
)

// submoduleDepth is how many submodules may lie in one another.
const submoduleDepth = 8

// placeSubmodules fills the folders of the submodules among entries from the git directories that the
// repository keeps for them, without a network, and returns those that stay empty. A filled folder
// holds files and no .git: nothing in it is a repository.
func placeSubmodules(ctx context.Context, repo *gitexec.Repo, entries map[string]entry, dir, scratch string, depth int) (empty []string, err error) {
	names, err := submoduleNames(ctx, repo, entries)
	if err != nil {
		return nil, err
	}
	n := 0
	for path, e := range entries {
		if e.mode != modeGitlink || e.skip {
			continue
		}
		sub := submoduleRepo(repo, names[path], path)
		if sub == nil || depth == submoduleDepth || !hasCommit(ctx, sub, e.oid) {
			empty = append(empty, path)
			continue
		}
		n++
		inner := filepath.Join(scratch, "submodule-"+strconv.Itoa(depth)+"-"+strconv.Itoa(n))
		if err := durable.Mkdir(inner, 0o700); err != nil {
			return nil, err
		}
		below, err := placeSubmodule(ctx, sub, e.oid, filepath.Join(dir, path), inner, depth)
		if err != nil {
			return nil, err
		}
		for _, b := range below {
			empty = append(empty, path+"/"+b)
		}
		if err := durable.RemoveAll(inner); err != nil {
			return nil, err
		}
	}
	slices.Sort(empty)
	return empty, nil
}

func placeSubmodule(ctx context.Context, sub *gitexec.Repo, commit gitstate.OID, dir, scratch string, depth int) (empty []string, err error) {
	f, err := contentFilters(ctx, sub, commit)
	if err != nil {
		return nil, err
	}
	index := filepath.Join(scratch, "index")
	if _, err := sub.Run(ctx, gitexec.Call{
		Args:  []string{"read-tree", "--reset", "-u", "--no-recurse-submodules", string(commit)},
		Index: index, WorkTree: dir, Env: f.env(), Config: plainIndex,
	}); err != nil {
		return nil, err
	}
	entries, err := readIndex(ctx, sub, index)
	if err != nil {
		return nil, err
	}
	return placeSubmodules(ctx, sub, entries, dir, scratch, depth+1)
}

// submoduleNames maps the paths of submodules to their names, by the .gitmodules among entries.
func submoduleNames(ctx context.Context, repo *gitexec.Repo, entries map[string]entry) (map[string]string, error) {
	modules, ok := entries[".gitmodules"]
	if !ok || modules.mode == modeLink || modules.mode == modeGitlink {
		return nil, nil
	}
	out, err := repo.Run(ctx, gitexec.Call{Args: []string{"config", "-z", "--no-includes", "--blob", string(modules.oid), "--list"}})
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, nil // not readable: git itself then knows no submodule
	}
	names := map[string]string{}
	for _, line := range splitNUL(out) {
		key, path, _ := strings.Cut(line, "\n")
		rest, ok := strings.CutPrefix(key, "submodule.")
		name, isPath := strings.CutSuffix(rest, ".path")
		// As git's check_submodule_name: a name becomes a path below modules/.
		parts := strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' })
		if ok && isPath && name != "" && !slices.Contains(parts, "..") && filepath.IsLocal(name) {
			names[path] = name
		}
	}
	return names, nil
}

// submoduleRepo finds the git directory that the repository keeps for a submodule: absorbed below its
// own, or, as old versions of git made it, in the submodule's folder of the checkout.
func submoduleRepo(repo *gitexec.Repo, name, path string) *gitexec.Repo {
	var places []string
	if name != "" {
		places = append(places, filepath.Join(repo.GitDir, "modules", name), filepath.Join(repo.CommonDir, "modules", name))
	}
	if repo.WorkTree != "" {
		places = append(places, filepath.Join(repo.WorkTree, path, ".git"))
	}
	for _, place := range places {
		if info, err := os.Lstat(filepath.Join(place, "HEAD")); err != nil || !info.Mode().IsRegular() {
			continue
		}
		sub := repo.Linked(place, "")
		sub.CommonDir = place
		if repo.WorkTree != "" {
			sub.WorkTree = filepath.Join(repo.WorkTree, path)
		}
		return sub
	}
	return nil
}

func hasCommit(ctx context.Context, repo *gitexec.Repo, commit gitstate.OID) bool {
	_, err := repo.Run(ctx, gitexec.Call{Args: []string{"cat-file", "-e", string(commit) + "^{commit}"}})
	return err == nil
}

// submodulesLimit is how much of submodulesFile is read, in bytes.
const submodulesLimit = 16 << 20

// submodulesFile holds, by path, what the folders of submodules looked like after the checkout.
func (w *Worktree) submodulesFile() string { return filepath.Join(w.stateDir(), "submodules") }

// recordSubmodules writes submodulesFile.
func (w *Worktree) recordSubmodules(paths []string) error {
	if len(paths) == 0 {
		return durable.RemoveAll(w.submodulesFile())
	}
	states := map[string]string{}
	for _, path := range paths {
		state, err := folderState(filepath.Join(w.Path(), path))
		if err != nil {
			return err
		}
		states[path] = state
	}
	data, err := json.Marshal(states)
	if err != nil {
		return err
	}
	return durable.Replace(w.submodulesFile(), data, 0o600)
}

// changedSubmodules returns the submodules whose folders are not as they were after the checkout: what
// is changed in them is no part of a tree of this repository.
func (w *Worktree) changedSubmodules(paths map[string]bool) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	data, err := durable.ReadFile(w.submodulesFile(), submodulesLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil && !errors.Is(err, fs.ErrInvalid) {
		return nil, err
	}
	// What recordSubmodules did not write knows none of them, so that all are reported.
	var states map[string]string
	if json.Unmarshal(data, &states) != nil {
		states = nil
	}
	var changed []string
	for path := range paths {
		state, err := folderState(filepath.Join(w.Path(), path))
		if err != nil {
			return nil, err
		}
		if state != states[path] {
			changed = append(changed, path)
		}
	}
	return changed, nil
}

// folderState is a hash over names, types, sizes and times of what is below a folder.
func folderState(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			// Closed, too deep or gone: it is not as it was made.
			_, _ = fmt.Fprintf(h, "%s\x00?", path)
			return nil
		}
		if d.IsDir() {
			_, _ = fmt.Fprintf(h, "%s\x00", path)
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(h, "%s\x00%v %d %d\x00", path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
