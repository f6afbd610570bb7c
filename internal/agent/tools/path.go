package tools

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// The rule of this file: a name from a model becomes a path below the root, of which every component,
// and every component that a symbolic link on the way adds, has been looked at before anything is opened.

const (
	maxPath  = 4096 // bytes, as PATH_MAX
	maxDepth = 200  // components
	maxName  = 255  // bytes of one component, as NAME_MAX
	maxLinks = 40   // symbolic links on one way, as the kernel
)

// tempPrefix begins the names of files that are being written.
const tempPrefix = ".git-spot-tmp-"

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// place is a path below the root without symbolic links, and what is there.
type place struct {
	path string      // clean, "." for the root
	info fs.FileInfo // of path itself; nil if nothing is there
}

// clean makes name relative to the root. It refuses what leads outside by its letters alone, every .git,
// and what no file can be named.
func (s *Set) clean(name string) (string, error) {
	switch {
	case name == "":
		return "", failed("the path is empty. Give a path relative to the top folder, which itself is \".\".")
	case len(name) > maxPath:
		return "", failed("the path is %d bytes long and at most %d are possible. Give a path that ls or find has shown.", len(name), maxPath)
	case strings.ContainsRune(name, 0):
		return "", failed("the path %s has a NUL character in it. Give a path that ls or find has shown.", show(name))
	case name == "~" || strings.HasPrefix(name, "~/"):
		return "", outside(name)
	}
	relative := name
	if path.IsAbs(name) {
		var below bool
		if relative, below = s.below(name); !below {
			return "", outside(name)
		}
	}
	for part := range strings.SplitSeq(relative, "/") {
		if len(part) > maxName {
			return "", failed("a name in the path %s is %d bytes long and at most %d are possible. Give a path that ls or find has shown.", show(name), len(part), maxName)
		}
		if dotGit(part) {
			return "", closed(name)
		}
	}
	relative = path.Clean(relative)
	if relative == ".." || strings.HasPrefix(relative, "../") {
		return "", outside(name)
	}
	if strings.Count(relative, "/") >= maxDepth {
		return "", failed("the path %s has more than %d folders in it. Give a path that ls or find has shown.", show(name), maxDepth)
	}
	return relative, nil
}

// below makes an absolute path relative to the root, if it lies there.
func (s *Set) below(name string) (string, bool) {
	name = path.Clean(name)
	for _, top := range s.names {
		if name == top {
			return ".", true
		}
		if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(top, "/")+"/"); ok {
			return rest, true
		}
	}
	return "", false
}

func outside(name string) error {
	return denied("%s is outside the top folder, and only what is inside can be used. Give a path relative to the top folder, such as src/main.go; ls without a path shows what is there.", show(name))
}

func closed(name string) error {
	return denied("%s is git's own (.git), or would be on some file system, and closed to every tool. It is not needed: what is changed in files is recorded for you.", show(name))
}

// lookup returns the place that name leads to, following symbolic links that stay inside. Something is
// there: what is not is an error that names what is near.
func (s *Set) lookup(name string) (place, error) {
	rest, err := s.clean(name)
	if err != nil {
		return place{}, err
	}
	return s.follow(name, rest)
}

func (s *Set) follow(name, rest string) (place, error) {
	at := "."
	parts := strings.Split(rest, "/")
	link, target := "", ""
	for links := 0; len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			if at == "." {
				return place{}, linkOut(link, target)
			}
			at = path.Dir(at)
			continue
		case dotGit(part):
			return place{}, closed(name)
		}
		next := path.Join(at, part)
		info, err := s.root.Lstat(next)
		switch {
		case absent(err):
			return place{}, s.missing(name, at, part)
		case err != nil:
			return place{}, err
		case info.Mode().Type() != fs.ModeSymlink:
			if len(parts) > 0 && !info.IsDir() {
				return place{}, failed("%s is not a folder, so there is no %s.", show(next), show(name))
			}
			at = next
			continue
		}
		link = next
		if target, err = s.root.Readlink(link); err != nil {
			return place{}, err
		}
		way := target
		if path.IsAbs(target) {
			var below bool
			if way, below = s.below(target); !below {
				return place{}, linkOut(link, target)
			}
			at = "."
		}
		parts = slices.Concat(strings.Split(way, "/"), parts)
		if links++; links > maxLinks || len(parts) > 2*maxDepth {
			return place{}, failed("%s leads through too many symbolic links.", show(name))
		}
	}
	info, err := s.root.Lstat(at)
	return place{path: at, info: info}, err
}

func linkOut(link, target string) error {
	return denied("%s is a symbolic link to %s, which is outside the top folder, and only what is inside can be used.", show(link), show(target))
}

// target returns the place name for writing. Nothing need be there, nor the folders above it. A symbolic
// link above it is refused; if name is one itself, the place is the link.
func (s *Set) target(name string) (place, error) {
	rest, err := s.clean(name)
	if err != nil {
		return place{}, err
	}
	if rest == "." {
		return place{}, denied("%s is the top folder itself. Give the path of a file in it.", show(name))
	}
	parts := strings.Split(rest, "/")
	if slices.ContainsFunc(parts, isTemp) {
		return place{}, denied("names that begin with %s are reserved. Choose another name.", tempPrefix)
	}
	for i := range parts {
		at := path.Join(parts[:i+1]...)
		info, err := s.root.Lstat(at)
		switch last := i == len(parts)-1; {
		case absent(err):
			return place{path: rest}, s.creatable(rest, path.Dir(at), parts[i:])
		case err != nil:
			return place{}, err
		case last:
			return place{path: rest, info: info}, nil
		case info.Mode().Type() == fs.ModeSymlink:
			return place{}, s.throughLink(name, at, path.Join(parts[i+1:]...))
		case !info.IsDir():
			return place{}, failed("%s is not a folder, so %s cannot be in it. Choose another path, or delete that file first.", show(at), show(name))
		}
	}
	return place{}, nil // not reached: rest has a component
}

// throughLink refuses to write to rest, "" or a path, through the symbolic link at.
func (s *Set) throughLink(name, at, rest string) error {
	target, err := s.root.Readlink(at)
	if err != nil {
		return err
	}
	if real, err := s.follow(name, path.Join(at, rest)); err == nil {
		return denied("%s is a symbolic link to %s, and nothing is written through links. Use the path %s instead.", show(at), show(target), show(real.path))
	}
	return denied("%s is a symbolic link to %s, and nothing is written through links. Use the path of the file itself.", show(at), show(target))
}

// creatable refuses names that can be read where they exist but should not be made. The folder exists,
// names[0] does not exist in it.
func (s *Set) creatable(path, folder string, names []string) error {
	for _, name := range names {
		if strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`) {
			return failed("%s is no name for a new file: it has a control character or a backslash in it. Folders are separated by /.", show(path))
		}
		if name != strings.TrimSpace(name) {
			return failed("%s is no name for a new file: a name in it begins or ends with a space.", show(path))
		}
	}
	entries, _, err := s.entries(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if norm.NFC.String(e.Name()) == norm.NFC.String(names[0]) {
			return failed("%s has %s, which looks the same as %s but is written with other code points (%s). Use the name as ls and find print it.", show(folder), show(e.Name()), show(names[0]), normalForm(e.Name()))
		}
	}
	return nil
}

// normalForm says in which Unicode normalisation form name is.
func normalForm(name string) string {
	if norm.NFD.IsNormalString(name) {
		return "NFD"
	}
	if norm.NFC.IsNormalString(name) {
		return "NFC"
	}
	return "neither NFC nor NFD"
}

// missing says that part is not in folder, and what is there that may be meant.
func (s *Set) missing(name, folder, part string) error {
	entries, _, err := s.entries(folder)
	if err != nil {
		return err
	}
	near, least := "", max(2, utf8.RuneCountInString(part)/3)+1
	for _, e := range entries {
		other := e.Name()
		if norm.NFC.String(other) == norm.NFC.String(part) {
			return failed("there is no %s, but %s has the same name written with other code points (%s): %+q. Use that.", show(name), show(folder), normalForm(other), other)
		}
		if strings.EqualFold(other, part) {
			near, least = other, 0
		} else if len(other) < 2*len(part)+3 {
			if d := levenshtein.ComputeDistance(other, part); d < least {
				near, least = other, d
			}
		}
	}
	hint := " find looks for a name in all folders."
	if near != "" {
		hint = " Did you mean " + show(path.Join(folder, near)) + "?"
	}
	if at := path.Join(folder, part); at != path.Clean(name) {
		return failed("there is no %s: %s does not exist.%s", show(name), show(at), hint)
	}
	return failed("there is no %s.%s", show(name), hint)
}

// open opens the file at a place that lookup gave. It refuses what is not a regular file without ever
// opening it.
func (s *Set) open(p place) (*os.File, error) {
	if err := regular(p, p.info); err != nil {
		return nil, err
	}
	// O_NONBLOCK and the second look: by now there may be a FIFO, or a link to what is closed.
	f, err := s.root.OpenFile(p.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(p.info, info) {
		err = failed("%s was replaced while it was opened. Try again.", show(p.path))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func regular(p place, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return failed("%s is a folder. Use ls to see what is in it.", show(p.path))
	case mode.Type() == fs.ModeSymlink:
		return denied("%s is a symbolic link.", show(p.path))
	default:
		return denied("%s is %s, not a file, and is never opened.", show(p.path), special(mode))
	}
}

func special(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// entries lists the folder at path, sorted by name, without .git and the files that are being written.
// It reads at most maxEntries; more reports that there are others.
func (s *Set) entries(path string) (list []fs.DirEntry, more bool, err error) {
	d, err := s.root.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	list, err = d.ReadDir(maxEntries + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, false, err
	}
	if more = len(list) > maxEntries; more {
		list = list[:maxEntries]
	}
	list = slices.DeleteFunc(list, func(e fs.DirEntry) bool {
		return dotGit(e.Name()) || isTemp(e.Name())
	})
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, more, nil
}

// maxEntries bounds the memory for one folder.
const maxEntries = 50_000

func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// dotGit reports whether name is .git, or is taken for it by a file system that ignores case, code points
// that do not show, what Windows cuts off at the end, or everything but the short name. Compare
// is_hfs_dotgit and is_ntfs_dotgit of git; NFKC and all ignorable code points are more than any known
// file system folds, and no name that anybody needs.
func dotGit(name string) bool {
	for part := range strings.FieldsFuncSeq(fold(name), func(r rune) bool { return r == '/' || r == '\\' }) {
		part, _, _ = strings.Cut(part, ":")
		switch strings.TrimRight(part, ". ") {
		case ".git", "git~1":
			return true
		}
	}
	return false
}

func fold(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToLower(s)
	}
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return r
	}, s)
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(s)))
}

// show is how a name from outside is shown: as it is, or quoted if it has characters that do not show or
// would end the line; never long.
func show(name string) string { return whole(cut(name, 200)) }

// whole is show for what the model may want to ask for: not cut.
func whole(name string) string {
	if name == "" || !utf8.ValidString(name) || strings.TrimSpace(name) != name || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == '"' }) {
		return strconv.Quote(name)
	}
	return name
}

// cut shortens s to about n bytes, at a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
