package workers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/schemas"
)

// Code is the code that a command ends with after a turn, or "" if the turn is not a failure.
func Code(o schemas.Outcome, c schemas.FailureClass) schemas.Code {
	switch o {
	case schemas.OutcomeCompleted, schemas.OutcomeEmpty, schemas.OutcomeStepCapped:
		return ""
	case schemas.OutcomeTimedOut:
		return schemas.CodeWorkerTimeout
	case schemas.OutcomeIdle:
		return schemas.CodeWorkerIdle
	case schemas.OutcomeInterrupted:
		return schemas.CodeInterrupted
	}
	switch c {
	case schemas.FailureAuth:
		return schemas.CodeWorkerAuth
	case schemas.FailureQuota:
		return schemas.CodeWorkerQuota
	case schemas.FailureRateLimit:
		return schemas.CodeWorkerRateLimit
	case schemas.FailureTransient:
		return schemas.CodeWorkerTransient
	case schemas.FailureCapability:
		return schemas.CodeWorkerCapability
	case schemas.FailurePermission:
		return schemas.CodeWorkerPermission
	case schemas.FailureSetup:
		return schemas.CodeWorkerSetup
	case schemas.FailureIncomplete:
		return schemas.CodeWorkerIncomplete
	case schemas.FailureBudget:
		return schemas.CodeBudgetExceeded
	}
	return schemas.CodeWorkerPermanent
}

// MayFallBack says whether the next profile of the chain may be tried after an error of class c. What
// is wrong with the set-up or the task is not routed around.
func MayFallBack(c schemas.FailureClass) bool {
	return c == schemas.FailureQuota || c == schemas.FailureRateLimit || c == schemas.FailureTransient
}

// classOf is the failure class that a worker names. The budget is ours alone to judge.
func classOf(word string) schemas.FailureClass {
	for _, c := range []schemas.FailureClass{
		schemas.FailureAuth, schemas.FailureQuota, schemas.FailureRateLimit, schemas.FailureTransient,
		schemas.FailureCapability, schemas.FailurePermission, schemas.FailureSetup, schemas.FailureIncomplete,
	} {
		if word == string(c) {
			return c
		}
	}
	return schemas.FailurePermanent
}

// fromStderr judges a program that has no protocol of its own by its last words on standard error.
type fromStderr struct{ last []string }

// Stderr remembers the last lines.
func (s *fromStderr) Stderr(line []byte) []schemas.Event {
	const lines, length = 5, 4096
	if text := strings.TrimSpace(string(line[:min(len(line), length)])); text != "" {
		if len(s.last) == lines {
			s.last = slices.Delete(s.last, 0, 1)
		}
		s.last = append(s.last, text)
	}
	return nil
}

// verdict: exit 0 is good, anything else permanent, unless standard error says what it was. Of a
// program that exits 0 it is asked only if that program had nothing to say on standard output, and
// then only its very last line: a worker that ran somebody's tests prints all kinds of errors.
func (s *fromStderr) verdict(exit int, spoke bool) Verdict {
	if exit == 0 {
		if spoke || len(s.last) == 0 {
			return Verdict{}
		}
		line := s.last[len(s.last)-1]
		class := classify(line)
		if class == "" {
			return Verdict{}
		}
		return Verdict{Class: class, Message: line}
	}
	for _, line := range slices.Backward(s.last) {
		if class := classify(line); class != "" {
			return Verdict{Class: class, Message: line}
		}
	}
	how := "ended by a signal"
	if exit > 0 {
		how = fmt.Sprintf("exit status %d", exit)
	}
	if len(s.last) > 0 {
		how += ": " + s.last[len(s.last)-1]
	}
	return Verdict{Class: schemas.FailurePermanent, Message: how}
}

// questionMark begins the last lines of a worker that cannot go on without an answer. The prompts say so.
const questionMark = "QUESTION:"

// question is what a worker's last words ask of the caller: its last paragraph, from the line on that
// begins with questionMark, whatever marks of Markdown are around that. It is all that the worker said
// if there is no such line, or nothing after it.
func question(text string) string {
	const marks = " \t\r\n*_#>"
	paragraphs := strings.Split(strings.ReplaceAll(strings.TrimSpace(text), "\r\n", "\n"), "\n\n")
	lines := strings.Split(paragraphs[len(paragraphs)-1], "\n")
	for i, line := range lines {
		if asked, ok := strings.CutPrefix(strings.TrimLeft(line, marks), questionMark); ok {
			if asked = strings.Trim(strings.Join(append([]string{asked}, lines[i+1:]...), "\n"), marks); asked != "" {
				return asked
			}
			break
		}
	}
	return text
}

// classify finds what providers and agent programs say when an account is the trouble. It is meant to
// miss rather than to mistake: what it does not know is permanent and ends the chain.
func classify(line string) schemas.FailureClass {
	line = strings.ToLower(line)
	for _, known := range []struct {
		class schemas.FailureClass
		words []string
	}{
		{schemas.FailureQuota, []string{
			"insufficient_quota", "quota exceeded", "exceeded your current quota", "insufficient balance",
			"credit balance is too low", "402 payment required",
		}},
		{schemas.FailureRateLimit, []string{
			"rate limit", "rate_limit", "ratelimit", "429 too many requests", "too many requests",
		}},
		{schemas.FailureAuth, []string{
			"not authenticated", "unauthenticated", "not logged in", "invalid api key", "incorrect api key",
			"invalid_api_key", "no api key", "missing api key", "401 unauthorized", "authentication_error",
			"authentication required", "please run /login",
		}},
	} {
		for _, word := range known.words {
			if strings.Contains(line, word) {
				return known.class
			}
		}
	}
	return ""
}
