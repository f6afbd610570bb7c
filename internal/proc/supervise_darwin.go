package proc

import (
	"os"
	"syscall"

	"github.com/git-spot/git-spot/internal/proc/shim"
)

func supervisorAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

var adopted children

// children has nothing to tell apart: macOS gives orphans to launchd.
type children struct{}

func (children) start(name string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return startProcess(name, argv, attr)
}

func (children) wait(p *os.Process) (*os.ProcessState, error) { return p.Wait() }

// sweep kills the worker's session, if the supervisor got so far as to say what it is.
func sweep(worker int) (left []int) {
	if worker == 0 {
		return nil
	}
	inSession := func(p shim.Stat) bool { return p.Session == worker }
	for range 3 { // what is forked meanwhile
		for _, p := range shim.Below(shim.Processes(), inSession) {
			p.Kill()
		}
	}
	for _, p := range shim.Below(shim.Processes(), inSession) {
		left = append(left, p.PID)
	}
	return left
}
