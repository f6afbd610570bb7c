// Package shim is the supervisor: the small process between git spot and everything untrusted, which
// starts it, adopts and reaps what it leaves behind, and ends it all. It imports nothing of ours,
// because it must start in a few milliseconds; package proc is its other end.
//
// git spot starts it in a session of its own with these descriptors:
//
//	0 1 2  the worker's, passed through
//	3      control: Messages as JSON; at its end, which comes with that of git spot, all is killed
//	4      report: Reports as JSON, one a line; the first when the worker has started, the last when nothing is left
//	5...   locks, held until the supervisor ends
//
// and it starts the worker in another session, with 0, 1 and 2 only. On Linux it is the subreaper of the worker's
// descendants, so none can leave: setsid, a double fork and a dead parent change nothing. On macOS it
// finds those that are in the worker's session or have an unbroken line of parents; what has left the
// session and lost its parent escapes.
package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Version is the supervisor's only argument. A supervisor of another version refuses to start.
const Version = "1"

// Message is what git spot sends: an Order first, then any number of Stops.
type Message struct {
	Order *Order `json:"order,omitempty"`
	Stop  Stop   `json:"stop,omitempty"`
}

// Order says what to start. Strings are bytes: names of files need not be UTF-8.
type Order struct {
	Argv  [][]byte      `json:"argv"`
	Env   [][]byte      `json:"env"`
	Dir   []byte        `json:"dir"`
	Grace time.Duration `json:"grace"`
	Drain time.Duration `json:"drain"`
}

// Stop ends the worker before its time.
type Stop string

// The stops: TERM to the worker's process group and KILL to all after the grace, or KILL to all.
const (
	StopTerm Stop = "term"
	StopKill Stop = "kill"
)

// Report is what became of the worker.
type Report struct {
	PID     int           `json:"pid"`
	Errno   syscall.Errno `json:"errno,omitempty"`  // why it could not be started; the other fields are zero
	Ended   bool          `json:"ended"`            // false in the first report
	Stopped bool          `json:"stopped"`          // it had not ended when the first Stop came
	Exit    int           `json:"exit"`             // -1 if a signal ended it
	Signal  int           `json:"signal,omitempty"` // the number
	MaxRSS  int64         `json:"maxRSS,omitempty"` // as in rusage: kilobytes on Linux, bytes on macOS
	Left    []int         `json:"left,omitempty"`   // what could not be killed
}

const (
	controlFD = 3
	reportFD  = 4

	// patience is how long what has been killed may take to be gone: a process in an
	// uninterruptible system call, or one that changed its user, may never be.
	patience = 10 * time.Second
	// killPause is between the first two rounds of killing; it doubles up to maxKillPause.
	killPause    = 5 * time.Millisecond
	maxKillPause = 100 * time.Millisecond
)

// Main is the supervisor's whole life. It returns the exit status of its process: 0, or 70 if it was
// not started by git spot.
func Main(args []string) int {
	// The worker's death signal fires at the end of the thread that started it, not of the process.
	runtime.LockOSThread()
	if len(args) != 1 || args[0] != Version {
		fmt.Fprintf(os.Stderr, "git-spot-shim: version %s, wanted %q; it is started by git spot only\n", Version, args)
		return 70
	}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	report := json.NewEncoder(os.NewFile(reportFD, "report"))
	control := json.NewDecoder(os.NewFile(controlFD, "control"))
	var first Message
	err := errors.Join(sealDescriptors(), adoptOrphans(), control.Decode(&first))
	if err != nil || first.Order == nil {
		fmt.Fprintln(os.Stderr, "git-spot-shim: start:", err)
		return 70
	}

	worker, err := start(first.Order)
	if err != nil {
		errno, ok := errors.AsType[syscall.Errno](err)
		if !ok {
			errno = syscall.EINVAL
		}
		_ = report.Encode(Report{Errno: errno, Ended: true}) // nobody is left to tell
		return 0
	}
	_ = report.Encode(Report{PID: worker})

	stops := make(chan Stop)
	go func() {
		for {
			var m Message
			if err := control.Decode(&m); err != nil {
				stops <- StopKill
				return
			}
			stops <- m.Stop
		}
	}()
	go func() {
		<-ends
		stops <- StopKill
	}()
	_ = report.Encode(supervise(worker, first.Order, stops, reap()))
	return 0
}

func start(o *Order) (int, error) {
	argv, env := texts(o.Argv), texts(o.Env)
	attr := &syscall.ProcAttr{Dir: string(o.Dir), Env: env, Files: []uintptr{0, 1, 2}, Sys: workerAttr()}
	for wait := 5 * time.Millisecond; ; wait *= 2 {
		pid, err := syscall.ForkExec(argv[0], argv, attr)
		// A program that was just written may still be open in a child that git spot is starting.
		if err != syscall.ETXTBSY || wait > 200*time.Millisecond {
			return pid, err
		}
		time.Sleep(wait)
	}
}

func texts(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

type death struct {
	pid    int
	status syscall.WaitStatus
	usage  syscall.Rusage
}

// reap waits for every child there is and will be adopted. The channel is closed when there is none.
func reap() <-chan death {
	deaths := make(chan death)
	go func() {
		defer close(deaths)
		for {
			var d death
			var err error
			d.pid, err = syscall.Wait4(-1, &d.status, waitAll, &d.usage)
			switch err {
			case nil:
				deaths <- d
			case syscall.EINTR:
			default:
				return
			}
		}
	}()
	return deaths
}

// supervise returns when no descendant is left, or some cannot be killed.
func supervise(worker int, o *Order, stops <-chan Stop, deaths <-chan death) Report {
	r := Report{PID: worker, Ended: true}
	var (
		ended   bool
		killing bool
		graceBy time.Time        // zero before TERM
		due     <-chan time.Time // when killing begins
		again   <-chan time.Time // the next round of killing
		giveUp  <-chan time.Time
	)
	pause := killPause
	round := func() {
		killAll(worker)
		again = time.After(pause)
		pause = min(2*pause, maxKillPause)
	}
	kill := func() {
		if !killing {
			killing = true
			giveUp = time.After(patience)
			round()
		}
	}
	for {
		select {
		case d, more := <-deaths:
			if !more {
				if adopts || len(Survivors(worker)) == 0 {
					return r
				}
				deaths = nil
				again = time.After(killPause)
				continue
			}
			if d.pid != worker {
				continue
			}
			ended = true
			r.Exit, r.MaxRSS = d.status.ExitStatus(), int64(d.usage.Maxrss) //nolint:unconvert // int32 on some platforms
			if d.status.Signaled() {
				r.Signal = int(d.status.Signal())
			}
			rest := o.Drain
			if !graceBy.IsZero() {
				rest = min(rest, time.Until(graceBy))
			}
			due = time.After(rest)
		case stop := <-stops:
			if !ended {
				r.Stopped = true
			}
			switch {
			case stop != StopTerm:
				kill()
			case !ended && graceBy.IsZero():
				graceBy = time.Now().Add(o.Grace)
				due = time.After(o.Grace)
				_ = syscall.Kill(-worker, syscall.SIGTERM)
				_ = syscall.Kill(-worker, syscall.SIGCONT) // a stopped process does not notice TERM
			}
		case <-due:
			kill()
		case <-again:
			switch {
			case deaths == nil && len(Survivors(worker)) == 0:
				return r
			case killing:
				round()
			default:
				again = time.After(killPause)
			}
		case <-giveUp:
			for _, p := range Survivors(worker) {
				r.Left = append(r.Left, p.PID)
			}
			return r
		}
	}
}

// killAll kills every descendant that it sees, until a look finds none that it has not killed.
func killAll(worker int) {
	killed := map[Stat]bool{}
	for fresh := true; fresh; {
		fresh = false
		for _, p := range Survivors(worker) {
			if key := (Stat{PID: p.PID, Start: p.Start}); !killed[key] {
				killed[key] = true
				fresh = true
				p.Kill()
			}
		}
	}
}

// Stat is what is known of a process. PID and Start together name it; Start's unit is the system's.
type Stat struct {
	PID     int
	Parent  int
	Session int
	Threads int
	State   byte  // as in ps: Z is a zombie
	Start   int64 // clock ticks after boot on Linux, microseconds after 1970 on macOS
}

// Kill sends KILL to the process, and to no other that has got its pid since (before Linux 5.3 and on
// macOS: hardly to another).
func (p Stat) Kill() {
	process, err := os.FindProcess(p.PID) // holds the process, not the number
	if err != nil {
		return
	}
	if now, err := ReadStat(p.PID); err == nil && now.Start == p.Start {
		_ = process.Signal(syscall.SIGKILL)
	}
	_ = process.Release()
}

// Below returns those of all that are roots, and their descendants, without zombies.
func Below(all []Stat, root func(Stat) bool) []Stat {
	children := make(map[int][]Stat, len(all))
	var queue, found []Stat
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
		if root(p) {
			queue = append(queue, p)
		}
	}
	seen := make(map[int]bool, len(queue))
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if seen[p.PID] {
			continue
		}
		seen[p.PID] = true
		if p.State != 'Z' {
			found = append(found, p)
		}
		queue = append(queue, children[p.PID]...)
	}
	return found
}
