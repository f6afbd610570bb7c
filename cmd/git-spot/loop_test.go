package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/git-spot/git-spot/schemas"
)

// The commands in this file are for the scripts that drive the whole loop.

// scriptCondition knows [root]: the script is run by root.
func scriptCondition(name string) (bool, error) {
	if name != "root" {
		return false, fmt.Errorf("no condition %q", name)
	}
	return os.Geteuid() == 0, nil
}

// projectTask is the contract that the project's worker can meet.
const projectTask = `{
  "schemaVersion": 1,
  "title": "Say goodbye",
  "objective": "Make src/greet.sh say goodbye.",
  "domain": "tooling",
  "risk": "low",
  "allowedPaths": ["src/**"],
  "lockedPaths": ["tests/**"],
  "acceptance": [{"id": "A1", "text": "It says goodbye."}],
  "verification": [{"id": "check", "argv": ["sh", "tests/check.sh"]}]
}
`

// projectWorker does the task, or for a run with a script of its own what that says.
const projectWorker = `own=${0%/*}/workers/$GIT_SPOT_RUN_ID.sh
if test -f "$own"; then
	. "$own"
else
	cat >/dev/null
	echo 'echo goodbye' >src/greet.sh
	echo done
fi
`

// awaitScript waits at most 30 s for a file, with a word in it if one is given.
const awaitScript = `n=0
until test -e "$1" && { test $# = 1 || grep -q "$2" "$1"; }; do
	n=$((n + 1)) && test $n -lt 600 || exit 1
	sleep 0.05
done
`

// cmdProject is "project DIR [argument of git init...]": a repository with one commit, src/greet.sh and
// tests/check.sh in it, whose default profile runs worker.sh of the script's folder. That file, await.sh
// and task.json are written where the script does not have them.
func cmdProject(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: project DIR [argument of git init...]")
	}
	work, dir := ts.Getenv("WORK"), ts.MkAbs(args[0])
	config := fmt.Sprintf(`[spot]
	defaultProfile = worker
[spot "profile.worker"]
	adapter = command
	argv = sh
	argv = %s
`, filepath.Join(work, "worker.sh"))
	ts.Check(ts.Exec("git", slices.Concat([]string{"init", "-q"}, args[1:], []string{dir})...))
	for path, content := range map[string]string{
		filepath.Join(dir, "src/greet.sh"):   "echo hello\n",
		filepath.Join(dir, "tests/check.sh"): "grep -q goodbye src/greet.sh\n",
		filepath.Join(work, "task.json"):     projectTask,
		filepath.Join(work, "worker.sh"):     projectWorker,
		filepath.Join(work, "await.sh"):      awaitScript,
	} {
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
		ts.Check(os.WriteFile(path, []byte(content), 0o644))
	}
	f, err := os.OpenFile(filepath.Join(dir, ".git/config"), os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.WriteString(config)
	ts.Check(err)
	ts.Check(f.Close())
	ts.Check(ts.Exec("git", "-C", dir, "add", "."))
	ts.Check(ts.Exec("git", "-C", dir, "commit", "-q", "-m", "base"))
}

// cmdTask is "task FILE [KEY=JSON...]": the project's contract with other values. An empty one removes
// the key.
func cmdTask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: task FILE [KEY=JSON...]")
	}
	task := map[string]json.RawMessage{}
	ts.Check(json.Unmarshal([]byte(projectTask), &task))
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		if task[key] = json.RawMessage(value); value == "" {
			delete(task, key)
		}
	}
	data, err := json.Marshal(task)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o644))
}

// cmdEnvJSON is "envjson NAME FILE PATH": the variable gets what the command json finds there.
func cmdEnvJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: envjson NAME FILE PATH")
	}
	var value any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &value))
	got, err := walkJSON(value, args[2])
	ts.Check(err)
	ts.Setenv(args[0], got)
}

// cmdRefused is "refused CODE program args...": git spot ends with the code, its exit status and a hint,
// prints nothing on standard output, and nothing below the script's folder is created or changed.
func cmdRefused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: refused CODE program [args...]")
	}
	before := inventory(ts)
	cmdFails(ts, false, args)
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("it printed %q", out)
	}
	if changed := differences(before, inventory(ts)); len(changed) > 0 {
		ts.Fatalf("it changed %q", changed)
	}
}

// cmdFails is "fails CODE program args...": git spot ends with the code, its exit status and a hint.
func cmdFails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fails CODE program [args...]")
	}
	code := schemas.Code(args[0])
	if !slices.ContainsFunc(schemas.Codes, func(i schemas.CodeInfo) bool { return i.Code == code }) {
		ts.Fatalf("no code %s", code)
	}
	cmdStatus(ts, false, append([]string{fmt.Sprint(code.Info().Exit)}, args[1:]...))
	cmdJSON(ts, false, []string{"stderr", ".error.code", string(code)})
	cmdJSON(ts, false, []string{"stderr", ".error.retryable", fmt.Sprint(code.Info().Retryable)})
	cmdJSON(ts, true, []string{"stderr", ".error.message", ""})
	cmdJSON(ts, true, []string{"stderr", ".error.hint", ""})
}

// inventory is what lies below the script's folder, by path.
func inventory(ts *testscript.TestScript) map[string]string {
	found := map[string]string{}
	root := ts.Getenv("WORK")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		is := info.Mode().String()
		switch {
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			is += " " + target
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			is += fmt.Sprintf(" %x", sha256.Sum256(data))
		}
		found[strings.TrimPrefix(path, root+"/")] = is
		return nil
	})
	ts.Check(err)
	return found
}

func differences(a, b map[string]string) []string {
	var names []string
	for name := range a {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// deliver is the program "deliver SIGNAL FILE program args...": it runs the program, sends it the signal
// as soon as the file is there, and ends as the program does, with 128 and the number of the signal if that
// killed it. A shell cannot be asked: its background jobs ignore SIGINT.
func deliver(args []string) int {
	signals := map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL,
	}
	cmd := exec.Command(args[2], args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		for range 600 {
			if _, err := os.Stat(args[1]); err == nil {
				_ = cmd.Process.Signal(signals[args[0]])
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		_ = cmd.Process.Kill()
	}()
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// cmdSettled is "settled [DIR]": of the runs of the repository DIR, or of none, nothing is left that
// should not be. No process of this script is alive, no temporary file is there; the ledger and the
// repository are sound; there are worktrees for the runs that have one, no clean rooms, no locks of
// git's, and as many slots as there are runs that hold one.
func cmdSettled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: settled [DIR]")
	}
	if left := processes(ts); len(left) > 0 {
		ts.Fatalf("still there: %q", left)
	}
	if tmp, err := os.ReadDir(ts.Getenv("TMPDIR")); err == nil && len(tmp) > 0 {
		ts.Fatalf("left in the temporary folder: %v", tmp)
	}
	if len(args) == 0 {
		return
	}
	dir := ts.MkAbs(args[0])
	ts.Check(ts.Exec("git", "-C", dir, "spot", "fsck"))
	ts.Check(ts.Exec("git", "-C", dir, "fsck", "--no-dangling", "--no-progress"))
	ts.Check(ts.Exec("git", "-C", dir, "spot", "list", "--worktrees", "--running"))
	var holding, all []struct{ ID, State, Worktree string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &holding))
	ts.Check(ts.Exec("git", "-C", dir, "spot", "list", "--worktrees"))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &all))
	var want []string
	for _, run := range all {
		if run.State != string(schemas.StateCleaned) {
			want = append(want, run.ID)
		}
	}
	slices.Sort(want)
	if len(all) > 0 {
		checkFolders(ts, filepath.Dir(all[0].Worktree), want)
	}
	ts.Check(ts.Exec("git", "-C", dir, "for-each-ref", "--format=%(refname)", "refs/spot/slots"))
	if slots := strings.Count(ts.ReadFile("stdout"), "\n"); slots != len(holding) {
		ts.Fatalf("%d slots are there and %d runs hold one", slots, len(holding))
	}
	ts.Check(ts.Exec("git", "-C", dir, "rev-parse", "--path-format=absolute", "--git-common-dir"))
	common := strings.TrimSuffix(ts.ReadFile("stdout"), "\n")
	ts.Check(filepath.WalkDir(common, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".lock") && filepath.Dir(path) != filepath.Join(common, "spot") {
			ts.Fatalf("a lock is left: %s", path)
		}
		return err
	}))
}

// checkFolders holds the folder of the worktrees to the runs that have one. Below each folder whose name
// begins with a dot there is something for such runs only.
func checkFolders(ts *testscript.TestScript, root string, runs []string) {
	entries, err := os.ReadDir(root)
	if err != nil && !os.IsNotExist(err) {
		ts.Fatalf("%v", err)
	}
	got := []string{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			got = append(got, e.Name())
			continue
		}
		of, err := os.ReadDir(filepath.Join(root, e.Name()))
		ts.Check(err)
		for _, run := range of {
			if !slices.Contains(runs, run.Name()) {
				ts.Fatalf("%s/%s/%s is left, and the runs with a worktree are %q", root, e.Name(), run.Name(), runs)
			}
		}
	}
	if len(runs)+len(got) > 0 && !slices.Equal(got, runs) {
		ts.Fatalf("in %s are %q, and the runs with a worktree are %q", root, got, runs)
	}
}

// processes lists the processes that carry the script's folder in their environment, their arguments or
// as their working directory, where the system shows such things.
func processes(ts *testscript.TestScript) []string {
	if runtime.GOOS != "linux" {
		return nil
	}
	marker := []byte(ts.Getenv("WORK"))
	var left []string
	for range 20 { // one that is being killed may be seen for a moment
		left = nil
		entries, err := os.ReadDir("/proc")
		ts.Check(err)
		for _, e := range entries {
			if e.Name() == fmt.Sprint(os.Getpid()) || e.Name()[0] < '1' || e.Name()[0] > '9' {
				continue
			}
			proc := filepath.Join("/proc", e.Name())
			args, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
			environ, _ := os.ReadFile(filepath.Join(proc, "environ"))
			cwd, _ := os.Readlink(filepath.Join(proc, "cwd"))
			if bytes.Contains(args, marker) || bytes.Contains(environ, marker) || strings.HasPrefix(cwd, string(marker)) {
				left = append(left, e.Name()+" "+strings.ReplaceAll(string(args), "\x00", " "))
			}
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return left
}
