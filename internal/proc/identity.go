package proc

import (
	"errors"
	"os"
	"syscall"

	"github.com/git-spot/git-spot/internal/proc/shim"
)

// Identity names one process, this side of any reboot, container or reuse of its pid.
type Identity struct {
	PID          int
	Start        int64 // as shim.Stat has it; 0 if unknown
	BootID       string
	PIDNamespace string
	Host         string
}

// Self is the identity of this process. An error says what cannot be found out here; what is not in
// the Identity then can never prove that the process is gone.
func Self() (Identity, error) {
	id := Identity{PID: os.Getpid()}
	var errs [4]error
	id.Host, errs[0] = os.Hostname()
	id.BootID, errs[1] = bootID()
	id.PIDNamespace, errs[2] = pidNamespace()
	var stat shim.Stat
	stat, errs[3] = shim.ReadStat(id.PID)
	id.Start = stat.Start
	return id, errors.Join(errs[:]...)
}

// Alive reports whether the process may still be there. It is false only if id is of this host and
// either of an earlier boot, or of this pid namespace where no process has that pid and start.
// Whatever cannot be told is true, and so is a process that may not be signalled. A process that has
// ended and waits to be reaped is gone.
func (id Identity) Alive() bool {
	self, _ := Self() // What is missing is empty, and empty is not compared.
	if id.Host == "" || id.Host != self.Host {
		return true
	}
	if id.BootID == "" || self.BootID == "" {
		return true
	}
	if id.BootID != self.BootID {
		return false
	}
	if id.PID <= 0 || id.PIDNamespace == "" || id.PIDNamespace != self.PIDNamespace {
		return true
	}
	if err := syscall.Kill(id.PID, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	stat, err := shim.ReadStat(id.PID)
	if err != nil {
		return true
	}
	// The first thread of a process that has ended looks like a zombie while others run.
	dead := stat.State == 'X' || stat.State == 'Z' && stat.Threads <= 1
	return !dead && (id.Start == 0 || stat.Start == id.Start)
}
