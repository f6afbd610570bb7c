package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/gitexec"
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

	example := func(s string) {
		b.WriteString(".PP\n.RS 4\n.nf\n")
		text(s)
		b.WriteString(".fi\n.RE\n.PP\n")
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
		b.WriteString(".PP\nExample:\n")
		example(m.example)
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
	item("GIT_SPOT_RECORD, GIT_SPOT_REPLAY", "a file to which every exchange with a model's provider is appended; a file from which the worker is answered, while no provider is asked.")
	item("PARENT_AGENT, PARENT_THREAD_ID", "who calls, and in which of its sessions.")
	section("FILES")
	item("refs/spot/runs/<id>", "the ledger of a run: one commit for each event, its state in state.json.")
	item("refs/spot/candidates/<id>", "the latest candidate, then the approved commit.")
	item("refs/notes/spot", "what proved a commit: git log --notes=spot.")
	item("<git dir>/spot/<id>/worker.log", "what a worker does, while it does it.")
	section("CONFIGURATION")
	text(`Everything is git configuration under spot.*; "git spot doctor" lists every value that is set, with its origin. A key that
may have several values takes all of the nearest scope. A profile says who does the work. The adapter builtin is the agent that
comes with git spot, which needs a model server and mostly a key; some profiles of it are there already:`)
	example(`export DEEPSEEK_API_KEY=...
git config --global spot.defaultProfile deepseek`)
	text(`It has no shell, and never sees the key: that is taken from the variable, else from git's credential helper, and added to
each request by git spot. docs/workers.md has the lines for other providers. The adapter command drives any program:`)
	example(`git config --global spot.profile.mine.adapter command
git config --global --add spot.profile.mine.argv my-agent
git config --global --add spot.profile.mine.argv --without-questions
git config --global spot.defaultProfile mine`)
	text(`It is started in the worktree with the task on its standard input. What it prints is its report, exit status 0
says that it has finished, and what counts are the files that it leaves. Its home is an empty folder and its
environment an allowlist: what it needs to log in comes by apiKeyEnv or env, or from a script of yours around it.`)
	for _, key := range configurationKeys() {
		item(key[0], key[1])
	}
	section("SEE ALSO")
	text("git(1), git-notes(1), git-worktree(1)")
	return b.Bytes()
}

// configurationKeys are those that do something in this version.
func configurationKeys() [][2]string {
	return [][2]string{
		{"spot.defaultProfile", "the profile of a task that nothing else routes."},
		{"spot.caller.CALLER.profile", "the profile that a caller prefers; --profile is stronger."},
		{"spot.maxConcurrentRuns", "runs that may be worked on at the same time, 1 to 16; default: 4."},
		{"spot.maxRevisions", "how often a run may be revised, 0 to 16; default: 2."},
		{"spot.worktreeRoot", "where the worktrees are; default: git-spot/worktrees in $XDG_STATE_HOME or ~/.local/state."},
		{"spot.alwaysLockedPath", "globs that every task locks beside its own. May have several values."},
		{"spot.protectedBranch", "branches that nothing is landed on, without refs/heads/. May have several values."},
		{"spot.sandbox", "require refuses to run without a sandbox, which this version does not have; prefer (the default) and off go on without."},
		{"spot.selfReview.enabled", "park a run for a self-review after its verification; default: true."},
		{"spot.profile.NAME.adapter", "builtin or command; the others that a profile may name are not in this version."},
		{"spot.profile.NAME.program", "what to start in the place of the adapter's own program, or of the first of argv: a name on PATH, or an absolute path."},
		{"spot.profile.NAME.api", "of builtin: what the server speaks: chat (the default; OpenAI chat completions), responses (OpenAI) or messages (Anthropic)."},
		{"spot.profile.NAME.baseURL", "of builtin: where the server is, without the last part: /chat/completions, /responses or /v1/messages."},
		{"spot.profile.NAME.maxContextSize", "of builtin: tokens of the model's context window; default: 128000."},
		{"spot.profile.NAME.reasoningEffort", "of builtin: how much the model is to reason, in the provider's words."},
		{"spot.profile.NAME.argv", "the program and its arguments, one value each, in order. It is not given to a shell. A file of yours needs its absolute path."},
		{"spot.profile.NAME.prompt", "stdin (the default), file (the name of one is the last argument) or argument (the last one is the task itself)."},
		{"spot.profile.NAME.output", `text (the default: what it prints is its report) or jsonl: one event a line, of the types text and final with "text", ` +
			`tool with "name" and "status", session with "id", error with "class" and "message", and usage with "uncachedInput", "cacheRead", "cacheWrite", "output" and "costUSD".`},
		{"spot.profile.NAME.env", "NAME passes a variable on, NAME=VALUE sets one. May have several values."},
		{"spot.profile.NAME.apiKeyEnv", "the variable that holds the key, whose value is kept out of everything that is stored. builtin never gets it, and where it is " +
			"not set git's credential helper is asked; for command it must be set, and is passed on."},
		{"spot.profile.NAME.model", "what builtin asks for; recorded with each turn, in the note and in the commit."},
		{"spot.profile.NAME.provider", "recorded with each turn."},
		{"spot.profile.NAME.timeoutSeconds, idleSeconds, maxSteps", "limits of a turn; the contract may set lower ones."},
		{"spot.profile.NAME.costTier", "cheap, standard or premium: the profile is then chosen by itself for tasks of low, medium or high difficulty."},
		{"spot.profile.NAME.strengths", "domains of tasks that it is chosen for before others of its tier. May have several values."},
		{"spot.profile.NAME.capabilities, modalities", "what a task may ask for and the model can do. May have several values."},
		{"spot.profile.NAME.fallbackProfiles", "who goes on when its provider says that the quota is used up or the rate too high, or fails for the moment. May have several values."},
		{"spot.rate.MODEL.input, output, cacheRead, cacheWrite", "USD per million tokens, for a provider that does not say what a request costs: maxCostUSD of a contract needs them."},
	}
}

// TestConfigurationKeys: the page names no key that git spot does not take.
func TestConfigurationKeys(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"maxConcurrentRuns": "4", "maxRevisions": "2", "defaultProfile": "NAME", "profile": "NAME", "adapter": "command", "sandbox": "prefer",
		"enabled": "true", "prompt": "stdin", "output": "text", "costTier": "cheap", "timeoutSeconds": "1", "idleSeconds": "1", "fallbackProfiles": "deepseek",
		"env": "VARIABLE", "apiKeyEnv": "VARIABLE", "api": "chat", "baseURL": "https://example.com/v1", "maxContextSize": "1", "maxSteps": "1",
		"capabilities": "tool-use",
	}
	var entries []gitexec.ConfigEntry
	for _, row := range configurationKeys() {
		keys := strings.Split(row[0], ", ")
		prefix := keys[0][:strings.LastIndex(keys[0], ".")+1]
		for _, key := range keys {
			name := strings.TrimPrefix(key, prefix)
			value := values[name]
			switch {
			case strings.HasPrefix(prefix, "spot.rate."):
				value = "1"
			case value == "":
				value = "/x"
			}
			entries = append(entries, gitexec.ConfigEntry{
				Key: strings.Replace(prefix, "CALLER", "codex", 1) + strings.ToLower(name), Value: value, Scope: "local",
			})
		}
	}
	if _, err := config.Parse(entries); err != nil {
		t.Error(err)
	}
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
