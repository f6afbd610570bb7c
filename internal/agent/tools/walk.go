package tools

import (
	"context"
	"io/fs"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// walk is one pass over a folder. What it leaves out it counts.
type walk struct {
	set     *Set
	hidden  bool // visit names that begin with a dot
	visit   func(path string, e fs.DirEntry) error
	skipped int  // entries that are hidden or ignored
	partial bool // some folder had too many entries or was too deep
}

// errEnough ends a walk.
var errEnough = failed("enough")

// from walks the folder at path in the order of names, without following symbolic links. An ignore file
// above path counts unless it excludes path itself: then path was asked for by name.
func (w *walk) from(ctx context.Context, path string) error {
	var above *ignores
	folder := "."
	if path != "." {
		for part := range strings.SplitSeq(path, "/") {
			above = w.set.ignores(above, folder)
			if folder = join(folder, part); above.ignored(folder, true) {
				above = nil
				break
			}
		}
	}
	return w.folder(ctx, path, above, 0)
}

func (w *walk) folder(ctx context.Context, path string, above *ignores, depth int) error {
	if depth >= maxDepth {
		w.partial = true
		return nil
	}
	entries, more, err := w.set.entries(path)
	if err != nil {
		if depth > 0 { // gone or closed in the meantime
			w.partial = true
			return nil
		}
		return err
	}
	w.partial = w.partial || more
	ignores := w.set.ignores(above, path)
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at := join(path, e.Name())
		if !w.hidden && strings.HasPrefix(e.Name(), ".") || ignores.ignored(at, e.IsDir()) {
			w.skipped++
			continue
		}
		if err := w.visit(at, e); err != nil {
			return err
		}
		if e.IsDir() {
			if err := w.folder(ctx, at, ignores, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// glob is a pattern for paths as models write them.
type glob struct {
	pattern string
	except  bool
}

// newGlob checks a pattern. One without / matches names at any depth.
func newGlob(pattern string) (glob, error) {
	g := glob{pattern: pattern}
	g.pattern, g.except = strings.CutPrefix(g.pattern, "!")
	g.pattern = strings.TrimPrefix(strings.TrimPrefix(g.pattern, "./"), "/")
	switch {
	case len(pattern) > 1000 || strings.Count(pattern, "{") > 4 || strings.Count(pattern, ",") > 64:
		return glob{}, failed("the glob %s is too long or has too many alternatives. Use several calls.", show(pattern))
	case !doublestar.ValidatePattern(g.pattern):
		return glob{}, failed("%s is not a glob. Use * for any characters, ** for any folders, ? for one character, [a-z] and {a,b}; put a backslash before these to mean themselves.", show(pattern))
	}
	return g, nil
}

// hidden reports whether the pattern names something that begins with a dot.
func (g glob) hidden() bool {
	return !g.except && (strings.HasPrefix(g.pattern, ".") || strings.Contains(g.pattern, "/.") || strings.Contains(g.pattern, "{."))
}

// matches reports whether the path, as seen from the top folder or from the folder that is searched, is
// one that the pattern asks for.
func (g glob) matches(folder, path string) bool {
	if !strings.Contains(g.pattern, "/") {
		return doublestar.MatchUnvalidated(g.pattern, path[strings.LastIndexByte(path, '/')+1:]) != g.except
	}
	below := strings.TrimPrefix(path, folder+"/")
	return (doublestar.MatchUnvalidated(g.pattern, path) || doublestar.MatchUnvalidated(g.pattern, below)) != g.except
}
