package flow

import (
	"context"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

// Land approves, integrates, reports and cleans up, and stops at the first of them that refuses. Run
// again it goes on from where the run stands: a run that is approved already is not judged again.
func (s *Session) Land(ctx context.Context, id gitstate.RunID, verdict *schemas.Review, message string, onto gitstate.Ref) (*gitstate.Run, error) {
	run, err := s.Ledger.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	for {
		var next *gitstate.Run
		switch st := &run.State; {
		case st.State == schemas.StateApproved, st.State == schemas.StateBlocked && st.Blocked.Cause == schemas.BlockedSource:
			next, err = s.Integrate(ctx, id, onto)
		case st.State == schemas.StateIntegrated:
			next, _, err = s.Report(ctx, id)
		case st.State == schemas.StateReported:
			next, err = s.Cleanup(ctx, id, gitstate.ByCleanup)
		case st.State == schemas.StateCleaned:
			return run, nil
		default:
			next, err = s.Approve(ctx, id, verdict, message)
		}
		if err != nil {
			return s.newest(ctx, run), err
		}
		run = next
	}
}

// newest is run as the ledger has it now, or as it was if that cannot be read.
func (s *Session) newest(ctx context.Context, run *gitstate.Run) *gitstate.Run {
	if now, err := s.Ledger.Load(ctx, run.ID); err == nil {
		return now
	}
	return run
}
