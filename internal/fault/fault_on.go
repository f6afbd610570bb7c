//go:build fault

package fault

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var passed atomic.Int64

// At counts the point and, if GIT_SPOT_FAULT says so, ends the process:
//
//	GIT_SPOT_FAULT=kill@7        SIGKILL at the seventh point that this process passes
//	GIT_SPOT_FAULT_LOG=FILE      append one line a point: number, point, detail
func At(p Point, detail string) error {
	n := passed.Add(1)
	if name := os.Getenv("GIT_SPOT_FAULT_LOG"); name != "" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		fmt.Fprintf(f, "%d %s %s\n", n, p, detail)
		if err := f.Close(); err != nil {
			return err
		}
	}
	if at, ok := strings.CutPrefix(os.Getenv("GIT_SPOT_FAULT"), "kill@"); ok {
		if k, err := strconv.ParseInt(at, 10, 64); err == nil && k == n {
			// Not os.Exit: nothing deferred may run, as in a real kill.
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	return nil
}
