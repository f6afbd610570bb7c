package shim

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Stat is a part of /proc/<pid>/stat.
type Stat struct {
	PID     int
	State   byte // R S D T Z X ...
	Parent  int
	Session int
	Threads int
	Start   int64 // clock ticks after boot
}

// ReadStat reads the Stat of one process; fs.ErrNotExist or ESRCH if there is none.
func ReadStat(pid int) (Stat, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/stat"
	data, err := os.ReadFile(path)
	if err != nil {
		return Stat{}, err
	}
	stat, ok := parseStat(data)
	if !ok {
		return Stat{}, fmt.Errorf("%s: cannot be understood", path)
	}
	return stat, nil
}

func parseStat(data []byte) (Stat, bool) {
	// The name may hold spaces and parentheses; no field after it does.
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return Stat{}, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(data[:open])))
	fields := bytes.Fields(data[end+1:]) // the first is field 3 of proc(5)
	if err != nil || len(fields) < 20 || len(fields[0]) != 1 {
		return Stat{}, false
	}
	stat := Stat{PID: pid, State: fields[0][0]}
	for _, f := range []struct {
		number int
		to     *int
	}{{4, &stat.Parent}, {6, &stat.Session}, {20, &stat.Threads}} {
		if *f.to, err = strconv.Atoi(string(fields[f.number-3])); err != nil {
			return Stat{}, false
		}
	}
	stat.Start, err = strconv.ParseInt(string(fields[22-3]), 10, 64)
	return stat, err == nil
}
