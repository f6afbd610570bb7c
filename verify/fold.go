package verify

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// fold maps the names that some file system takes for the same file to one string: case folded, NFC,
// without the code points that HFS+ ignores. Bytes that are not UTF-8 stay as they are.
func fold(s string) string {
	ascii := true
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(s)
	}
	if strings.ContainsFunc(s, ignorable) {
		var b strings.Builder
		for i := 0; i < len(s); {
			r, n := utf8.DecodeRuneInString(s[i:])
			if !ignorable(r) {
				b.WriteString(s[i : i+n])
			}
			i += n
		}
		s = b.String()
	}
	return norm.NFC.String(cases.Fold().String(norm.NFC.String(s)))
}

// ignorable lists what HFS+ leaves out when it compares names; see next_hfs_char in git's utf8.c.
func ignorable(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff
}

// trim takes from every component of a folded path what Windows ignores at its end: dots, spaces and
// the name of a stream. A component of nothing else stays.
func trim(folded string) string {
	parts := strings.Split(folded, "/")
	for i, part := range parts {
		name, _, _ := strings.Cut(part, ":")
		if name = strings.TrimRight(name, ". "); name != "" {
			parts[i] = name
		}
	}
	return strings.Join(parts, "/")
}

// gitName reports whether some component of path is .git, or is taken for it by a file system that git
// works on; compare is_hfs_dotgit and is_ntfs_dotgit.
func gitName(path string) bool {
	for _, part := range strings.FieldsFunc(trim(fold(path)), func(r rune) bool { return r == '/' || r == '\\' }) {
		// A backslash has made components that trim did not see.
		switch trim(part) {
		case ".git", "git~1":
			return true
		}
	}
	return false
}

// display is how a path is shown: as it is, or quoted as git quotes it if it is not UTF-8.
func display(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(path); {
		r, n := utf8.DecodeRuneInString(path[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\%03o`, path[i])
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}
