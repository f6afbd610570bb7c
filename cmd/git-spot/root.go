package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
)

// env is all that a command sees of the process it runs in.
type env struct {
	in               io.Reader
	out, err         io.Writer
	getenv           func(string) string
	now              func() time.Time
	args             []string // without the program's name
	stdoutIsTerminal bool

	global globalFlags
	root   *cli.Command
}

// globalFlags are the flags that every command takes, before or after its name.
type globalFlags struct {
	dir    string // -C
	gitDir string // --git-dir
	format string // --format
	json   bool   // --json
	help   bool   // -h
}

// group is a part of the list of commands under one heading of "git spot -h".
type group struct {
	heading  string
	commands []*cli.Command
}

// groups lists every command once, in the order in which help shows them.
func groups(e *env) []group {
	return []group{
		{"the loop", []*cli.Command{
			newPrepareCmd(e),
			newRunCmd(e),
			newVerifyCmd(e),
			newSelfReviewCmd(e),
			newReviseCmd(e),
			newResumeCmd(e),
			newApproveCmd(e),
			newIntegrateCmd(e),
			newReportCmd(e),
			newCleanupCmd(e),
		}},
		{"one call for several steps", []*cli.Command{
			newDispatchCmd(e),
			newLandCmd(e),
			newDemoCmd(e),
		}},
		{"look", []*cli.Command{
			newListCmd(e),
			newInspectCmd(e),
			newLogCmd(e),
			newDiffCmd(e),
		}},
		{"mend", []*cli.Command{
			newDoctorCmd(e),
			newRecoverCmd(e),
			newAbortCmd(e),
			newFsckCmd(e),
		}},
		{"helpers", []*cli.Command{
			newTemplateCmd(e),
			newSchemaCmd(e),
			newCompletionCmd(e),
			newVersionCmd(e),
			newHelpCmd(e),
		}},
	}
}

// run runs the command that e.args names, says what went wrong and returns the exit status.
func run(ctx context.Context, e *env) int { return e.finish(ctx, execute(ctx, e)) }

func execute(ctx context.Context, e *env) error {
	ctx, closeTrace := e.trace(ctx)
	defer closeTrace()
	e.root = newRoot(e)
	strict(e, e.root)
	return e.root.Run(ctx, append([]string{"git-spot"}, e.args...))
}

func newRoot(e *env) *cli.Command {
	root := &cli.Command{
		Name:      "git-spot",
		Usage:     "give a bounded coding task to an untrusted agent, prove the result, then land it",
		ArgsUsage: "COMMAND",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "C", Usage: "run as if started in `DIR`", Destination: &e.global.dir},
			&cli.StringFlag{Name: "git-dir", Usage: "the repository's git directory is `DIR`", Destination: &e.global.gitDir},
			&cli.StringFlag{Name: "format", Usage: "print `text|json`; the default is text on a terminal, else json", Destination: &e.global.format},
			&cli.BoolFlag{Name: "json", Usage: "short for --format json", Destination: &e.global.json},
			&cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show help", Destination: &e.global.help},
		},
		Reader:         e.in,
		Writer:         e.out,
		ErrWriter:      e.err,
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // finish decides, and only main exits
	}
	for _, g := range groups(e) {
		for _, c := range g.commands {
			c.Category = g.heading
			root.Commands = append(root.Commands, c)
		}
	}
	return root
}

// strict makes every way of writing a command line wrongly one *usageError, on every command: an
// unknown flag, a missing value, a missing or unknown subcommand, a missing or stray argument. How
// many arguments a command takes is read off its ArgsUsage, so that help cannot say something else:
// "X" is required, "[X]" may be left out.
func strict(e *env, c *cli.Command) {
	c.HideHelp = true
	c.HideVersion = true
	c.DisableSliceFlagSeparator = true // a comma is an ordinary character of a path or a text
	c.OnUsageError = func(_ context.Context, c *cli.Command, err error, _ bool) error {
		u := &usageError{message: usageMessage(err, append(longFlags(c.Flags), longFlags(e.root.Flags)...))}
		if c != e.root {
			u.command = c.Name
		}
		return u
	}
	action := c.Action
	c.Action = func(ctx context.Context, c *cli.Command) error {
		if e.global.help {
			return writeHelp(e, c)
		}
		if err := e.checkGlobals(); err != nil {
			return err
		}
		if len(c.Commands) > 0 {
			if word := c.Args().First(); c.Args().Present() {
				return unknownCommand(c, word)
			}
			return usagef("no command given")
		}
		least, most := arity(c.ArgsUsage)
		switch n := c.Args().Len(); {
		case n < least:
			return &usageError{command: c.Name, message: fmt.Sprintf("%s needs %s", c.Name, c.ArgsUsage)}
		case n > most:
			return &usageError{command: c.Name, message: fmt.Sprintf("stray argument %q", c.Args().Get(most))}
		}
		err := action(ctx, c)
		if codeOf(err) == schemas.CodeUsage { // packages know words and values, not commands
			return &usageError{command: c.Name, message: err.Error(), err: err}
		}
		return err
	}
	for _, sub := range c.Commands {
		strict(e, sub)
	}
}

func arity(argsUsage string) (least, most int) {
	for word := range strings.FieldsSeq(argsUsage) {
		most++
		if !strings.HasPrefix(word, "[") {
			least++
		}
	}
	return least, most
}

func unknownCommand(root *cli.Command, word string) error {
	message := fmt.Sprintf("unknown command %q", word)
	if near := schemas.Nearest(word, commandNames(root)); near != "" {
		message += fmt.Sprintf("; did you mean %s?", near)
	}
	return &usageError{message: message}
}

// usageMessage rewords what the flag parser says; known are the flags that it could have been.
func usageMessage(err error, known []string) string {
	message := err.Error()
	if flag, ok := strings.CutPrefix(message, "flag provided but not defined: -"); ok {
		message = "unknown flag " + dashed(flag)
		if near := schemas.Nearest(dashed(flag), known); near != "" {
			message += "; did you mean " + near + "?"
		}
		return message
	}
	if flag, ok := strings.CutPrefix(message, "flag needs an argument: "); ok {
		return fmt.Sprintf("%s needs a value", dashed(strings.TrimLeft(flag, "-")))
	}
	return message
}

func dashed(flag string) string {
	if len(flag) == 1 {
		return "-" + flag
	}
	return "--" + flag
}

func (e *env) checkGlobals() error {
	if !slices.Contains([]string{"", "text", "json"}, e.global.format) {
		return usagef("--format is text or json, not %q", e.global.format)
	}
	if e.global.json && e.global.format == "text" {
		return usagef("--json and --format text exclude each other")
	}
	return nil
}

// trace makes every git call and child process under the returned context report itself where
// GIT_SPOT_TRACE says: standard error for 1 or true, else the file it names, which is appended to.
func (e *env) trace(ctx context.Context) (traced context.Context, closeTrace func()) {
	switch name := e.getenv("GIT_SPOT_TRACE"); strings.ToLower(name) {
	case "", "0", "false":
		return ctx, func() {}
	case "1", "2", "true":
		return proc.WithTrace(ctx, e.err), func() {}
	default:
		if !filepath.IsAbs(name) {
			e.warn("GIT_SPOT_TRACE: %q is neither 1 nor an absolute path", name)
			return ctx, func() {}
		}
		f, err := durable.Append(name, 0o600)
		if err != nil {
			e.warn("GIT_SPOT_TRACE: %v", err) // as git does: a trace never stops the work
			return ctx, func() {}
		}
		return proc.WithTrace(ctx, f), func() { _ = f.Close() }
	}
}
