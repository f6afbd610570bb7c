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

// turnDocument is what run, revise and resume print.
type turnDocument struct {
	stepDocument
	Attempt      int                  `json:"attempt"`
	Outcome      schemas.Outcome      `json:"outcome"`
	FailureClass schemas.FailureClass `json:"failureClass,omitempty"`
	Usage        schemas.Usage        `json:"usage"`
	Candidate    string               `json:"candidate"`
	DiffSHA256   string               `json:"diffSha256"`
	Diff         schemas.DiffStat     `json:"diff"`
	Log          string               `json:"log"`
	Question     string               `json:"question,omitempty"` // what the worker asks of the caller
	Warnings     []string             `json:"warnings,omitempty"`
}

func turnOf(r *flow.TurnResult) turnDocument {
	return turnDocument{
		stepDocument: stepOf(r.Run), Attempt: r.Receipt.Attempt, Outcome: r.Receipt.Outcome, FailureClass: r.Receipt.FailureClass,
		Usage: r.Receipt.Usage, Candidate: r.Run.State.Candidate, DiffSHA256: r.Diff.SHA256, Diff: r.Diff.Stat,
		Log: r.Log, Question: r.Receipt.Question, Warnings: r.Receipt.Warnings,
	}
}

func (d turnDocument) write(w io.Writer) {
	fmt.Fprintf(w, "%s: %s, attempt %d %s\n", d.ID, d.State, d.Attempt, d.Outcome)
	fmt.Fprintf(w, "change: %d files, +%d -%d\n", d.Diff.Files, d.Diff.Added, d.Diff.Deleted)
	if d.Question != "" {
		fmt.Fprintf(w, "question: %s\n", oneLine(d.Question))
	}
	for _, warning := range d.Warnings {
		fmt.Fprintf(w, "warning: %s\n", oneLine(warning))
	}
	fmt.Fprintf(w, "log: %s\nnext: %s\n", d.Log, d.Next)
}

// turnCodes are those of a command that runs a worker.
func turnCodes() []schemas.Code {
	return append(stepCodes(), schemas.CodeFileNotFound, schemas.CodeSandboxUnavailable, schemas.CodeBudgetExceeded, schemas.CodeWorkerQuota, schemas.CodeWorkerRateLimit,
		schemas.CodeWorkerTransient, schemas.CodeWorkerPermanent, schemas.CodeWorkerTimeout, schemas.CodeWorkerIdle, schemas.CodeWorkerIncomplete,
		schemas.CodeWorkerAuth, schemas.CodeWorkerCapability, schemas.CodeWorkerPermission, schemas.CodeWorkerSetup)
}

func newRunCmd(e *env) *cli.Command {
	var opts stepOptions
	return &cli.Command{
		Name:      "run",
		Usage:     "let the worker work on a prepared run",
		ArgsUsage: "[ID]",
		Description: `Starts the worker of the run's profile in its worktree, waits for it and everything it started,
and records what it did as a candidate commit. What the worker prints is in the log while it works.`,
		Flags:    []cli.Flag{idFlag(&opts.id)},
		Metadata: help("git spot run --id fix-login", turnCodes()...),
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			if opts.id, err = runWord(c, opts.id); err != nil {
				return err
			}
			return e.step(ctx, opts.id, func(ctx context.Context, s *flow.Session, id gitstate.RunID) error {
				e.announceLog(s, id)
				result, err := s.Run(ctx, id)
				return e.turn(result, err)
			})
		},
	}
}

// announceLog tells a person who waits where to look.
func (e *env) announceLog(s *flow.Session, id gitstate.RunID) {
	if !e.jsonMode() {
		e.warn("log: %s", s.LogPath(id))
	}
}

// turn prints what a worker turn came to, also one that failed.
func (e *env) turn(result *flow.TurnResult, err error) error {
	if result == nil {
		return err
	}
	d := turnOf(result)
	if err == nil {
		err = result.Err()
	}
	return e.negative(d, d.write, err)
}
