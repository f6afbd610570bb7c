package gitstate

import (
	"fmt"

	"github.com/git-spot/git-spot/schemas"
)

// Trigger is what moves a run: a command.
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
)

// Due is the command that brings the run on, ready to run but for what only the caller knows: "git
// spot verify --id X". It is "" when nothing is due. Interrupted says that the recorded owner is gone.
func Due(s *schemas.RunState, interrupted bool) string { return "" }

// WrongStateError is a command that the state of the run does not allow. Nothing was written.
type WrongStateError struct {
	ID          RunID
	State       schemas.State
	Interrupted bool
	Want        []schemas.State // where the command is allowed
	Command     string
	Due         string // the command that is due, "" if none is
}

func (e *WrongStateError) Error() string {
	return fmt.Sprintf("%s: run %q is %s", e.Command, e.ID, e.State)
}

// Code is WRONG_STATE.
func (e *WrongStateError) Code() schemas.Code { return schemas.CodeWrongState }

// TransitionError is an event that the table does not have, or that lacks what the new state needs: a
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
