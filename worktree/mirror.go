package worktree

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/internal/durable"
)

// When the worker changed a .gitattributes, git cannot be let into the folder: it would choose filters
// and encodings by the worker's word. The snapshot is then taken from a copy of the folder without
// any .gitattributes. git takes them from the index instead, which holds those of base. The worker's
// go into the tree at the end, as they are.

// updateFromMirror is update for a folder with other attributes than base. Gone are the tracked paths
// that are not there.
func (s *snapshot) updateFromMirror(ctx context.Context, gone []string) (err error) {
	defer func() { err = errors.Join(err, durable.RemoveAll(s.mirror)) }()
	ordinary, raw, err := s.fillMirror(ctx)
	if err != nil {
		return err
	}
	goneLast := slices.DeleteFunc(slices.Clone(gone), func(path string) bool { return !underAttributes(path) })
	gone = slices.DeleteFunc(slices.Clone(gone), underAttributes)
	if err := s.remove(ctx, s.mirror, gone); err != nil {
		return err
	}
	skipped := slices.DeleteFunc(slices.Clone(ordinary), func(path string) bool { return !s.tracked[path].skip })
	if len(skipped) > 0 {
		if _, err := s.git(ctx, s.mirror, skipped, "update-index", "-z", "--no-skip-worktree", "--stdin"); err != nil {
			return err
		}
	}
	if err := s.add(ctx, s.mirror, ordinary); err != nil {
		return err
	}
	if err := s.remove(ctx, s.mirror, goneLast); err != nil {
		return err
	}
	return s.addRaw(ctx, raw)
}

// addAlone adds all files of the folder to an empty index as they are, with no attributes in force.
func (s *snapshot) addAlone(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, durable.RemoveAll(s.mirror)) }()
	ordinary, raw, err := s.fillMirror(ctx)
	if err != nil {
		return err
	}
	s.tracked = nil // not in this index
	if len(ordinary) > 0 {
		if err := s.addSome(ctx, s.mirror, ordinary); err != nil {
			return err
		}
	}
	return s.addRaw(ctx, raw)
}

// fillMirror makes the mirror with the files that are found, all but those that would be attributes: raw.
func (s *snapshot) fillMirror(ctx context.Context) (ordinary, raw []string, err error) {
	if err := durable.RemoveAll(s.mirror); err != nil {
		return nil, nil, err
	}
	for path := range s.found.files {
		if underAttributes(path) {
			raw = append(raw, path)
		} else {
			ordinary = append(ordinary, path)
		}
	}
	slices.Sort(ordinary)
	slices.Sort(raw)
	return ordinary, raw, s.copyFiles(ctx, ordinary)
}

// underAttributes reports whether a component of path is .gitattributes, in any case.
func underAttributes(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(c string) bool { return strings.EqualFold(c, ".gitattributes") })
}

func (s *snapshot) copyFiles(ctx context.Context, paths []string) error {
	made := map[string]bool{}
	for _, path := range append([]string{""}, paths...) {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		folder := parentOf(path)
		if !made[folder] {
			if err := durable.MkdirAll(filepath.Join(s.mirror, folder), 0o700); err != nil {
				return err
			}
			made[folder] = true
		}
		if path == "" {
			continue
		}
		if err := makeReadable(filepath.Join(s.dir, path)); err != nil {
			return err
		}
		if err := durable.CopyTree(filepath.Join(s.dir, path), filepath.Join(s.mirror, path)); err != nil {
			return err
		}
	}
	return nil
}

// addRaw puts files of the folder into the index without conversion.
func (s *snapshot) addRaw(ctx context.Context, paths []string) error {
	var lines []string
	for _, path := range paths {
		if e, tracked := s.tracked[path]; tracked {
			if same, err := s.sameAsBase(path); err != nil {
				return err
			} else if same && !e.skip {
				continue // as base has it, whatever became of its line endings
			}
		}
		if err := makeReadable(filepath.Join(s.dir, path)); err != nil {
			return err
		}
		mode, oid, err := s.writeRaw(ctx, path, s.dir)
		if err != nil {
			return err
		}
		lines = append(lines, mode+" "+string(oid)+"\t"+path)
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := s.git(ctx, s.mirror, lines, "update-index", "-z", "--add", "--replace", "--index-info")
	return err
}
