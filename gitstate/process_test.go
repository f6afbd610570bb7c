package gitstate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

// A child is this test binary run again as another git spot. What it does is a word and arguments in
// GITSTATE_CHILD; it answers with lines on standard output that begin with "> ".

// children are the things that a child can do.
var children = map[string]func(*testing.T, *gitstate.Ledger, []string) error{
	"prepare": childPrepare,
	"reserve": childReserve,
	"own":     childOwn,
	"note":    childNote,
	"write":   childWrite,
}

func TestChild(t *testing.T) {
	t.Parallel()
	words := strings.Split(os.Getenv("GITSTATE_CHILD"), "\n")
	if len(words) < 2 {
		return
	}
	l := open(t, words[1])
	if err := children[words[0]](t, l, words[2:]); err != nil {
		t.Fatal(err)
	}
}

func say(format string, args ...any) { fmt.Printf("> "+format+"\n", args...) }

// await blocks until the parent closes standard input.
func await() { _, _ = io.Copy(io.Discard, os.Stdin) }

// process is a running child.
type process struct {
	*exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
	log   []string
}

func startChild(t testing.TB, action, dir string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.count=1")}
	p.Env = append(os.Environ(), "GITSTATE_CHILD="+strings.Join(append([]string{action, dir}, args...), "\n"))
	var err error
	if p.stdin, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(stdout)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// next is the child's next answer, or "" if it has ended.
func (p *process) next() string {
	for p.out.Scan() {
		if line, ok := strings.CutPrefix(p.out.Text(), "> "); ok {
			return line
		}
		p.log = append(p.log, p.out.Text())
	}
	return ""
}

// rest is all that the child still answers, until it ends.
func (p *process) rest() []string {
	var lines []string
	for line := p.next(); line != ""; line = p.next() {
		lines = append(lines, line)
	}
	return lines
}

func (p *process) expect(t testing.TB, want string) {
	t.Helper()
	if got := p.next(); got != want {
		t.Fatalf("child said %q, want %q\n%s", got, want, strings.Join(p.log, "\n"))
	}
}

// kill ends the child as a crash would, and reaps it.
func (p *process) kill(t testing.TB) {
	t.Helper()
	if err := p.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = p.Wait()
}

// release lets the child go on from await.
func (p *process) release() { _ = p.stdin.Close() }

// childPrepare ID BASE LIMIT waits and prepares a run.
func childPrepare(t *testing.T, l *gitstate.Ledger, args []string) error {
	limit, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	say("ready")
	await()
	err = patiently(func() error { return prepareRun(t.Context(), l, gitstate.RunID(args[0]), args[1], limit) })
	if coded, ok := errors.AsType[schemas.Coded](err); ok {
		say("%s", coded.Code())
		return nil
	}
	if err == nil {
		say("prepared")
	}
	return err
}

// childReserve ID LIMIT reserves a run and keeps it until it is told to go on.
func childReserve(t *testing.T, l *gitstate.Ledger, args []string) error {
	limit, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	p, _, err := l.Reserve(t.Context(), gitstate.RunID(args[0]), "prepare", limit)
	if err != nil {
		return err
	}
	say("reserved")
	await()
	return p.Close()
}

// childOwn ID TERM begins a phase of the run's due command and stays in it; with TERM "ignore" it does not
// end at SIGTERM. Told to go on, it says what becomes of its next event.
func childOwn(t *testing.T, l *gitstate.Ledger, args []string) error {
	if args[1] == "ignore" {
		signal.Ignore(syscall.SIGTERM)
	}
	ctx, id := t.Context(), gitstate.RunID(args[0])
	run, err := l.Load(ctx, id)
	if err != nil {
		return err
	}
	by, to, back := gitstate.ByRun, schemas.StateRunning, schemas.StateInterrupted
	var apply func(*schemas.RunState)
	switch run.State.State {
	case schemas.StateImplemented:
		by, to, back = gitstate.ByVerify, schemas.StateVerifying, schemas.StateImplemented
	case schemas.StateApproved:
		by, to, back = gitstate.ByIntegrate, schemas.StateIntegrating, schemas.StateApproved
		apply = func(s *schemas.RunState) {
			s.Integration = &schemas.Integration{Branch: "refs/heads/main", Old: s.Base.Commit, New: s.Approved}
		}
	}
	p, _, err := l.Begin(ctx, id, string(by), by)
	if err != nil {
		return err
	}
	if err := p.Append(ctx, gitstate.Event{To: to, Apply: apply}); err != nil {
		return err
	}
	say("owner")
	await()
	err = p.Append(ctx, gitstate.Event{To: back})
	if coded, ok := errors.AsType[schemas.Coded](err); ok {
		say("%s", coded.Code())
		return p.Close()
	}
	say("appended")
	return errors.Join(err, p.Close())
}

// childNote COMMIT... writes a note on each commit.
func childNote(t *testing.T, l *gitstate.Ledger, args []string) error {
	say("ready")
	await()
	for _, commit := range args {
		run, err := l.Load(t.Context(), "x1")
		if err != nil {
			return err
		}
		if err := l.Note(t.Context(), gitstate.OID(commit), run); err != nil {
			return err
		}
	}
	say("done")
	return nil
}

// childWrite PREFIX BASE [once] takes one run after the other through its life and says what is written.
func childWrite(t *testing.T, l *gitstate.Ledger, args []string) error {
	ctx := context.Background() // until somebody kills it
	for n := 0; ; n++ {
		id := gitstate.RunID(fmt.Sprintf("%s-%d", args[0], n))
		if err := prepareRun(ctx, l, id, args[1], 16); err != nil {
			return err
		}
		say("%s prepared", id)
		c := turn(t, l, id, gitstate.ByRun, fmt.Sprintf("%s %d\n", args[0], n))
		say("%s implemented", id)
		verify(t, l, id, schemas.VerdictPass)
		say("%s reviewing", id)
		approve(t, l, id, c)
		say("%s approved", id)
		integrate(t, l, id)
		say("%s integrated", id)
		if len(args) > 2 {
			return nil
		}
	}
}
