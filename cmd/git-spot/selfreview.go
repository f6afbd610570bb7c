package main

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/flow"
	"github.com/git-spot/git-spot/schemas"
)

// selfReviewDocument is what self-review prints.
type selfReviewDocument struct {
	stepDocument
	SelfReview *schemas.SelfReview `json:"selfReview"`
}

func newSelfReviewCmd(e *env) *cli.Command {
	var opts stepOptions
	return &cli.Command{
		Name:      "self-review",
		Usage:     "let the worker review its own change, read-only",
		ArgsUsage: "[ID]",
		Description: `Optional and never a gate: approve and revise work without it. This version has no self-review turn;
the command records that and moves the run on.`,
		Flags:    []cli.Flag{idFlag(&opts.id)},
		Metadata: help("git spot self-review --id fix-login", stepCodes()...),
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			if opts.id, err = runWord(c, opts.id); err != nil {
				return err
			}
			return e.step(ctx, opts.id, func(ctx context.Context, s *flow.Session, id gitstate.RunID) error {
				run, selfReview, err := s.SelfReview(ctx, id)
				if err != nil {
					return err
				}
				d := selfReviewDocument{stepOf(run), selfReview}
				return e.result(d, func(w io.Writer) {
					if selfReview.Skipped {
						fmt.Fprintf(w, "self-review skipped: %s\n", selfReview.Reason)
					}
					d.write(w)
				})
			})
		},
	}
}
