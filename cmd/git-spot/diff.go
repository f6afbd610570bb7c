package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

type diffOptions struct {
	id       string
	stat     bool
	nameOnly bool
}

func newDiffCmd(e *env) *cli.Command {
	var opts diffOptions
	return &cli.Command{
		Name:      "diff",
		Usage:     "show the change of a run against its base",
		ArgsUsage: "[ID]",
		Description: `Shows what the candidate of a run changes against the base commit, as the gates see it: without rename
detection, external diff programs or text conversion. --json prints the changed paths and diffSha256.`,
		Flags: []cli.Flag{
			idFlag(&opts.id),
			&cli.BoolFlag{Name: "stat", Usage: "only how much changed in each file", Destination: &opts.stat},
			&cli.BoolFlag{Name: "name-only", Usage: "only the paths", Destination: &opts.nameOnly},
		},
		Metadata: help("git spot diff --id fix-login --stat", append(runCodes(), schemas.CodeWrongState)...),
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			if opts.id, err = runWord(c, opts.id); err != nil {
				return err
			}
			if opts.stat && opts.nameOnly {
				return usagef("--stat and --name-only exclude each other")
			}
			return runDiff(ctx, e, opts)
		},
	}
}

// diffDocument is what diff prints with --json.
type diffDocument struct {
	ID         gitstate.RunID   `json:"id"`
	State      schemas.State    `json:"state"`
	Base       gitstate.OID     `json:"base"`
	Candidate  gitstate.OID     `json:"candidate"`
	DiffSHA256 string           `json:"diffSha256"`
	Diff       schemas.DiffStat `json:"diff"`
	Bytes      int64            `json:"bytes"`
	Changes    []diffChange     `json:"changes"`
	Next       string           `json:"next"`
}

type diffChange struct {
	Path    string `json:"path"`
	Status  string `json:"status"` // A M D T
	OldMode string `json:"oldMode"`
	NewMode string `json:"newMode"`
	Added   int    `json:"added"`
	Deleted int    `json:"deleted"`
	Binary  bool   `json:"binary"`
}

func runDiff(ctx context.Context, e *env, opts diffOptions) error {
	s, err := e.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	run, err := s.load(ctx, opts.id)
	if err != nil {
		return err
	}
	next := s.next(ctx, run)
	if run.State.Candidate == "" {
		return &codedError{code: schemas.CodeWrongState, message: fmt.Sprintf("run %q has no candidate yet", run.ID), hints: []string{next}}
	}
	base, candidate := gitstate.OID(run.State.Base.Commit), gitstate.OID(run.State.Candidate)
	if e.global.json || e.global.format == "json" {
		d, err := s.ledger.Diff(ctx, base, candidate)
		if err != nil {
			return err
		}
		return e.document(newDiffDocument(run, d, next))
	}
	call := gitexec.Call{Args: []string{
		"diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none",
	}}
	switch {
	case opts.stat:
		call.Args = append(call.Args, "--stat=100", "--summary")
	case opts.nameOnly:
		call.Args = append(call.Args, "--name-only")
	default:
		call.Args = append(call.Args, "-p", "--full-index")
	}
	call.Args = append(call.Args, string(base), string(candidate))
	out := e.textOut()
	return errors.Join(s.repo.Stream(ctx, call, out), out.Close())
}

func newDiffDocument(run *gitstate.Run, d *gitstate.Diff, next string) diffDocument {
	doc := diffDocument{
		ID: run.ID, State: run.State.State, Base: d.Base, Candidate: d.Candidate, DiffSHA256: d.SHA256,
		Diff: d.Stat, Bytes: d.Bytes, Changes: make([]diffChange, 0, len(d.Changes)), Next: next,
	}
	for _, c := range d.Changes {
		doc.Changes = append(doc.Changes, diffChange{
			Path: strings.ToValidUTF8(c.Path, "\uFFFD"), Status: string(c.Status), OldMode: c.OldMode, NewMode: c.NewMode,
			Added: c.Added, Deleted: c.Deleted, Binary: c.Binary,
		})
	}
	return doc
}
