package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/schemas"
)

// manual is what help says of a command beyond its flags. Every command has one.
type manual struct {
	example string         // one command line that works; a script test runs it
	codes   []schemas.Code // the codes that are particular to this command
}

// manualKey is where a manual is kept in the Metadata of a command.
const manualKey = "manual"

// help makes the Metadata of a command.
func help(example string, codes ...schemas.Code) map[string]any {
	return map[string]any{manualKey: manual{example: example, codes: codes}}
}

// commonCodes are those that every command may end with.
func commonCodes() []schemas.Code {
	return []schemas.Code{schemas.CodeInternal, schemas.CodeDiskFull, schemas.CodeUsage, schemas.CodeInterrupted}
}

// repositoryCodes are those of every command that opens a repository.
func repositoryCodes() []schemas.Code {
	return []schemas.Code{schemas.CodeNotARepository, schemas.CodeRepoOwner, schemas.CodeRepoUnsupported}
}

// runCodes are those of every command on one run.
func runCodes() []schemas.Code {
	return append(repositoryCodes(), schemas.CodeRunNotFound, schemas.CodeRunAmbiguous, schemas.CodeLedgerCorrupt)
}

// stepCodes are those of every command that moves a run.
func stepCodes() []schemas.Code {
	return append(runCodes(), schemas.CodeConfigInvalid, schemas.CodeWrongState, schemas.CodeLockHeld, schemas.CodeConflict)
}

func newHelpCmd(e *env) *cli.Command {
	return &cli.Command{
		Name:        "help",
		Usage:       "show help for git spot or one command",
		ArgsUsage:   "[COMMAND]",
		Description: `Prints what "git spot COMMAND -h" prints. "git help spot" opens the manual page.`,
		Metadata:    help("git spot help prepare"),
		Action: func(_ context.Context, c *cli.Command) error {
			if !c.Args().Present() {
				return writeHelp(e, e.root)
			}
			topic := e.root.Command(c.Args().First())
			if topic == nil {
				return unknownCommand(e.root, c.Args().First())
			}
			return writeHelp(e, topic)
		},
	}
}

func writeHelp(e *env, c *cli.Command) error {
	return e.text(func(w io.Writer) {
		if c == e.root {
			writeRootHelp(w, c)
			return
		}
		usage := "git spot " + c.Name
		if len(c.Flags) > 0 {
			usage += " [options]"
		}
		fmt.Fprintf(w, "git spot %s: %s\n\nUSAGE\n  %s\n", c.Name, c.Usage, strings.TrimSpace(usage+" "+c.ArgsUsage))
		if c.Description != "" {
			fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(c.Description))
		}
		writeFlags(w, "OPTIONS", c.Flags)
		writeFlags(w, "GLOBAL OPTIONS", e.root.Flags)
		m, _ := c.Metadata[manualKey].(manual)
		fmt.Fprintf(w, "\nEXAMPLE\n  %s\n", m.example)
		writeExits(w, append(slices.Clone(m.codes), commonCodes()...))
	})
}

func writeRootHelp(w io.Writer, root *cli.Command) {
	fmt.Fprintf(w, "git spot: %s\n\nUSAGE\n  git spot [global options] COMMAND [options] [arguments]\n", root.Usage)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	heading := ""
	for _, c := range root.Commands {
		if c.Category != heading {
			heading = c.Category
			fmt.Fprintf(table, "\n%s\n", strings.ToUpper(heading))
		}
		fmt.Fprintf(table, "  %s\t%s\n", c.Name, c.Usage)
	}
	_ = table.Flush()
	writeFlags(w, "GLOBAL OPTIONS", root.Flags)
	fmt.Fprint(w, `
ENVIRONMENT
  GIT_SPOT_TRACE=1|FILE  show every git call and child process with its time
  GIT_SPOT_RECORD=FILE   append every exchange with a model's provider to FILE
  GIT_SPOT_REPLAY=FILE   answer from such a file, and ask no provider
`)
	fmt.Fprint(w, "\nEXAMPLE\n  git spot demo\n")
	fmt.Fprint(w, "\nEXIT STATUS\n")
	table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range exitStatuses() {
		fmt.Fprintf(table, "  %s\t%s\n", row[0], row[1])
	}
	_ = table.Flush()
	fmt.Fprint(w, "\n\"git spot COMMAND -h\" shows one command; \"git help spot\" opens the manual page.\n")
}

func writeFlags(w io.Writer, heading string, flags []cli.Flag) {
	if len(flags) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", heading)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range flags {
		names, usage := flagHelp(f)
		fmt.Fprintf(table, "  %s\t%s\n", names, usage)
	}
	_ = table.Flush()
}

// flagHelp returns a flag as it is typed, and what it does. The word in backquotes names its value.
func flagHelp(f cli.Flag) (names, usage string) {
	names = strings.Join(longFlags([]cli.Flag{f}), ", ")
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return names, ""
	}
	usage = d.GetUsage()
	if m, ok := f.(cli.DocGenerationMultiValueFlag); ok && m.IsMultiValueFlag() {
		usage += "; may be repeated"
	}
	if before, rest, found := strings.Cut(usage, "`"); found && d.TakesValue() {
		value, after, _ := strings.Cut(rest, "`")
		return names + " " + value, before + value + after
	}
	return names, usage
}

// writeExits prints the exit statuses of a command with the codes behind each.
func writeExits(w io.Writer, codes []schemas.Code) {
	byExit := map[int][]string{}
	for _, info := range schemas.Codes { // the table's order, whatever the order of codes
		if slices.Contains(codes, info.Code) {
			byExit[info.Exit] = append(byExit[info.Exit], string(info.Code))
		}
	}
	fmt.Fprint(w, "\nEXIT STATUS\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "  0\tdone\n")
	exits := make([]int, 0, len(byExit))
	for exit := range byExit {
		exits = append(exits, exit)
	}
	slices.Sort(exits)
	for _, exit := range exits {
		status := fmt.Sprint(exit)
		if exit == exitInterrupt {
			status = "130, 143"
		}
		fmt.Fprintf(table, "  %s\t%s\n", status, strings.Join(byExit[exit], " "))
	}
	_ = table.Flush()
}

// exitStatuses explains every exit status; a test holds it against the table of codes.
func exitStatuses() [][2]string {
	return [][2]string{
		{"0", "done"},
		{"1", "failed, read the code"},
		{"2", "a crash of git spot"},
		{"3", "a gate, the verification or policy says no"},
		{"4", "no such run, ref or file"},
		{"5", "conflict: state moved, nothing written, retry is safe"},
		{"6", "busy: owner alive, concurrency cap"},
		{"7", "worker failed"},
		{"8", "environment or set-up: program, version, credentials, repository"},
		{"129", "usage"},
		{"130", "SIGINT"},
		{"143", "SIGTERM, SIGHUP"},
	}
}
