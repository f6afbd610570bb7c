package proc

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/git-spot/git-spot/internal/proc/shim"
)

// supervisorAttr: TERM is what the supervisor takes for the end of this process, should the end of its
// control pipe not tell it.
func supervisorAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
}

// adopted tells the children that this process got from dead supervisors from those it started.
// It is the package's only state, because whose children processes are is a property of this process.
var adopted children

// children: what Exec starts is in our session. A supervisor is not, and is listed. Any other child in
// another session came to us as the subreaper, when a supervisor was killed.
type children struct {
	mu          sync.Mutex
	supervisors map[int]bool
}

func (c *children) start(name string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	// Before there is anything to adopt. It is never undone, and of no consequence for children of our own.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := startProcess(name, argv, attr)
	if err == nil {
		if c.supervisors == nil {
			c.supervisors = map[int]bool{}
		}
		c.supervisors[p.Pid] = true
	}
	return p, err
}

func (c *children) wait(p *os.Process) (*os.ProcessState, error) {
	state, err := p.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.supervisors, p.Pid)
	return state, err
}

// strays are the processes that a killed supervisor left and their descendants. The first of them, as
// far as they are zombies, are reaped: nobody else does.
func (c *children) strays() []shim.Stat {
	c.mu.Lock()
	defer c.mu.Unlock()
	self := os.Getpid()
	session, err := unix.Getsid(0)
	if err != nil {
		return nil
	}
	return shim.Below(shim.Processes(), func(p shim.Stat) bool {
		if p.Parent != self || p.Session == session || c.supervisors[p.PID] {
			return false
		}
		if p.State == 'Z' {
			_, _ = syscall.Wait4(p.PID, nil, syscall.WNOHANG|unix.WALL, nil)
		}
		return true
	})
}

// sweep ends what a killed supervisor left behind, and returns what will not end.
func sweep(int) (left []int) {
	const (
		patience = 10 * time.Second
		pause    = 2 * time.Millisecond
	)
	// Twice nothing: a look at /proc can miss a process whose parent ends meanwhile.
	for empty, begin := 0, time.Now(); empty < 2; {
		strays := adopted.strays()
		if len(strays) == 0 {
			empty++
			continue
		}
		empty = 0
		if time.Since(begin) > patience {
			for _, p := range strays {
				left = append(left, p.PID)
			}
			return left
		}
		for _, p := range strays {
			p.Kill()
		}
		time.Sleep(pause)
	}
	return nil
}
