package proc

import (
	"os"
	"strings"
)

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

func pidNamespace() (string, error) { return os.Readlink("/proc/self/ns/pid") }
