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

type integrateOptions struct {
	id   string
	onto string
}

// ontoFlag is --onto of the commands that land.
func ontoFlag(onto *string) cli.Flag {
	return &cli.StringFlag{Name: "onto", Usage: "land on `BRANCH`, for a run that was not prepared from a branch", Destination: onto}
}

// branchRef is the full ref name of a branch that a person named.
func branchRef(name string) gitstate.Ref {
	if name == "" || strings.HasPrefix(name, "refs/heads/") {
		return gitstate.Ref(name)
	}
	return gitstate.Ref("refs/heads/" + name)
}

// integrateCodes are those of a landing.
func integrateCodes() []schemas.Code {
	return append(stepCodes(), schemas.CodeSourceDirty, schemas.CodeSourceMoved, schemas.CodeBranchProtected)
}

// integrateDocument is what integrate prints.
type integrateDocument struct {
	stepDocument
	Commit   string `json:"commit"`
	Branch   string `json:"branch"`
	Checkout string `json:"checkout,omitempty"`
}

func integrateOf(run *gitstate.Run) integrateDocument {
	d := integrateDocument{stepDocument: stepOf(run), Commit: run.State.Approved}
	if plan := run.State.Integration; plan != nil {
		d.Branch, d.Checkout = plan.Branch, plan.Checkout
	}
	return d
}

func (d integrateDocument) write(w io.Writer) {
	fmt.Fprintf(w, "landed: %s on %s\n", d.Commit, d.Branch)
	d.stepDocument.write(w)
}

func newIntegrateCmd(e *env) *cli.Command {
	var opts integrateOptions
	return &cli.Command{
		Name:      "integrate",
		Usage:     "land the approved commit on its source branch",
		ArgsUsage: "[ID]",
		Description: `Moves the branch from the base commit to the approved commit and updates the checkout that has it. Your
own changes are never stashed, reset or mixed in: if they are in the way, or the branch has moved,
nothing is written and the command says what to do.`,
		Flags:    []cli.Flag{idFlag(&opts.id), ontoFlag(&opts.onto)},
		Metadata: help("git spot integrate --id fix-login", integrateCodes()...),
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			if opts.id, err = runWord(c, opts.id); err != nil {
				return err
			}
			return e.step(ctx, opts.id, func(ctx context.Context, s *flow.Session, id gitstate.RunID) error {
				run, err := s.Integrate(ctx, id, branchRef(opts.onto))
				if err != nil {
					return err
				}
				d := integrateOf(run)
				return e.result(d, d.write)
			})
		},
	}
}
