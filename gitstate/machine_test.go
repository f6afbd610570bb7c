package gitstate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

// oracle is what docs/format.md sections 6 and 7 say, written down without a look at the table: kinds, from,
// trigger, to. A blocked state names its cause. "gone!" before the trigger: only when the owner is gone.
// "unproven!": only while the verification that stands has not passed.
const oracle = `
code,read-only  -                     prepare      prepared

code            prepared              run          running failed
code            running               run          running implemented interrupted blocked:environment failed
read-only       prepared              run          running failed
read-only       running               run          running done interrupted blocked:environment failed

code            reviewing             revise       revising failed
code            selfReviewing         revise       revising failed
code            revising              revise       revising implemented interrupted blocked:environment failed
code            reviewing             resume       revising failed
code            revising              resume       revising implemented interrupted blocked:environment failed

code            implemented           verify       verifying failed
code            reviewing             unproven!verify verifying failed
code            verifying             verify       selfReviewing reviewing approved blocked:gate implemented failed

code            selfReviewing         self-review  selfReviewing reviewing
code            reviewing             approve      approved failed
code            selfReviewing         approve      approved failed

code            approved              rebase       implemented
code            reviewing             rebase       implemented
code            selfReviewing         rebase       implemented
code            blocked:source        rebase       implemented

code            approved              integrate    integrating blocked:source failed
code            blocked:source        integrate    integrating blocked:source failed
code            integrating           integrate    integrated blocked:source approved

code            interrupted           recover      implemented prepared reviewing failed
read-only       interrupted           recover      prepared failed
code            running               gone!recover implemented prepared failed
read-only       running               gone!recover prepared failed
code            revising              gone!recover implemented reviewing failed
code            verifying             gone!recover implemented reviewing failed
code            selfReviewing         gone!recover reviewing
code            integrating           gone!recover integrated approved blocked:source
code            blocked:environment   recover      prepared reviewing selfReviewing
read-only       blocked:environment   recover      prepared

code,read-only  running               take-over    running
code            revising              take-over    revising
code            verifying             take-over    verifying
code            selfReviewing         take-over    selfReviewing
code            integrating           take-over    integrating

code,read-only  prepared              abort        aborted
code,read-only  running               abort        aborted
code            implemented           abort        aborted
code            verifying             abort        aborted
code            selfReviewing         abort        aborted
code            reviewing             abort        aborted
code            revising              abort        aborted
code            approved              abort        aborted
code            integrating           gone!abort   aborted
code,read-only  interrupted           abort        aborted
code            blocked:source        abort        aborted
code            blocked:gate          abort        aborted
code,read-only  blocked:environment   abort        aborted
code,read-only  failed                abort        aborted
code,read-only  aborted               abort        aborted
read-only       done                  abort        aborted

code            integrated            report       reported
read-only       done                  report       reported
code            blocked:source        report       blocked:source
code            blocked:gate          report       blocked:gate
code,read-only  blocked:environment   report       blocked:environment
code,read-only  failed                report       failed
code,read-only  aborted               report       aborted

code,read-only  reported              cleanup      cleaned
code,read-only  reported              discard      cleaned
code            integrated            discard      cleaned
read-only       done                  discard      cleaned
code            blocked:source        discard      cleaned
code            blocked:gate          discard      cleaned
code,read-only  blocked:environment   discard      cleaned
code,read-only  failed                discard      cleaned
code,read-only  aborted               discard      cleaned
`

// node is a state of the machine as the oracle names it.
type node struct {
	class string // code or read-only
	state string // with ":cause" if it is blocked, "-" before the first event
}

type edge struct {
	node
	by   gitstate.Trigger
	to   string
	gone bool
	// unproven is the condition of the same name
	unproven bool
}

func oracleEdges(t *testing.T) map[edge]bool {
	t.Helper()
	edges := map[edge]bool{}
	for line := range strings.Lines(oracle) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		by, gone := strings.CutPrefix(words[2], "gone!")
		by, unproven := strings.CutPrefix(by, "unproven!")
		switch by {
		case "take-over":
			by = string(gitstate.ByTakeOver)
		case "discard":
			by = string(gitstate.ByDiscard)
		}
		for class := range strings.SplitSeq(words[0], ",") {
			for _, to := range words[3:] {
				edges[edge{node{class, words[1]}, gitstate.Trigger(by), to, gone, unproven}] = true
			}
		}
	}
	return edges
}

// nodesOf lists all nodes of one class.
func nodesOf(class string) []node {
	nodes := []node{{class, "-"}}
	for _, row := range gitstate.Standings {
		if row.State != schemas.StateBlocked {
			nodes = append(nodes, node{class, string(row.State)})
			continue
		}
		for _, cause := range []schemas.BlockedCause{schemas.BlockedEnvironment, schemas.BlockedGate, schemas.BlockedSource} {
			nodes = append(nodes, node{class, "blocked:" + string(cause)})
		}
	}
	return nodes
}

// example is a run at n that has everything its state can have.
func (n node) example() *schemas.RunState {
	s := &schemas.RunState{
		ID: "x1", Kind: schemas.KindCode, Slot: 1, Approved: "c", DiffSHA256: "h", Base: schemas.Base{Branch: "refs/heads/main"},
		Verification: &schemas.VerificationSummary{Verdict: schemas.VerdictPass, DiffSHA256: "h"},
		Integration:  &schemas.Integration{},
	}
	if n.class == "read-only" {
		s.Kind = schemas.KindExplore
	}
	state, cause, blocked := strings.Cut(n.state, ":")
	if state != "-" {
		s.State = schemas.State(state)
	}
	if blocked {
		s.Blocked = &schemas.Blocked{Cause: schemas.BlockedCause(cause)}
	}
	return s
}

var triggers = []gitstate.Trigger{
	gitstate.ByPrepare, gitstate.ByRun, gitstate.ByVerify, gitstate.BySelfReview, gitstate.ByRevise, gitstate.ByResume,
	gitstate.ByApprove, gitstate.ByRebase, gitstate.ByIntegrate, gitstate.ByReport, gitstate.ByCleanup, gitstate.ByDiscard,
	gitstate.ByAbort, gitstate.ByRecover, gitstate.ByTakeOver,
}

func TestTableIsTheDesign(t *testing.T) {
	t.Parallel()
	edges := oracleEdges(t)
	tried := 0
	for _, class := range []string{"code", "read-only"} {
		reached := reach(edges, node{class, "-"})
		for _, from := range nodesOf(class) {
			if !reached[from] {
				continue
			}
			for _, by := range triggers {
				for _, gone := range []bool{false, true} {
					for _, proven := range []bool{false, true} {
						anywhere := false
						for _, to := range nodesOf(class)[1:] {
							want := false
							for e := range edges {
								want = want || e.node == from && e.by == by && e.to == to.state && (gone || !e.gone) && (!proven || !e.unproven)
							}
							before, after := from.example(), to.example()
							if !proven {
								before.Verification = nil
							}
							if from.state == "blocked:environment" && by == gitstate.ByRecover {
								before.Blocked.From = after.State
							}
							_, err := gitstate.Move(before, after, by, gone)
							if got := err == nil; got != want {
								t.Errorf("%s %s by %s to %s, gone %v, proven %v: %v, want %v (%v)", class, from.state, by, to.state, gone, proven, got, want, err)
							}
							anywhere = anywhere || want
							tried++
						}
						before := from.example()
						if !proven {
							before.Verification = nil
						}
						if got := gitstate.Allowed(before, by, gone); got != anywhere {
							t.Errorf("%s %s: %s is allowed %v, want %v", class, from.state, by, got, anywhere)
						}
					}
				}
			}
		}
	}
	t.Logf("%d combinations", tried)
}

// reach lists what can be reached from a node, without going through the states in closed.
func reach(edges map[edge]bool, from node, closed ...string) map[node]bool {
	seen := map[node]bool{from: true}
	for queue := []node{from}; len(queue) > 0; queue = queue[1:] {
		for e := range edges {
			to := node{e.class, e.to}
			if e.node == queue[0] && !seen[to] && !slices.Contains(closed, e.to) {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return seen
}

func TestEveryStateIsReachedAndLeft(t *testing.T) {
	t.Parallel()
	edges := oracleEdges(t)
	readOnly := []string{"-", "prepared", "running", "done", "interrupted", "blocked:environment", "failed", "aborted", "reported", "cleaned"}
	for _, class := range []string{"code", "read-only"} {
		reached := reach(edges, node{class, "-"})
		for _, n := range nodesOf(class) {
			want := class == "code" && n.state != "done" || class == "read-only" && slices.Contains(readOnly, n.state)
			if reached[n] != want {
				t.Errorf("%v is reached: %v, want %v", n, reached[n], want)
			}
			if want && !reach(edges, n)[node{class, "cleaned"}] {
				t.Errorf("%v never comes to an end", n)
			}
		}
	}
	used := map[gitstate.Trigger]bool{}
	for _, row := range gitstate.Transitions {
		used[row.By] = true
	}
	if want := slices.Sorted(slices.Values(triggers)); !slices.Equal(slices.Sorted(maps.Keys(used)), want) {
		t.Errorf("triggers in use: %v, want %v", used, want)
	}
}

func TestNoGateIsSkipped(t *testing.T) {
	t.Parallel()
	edges := oracleEdges(t)
	start := node{"code", "-"}
	for _, c := range []struct{ gate, behind string }{
		{"running", "implemented"},
		{"implemented", "verifying"},
		{"verifying", "reviewing"},
		{"verifying", "selfReviewing"},
		{"verifying", "approved"},
		{"approved", "integrating"},
		{"integrating", "integrated"},
		{"integrated", "reported"},
		{"integrating", "reported"},
	} {
		// A turn that gave nothing goes back to where it came from, which the states alone do not tell: from
		// there the promise of approved holds, see TestPromisesOfStates.
		closed := []string{c.gate}
		if c.gate == "implemented" || c.gate == "verifying" {
			closed = append(closed, "interrupted", "blocked:environment")
		}
		if reach(edges, start, closed...)[node{"code", c.behind}] {
			t.Errorf("%s can be reached without %s", c.behind, c.gate)
		}
	}
	final := reach(edges, node{"code", "blocked:gate"})
	want := map[node]bool{{"code", "blocked:gate"}: true, {"code", "aborted"}: true, {"code", "cleaned"}: true}
	if !maps.Equal(final, want) {
		t.Errorf("from blocked by a gate one comes to %v", final)
	}
}

func TestPromisesOfStates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to string
		by       gitstate.Trigger
		spoil    func(before, after *schemas.RunState)
	}{
		"approved without verification":   {"reviewing", "approved", gitstate.ByApprove, func(_, s *schemas.RunState) { s.Verification = nil }},
		"approved with a failed one":      {"reviewing", "approved", gitstate.ByApprove, func(_, s *schemas.RunState) { s.Verification.Verdict = schemas.VerdictFail }},
		"approved with another hash":      {"selfReviewing", "approved", gitstate.ByApprove, func(_, s *schemas.RunState) { s.DiffSHA256 = "i" }},
		"approved without a commit":       {"reviewing", "approved", gitstate.ByApprove, func(_, s *schemas.RunState) { s.Approved = "" }},
		"integrating without an intent":   {"approved", "integrating", gitstate.ByIntegrate, func(_, s *schemas.RunState) { s.Integration = nil }},
		"integrated without a commit":     {"integrating", "integrated", gitstate.ByIntegrate, func(_, s *schemas.RunState) { s.Approved = "" }},
		"blocked without a cause":         {"running", "blocked:environment", gitstate.ByRun, func(_, s *schemas.RunState) { s.Blocked = nil }},
		"blocked by another cause":        {"verifying", "blocked:gate", gitstate.ByVerify, func(_, s *schemas.RunState) { s.Blocked.Cause = schemas.BlockedSource }},
		"running without a slot":          {"prepared", "running", gitstate.ByRun, func(_, s *schemas.RunState) { s.Slot = 0 }},
		"recovered to another state":      {"blocked:environment", "prepared", gitstate.ByRecover, func(s, _ *schemas.RunState) { s.Blocked.From = schemas.StateReviewing }},
		"verified again though it passed": {"reviewing", "verifying", gitstate.ByVerify, func(_, _ *schemas.RunState) {}},
	} {
		before, after := node{"code", c.from}.example(), node{"code", c.to}.example()
		c.spoil(before, after)
		if _, err := gitstate.Move(before, after, c.by, false); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestStandings(t *testing.T) {
	t.Parallel()
	// A slot is held in exactly these; in the others nobody works.
	slots := []schemas.State{schemas.StatePrepared, schemas.StateRunning, schemas.StateImplemented, schemas.StateVerifying, schemas.StateRevising}
	owned := []schemas.State{schemas.StateRunning, schemas.StateVerifying, schemas.StateRevising, schemas.StateIntegrating}
	seen := map[schemas.State]bool{}
	for _, row := range gitstate.Standings {
		if seen[row.State] {
			t.Errorf("%s comes twice", row.State)
		}
		seen[row.State] = true
		if row.Slot != slices.Contains(slots, row.State) || row.Owned != slices.Contains(owned, row.State) || row.Parked != (row.State == schemas.StateSelfReviewing) {
			t.Errorf("row %+v", row)
		}
	}
	for _, row := range gitstate.Transitions {
		if row.From != "" && !seen[row.From] || !seen[row.To] {
			t.Errorf("row %+v has an unknown state", row)
		}
	}
	if len(seen) != 17 {
		t.Errorf("%d states", len(seen))
	}
}

func TestNotedEvents(t *testing.T) {
	t.Parallel()
	noted := map[[2]schemas.State]bool{}
	for i, row := range gitstate.Transitions {
		ends := [2]schemas.State{row.From, row.To}
		if was, seen := noted[ends]; seen && was != row.Note {
			t.Errorf("row %d %+v: another row of %v has Note %v", i, row, ends, was)
		}
		noted[ends] = row.Note
		mustNote := row.From == schemas.StateVerifying && (row.To == schemas.StateReviewing || row.To == schemas.StateSelfReviewing || row.To == schemas.StateBlocked) ||
			row.To == schemas.StateApproved && row.By == gitstate.ByApprove || row.To == schemas.StateIntegrated || row.To == schemas.StateReported
		if mustNote && !row.Note {
			t.Errorf("row %+v is not noted", row)
		}
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	failed := func(s *schemas.RunState) { s.Verification.Verdict = schemas.VerdictFail }
	for _, c := range []struct {
		state       string
		change      func(*schemas.RunState)
		interrupted bool
		want        string
	}{
		{state: "prepared", want: "git spot run --id x1"},
		{state: "running", want: "git spot log --id x1 -f"},
		{state: "running", interrupted: true, want: "git spot recover --id x1"},
		{state: "implemented", want: "git spot verify --id x1"},
		{state: "verifying", interrupted: true, want: "git spot recover --id x1"},
		{state: "selfReviewing", want: "git spot self-review --id x1"},
		{state: "selfReviewing", change: func(s *schemas.RunState) { s.Owner = &schemas.Owner{} }, want: "git spot log --id x1 -f"},
		{state: "reviewing", want: "git spot approve --id x1 --review FILE --message TEXT"},
		{state: "reviewing", change: failed, want: "git spot revise --id x1 --review FILE"},
		{state: "reviewing", change: func(s *schemas.RunState) { s.Verification = nil }, want: "git spot verify --id x1"},
		{state: "reviewing", change: func(s *schemas.RunState) { failed(s); s.Revisions = 1 }, want: "git spot revise --id x1 --review FILE"},
		{state: "reviewing", change: func(s *schemas.RunState) { failed(s); s.Revisions = 2 }, want: "git spot abort --id x1"},
		{state: "reviewing", change: func(s *schemas.RunState) { s.Revisions = 2 }, want: "git spot approve --id x1 --review FILE --message TEXT"},
		{state: "reviewing", change: func(s *schemas.RunState) { s.Verification, s.Revisions = nil, 2 }, want: "git spot verify --id x1"},
		{state: "approved", want: "git spot integrate --id x1"},
		{state: "approved", change: func(s *schemas.RunState) { s.Base.Branch = "" }, want: "git spot integrate --id x1 --onto BRANCH"},
		{state: "integrated", want: "git spot report --id x1"},
		{state: "reported", want: "git spot cleanup --id x1"},
		{state: "cleaned", want: ""},
		{state: "interrupted", want: "git spot recover --id x1"},
		{state: "blocked:environment", want: "git spot recover --id x1"},
		{state: "blocked:source", want: "git spot integrate --id x1"},
		{state: "blocked:source", change: func(s *schemas.RunState) { s.Blocked.Code = schemas.CodeSourceMoved }, want: "git spot abort --id x1"},
		{state: "blocked:source", change: func(s *schemas.RunState) { s.Base.Branch, s.Blocked.Code = "", schemas.CodeSourceMoved }, want: "git spot integrate --id x1 --onto BRANCH"},
		{state: "blocked:gate", want: "git spot report --id x1"},
		{state: "blocked:gate", change: func(s *schemas.RunState) { s.Reported = true }, want: "git spot cleanup --id x1 --discard"},
		{state: "failed", want: "git spot report --id x1"},
		{state: "aborted", want: "git spot report --id x1"},
		{state: "aborted", change: func(s *schemas.RunState) { s.Reported = true }, want: "git spot cleanup --id x1 --discard"},
		{state: "done", want: "git spot report --id x1"},
	} {
		s := node{"code", c.state}.example()
		if c.change != nil {
			c.change(s)
		}
		if got := gitstate.Limited(s, 2).Due(c.interrupted); got != c.want {
			t.Errorf("%s, interrupted %v: due %q, want %q", c.state, c.interrupted, got, c.want)
		}
	}
}

// What is due must be allowed, in every state and whatever the verification said.
func TestDueIsAllowed(t *testing.T) {
	t.Parallel()
	for _, class := range []string{"code", "read-only"} {
		for n := range reach(oracleEdges(t), node{class, "-"}) {
			if n.state == "-" || n.state == "cleaned" {
				continue
			}
			for _, verdict := range []schemas.Verdict{"", schemas.VerdictPass, schemas.VerdictFail} {
				for i := range 4 {
					gone, most := i%2 == 1, i/2 // most is all that the run has had, or more than that
					s := n.example()
					if s.Verification.Verdict = verdict; verdict == "" {
						s.Verification = nil
					}
					standing := gitstate.StandingOf(s.State)
					if gone && !standing.Owned && !standing.Parked {
						continue
					}
					due := gitstate.Limited(s, s.Revisions+most).Due(gone)
					if due == "" {
						t.Errorf("%v: nothing is due", n)
						continue
					}
					if !gone && standing.Owned {
						continue
					}
					by := gitstate.Trigger(strings.Fields(due)[2])
					if !gitstate.Allowed(s, by, gone) {
						t.Errorf("%v, verdict %q, gone %v: %s is due and not allowed", n, verdict, gone, due)
					}
				}
			}
		}
	}
}

func ExampleRun_Due() {
	run := gitstate.Run{State: schemas.RunState{ID: "x1", State: schemas.StateImplemented}}
	fmt.Println(run.Due(false))
	// Output: git spot verify --id x1
}
