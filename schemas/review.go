package schemas

// ReviewVerdict is what the caller, or the self-review, says of a change.
type ReviewVerdict string

// The review verdicts.
const (
	ReviewApprove ReviewVerdict = "approve"
	ReviewRevise  ReviewVerdict = "revise"
)

// Severity grades a finding. P0-P2 must be resolved before a change is approved.
type Severity string

// The severities.
const (
	P0 Severity = "P0"
	P1 Severity = "P1"
	P2 Severity = "P2"
	P3 Severity = "P3"
)

// Review is the caller's verdict, attempts/<n>/review.json.
type Review struct {
	SchemaVersion int           `json:"schemaVersion"`
	Verdict       ReviewVerdict `json:"verdict"`
	DiffSHA256    string        `json:"diffSha256"`
	Evidence      []Evidence    `json:"evidence,omitempty"`
	Findings      []Finding     `json:"findings,omitempty"`
}

// Evidence is why one acceptance criterion is met.
type Evidence struct {
	Criterion string `json:"criterion"`
	Text      string `json:"text"`
}

// Finding is one thing wrong with a change.
type Finding struct {
	Severity Severity `json:"severity"`
	Path     string   `json:"path,omitempty"`
	Line     int      `json:"line,omitempty"` // 1-based, 0 is none
	Summary  string   `json:"summary"`
	Resolved bool     `json:"resolved,omitempty"`
}

// SelfReview is attempts/<n>/self-review.json.
type SelfReview struct {
	SchemaVersion       int                 `json:"schemaVersion"`
	Skipped             bool                `json:"skipped"`
	Reason              string              `json:"reason,omitempty"` // why it was skipped
	DiffSHA256          string              `json:"diffSha256,omitempty"`
	Criteria            []SelfReviewVerdict `json:"criteria,omitempty"`
	Findings            []Finding           `json:"findings,omitempty"`
	DiffSHA256Mismatch  bool                `json:"diffSha256Mismatch,omitempty"`
	FallbackRecommended bool                `json:"fallbackRecommended,omitempty"`
	SpotCheckRequired   int                 `json:"spotCheckRequired,omitempty"`
}

// SelfReviewVerdict is what the worker says of one criterion.
type SelfReviewVerdict struct {
	Criterion string   `json:"criterion"`
	Status    string   `json:"status"` // met, uncertain or unmet
	Evidence  []string `json:"evidence,omitempty"`
}

// Metrics is metrics.json, written by report.
type Metrics struct {
	SchemaVersion int              `json:"schemaVersion"`
	ID            string           `json:"id"`
	State         State            `json:"state"`
	Attempts      int              `json:"attempts"`
	Revisions     int              `json:"revisions"`
	Worker        Usage            `json:"worker"`        // summed over all attempts
	PhasesMS      map[string]int64 `json:"phasesMs"`      // wall time in each owned phase
	ParentSavings *ParentSavings   `json:"parentSavings"` // null until it can be computed
	Isolation     *Isolation       `json:"isolation"`
	Warnings      []string         `json:"warnings,omitempty"`
}

// ParentSavings estimates what the caller did not have to read and write.
type ParentSavings struct {
	EstimatedTokensAvoided int64    `json:"estimatedTokensAvoided"`
	Ratio                  float64  `json:"ratio"`
	SpendWeightedRatio     float64  `json:"spendWeightedRatio"`
	Basis                  string   `json:"basis"`
	Excluded               []string `json:"excluded"`
}
