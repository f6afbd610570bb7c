package proc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/proc"
)

func needSetsid(t *testing.T) {
	t.Helper()
	if _, err := proc.LookPath("setsid", os.Getenv("PATH")); err != nil {
		t.Skip("needs the program setsid")
	}
}

// Whatever a child does to get away, nothing of it is left when Supervise returns.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	needSetsid(t)
	const forever = "while :; do sleep 0.02; done"
	for name, script := range map[string]string{
		"background":              "sleep 600 & sleep 600 & exit 0",
		"holds no pipe":           "sleep 600 >/dev/null 2>&1 </dev/null & exit 0",
		"setsid":                  "setsid sleep 600 >/dev/null 2>&1 & exit 0",
		"double fork":             "(setsid sh -c '(sleep 600 & sleep 600) & exit 0' &) ; exit 0",
		"double fork, no pipe":    "(setsid sh -c 'exec >/dev/null 2>&1; (sleep 600 &) ; exit 0' &) ; exit 0",
		"ignores TERM":            "trap '' TERM HUP INT; setsid sh -c '" + forever + "' & exit 0",
		"stopped":                 "setsid sh -c 'kill -STOP $$' & exit 0",
		"deep":                    "n=0; f() { n=$((n+1)); [ $n -gt 30 ] && exec sleep 600; (f) & exit 0; }; f",
		"clears its environment":  "env -i setsid sh -c 'sleep 600; :' $MARK >/dev/null 2>&1 & exit 0",
		"forks while it is ended": "for i in 1 2 3 4 5 6; do setsid sh -c 'for j in 1 2 3 4 5 6; do setsid sleep 600 & sleep 0.03; done; wait' & done; exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, marker := marked(t)
			c := sh(append(env, "MARK="+marker), script)
			c.Drain = 100 * time.Millisecond
			r, err := proc.Supervise(t.Context(), c)
			noSurvivors(t, marker)
			if err != nil || r.Exit != 0 || r.End != proc.EndExited {
				t.Errorf("got %+v, %v", r, err)
			}
		})
		t.Run(name+", interrupted", func(t *testing.T) {
			t.Parallel()
			env, marker := marked(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// TERM makes it fork once more.
			c := sh(append(env, "MARK="+marker), "trap 'for i in 1 2 3 4 5 6 7 8; do setsid sleep 600 & done' TERM; ("+script+"); echo ready; "+forever)
			c.Grace = 100 * time.Millisecond
			c.Stdout = onReady(cancel)
			r, err := proc.Supervise(ctx, c)
			noSurvivors(t, marker)
			if err != nil || r.Signal != "SIGKILL" || r.End != proc.EndInterrupted {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

// A child has its three streams, no terminal, and no descriptor of ours or of whoever started us.
func TestChildSeesThreeDescriptors(t *testing.T) {
	t.Parallel()
	lock, err := durable.TryLock(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Unlock() }()
	// A descriptor that somebody forgot to close.
	leaked, err := unix.FcntlInt(lock.File().Fd(), unix.F_DUPFD, 20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(leaked) }()
	var out bytes.Buffer
	c := proc.Command{Argv: []string{mustLook(t, "ls"), "-l", "/proc/self/fd"}, Stdout: &out}
	if _, err := proc.Supervise(proc.WithLock(t.Context(), lock.File()), c); err != nil {
		t.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`(?m)(\d+) -> (.*)$`).FindAllStringSubmatch(out.String(), -1) {
		if fd, err := strconv.Atoi(line[1]); err != nil || fd > 2 && !strings.HasSuffix(line[2], "/fd") {
			t.Errorf("the child has %s -> %s", line[1], line[2])
		}
	}

	out.Reset()
	c = sh([]string{"PATH=" + os.Getenv("PATH")}, "cut -d' ' -f 1,5,6,7 /proc/$$/stat")
	c.Stdout = &out
	r, err := proc.Supervise(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), fmt.Sprintf("%d %d %d 0\n", r.PID, r.PID, r.PID); got != want {
		t.Errorf("pid, group, session and terminal: got %q, want %q", got, want)
	}

	// A trusted child inherits the lock.
	out.Reset()
	c = proc.Command{Argv: []string{mustLook(t, "ls"), "-l", "/proc/self/fd"}, Stdout: &out}
	if _, err := proc.Exec(proc.WithLock(t.Context(), lock.File()), c); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "3 -> "+lock.File().Name()) {
		t.Errorf("Exec: the lock is not 3: %s", out.String())
	}
}

// shims are the two supervisors: the program beside git-spot, and git-spot itself.
func shims(t *testing.T, test func(t *testing.T, gitSpot string)) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("builtin", func(t *testing.T) { t.Parallel(); test(t, self) })
	t.Run("git-spot-shim", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := durable.CopyTree(self, filepath.Join(dir, "git-spot")); err != nil {
			t.Fatal(err)
		}
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "git-spot-shim"), "github.com/git-spot/git-spot/cmd/git-spot-shim")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		test(t, filepath.Join(dir, "git-spot"))
	})
}

// When git spot is killed its lock stays held until the worker's tree is gone.
func TestGitSpotIsKilled(t *testing.T) {
	t.Parallel()
	needSetsid(t)
	shims(t, func(t *testing.T, gitSpot string) {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
			env, marker := marked(t)
			path := filepath.Join(t.TempDir(), "lock")
			script := "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; while :; do sleep 600 & sleep 0.05; done' & echo ready; while :; do sleep 0.02; done"
			cmd := exec.CommandContext(t.Context(), gitSpot, helperArg, "supervise", path, script)
			cmd.Env = env
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
			}
			if _, err := durable.TryLock(path); !errors.Is(err, durable.ErrLocked) {
				t.Errorf("before: got %v, want ErrLocked", err)
			}
			eventually(t, func() bool { return len(survivors(t, marker)) > 6 })
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("git spot was not killed")
			}
			// The kernel says when the last holder is gone.
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			noSurvivors(t, marker)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A supervisor that its worker has stopped outlives git spot, and goes on when somebody wants the lock.
func TestSupervisorIsStoppedAndGitSpotKilled(t *testing.T) {
	t.Parallel()
	shims(t, func(t *testing.T, gitSpot string) {
		env, marker := marked(t)
		path := filepath.Join(t.TempDir(), "lock")
		cmd := exec.CommandContext(t.Context(), gitSpot, helperArg, "supervise", path, "sleep 600 & kill -STOP $PPID; echo ready; sleep 600")
		cmd.Env = env
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
		}
		if proc.ContinueSupervisors(path) {
			t.Error("a supervisor was continued whose git spot lives")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if _, err := durable.TryLock(path); !errors.Is(err, durable.ErrLocked) {
			t.Errorf("before: got %v, want ErrLocked", err)
		}
		if !proc.ContinueSupervisors(path) {
			t.Error("no supervisor was found")
		}
		var lock *durable.Lock
		eventually(t, func() bool { lock, err = durable.TryLock(path); return err == nil })
		noSurvivors(t, marker)
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if proc.ContinueSupervisors(path) {
			t.Error("a supervisor was found where none is")
		}
	})
}

// A worker that kills its supervisor dies with everything it has started, and is told apart from one
// that ended by itself.
func TestSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	needSetsid(t)
	for name, script := range map[string]string{
		"at rest":       "kill -KILL $PPID; sleep 600",
		"with a family": "sleep 600 & setsid sleep 600 & (setsid sh -c 'sleep 600 & (sleep 600 &) ; wait' &) ; sleep 0.1; kill -KILL $PPID; sleep 600",
		"escaped":       "env -i setsid sh -c 'sleep 600; :' $MARK >/dev/null 2>&1 & sleep 0.1; kill -KILL $PPID; exit 0",
		"forking":       "setsid sh -c 'for i in $(seq 60); do setsid sleep 600 & done; wait' & kill -KILL $PPID; exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, marker := marked(t)
			c := sh(append(env, "MARK="+marker), script)
			r, err := proc.Supervise(t.Context(), c)
			noSurvivors(t, marker)
			lost, ok := errors.AsType[*proc.SupervisorError](err)
			if !ok || len(lost.Left) > 0 || !strings.Contains(err.Error(), "signal: killed") {
				t.Errorf("got %v", err)
			}
			if r.Exit != -1 || r.End != proc.EndSignaled {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// A supervisor that does not do what it is told is not waited for.
func TestSupervisorHangs(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	env, marker := marked(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := sh(env, "sleep 600 & kill -STOP $PPID; echo ready; sleep 600")
	c.Stdout = onReady(cancel)
	c.Grace, c.Drain = time.Millisecond, time.Millisecond
	r, err := proc.Supervise(ctx, c)
	noSurvivors(t, marker)
	if _, ok := errors.AsType[*proc.SupervisorError](err); !ok || r.End != proc.EndInterrupted {
		t.Errorf("got %+v, %v", r, err)
	}
}

// Two supervisors at once: that of one is killed, the other's tree must not notice.
func TestSweepSparesOthers(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	ready := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		r, w := io.Pipe()
		go func() {
			<-stop
			_ = w.Close()
		}()
		c := sh([]string{"PATH=" + os.Getenv("PATH")}, "echo ready; read x; exit 9")
		c.Stdin = r
		c.Stdout = onReady(func() { close(ready) })
		result, err := proc.Supervise(t.Context(), c)
		if err == nil && result.Exit != 9 {
			err = fmt.Errorf("got %+v", result)
		}
		done <- err
	}()
	<-ready
	if _, err := proc.Supervise(t.Context(), sh(nil, "kill -KILL $PPID; sleep 600")); err == nil {
		t.Error("the supervisor was not killed")
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Memory of both processes stays bounded whatever is printed.
func TestLongLine(t *testing.T) {
	t.Parallel()
	const length = 60 << 20
	shims(t, func(t *testing.T, gitSpot string) {
		cmd := exec.CommandContext(t.Context(), gitSpot, helperArg, "supervise", "",
			"head -c "+strconv.Itoa(length)+" /dev/zero | tr '\\0' '\\377'; echo; printf 'after\\377\\n'; printf end")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		const kept = 1 << 20
		want := fmt.Sprintf("%d+%d\n6+0\nafter\xff\n", kept, length-kept)
		if !strings.HasPrefix(string(out), want) {
			t.Fatalf("got %.200q, want %q", out, want)
		}
		var bytes, exit, own, below int64
		if _, err := fmt.Sscanf(strings.TrimPrefix(string(out), want), "bytes %d\nexit %d\nrss %d %d\n", &bytes, &exit, &own, &below); err != nil {
			t.Fatalf("%v: %.200q", err, out)
		}
		if bytes != length+1+7+3 || exit != 0 {
			t.Errorf("got %d bytes, exit %d", bytes, exit)
		}
		t.Logf("peak memory: git spot %d KiB, supervisor and below %d KiB", own, below)
		if !raceEnabled && (own > 64<<10 || below > 64<<10) {
			t.Errorf("peak memory: git spot %d KiB, supervisor and below %d KiB", own, below)
		}
	})
}

func TestShimIsFound(t *testing.T) {
	t.Parallel()
	if path, builtin := proc.Shim(); !builtin || !filepath.IsAbs(path) {
		t.Errorf("got %q, %t", path, builtin)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, folder := range []string{"bin", "libexec/git-spot", "link"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	gitSpot := filepath.Join(dir, "bin", "git-spot")
	if err := durable.CopyTree(self, gitSpot); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link", "git-spot")
	if err := os.Symlink(gitSpot, link); err != nil {
		t.Fatal(err)
	}
	look := func(want string) {
		t.Helper()
		for _, program := range []string{gitSpot, link} {
			out, err := exec.CommandContext(t.Context(), program, helperArg, "shim").CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("%s: got %q, %v, want %q", program, out, err, want)
			}
		}
	}
	look(gitSpot + " true")
	for _, shim := range []string{"libexec/git-spot/git-spot-shim", "bin/git-spot-shim"} {
		path := filepath.Join(dir, shim)
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		look(path + " false")
	}
}

func TestShimRefusesOthers(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"0"}, {"1"}, {"1", "2"}} {
		cmd := exec.CommandContext(t.Context(), self, append([]string{proc.SuperviseArg}, args...)...)
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != 70 || !bytes.Contains(out, []byte("git-spot-shim: ")) {
			t.Errorf("%q: got %q, %v", args, out, err)
		}
	}
}
