package review

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/git-spot/git-spot/schemas"
)

// Bounds of what a worker is told. The prompt of a turn has about 100 KiB.
const (
	maxTailBytes     = 8 << 10 // of one command
	maxTailsBytes    = 32 << 10
	maxFindings      = 100
	maxFindingBytes  = 2 << 10 // of one summary
	maxGatePaths     = 50
	maxFeedbackGates = 32
)

// Tail is what a worker is shown of a command that failed.
type Tail struct {
	Argv   []string
	Status string // "exit status 1", "timed out"
	Output string // the end of it
}

// Feedback picks what the worker is told in its next turn: the unresolved findings of any severity, the
// most severe first, the red gates, and the ends of the outputs of set-up and verification commands that
// failed. All of it is bounded; what is left out is said in its place. v may be nil.
func Feedback(r *schemas.Review, v *schemas.Verification) ([]schemas.Finding, []schemas.GateResult, []Tail) {
	findings := unresolved(r)
	slices.SortStableFunc(findings, func(a, b schemas.Finding) int {
		return strings.Compare(string(a.Severity), string(b.Severity))
	})
	if n := len(findings); n > maxFindings {
		findings = append(findings[:maxFindings], schemas.Finding{
			Severity: schemas.P3, Summary: fmt.Sprintf("%d more findings are not listed", n-maxFindings),
		})
	}
	for i := range findings {
		findings[i].Summary = head(findings[i].Summary, maxFindingBytes)
	}
	if v == nil {
		return findings, nil, nil
	}

	var gates []schemas.GateResult
	for _, g := range v.Gates {
		if g.OK || len(gates) == maxFeedbackGates {
			continue
		}
		if n := len(g.Paths); n > maxGatePaths {
			g.Paths = g.Paths[:maxGatePaths:maxGatePaths]
			g.Message += fmt.Sprintf(" (%d paths, the first %d are listed)", n, maxGatePaths)
		}
		gates = append(gates, g)
	}

	var tails []Tail
	left := maxTailsBytes
	for _, c := range slices.Concat(v.Setup, v.Commands) {
		status := failure(c)
		if status == "" {
			continue
		}
		output := c.OutputTail
		if len(output) < maxTailBytes {
			output = c.OutputHead + output
			if int64(len(c.OutputHead)+len(c.OutputTail)) < c.OutputBytes && c.OutputTail != "" {
				output = c.OutputTail
			}
		}
		output = tail(output, min(maxTailBytes, left))
		left -= len(output)
		tails = append(tails, Tail{Argv: slices.Clone(c.Argv), Status: status, Output: output})
	}
	return findings, gates, tails
}

// failure says how a command failed, "" if it did not.
func failure(c schemas.CommandResult) string {
	switch {
	case c.Error != "":
		return "could not be started: " + c.Error
	case c.TimedOut:
		return fmt.Sprintf("timed out after %d s", c.DurationMS/1000)
	case c.Signal != "":
		return "ended by " + c.Signal
	case c.Exit == nil:
		return "ended without an exit status"
	case *c.Exit != 0:
		return fmt.Sprintf("exit status %d", *c.Exit)
	}
	return ""
}

// head is the start of text, at most max bytes, cut between characters.
func head(text string, max int) string {
	if len(text) <= max {
		return text
	}
	for max > 0 && !utf8.RuneStart(text[max]) {
		max--
	}
	return text[:max]
}

// tail is the end of text, at most max bytes, from the start of a line where there is one.
func tail(text string, max int) string {
	if len(text) <= max {
		return text
	}
	text = text[len(text)-max:]
	if _, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
		return rest
	}
	for text != "" && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}
