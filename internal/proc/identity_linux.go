package proc

import (
	"os"
	"strings"

	"github.com/git-spot/git-spot/internal/proc/shim"
)

// process is what is compared of a process.
type process struct {
	start int64
	dead  bool
}

func readProcess(pid int) (process, error) {
	stat, err := shim.ReadStat(pid)
	// A leader that has ended is a zombie as well while other threads of its process run.
	return process{start: stat.Start, dead: stat.State == 'Z' && stat.Threads <= 1 || stat.State == 'X'}, err
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

func pidNamespace() (string, error) { return os.Readlink("/proc/self/ns/pid") }
