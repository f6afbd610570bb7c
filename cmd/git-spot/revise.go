package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/flow"
	"github.com/git-spot/git-spot/schemas"
)

type reviseOptions struct {
	id     string
	review reviewFlags
}

func newReviseCmd(e *env) *cli.Command {
	var opts reviseOptions
	return &cli.Command{
		Name:      "revise",
		Usage:     "send the change back to the worker with findings",
		ArgsUsage: "[ID]",
		Description: `Records the verdict and runs the next turn. The worker is told the open findings, the gates that
are red and the end of what failing commands printed. At most spot.maxRevisions times.

A review is a document like

  {"schemaVersion": 1, "verdict": "revise", "diffSha256": "HASH", "findings":
   [{"severity": "P1", "path": "a.go", "line": 3, "summary": "...", "resolved": false}]}

or what the other options say. "git spot inspect" has the hash, "git spot schema review-result" the rest.`,
		Flags: append([]cli.Flag{idFlag(&opts.id)}, opts.review.flags()...),
		Metadata: help("git spot revise --id fix-login --review review.json", append(turnCodes(),
			schemas.CodeReviewInvalid, schemas.CodeRevisionLimit, schemas.CodeDiffHashChanged, schemas.CodeConcurrencyLimit)...),
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			if opts.id, err = runWord(c, opts.id); err != nil {
				return err
			}
			if err := opts.review.check(schemas.ReviewRevise); err != nil {
				return err
			}
			return e.step(ctx, opts.id, func(ctx context.Context, s *flow.Session, id gitstate.RunID) error {
				verdict, err := opts.review.read(ctx, e, schemas.ReviewRevise)
				if err != nil {
					return err
				}
				e.announceLog(s, id)
				result, err := s.Revise(ctx, id, verdict)
				return e.turn(result, err)
			})
		},
	}
}
