package shim

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// adopts is whether every orphan becomes a child of the supervisor: then no child means no descendant.
	adopts = true
	// waitAll: clone can make children that an ordinary wait does not see.
	waitAll = unix.WALL
)

// adoptOrphans makes this process the parent of the orphans among its descendants.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// workerAttr: if the supervisor is killed the worker is; what else was left becomes git spot's to kill.
func workerAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// sealDescriptors keeps all but 0, 1 and 2 from the worker, also those that whoever started git spot
// forgot to close.
func sealDescriptors() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err == nil {
		return nil
	}
	return sealListed("/proc/self/fd") // before Linux 5.11
}

// Survivors are the descendants of this process, zombies excepted.
func Survivors(int) []Stat {
	self := os.Getpid()
	return Below(Processes(), func(p Stat) bool { return p.Parent == self })
}

// Processes are all that can be seen. It is not a snapshot: one that starts meanwhile may be missing.
func Processes() []Stat {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = proc.Close() }()
	names, _ := proc.Readdirnames(-1)
	all := make([]Stat, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if stat, err := ReadStat(pid); err == nil {
				all = append(all, stat)
			}
		}
	}
	return all
}

// ReadStat is about one process; an error may say that there is none.
func ReadStat(pid int) (Stat, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/stat"
	data, err := os.ReadFile(path)
	if err != nil {
		return Stat{}, err
	}
	stat, ok := ParseStat(data)
	if !ok {
		return Stat{}, fmt.Errorf("%s: cannot be understood", path)
	}
	return stat, nil
}

// ParseStat reads the content of /proc/<pid>/stat, see proc(5).
func ParseStat(data []byte) (Stat, bool) {
	// The name of the program may hold spaces and parentheses; no field after it does.
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return Stat{}, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(data[:open])))
	fields := bytes.Fields(data[end+1:]) // from field 3
	if err != nil || len(fields) < 22-2 || len(fields[0]) != 1 {
		return Stat{}, false
	}
	stat := Stat{PID: pid, State: fields[0][0]}
	for number, to := range map[int]*int{4: &stat.Parent, 6: &stat.Session, 20: &stat.Threads} {
		if *to, err = strconv.Atoi(string(fields[number-3])); err != nil {
			return Stat{}, false
		}
	}
	if stat.Start, err = strconv.ParseInt(string(fields[22-3]), 10, 64); err != nil {
		return Stat{}, false
	}
	return stat, true
}
