package schemas

import "time"

// Outcome is how a worker turn ended.
type Outcome string

// The outcomes.
const (
	OutcomeCompleted   Outcome = "completed"
	OutcomeEmpty       Outcome = "empty" // ended well and changed nothing
	OutcomeStepCapped  Outcome = "step_capped"
	OutcomeTimedOut    Outcome = "timed_out"
	OutcomeIdle        Outcome = "idle"
	OutcomeInterrupted Outcome = "interrupted"
	OutcomeError       Outcome = "error"
)

// FailureClass says what kind of error ended a turn; "" unless the outcome is error.
type FailureClass string

// The failure classes.
const (
	FailureAuth       FailureClass = "auth"
	FailureQuota      FailureClass = "quota"
	FailureRateLimit  FailureClass = "rate_limit"
	FailureTransient  FailureClass = "transient"
	FailurePermanent  FailureClass = "permanent"
	FailureCapability FailureClass = "capability"
	FailurePermission FailureClass = "permission"
	FailureSetup      FailureClass = "setup"
	FailureIncomplete FailureClass = "incomplete"
	FailureBudget     FailureClass = "budget"
)

// AttemptStart is attempts/<n>/start.json, written before the worker's first request: whoever finds it
// without a receipt knows that a turn may have been paid for.
type AttemptStart struct {
	SchemaVersion int        `json:"schemaVersion"`
	Attempt       int        `json:"attempt"`
	Profile       ProfileRef `json:"profile"`
	Argv          []string   `json:"argv"` // redacted
	StartTree     string     `json:"startTree"`
	StartedAt     time.Time  `json:"startedAt"`
	Text          string     `json:"text,omitempty"` // what the caller resumed the worker with
}

// WorkerReceipt is attempts/<n>/worker.json: how a turn went, as git spot saw it.
type WorkerReceipt struct {
	SchemaVersion int          `json:"schemaVersion"`
	Attempt       int          `json:"attempt"`
	Outcome       Outcome      `json:"outcome"`
	FailureClass  FailureClass `json:"failureClass,omitempty"`
	Message       string       `json:"message,omitempty"`
	Profile       ProfileRef   `json:"profile"` // of the try that counted, the last
	Tries         []Try        `json:"tries"`   // one per profile that was started, in order
	Usage         Usage        `json:"usage"`   // summed over Tries
	SessionID     string       `json:"sessionId,omitempty"`
	StartedAt     time.Time    `json:"startedAt"`
	EndedAt       time.Time    `json:"endedAt"`
	DurationMS    int64        `json:"durationMs"`
	Isolation     Isolation    `json:"isolation"`
	Credential    string       `json:"credential"` // none, environment, gateway or login
	FinalText     string       `json:"finalText,omitempty"`
	Question      string       `json:"question,omitempty"` // what the worker asks of the caller
	StderrTail    string       `json:"stderrTail,omitempty"`
	Warnings      []string     `json:"warnings,omitempty"`

	Tampered []string `json:"tampered,omitempty"` // executable git configuration that appeared during the turn, or ".git"
	Nested   []string `json:"nested,omitempty"`   // git repositories inside the worktree
	Ignored  []string `json:"ignored,omitempty"`  // files that no tree can hold: sockets, pipes, devices, ".git" look-alikes
}

// Try is one start of a worker program within an attempt.
type Try struct {
	Profile        ProfileRef     `json:"profile"`
	Program        string         `json:"program"`
	ProgramVersion string         `json:"programVersion,omitempty"`
	Outcome        Outcome        `json:"outcome"`
	FailureClass   FailureClass   `json:"failureClass,omitempty"`
	Message        string         `json:"message,omitempty"`
	ExitStatus     *int           `json:"exitStatus"` // null if a signal ended it or it never started
	Signal         string         `json:"signal,omitempty"`
	Usage          Usage          `json:"usage"`
	Steps          *int           `json:"steps"`
	ToolErrors     map[string]int `json:"toolErrors,omitempty"`
	SessionID      string         `json:"sessionId,omitempty"`
	Question       string         `json:"question,omitempty"`
	DurationMS     int64          `json:"durationMs"`
	Partial        string         `json:"partial,omitempty"` // commit that pins the work of a failed try
}

// Usage is what a turn consumed. Null is unknown; it is never 0 by guess.
type Usage struct {
	UncachedInput *int64   `json:"uncachedInput"`
	CacheRead     *int64   `json:"cacheRead"`
	CacheWrite    *int64   `json:"cacheWrite"`
	Output        *int64   `json:"output"`
	Reasoning     *int64   `json:"reasoning"`
	Credits       *float64 `json:"credits"`
	CostUSD       *float64 `json:"costUSD"`
}

// Isolation is what was really in force around a child, probed by doing it.
type Isolation struct {
	Level   IsolationLevel `json:"level"`
	Parts   []string       `json:"parts"`
	Missing []string       `json:"missing"`
}

// IsolationLevel grades Isolation.
type IsolationLevel string

// The isolation levels.
const (
	IsolationSandbox IsolationLevel = "sandbox"
	IsolationPartial IsolationLevel = "partial"
	IsolationNone    IsolationLevel = "none"
)

// Event is one line of events.jsonl: what a worker did, normalised over all adapters.
type Event struct {
	Time    time.Time `json:"time"`
	Type    EventType `json:"type"`
	Text    string    `json:"text,omitempty"`
	Name    string    `json:"name,omitempty"`   // tool
	Status  string    `json:"status,omitempty"` // tool: ok, error or denied
	Usage   *Usage    `json:"usage,omitempty"`
	Session string    `json:"session,omitempty"`
	Class   string    `json:"class,omitempty"` // error
	Bytes   int64     `json:"bytes,omitempty"` // dropped: how many
}

// EventType says which of the fields of an Event are set.
type EventType string

// The event types.
const (
	EventText    EventType = "text"
	EventTool    EventType = "tool"
	EventUsage   EventType = "usage"
	EventSession EventType = "session"
	EventError   EventType = "error"
	EventWarning EventType = "worker_warning"
	EventFinal   EventType = "final"
	EventStderr  EventType = "stderr"
	EventDropped EventType = "dropped" // a line over the cap was cut by Bytes
)
