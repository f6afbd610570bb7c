package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// measured is the program "measured FILE program args...": it runs the program and writes to FILE the
// largest resident size, in KiB, that wait4 has seen of it and of everything below it.
func measured(args []string) int {
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	_ = cmd.Run()
	rusage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 1
	}
	peak := rusage.Maxrss
	if runtime.GOOS == "darwin" {
		peak /= 1 << 10
	}
	if err := os.WriteFile(args[0], strconv.AppendInt(nil, peak, 10), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// TestMemory runs a worker that prints lines of 60 MB, of text and of anything else, and a flood of short
// ones, with the programs as they ship. Neither git-spot nor its supervisor, nor any git below them, may grow with it.
func TestMemory(t *testing.T) {
	t.Parallel()
	if raceEnabled {
		t.Skip("the race detector takes several times the memory")
	}
	const limit = 64 << 10 // KiB
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	build(t, bin, "../git-spot")
	build(t, bin, "../git-spot-shim", "CGO_ENABLED=0")

	repo, worker, peak := filepath.Join(dir, "repo"), filepath.Join(dir, "worker.sh"), filepath.Join(dir, "peak")
	script := `cat >/dev/null
head -c 60000000 /dev/zero | tr '\0' a
echo
head -c 60000000 /dev/zero
head -c 60000000 /dev/zero | tr '\0' '\377' >&2
yes 'a short line' | head -c 20000000
echo change >file
`
	if err := os.WriteFile(worker, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(),
		"HOME="+dir, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	)
	command := func(name string, args ...string) []byte {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, env
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, stderr.String())
		}
		return out
	}
	command("git", "init", "-q", repo)
	command("git", "-C", repo, "commit", "-q", "--allow-empty", "-m", "base")
	for _, kv := range []string{
		"defaultProfile=worker", "profile.worker.adapter=command", "profile.worker.argv=sh", "profile.worker.argv=" + worker,
	} {
		key, value, _ := strings.Cut(kv, "=")
		command("git", "-C", repo, "config", "--add", "spot."+key, value)
	}

	// The size of the process that starts another one counts as the other's. This one's must not, so a
	// small one stands between.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	between := filepath.Join(bin, "measured")
	if err := os.Symlink(self, between); err != nil {
		t.Fatal(err)
	}
	out := command(between, peak, filepath.Join(bin, "git-spot"), "-C", repo, "dispatch", "--id", "loud", "--title", "Be loud",
		"--allow", "**", "--accept", "It is.", "--verify", "sh -c 'head -c 60000000 /dev/zero'")
	var verdict verdictLine
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &verdict); err != nil || verdict.Outcome != "completed" ||
		verdict.Verification == nil || verdict.Verification.Verdict != "pass" {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(peak)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := strconv.Atoi(string(data)); err != nil || got > limit || got < 1<<10 {
		t.Errorf("peak of %s KiB, want at most %d", data, limit)
	} else {
		t.Logf("peak of %d KiB", got)
	}
}

// build puts a program into bin, for the same storage backends as this test.
func build(t *testing.T, bin, source string, env ...string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", bin+"/", source)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
