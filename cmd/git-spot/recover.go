package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/flow"
	"github.com/git-spot/git-spot/schemas"
)

func newRecoverCmd(e *env) *cli.Command {
	return newStepCmd(e, &cli.Command{
		Name:  "recover",
		Usage: "bring an interrupted run back to where the next command works",
		Description: `For a run whose turn was interrupted, whose process is gone, or that was blocked by its environment.
Work that a lost turn left in the worktree is kept as its candidate. No turn is run again.`,
		Metadata: help("git spot recover --id fix-login", append(stepCodes(),
			schemas.CodeConcurrencyLimit, schemas.CodeSourceDirty)...),
	}, func(ctx context.Context, s *flow.Session, id gitstate.RunID) (*gitstate.Run, error) {
		return s.Recover(ctx, id)
	})
}
