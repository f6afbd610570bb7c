package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/proc"
)

// helperArg makes the test binary one of the programs in helpers.
const helperArg = "__helper"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == proc.SuperviseArg {
		os.Exit(proc.ShimMain(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == helperArg {
		os.Exit(helpers[os.Args[2]](os.Args[3:]))
	}
	os.Exit(m.Run())
}

var helpers = map[string]func(args []string) int{
	// supervise LOCK SCRIPT: runs the shell script under a supervisor and a lock, as git spot would.
	"supervise": func(args []string) int {
		ctx := context.Background()
		if args[0] != "" {
			lock, err := durable.TryLock(args[0])
			if err != nil {
				return fail(err)
			}
			ctx = proc.WithLock(ctx, lock.File())
		}
		lines := proc.NewLines(1<<20, func(line []byte, dropped int64) {
			fmt.Printf("%d+%d\n", len(line), dropped)
			if len(line) < 100 {
				fmt.Printf("%s\n", line)
			}
		})
		capture := proc.NewCapture(1<<20, 1<<20)
		r, err := proc.Supervise(ctx, proc.Command{
			Argv:   []string{"/bin/sh", "-c", args[1]},
			Env:    os.Environ(),
			Stdout: io.MultiWriter(lines, capture),
		})
		if err != nil {
			return fail(err)
		}
		var own, below syscall.Rusage
		if err := errors.Join(syscall.Getrusage(syscall.RUSAGE_SELF, &own), syscall.Getrusage(syscall.RUSAGE_CHILDREN, &below)); err != nil {
			return fail(err)
		}
		fmt.Printf("bytes %d\nexit %d\nrss %d %d\n", capture.Bytes(), r.Exit, own.Maxrss, below.Maxrss)
		return 0
	},
	// shim prints what Shim says.
	"shim": func([]string) int {
		path, builtin := proc.Shim()
		fmt.Print(path, " ", builtin)
		return 0
	},
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// marked is an environment by which survivors finds what a test has started.
func marked(t *testing.T) (env []string, marker string) {
	t.Helper()
	marker = fmt.Sprintf("marker-%d-%s", os.Getpid(), filepath.Base(t.TempDir())+strings.ReplaceAll(t.Name(), "/", "-")+".")
	return []string{"PATH=" + os.Getenv("PATH"), "GIT_SPOT_TEST=" + marker}, marker
}

// survivors are the processes with the marker in their environment or arguments.
func survivors(t *testing.T, marker string) []string {
	t.Helper()
	list, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("no /proc to find processes by")
	}
	var found []string
	for _, entry := range list {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		environ, _ := os.ReadFile("/proc/" + entry.Name() + "/environ")
		cmdline, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if bytes.Contains(environ, []byte(marker)) || bytes.Contains(cmdline, []byte(marker)) {
			found = append(found, entry.Name()+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

func noSurvivors(t *testing.T, marker string) {
	t.Helper()
	if left := survivors(t, marker); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// sh is a command that runs a shell script.
func sh(env []string, script string) proc.Command {
	return proc.Command{Argv: []string{"/bin/sh", "-c", script}, Env: env}
}

// onLine is a writer that calls fn with every line.
func onLine(fn func(line string)) io.Writer {
	return proc.NewLines(1<<16, func(line []byte, _ int64) { fn(string(line)) })
}

// onReady is a writer that calls fn at the line "ready".
func onReady(fn func()) io.Writer {
	return onLine(func(line string) {
		if line == "ready" {
			fn()
		}
	})
}

// both runs a test under Exec and under Supervise, which promise the same of the child itself.
func both(t *testing.T, test func(t *testing.T, run func(context.Context, proc.Command) (proc.Result, error))) {
	t.Helper()
	t.Run("Exec", func(t *testing.T) { t.Parallel(); test(t, proc.Exec) })
	t.Run("Supervise", func(t *testing.T) { t.Parallel(); test(t, proc.Supervise) })
}

type runner = func(context.Context, proc.Command) (proc.Result, error)

func TestOutcome(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, run runner) {
		for _, test := range []struct {
			script string
			exit   int
			signal string
			end    proc.End
		}{
			{"exit 0", 0, "", proc.EndExited},
			{"exit 3", 3, "", proc.EndExited},
			{"exit 255", 255, "", proc.EndExited},
			{"kill -KILL $$", -1, "SIGKILL", proc.EndSignaled},
			{"kill -TERM $$", -1, "SIGTERM", proc.EndSignaled},
			{"kill -SEGV $$", -1, "SIGSEGV", proc.EndSignaled}, // dumps core where it may
			{"kill -QUIT $$", -1, "SIGQUIT", proc.EndSignaled},
		} {
			c := sh(nil, test.script)
			c.Dir = t.TempDir()
			r, err := run(t.Context(), c)
			if err != nil {
				t.Fatalf("%s: %v", test.script, err)
			}
			if r.Exit != test.exit || r.Signal != test.signal || r.End != test.end {
				t.Errorf("%s: got %d %q %q, want %d %q %q", test.script, r.Exit, r.Signal, r.End, test.exit, test.signal, test.end)
			}
			if r.PID <= 0 || r.Duration <= 0 || r.MaxRSS < 1<<16 || r.MaxRSS > 1<<30 {
				t.Errorf("%s: improbable %+v", test.script, r)
			}
		}
	})
}

func TestEnvironmentIsComplete(t *testing.T) {
	t.Setenv("GIT_SPOT_LEAK", "x")
	for name, run := range map[string]runner{"Exec": proc.Exec, "Supervise": proc.Supervise} {
		for _, test := range []struct {
			env  []string
			want string
		}{
			{nil, ""},
			{[]string{"A=1", "B=2", "A=3"}, "B=2\nA=3\n"},
			{[]string{"A=\xff\xfe"}, "A=\xff\xfe\n"},
		} {
			var out bytes.Buffer
			env := mustLook(t, "env")
			if _, err := run(t.Context(), proc.Command{Argv: []string{env}, Env: test.env, Stdout: &out}); err != nil {
				t.Fatal(err)
			}
			if out.String() != test.want {
				t.Errorf("%s: got %q, want %q", name, out.String(), test.want)
			}
		}
	}
}

func mustLook(t *testing.T, file string) string {
	t.Helper()
	path, err := proc.LookPath(file, "/usr/bin:/bin")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStreams(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, run runner) {
		dir := filepath.Join(t.TempDir(), "in\xff valid")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Skip("file system wants UTF-8")
		}
		var out, errs bytes.Buffer
		c := sh([]string{"PATH=" + os.Getenv("PATH")}, `cat; pwd; printf '\377\200\n'; echo bad >&2`)
		c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, strings.NewReader("prompt\n"), &out, &errs
		if _, err := run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), "prompt\n"+dir+"\n\xff\x80\n"; got != want {
			t.Errorf("stdout: got %q, want %q", got, want)
		}
		if got, want := errs.String(), "bad\n"; got != want {
			t.Errorf("stderr: got %q, want %q", got, want)
		}

		// One writer for both keeps their order.
		var all bytes.Buffer
		c = sh(nil, "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done")
		c.Stdout, c.Stderr = &all, &all
		if _, err := run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got, want := all.String(), "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\n"; got != want {
			t.Errorf("both: got %q, want %q", got, want)
		}
	})
}

func TestStdin(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, run runner) {
		// Nothing to read is the end of input, not a wait.
		if r, err := run(t.Context(), sh([]string{"PATH=" + os.Getenv("PATH")}, "cat; read x")); err != nil || r.Exit != 1 {
			t.Errorf("no stdin: got %+v, %v", r, err)
		}
		// A child that does not read its input is not a failure, nor is a reader that never ends.
		for _, stdin := range []io.Reader{bytes.NewReader(make([]byte, 10<<20)), endless{}, blocked(t)} {
			c := sh(nil, "exit 4")
			c.Stdin = stdin
			if r, err := run(t.Context(), c); err != nil || r.Exit != 4 {
				t.Errorf("%T not read: got %+v, %v", stdin, r, err)
			}
		}
		// A child must not take half of its input for the whole without anybody knowing.
		c := sh([]string{"PATH=" + os.Getenv("PATH")}, "cat")
		broken := errors.New("broken")
		c.Stdin = io.MultiReader(strings.NewReader("half"), failing{broken})
		if _, err := run(t.Context(), c); !errors.Is(err, broken) {
			t.Errorf("broken stdin: got %v", err)
		}
		// A writer that fails is reported and does not stop the child.
		c = sh([]string{"PATH=" + os.Getenv("PATH")}, "head -c 1000000 /dev/zero; exit 5")
		c.Stdout = failing{broken}
		if r, err := run(t.Context(), c); !errors.Is(err, broken) || r.Exit != 5 {
			t.Errorf("broken stdout: got %+v, %v", r, err)
		}
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// blocked is a reader whose Read returns at the end of the test.
func blocked(t *testing.T) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	return r
}

func TestStartError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, perm os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), perm); err != nil {
			t.Fatal(err)
		}
		return path
	}
	noInterpreter := filepath.Join(dir, "nointerpreter")
	if err := os.WriteFile(noInterpreter, []byte("#!/does/not/exist\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	busy := write("busy", 0o700)
	f, err := os.OpenFile(busy, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })

	for _, test := range []struct {
		name string
		c    proc.Command
		want error
	}{
		{"missing", proc.Command{Argv: []string{filepath.Join(dir, "missing")}}, os.ErrNotExist},
		{"interpreter missing", proc.Command{Argv: []string{noInterpreter}}, os.ErrNotExist},
		{"not executable", proc.Command{Argv: []string{write("plain", 0o600)}}, os.ErrPermission},
		{"folder", proc.Command{Argv: []string{dir}}, os.ErrPermission},
		{"too long", proc.Command{Argv: []string{"/bin/echo", strings.Repeat("a", 1<<20)}}, syscall.E2BIG},
		{"environment too long", proc.Command{Argv: []string{"/bin/echo"}, Env: []string{"A=" + strings.Repeat("a", 1<<20)}}, syscall.E2BIG},
		{"busy", proc.Command{Argv: []string{busy}}, syscall.ETXTBSY},
		{"NUL", proc.Command{Argv: []string{"/bin/echo", "a\x00b"}}, syscall.EINVAL},
		{"no working directory", proc.Command{Argv: []string{"/bin/echo"}, Dir: filepath.Join(dir, "missing")}, os.ErrNotExist},
		{"working directory is a file", proc.Command{Argv: []string{"/bin/echo"}, Dir: busy}, syscall.ENOTDIR},
		{"relative", proc.Command{Argv: []string{"echo"}}, nil},
		{"empty", proc.Command{}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, run runner) {
				r, err := run(t.Context(), test.c)
				if test.name == "busy" && err == nil {
					t.Skip("this kernel runs programs that are open for writing")
				}
				start, ok := errors.AsType[*proc.StartError](err)
				if !ok || test.want != nil && !errors.Is(err, test.want) {
					t.Fatalf("got %v, want a *StartError of %v", err, test.want)
				}
				if start.Code() != "WORKER_SETUP" || r.PID != 0 || r.Exit != -1 {
					t.Errorf("got %s, %+v", start.Code(), r)
				}
				if strings.Count(err.Error(), dir) > 1 {
					t.Errorf("says it twice: %v", err)
				}
			})
		})
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"bin", "later", "folder/prog"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, perm := range map[string]os.FileMode{"prog": 0o700, "bin/prog": 0o700, "bin/plain": 0o600, "later/plain": 0o700, "later/prog": 0o700} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, perm); err != nil {
			t.Fatal(err)
		}
	}
	bin, later := filepath.Join(dir, "bin"), filepath.Join(dir, "later")
	for _, test := range []struct {
		file, path, want string
		err              error
	}{
		{"prog", bin + ":" + later, bin + "/prog", nil},
		{"prog", "::.:bin:" + later, later + "/prog", nil},
		{"prog", "", "", os.ErrNotExist},
		{"prog", ":.:bin", "", os.ErrNotExist},
		{"prog", filepath.Join(dir, "folder") + ":" + bin, bin + "/prog", nil},
		{"plain", bin + ":" + later, later + "/plain", nil},
		{"plain", bin, "", os.ErrPermission},
		{"", bin, "", os.ErrNotExist},
		{bin + "/prog", "", bin + "/prog", nil},
		{bin + "/plain", "", "", os.ErrPermission},
	} {
		got, err := proc.LookPath(test.file, test.path)
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("LookPath(%q, %q): got %q, %v, want %q, %v", test.file, test.path, got, err, test.want, test.err)
		}
	}
	if got, err := proc.LookPath("bin/prog", dir); err == nil {
		t.Errorf("a relative path was found: %q", got)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	both(t, func(t *testing.T, run runner) {
		for _, test := range []struct {
			name, script string
			wall, idle   time.Duration
			end          proc.End
		}{
			{"idle", "echo once; sleep 600", hour, 200 * time.Millisecond, proc.EndIdle},
			{"idle with input", "read x; sleep 600", hour, 200 * time.Millisecond, proc.EndIdle},
			{"wall", "while :; do echo busy; sleep 0.02; done", 300 * time.Millisecond, hour, proc.EndTimedOut},
			{"TERM is answered", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done", 300 * time.Millisecond, hour, proc.EndTimedOut},
			{"no limit", "sleep 0.3; exit 0", 0, 0, proc.EndExited},
			{"output counts", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.25; echo x; sleep 0.25; echo x >&2; done", hour, 5 * time.Second, proc.EndExited},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				env, marker := marked(t)
				c := sh(env, test.script)
				c.Wall, c.Idle = test.wall, test.idle
				r, err := run(t.Context(), c)
				if err != nil || r.End != test.end {
					t.Errorf("got %+v, %v, want %s", r, err, test.end)
				}
				noSurvivors(t, marker)
			})
		}
	})
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, run runner) {
		for _, test := range []struct {
			name, script string
			grace        time.Duration
			exit         int
			signal       string
		}{
			{"answers TERM", "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done", time.Hour, 7, ""},
			{"has no handler", "echo ready; sleep 600", time.Hour, -1, "SIGTERM"},
			{"is stopped", "echo ready; kill -STOP $$; sleep 600", time.Hour, -1, "SIGTERM"},
			{"ignores TERM", "trap '' TERM; echo ready; while :; do sleep 0.02; done", 50 * time.Millisecond, -1, "SIGKILL"},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				env, marker := marked(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c := sh(env, test.script)
				c.Grace = test.grace
				c.Stdout = onReady(cancel)
				r, err := run(ctx, c)
				if err != nil || r.End != proc.EndInterrupted || r.Exit != test.exit || r.Signal != test.signal {
					t.Errorf("got %+v, %v, want %d %q", r, err, test.exit, test.signal)
				}
				noSurvivors(t, marker)
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r, err := run(ctx, sh(nil, "exit 0")); err != nil || r.End != proc.EndInterrupted || r.PID != 0 {
			t.Errorf("interrupted before the start: got %+v, %v", r, err)
		}
	})
}

func TestSettled(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, run runner) {
		for script, want := range map[string]proc.End{
			"echo ready; sleep 600":    proc.EndSettled,
			"echo ready; read x; exit": proc.EndExited,
		} {
			env, marker := marked(t)
			settled := make(chan struct{})
			c := sh(env, script)
			c.Settled = settled
			c.Stdout = onReady(func() { close(settled) })
			if want == proc.EndSettled {
				c.Drain = 50 * time.Millisecond
			}
			if r, err := run(t.Context(), c); err != nil || r.End != want {
				t.Errorf("%s: got %+v, %v, want %s", script, r, err, want)
			}
			noSurvivors(t, marker)
		}
	})
}

// A background process that keeps the pipes costs no more than Drain, and the exit status stands.
func TestPipeHeldOpen(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, run runner) {
		for _, script := range []string{
			"sleep 600 & echo ok; exit 3",
			"(while :; do echo noise; sleep 0.01; done) & echo ok; exit 3",
		} {
			env, marker := marked(t)
			first := make(chan string, 1)
			c := sh(env, script)
			c.Drain = 200 * time.Millisecond
			c.Stdout = onLine(func(line string) {
				if line == "ok" {
					first <- line
				}
			})
			r, err := run(t.Context(), c)
			if err != nil || r.Exit != 3 || r.End != proc.EndExited {
				t.Errorf("%s: got %+v, %v", script, r, err)
			}
			if r.Duration > 20*time.Second {
				t.Errorf("%s: took %s", script, r.Duration)
			}
			if len(first) != 1 {
				t.Errorf("%s: output lost", script)
			}
			eventually(t, func() bool { return len(survivors(t, marker)) == 0 })
		}
	})
}

// eventually waits for what another process does on its own.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited for a minute")
		}
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	ctx := proc.WithTrace(t.Context(), &log)
	for _, run := range []runner{proc.Exec, proc.Supervise} {
		if _, err := run(ctx, proc.Command{Argv: []string{"/bin/sh", "-c", "exit 3", "a\nb\x1b[31m"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := run(ctx, proc.Command{Argv: []string{"/bin/sh", "-c", "sleep 600"}, Wall: time.Millisecond, Grace: time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 4 || strings.Contains(log.String(), "\x1b") {
		t.Fatalf("got %q", lines)
	}
	for i, want := range []string{`exit 3: /bin/sh -c "exit 3" "a\nb\x1b[31m"`, "timed_out: /bin/sh"} {
		if !strings.Contains(lines[i], want) || !strings.Contains(lines[i+2], want) {
			t.Errorf("got %q and %q, want %q", lines[i], lines[i+2], want)
		}
	}
}
