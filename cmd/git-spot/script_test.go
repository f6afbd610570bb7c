package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/internal/proc"
)

var update = flag.Bool("update", false, "rewrite golden files and generated documents")

// TestMain puts git-spot, git-spot-shim and git-spot-agent on PATH, so that "exec git spot" in a script runs this
// very build through git.
func TestMain(m *testing.M) {
	cli.HelpFlag = nil // as in Main
	testscript.Main(withAgent{m}, map[string]func(){
		"git-spot":       func() { os.Exit(Main()) },
		"git-spot-shim":  func() { endSupervisor(proc.ShimMain(os.Args[1:])) },
		"git-spot-agent": becomeAgent,
		"deliver":        func() { os.Exit(deliver(os.Args[1:])) },
		"measured":       func() { os.Exit(measured(os.Args[1:])) },
		"demo-with":      func() { os.Exit(demoWith(os.Args[1:])) },
	})
}

// scriptCmds are the commands that scripts have beside those of testscript.
var scriptCmds = map[string]func(*testscript.TestScript, bool, []string){
	"status": cmdStatus,
	"json":   cmdJSON,

	"project": cmdProject, // loop_test.go
	"task":    cmdTask,
	"envjson": cmdEnvJSON,
	"refused": cmdRefused,
	"fails":   cmdFails,
	"settled": cmdSettled,
	"model":   cmdModel, // builtin_test.go
}

func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup:               setupScript,
		Cmds:                scriptCmds,
		Condition:           scriptCondition,
	})
}

// setupScript gives a script a home of its own with an identity, and nothing else of this machine but
// PATH.
func setupScript(e *testscript.Env) error {
	home := filepath.Join(e.WorkDir, ".home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	config := "[user]\n\tname = A U Thor\n\temail = author@example.com\n[init]\n\tdefaultBranch = main\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600); err != nil {
		return err
	}
	e.Setenv("HOME", home)
	e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	e.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
	e.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	e.Setenv("TZ", "UTC")
	e.Setenv("GORACE", "atexit_sleep_ms=0") // else every process of a race build ends a second late
	return nil
}

// cmdStatus is "status N program args...": the program must end with exactly this exit status.
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// cmdJSON is "json FILE PATH [VALUE]": FILE (stdout and stderr are the last command's; of stderr its
// last line) is JSON and has VALUE at PATH, as in .findings.0.code; without VALUE it is there and not
// null. A path may end in length, the number of elements.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: json FILE PATH [VALUE]")
	}
	data := ts.ReadFile(args[0])
	if args[0] == "stderr" {
		lines := strings.Split(strings.TrimSpace(data), "\n")
		data = lines[len(lines)-1]
	}
	var value any
	if err := json.Unmarshal([]byte(data), &value); err != nil {
		ts.Fatalf("%s is not JSON: %v", args[0], err)
	}
	got, err := walkJSON(value, args[1])
	if err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	same := got != "null"
	if len(args) == 3 {
		same = got == args[2]
	}
	if same == neg {
		ts.Fatalf("%s at %s is %s", args[0], args[1], got)
	}
}

func walkJSON(value any, path string) (string, error) {
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		switch v := value.(type) {
		case map[string]any:
			next, ok := v[step]
			if !ok {
				return "", fmt.Errorf("%s: no key %q", path, step)
			}
			value = next
		case []any:
			if step == "length" {
				value = float64(len(v))
				continue
			}
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return "", fmt.Errorf("%s: no element %q of %d", path, step, len(v))
			}
			value = v[i]
		case nil:
			return "", fmt.Errorf("%s: null has no %q", path, step)
		default:
			if step != "" {
				return "", fmt.Errorf("%s: %v has no %q", path, v, step)
			}
		}
	}
	if s, ok := value.(string); ok {
		return s, nil
	}
	text, err := json.Marshal(value)
	return string(text), err
}
