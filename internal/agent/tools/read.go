package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxLines     = 2000     // lines of one answer
	maxLine      = 2000     // bytes shown of one line
	countOn      = 64 << 20 // bytes looked at behind the last printed line, to count the lines
	roomForNotes = 1 << 10  // bytes of an answer kept for what is said in brackets at its end
)

type readArguments struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Limit  int    `json:"limit"`
}

func (s *Set) read(ctx context.Context, in readArguments, room int) (_ string, err error) {
	if in.Offset < 0 || in.Limit < 0 {
		return "", failed("offset and limit count from 1: negative numbers are not possible. Call read without them to learn how many lines there are.")
	}
	from := max(in.Offset, 1)
	limit := min(in.Limit, maxLines)
	if limit == 0 {
		limit = maxLines
	}
	p, err := s.lookup(in.Path)
	if err != nil {
		return "", err
	}
	f, err := s.open(p)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	keep := maxLine
	if limit == 1 {
		keep = room
	}
	source := &io.LimitedReader{R: f, N: math.MaxInt64}
	text := newLines(keep)
	if err := text.begin(source); err != nil {
		return "", err
	}
	if text.binary {
		return "", notText(p, text.head)
	}

	out := listing{room: room - roomForNotes}
	form := form{bom: text.bom}
	var number int64
	for printed := false; ; {
		l, err := text.next(ctx)
		if form.whole = source.N > 0; errors.Is(err, io.EOF) || !form.whole {
			break
		}
		if err != nil {
			return "", err
		}
		number++
		form.add(l)
		if number >= from && !printed && (number-from >= int64(limit) || !out.print(number, l)) {
			printed = true
			source.N = countOn
		}
	}
	switch {
	case number == 0:
		return "[the file is empty]", nil
	case out.last == 0:
		return "", failed("%s has %s, so there is no line %d. Use an offset from 1 to %d.", show(p.path), plural(int(number), "line"), from, number)
	}
	lines := fmt.Sprintf("%s of %d", lineRange(int(from), int(out.last)), number)
	if !form.whole {
		lines = fmt.Sprintf("%s of at least %d, %d bytes", lineRange(int(from), int(out.last)), number, p.info.Size())
	}
	if out.last < number || !form.whole {
		lines += fmt.Sprintf("; go on with offset %d", out.last+1)
	}
	notes := append([]string{lines}, out.notes(limit)...)
	notes = append(notes, form.notes()...)
	return out.text.String() + "[" + strings.Join(notes, ". ") + "]", nil
}

// listing is the printed lines of an answer.
type listing struct {
	room int
	text strings.Builder
	last int64 // number of the last line
	cut  int64 // number of the last line that was cut
	size int64 // its size
	// Some bytes are not UTF-8, or NUL.
	foreign, nul bool
}

// print adds a line, cut if it is the first and does not fit. It returns false if there is no room.
func (o *listing) print(number int64, l line) bool {
	prefix := strconv.FormatInt(number, 10) + "\t"
	free := o.room - o.text.Len() - len(prefix) - len("…\n")
	if len(l.text) > free {
		if o.last > 0 {
			return false
		}
		l.text = l.text[:free]
	}
	o.last = number
	o.text.WriteString(prefix)
	if l.cut() {
		o.cut, o.size = number, l.size
		l.text = append(trimmed(l.text), "…"...)
	}
	o.nul = o.nul || l.nul
	if !utf8.Valid(l.text) {
		o.foreign = true
		l.text = bytes.ToValidUTF8(l.text, []byte("\uFFFD"))
	}
	o.text.Write(l.text)
	o.text.WriteByte('\n')
	return true
}

// notes says where the lines are not as in the file.
func (o *listing) notes(limit int) []string {
	var notes []string
	if o.cut > 0 {
		note := fmt.Sprintf("line %d has %d bytes and is cut at …", o.cut, o.size)
		if limit > 1 {
			note += "; offset and limit 1 show more of it"
		}
		notes = append(notes, note)
	}
	if o.foreign {
		notes = append(notes, "bytes that are not UTF-8 are shown as \uFFFD; edit cannot quote them, but keeps them")
	}
	if o.nul {
		notes = append(notes, "there are NUL bytes, shown as \u2400: perhaps this is no text")
	}
	return notes
}

// trimmed drops the part of a character that a cut has left at the end.
func trimmed(text []byte) []byte {
	for n := len(text) - 1; n >= 0 && n >= len(text)-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			if !utf8.FullRune(text[n:]) {
				return text[:n:n]
			}
			break
		}
	}
	return text[:len(text):len(text)]
}

func notText(p place, head []byte) error {
	kind := http.DetectContentType(head)
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		kind = "text in UTF-16"
	}
	return failed("%s is not text that these tools can show or edit: %s, %d bytes. It can be moved, replaced and deleted.", show(p.path), kind, p.info.Size())
}

// form is what of a text does not show in its lines.
type form struct {
	lf, crlf, none int64 // lines that end so
	bom            bool
	whole          bool // the text was read to its end
}

func (f *form) add(l line) {
	switch l.end {
	case "\n":
		f.lf++
	case "\r\n":
		f.crlf++
	default:
		f.none++
	}
}

func (f *form) notes() []string {
	var notes []string
	switch {
	case f.crlf > 0 && f.lf > 0:
		notes = append(notes, fmt.Sprintf("line endings are mixed, %d CRLF and %d LF; edit keeps those of the lines it leaves", f.crlf, f.lf))
	case f.crlf > 0:
		notes = append(notes, "line endings are CRLF; edit and write keep them, so send LF")
	}
	if f.none > 0 {
		notes = append(notes, "no newline at the end of the file")
	}
	if f.bom {
		notes = append(notes, "the file begins with a byte order mark, which edit and write keep")
	}
	return notes
}
