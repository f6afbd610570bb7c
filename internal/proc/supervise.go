package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/git-spot/git-spot/internal/fault"
	"github.com/git-spot/git-spot/internal/proc/shim"
)

// SuperviseArg is the first argument with which git-spot runs itself as the supervisor: its main then
// returns ShimMain of the arguments after it, before it does anything else. A test binary that calls
// Supervise needs the same in its TestMain.
const SuperviseArg = "__supervise"

// ShimMain is the supervisor. It returns the exit status of its process.
func ShimMain(args []string) int { return shim.Main(args) }

// Shim says which supervisor Supervise uses: git-spot-shim where Companion finds it, else this program
// itself (builtin), which starts slower.
func Shim() (path string, builtin bool) {
	if path, err := Companion("git-spot-shim"); err == nil {
		return path, false
	}
	self, err := os.Executable()
	if err != nil {
		return os.Args[0], true
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return self, true
}

// Companion finds another program of git spot: beside this one or in ../libexec/git-spot/, never on PATH.
// The error is a *StartError that is fs.ErrNotExist.
func Companion(name string) (path string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", &StartError{Program: name, Err: err}
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	dir := filepath.Dir(self)
	for _, path := range []string{filepath.Join(dir, name), filepath.Join(dir, "..", "libexec", "git-spot", name)} {
		if executable(path) == nil {
			return path, nil
		}
	}
	return "", &StartError{Program: name, Err: os.ErrNotExist}
}

// SupervisorError says that the supervisor did not do its work to the end: somebody killed it, it
// hung and was killed, it could not start, or processes were left that cannot be killed. If Left is
// empty nothing of the child is left (on macOS: nothing that could be found). What the child printed
// before is complete; its exit status is unknown unless only Left is set.
type SupervisorError struct {
	Status string // how the supervisor itself ended; empty if it did its work
	Left   []int  // pids that could not be killed
}

func (e *SupervisorError) Error() string {
	var parts []string
	if e.Status != "" {
		parts = append(parts, "supervisor ended early: "+e.Status)
	}
	if len(e.Left) > 0 {
		parts = append(parts, fmt.Sprintf("processes cannot be killed: %v", e.Left))
	}
	return strings.Join(parts, "; ")
}

// lastResort is how much longer than Grace and Drain the supervisor may take to end what it was told
// to stop, before it is killed itself. It gives up by itself after less.
const lastResort = 15 * time.Second

// Supervise runs an untrusted child in a session of its own, under a supervisor process that is the
// only one to reap what the child leaves behind. It returns when the child and all of its descendants are gone,
// and the supervisor too:
//
//   - after the child has ended by itself, its descendants have Drain to end, then they are killed;
//   - when ctx ends or a limit is reached, the child's process group gets TERM and, Grace later, every
//     descendant KILL, also those that left the group, the session or their parent;
//   - when this process dies, however it dies, the supervisor kills everything at once. Until that is
//     done it holds the descriptors of WithLock, which the child never has;
//   - when somebody kills the supervisor, the child dies with it and Supervise kills the rest and returns a
//     *SupervisorError.
//
// See package shim for what macOS cannot do. A *StartError says that nothing was started. A non-zero exit
// status, a signal or a limit is not an error. The Result is valid with every error. Memory is bounded whatever is
// printed. Supervise makes this process a subreaper (Linux).
func Supervise(ctx context.Context, c Command) (Result, error) {
	c, err := c.prepared()
	if err != nil {
		return Result{Exit: -1}, err
	}
	if ctx.Err() != nil {
		return Result{Exit: -1, End: EndInterrupted}, nil
	}
	if err := fault.At(fault.ChildStart, c.Argv[0]); err != nil {
		return Result{Exit: -1}, err
	}
	r, err := supervise(ctx, c)
	return r, errors.Join(err, fault.At(fault.ChildEnd, c.Argv[0]))
}

func supervise(ctx context.Context, c Command) (Result, error) {
	start := time.Now()
	streams, err := openStreams(c)
	if err != nil {
		return Result{Exit: -1}, err
	}
	s, err := startSupervisor(ctx, streams.child())
	if err != nil {
		streams.abandon()
		return Result{Exit: -1}, err
	}
	streams.begin()
	s.orders <- shim.Message{Order: &shim.Order{
		Argv: byteStrings(c.Argv), Env: byteStrings(c.Env), Dir: []byte(c.Dir), Grace: c.Grace, Drain: c.Drain,
	}}
	// Two messages are sent at most, which is what orders holds.
	reason := watch(ctx, c, streams, s.done, stopper{
		term:     func() { s.orders <- shim.Message{Stop: shim.StopTerm} },
		force:    func() { _ = s.process.Kill() },
		patience: c.Grace + c.Drain + lastResort,
	})
	close(s.orders)
	report := <-s.reports
	left := report.Left
	if !report.Ended {
		left = sweep(report.PID)
	}
	_, err = streams.end(c.Drain)

	r := Result{Exit: -1, PID: report.PID, Duration: time.Since(start)}
	switch {
	case report.Errno != 0:
		return r, errors.Join(&StartError{Program: c.Argv[0], Err: report.Errno}, err)
	case !report.Ended:
		r.End = EndSignaled
		err = errors.Join(&SupervisorError{Status: s.status(), Left: left}, err)
	case len(left) > 0:
		err = errors.Join(&SupervisorError{Left: left}, err)
	}
	if report.Ended {
		if r.Exit = report.Exit; report.Signal != 0 {
			r.Signal = signalName(syscall.Signal(report.Signal))
		}
		r.End = endOf(r.Signal)
		r.MaxRSS = maxRSS(report.MaxRSS)
	}
	if reason != "" && (report.Stopped || !report.Ended) {
		r.End = reason
	}
	trace(ctx, start, c.Argv, r)
	return r, err
}

// supervisor is one running supervisor process.
type supervisor struct {
	process *os.Process
	orders  chan shim.Message
	reports chan shim.Report // one: the last it made, zero if none
	done    chan struct{}    // closed when it has been waited for
	state   *os.ProcessState
	err     error // of starting or waiting for it
}

func startSupervisor(ctx context.Context, streams []*os.File) (_ *supervisor, err error) {
	path, builtin := Shim()
	argv := []string{path, shim.Version}
	if builtin {
		// The name it was called by: test scripts tell by it which program this is.
		argv = []string{os.Args[0], SuperviseArg, shim.Version}
		if len(os.Args) > 1 && os.Args[1] == SuperviseArg {
			return nil, errors.New("supervisor runs as an ordinary program: its main must call proc.ShimMain")
		}
	}
	controlRead, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	report, reportWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, controlRead.Close(), control.Close())
	}
	s := &supervisor{
		orders:  make(chan shim.Message, 2),
		reports: make(chan shim.Report, 1),
		done:    make(chan struct{}),
	}
	started := make(chan struct{})
	go func() {
		// The death signal fires at the end of the thread that started the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(s.done)
		s.process, s.err = adopted.start(path, argv, &os.ProcAttr{
			Env:   []string{},
			Files: append(append(streams, controlRead, reportWrite), locks(ctx)...),
			Sys:   supervisorAttr(),
		})
		close(started)
		if s.err == nil {
			s.state, s.err = adopted.wait(s.process)
		}
	}()
	<-started
	_, _ = controlRead.Close(), reportWrite.Close()
	if s.process == nil {
		<-s.done
		return nil, errors.Join(fmt.Errorf("start the supervisor: %w", s.err), control.Close(), report.Close())
	}
	go s.send(control)
	go s.receive(report)
	return s, nil
}

func (s *supervisor) send(control io.WriteCloser) {
	encoder := json.NewEncoder(control)
	for m := range s.orders {
		_ = encoder.Encode(m) // It has ended, then: done says so.
	}
	_ = control.Close()
}

func (s *supervisor) receive(report io.ReadCloser) {
	const longest = 1 << 20
	var last shim.Report
	for decoder := json.NewDecoder(io.LimitReader(report, longest)); ; {
		var r shim.Report
		if decoder.Decode(&r) != nil {
			break
		}
		last = r
	}
	s.reports <- last
	_ = report.Close()
}

// status says how the supervisor ended, once it is done.
func (s *supervisor) status() string {
	if s.err != nil {
		return s.err.Error()
	}
	return s.state.String()
}

func byteStrings(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, text := range list {
		out[i] = []byte(text)
	}
	return out
}
