package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/flow"
)

func newReportCmd(e *env) *cli.Command {
	return newStepCmd(e, &cli.Command{
		Name:  "report",
		Usage: "add up what a run cost and write metrics.json and report.md into its ledger",
		Description: `A run that landed becomes reported; of any other that has ended the metrics are recorded and the
state stays. Read them with "git show refs/spot/runs/ID:report.md".`,
		Metadata: help("git spot report --id fix-login", stepCodes()...),
	}, func(ctx context.Context, s *flow.Session, id gitstate.RunID) (*gitstate.Run, error) {
		run, _, err := s.Report(ctx, id)
		return run, err
	})
}
