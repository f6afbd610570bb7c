package schemas

import "time"

// State is where a run stands. The table of transitions is in package gitstate.
type State string

// The states.
const (
	StatePrepared      State = "prepared"
	StateRunning       State = "running"
	StateImplemented   State = "implemented"
	StateVerifying     State = "verifying"
	StateSelfReviewing State = "selfReviewing"
	StateReviewing     State = "reviewing"
	StateRevising      State = "revising"
	StateApproved      State = "approved"
	StateIntegrating   State = "integrating"
	StateIntegrated    State = "integrated"
	StateReported      State = "reported"
	StateCleaned       State = "cleaned"
	StateInterrupted   State = "interrupted"
	StateBlocked       State = "blocked"
	StateFailed        State = "failed"
	StateAborted       State = "aborted"
	StateDone          State = "done" // a read-only run has its result
)

// RunState is state.json of a ledger commit: all that is known of a run after one event. A reader
// needs no earlier event.
type RunState struct {
	SchemaVersion int       `json:"schemaVersion"`
	ID            string    `json:"id"`
	State         State     `json:"state"`
	Kind          Kind      `json:"kind"`
	Title         string    `json:"title"`
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`

	Caller     string     `json:"caller"`
	Thread     string     `json:"thread,omitempty"` // the calling agent's own session id
	Profile    ProfileRef `json:"profile"`
	Fallback   []string   `json:"fallback"` // profile names, in order
	Difficulty Difficulty `json:"difficulty"`

	Base        Base     `json:"base"`
	SourceDirty []string `json:"sourceDirty"` // paths that were changed in the source checkout at prepare, not included
	Worktree    string   `json:"worktree"`    // absolute path
	Slot        int      `json:"slot,omitempty"`

	Attempt    int `json:"attempt"`   // number of the latest attempt, 0 before the first
	Revisions  int `json:"revisions"` // revisions that count towards spot.maxRevisions
	Recoveries int `json:"recoveries,omitempty"`

	Candidate  string    `json:"candidate,omitempty"` // commit
	Tree       string    `json:"tree,omitempty"`      // tree of Candidate
	DiffSHA256 string    `json:"diffSha256,omitempty"`
	Diff       *DiffStat `json:"diff,omitempty"`

	Outcome      Outcome              `json:"outcome,omitempty"` // of the latest attempt
	FailureClass FailureClass         `json:"failureClass,omitempty"`
	Verification *VerificationSummary `json:"verification,omitempty"`
	Review       *ReviewSummary       `json:"review,omitempty"`
	Approved     string               `json:"approved,omitempty"` // the approved commit
	Integration  *Integration         `json:"integration,omitempty"`
	Blocked      *Blocked             `json:"blocked,omitempty"`
	Code         Code                 `json:"code,omitempty"`     // why the run stands where it stands
	Reported     bool                 `json:"reported,omitempty"` // report was written since a run that did not land has ended

	Owner    *Owner   `json:"owner,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// ProfileRef is the profile that was chosen at prepare.
type ProfileRef struct {
	Name     string `json:"name"`
	Source   string `json:"source"` // flag, caller-preference, difficulty or default
	Adapter  string `json:"adapter"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// Difficulty is how hard the task was taken to be.
type Difficulty struct {
	Level  Level  `json:"level"`
	Source string `json:"source"` // explicit or inferred
}

// Base is what the run started from, recorded at prepare and never read again from the repository.
type Base struct {
	Commit string `json:"commit"`
	Branch string `json:"branch,omitempty"` // full ref name of the source; "" means there is no source
}

// DiffStat counts a change. Added and Deleted are lines of text files.
type DiffStat struct {
	Files   int `json:"files"`
	Added   int `json:"added"`
	Deleted int `json:"deleted"`
}

// VerificationSummary is the short form of verification.json.
type VerificationSummary struct {
	Verdict    Verdict `json:"verdict"`
	Passed     int     `json:"passed"` // commands
	Total      int     `json:"total"`
	DurationMS int64   `json:"durationMs"`
	DiffSHA256 string  `json:"diffSha256"`
}

// ReviewSummary is the short form of the latest review.json.
type ReviewSummary struct {
	Verdict    ReviewVerdict `json:"verdict"`
	Open       int           `json:"open"` // unresolved findings P0-P2
	DiffSHA256 string        `json:"diffSha256"`
}

// Blocked says why a run cannot go on.
type Blocked struct {
	Cause   BlockedCause `json:"cause"`
	Code    Code         `json:"code"`
	Message string       `json:"message"`
	Paths   []string     `json:"paths,omitempty"`
	From    State        `json:"from"` // the state that recover goes back to
}

// BlockedCause is whose business it is to unblock.
type BlockedCause string

// The causes. A gate is final.
const (
	BlockedGate        BlockedCause = "gate"
	BlockedEnvironment BlockedCause = "environment"
	BlockedSource      BlockedCause = "source"
)

// Integration is the intent of integrate, written before it touches anything, and enough to finish or
// to judge it after a kill.
type Integration struct {
	Branch   string   `json:"branch"` // full ref name
	Old      string   `json:"old"`    // commit the branch must be at
	New      string   `json:"new"`    // the approved commit
	Checkout string   `json:"checkout,omitempty"`
	GitDir   string   `json:"gitDir,omitempty"` // git directory of that checkout
	Paths    []string `json:"paths,omitempty"`  // paths that the update writes
}

// Owner is the live process that is advancing a run.
type Owner struct {
	PID          int       `json:"pid"`
	ProcessStart int64     `json:"processStart"` // clock ticks after boot, field 22 of /proc/<pid>/stat; 0 if unknown
	BootID       string    `json:"bootId"`
	PIDNamespace string    `json:"pidNamespace"`
	Host         string    `json:"host"`
	Command      string    `json:"command"`
	Since        time.Time `json:"since"`
}
