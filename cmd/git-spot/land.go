package main

import (
	"context"
	"errors"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/flow"
	"github.com/git-spot/git-spot/schemas"
)

type landOptions struct {
	approveOptions
	onto string
}

func newLandCmd(e *env) *cli.Command {
	var opts landOptions
	return &cli.Command{
		Name:      "land",
		Usage:     "approve, integrate, report and clean up in one call",
		ArgsUsage: "[ID]",
		Description: `Stops at the first step that refuses. Run again, it goes on from there: a run that is approved
already is not judged again. "git spot approve -h" says what a review is.`,
		Flags:    append(opts.flags(), ontoFlag(&opts.onto)),
		Metadata: help(`git spot land --id fix-login --review review.json --message 'Fix the login redirect'`, slices.Concat(approveCodes(), integrateCodes())...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := opts.check(c); err != nil {
				return err
			}
			return e.step(ctx, opts.id, func(ctx context.Context, s *flow.Session, id gitstate.RunID) error {
				verdict, err := opts.review.read(ctx, e, schemas.ReviewApprove)
				if err != nil {
					return err
				}
				run, err := s.Land(ctx, id, verdict, opts.message, branchRef(opts.onto))
				if run == nil || run.State.Integration == nil || run.State.State == schemas.StateIntegrating {
					return err
				}
				d := integrateOf(run)
				return errors.Join(e.result(d, d.write), err)
			})
		},
	}
}
