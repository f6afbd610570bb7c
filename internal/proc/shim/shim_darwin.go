package shim

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	adopts  = false
	waitAll = 0
)

func adoptOrphans() error { return nil }

func workerAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func sealDescriptors() error { return sealListed("/dev/fd") }

// Survivors are the processes in the worker's session and the descendants of this process whose line
// of parents is unbroken, zombies excepted.
func Survivors(worker int) []Stat {
	self := os.Getpid()
	return Below(Processes(), func(p Stat) bool { return p.Parent == self || p.Session == worker })
}

// Processes are all that can be seen.
func Processes() []Stat {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	all := make([]Stat, 0, len(list))
	for i := range list {
		all = append(all, statOf(&list[i]))
	}
	return all
}

// ReadStat is about one process; an error may say that there is none.
func ReadStat(pid int) (Stat, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return Stat{}, err
	}
	return statOf(info), nil
}

func statOf(info *unix.KinfoProc) Stat {
	const szomb = 5 // <sys/proc.h>
	t := info.Proc.P_starttime
	stat := Stat{
		PID: int(info.Proc.P_pid), Parent: int(info.Eproc.Ppid), Threads: 1, State: 'R',
		Start: t.Sec*1e6 + int64(t.Usec),
	}
	if info.Proc.P_stat == szomb {
		stat.State = 'Z'
	}
	if sid, err := unix.Getsid(stat.PID); err == nil {
		stat.Session = sid
	}
	return stat
}
