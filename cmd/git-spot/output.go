package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/git-spot/git-spot/schemas"
)

// The rule of this file: the result goes to standard output, as text for people or as one JSON
// document for programs; everything else goes to standard error, each line "git-spot: ". Text that
// somebody else wrote reaches a terminal only with its control bytes escaped.

// jsonMode says whether results and errors are JSON: what --format or --json say, and without them
// whether standard output is something else than a terminal. It reads the command line itself, since
// it must also be right when that cannot be parsed.
func (e *env) jsonMode() bool {
	asked := ""
	for i, arg := range e.args {
		if arg == "--" {
			break
		}
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		flag, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=") // the parser takes one dash for two
		switch {
		case flag == "json":
			asked = "json"
		case flag == "format" && given:
			asked = value
		case flag == "format" && i+1 < len(e.args):
			asked = e.args[i+1]
		}
	}
	return choose(asked, e.stdoutIsTerminal)
}

func choose(asked string, terminal bool) bool {
	switch asked {
	case "json":
		return true
	case "text":
		return false
	default:
		return !terminal
	}
}

// result prints what a command has to say: document as one JSON document, or what text writes.
func (e *env) result(document any, text func(w io.Writer)) error {
	if e.jsonMode() {
		return e.document(document)
	}
	return e.text(text)
}

// textResult is result for the commands whose result is a text by nature: they print it wherever it
// goes, and the document only on request.
func (e *env) textResult(document any, text func(w io.Writer)) error {
	if e.global.json || e.global.format == "json" {
		return e.document(document)
	}
	return e.text(text)
}

func (e *env) document(v any) error {
	data, err := schemas.MarshalIndent(v)
	if err != nil {
		return err
	}
	_, err = e.out.Write(data)
	return err
}

// jsonLine prints v as one line, for the commands that print a stream of objects.
func (e *env) jsonLine(v any) error {
	document, err := schemas.MarshalIndent(v)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, document); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err = e.out.Write(line.Bytes())
	return err
}

// text prints what write writes. The first error of standard output is returned; write need not check.
func (e *env) text(write func(w io.Writer)) error {
	out := e.textOut()
	write(out)
	return out.Close()
}

// textOut is standard output for text of any origin. Close it to get the last bytes out.
func (e *env) textOut() *textWriter { return &textWriter{w: e.out, escape: e.stdoutIsTerminal} }

// warn prints a line on standard error that is not the end of the command.
func (e *env) warn(format string, args ...any) { e.complain("", fmt.Sprintf(format, args...)) }

func (e *env) complain(prefix, message string) {
	for line := range strings.SplitSeq(message, "\n") {
		fmt.Fprintf(e.err, "git-spot: %s%s\n", prefix, escape(line))
	}
}

// textWriter writes text, escaped if that is asked for, and remembers its first error.
type textWriter struct {
	w      io.Writer
	escape bool
	rest   []byte // the begin of a character whose end is still to come
	err    error
}

func (t *textWriter) Write(p []byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	text := p
	if t.escape {
		text = append(t.rest, p...)
		whole := wholeRunes(text)
		t.rest = bytes.Clone(text[whole:])
		text = []byte(escape(string(text[:whole])))
	}
	_, t.err = t.w.Write(text)
	return len(p), t.err
}

// Close writes what is left. It does not close the underlying writer.
func (t *textWriter) Close() error {
	if t.err == nil && len(t.rest) > 0 {
		_, t.err = io.WriteString(t.w, escape(string(t.rest)))
		t.rest = nil
	}
	return t.err
}

// wholeRunes returns how much of p does not end in the middle of a character.
func wholeRunes(p []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		if start := len(p) - back; utf8.RuneStart(p[start]) {
			if utf8.FullRune(p[start:]) {
				return len(p)
			}
			return start
		}
	}
	return len(p)
}

// escape makes s harmless on a terminal: control characters, direction overrides and bytes that are
// not UTF-8 become \x1b and the like; newline and tab stay.
func escape(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf || c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// oneLine is s for a place that has one line: line breaks are escaped too.
func oneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
}
