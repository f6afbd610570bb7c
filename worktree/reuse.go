package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// Reuse copies what the globs match among the ignored files of the checkout from into the room; files
// share blocks where the file system can, and nothing else: no hard links. A glob that matches nothing
// is no error. The result is sorted by path: SHA256 is that of the file or link target, for a folder
// that of its manifest (a line "mode NUL sha256 NUL path NUL" for all below it, sorted).
//
// It is a *ReuseError if a glob names what git tracks or leaves the checkout, if the place in the room
// is taken or behind a link, or if a link in what is copied leads back into the checkout: a test would
// then pass on files that are not in the room. On an error part of it may have been copied.
func (r *Room) Reuse(ctx context.Context, from string, globs []string) ([]schemas.Overlay, error) {
	chosen, err := reusable(ctx, r.repo, from, globs)
	if err != nil {
		return nil, err
	}
	var overlays []schemas.Overlay
	for path := range chosen {
		if parentChosen(chosen, path) {
			continue
		}
		overlay, err := r.copyIn(from, path)
		if err != nil {
			return nil, err
		}
		overlays = append(overlays, overlay)
	}
	slices.SortFunc(overlays, func(a, b schemas.Overlay) int { return strings.Compare(a.Path, b.Path) })
	return overlays, nil
}

// CheckReuse says what is known of a *ReuseError before there is a room, from repo's checkout as it is now. It
// reads only.
func CheckReuse(ctx context.Context, repo *gitexec.Repo, globs []string) error {
	if repo.WorkTree == "" {
		return nil // there is nothing to copy from
	}
	_, err := reusable(ctx, repo, repo.WorkTree, globs)
	return err
}

// reusable are the ignored paths of the checkout from that globs match.
func reusable(ctx context.Context, repo *gitexec.Repo, from string, globs []string) (map[string]bool, error) {
	if len(globs) == 0 {
		return nil, nil
	}
	source := repo.Linked(repo.GitDir, from)
	list := func(args ...string) ([]string, error) {
		out, err := source.Run(ctx, gitexec.Call{Args: append([]string{"ls-files", "-z"}, args...), WorkTree: from})
		return splitNUL(out), err
	}
	ignored, err := list("-o", "-i", "--directory", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	tracked, err := list()
	if err != nil {
		return nil, err
	}
	chosen := map[string]bool{}
	for _, glob := range globs {
		glob = strings.TrimSuffix(glob, "/")
		if !filepath.IsLocal(glob) || !doublestar.ValidatePattern(glob) {
			return nil, &ReuseError{Glob: glob, Detail: "not a pattern for paths in the checkout"}
		}
		matches, err := matchIgnored(from, ignored, glob)
		if err != nil {
			return nil, err
		}
		if len(matches) == 0 {
			if i := slices.IndexFunc(tracked, func(t string) bool { return doublestar.MatchUnvalidated(glob, t) || strings.HasPrefix(t, glob+"/") }); i >= 0 {
				return nil, &ReuseError{Glob: glob, Path: tracked[i], Detail: "git tracks it"}
			}
		}
		for _, m := range matches {
			chosen[m] = true
		}
	}
	return chosen, nil
}

// matchIgnored finds what glob matches among ignored paths, of which git gives a folder as one, with a
// slash at its end.
func matchIgnored(from string, ignored []string, glob string) ([]string, error) {
	var matches []string
	for _, path := range ignored {
		folder, isFolder := strings.CutSuffix(path, "/")
		if doublestar.MatchUnvalidated(glob, folder) {
			matches = append(matches, folder)
			continue
		}
		base, _ := doublestar.SplitPattern(glob)
		below := base == "." || strings.HasPrefix(folder+"/", base+"/") || strings.HasPrefix(base+"/", folder+"/")
		if !isFolder || !below {
			continue
		}
		err := filepath.WalkDir(filepath.Join(from, folder), func(full string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(from, full)
			if err != nil || !doublestar.MatchUnvalidated(glob, rel) {
				return err
			}
			matches = append(matches, rel)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return matches, nil
}

func parentChosen(chosen map[string]bool, path string) bool {
	for parent := parentOf(path); parent != ""; parent = parentOf(parent) {
		if chosen[parent] {
			return true
		}
	}
	return false
}

// copyIn copies one file or folder to the same place in the room.
func (r *Room) copyIn(from, path string) (schemas.Overlay, error) {
	dst := filepath.Join(r.Dir, path)
	if throughLink(r.Dir, path) {
		return schemas.Overlay{}, &ReuseError{Path: path, Detail: "its place in the tree is behind a link"}
	}
	if _, err := os.Lstat(dst); err == nil {
		return schemas.Overlay{}, &ReuseError{Path: path, Detail: "the tree has something in its place"}
	}
	if err := durable.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return schemas.Overlay{}, err
	}
	if err := durable.CopyTree(filepath.Join(from, path), dst); err != nil {
		return schemas.Overlay{}, err
	}
	// The copy is judged and hashed, not the source: the source may change meanwhile.
	sum, err := hashTree(dst, func(link, target string) error {
		if filepath.IsAbs(target) && containing(target, []string{from}) != "" {
			return &ReuseError{Path: filepath.Join(path, link), Detail: fmt.Sprintf("it is a link into the checkout, to %q", target)}
		}
		return nil
	})
	if err != nil {
		return schemas.Overlay{}, err
	}
	return schemas.Overlay{Path: path, Source: "reuse", SHA256: sum}, nil
}

// hashTree hashes a file, link or folder, and shows check every link: its path below root and target.
func hashTree(root string, check func(link, target string) error) (string, error) {
	var lines []string
	single := ""
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			if err := check(rel, target); err != nil {
				return err
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum, err := hashFile(path)
		if err != nil {
			return err
		}
		if path == root {
			single = sum
		}
		lines = append(lines, fmt.Sprintf("%06o\x00%s\x00%s\x00", info.Mode().Perm(), sum, rel))
		return nil
	})
	if err != nil || single != "" {
		return single, err
	}
	slices.Sort(lines)
	h := sha256.New()
	for _, line := range lines {
		_, _ = h.Write([]byte(line))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
