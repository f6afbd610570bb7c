package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/flow"
	"github.com/git-spot/git-spot/schemas"
)

// maxResumeText is how long the text of resume may be, in bytes: it is part of a prompt, and of the ledger.
const maxResumeText = 64 << 10

func newResumeCmd(e *env) *cli.Command {
	var id, text string
	return &cli.Command{
		Name:      "resume",
		Usage:     "let the worker go on with a text, as the answer to its question",
		ArgsUsage: "[ID]",
		Description: `Runs the next turn with a text of yours. A worker whose program keeps its session goes on in it, with
all it has read; any other begins anew, with the task, its change so far and the text. It counts as a
revision: at most spot.maxRevisions of both. --text - reads the text from standard input.`,
		Flags: []cli.Flag{
			idFlag(&id),
			&cli.StringFlag{Name: "text", Usage: "tell the worker `TEXT`; - is standard input", Destination: &text},
		},
		Metadata: help("git spot resume --id fix-login --text 'Use the second format.'", append(turnCodes(),
			schemas.CodeRevisionLimit, schemas.CodeConcurrencyLimit)...),
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			if id, err = runWord(c, id); err != nil {
				return err
			}
			if text != "-" {
				if err := checkResumeText(text); err != nil {
					return err
				}
			}
			return e.step(ctx, id, func(ctx context.Context, s *flow.Session, id gitstate.RunID) error {
				told := text
				if text == "-" {
					data, err := e.readInput(ctx, "-")
					if err != nil {
						return err
					}
					told = string(data)
				}
				if err := checkResumeText(told); err != nil {
					return err
				}
				e.announceLog(s, id)
				result, err := s.Resume(ctx, id, told)
				return e.turn(result, err)
			})
		},
	}
}

func checkResumeText(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return &usageError{message: "resume needs --text with something to say"}
	case len(text) > maxResumeText:
		return &usageError{message: fmt.Sprintf("the text of resume has %d bytes, more than %d", len(text), maxResumeText)}
	}
	return nil
}
