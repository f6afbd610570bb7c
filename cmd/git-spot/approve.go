package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/flow"
	"github.com/git-spot/git-spot/schemas"
)

type approveOptions struct {
	id      string
	review  reviewFlags
	message string
}

func (o *approveOptions) flags() []cli.Flag {
	return append(append([]cli.Flag{idFlag(&o.id)}, o.review.flags()...),
		&cli.StringFlag{Name: "message", Aliases: []string{"m"}, Usage: "the commit's message, `TEXT`, taken as it is", Destination: &o.message})
}

func (o *approveOptions) check(c *cli.Command) (err error) {
	if o.id, err = runWord(c, o.id); err != nil {
		return err
	}
	if err := o.review.check(schemas.ReviewApprove); err != nil {
		return err
	}
	if strings.TrimSpace(o.message) == "" {
		return usagef("--message TEXT is required")
	}
	return nil
}

// approveCodes are those of a verdict that lets a change through.
func approveCodes() []schemas.Code {
	return append(stepCodes(),
		schemas.CodeFileNotFound, schemas.CodeReviewInvalid,
		schemas.CodeVerificationFailed, schemas.CodeDiffHashChanged, schemas.CodeEvidenceMissing, schemas.CodeUnresolvedFindings,
		schemas.CodeIdentityMissing, schemas.CodeSigningFailed)
}

// approveDocument is what approve prints.
type approveDocument struct {
	stepDocument
	Commit     string `json:"commit"`
	DiffSHA256 string `json:"diffSha256"`
}

func newApproveCmd(e *env) *cli.Command {
	var opts approveOptions
	return &cli.Command{
		Name:      "approve",
		Usage:     "give your verdict and make the commit that may land",
		ArgsUsage: "[ID]",
		Description: `Needs a passed verification of the very change that the review names by its diffSha256, evidence for
every acceptance criterion and no open finding of P0-P2. The commit has the verified tree, your
identity and signature, your message as it is, and trailers that lead back to the run.

A review is a document like

  {"schemaVersion": 1, "verdict": "approve", "diffSha256": "HASH",
   "evidence": [{"criterion": "A1", "text": "..."}], "findings": []}

or what the other options say. "git spot inspect" has the hash, "git spot schema review-result" the rest.`,
		Flags:    opts.flags(),
		Metadata: help(`git spot approve --id fix-login --review review.json --message 'Fix the login redirect'`, approveCodes()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := opts.check(c); err != nil {
				return err
			}
			return e.step(ctx, opts.id, func(ctx context.Context, s *flow.Session, id gitstate.RunID) error {
				verdict, err := opts.review.read(ctx, e, schemas.ReviewApprove)
				if err != nil {
					return err
				}
				run, err := s.Approve(ctx, id, verdict, opts.message)
				if err != nil {
					return err
				}
				d := approveDocument{stepOf(run), run.State.Approved, run.State.DiffSHA256}
				return e.result(d, func(w io.Writer) {
					fmt.Fprintf(w, "commit: %s\n", d.Commit)
					d.write(w)
				})
			})
		},
	}
}
