package tools

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"
)

type lsArguments struct {
	Path  string `json:"path"`
	Limit int    `json:"limit"`
}

func (s *Set) ls(ctx context.Context, in lsArguments, room int) (string, error) {
	limit, err := bounded("limit", in.Limit, 500, 5000)
	if err != nil {
		return "", err
	}
	if in.Path == "" {
		in.Path = "."
	}
	p, err := s.lookup(in.Path)
	if err != nil {
		return "", err
	}
	if !p.info.IsDir() {
		return s.entry(p.path, p.path, p.info), nil
	}
	entries, more, err := s.entries(p.path)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for i, e := range entries {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		info, err := s.root.Lstat(join(p.path, e.Name()))
		if err != nil {
			continue // gone in the meantime
		}
		text := s.entry(join(p.path, e.Name()), e.Name(), info)
		if i >= limit || out.Len()+len(text) > room-roomForNotes {
			return out.String() + fmt.Sprintf("[%d of %s entries; find with path and a pattern shows others]", i, count(len(entries), more)), nil
		}
		out.WriteString(text)
	}
	if len(entries) == 0 {
		return "[the folder is empty]", nil
	}
	return out.String(), nil
}

// entry is the line for the file at path.
func (s *Set) entry(path, name string, info fs.FileInfo) string {
	kind, size := "file", fmt.Sprint(info.Size())
	shown := whole(name)
	if !utf8.ValidString(name) {
		shown += " (not UTF-8: these tools cannot reach it)"
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		kind, size, shown = "dir", "-", shown+"/"
	case mode.Type() == fs.ModeSymlink:
		target, err := s.root.Readlink(path)
		if err != nil {
			target = "?"
		}
		kind, size, shown = "link", "-", shown+" -> "+whole(target)
	case !mode.IsRegular():
		kind, size = strings.TrimPrefix(special(mode), "a "), "-"
	case mode&0o111 != 0:
		kind = "exec"
	}
	return fmt.Sprintf("%-6s %9s %s\n", kind, size, shown)
}

// plural is n and the noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// count is n for people, or that there are more.
func count(n int, more bool) string {
	if more {
		return fmt.Sprintf("more than %d", n)
	}
	return fmt.Sprint(n)
}

// bounded returns n, or usual if it was not given, and at most most.
func bounded(name string, n, usual, most int) (int, error) {
	switch {
	case n < 0:
		return 0, failed("%s must not be negative.", name)
	case n == 0:
		return usual, nil
	}
	return min(n, most), nil
}

// join is path.Join of a clean folder and a name.
func join(folder, name string) string {
	if folder == "." {
		return name
	}
	return folder + "/" + name
}
