// Package review holds the rules of the caller's verdict: what it takes to approve a change, when a
// revision may start and what the worker is told in it, and how the approved commit's message reads.
package review

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/git-spot/git-spot/schemas"
)

// VerdictError is a review that does not say what the command needs. Code is REVIEW_INVALID.
type VerdictError struct {
	Verdict schemas.ReviewVerdict
	Want    schemas.ReviewVerdict
	Problem string // "" if the verdict is the other one
}

func (e *VerdictError) Error() string {
	if e.Problem != "" {
		return e.Problem
	}
	return fmt.Sprintf("the review's verdict is %q, not %q", e.Verdict, e.Want)
}

// Code is REVIEW_INVALID.
func (e *VerdictError) Code() schemas.Code { return schemas.CodeReviewInvalid }

// UnverifiedError is a change that was not verified, or did not pass.
type UnverifiedError struct {
	Reason schemas.Code // what was red; "" if nothing was verified
}

func (e *UnverifiedError) Error() string {
	if e.Reason == "" {
		return "the change was not verified"
	}
	return fmt.Sprintf("the verification did not pass: %s", e.Reason)
}

// Code is VERIFICATION_FAILED.
func (e *UnverifiedError) Code() schemas.Code { return schemas.CodeVerificationFailed }

// HashError is a verdict about another change than the one at hand. Verified is empty if the change was
// not verified.
type HashError struct{ Verified, Reviewed, Now string }

func (e *HashError) Error() string {
	if e.Verified != "" && e.Verified != e.Now {
		return fmt.Sprintf("the change is %s, verified was %s", short(e.Now), short(e.Verified))
	}
	return fmt.Sprintf("the change is %s, reviewed was %s", short(e.Now), short(e.Reviewed))
}

// Code is DIFF_HASH_CHANGED.
func (e *HashError) Code() schemas.Code { return schemas.CodeDiffHashChanged }

// short is enough of a hash to tell it from another by eye; a foreign value is quoted.
func short(hash string) string {
	if len(hash) > 12 {
		hash = hash[:12]
	}
	return fmt.Sprintf("%q", hash)
}

// EvidenceError is a review whose evidence does not match the contract's acceptance criteria.
type EvidenceError struct {
	Unknown []string // criteria that the contract does not have
	Missing []string // criteria without evidence; looked for only if none is unknown
}

func (e *EvidenceError) Error() string {
	if len(e.Unknown) > 0 {
		return fmt.Sprintf("evidence for criteria that the contract does not have: %q", e.Unknown)
	}
	return fmt.Sprintf("no evidence for %q", e.Missing)
}

// Code is REVIEW_INVALID for an unknown criterion, else EVIDENCE_MISSING.
func (e *EvidenceError) Code() schemas.Code {
	if len(e.Unknown) > 0 {
		return schemas.CodeReviewInvalid
	}
	return schemas.CodeEvidenceMissing
}

// FindingsError is a review that leaves findings open.
type FindingsError struct{ Open []schemas.Finding }

func (e *FindingsError) Error() string {
	return fmt.Sprintf("%d findings of P0-P2 are open, the first: %s %q", len(e.Open), e.Open[0].Severity, e.Open[0].Summary)
}

// Code is UNRESOLVED_FINDINGS.
func (e *FindingsError) Code() schemas.Code { return schemas.CodeUnresolvedFindings }

// LimitError is a run that has had all its revisions.
type LimitError struct{ Max int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("the run has had its %d revisions", e.Max)
}

// Code is REVISION_LIMIT.
func (e *LimitError) Code() schemas.Code { return schemas.CodeRevisionLimit }

// CheckApproval returns nil if the review approves the very change that was verified, has evidence for
// every criterion and leaves nothing of P0-P2 open. Errors, in the order they are looked for:
// *VerdictError, *UnverifiedError, *HashError, *EvidenceError, *FindingsError. v may be nil: nothing was
// verified.
func CheckApproval(c *schemas.Contract, state *schemas.RunState, v *schemas.Verification, r *schemas.Review) error {
	if r.Verdict != schemas.ReviewApprove {
		return &VerdictError{Verdict: r.Verdict, Want: schemas.ReviewApprove}
	}
	if v == nil {
		return &UnverifiedError{}
	}
	if !passed(v) {
		return &UnverifiedError{Reason: reason(v)}
	}
	if state.DiffSHA256 == "" || v.DiffSHA256 != state.DiffSHA256 || r.DiffSHA256 != state.DiffSHA256 {
		return &HashError{Verified: v.DiffSHA256, Reviewed: r.DiffSHA256, Now: state.DiffSHA256}
	}
	if err := checkEvidence(c.Acceptance, r.Evidence); err != nil {
		return err
	}
	if open := OpenFindings(r); len(open) > 0 {
		return &FindingsError{Open: open}
	}
	return nil
}

// passed does not take the verdict's word alone: a gate that is red beside it is red.
func passed(v *schemas.Verification) bool {
	return v.Verdict == schemas.VerdictPass && v.Code == "" &&
		!slices.ContainsFunc(v.Gates, func(g schemas.GateResult) bool { return !g.OK })
}

func reason(v *schemas.Verification) schemas.Code {
	if v.Code != "" {
		return v.Code
	}
	for _, g := range v.Gates {
		if !g.OK {
			return g.Code
		}
	}
	return schemas.CodeVerificationFailed
}

func checkEvidence(criteria []schemas.Criterion, evidence []schemas.Evidence) error {
	given := make(map[string]bool)
	var e EvidenceError
	for _, item := range evidence {
		if !slices.ContainsFunc(criteria, func(c schemas.Criterion) bool { return c.ID == item.Criterion }) {
			e.Unknown = append(e.Unknown, item.Criterion)
		}
		if !blank(item.Text) {
			given[item.Criterion] = true
		}
	}
	for _, c := range criteria {
		if !given[c.ID] {
			e.Missing = append(e.Missing, c.ID)
		}
	}
	if len(e.Unknown)+len(e.Missing) == 0 {
		return nil
	}
	return &e
}

// blank reports whether a reader would see nothing.
func blank(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Zs, r)
	})
}

// CheckRevision returns nil if another turn may start with r. Errors, in the order they are looked for:
// *VerdictError (it approves, or names nothing to do although the verification passed), *LimitError,
// *HashError. v may be nil.
func CheckRevision(state *schemas.RunState, maxRevisions int, r *schemas.Review, v *schemas.Verification) error {
	if r.Verdict != schemas.ReviewRevise {
		return &VerdictError{Verdict: r.Verdict, Want: schemas.ReviewRevise}
	}
	if (v == nil || passed(v)) && len(unresolved(r)) == 0 {
		return &VerdictError{
			Verdict: r.Verdict, Want: schemas.ReviewRevise,
			Problem: "the review has no open finding, and no verification failed: nothing to revise",
		}
	}
	if err := CheckResume(state, maxRevisions); err != nil {
		return err
	}
	if state.DiffSHA256 == "" || r.DiffSHA256 != state.DiffSHA256 {
		return &HashError{Reviewed: r.DiffSHA256, Now: state.DiffSHA256}
	}
	return nil
}

// CheckResume returns nil if another turn may start with a text of the caller, else a *LimitError.
func CheckResume(state *schemas.RunState, maxRevisions int) error {
	if state.Revisions >= maxRevisions {
		return &LimitError{Max: maxRevisions}
	}
	return nil
}

func unresolved(r *schemas.Review) []schemas.Finding {
	var open []schemas.Finding
	for _, f := range r.Findings {
		if !f.Resolved {
			open = append(open, f)
		}
	}
	return open
}

// OpenFindings returns the findings that stand in the way of an approval: not resolved, and of any
// severity but P3.
func OpenFindings(r *schemas.Review) []schemas.Finding {
	return slices.DeleteFunc(unresolved(r), func(f schemas.Finding) bool { return f.Severity == schemas.P3 })
}

// Summary is the short form of r.
func Summary(r *schemas.Review) schemas.ReviewSummary {
	return schemas.ReviewSummary{Verdict: r.Verdict, Open: len(OpenFindings(r)), DiffSHA256: r.DiffSHA256}
}
