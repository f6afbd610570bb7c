// Package proc starts, watches and ends every child process of git spot. Exec is for trusted, short
// children (git, probes), Supervise for everything a worker may have touched: it returns only when no
// descendant is left.
package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/git-spot/git-spot/schemas"
)

// Command says what to start and within which limits.
type Command struct {
	// Argv is the program, an absolute path, and its arguments. It is never given to a shell.
	Argv []string
	// Dir is the working directory; empty is that of this process.
	Dir string
	// Env is the whole environment as "NAME=value": nothing is inherited and nil is empty. Of two
	// values for one name the last counts.
	Env []string

	// Stdin is copied to the child's standard input, which then ends. Nil is /dev/null. A Read that is
	// still blocked when the child has ended is not waited for. A Read that fails is an error of Exec
	// and Supervise: the child saw only part of its input.
	Stdin io.Reader
	// Stdout and Stderr get what the child prints, each from one goroutine. Nil discards. If both are
	// the same (comparable) writer the child has one pipe for both, so their order is kept. A Write
	// that fails is an error of Exec and Supervise; the child does not notice it.
	Stdout, Stderr io.Writer

	Wall  time.Duration // from start to end; 0 is no limit
	Idle  time.Duration // without a byte on Stdout or Stderr; 0 is no limit
	Grace time.Duration // from TERM to KILL; 0 is 5 s
	// Drain is how long descendants may outlive the child, and how long a pipe that somebody keeps
	// open is read after it; 0 is 2 s.
	Drain time.Duration

	// Settled is closed when the child has said its last word: it then has Drain to end by itself
	// before it is stopped. Nil never is.
	Settled <-chan struct{}
}

// End says how a child came to its end.
type End string

// The ends. In the last four the child was stopped, whatever exit status it then chose.
const (
	EndExited      End = "exited"
	EndSignaled    End = "signaled"
	EndTimedOut    End = "timed_out"   // Wall
	EndIdle        End = "idle"        // Idle
	EndInterrupted End = "interrupted" // the context ended, or was so already: then nothing was started
	EndSettled     End = "settled"     // it did not end by itself after Settled
)

// Result is what became of a child. If it is not known, because the child never started or its
// supervisor was killed, Exit is -1 and Signal empty.
type Result struct {
	Exit     int    // exit status; -1 if a signal ended it
	Signal   string // "SIGKILL" and so on; empty if it exited
	End      End
	Duration time.Duration // from start until all was over
	MaxRSS   int64         // peak resident memory, in bytes, of the child or of a descendant it waited for
	PID      int           // 0 if it never started
}

// StartError says that a program could not be started: missing, not executable, not an absolute path,
// arguments too long, working directory missing. Nothing has run.
type StartError struct {
	Program string
	Err     error
}

func (e *StartError) Error() string {
	err := e.Err
	if path, ok := errors.AsType[*os.PathError](err); ok && path.Path == e.Program {
		err = path.Err
	}
	return fmt.Sprintf("start %q: %v", e.Program, err)
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Code returns WORKER_SETUP.
func (e *StartError) Code() schemas.Code { return schemas.CodeWorkerSetup }

const (
	defaultGrace = 5 * time.Second
	defaultDrain = 2 * time.Second
)

// prepared checks c and returns it with its defaults.
func (c Command) prepared() (Command, error) {
	if len(c.Argv) == 0 {
		return c, &StartError{Err: errors.New("no program")}
	}
	if !filepath.IsAbs(c.Argv[0]) {
		return c, &StartError{Program: c.Argv[0], Err: errors.New("not an absolute path")}
	}
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
			if err == nil {
				err = &os.PathError{Op: "chdir", Path: c.Dir, Err: syscall.ENOTDIR}
			}
			return c, &StartError{Program: c.Argv[0], Err: fmt.Errorf("working directory: %w", err)}
		}
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.Drain == 0 {
		c.Drain = defaultDrain
	}
	c.Env = lastValues(c.Env)
	return c, nil
}

// lastValues drops all but the last value of each name. It never returns nil, which to os.StartProcess
// means the environment of this process.
func lastValues(env []string) []string {
	last := make(map[string]int, len(env))
	for i, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		last[name] = i
	}
	kept := make([]string, 0, len(env))
	for i, entry := range env {
		if name, _, _ := strings.Cut(entry, "="); last[name] == i {
			kept = append(kept, entry)
		}
	}
	return kept
}

// LookPath finds the program file in path, a list as in the variable PATH, skipping its empty and
// relative entries: they name whatever the working directory holds. A file with a slash is not
// searched for and must be absolute. It returns an absolute path to an executable regular file or a
// *StartError, which is fs.ErrPermission if something was found that is not executable, else
// fs.ErrNotExist.
func LookPath(file, path string) (string, error) {
	if strings.Contains(file, "/") {
		if !filepath.IsAbs(file) {
			return "", &StartError{Program: file, Err: errors.New("not an absolute path")}
		}
		if err := executable(file); err != nil {
			return "", &StartError{Program: file, Err: err}
		}
		return file, nil
	}
	failure := os.ErrNotExist
	for _, dir := range filepath.SplitList(path) {
		if file == "" || !filepath.IsAbs(dir) {
			continue
		}
		found := filepath.Join(dir, file)
		err := executable(found)
		if err == nil {
			return found, nil
		}
		if errors.Is(err, os.ErrPermission) {
			failure = err
		}
	}
	return "", &StartError{Program: file, Err: failure}
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return &os.PathError{Op: "exec", Path: path, Err: syscall.EACCES}
	}
	return nil
}

// Exec runs a trusted, short child in a process group of its own and waits for it. If ctx ends or a
// limit is reached the group gets TERM and, Grace later, KILL. Descendants that left the group are not looked
// for; one that keeps a pipe open costs Drain, then its group is killed. Limits, output and the meaning
// of errors are those of Supervise.
func Exec(ctx context.Context, c Command) (Result, error) {
	c, err := c.prepared()
	if err != nil {
		return Result{Exit: -1}, err
	}
	if ctx.Err() != nil {
		return Result{Exit: -1, End: EndInterrupted}, nil
	}
	streams, err := openStreams(c)
	if err != nil {
		return Result{Exit: -1}, err
	}
	start := time.Now()
	p, err := startProcess(c.Argv[0], c.Argv, &os.ProcAttr{
		Dir:   c.Dir,
		Env:   c.Env,
		Files: append(streams.child(), locks(ctx)...),
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		streams.abandon()
		return Result{Exit: -1}, &StartError{Program: c.Argv[0], Err: err}
	}
	streams.begin()

	var state *os.ProcessState
	var waitErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		state, waitErr = p.Wait()
	}()
	// An error means that the group is gone, which is what is wanted.
	signal := func(sig syscall.Signal) { _ = syscall.Kill(-p.Pid, sig) }
	kill := func() { signal(syscall.SIGKILL) }
	reason := watch(ctx, c, streams, done, stopper{
		term: func() {
			signal(syscall.SIGTERM)
			signal(syscall.SIGCONT) // a stopped process does not notice TERM
		},
		force: kill, patience: c.Grace,
	})
	held, err := streams.end(c.Drain)
	if held {
		kill()
	}
	err = errors.Join(waitErr, err)
	r := Result{Exit: -1, End: reason, Duration: time.Since(start), PID: p.Pid}
	if waitErr == nil {
		status := state.Sys().(syscall.WaitStatus)
		r.Exit, r.Signal = exitOf(status)
		r.MaxRSS = maxRSS(int64(state.SysUsage().(*syscall.Rusage).Maxrss)) //nolint:unconvert // int32 on some platforms
		if r.End == "" {
			r.End = endOf(r.Signal)
		}
	}
	trace(ctx, start, c.Argv, r)
	return r, err
}

// startProcess is os.StartProcess, except that it waits a moment for a program that somebody still
// holds open for writing: in a process with threads that may be the copy of the descriptor in another
// child between its fork and its exec (https://go.dev/issue/22315).
func startProcess(name string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	for wait := 5 * time.Millisecond; ; wait *= 2 {
		p, err := os.StartProcess(name, argv, attr)
		if !errors.Is(err, syscall.ETXTBSY) || wait > 200*time.Millisecond {
			return p, err
		}
		time.Sleep(wait)
	}
}
