package main

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/schemas"
)

func newTemplateCmd(e *env) *cli.Command {
	return &cli.Command{
		Name:      "template",
		Usage:     "print a task to fill in",
		ArgsUsage: "KIND",
		Description: `Prints a task contract of the kind code, explore, test, review or discuss with an example in each
place. Fill it in and give it to "git spot prepare --task FILE". This version runs tasks of the kind
code; prepare refuses the others.`,
		Metadata: help("git spot template code > task.json"),
		Action:   func(_ context.Context, c *cli.Command) error { return runTemplate(e, schemas.Kind(c.Args().First())) },
	}
}

// templateDocument is what template prints with --json.
type templateDocument struct {
	Kind     schemas.Kind `json:"kind"`
	Template string       `json:"template"`
}

func runTemplate(e *env, kind schemas.Kind) error {
	text, err := schemas.Template(kind)
	if err != nil {
		return err
	}
	return e.textResult(templateDocument{Kind: kind, Template: string(text)}, func(w io.Writer) { fmt.Fprintf(w, "%s", text) })
}
