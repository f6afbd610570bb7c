// Package review holds the rules of the caller's verdict: what it takes to approve a change, when a
// revision may start and what the worker is told in it, and how the approved commit's message reads.
package review

import "github.com/git-spot/git-spot/schemas"

// CheckApproval returns nil if the review approves the very change that was verified, has evidence for
// every criterion and leaves nothing of P0-P2 open. Errors, in the order they are looked for:
// *VerdictError REVIEW_INVALID, *UnverifiedError VERIFICATION_FAILED, *HashError DIFF_HASH_CHANGED,
// *EvidenceError REVIEW_INVALID (a criterion that the contract does not have) or EVIDENCE_MISSING,
// *FindingsError UNRESOLVED_FINDINGS. v may be nil: nothing was verified.
func CheckApproval(c *schemas.Contract, state *schemas.RunState, v *schemas.Verification, r *schemas.Review) error {
	return nil
}

// CheckRevision returns nil if another turn may start with r. Errors: *VerdictError REVIEW_INVALID (it
// approves, or names nothing to do although the verification passed), *LimitError REVISION_LIMIT,
// *HashError DIFF_HASH_CHANGED. v may be nil.
func CheckRevision(state *schemas.RunState, maxRevisions int, r *schemas.Review, v *schemas.Verification) error {
	return nil
}

// OpenFindings returns the findings that stand in the way of an approval: P0-P2, not resolved.
func OpenFindings(r *schemas.Review) []schemas.Finding { return nil }

// Summary is the short form of r.
func Summary(r *schemas.Review) schemas.ReviewSummary { return schemas.ReviewSummary{} }

// Tail is what a worker is shown of a command that failed.
type Tail struct {
	Argv   []string
	Status string // "exit status 1", "timed out after 600 s"
	Output string // the end of it
}

// Feedback picks what the worker is told in its next turn: every unresolved finding, the red gates and
// the ends of the outputs of commands that failed, within 32 KiB of output. v may be nil.
func Feedback(r *schemas.Review, v *schemas.Verification) ([]schemas.Finding, []schemas.GateResult, []Tail) {
	return nil, nil, nil
}
