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

type prepareOptions struct {
	contract contractFlags
	id       string
	profile  string
	model    string
	base     string
}

func (o *prepareOptions) flags() []cli.Flag {
	return append(o.contract.flags(),
		&cli.StringFlag{Name: "id", Usage: "call the run `ID`; default: date, title and six random characters", Destination: &o.id},
		&cli.StringFlag{Name: "profile", Usage: "have the work done by profile `NAME`", Destination: &o.profile},
		&cli.StringFlag{Name: "model", Usage: "use model `NAME` of the profile's provider", Destination: &o.model},
		&cli.StringFlag{Name: "base", Usage: "start from `REV`; a local branch is also what the run lands on", Destination: &o.base},
	)
}

// prepareDocument is what prepare prints.
type prepareDocument struct {
	stepDocument
	Base        schemas.Base       `json:"base"`
	SourceDirty []string           `json:"sourceDirty"`
	Worktree    string             `json:"worktree"`
	Caller      string             `json:"caller"`
	Profile     schemas.ProfileRef `json:"profile"`
	Fallback    []string           `json:"fallback"`
	Difficulty  schemas.Difficulty `json:"difficulty"`
	Ref         gitstate.Ref       `json:"ref"`
	Warnings    []string           `json:"warnings,omitempty"`
}

func prepareOf(run *gitstate.Run) prepareDocument {
	st := &run.State
	return prepareDocument{
		stepDocument: stepOf(run), Base: st.Base, SourceDirty: st.SourceDirty, Worktree: st.Worktree,
		Caller: st.Caller, Profile: st.Profile, Fallback: st.Fallback, Difficulty: st.Difficulty,
		Ref: gitstate.RunRef(run.ID), Warnings: st.Warnings,
	}
}

func (d prepareDocument) write(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", d.ID, d.State)
	fmt.Fprintf(w, "base: %s %s\n", d.Base.Commit, d.Base.Branch)
	fmt.Fprintf(w, "worktree: %s\n", d.Worktree)
	fmt.Fprintf(w, "profile: %s (%s)\n", d.Profile.Name, d.Profile.Source)
	for _, path := range d.SourceDirty {
		fmt.Fprintf(w, "not included: %s\n", oneLine(path))
	}
	for _, warning := range d.Warnings {
		fmt.Fprintf(w, "warning: %s\n", oneLine(warning))
	}
	fmt.Fprintf(w, "next: %s\n", d.Next)
}

func prepareCodes() []schemas.Code {
	return append(repositoryCodes(),
		schemas.CodeFileNotFound, schemas.CodeContractInvalid, schemas.CodeConfigInvalid, schemas.CodeHighRiskBlocked, schemas.CodeWorkerAuth,
		schemas.CodeWorkerCapability, schemas.CodeWorkerSetup, schemas.CodeSandboxUnavailable, schemas.CodeHeadUnborn, schemas.CodeRunExists,
		schemas.CodeConcurrencyLimit, schemas.CodeLockHeld)
}

func newPrepareCmd(e *env) *cli.Command {
	var opts prepareOptions
	return &cli.Command{
		Name:  "prepare",
		Usage: "record a task and make its worktree",
		Description: `Checks the contract, chooses a profile, claims a slot, records the base commit and checks it out
into a worktree of its own. Changes that are not committed are listed and not included. A refusal
leaves nothing behind.`,
		Flags:    opts.flags(),
		Metadata: help("git spot prepare --task task.json --id fix-login", prepareCodes()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := opts.check(c); err != nil {
				return err
			}
			return runPrepare(ctx, e, opts)
		},
	}
}

func (o *prepareOptions) check(c *cli.Command) error {
	if err := o.contract.check(); err != nil {
		return err
	}
	// An empty value is a variable that was not set, and not the wish for a default.
	for name, value := range map[string]string{"id": o.id, "profile": o.profile, "model": o.model, "base": o.base} {
		if c.IsSet(name) && value == "" {
			return usagef("--%s is empty", name)
		}
	}
	if o.id != "" {
		if _, err := gitstate.ParseRunID(o.id); err != nil {
			return usagef("%q is not a run id: a-z, 0-9, dot, dash and underscore, at most 64 of them, the first a letter or a digit", o.id)
		}
	}
	return nil
}

func runPrepare(ctx context.Context, e *env, opts prepareOptions) error {
	s, closeFlow, err := e.openFlow(ctx)
	if err != nil {
		return err
	}
	defer closeFlow()
	run, err := opts.prepare(ctx, e, s)
	if err != nil {
		return err
	}
	d := prepareOf(run)
	return e.result(d, d.write)
}

func (o *prepareOptions) prepare(ctx context.Context, e *env, s *flow.Session) (*gitstate.Run, error) {
	base, err := s.ResolveBase(ctx, o.base)
	if err != nil {
		return nil, err
	}
	contract, raw, err := o.contract.read(ctx, e)
	if err != nil {
		return nil, err
	}
	run, err := s.Prepare(ctx, flow.PrepareOptions{
		Contract: contract, Raw: raw, ID: gitstate.RunID(o.id), Profile: o.profile, Model: o.model, Base: base,
	})
	if err != nil {
		return nil, err
	}
	// Before a turn is paid for. Whether a path will be in the clean room is not known here.
	anyPath := func(string) bool { return true }
	for _, message := range missingPrograms(contract, e.getenv("PATH"), anyPath) {
		e.warn("%s; the verification will fail", message)
	}
	return run, nil
}
