package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/schemas"
)

const manpage = "../../contrib/git-spot.1"

// The manual page is made of what the commands say of themselves; -update writes it.
func TestGeneratedManpage(t *testing.T) {
	t.Parallel()
	e, _, _ := testEnv(t)
	want := renderManpage(newRoot(e))
	if *update {
		if err := os.WriteFile(manpage, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(manpage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("contrib/git-spot.1 is not what the commands say; run make docs")
	}
}

func renderManpage(root *cli.Command) []byte {
	var b bytes.Buffer
	section := func(name string) { fmt.Fprintf(&b, ".SH %s\n", name) }
	text := func(s string) { b.WriteString(roff(s)) }
	item := func(tag, s string) {
		b.WriteString(".TP\n")
		text(tag)
		text(s)
	}

	b.WriteString(".\\\" Generated from the commands' own help: make docs\n")
	b.WriteString(".TH GIT-SPOT 1 \"\" \"git spot\" \"Git Manual\"\n")
	section("NAME")
	text("git-spot - " + root.Usage)
	section("SYNOPSIS")
	text("git spot [global options] COMMAND [options] [arguments]")
	section("DESCRIPTION")
	text(`git spot hands a bounded coding task to a cheap, untrusted coding agent in an isolated worktree, runs
the verification itself on exactly the tree that would land, and lets the commit through only when
every gate is green. Planning, review and commit authority stay with the caller.

All lasting state is in the repository, under refs/spot/ and refs/notes/spot; git log, git show, git
notes and git for-each-ref read all of it.

Results go to standard output, as text on a terminal and as one JSON document otherwise; everything
else goes to standard error. In JSON mode the last line of a failed command on standard error is
{"error":{"code","message","hint","retryable","paths"}}.

git opens this page for "git spot --help"; "git spot COMMAND -h" shows one command.`)
	section("GLOBAL OPTIONS")
	manFlags(&b, root.Flags)
	section("COMMANDS")
	heading := ""
	for _, c := range root.Commands {
		if c.Category != heading {
			heading = c.Category
			fmt.Fprintf(&b, ".SS %s\n", strings.ToUpper(heading[:1])+heading[1:])
		}
		item("git spot "+c.Name, c.Usage)
	}
	for _, c := range root.Commands {
		section("GIT SPOT " + strings.ToUpper(c.Name))
		usage := "git spot " + c.Name
		if len(c.Flags) > 0 {
			usage += " [options]"
		}
		text(strings.TrimSpace(usage + " " + c.ArgsUsage))
		b.WriteString(".PP\n")
		text(strings.TrimSpace(c.Description))
		manFlags(&b, c.Flags)
		m, _ := c.Metadata[manualKey].(manual)
		b.WriteString(".PP\nExample:\n.PP\n.RS 4\n.nf\n")
		text(m.example)
		b.WriteString(".fi\n.RE\n")
		if len(m.codes) > 0 {
			var names []string
			for _, info := range schemas.Codes {
				if slices.Contains(m.codes, info.Code) {
					names = append(names, fmt.Sprintf("%s (%d)", info.Code, info.Exit))
				}
			}
			b.WriteString(".PP\n")
			text("Codes: " + strings.Join(names, ", "))
		}
	}
	section("EXIT STATUS")
	for _, status := range exitStatuses() {
		item(status[0], status[1])
	}
	section("ENVIRONMENT")
	item("GIT_SPOT_TRACE", "1 shows every git call and child process with its time on standard error, an absolute path appends them to that file.")
	item("PARENT_AGENT, PARENT_THREAD_ID", "who calls, and in which of its sessions.")
	section("FILES")
	item("refs/spot/runs/<id>", "the ledger of a run: one commit for each event, its state in state.json.")
	item("refs/spot/candidates/<id>", "the latest candidate, then the approved commit.")
	item("refs/notes/spot", "what proved a commit: git log --notes=spot.")
	item("<git dir>/spot/<id>/worker.log", "what a worker does, while it does it.")
	section("CONFIGURATION")
	text(`git configuration under spot.*; "git spot doctor" lists every value with its origin.`)
	section("SEE ALSO")
	text("git(1), git-notes(1), git-worktree(1)")
	return b.Bytes()
}

func manFlags(b *bytes.Buffer, flags []cli.Flag) {
	for _, f := range flags {
		names, usage := flagHelp(f)
		fmt.Fprintf(b, ".TP\n%s%s", roff(names), roff(usage))
	}
}

// roff escapes a text; an empty line starts a paragraph.
func roff(s string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(s, "\n") {
		line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
		switch {
		case line == "":
			line = ".PP"
		case line[0] == '.' || line[0] == '\'':
			line = `\&` + line
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
