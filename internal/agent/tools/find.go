package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

type findArguments struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
	Limit   int    `json:"limit"`
}

func (s *Set) find(ctx context.Context, in findArguments, room int) (string, error) {
	limit, err := bounded("limit", in.Limit, 500, 5000)
	if err != nil {
		return "", err
	}
	pattern, dirs := strings.CutSuffix(in.Pattern, "/")
	if pattern == "" {
		return "", failed("the pattern is empty. Use for example *.go, src/**/*.ts or **/testdata.")
	}
	g, err := newGlob(pattern)
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
		return "", failed("%s is not a folder. Give the folder to search, or use ls or read for a file.", show(p.path))
	}

	var out strings.Builder
	found, seen := 0, 0
	w := walk{set: s, hidden: g.hidden()}
	w.visit = func(at string, e fs.DirEntry) error {
		seen++
		if dirs && !e.IsDir() || !g.matches(p.path, at) {
			return nil
		}
		text := whole(at)
		if e.IsDir() {
			text += "/"
		}
		if found >= limit || out.Len()+len(text) > room-roomForNotes {
			return errEnough
		}
		found++
		out.WriteString(text + "\n")
		return nil
	}
	err = w.from(ctx, p.path)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintf(&out, "[stopped after %v and %s; search a folder further down]", maxTime, entries(seen))
	case errors.Is(err, errEnough):
		fmt.Fprintf(&out, "[the first %d; there are more: use a narrower pattern or path, or a higher limit]", found)
	case err != nil:
		return "", err
	case found == 0:
		fmt.Fprintf(&out, "[no match among %s%s]", entries(seen), w.note("pattern"))
	case w.partial:
		out.WriteString("[some folders have too many entries or are too deep and were not searched to the end]")
	}
	return out.String(), nil
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// note says what a walk did not visit. by is the argument that could name it, beside path.
func (w *walk) note(by string) string {
	var note string
	if w.skipped > 0 {
		note = fmt.Sprintf("; %d hidden or ignored ones were skipped: name them in path or %s to search them", w.skipped, by)
	}
	if w.partial {
		note += "; some folders have too many entries or are too deep and were not searched to the end"
	}
	return note
}
