package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/schemas"
)

func newSchemaCmd(e *env) *cli.Command {
	return &cli.Command{
		Name:      "schema",
		Usage:     "print the JSON Schema of a document",
		ArgsUsage: "[NAME]",
		Description: `Prints the JSON Schema 2020-12 of one kind of document that git spot reads or writes. Without a
name it lists the names.`,
		Metadata: help("git spot schema task-contract"),
		Action:   func(_ context.Context, c *cli.Command) error { return runSchema(e, c.Args().First()) },
	}
}

func runSchema(e *env, name string) error {
	if name == "" {
		names := schemas.Names()
		return e.textResult(names, func(w io.Writer) {
			for _, name := range names {
				fmt.Fprintln(w, name)
			}
		})
	}
	data, err := schemas.Schema(name)
	if err != nil {
		return err
	}
	return e.textResult(json.RawMessage(data), func(w io.Writer) { fmt.Fprintf(w, "%s", data) })
}
