package schemas

import "time"

// Verdict is the result of a verification.
type Verdict string

// The verdicts.
const (
	VerdictPass Verdict = "pass"
	VerdictFail Verdict = "fail"
)

// Verification is attempts/<n>/verification.json, written by git spot and never by the worker.
type Verification struct {
	SchemaVersion int             `json:"schemaVersion"`
	Attempt       int             `json:"attempt"`
	Verdict       Verdict         `json:"verdict"`
	Code          Code            `json:"code,omitempty"` // the first red gate or command
	Base          string          `json:"base"`
	Candidate     string          `json:"candidate"`
	Tree          string          `json:"tree"`
	DiffSHA256    string          `json:"diffSha256"`
	Diff          DiffStat        `json:"diff"`
	Gates         []GateResult    `json:"gates"`
	Overlays      []Overlay       `json:"overlays"`
	Setup         []CommandResult `json:"setup"`
	Commands      []CommandResult `json:"commands"`
	Isolation     Isolation       `json:"isolation"`
	StartedAt     time.Time       `json:"startedAt"`
	DurationMS    int64           `json:"durationMs"`
	Warnings      []string        `json:"warnings,omitempty"`
}

// GateResult is one yes/no check of the change.
type GateResult struct {
	Gate      string   `json:"gate"`
	Code      Code     `json:"code"` // the code that a red gate has
	OK        bool     `json:"ok"`
	Unchecked bool     `json:"unchecked,omitempty"` // red because it could not be checked, which can be tried again
	Paths     []string `json:"paths,omitempty"`
	Message   string   `json:"message,omitempty"`
}

// Overlay is a file of the clean room that is not from the candidate's tree.
type Overlay struct {
	Path   string `json:"path"`
	Source string `json:"source"` // base or reuse
	SHA256 string `json:"sha256"` // "" if base does not have the file and it was removed
}

// CommandResult is one command that was run in the clean room.
type CommandResult struct {
	ID           string      `json:"id,omitempty"`
	Argv         []string    `json:"argv"`
	Program      string      `json:"program,omitempty"` // absolute path argv[0] was resolved to
	Cwd          string      `json:"cwd,omitempty"`
	Exit         *int        `json:"exit"` // null if a signal ended it or it never started
	Signal       string      `json:"signal,omitempty"`
	TimedOut     bool        `json:"timedOut"`
	Error        string      `json:"error,omitempty"` // it could not be started
	DurationMS   int64       `json:"durationMs"`
	Tests        *TestCounts `json:"tests,omitempty"`
	OutputHead   string      `json:"outputHead"`
	OutputTail   string      `json:"outputTail"` // "" if the head is the whole output
	OutputBytes  int64       `json:"outputBytes"`
	OutputSHA256 string      `json:"outputSha256"` // of the whole output
	Retries      []int       `json:"retries,omitempty"`
	Baseline     *Baselined  `json:"baseline,omitempty"`
}

// TestCounts are counts of a runner that says them in a machine format.
type TestCounts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// Baselined is how the same command did on the base commit.
type Baselined struct {
	Exit  *int        `json:"exit"`
	Tests *TestCounts `json:"tests,omitempty"`
}
