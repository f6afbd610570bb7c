package tools

import (
	"errors"
	"io"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxIgnore bounds the bytes read of one ignore file.
const maxIgnore = 256 << 10

// ignores is what the ignore files of one folder say, and of those above it.
type ignores struct {
	above  *ignores
	folder string // of the files
	rules  []rule // .gitignore, then .ignore, which is the stronger
}

// rule is a line of an ignore file.
type rule struct {
	glob   string // for doublestar
	negate bool
	folder bool // matches folders alone
	name   bool // matches the name alone, at any depth
}

// ignored reports whether the entry at path, in the folder of g or below it, is excluded. That a folder
// above it is excluded is not looked at: a walk does not go there.
func (g *ignores) ignored(path string, folder bool) bool {
	for ; g != nil; g = g.above {
		below := path
		if g.folder != "." {
			below = strings.TrimPrefix(path, g.folder+"/")
		}
		for i := len(g.rules) - 1; i >= 0; i-- {
			if r := g.rules[i]; r.matches(below, folder) {
				return !r.negate
			}
		}
	}
	return false
}

func (r rule) matches(path string, folder bool) bool {
	if r.folder && !folder {
		return false
	}
	if r.name {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	return doublestar.MatchUnvalidated(r.glob, path)
}

// ignores reads the ignore files of folder.
func (s *Set) ignores(above *ignores, folder string) *ignores {
	g := &ignores{above: above, folder: folder}
	for _, name := range []string{".gitignore", ".ignore"} {
		// git does not follow a link here either.
		p := place{path: join(folder, name)}
		var err error
		if p.info, err = s.root.Lstat(p.path); err != nil {
			continue
		}
		f, err := s.open(p)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(f, maxIgnore))
		if errors.Join(err, f.Close()) == nil {
			g.rules = append(g.rules, parseIgnore(string(text))...)
		}
	}
	if len(g.rules) == 0 {
		return above
	}
	return g
}

// parseIgnore reads the lines of an ignore file as git does; see gitignore(5).
func parseIgnore(text string) []rule {
	var rules []rule
	for l := range strings.SplitSeq(strings.TrimPrefix(text, bom), "\n") {
		l = strings.TrimSuffix(l, "\r")
		if strings.HasPrefix(l, "#") {
			continue
		}
		var r rule
		l, r.negate = strings.CutPrefix(trimSpaces(l), "!")
		l, r.folder = strings.CutSuffix(l, "/")
		if l == "" {
			continue
		}
		r.name = !strings.Contains(l, "/")
		r.glob = globOf(strings.TrimPrefix(l, "/"))
		rules = append(rules, r)
	}
	return rules
}

// trimSpaces removes the spaces at the end of a line that no backslash protects.
func trimSpaces(l string) string {
	end := 0
	for i := 0; i < len(l); i++ {
		switch {
		case l[i] == '\\' && i+1 < len(l):
			i++
			end = i + 1
		case l[i] != ' ':
			end = i + 1
		}
	}
	return l[:end]
}

// globOf writes a pattern of git's for doublestar.
func globOf(pattern string) string {
	glob := strings.NewReplacer("{", `\{`, "}", `\}`).Replace(pattern)
	if rest, ok := strings.CutSuffix(glob, "/**"); ok {
		glob = rest + "/**/*" // what is in the folder, not the folder
	}
	return glob
}
