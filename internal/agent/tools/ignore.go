package tools

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// The rule of this file: a walk leaves out what git would, to the byte. go-git's matcher and others that
// exist for Go differ from git on every fifth to fifteenth of random patterns, so the patterns are written
// in terms of doublestar, which has the one thing that is hard: ** that tries all ways.

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
	return doublestar.MatchUnvalidated(r.glob, runes(path))
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
		if len(text) == maxIgnore { // the last line may be half of one
			text = text[:bytes.LastIndexByte(text, '\n')+1]
		}
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
		if r.glob = globOf(strings.TrimPrefix(l, "/")); r.glob != "" {
			rules = append(rules, r)
		}
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

// globOf writes a pattern of git's (wildmatch with WM_PATHNAME) as one for doublestar, with one rune for
// each byte: git compares bytes. It returns "" for a pattern that matches nothing.
func globOf(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			rest := strings.TrimLeft(pattern[i:], "*")
			begins := i == 0 || pattern[i-1] == '/'
			switch stars := len(pattern) - len(rest) - i; {
			case stars > 1 && begins && rest == "" && i > 0:
				b.WriteString("**/*") // what is in the folder, not the folder
			case stars > 1 && begins && (rest == "" || rest[0] == '/'):
				b.WriteString("**")
			default:
				b.WriteByte('*')
			}
			i = len(pattern) - len(rest) - 1
		case '?', '/':
			b.WriteByte(c)
		case '[':
			set, size := bracket(pattern[i:])
			if size == 0 || set == [256]bool{} {
				return ""
			}
			writeSet(&b, set)
			i += size - 1
		case '\\':
			if i++; i == len(pattern) {
				return ""
			}
			c = pattern[i]
			fallthrough
		default:
			writeByte(&b, c)
		}
	}
	if !doublestar.ValidatePattern(b.String()) {
		return ""
	}
	return b.String()
}

// bracket reads the bracket expression that text begins with, and returns which bytes it matches and how
// long it is: 0 if it has no end or an unknown class.
func bracket(text string) (set [256]bool, size int) {
	i := 1
	not := i < len(text) && (text[i] == '!' || text[i] == '^')
	if not {
		i++
	}
	for first, before := true, -1; ; first = false {
		if i >= len(text) {
			return set, 0
		}
		c := text[i]
		i++
		switch {
		case c == ']' && !first:
			set['/'] = not // never matched, also not by a complement
			for b := range set {
				set[b] = set[b] != not
			}
			return set, i
		case c == '-' && before >= 0 && i < len(text) && text[i] != ']':
			if c = text[i]; c == '\\' && i+1 < len(text) {
				i++
				c = text[i]
			}
			i++
			for b := before; b <= int(c); b++ {
				set[b] = true
			}
			before = -1
			continue
		case c == '[' && i < len(text) && text[i] == ':':
			end := strings.IndexByte(text[i:], ']')
			if end < 0 {
				return set, 0
			}
			if end > 1 && text[i+end-1] == ':' {
				member, known := classes[text[i+1:i+end-1]]
				if !known {
					return set, 0
				}
				for b := range 128 {
					set[b] = set[b] || member(b)
				}
				i += end + 1
				before = -1
				continue
			}
		case c == '\\' && i < len(text):
			c = text[i]
			i++
		}
		set[c] = true
		before = int(c)
	}
}

// classes are the character classes of POSIX, of ASCII.
var classes = map[string]func(c int) bool{
	"alnum":  func(c int) bool { return letter(c) || digit(c) },
	"alpha":  letter,
	"blank":  func(c int) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c int) bool { return c < ' ' || c == 0x7f },
	"digit":  digit,
	"graph":  graphic,
	"lower":  func(c int) bool { return c >= 'a' && c <= 'z' },
	"print":  func(c int) bool { return c == ' ' || graphic(c) },
	"punct":  func(c int) bool { return graphic(c) && !letter(c) && !digit(c) },
	"space":  func(c int) bool { return c == ' ' || c >= '\t' && c <= '\r' },
	"upper":  func(c int) bool { return c >= 'A' && c <= 'Z' },
	"xdigit": func(c int) bool { return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' },
}

func letter(c int) bool  { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c int) bool   { return c >= '0' && c <= '9' }
func graphic(c int) bool { return c > ' ' && c < 0x7f }

func writeSet(b *strings.Builder, set [256]bool) {
	b.WriteByte('[')
	for c := 0; c < len(set); c++ {
		if !set[c] {
			continue
		}
		from := c
		for c+1 < len(set) && set[c+1] {
			c++
		}
		writeByte(b, byte(from))
		if c > from {
			b.WriteByte('-')
			writeByte(b, byte(c))
		}
	}
	b.WriteByte(']')
}

// writeByte writes a byte that means itself.
func writeByte(b *strings.Builder, c byte) {
	if graphic(int(c)) && c != '/' && !letter(int(c)) && !digit(int(c)) {
		b.WriteByte('\\')
	}
	b.WriteRune(rune(c))
}

// runes has one rune for each byte of path.
func runes(path string) string {
	for i := range len(path) {
		if path[i] >= utf8.RuneSelf {
			var b strings.Builder
			for j := range len(path) {
				b.WriteRune(rune(path[j]))
			}
			return b.String()
		}
	}
	return path
}
