//go:build fault

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/fault"
	"github.com/git-spot/git-spot/schemas"
)

// The rule of this file: git spot is killed before every side effect of every command that has one.
// Whatever it leaves, every reader understands it; the same command run again, or the one that it names
// as due, comes to the end that the command would have come to; and nothing is lost, lands twice, is
// paid for twice or stays behind. The points are read off a run that is not killed, so that a new one is
// covered without being told.

// killTest is one command in one situation.
type killTest struct {
	command string // the column of the table
	when    string // what is special, "" if nothing is
	before  []step
	call    string // the command line that is killed
	// ends are the states that are as good as the one that the call leads to if it is not killed.
	ends []schemas.State
	// otherWork says that the work of a lost turn is kept and may differ from what the whole turn makes.
	otherWork bool
	kept      string // a file that must be found under refs/spot at the end
}

// A step brings a sandbox to where a command is called.
type step func(*sandbox)

// The command lines. They run in the user's checkout, beside the files of the caller.
const (
	callPrepare   = "prepare --task ../task.json --id x"
	callRun       = "run --id x"
	callVerify    = "verify --id x"
	callReview    = "self-review --id x"
	callRevise    = "revise --id x --review ../revise.json"
	callApprove   = "approve --id x --review ../approve.json --message Land"
	callIntegrate = "integrate --id x"
	callLand      = "land --id x --review ../approve.json --message Land"
	callAbort     = "abort --id x"
	callRecover   = "recover --id x"
	callDiscard   = "cleanup --discard --id x"
)

var (
	prepared    = []step{spot(callPrepare)}
	implemented = then(prepared, spot(callRun))
	parked      = then(implemented, spot(callVerify))
	reviewing   = then(parked, spot(callReview), reviews)
	approved    = then(reviewing, spot(callApprove))
	landed      = then(approved, spot(callIntegrate))
	reported    = then(landed, spot("report --id x"))
)

var killTests = []killTest{
	{command: "dispatch", call: "dispatch --task ../task.json --id x"},
	{command: "land", before: reviewing, call: callLand},
	{command: "prepare", call: callPrepare},
	{command: "prepare", when: "without an id", call: "prepare --task ../task.json"},
	{command: "run", before: prepared, call: callRun},
	{
		command: "run", when: "the first profile fails", call: callRun, otherWork: true,
		before: []step{spot(callPrepare + " --profile tired")},
	},
	{
		command: "run", when: "the worker fails", call: callRun, ends: []schemas.State{schemas.StateImplemented},
		before: []step{spot(callPrepare + " --profile clumsy")},
	},
	{command: "run", when: "the worker is not let in", before: []step{spot(callPrepare + " --profile stranger")}, call: callRun},
	{command: "verify", before: implemented, call: callVerify},
	{command: "verify", when: "red", before: []step{spot("prepare --task ../red.json --id x"), spot(callRun)}, call: callVerify},
	{command: "run", when: "the worker plants a hook", before: []step{spot(callPrepare + " --profile planter")}, call: callRun},
	{command: "verify", when: "the check plants a hook", before: []step{spot("prepare --task ../plant.json --id x"), spot(callRun)}, call: callVerify},
	{command: "verify", when: "the grader was touched", before: []step{spot(callPrepare + " --profile cheat"), spot(callRun)}, call: callVerify},
	{command: "self-review", before: parked, call: callReview},
	{command: "revise", before: reviewing, call: callRevise},
	{command: "approve", before: reviewing, call: callApprove},
	{command: "integrate", before: approved, call: callIntegrate},
	{command: "integrate", when: "dirty", before: then(approved, write("repo/src/a", "old\nmine\n")), call: callIntegrate},
	{
		command: "integrate", when: "no checkout", call: callIntegrate,
		before: []step{
			git("branch", "side"), spot(callPrepare + " --base side"), spot(callRun), spot(callVerify), reviews, spot(callApprove),
		},
	},
	{command: "report", before: landed, call: "report --id x"},
	{command: "cleanup", before: reported, call: "cleanup --id x"},
	{
		command: "cleanup --discard", call: callDiscard, kept: "src/late",
		before: then(implemented, spot(callAbort), inWorktree("src/late")),
	},
	{command: "cleanup --discard", when: "after a lost verify", before: then(implemented, killedAt(callVerify, "child.end"), spot(callAbort)), call: callDiscard},
	{command: "abort", when: "work in no candidate", before: then(prepared, inWorktree("src/late")), call: callAbort, kept: "src/late"},
	{command: "abort", when: "a lost turn", before: then(prepared, killedAt(callRun, "child.end")), call: callAbort, kept: "src/b"},
	{command: "abort", when: "a lost landing", before: then(approved, killedAt(callIntegrate, "index.lock", "update-ref")), call: callAbort},
	{command: "recover", when: "a lost turn with changes", before: then(prepared, killedAt(callRun, "child.end")), call: callRecover, kept: "src/b"},
	{command: "recover", when: "a lost turn without changes", before: then(prepared, killedAt(callRun, "child.start")), call: callRecover},
	{command: "recover", when: "a lost revision with changes", before: then(reviewing, killedAt(callRevise, "child.end")), call: callRecover},
	{command: "recover", when: "a lost revision without changes", before: then(reviewing, killedAt(callRevise, "child.start")), call: callRecover},
	{command: "recover", when: "a lost verification", before: then(implemented, killedAt(callVerify, "child.end")), call: callRecover},
	{command: "recover", when: "a landing before the branch moved", before: then(approved, killedAt(callIntegrate, "index.lock", "update-ref")), call: callRecover},
	{command: "recover", when: "a landing after the branch moved", before: then(approved, killedAt(callIntegrate, "index.lock", "update-ref", "file.rename")), call: callRecover},
	{command: "recover", when: "a failed turn", before: []step{spot(callPrepare + " --profile clumsy"), spot(callRun)}, call: callRecover, kept: "src/b"},
	{command: "recover", when: "a turn that was not let in", before: []step{spot(callPrepare + " --profile stranger"), spot(callRun)}, call: callRecover},
	{command: "fsck", when: "notes are gone", before: then(reported, git("update-ref", "-d", "refs/notes/spot")), call: "fsck --rebuild-notes"},
}

// unkilled are the commands that change nothing in a repository of the user's.
var unkilled = []string{"demo", "list", "inspect", "log", "diff", "doctor", "template", "schema", "completion", "version", "help"}

func (k killTest) name() string {
	name := k.command
	if k.when != "" {
		name += " " + k.when
	}
	return strings.NewReplacer("--", "", " ", "_").Replace(name)
}

func TestFaultKill(t *testing.T) {
	kills := killCounts{}
	slots := make(chan struct{}, 2) // what is killed here may be in the middle of a lot of work
	t.Run("at", func(t *testing.T) {
		for _, k := range killTests {
			t.Run(k.name(), func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				k.run(t, &kills)
			})
		}
	})
	t.Log("kills by point and command\n" + kills.table())
	if t.Failed() || kills.tests < len(killTests) { // -run chose some
		return
	}
	for _, p := range fault.Points {
		if kills.of(p, "") == 0 {
			t.Errorf("no command passes %s", p)
		}
	}
	e := &env{}
	for _, c := range newRoot(e).Commands {
		if !slices.Contains(unkilled, c.Name) && kills.of("", c.Name) == 0 {
			t.Errorf("%s passes no point", c.Name)
		}
	}
}

// TestFaultKillAtWork kills git spot while a stranger's program works under it, which is no point: the
// program and its daemon end, and the run waits for a word of the caller's.
func TestFaultKillAtWork(t *testing.T) {
	t.Parallel()
	const busy = "setsid sleep 300 & sleep 300"
	tests := []struct {
		name, call string
		before     []step
		state      schemas.State
		starts     int // of the worker, before and after
	}{
		{"run", callRun, []step{spot(callPrepare + " --profile busy")}, schemas.StateImplemented, 1},
		{"verify", callVerify, []step{spot("prepare --task ../busy.json --id x"), spot(callRun)}, schemas.StateImplemented, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.profile("busy", "echo b >src/b; "+s.count()+"; "+busy)
			s.write("repo/tests/busy.sh", s.count()+"; "+busy+"\n")
			s.write("busy.json", fmt.Sprintf(contract, "tests/busy.sh"))
			s.git("add", "tests")
			s.git("commit", "--quiet", "-m", "a slow test")
			for _, do := range test.before {
				do(s)
			}
			s.look()
			cmd := s.command(t.Context(), test.call)
			s.check(cmd.Start())
			for deadline := time.Now().Add(time.Minute); s.starts() < test.starts; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it does not come to its work")
				}
			}
			if run := s.load(); run.Owner == nil || s.spot(callRecover).code != schemas.CodeLockHeld {
				t.Errorf("recover displaces a live owner, or there is none: %+v", run)
			}
			s.check(cmd.Process.Kill())
			_ = cmd.Wait()
			for _, call := range []string{test.call, "list", "inspect --id x", "log --id x", "fsck"} {
				r := s.exec(call)
				if call == test.call && r.code != schemas.CodeLockHeld && r.code != schemas.CodeWrongState ||
					call != test.call && r.status != 0 {
					t.Errorf("git spot %s: %s", call, r)
				}
			}
			s.quiet()
			if r := s.exec(test.call); r.code != schemas.CodeWrongState || !strings.Contains(r.hint, callRecover) {
				t.Errorf("git spot %s: %s", test.call, r)
			}
			s.must(callRecover)
			if now := s.load(); now.State != test.state || now.Owner != nil {
				t.Errorf("recover leads to %s, owner %v", now.State, now.Owner)
			}
			if !s.has("src/b") || s.starts() != test.starts {
				t.Errorf("work is lost, or the worker was started again: %d times", s.starts())
			}
			s.settled()
			s.finish()
		})
	}
}

// run kills the call at each of the points that it passes.
func (k killTest) run(t *testing.T, kills *killCounts) {
	s := newSandbox(t)
	for _, do := range k.before {
		do(s)
	}
	s.save()
	sick := s.spot("fsck").status != 0
	points, whole := s.points(k.call)
	want, turns := s.stand(), s.starts()
	if len(points) == 0 {
		t.Fatalf("git spot %s passes no point", k.call)
	}
	seen, ended := map[string]bool{}, map[string]bool{}
	for n := 1; n <= len(points)+1 && !t.Failed(); n++ {
		s.restore()
		delete(s.mine, usersHook)
		s.at = fmt.Sprintf("killed at point %d of %d", n, len(points))
		if n <= len(points) {
			s.at += ", " + points[n-1]
			point, _, _ := strings.Cut(points[n-1], " ")
			kills.add(fault.Point(point), k.command)
		}
		before := s.starts()
		r := s.exec(k.call, "GIT_SPOT_FAULT=kill@"+strconv.Itoa(n))
		if died := r.signal == syscall.SIGKILL; died != (n <= len(points)) {
			s.fatalf("it ended with %s", r)
		}
		s.quiet()
		left := s.fingerprint()
		if seen[left] {
			continue // From here on it is what was tested already.
		}
		seen[left] = true
		s.readable(!sick)
		if s.load().Owner == nil {
			s.userGoesOn()
		}
		s.again(k, whole, want, turns-before, s.starts() > before)
		if k.kept != "" && !s.has(k.kept) {
			s.fatalf("%s is lost", k.kept)
		}
		s.settled()
		if names := s.names(); !ended[names] {
			ended[names] = true // What comes now depends on nothing else.
			s.finish()
		}
	}
	kills.done()
}

// again runs the call again, and what is due, until the run stands where it would have without a kill.
// The worker must have been started turns times by one call, and not again by the first of them if the
// killed call has started it.
func (s *sandbox) again(k killTest, whole result, want standing, turns int, paid bool) {
	s.t.Helper()
	const most = 8
	calls := []string{k.call}
	for len(calls) < most {
		before := s.starts()
		r := s.exec(k.call)
		switch started := s.starts() - before; {
		case len(calls) == 1 && paid && started > 0:
			s.fatalf("the turn was paid for, and git spot %s started the worker again", k.call)
		case started > turns:
			s.fatalf("git spot %s started the worker %d times", k.call, started)
		}
		arrived, due := s.arrived(k, want), s.due()
		switch {
		case arrived && r.status == whole.status && r.code == whole.code:
			return
		case arrived && r.code == schemas.CodeConcurrencyLimit && !strings.Contains(k.call, "--id"):
			return // It would have been another run.
		case r.code != schemas.CodeWrongState && r.code != schemas.CodeRunExists, !strings.Contains(r.hint, due):
			s.fatalf("git spot %s: %s\nit comes to %+v, want %+v, and %q is due", k.call, r, s.stand(), want, due)
		case arrived:
			return
		case due == "":
			s.fatalf("nothing is due: %+v, want %+v", s.stand(), want)
		}
		due = strings.NewReplacer("git spot ", "", "FILE", "../approve.json", "TEXT", "Land").Replace(due)
		before = s.starts()
		s.exec(due)
		if started := s.starts() - before; started > 0 && !strings.HasPrefix(due, "run ") {
			s.fatalf("git spot %s started a worker", due)
		}
		if s.arrived(k, want) {
			return
		}
		calls = append(calls, due, k.call)
	}
	s.fatalf("it comes to no end: %q", calls)
}

// due is the command that is due for the run.
func (s *sandbox) due() string {
	run := s.load()
	if run.ID == "" {
		return ""
	}
	return (&gitstate.Run{State: *run}).Due(run.Owner != nil)
}

func (s *sandbox) arrived(k killTest, want standing) bool {
	now := s.stand()
	if k.otherWork && now.diff != "" {
		want.diff = now.diff
	}
	if slices.Contains(k.ends, now.state) {
		want.state = now.state
	}
	return now == want
}

// standing is where a run and the user's branch stand.
type standing struct {
	state  schemas.State
	owned  bool // no command is running here: the owner is gone
	diff   string
	landed bool
}

func (s *sandbox) stand() standing {
	s.t.Helper()
	run := s.load()
	now := standing{state: run.State, owned: run.Owner != nil, diff: run.DiffSHA256}
	switch tip := s.git("rev-parse", s.branch); {
	case tip == s.base:
	case tip == run.Approved && s.git("rev-list", "--count", s.base+".."+s.branch) == "1":
		now.landed = true
	default:
		s.fatalf("%s is at %s, which is neither base %s nor approved %s", s.branch, tip, s.base, run.Approved)
	}
	return now
}

// readable holds every reader to what a killed command left.
func (s *sandbox) readable(sound bool) {
	s.t.Helper()
	s.must("list --running --worktrees")
	if s.id() != "" {
		s.must("inspect --id x")
		s.must("log --id x")
	}
	if sound {
		s.must("fsck")
	}
	s.git("fsck", "--no-dangling", "--no-progress")
	s.untouched()
}

// holders says which runs hold slots.
func (s *sandbox) holders() (ids []string) {
	s.t.Helper()
	var rows []listRow
	r := s.must("list --running")
	s.check(json.Unmarshal(r.out, &rows))
	for _, row := range rows {
		ids = append(ids, string(row.ID))
	}
	return ids
}

// usersHook is what the user adds when no command is under way. It is not taken for a worker's.
const usersHook = "repo/.git/hooks/post-commit"

func (s *sandbox) userGoesOn() {
	s.check(os.MkdirAll(filepath.Join(s.dir, filepath.Dir(usersHook)), 0o755))
	s.mine[usersHook] = "exit 0\n"
	s.write(usersHook, s.mine[usersHook])
}

// untouched fails if anything that is the user's was changed. The files of an unfinished landing are
// judged at the end.
func (s *sandbox) untouched() {
	s.t.Helper()
	for name, was := range s.mine {
		if now := s.read(name); now != was {
			s.fatalf("%s is %q, and was %q", name, now, was)
		}
	}
	if now := s.git("for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags", "refs/stash"); now != s.refs {
		s.fatalf("the user's refs are %q, and were %q", now, s.refs)
	}
}

// settled fails if anything is not as it should be once the run stands where the call leads to.
func (s *sandbox) settled() {
	s.t.Helper()
	if status := s.status(); status != s.clean {
		s.fatalf("git status says %q, and said %q", status, s.clean)
	}
	var holders []string
	if gitstate.StandingOf(s.load().State).Slot {
		holders = []string{s.id()}
	}
	if now := s.holders(); !slices.Equal(now, holders) {
		s.fatalf("%q hold slots, and not %q", now, holders)
	}
	s.must("fsck")
	s.quiet()
	s.untouched()
}

// finish ends the run, looks for anything that is left of it, and makes another one in the only slot.
func (s *sandbox) finish() {
	s.t.Helper()
	for state := s.load().State; state != schemas.StateCleaned; state = s.load().State {
		switch state {
		case schemas.StateReported:
			s.must("cleanup --id x")
		case schemas.StateIntegrated:
			s.must("report --id x")
		case schemas.StateAborted:
			s.must(callDiscard)
		default:
			s.must(callAbort)
		}
	}
	if left := s.left(); len(left) > 0 {
		s.fatalf("left behind: %q", left)
	}
	s.must("prepare --task ../task.json --id another")
	if now := s.holders(); !slices.Equal(now, []string{"another"}) {
		s.fatalf("%q hold slots, and not the new run", now)
	}
	s.must("fsck")
	s.untouched()
}

// left lists what nobody needs once a run is cleaned.
func (s *sandbox) left() []string {
	return slices.DeleteFunc(s.leaves("."), func(name string) bool {
		dir, base := filepath.Split(name)
		switch {
		case dir == "repo/.git/hooks/":
			return s.mine[name] != ""
		case strings.HasPrefix(name, "repo/.git/"):
			// The lock of a run is never removed: see gitstate/owners.go.
			return dir == "repo/.git/spot/" || !strings.HasPrefix(name, "repo/.git/spot/") && !strings.HasSuffix(base, ".lock")
		case strings.HasPrefix(name, "home/state/"):
			return base == ".git-dirs"
		}
		return !strings.HasPrefix(name, "tmp/")
	})
}

// sandbox is a repository of the user's, his home, and the files of a caller. It always lies at the
// same place, because ledgers name worktrees by their path.
type sandbox struct {
	t      *testing.T
	dir    string
	backup string
	at     string // for messages

	branch string // that the run lands on
	base   string
	refs   string
	torn   bool              // a command was killed on the way to the one under test
	clean  string            // git status
	mine   map[string]string // files of the user's with their content
}

// scripts are the workers of the profiles. Each of them counts that it was started.
var scripts = map[string]string{
	"honest":   `echo new >>src/a; echo b$GIT_SPOT_ATTEMPT >src/b`,
	"tired":    `echo new >>src/a; echo '{"type":"error","class":"transient","message":"too busy"}'; exit 1`,
	"clumsy":   `echo new >>src/a; echo b >src/b; exit 1`,
	"stranger": `echo '{"type":"error","class":"auth","message":"who are you?"}'; exit 1`,
	"cheat":    `echo 'exit 0' >tests/check.sh`,
}

const contract = `{
	"schemaVersion": 1, "title": "Renew", "objective": "src/a must say new.", "domain": "tooling", "risk": "low",
	"allowedPaths": ["src/**"], "lockedPaths": ["tests/**"],
	"acceptance": [{"id": "A1", "text": "src/a says new"}],
	"verification": [{"id": "V1", "argv": ["sh", "%s"]}]
}`

func newSandbox(t *testing.T) *sandbox {
	top := t.TempDir()
	if dir, err := os.MkdirTemp("/dev/shm", "git-spot-fault-"); err == nil {
		t.Cleanup(func() {
			if err := durable.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		top = dir
	}
	s := &sandbox{t: t, dir: filepath.Join(top, "box"), backup: filepath.Join(top, "backup"), branch: "refs/heads/main", mine: map[string]string{}}
	for _, name := range []string{"repo/src", "repo/tests", "home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(s.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.write("home/.gitconfig", "[user]\n\tname = A U Thor\n\temail = author@example.com\n")
	s.write("repo/src/a", "old\n")
	s.write("repo/src/c", "c\n")
	s.write("repo/tests/check.sh", "grep -q new src/a\n")
	s.write("repo/tests/red.sh", "exit 1\n")
	// It looks like a user's hook, and the next git commit would run it.
	plant := "mkdir -p " + s.dir + "/repo/.git/hooks; echo evil >" + s.dir + "/repo/.git/hooks/pre-commit"
	s.write("repo/tests/plant.sh", plant+"\n")
	s.write("plant.json", fmt.Sprintf(contract, "tests/plant.sh"))
	s.write("task.json", fmt.Sprintf(contract, "tests/check.sh"))
	s.write("red.json", fmt.Sprintf(contract, "tests/red.sh"))
	s.write("starts", "")
	s.git("init", "--quiet", "--template=", "--initial-branch=main")
	s.git("add", "-A")
	s.git("commit", "--quiet", "-m", "base")
	for name, script := range scripts {
		s.profile(name, s.count()+"; "+script)
	}
	s.profile("planter", s.count()+"; echo new >>src/a; "+plant)
	s.git("config", "spot.profile.tired.fallbackProfiles", "honest")
	s.git("config", "spot.defaultProfile", "honest")
	s.git("config", "spot.maxConcurrentRuns", "1")
	// Every change is worth a self-review, so that its state is among those that a kill falls into.
	s.git("config", "spot.selfReview.minDiffBytes", "0")
	s.git("config", "spot.selfReview.minSurfaceBytes", "0")
	s.write("repo/mine", "not in git\n")
	return s
}

// profile is a worker that is a script.
func (s *sandbox) profile(name, script string) {
	file := filepath.Join(s.dir, name+".sh")
	s.check(os.WriteFile(file, []byte("cat >/dev/null\n"+script+"\n"), 0o600))
	key := "spot.profile." + name
	s.git("config", key+".adapter", "command")
	s.git("config", key+".output", "jsonl")
	s.git("config", "--add", key+".argv", "sh")
	s.git("config", "--add", key+".argv", file)
}

// count is what a script says so that starts counts it.
func (s *sandbox) count() string { return "echo x >>" + s.dir + "/starts" }

// save keeps the sandbox as it is now, and goes on with a copy of it, as restore makes them: files that were copied have
// other times than git's index says, and take other calls of git.
func (s *sandbox) save() {
	if !s.torn {
		s.look()
	}
	s.check(durable.RemoveAll(s.backup))
	s.check(durable.CopyTree(s.dir, s.backup))
	s.restore()
}

// look remembers what is the user's.
func (s *sandbox) look() {
	for _, name := range []string{"repo/.git/config", "repo/.git/HEAD", "repo/mine", "home/.gitconfig"} {
		s.mine[name] = s.read(name)
	}
	s.base = s.git("rev-parse", s.branch)
	if base := s.load().Base; base.Commit != "" {
		s.base, s.branch = base.Commit, base.Branch
	}
	s.refs = s.git("for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags", "refs/stash")
	s.clean = s.status()
	for line := range strings.Lines(s.clean) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "M "); ok {
			s.mine["repo/"+name] = s.read("repo/" + name)
		}
	}
}

func (s *sandbox) restore() {
	s.check(durable.RemoveAll(s.dir))
	s.check(durable.CopyTree(s.backup, s.dir))
}

// points runs a command to its end and returns the points that it passed, as "point detail".
func (s *sandbox) points(call string) ([]string, result) {
	s.t.Helper()
	r := s.exec(call, "GIT_SPOT_FAULT_LOG="+filepath.Join(s.dir, "points"))
	var points []string
	for line := range strings.Lines(s.read("points")) {
		_, point, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		points = append(points, point)
	}
	return points, r
}

func then(before []step, steps ...step) []step { return append(slices.Clip(before), steps...) }

// spot is a command that comes to its end, whatever that is.
func spot(call string) step {
	return func(s *sandbox) {
		if r := s.exec(call); r.status != 0 && r.status != 7 && r.status != 8 {
			s.fatalf("git spot %s: %s", call, r)
		}
	}
}

// killedAt is a command that is killed at a point: each of marks is part of a point and its detail,
// after that of the mark before, and the last one is where it dies.
func killedAt(call string, marks ...string) step {
	return func(s *sandbox) {
		s.save()
		s.torn = true
		points, _ := s.points(call)
		n := 0
		for _, mark := range marks {
			i := slices.IndexFunc(points[n:], func(point string) bool { return strings.Contains(point, mark) })
			if i < 0 {
				s.fatalf("git spot %s does not pass %q: %q", call, mark, points)
			}
			n += i + 1
		}
		s.restore()
		if r := s.exec(call, "GIT_SPOT_FAULT=kill@"+strconv.Itoa(n)); r.signal != syscall.SIGKILL {
			s.fatalf("git spot %s was not killed at %q: %s", call, marks, r)
		}
	}
}

func git(args ...string) step { return func(s *sandbox) { s.git(args...) } }

func write(name, content string) step { return func(s *sandbox) { s.write(name, content) } }

// inWorktree is a file that the worker's folder has and no candidate.
func inWorktree(name string) step {
	return func(s *sandbox) {
		s.check(os.WriteFile(filepath.Join(s.load().Worktree, name), []byte("late\n"), 0o600))
	}
}

// reviews writes the verdicts of a caller who has seen the change.
func reviews(s *sandbox) {
	const form = `{"schemaVersion": 1, "verdict": %q, "diffSha256": %q, "evidence": [{"criterion": "A1", "text": "read"}], "findings": [%s]}`
	hash := s.load().DiffSHA256
	s.write("approve.json", fmt.Sprintf(form, "approve", hash, ""))
	s.write("revise.json", fmt.Sprintf(form, "revise", hash, `{"severity": "P1", "summary": "once more", "resolved": false}`))
}

// result is how a command ended.
type result struct {
	status int
	signal syscall.Signal
	code   schemas.Code
	hint   string
	out    []byte
	said   string
}

func newResult(status int, out []byte, said string) result {
	r := result{status: status, out: out, said: said}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	var wire struct{ Error schemas.Error }
	if json.Unmarshal([]byte(lines[len(lines)-1]), &wire) == nil {
		r.code, r.hint = wire.Error.Code, wire.Error.Hint
	}
	return r
}

func (r result) String() string {
	how := fmt.Sprintf("exit status %d", r.status)
	if r.signal != 0 {
		how = "signal " + r.signal.String()
	}
	return how + "\n" + r.said + string(r.out)
}

// environment is that of every process of a sandbox, and of no other.
func (s *sandbox) environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir + "/home", "XDG_STATE_HOME=" + s.dir + "/home/state",
		"TMPDIR=" + s.dir + "/tmp", "GIT_CONFIG_NOSYSTEM=1", "TZ=UTC",
	}
}

func (s *sandbox) command(ctx context.Context, call string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git-spot", s.words(call)...)
	cmd.Dir, cmd.Env = filepath.Join(s.dir, "repo"), append(s.environment(), env...)
	return cmd
}

// exec runs a command in a process of its own.
func (s *sandbox) exec(call string, env ...string) result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := s.command(ctx, call, env...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || ctx.Err() != nil {
		s.fatalf("git spot %s: %v %v", call, err, exit)
	}
	r := newResult(cmd.ProcessState.ExitCode(), out.Bytes(), stderr.String())
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		r.signal = status.Signal()
	}
	return r
}

// spot runs a command in this process, which is faster.
func (s *sandbox) spot(call string) result {
	s.t.Helper()
	environment := map[string]string{}
	for _, kv := range s.environment() {
		name, value, _ := strings.Cut(kv, "=")
		environment[name] = value
	}
	var out, stderr bytes.Buffer
	status := run(s.t.Context(), &env{
		in: strings.NewReader(""), out: &out, err: &stderr, now: time.Now,
		args:   append([]string{"-C", filepath.Join(s.dir, "repo")}, s.words(call)...),
		getenv: func(name string) string { return environment[name] },
	})
	return newResult(status, out.Bytes(), stderr.String())
}

// must is spot for a command that succeeds.
func (s *sandbox) must(call string) result {
	s.t.Helper()
	r := s.spot(call)
	if r.status != 0 {
		s.fatalf("git spot %s: %s", call, r)
	}
	return r
}

// words splits a command line and puts the id of the run under test for x.
func (s *sandbox) words(call string) []string {
	words := strings.Fields(call)
	if i := slices.Index(words, "x"); i > 0 {
		words[i] = cmp.Or(s.id(), "x")
	}
	return words
}

// load reads the run under test as git has it; a zero one before it exists.
func (s *sandbox) load() *schemas.RunState {
	s.t.Helper()
	id := s.id()
	if id == "" {
		return &schemas.RunState{}
	}
	state, err := schemas.ParseState([]byte(s.git("cat-file", "blob", "refs/spot/runs/"+id+":state.json")))
	s.check(err)
	return state
}

// id is that of the run under test, "" before it exists.
func (s *sandbox) id() string {
	entries, _ := os.ReadDir(filepath.Join(s.dir, "repo/.git/refs/spot/runs"))
	for _, e := range entries {
		if e.Name() != "another" {
			return e.Name()
		}
	}
	return ""
}

// has reports whether any ref of git spot holds a file.
func (s *sandbox) has(name string) bool {
	for _, ref := range strings.Fields(s.git("for-each-ref", "--format=%(refname)", "refs/spot/attempts", "refs/spot/candidates")) {
		if s.git("ls-tree", "--name-only", ref, name) == name {
			return true
		}
	}
	return false
}

func (s *sandbox) status() string {
	return s.git("status", "--porcelain", "--untracked-files=all")
}

func (s *sandbox) git(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = filepath.Join(s.dir, "repo"), append(s.environment(), "GIT_OPTIONAL_LOCKS=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (s *sandbox) starts() int { return strings.Count(s.read("starts"), "\n") }

func (s *sandbox) read(name string) string {
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	s.check(err)
	return string(data)
}

func (s *sandbox) write(name, content string) {
	s.check(os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600))
}

// leaves lists the files and empty folders below a folder.
func (s *sandbox) leaves(folder string) []string {
	var leaves []string
	s.check(filepath.WalkDir(filepath.Join(s.dir, folder), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			if entries, err := os.ReadDir(path); err != nil || len(entries) > 0 {
				return err
			}
		}
		leaves = append(leaves, strings.TrimPrefix(path, s.dir+"/"))
		return nil
	}))
	return leaves
}

// fingerprint is the content of the sandbox, without what a random name or another try tells apart.
func (s *sandbox) fingerprint() string {
	h := sha256.New()
	s.check(filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := randomName.ReplaceAllString(strings.TrimPrefix(path, s.dir), "-")
		fmt.Fprintf(h, "%q %s\n", name, d.Type())
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(h, "%d %s", len(data), data)
		return err
	}))
	return string(h.Sum(nil))
}

// randomName is the end of what os.MkdirTemp and os.CreateTemp make up.
var randomName = regexp.MustCompile(`-[0-9]+$`)

// names is where the run stands and which files there are, objects apart.
func (s *sandbox) names() string {
	names := []string{string(s.load().State)}
	for _, name := range s.leaves(".") {
		if !strings.HasPrefix(name, "repo/.git/objects/") {
			names = append(names, randomName.ReplaceAllString(name, "-"))
		}
	}
	return strings.Join(names, "\n")
}

// quiet fails if a process of the sandbox goes on after git spot has ended.
func (s *sandbox) quiet() {
	s.t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		left := s.processes()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.fatalf("these processes go on: %q", left)
		}
	}
}

// processes lists those that have the sandbox in their environment, or a file of it open.
func (s *sandbox) processes() []string {
	folders, err := filepath.Glob("/proc/[0-9]*")
	s.check(err)
	var found []string
	for _, folder := range folders {
		environ, _ := os.ReadFile(folder + "/environ")
		ours := bytes.Contains(environ, []byte(s.dir+"/"))
		if !ours && len(environ) == 0 { // a supervisor has none
			open, _ := filepath.Glob(folder + "/fd/*")
			ours = slices.ContainsFunc(open, func(fd string) bool {
				to, _ := os.Readlink(fd)
				return strings.HasPrefix(to, s.dir+"/")
			})
		}
		if ours {
			cmdline, _ := os.ReadFile(folder + "/cmdline")
			found = append(found, folder+": "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

func (s *sandbox) check(err error) {
	if err != nil {
		s.fatalf("%v", err)
	}
}

func (s *sandbox) fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf(s.at+": "+format, args...)
}

// killCounts counts kills by point and command.
type killCounts struct {
	mu    sync.Mutex
	tests int // that came to their end
	n     map[fault.Point]map[string]int
}

func (c *killCounts) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tests++
}

func (c *killCounts) add(p fault.Point, command string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[fault.Point]map[string]int{}
	}
	if c.n[p] == nil {
		c.n[p] = map[string]int{}
	}
	c.n[p][command]++
}

// of counts the kills at a point and of a command; "" is any.
func (c *killCounts) of(p fault.Point, command string) int {
	sum := 0
	for point, by := range c.n {
		for name, n := range by {
			if (p == "" || p == point) && (command == "" || command == name) {
				sum += n
			}
		}
	}
	return sum
}

func (c *killCounts) table() string {
	names := map[string]bool{}
	for _, k := range killTests {
		names[k.command] = true
	}
	columns := slices.Sorted(maps.Keys(names))
	var out bytes.Buffer
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(title string, p fault.Point) {
		fmt.Fprintf(table, "%s\t", title)
		for _, command := range columns {
			fmt.Fprintf(table, "%d\t", c.of(p, command))
		}
		fmt.Fprintf(table, "%d\t\n", c.of(p, ""))
	}
	fmt.Fprintf(table, "\t%s\tall\t\n", strings.Join(columns, "\t"))
	for _, p := range fault.Points {
		row(string(p), p)
	}
	row("all", "")
	_ = table.Flush()
	return out.String()
}
