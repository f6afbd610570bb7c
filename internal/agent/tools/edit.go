package tools

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

const (
	maxEdits    = 100
	maxPlaces   = 10_000  // places that one call may change
	maxCompared = 500_000 // lines looked at in search of what a text that is absent may mean
)

type editArguments struct {
	Path   string        `json:"path"`
	Edits  []replacement `json:"edits"`
	MoveTo string        `json:"moveTo"`
}

type replacement struct {
	OldText string `json:"oldText"`
	NewText string `json:"newText"`
	All     bool   `json:"all"`
}

func (s *Set) edit(ctx context.Context, in editArguments, room int) (string, error) {
	if len(in.Edits) == 0 && in.MoveTo == "" {
		return "", failed("there is nothing to do. Give edits, each with oldText and newText, or moveTo.")
	}
	if len(in.Edits) > maxEdits {
		return "", failed("these are %d edits and at most %d are made in one call. Use several calls.", len(in.Edits), maxEdits)
	}
	p, err := s.target(in.Path)
	switch {
	case err != nil:
		return "", err
	case p.info == nil:
		if _, err := s.lookup(in.Path); err != nil {
			return "", failed("%s To create a file use write.", reason(err))
		}
		return "", failed("there is no %s. To create a file use write.", show(in.Path))
	case p.info.Mode().Type() == fs.ModeSymlink:
		return "", s.throughLink(in.Path, p.path, "")
	}
	to := p
	if in.MoveTo != "" {
		if to, err = s.moveTarget(p, in.MoveTo); err != nil {
			return "", err
		}
	}
	if len(in.Edits) == 0 {
		return s.move(ctx, p, to)
	}

	data, err := s.load(p)
	switch {
	case err != nil:
		return "", err
	case data == nil:
		return "", failed("%s has %d bytes, and edit takes files of at most %d.", show(p.path), p.info.Size(), maxFile)
	case bytes.IndexByte(data, 0) >= 0:
		return "", notText(p, data[:min(len(data), 512)])
	}
	t := newText(data)
	spans, err := t.locate(ctx, in.Edits)
	if err != nil {
		return "", failed("%s\n%s was not changed.", reason(err), show(p.path))
	}
	if size := t.size(spans); size > maxFile {
		return "", failed("%s would have %d bytes, and at most %d are possible. It was not changed.", show(p.path), size, maxFile)
	}
	changed := t.apply(spans)
	perm := p.info.Mode().Perm()
	if err := s.save(p.path, changed, &perm); err != nil {
		return "", err
	}
	text := "edited " + show(p.path)
	if to.path != p.path {
		moved, err := s.move(ctx, p, to)
		if err != nil {
			return "", failed("%s was edited but not moved: %s", show(p.path), reason(err))
		}
		text += " and " + moved
	}
	return text + newText(changed).around(spans, room-len(text)-roomForNotes), nil
}

// moveTarget checks where p is to go.
func (s *Set) moveTarget(p place, name string) (place, error) {
	to, err := s.target(name)
	switch {
	case err != nil:
		return place{}, err
	case to.path == p.path:
		return place{}, failed("%s is where it is already. Leave moveTo out.", show(p.path))
	case to.info != nil && !(os.SameFile(p.info, to.info) && strings.EqualFold(p.path, to.path)):
		hint := "Choose another path, or delete that first."
		if to.info.IsDir() {
			hint = fmt.Sprintf("To move it into that folder, give the whole new path, such as %s.", show(join(to.path, p.path[strings.LastIndexByte(p.path, '/')+1:])))
		}
		return place{}, failed("there is something at %s already. %s", show(to.path), hint)
	case strings.HasPrefix(to.path, p.path+"/"):
		return place{}, failed("%s cannot be moved into itself.", show(p.path))
	}
	return to, nil
}

// move renames a file or a folder.
func (s *Set) move(ctx context.Context, p, to place) (string, error) {
	if p.info.IsDir() {
		if err := s.movable(ctx, p.path, 0); err != nil {
			return "", err
		}
	} else if err := regular(p, p.info); err != nil {
		return "", err
	}
	if i := strings.LastIndexByte(to.path, '/'); i > 0 {
		if err := s.root.MkdirAll(to.path[:i], 0o777); err != nil {
			return "", folders(to.path, err)
		}
	}
	if err := s.root.Rename(p.path, to.path); err != nil {
		return "", err
	}
	return fmt.Sprintf("moved %s to %s", show(p.path), show(to.path)), nil
}

// movable refuses a folder with a repository in it.
func (s *Set) movable(ctx context.Context, folder string, depth int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d, err := s.root.Open(folder)
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(maxEntries + 1)
	_ = d.Close() // it was only read
	if len(entries) > maxEntries || depth > maxDepth {
		return failed("%s is too large to be moved in one go. Move what is in it.", show(folder))
	}
	if len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if dotGit(e.Name()) {
			return denied("there is a repository in %s, and what is git's own is not moved.", show(folder))
		}
		if e.IsDir() {
			if err := s.movable(ctx, join(folder, e.Name()), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
