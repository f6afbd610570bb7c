package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/git-spot/git-spot/internal/proc/shim"
)

// ContinueSupervisors lets those supervisors go on that hold the lock file path (see WithLock), are
// stopped, and have outlived the git spot that started them: a worker can stop its supervisor and then
// kill git spot. Once it goes on, a supervisor notices, ends all that is left of the worker, and itself.
// It reports whether there was one. A git spot that its user has stopped is left alone.
func ContinueSupervisors(path string) (found bool) {
	want, err := os.Stat(path)
	if err != nil {
		return false
	}
	holders := map[int]bool{}
	all := shim.Processes()
	for _, p := range all {
		holders[p.PID] = holds(p.PID, want)
	}
	for _, p := range all {
		// A supervisor leads a session of its own, and its git spot holds the lock as well.
		if holders[p.PID] && !holders[p.Parent] && p.Session == p.PID && p.State == 'T' {
			_ = syscall.Kill(p.PID, syscall.SIGCONT)
			found = true
		}
	}
	return found
}

// holds reports whether a process has this very file open.
func holds(pid int, file os.FileInfo) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended, or is somebody else's
	}
	for _, fd := range fds {
		if info, err := os.Stat(filepath.Join(dir, fd.Name())); err == nil && os.SameFile(info, file) {
			return true
		}
	}
	return false
}
