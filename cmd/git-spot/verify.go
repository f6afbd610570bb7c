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
	"github.com/git-spot/git-spot/verify"
)

// verifyDocument is what verify prints.
type verifyDocument struct {
	stepDocument
	Verdict    schemas.Verdict         `json:"verdict"`
	Code       schemas.Code            `json:"code,omitempty"`
	DiffSHA256 string                  `json:"diffSha256"`
	Setup      []schemas.CommandResult `json:"setup"`
	Commands   []schemas.CommandResult `json:"commands"`
	Gates      []schemas.GateResult    `json:"gates"`
	Isolation  schemas.Isolation       `json:"isolation"`
	Warnings   []string                `json:"warnings,omitempty"`
}

func verifyOf(r *flow.VerifyResult) verifyDocument {
	v := r.Verification
	return verifyDocument{
		stepDocument: stepOf(r.Run), Verdict: v.Verdict, Code: v.Code, DiffSHA256: v.DiffSHA256,
		Setup: v.Setup, Commands: v.Commands, Gates: v.Gates, Isolation: v.Isolation, Warnings: v.Warnings,
	}
}

func (d verifyDocument) write(w io.Writer) {
	fmt.Fprintf(w, "%s: %s, verification: %s\n", d.ID, d.State, d.Verdict)
	for _, g := range d.Gates {
		if !g.OK {
			fmt.Fprintf(w, "  red    %s: %s\n", g.Code, oneLine(g.Message))
			for _, path := range g.Paths {
				fmt.Fprintf(w, "           %s\n", oneLine(path))
			}
		}
	}
	for _, commands := range [][]schemas.CommandResult{d.Setup, d.Commands} {
		for _, c := range commands {
			mark := "passed"
			if !verify.Passed(c) {
				mark = "failed"
			}
			fmt.Fprintf(w, "  %s %s\n", mark, oneLine(flow.DescribeCommand(c)))
			if mark == "failed" {
				if tail := outputEnd(c); tail != "" {
					fmt.Fprintln(w, tail)
				}
			}
		}
	}
	fmt.Fprintf(w, "next: %s\n", d.Next)
}

// outputEnd is the end of what a command printed, without its last newline.
func outputEnd(c schemas.CommandResult) string {
	tail := c.OutputTail
	if tail == "" {
		tail = c.OutputHead
	}
	return strings.TrimSuffix(tail, "\n")
}

func verifyCodes() []schemas.Code {
	return append(stepCodes(),
		schemas.CodeEmptyDiff, schemas.CodeDiffHashChanged, schemas.CodePathNotAllowed, schemas.CodePathForbidden, schemas.CodeLockedPathChanged,
		schemas.CodeVerificationScriptChanged, schemas.CodeExcessiveDeletion, schemas.CodeDiffTooLarge, schemas.CodeSymlinkEscape,
		schemas.CodeSubmoduleChanged, schemas.CodeNestedRepository, schemas.CodeGitStateTampered,
		schemas.CodeVerificationFailed, schemas.CodeVerificationTimeout, schemas.CodeConcurrencyLimit, schemas.CodeSandboxUnavailable)
}

func newVerifyCmd(e *env) *cli.Command {
	var opts stepOptions
	return &cli.Command{
		Name:      "verify",
		Usage:     "prove the candidate: gates, then the contract's commands in a clean room",
		ArgsUsage: "[ID]",
		Description: `Judges the change by its gates, checks the candidate's tree out into a clean room with every locked
path as it is on the base commit, and runs set-up and verification there. The tree that is tested is
the tree that is hashed is the tree that lands. What a worker says of its own work counts nowhere.`,
		Flags:    []cli.Flag{idFlag(&opts.id)},
		Metadata: help("git spot verify --id fix-login", verifyCodes()...),
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			if opts.id, err = runWord(c, opts.id); err != nil {
				return err
			}
			return e.step(ctx, opts.id, func(ctx context.Context, s *flow.Session, id gitstate.RunID) error {
				result, err := s.Verify(ctx, id)
				if err != nil {
					return err
				}
				d := verifyOf(result)
				if receipt, err := s.Receipt(ctx, result.Run); err == nil { // without one nobody has asked
					d.Next = answering(d.Next, receipt.Question)
				}
				return e.negative(d, d.write, result.Err())
			})
		},
	}
}
