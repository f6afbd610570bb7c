package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxLines  = 2000     // lines of one answer
	maxLine   = 2000     // bytes shown of one line
	countOn   = 64 << 20 // bytes looked at behind the last printed line, to count the lines
	roomForBy = 1 << 10  // bytes of an answer kept for what is said in brackets at its end
	bom       = "\xef\xbb\xbf"
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
	text := newLines(f, keep)
	head, binary, err := text.binary()
	if err != nil {
		return "", err
	}
	if binary {
		return "", notText(p, head)
	}

	var out strings.Builder
	var seen endings
	var number, behind, last int64 // last is the number of the last line printed
	var cutAt, cutSize int64
	foreign := false // some bytes are not UTF-8
	total := true
	for {
		l, err := text.next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		number++
		seen.add(l.end)
		if number < from {
			continue
		}
		if number == 1 {
			seen.bom = bytes.HasPrefix(l.text, []byte(bom))
			l.text = bytes.TrimPrefix(l.text, []byte(bom))
		}
		prefix := strconv.FormatInt(number, 10) + "\t"
		if limit == 1 {
			l.text = l.text[:min(len(l.text), room-roomForBy-len(prefix))]
		}
		if number-from < int64(limit) && behind == 0 && out.Len()+len(prefix)+len(l.text)+len("…\n") <= room-roomForBy {
			last = number
			if int64(len(l.text)) < l.size && !(number == 1 && seen.bom) {
				cutAt, cutSize = number, l.size
				l.text = append(whole(l.text), "…"...)
			}
			foreign = foreign || !utf8.Valid(l.text)
			out.WriteString(prefix)
			out.Write(bytes.ToValidUTF8(l.text, []byte("\uFFFD")))
			out.WriteByte('\n')
			continue
		}
		if behind += l.size + 1; behind > countOn {
			total = false
			break
		}
	}

	switch {
	case number == 0:
		return "[the file is empty]", nil
	case last == 0:
		return "", failed("%s has %d lines, so there is no line %d. Use an offset from 1 to %d.", show(p.path), number, from, number)
	}
	var notes []string
	switch {
	case last < number && total:
		notes = append(notes, fmt.Sprintf("lines %d-%d of %d; go on with offset %d", from, last, number, last+1))
	case last < number:
		notes = append(notes, fmt.Sprintf("lines %d-%d of more than %d, %d bytes; go on with offset %d", from, last, number, p.info.Size(), last+1))
	default:
		notes = append(notes, fmt.Sprintf("lines %d-%d of %d", from, last, number))
	}
	if total {
		notes = append(notes, seen.notes()...)
	}
	if cutAt > 0 {
		note := fmt.Sprintf("line %d has %d bytes and is cut at …", cutAt, cutSize)
		if limit > 1 {
			note += "; offset and limit 1 show more of it"
		}
		notes = append(notes, note)
	}
	if foreign {
		notes = append(notes, "bytes that are not UTF-8 are shown as \uFFFD; edit cannot quote them, but keeps them")
	}
	return out.String() + "[" + strings.Join(notes, ". ") + "]", nil
}

// whole drops the part of a character that a cut has left at the end.
func whole(text []byte) []byte {
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

// endings counts the line endings of a text.
type endings struct {
	lf, crlf, none int64
	bom            bool
}

func (e *endings) add(end string) {
	switch end {
	case "\n":
		e.lf++
	case "\r\n":
		e.crlf++
	default:
		e.none++
	}
}

// notes says what of a text's form does not show.
func (e *endings) notes() []string {
	var notes []string
	switch {
	case e.crlf > 0 && e.lf > 0:
		notes = append(notes, fmt.Sprintf("line endings are mixed, %d CRLF and %d LF; edit leaves those of other lines alone", e.crlf, e.lf))
	case e.crlf > 0:
		notes = append(notes, "line endings are CRLF; edit and write keep them, so send LF")
	}
	if e.none > 0 {
		notes = append(notes, "no newline at the end of the file")
	}
	if e.bom {
		notes = append(notes, "the file begins with a byte order mark, which is kept")
	}
	return notes
}
