package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// withAgent builds git-spot-agent before the tests run. It stays a program of its own in them too: the
// libraries of the model providers would slow down each of the thousands of starts of git-spot.
type withAgent struct{ *testing.M }

// Run is that of testing.M.
func (m withAgent) Run() int {
	build := exec.Command("go", "build", "-buildvcs=false", "-o", builtAgent(), "../git-spot-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build git-spot-agent: %v\n%s", err, out)
		return 1
	}
	return m.M.Run()
}

// builtAgent is where withAgent puts the program. It is the same for every process of the tests, which
// have nothing of each other's environment.
func builtAgent() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..", ".cache", "bin", "git-spot-agent-under-test")
}

// becomeAgent is the program git-spot-agent beside the test's git-spot.
func becomeAgent() {
	err := syscall.Exec(builtAgent(), os.Args, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
