package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/flow"
	"github.com/git-spot/git-spot/schemas"
)

// The rule of this file: what the commands that move a run have in common. Each opens a flow.Session,
// runs one sequence of package flow and prints a document that begins with stepDocument.

// stepDocument is what every command on one run prints at least.
type stepDocument struct {
	ID    string        `json:"id"`
	State schemas.State `json:"state"`
	Next  string        `json:"next"` // the command that is due, "" if none is
}

func stepOf(run *gitstate.Run) stepDocument {
	return stepDocument{ID: string(run.ID), State: run.State.State, Next: run.Due(false)}
}

// answering is next, but where a review of work that is not right is due, and the worker's last word was a
// question, its answer.
func answering(next, question string) string {
	if rest, revise := strings.CutPrefix(next, "git spot revise "); revise && question != "" {
		return "git spot resume " + strings.Replace(rest, "--review FILE", "--text TEXT", 1)
	}
	return next
}

func (d stepDocument) write(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", d.ID, d.State)
	if d.Next != "" {
		fmt.Fprintf(w, "next: %s\n", d.Next)
	}
}

// openFlow opens the repository with its configuration, for a command that moves runs.
func (e *env) openFlow(ctx context.Context) (*flow.Session, func(), error) {
	s, err := e.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := s.config()
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return &flow.Session{Repo: s.repo, Config: cfg, Ledger: s.ledger, Getenv: e.getenv, Now: e.now}, s.close, nil
}

// stepOptions are the flags of a command that needs nothing but a run.
type stepOptions struct{ id string }

// newStepCmd is a command on one run that runs do and prints what it returns.
func newStepCmd(e *env, c *cli.Command, do func(context.Context, *flow.Session, gitstate.RunID) (*gitstate.Run, error)) *cli.Command {
	var opts stepOptions
	c.ArgsUsage = "[ID]"
	c.Flags = append([]cli.Flag{idFlag(&opts.id)}, c.Flags...)
	c.Action = func(ctx context.Context, c *cli.Command) (err error) {
		if opts.id, err = runWord(c, opts.id); err != nil {
			return err
		}
		return e.step(ctx, opts.id, func(ctx context.Context, s *flow.Session, id gitstate.RunID) error {
			run, err := do(ctx, s, id)
			if err != nil {
				return err
			}
			d := stepOf(run)
			return e.result(d, d.write)
		})
	}
	return c
}

// step opens the repository, finds the run that word names and calls do.
func (e *env) step(ctx context.Context, word string, do func(context.Context, *flow.Session, gitstate.RunID) error) error {
	s, closeFlow, err := e.openFlow(ctx)
	if err != nil {
		return err
	}
	defer closeFlow()
	id, err := s.Ledger.Resolve(ctx, word)
	if err != nil {
		return err
	}
	return do(ctx, s, id)
}

// negative prints the document of a step that was carried out and returns its outcome: a negative
// outcome is a result, and an error too.
func (e *env) negative(document any, text func(io.Writer), outcome error) error {
	return errors.Join(e.result(document, text), outcome)
}
