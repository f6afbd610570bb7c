package review

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/git-spot/git-spot/schemas"
)

// FlagError is a command-line flag whose value does not parse.
type FlagError struct {
	Flag    string // with its dashes
	Value   string
	Problem string
}

func (e *FlagError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Flag, e.Value, e.Problem)
}

// Code is USAGE.
func (e *FlagError) Code() schemas.Code { return schemas.CodeUsage }

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

// FromFlags builds a review from command-line flags: diffSHA256, evidence as ID=TEXT, and findings as
// SEVERITY:PATH:LINE:TEXT. The path may have colons: it ends at the first colon that a number and
// another colon follow. LINE may be 0 for the file as a whole; SEVERITY:::TEXT names no place. A value
// that does not parse, or that the schema of a review does not allow, is a *FlagError.
func FromFlags(verdict schemas.ReviewVerdict, diffSHA256 string, evidence, findings []string) (*schemas.Review, error) {
	if !sha256Hex.MatchString(diffSHA256) {
		return nil, &FlagError{"--diff-sha256", diffSHA256, "want 64 hex digits in lower case"}
	}
	r := &schemas.Review{SchemaVersion: schemas.Version, Verdict: verdict, DiffSHA256: diffSHA256}
	for _, value := range evidence {
		id, text, ok := strings.Cut(value, "=")
		switch {
		case !ok || strings.TrimSpace(id) == "":
			return nil, &FlagError{"--evidence", value, "want ID=TEXT"}
		case blank(text):
			return nil, &FlagError{"--evidence", value, "the text is empty"}
		}
		r.Evidence = append(r.Evidence, schemas.Evidence{Criterion: strings.TrimSpace(id), Text: text})
	}
	for _, value := range findings {
		f, problem := parseFinding(value)
		if problem != "" {
			return nil, &FlagError{"--finding", value, problem}
		}
		r.Findings = append(r.Findings, f)
	}
	if err := fits(r, evidence, findings); err != nil {
		return nil, err
	}
	return r, nil
}

// fits holds the review to what one in a file must be: the ledger keeps it as the file it stands for.
func fits(r *schemas.Review, evidence, findings []string) error {
	data, err := schemas.MarshalIndent(r)
	if err != nil {
		return err
	}
	_, err = schemas.ParseReview(data)
	refused, ok := errors.AsType[*schemas.DocumentError](err)
	if !ok || len(refused.Problems) == 0 {
		return err
	}
	first := refused.Problems[0]
	place := strings.SplitN(strings.TrimPrefix(first.Pointer, "/"), "/", 3)
	if len(place) < 3 {
		return err
	}
	name, values := "--finding", findings
	if place[0] == "evidence" {
		name, values = "--evidence", evidence
	}
	i, bad := strconv.Atoi(place[1])
	if bad != nil || i >= len(values) {
		return err
	}
	return &FlagError{name, values[i], place[2] + ": " + first.Message}
}

var lineNumber = regexp.MustCompile(`:([0-9]+):`)

// parseFinding reads one SEVERITY:PATH:LINE:TEXT. The problem is "" if there is none.
func parseFinding(value string) (f schemas.Finding, problem string) {
	const form = "want SEVERITY:PATH:LINE:TEXT, for example P2:src/a.go:12:the error is dropped"
	severity, rest, ok := strings.Cut(value, ":")
	if !ok {
		return f, form
	}
	switch f.Severity = schemas.Severity(severity); f.Severity {
	case schemas.P0, schemas.P1, schemas.P2, schemas.P3:
	default:
		return f, fmt.Sprintf("the severity is %q, want P0, P1, P2 or P3", severity)
	}
	if text, ok := strings.CutPrefix(rest, "::"); ok {
		f.Summary = text
	} else {
		at := lineNumber.FindStringSubmatchIndex(rest)
		if at == nil {
			return f, "there is no line number between colons; " + form
		}
		n, err := strconv.Atoi(rest[at[2]:at[3]])
		if err != nil || n > 1<<31-1 {
			return f, fmt.Sprintf("the line number %q is too large", rest[at[2]:at[3]])
		}
		f.Path, f.Line, f.Summary = rest[:at[0]], n, rest[at[1]:]
	}
	if f.Path == "" && f.Line != 0 {
		return f, "a line without a path"
	}
	if f.Summary = strings.TrimSpace(f.Summary); blank(f.Summary) {
		return f, "the text is empty"
	}
	return f, ""
}
