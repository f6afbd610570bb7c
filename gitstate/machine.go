package gitstate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/schemas"
)

// Trigger is what moves a run: a command, but for ByTakeOver.
type Trigger string

// The triggers.
const (
	ByPrepare    Trigger = "prepare"
	ByRun        Trigger = "run"
	ByVerify     Trigger = "verify"
	BySelfReview Trigger = "self-review"
	ByRevise     Trigger = "revise"
	ByResume     Trigger = "resume"
	ByApprove    Trigger = "approve"
	ByRebase     Trigger = "rebase"
	ByIntegrate  Trigger = "integrate"
	ByReport     Trigger = "report"
	ByCleanup    Trigger = "cleanup"
	ByDiscard    Trigger = "cleanup --discard"
	ByAbort      Trigger = "abort"
	ByRecover    Trigger = "recover"

	// ByTakeOver is the event that Begin writes before recover or abort goes on in the place of an owner
	// that is gone. No command passes it to Begin.
	ByTakeOver Trigger = "take over"
)

// Standing is what is true of every run in one state.
type Standing struct {
	State  schemas.State
	Owned  bool // a process works on the run, and the event names it
	Parked bool // not owned, but for the time of a turn that leaves the state as it is
	Slot   bool // the run counts towards spot.maxConcurrentRuns
}

// Standings has one row for each state, in the order of the main path.
var Standings = []Standing{
	{State: schemas.StatePrepared, Slot: true},
	{State: schemas.StateRunning, Slot: true, Owned: true},
	{State: schemas.StateImplemented, Slot: true},
	{State: schemas.StateVerifying, Slot: true, Owned: true},
	{State: schemas.StateSelfReviewing, Parked: true},
	{State: schemas.StateReviewing},
	{State: schemas.StateRevising, Slot: true, Owned: true},
	{State: schemas.StateApproved},
	{State: schemas.StateIntegrating, Owned: true},
	{State: schemas.StateIntegrated},
	{State: schemas.StateReported},
	{State: schemas.StateCleaned},
	{State: schemas.StateDone},
	{State: schemas.StateInterrupted},
	{State: schemas.StateBlocked},
	{State: schemas.StateFailed},
	{State: schemas.StateAborted},
}

// StandingOf returns the row of s, and of an unknown state one without a property.
func StandingOf(s schemas.State) Standing {
	for _, row := range Standings {
		if row.State == s {
			return row
		}
	}
	return Standing{State: s}
}

// KindClass says which runs a transition is for.
type KindClass string

// The classes of kinds. The zero value is every kind.
const (
	AnyKind  KindClass = ""
	CodeOnly KindClass = "code"
	ReadOnly KindClass = "read-only"
)

func (c KindClass) has(kind schemas.Kind) bool {
	code := kind == schemas.KindCode || kind == ""
	return c == AnyKind || code == (c == CodeOnly)
}

// Transition is one row of the state machine.
type Transition struct {
	From schemas.State // "" is before the first event
	By   Trigger
	To   schemas.State
	When string // which of several outcomes leads here

	Kinds KindClass
	Cause schemas.BlockedCause // of the blocked end of the row; "" is any
	// Gone limits the row to runs whose owner is gone.
	Gone bool
	// Unproven limits the row to runs whose latest verification did not pass.
	Unproven bool

	Note bool // the run's candidate and approved commit get their notes with the event
}

// Transitions is the state machine: an event that has no row here cannot be written. Rows of one From
// and To agree in Note, so that the notes can be made again from the states alone.
var Transitions = []Transition{
	{From: "", By: ByPrepare, To: schemas.StatePrepared},

	// The first worker turn.
	{From: schemas.StatePrepared, By: ByRun, To: schemas.StateRunning},
	{From: schemas.StatePrepared, By: ByRun, To: schemas.StateFailed, When: "the base cannot be read"},
	{From: schemas.StateRunning, By: ByRun, To: schemas.StateRunning, When: "the next profile of the chain starts"},
	{From: schemas.StateRunning, By: ByRun, To: schemas.StateImplemented, When: "completed, step_capped, empty", Kinds: CodeOnly},
	{From: schemas.StateRunning, By: ByRun, To: schemas.StateDone, When: "completed, step_capped, empty", Kinds: ReadOnly},
	{From: schemas.StateRunning, By: ByRun, To: schemas.StateInterrupted, When: "timed_out, idle, interrupted, or an error that is not the environment's, chain exhausted"},
	{From: schemas.StateRunning, By: ByRun, To: schemas.StateBlocked, When: "error of class auth, capability, setup, permission", Cause: schemas.BlockedEnvironment},
	{From: schemas.StateRunning, By: ByRun, To: schemas.StateFailed, When: "the base cannot be read"},

	// Later turns.
	{From: schemas.StateReviewing, By: ByRevise, To: schemas.StateRevising, Kinds: CodeOnly},
	{From: schemas.StateSelfReviewing, By: ByRevise, To: schemas.StateRevising, Kinds: CodeOnly},
	{From: schemas.StateReviewing, By: ByRevise, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly},
	{From: schemas.StateSelfReviewing, By: ByRevise, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly},
	{From: schemas.StateRevising, By: ByRevise, To: schemas.StateRevising, When: "the next profile of the chain starts", Kinds: CodeOnly},
	{From: schemas.StateRevising, By: ByRevise, To: schemas.StateImplemented, When: "completed, step_capped, empty", Kinds: CodeOnly},
	{From: schemas.StateRevising, By: ByRevise, To: schemas.StateInterrupted, When: "timed_out, idle, interrupted, or an error that is not the environment's, chain exhausted", Kinds: CodeOnly},
	{From: schemas.StateRevising, By: ByRevise, To: schemas.StateBlocked, When: "error of class auth, capability, setup, permission", Kinds: CodeOnly, Cause: schemas.BlockedEnvironment},
	{From: schemas.StateRevising, By: ByRevise, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly},
	{From: schemas.StateReviewing, By: ByResume, To: schemas.StateRevising, Kinds: CodeOnly},
	{From: schemas.StateReviewing, By: ByResume, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly},
	{From: schemas.StateRevising, By: ByResume, To: schemas.StateRevising, When: "the next profile of the chain starts", Kinds: CodeOnly},
	{From: schemas.StateRevising, By: ByResume, To: schemas.StateImplemented, When: "completed, step_capped, empty", Kinds: CodeOnly},
	{From: schemas.StateRevising, By: ByResume, To: schemas.StateInterrupted, When: "timed_out, idle, interrupted, or an error that is not the environment's, chain exhausted", Kinds: CodeOnly},
	{From: schemas.StateRevising, By: ByResume, To: schemas.StateBlocked, When: "error of class auth, capability, setup, permission", Kinds: CodeOnly, Cause: schemas.BlockedEnvironment},
	{From: schemas.StateRevising, By: ByResume, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly},

	// Verification. It is the only way on from implemented.
	{From: schemas.StateImplemented, By: ByVerify, To: schemas.StateVerifying, Kinds: CodeOnly},
	{From: schemas.StateImplemented, By: ByVerify, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly},
	{From: schemas.StateReviewing, By: ByVerify, To: schemas.StateVerifying, Kinds: CodeOnly, Unproven: true},
	{From: schemas.StateReviewing, By: ByVerify, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly, Unproven: true},
	{From: schemas.StateVerifying, By: ByVerify, To: schemas.StateSelfReviewing, When: "passed, and self-review is enabled and not skipped by size", Kinds: CodeOnly, Note: true},
	{From: schemas.StateVerifying, By: ByVerify, To: schemas.StateReviewing, When: "passed otherwise, or failed", Kinds: CodeOnly, Note: true},
	{From: schemas.StateVerifying, By: ByVerify, To: schemas.StateApproved, When: "passed after a rebase with the diffSha256 that was approved", Kinds: CodeOnly, Note: true},
	{From: schemas.StateVerifying, By: ByVerify, To: schemas.StateBlocked, When: "the worker touched its grader", Kinds: CodeOnly, Cause: schemas.BlockedGate, Note: true},
	{From: schemas.StateVerifying, By: ByVerify, To: schemas.StateImplemented, When: "the clean room cannot be made", Kinds: CodeOnly},
	{From: schemas.StateVerifying, By: ByVerify, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly},

	// The worker's review of its own work never blocks.
	{From: schemas.StateSelfReviewing, By: BySelfReview, To: schemas.StateSelfReviewing, When: "the turn starts", Kinds: CodeOnly},
	{From: schemas.StateSelfReviewing, By: BySelfReview, To: schemas.StateReviewing, When: "whatever happened to it", Kinds: CodeOnly},

	{From: schemas.StateReviewing, By: ByApprove, To: schemas.StateApproved, Kinds: CodeOnly, Note: true},
	{From: schemas.StateSelfReviewing, By: ByApprove, To: schemas.StateApproved, Kinds: CodeOnly, Note: true},
	{From: schemas.StateReviewing, By: ByApprove, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly},
	{From: schemas.StateSelfReviewing, By: ByApprove, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly},

	{From: schemas.StateApproved, By: ByRebase, To: schemas.StateImplemented, Kinds: CodeOnly},
	{From: schemas.StateReviewing, By: ByRebase, To: schemas.StateImplemented, Kinds: CodeOnly},
	{From: schemas.StateSelfReviewing, By: ByRebase, To: schemas.StateImplemented, Kinds: CodeOnly},
	{From: schemas.StateBlocked, By: ByRebase, To: schemas.StateImplemented, Kinds: CodeOnly, Cause: schemas.BlockedSource},

	{From: schemas.StateApproved, By: ByIntegrate, To: schemas.StateIntegrating, Kinds: CodeOnly},
	{From: schemas.StateApproved, By: ByIntegrate, To: schemas.StateBlocked, When: "the source is dirty or has moved", Kinds: CodeOnly, Cause: schemas.BlockedSource},
	{From: schemas.StateApproved, By: ByIntegrate, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly},
	{From: schemas.StateBlocked, By: ByIntegrate, To: schemas.StateIntegrating, Kinds: CodeOnly, Cause: schemas.BlockedSource},
	{From: schemas.StateBlocked, By: ByIntegrate, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly, Cause: schemas.BlockedSource},
	{From: schemas.StateBlocked, By: ByIntegrate, To: schemas.StateBlocked, When: "the source is still dirty or has moved", Kinds: CodeOnly, Cause: schemas.BlockedSource},
	{From: schemas.StateIntegrating, By: ByIntegrate, To: schemas.StateIntegrated, Kinds: CodeOnly, Note: true},
	{From: schemas.StateIntegrating, By: ByIntegrate, To: schemas.StateBlocked, When: "the source became dirty or moved", Kinds: CodeOnly, Cause: schemas.BlockedSource},
	{From: schemas.StateIntegrating, By: ByIntegrate, To: schemas.StateApproved, When: "another failure, and the branch has not moved", Kinds: CodeOnly},

	// An owner that is gone.
	{From: schemas.StateRunning, By: ByTakeOver, To: schemas.StateRunning},
	{From: schemas.StateRevising, By: ByTakeOver, To: schemas.StateRevising},
	{From: schemas.StateVerifying, By: ByTakeOver, To: schemas.StateVerifying},
	{From: schemas.StateSelfReviewing, By: ByTakeOver, To: schemas.StateSelfReviewing},
	{From: schemas.StateIntegrating, By: ByTakeOver, To: schemas.StateIntegrating},
	{From: schemas.StateRunning, By: ByRecover, To: schemas.StateImplemented, When: "changes against the attempt's start tree", Kinds: CodeOnly, Gone: true},
	{From: schemas.StateRunning, By: ByRecover, To: schemas.StatePrepared, When: "no changes", Gone: true},
	{From: schemas.StateRunning, By: ByRecover, To: schemas.StateFailed, When: "the base cannot be read", Gone: true},
	{From: schemas.StateRevising, By: ByRecover, To: schemas.StateImplemented, When: "changes against the attempt's start tree", Kinds: CodeOnly, Gone: true},
	{From: schemas.StateRevising, By: ByRecover, To: schemas.StateReviewing, When: "no changes; the revision is not counted", Kinds: CodeOnly, Gone: true},
	{From: schemas.StateRevising, By: ByRecover, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly, Gone: true},
	{From: schemas.StateVerifying, By: ByRecover, To: schemas.StateImplemented, When: "it came from there", Kinds: CodeOnly, Gone: true},
	{From: schemas.StateVerifying, By: ByRecover, To: schemas.StateReviewing, When: "it came from there", Kinds: CodeOnly, Gone: true, Note: true},
	{From: schemas.StateVerifying, By: ByRecover, To: schemas.StateFailed, When: "the base cannot be read", Kinds: CodeOnly, Gone: true},
	{From: schemas.StateSelfReviewing, By: ByRecover, To: schemas.StateReviewing, Kinds: CodeOnly, Gone: true},
	{From: schemas.StateIntegrating, By: ByRecover, To: schemas.StateIntegrated, When: "the branch is at the approved commit and the files are completed", Kinds: CodeOnly, Gone: true, Note: true},
	{From: schemas.StateIntegrating, By: ByRecover, To: schemas.StateApproved, When: "the branch has not moved", Kinds: CodeOnly, Gone: true},
	{From: schemas.StateIntegrating, By: ByRecover, To: schemas.StateBlocked, When: "a file is neither base nor candidate, or the branch is elsewhere", Kinds: CodeOnly, Cause: schemas.BlockedSource, Gone: true},

	{From: schemas.StateInterrupted, By: ByRecover, To: schemas.StateImplemented, When: "changes against the attempt's start tree", Kinds: CodeOnly},
	{From: schemas.StateInterrupted, By: ByRecover, To: schemas.StatePrepared, When: "no changes in a turn of run"},
	{From: schemas.StateInterrupted, By: ByRecover, To: schemas.StateReviewing, When: "no changes in a later turn; the revision is not counted", Kinds: CodeOnly},
	{From: schemas.StateInterrupted, By: ByRecover, To: schemas.StateFailed, When: "the base cannot be read"},
	{From: schemas.StateBlocked, By: ByRecover, To: schemas.StatePrepared, When: "it came from there", Cause: schemas.BlockedEnvironment},
	{From: schemas.StateBlocked, By: ByRecover, To: schemas.StateReviewing, When: "it came from there", Kinds: CodeOnly, Cause: schemas.BlockedEnvironment},
	{From: schemas.StateBlocked, By: ByRecover, To: schemas.StateSelfReviewing, When: "it came from there", Kinds: CodeOnly, Cause: schemas.BlockedEnvironment},

	// Abort, from anything but integrated, reported and cleaned. Whoever aborts an integrating run must
	// have looked at the branch first: what has landed is not aborted.
	{From: schemas.StatePrepared, By: ByAbort, To: schemas.StateAborted},
	{From: schemas.StateRunning, By: ByAbort, To: schemas.StateAborted},
	{From: schemas.StateImplemented, By: ByAbort, To: schemas.StateAborted},
	{From: schemas.StateVerifying, By: ByAbort, To: schemas.StateAborted},
	{From: schemas.StateSelfReviewing, By: ByAbort, To: schemas.StateAborted},
	{From: schemas.StateReviewing, By: ByAbort, To: schemas.StateAborted},
	{From: schemas.StateRevising, By: ByAbort, To: schemas.StateAborted},
	{From: schemas.StateApproved, By: ByAbort, To: schemas.StateAborted},
	{From: schemas.StateIntegrating, By: ByAbort, To: schemas.StateAborted, Gone: true},
	{From: schemas.StateInterrupted, By: ByAbort, To: schemas.StateAborted},
	{From: schemas.StateBlocked, By: ByAbort, To: schemas.StateAborted},
	{From: schemas.StateFailed, By: ByAbort, To: schemas.StateAborted},
	{From: schemas.StateAborted, By: ByAbort, To: schemas.StateAborted},
	{From: schemas.StateDone, By: ByAbort, To: schemas.StateAborted},

	{From: schemas.StateIntegrated, By: ByReport, To: schemas.StateReported, Note: true},
	{From: schemas.StateDone, By: ByReport, To: schemas.StateReported, Kinds: ReadOnly, Note: true},
	{From: schemas.StateBlocked, By: ByReport, To: schemas.StateBlocked, When: "metrics are added"},
	{From: schemas.StateFailed, By: ByReport, To: schemas.StateFailed, When: "metrics are added"},
	{From: schemas.StateAborted, By: ByReport, To: schemas.StateAborted, When: "metrics are added"},

	{From: schemas.StateReported, By: ByCleanup, To: schemas.StateCleaned},
	{From: schemas.StateReported, By: ByDiscard, To: schemas.StateCleaned},
	{From: schemas.StateIntegrated, By: ByDiscard, To: schemas.StateCleaned},
	{From: schemas.StateBlocked, By: ByDiscard, To: schemas.StateCleaned},
	{From: schemas.StateFailed, By: ByDiscard, To: schemas.StateCleaned},
	{From: schemas.StateAborted, By: ByDiscard, To: schemas.StateCleaned},
	{From: schemas.StateDone, By: ByDiscard, To: schemas.StateCleaned},
}

// applies reports whether a run in state s may take the row.
func (t Transition) applies(s *schemas.RunState, gone bool) bool {
	switch {
	case t.From != s.State || !t.Kinds.has(s.Kind):
		return false
	case t.Gone && !gone:
		return false
	case t.Unproven && proven(s):
		return false
	case t.From == schemas.StateBlocked && t.Cause != "":
		return s.Blocked != nil && s.Blocked.Cause == t.Cause
	}
	return true
}

// allowed reports whether the table has a row for s and by.
func allowed(s *schemas.RunState, by Trigger, gone bool) bool {
	return slices.ContainsFunc(Transitions, func(t Transition) bool {
		return t.By == by && t.applies(s, gone)
	})
}

// transition finds the row that leads from before to after.
func transition(before, after *schemas.RunState, by Trigger, gone bool) (Transition, error) {
	for _, t := range Transitions {
		if t.By != by || t.To != after.State || !t.applies(before, gone) {
			continue
		}
		if t.To == schemas.StateBlocked && after.Blocked != nil {
			cause := t.Cause
			if t.From == t.To && cause == "" {
				cause = before.Blocked.Cause // An event that changes nothing else does not unblock.
			}
			if after.Blocked.Cause != cause {
				continue
			}
		}
		return t, lacking(t, before, after)
	}
	return Transition{}, &TransitionError{ID: RunID(after.ID), From: before.State, To: after.State, By: by}
}

// lacking holds what a state promises to whoever reads it: nothing is approved that was not verified,
// nothing lands that was not approved.
func lacking(t Transition, before, after *schemas.RunState) error {
	var lacks string
	switch {
	case t.To == schemas.StateBlocked && (after.Blocked == nil || after.Blocked.Cause == ""):
		lacks = "a cause"
	case t.To == schemas.StateApproved && !proven(after):
		lacks = "a passed verification of this change"
	case t.To == schemas.StateApproved && after.Approved == "":
		lacks = "the approved commit"
	case t.To == schemas.StateIntegrating && after.Integration == nil:
		lacks = "the intent"
	case (t.To == schemas.StateIntegrating || t.To == schemas.StateIntegrated) && after.Approved == "":
		lacks = "the approved commit"
	case t.From == schemas.StateBlocked && t.By == ByRecover && before.Blocked.From != t.To:
		lacks = fmt.Sprintf("a way back: it came from %s", before.Blocked.From)
	case StandingOf(t.To).Slot && after.Slot == 0:
		lacks = "a slot"
	default:
		return nil
	}
	return &TransitionError{ID: RunID(after.ID), From: t.From, To: t.To, By: t.By, Lacks: lacks}
}

// proven reports whether the change that stands was verified and passed.
func proven(s *schemas.RunState) bool {
	v := s.Verification
	return v != nil && v.Verdict == schemas.VerdictPass && v.DiffSHA256 == s.DiffSHA256
}

// noted reports whether an event from one state to another comes with notes.
func noted(from, to schemas.State) bool {
	return slices.ContainsFunc(Transitions, func(t Transition) bool {
		return t.From == from && t.To == to && t.Note
	})
}

// dues says which command is due in which state; the first row that fits wins. ID stands for the run's
// id, words in capitals for what only the caller can say.
var dues = []struct {
	state   schemas.State
	when    func(*Run) bool // nil is always
	command string
}{
	{schemas.StatePrepared, nil, "run --id ID"},
	{schemas.StateImplemented, nil, "verify --id ID"},
	{schemas.StateSelfReviewing, nil, "self-review --id ID"},
	{schemas.StateReviewing, unverified, "verify --id ID"},
	{schemas.StateReviewing, exhausted, "abort --id ID"},
	{schemas.StateReviewing, unproven, "revise --id ID --review FILE"},
	{schemas.StateReviewing, nil, "approve --id ID --review FILE --message TEXT"},
	{schemas.StateApproved, sourceless, "integrate --id ID --onto BRANCH"},
	{schemas.StateApproved, nil, "integrate --id ID"},
	{schemas.StateIntegrated, nil, "report --id ID"},
	{schemas.StateDone, nil, "report --id ID"},
	{schemas.StateReported, nil, "cleanup --id ID"},
	{schemas.StateCleaned, nil, ""},
	{schemas.StateInterrupted, nil, "recover --id ID"},
	{schemas.StateBlocked, blockedBy(schemas.BlockedEnvironment), "recover --id ID"},
	{schemas.StateBlocked, homeless, "integrate --id ID --onto BRANCH"},
	{schemas.StateBlocked, moved, "abort --id ID"}, // until there is a rebase; integrate would refuse for ever
	{schemas.StateBlocked, blockedBy(schemas.BlockedSource), "integrate --id ID"},
	{schemas.StateBlocked, reported, "cleanup --id ID --discard"},
	{schemas.StateBlocked, nil, "report --id ID"},
	{schemas.StateFailed, reported, "cleanup --id ID --discard"},
	{schemas.StateFailed, nil, "report --id ID"},
	{schemas.StateAborted, reported, "cleanup --id ID --discard"},
	{schemas.StateAborted, nil, "report --id ID"},
}

func unverified(r *Run) bool { return r.State.Verification == nil }
func unproven(r *Run) bool   { return !proven(&r.State) }
func reported(r *Run) bool   { return r.State.Reported }
func sourceless(r *Run) bool { return r.State.Base.Branch == "" }

// exhausted is a run whose change did not pass and that must not be revised again.
func exhausted(r *Run) bool {
	if !unproven(r) || r.maxRevisions == nil {
		return false
	}
	most, known := r.maxRevisions()
	return known && r.State.Revisions >= most
}

// homeless is a run that another branch may take.
func homeless(r *Run) bool { return blockedBy(schemas.BlockedSource)(r) && sourceless(r) }

func moved(r *Run) bool {
	return blockedBy(schemas.BlockedSource)(r) && r.State.Blocked.Code == schemas.CodeSourceMoved
}

func blockedBy(cause schemas.BlockedCause) func(*Run) bool {
	return func(r *Run) bool { return r.State.Blocked != nil && r.State.Blocked.Cause == cause }
}

// Due is the command that brings the run on, ready to run but for what only the caller knows: "git
// spot verify --id X". It is "" when nothing is due. Interrupted says that the recorded owner is gone;
// while it is alive, watching it is all that is due.
func (r *Run) Due(interrupted bool) string {
	command := ""
	switch {
	case interrupted:
		command = "recover --id ID"
	case r.State.Owner != nil || StandingOf(r.State.State).Owned:
		command = "log --id ID -f"
	default:
		for _, row := range dues {
			if row.state == r.State.State && (row.when == nil || row.when(r)) {
				command = row.command
				break
			}
		}
	}
	if command == "" {
		return ""
	}
	return "git spot " + strings.Replace(command, "ID", r.State.ID, 1)
}

// WrongStateError is a command that the state of the run does not allow. Nothing was written.
type WrongStateError struct {
	ID          RunID
	State       schemas.State
	Interrupted bool // the state is a phase whose owner is gone
	Command     string
	Due         string // the command that is due, "" if none is
}

func (e *WrongStateError) Error() string {
	state := string(e.State)
	if e.Interrupted {
		state += " and its owner is gone"
	}
	return fmt.Sprintf("%s: run %q is %s", e.Command, e.ID, state)
}

// Code is WRONG_STATE.
func (e *WrongStateError) Code() schemas.Code { return schemas.CodeWrongState }

// TransitionError is an event that the table does not have, or that lacks what the new state promises: a
// defect of the caller. Nothing was written.
type TransitionError struct {
	ID       RunID
	From, To schemas.State
	By       Trigger
	Lacks    string // "" if there is no such transition
}

func (e *TransitionError) Error() string {
	if e.Lacks != "" {
		return fmt.Sprintf("run %q: %s from %s to %s lacks %s", e.ID, e.By, e.From, e.To, e.Lacks)
	}
	return fmt.Sprintf("run %q: %s does not lead from %s to %s", e.ID, e.By, e.From, e.To)
}
