package gitstate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/git-spot/git-spot/schemas"
)

// The messages of ledger commits and the notes are a title line, an empty line and trailers, one
// "Key: value" a line, so that git interpret-trailers --parse reads them.
//
// A value is one line of UTF-8 text. What cannot stand in a line is written byte by byte as \xhh with
// two lower-case hex digits: control characters (U+0000-U+001F, U+007F-U+009F), the line and paragraph
// separators U+2028 and U+2029, bytes that are not UTF-8, and a space at either end, which git would
// strip. A backslash is written \\. So every byte string has exactly one written form, and a hostile title
// can neither forge a trailer nor end the block. A value that is empty has no trailer.
//
// The title line has the same characters written the same way, but for the backslash, which stays, and
// a "#" or "---" at its start, of which the first character is written so too. It is cut at maxTitleLine
// bytes. It is for people and is not decoded.

// The trailers of ledger commits and notes.
const (
	trailerRun           = "Spot-Run"
	trailerState         = "Spot-State"
	trailerAttempt       = "Spot-Attempt"
	trailerCaller        = "Spot-Caller"
	trailerProfile       = "Spot-Profile"
	trailerTitle         = "Spot-Title"
	trailerCandidate     = "Spot-Candidate"
	trailerDiffSHA256    = "Spot-Diff-Sha256"
	trailerCode          = "Spot-Code"
	trailerUpdated       = "Spot-Updated"
	trailerTree          = "Spot-Tree"
	trailerVerification  = "Spot-Verification"
	trailerReview        = "Spot-Review"
	trailerWorker        = "Spot-Worker"
	trailerIsolation     = "Spot-Isolation"
	trailerTokensAvoided = "Spot-Tokens-Avoided"
	trailerLedger        = "Spot-Ledger"
)

// maxTitleLine bounds the title line in bytes; the whole title is in the trailer.
const maxTitleLine = 200

type trailer struct{ key, value string }

// formatTrailers writes a title line and trailers.
func formatTrailers(title string, trailers []trailer) string {
	var b strings.Builder
	b.WriteString(titleLine(title))
	b.WriteString("\n\n")
	for _, t := range trailers {
		if t.value != "" {
			b.WriteString(t.key + ": " + escape(t.value, true) + "\n")
		}
	}
	return b.String()
}

// titleLine makes one line of at most maxTitleLine bytes that is not empty.
func titleLine(s string) string {
	s = escape(strings.Trim(s, " \t\r\n"), false)
	// git interpret-trailers takes these for a comment and for the end of the message.
	if strings.HasPrefix(s, "#") || strings.HasPrefix(s, "---") {
		s = fmt.Sprintf(`\x%02x`, s[0]) + s[1:]
	}
	if len(s) > maxTitleLine {
		cut := maxTitleLine - len("...")
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = strings.TrimRight(s[:cut], " ") + "..."
	}
	if s == "" {
		return "(no title)"
	}
	return s
}

// escape writes what cannot stand in a line. With strict the result can be read back by unescape.
func escape(s string, strict bool) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\\' && strict:
			b.WriteString(`\\`)
		case mustEscape(r, size), r == ' ' && strict && (i == 0 || i == len(s)-1):
			for _, c := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

func mustEscape(r rune, size int) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == utf8.RuneError && size == 1
}

// unescape reads what escape wrote and refuses anything else, so that one value has one form.
func unescape(s string) (string, error) {
	if isPlain(s) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			i++
			continue
		}
		rest := s[i+1:]
		switch {
		case strings.HasPrefix(rest, `\`):
			b.WriteByte('\\')
			i += 2
		case strings.HasPrefix(rest, "x") && len(rest) >= 3:
			c, err := strconv.ParseUint(rest[1:3], 16, 8)
			if err != nil {
				return "", fmt.Errorf("%q is no escape", rest[:3])
			}
			b.WriteByte(byte(c))
			i += 4
		default:
			return "", fmt.Errorf("a lone backslash in %q", s)
		}
	}
	if escape(b.String(), true) != s {
		return "", fmt.Errorf("%q is not in its canonical form", s)
	}
	return b.String(), nil
}

// isPlain reports whether s surely is its own written form. Nearly every value is.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' || c == ' ' && (i == 0 || i == len(s)-1) {
			return false
		}
	}
	return true
}

// parseTrailers reads what formatTrailers wrote. A paragraph between title and trailers is passed over; a
// line of the last paragraph that is no trailer, and a key that comes twice, are errors.
func parseTrailers(text string) (title string, trailers map[string]string, err error) {
	body, ok := strings.CutSuffix(text, "\n")
	if !ok {
		return "", nil, fmt.Errorf("the last line does not end")
	}
	title, _, _ = strings.Cut(body, "\n")
	i := strings.LastIndex(body, "\n\n")
	if i < 0 || title == "" {
		return "", nil, fmt.Errorf("no title line, empty line and trailers")
	}
	trailers = make(map[string]string, 12)
	for line := range strings.SplitSeq(body[i+2:], "\n") {
		key, value, ok := strings.Cut(line, ": ")
		if !ok || !isKey(key) {
			return "", nil, fmt.Errorf("%q is no trailer", line)
		}
		if _, twice := trailers[key]; twice {
			return "", nil, fmt.Errorf("%s comes twice", key)
		}
		if trailers[key], err = unescape(value); err != nil {
			return "", nil, fmt.Errorf("%s: %w", key, err)
		}
		if trailers[key] == "" {
			return "", nil, fmt.Errorf("%s is empty", key)
		}
	}
	return title, trailers, nil
}

// isKey reports whether s is letters, digits and dashes.
func isKey(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != ""
}

// ledgerMessage is the message of the ledger commit for s.
func ledgerMessage(subject string, s *schemas.RunState) string {
	if subject == "" {
		subject = string(s.State)
	}
	return formatTrailers(subject, ledgerTrailers(s))
}

func ledgerTrailers(s *schemas.RunState) []trailer {
	return []trailer{
		{trailerRun, s.ID},
		{trailerState, string(s.State)},
		{trailerAttempt, strconv.Itoa(s.Attempt)},
		{trailerCaller, s.Caller},
		{trailerProfile, s.Profile.Name},
		{trailerTitle, s.Title},
		{trailerCandidate, s.Candidate},
		{trailerDiffSHA256, s.DiffSHA256},
		{trailerCode, string(s.Code)},
		{trailerUpdated, s.UpdatedAt.Format(time.RFC3339Nano)},
	}
}

// parseLedgerMessage reads the event of a ledger commit.
func parseLedgerMessage(message string, id RunID) (subject string, sum Summary, err error) {
	subject, t, err := parseTrailers(message)
	if err != nil {
		return "", Summary{}, err
	}
	if t[trailerRun] != string(id) {
		return "", Summary{}, fmt.Errorf("%s is %q", trailerRun, t[trailerRun])
	}
	sum = Summary{
		ID: id, State: schemas.State(t[trailerState]), Title: t[trailerTitle], Caller: t[trailerCaller],
		Profile: t[trailerProfile], DiffSHA256: t[trailerDiffSHA256], Code: schemas.Code(t[trailerCode]),
	}
	if sum.State == "" {
		return "", Summary{}, fmt.Errorf("no %s", trailerState)
	}
	if sum.Attempt, err = strconv.Atoi(t[trailerAttempt]); err != nil {
		return "", Summary{}, fmt.Errorf("%s: %w", trailerAttempt, err)
	}
	if sum.UpdatedAt, err = time.Parse(time.RFC3339Nano, t[trailerUpdated]); err != nil {
		return "", Summary{}, fmt.Errorf("%s: %w", trailerUpdated, err)
	}
	if word := t[trailerCandidate]; word != "" {
		if sum.Candidate, err = ParseOID(word); err != nil {
			return "", Summary{}, fmt.Errorf("%s: %w", trailerCandidate, err)
		}
	}
	return subject, sum, nil
}
