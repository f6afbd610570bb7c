package review

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/git-spot/git-spot/schemas"
)

// Trailers is what the approved commit says of its origin.
type Trailers struct {
	Run        string
	DiffSHA256 string
	Adapter    string
	Model      string // "" if the adapter does not say
}

// MessageError is a commit message that cannot be used. Code is USAGE.
type MessageError struct{ Problem string }

func (e *MessageError) Error() string { return "commit message: " + e.Problem }

// Code is USAGE.
func (e *MessageError) Code() schemas.Code { return schemas.CodeUsage }

// Message returns message, byte for byte, followed by the trailers Spot-Run, Spot-Diff-Sha256 and
// Assisted-by. They join a block of trailers that the message ends with; otherwise an empty line comes
// first. A message that is blank, has a NUL or is not UTF-8 is a *MessageError.
func Message(message string, t Trailers) (string, error) {
	switch {
	case strings.ContainsRune(message, 0):
		return "", &MessageError{Problem: "it has a NUL"}
	case !utf8.ValidString(message):
		return "", &MessageError{Problem: "it is not UTF-8"} // git would not write these bytes
	case blank(message):
		return "", &MessageError{Problem: "it is empty"}
	}
	var b strings.Builder
	b.WriteString(message)
	if !strings.HasSuffix(message, "\n") {
		b.WriteByte('\n')
	}
	if lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"); !isBlankLine(lines[len(lines)-1]) && !endsInTrailers(lines) {
		b.WriteByte('\n')
	}
	assisted := t.Adapter
	if t.Model != "" {
		assisted += "/" + t.Model
	}
	for _, trailer := range [][2]string{{"Spot-Run", t.Run}, {"Spot-Diff-Sha256", t.DiffSHA256}, {"Assisted-by", assisted}} {
		fmt.Fprintf(&b, "%s: %s\n", trailer[0], oneLine(trailer[1]))
	}
	return b.String(), nil
}

// oneLine keeps a value from starting another trailer.
func oneLine(value string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, value))
}

// endsInTrailers reports whether git takes the last paragraph of a message for trailers, so that a line
// after it is one more; see find_trailer_block_start in git's trailer.c. The first paragraph is the
// title. Every line must be a trailer, go on with one, or be a comment; if one is of those that git
// itself writes, a quarter of trailers is enough. The last line must not be blank.
func endsInTrailers(lines []string) bool {
	title := 0
	for title < len(lines) && (isComment(lines[title]) || !isBlankLine(lines[title])) {
		title++
	}
	var trailers, others, continued int
	generated := false
	for i := len(lines) - 1; i >= title; i-- {
		line := lines[i]
		switch {
		case isComment(line):
			others += continued
			continued = 0
		case isBlankLine(line):
			others += continued
			return generated && trailers*3 >= others || trailers > 0 && others == 0
		case strings.HasPrefix(line, "Signed-off-by: ") || strings.HasPrefix(line, "(cherry picked from commit "):
			trailers++
			continued = 0
			generated = true
		case strings.IndexByte(" \t\r\v\f", line[0]) >= 0:
			continued++
		case isTrailer(line):
			trailers++
			continued = 0
		default:
			others += 1 + continued
			continued = 0
		}
	}
	return false
}

func isComment(line string) bool { return strings.HasPrefix(line, "#") }

func isBlankLine(line string) bool { return strings.Trim(line, " \t\r\n\v\f") == "" }

// isTrailer looks for a token of letters, digits and hyphens, then blanks, then a colon.
func isTrailer(line string) bool {
	token, _, ok := strings.Cut(line, ":")
	token = strings.TrimRight(token, " \t")
	return ok && token != "" && strings.Trim(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}
