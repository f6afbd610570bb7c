// Package workers drives the untrusted agent programs. It knows a directory, a command line, a budget
// and an event protocol; it does not know git.
package workers

import (
	"context"
	"io"
	"time"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
)

// Turn is one start of a worker program.
type Turn struct {
	Profile *config.Profile
	Kind    schemas.Kind
	Prompt  string
	Dir     string // the worktree, the child's working directory
	Home    string // private home, exists
	Tmp     string // private temporary folder, exists
	RunID   string
	Attempt int
	Limits  schemas.Limits
	Events  io.Writer // events.jsonl; nil discards
	Log     io.Writer // worker.log; nil discards
	Getenv  func(string) string
	Now     func() time.Time
	Redact  config.Redactor // masks everything that Run writes or returns
}

// Final is what Run found out besides the Try.
type Final struct {
	Text       string
	StderrTail string
	Warnings   []string
	Isolation  schemas.Isolation
	Credential string // none, environment, gateway or login
}

// Check says whether the turn could start: adapter, program, version, credential. Nothing is started
// but the program's version probe. The error is a *Error.
func Check(ctx context.Context, t Turn) error { return nil }

// Run starts the worker of t under the supervisor and returns when it and all its descendants are
// gone. Everything the worker did is in the Try, also that it could not be started; the error is only
// for git spot's own failures (a log that cannot be written), and the Try is complete all the same.
func Run(ctx context.Context, t Turn) (schemas.Try, Final, error) {
	return schemas.Try{}, Final{}, nil
}

// Argv is the command line of t for start.json: redacted, and with a placeholder for the prompt.
func Argv(t Turn) ([]string, error) { return nil, nil }

// Error is a turn that was refused or could not be started; nothing was started.
type Error struct {
	Class   schemas.FailureClass // "" if the refusal is a matter of policy
	Profile string
	Message string
	Err     error
	code    schemas.Code
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, if there is one.
func (e *Error) Unwrap() error { return e.Err }

// Code is HIGH_RISK_BLOCKED, CONFIG_INVALID or one of WORKER_AUTH, WORKER_CAPABILITY, WORKER_SETUP.
func (e *Error) Code() schemas.Code { return e.code }
