package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/flow"
)

func newAbortCmd(e *env) *cli.Command {
	return newStepCmd(e, &cli.Command{
		Name:  "abort",
		Usage: "give a run up; what its worktree holds is kept",
		Description: `A process on this machine that is advancing the run is told to stop and waited for, at most ten
seconds; one that is integrating is left alone.`,
		Metadata: help("git spot abort --id fix-login", stepCodes()...),
	}, func(ctx context.Context, s *flow.Session, id gitstate.RunID) (*gitstate.Run, error) {
		return s.Abort(ctx, id)
	})
}
