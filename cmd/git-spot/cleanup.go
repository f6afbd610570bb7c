package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/flow"
)

func newCleanupCmd(e *env) *cli.Command {
	discard := false
	return newStepCmd(e, &cli.Command{
		Name:  "cleanup",
		Usage: "remove the worktree of a run that has been reported",
		Description: `Ledger, candidate, attempts and notes stay. A run that did not land needs --discard, which first pins
what its worktree holds, untracked files included, under refs/spot/attempts.`,
		Flags:    []cli.Flag{&cli.BoolFlag{Name: "discard", Usage: "also for a run that did not land", Destination: &discard}},
		Metadata: help("git spot cleanup --id fix-login", stepCodes()...),
	}, func(ctx context.Context, s *flow.Session, id gitstate.RunID) (*gitstate.Run, error) {
		if discard {
			return s.Cleanup(ctx, id, gitstate.ByDiscard)
		}
		return s.Cleanup(ctx, id, gitstate.ByCleanup)
	})
}
