package proc

import (
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func exitOf(status syscall.WaitStatus) (exit int, signal string) {
	if status.Signaled() {
		return -1, signalName(status.Signal())
	}
	return status.ExitStatus(), ""
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(sig))
}

func endOf(signal string) End {
	if signal != "" {
		return EndSignaled
	}
	return EndExited
}

// maxRSS is the field of rusage in bytes.
func maxRSS(value int64) int64 {
	if runtime.GOOS == "darwin" {
		return value
	}
	return value * 1024
}
