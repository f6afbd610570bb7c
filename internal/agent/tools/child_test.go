package tools_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// children are parts of tests that need a process of their own, by the value of the environment variable
// that asks for them.
var children = map[string]func(arg string) error{}

const childKey = "GIT_SPOT_TOOLS_TEST_CHILD"

// childToo reports whether this process was started as a child, and if so does its work.
func childToo() bool {
	run := children[os.Getenv(childKey)]
	if run == nil {
		return false
	}
	if err := run(os.Getenv(childKey + "_ARG")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// child is a command that runs the named child.
func child(t *testing.T, name, arg string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), childKey+"="+name, childKey+"_ARG="+arg)
	return c
}
