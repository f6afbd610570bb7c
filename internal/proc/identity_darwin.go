package proc

import "golang.org/x/sys/unix"

// process is what is compared of a process.
type process struct {
	start int64
	dead  bool
}

func readProcess(pid int) (process, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return process{}, err
	}
	const zombie = 5 // SZOMB of <sys/proc.h>
	t := info.Proc.P_starttime
	return process{start: t.Sec*1e6 + int64(t.Usec), dead: info.Proc.P_stat == zombie}, nil
}

func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// pidNamespace is constant: macOS has one.
func pidNamespace() (string, error) { return "darwin", nil }
