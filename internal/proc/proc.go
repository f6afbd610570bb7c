// Package proc starts, watches and ends every child process of git spot.
package proc

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/git-spot/git-spot/schemas"
)

// Command says what to start and within which limits.
type Command struct {
	// Argv is the program, an absolute path, and its arguments. Never a shell string.
	Argv []string
	// Dir is the working directory; empty is that of this process.
	Dir string
	// Env is the whole environment: nothing is inherited, nil is empty. Of two values for one name the last counts.
	Env []string

	// Stdin is copied to the child, whose standard input then ends. Nil is /dev/null.
	Stdin io.Reader
	// Stdout and Stderr get what the child prints, each from one goroutine. Nil discards. If both are
	// the same writer, the child gets one pipe for both and their order is kept.
	Stdout, Stderr io.Writer

	Wall, Idle, Grace, Drain time.Duration

	// Settled is closed when the child has said its last word: it then has Drain to end by itself.
	Settled <-chan struct{}
}

// End says how a child came to its end.
type End string

// The ends.
const (
	EndExited      End = "exited"
	EndSignaled    End = "signaled"
	EndTimedOut    End = "timed_out"
	EndIdle        End = "idle"
	EndInterrupted End = "interrupted"
	EndSettled     End = "settled"
)

// Result is what became of a child.
type Result struct {
	Exit     int    // exit status, -1 if a signal ended it
	Signal   string // SIGKILL and so on, empty if it exited
	End      End
	Duration time.Duration
	MaxRSS   int64 // peak resident memory in bytes
	PID      int
}

// StartError says that a program could not be started.
type StartError struct {
	Program string
	Err     error
}

func (e *StartError) Error() string { return "start " + e.Program + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Code returns WORKER_SETUP.
func (e *StartError) Code() schemas.Code { return schemas.CodeWorkerSetup }

var errStub = errors.New("not written yet")

// Exec runs a trusted, short child.
func Exec(ctx context.Context, c Command) (Result, error) { return Result{}, errStub }

// Supervise runs an untrusted child under a supervisor.
func Supervise(ctx context.Context, c Command) (Result, error) { return Result{}, errStub }

// LookPath finds file in path, a list as in PATH, without its relative and empty entries.
func LookPath(file, path string) (string, error) { return "", errStub }

// WithTrace makes every child under ctx leave one line in w.
func WithTrace(ctx context.Context, w io.Writer) context.Context { return ctx }

// WithLock makes Exec children and supervisors under ctx inherit the descriptor f.
func WithLock(ctx context.Context, f *os.File) context.Context { return ctx }

// WithKill returns a context under which children are killed at once, without grace, when kill is closed.
func WithKill(ctx context.Context, kill <-chan struct{}) context.Context { return ctx }

// SuperviseArg is the first argument with which git-spot runs itself as the supervisor.
const SuperviseArg = "__supervise"

// ShimMain is the supervisor.
func ShimMain(args []string) int { return 70 }

// Shim says which supervisor Supervise uses.
func Shim() (path string, builtin bool) { return "", true }

// Capture keeps the head and the tail of a stream.
type Capture struct{}

// NewCapture returns a Capture that keeps head and tail bytes.
func NewCapture(head, tail int) *Capture { return &Capture{} }

// Write never fails.
func (c *Capture) Write(p []byte) (int, error) { return len(p), nil }

// Head is the first bytes.
func (c *Capture) Head() []byte { return nil }

// Tail is the last bytes that are not in Head.
func (c *Capture) Tail() []byte { return nil }

// Bytes is the length of the whole stream.
func (c *Capture) Bytes() int64 { return 0 }

// SHA256 is the hash of the whole stream in hex.
func (c *Capture) SHA256() string { return "" }

// Lines cuts a stream into lines.
type Lines struct{}

// NewLines returns a Lines.
func NewLines(max int, fn func(line []byte, dropped int64)) *Lines { return &Lines{} }

// Write never fails.
func (l *Lines) Write(p []byte) (int, error) { return len(p), nil }

// Close hands out an unfinished last line.
func (l *Lines) Close() error { return nil }

// Identity names one process for all time.
type Identity struct {
	PID          int
	Start        int64
	BootID       string
	PIDNamespace string
	Host         string
}

// Self is the identity of this process.
func Self() (Identity, error) { return Identity{}, errStub }

// Alive reports whether the process may still be there.
func (id Identity) Alive() bool { return true }
