package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/git-spot/git-spot/schemas"
)

// testEnv is an env with no terminal, no input and no environment.
func testEnv(t *testing.T, args ...string) (e *env, out, stderr *bytes.Buffer) {
	t.Helper()
	out, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &env{
		in: strings.NewReader(""), out: out, err: stderr, args: args,
		getenv: func(string) string { return "" },
		now:    func() time.Time { return time.Unix(1_000_000_000, 0) },
	}, out, stderr
}

func TestEveryCommandIsDocumented(t *testing.T) {
	t.Parallel()
	e, _, _ := testEnv(t)
	root := newRoot(e)
	seen := map[string]bool{}
	for _, c := range root.Commands {
		if seen[c.Name] {
			t.Errorf("%s is listed twice", c.Name)
		}
		seen[c.Name] = true
		if c.Usage == "" || strings.HasSuffix(c.Usage, ".") || c.Usage[:1] != strings.ToLower(c.Usage[:1]) {
			t.Errorf("%s: usage %q is not one lower-case phrase", c.Name, c.Usage)
		}
		if c.Description == "" {
			t.Errorf("%s has no description", c.Name)
		}
		m, ok := c.Metadata[manualKey].(manual)
		if !ok || !strings.HasPrefix(m.example+" ", "git spot "+c.Name+" ") {
			t.Errorf("%s: example %q", c.Name, m.example)
		}
		for _, code := range m.codes {
			if code.Info().Code != code {
				t.Errorf("%s: unknown code %s", c.Name, code)
			}
			if code.Info().Exit == 0 {
				t.Errorf("%s: %s is a warning, no command ends with it", c.Name, code)
			}
		}
		for _, f := range c.Flags {
			if d, ok := f.(interface{ GetUsage() string }); !ok || d.GetUsage() == "" {
				t.Errorf("%s: flag %s has no usage", c.Name, f.Names()[0])
			}
		}
	}
	for _, name := range []string{
		"doctor", "prepare", "run", "verify", "self-review", "revise", "approve", "integrate", "land", "report", "cleanup", "inspect",
		"list", "log", "diff", "recover", "abort", "fsck", "dispatch", "demo", "template", "schema", "completion", "version", "help",
	} {
		if !seen[name] {
			t.Errorf("there is no command %s", name)
		}
	}
}

// The example of each command is run by a script.
func TestEveryExampleIsRun(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	e, _, _ := testEnv(t)
	for _, c := range newRoot(e).Commands {
		m, _ := c.Metadata[manualKey].(manual)
		direct, shell := "\nexec "+m.example+"\n", "\nexec sh -c '"+m.example+"'\n"
		if !strings.Contains(all.String(), direct) && !strings.Contains(all.String(), shell) {
			t.Errorf("no script runs %q", m.example)
		}
	}
}

// Every command refuses a wrong command line in the same way, before it looks at anything.
func TestStrict(t *testing.T) {
	t.Parallel()
	e, _, _ := testEnv(t)
	lines := [][]string{
		{},
		{"--bogus"},
		{"bogus"},
		{"-C"},
		{"--format"},
		{"help", "bogus"},
		{"--format", "xml", "list"},
		{"--json", "--format", "text", "list"},
		{""},
		{"--", "bogus"},
		{"-9"},
	}
	for _, c := range newRoot(e).Commands {
		lines = append(lines,
			[]string{c.Name, "--bogus"},
			[]string{c.Name, "-Z"},
			[]string{c.Name, "--git-dir"},
			[]string{c.Name, "one", "two", "three"},
			[]string{c.Name, "--json=perhaps"},
		)
	}
	for _, args := range lines {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			e, out, stderr := testEnv(t, args...)
			if got := run(t.Context(), e); got != 129 {
				t.Errorf("exit status %d, want 129; stderr:\n%s", got, stderr)
			}
			if out.Len() > 0 {
				t.Errorf("standard output: %q", out)
			}
			said := stderr.String()
			if !strings.HasPrefix(said, "git-spot: ") || !strings.Contains(said, "\ngit-spot: hint: git spot ") {
				t.Errorf("standard error: %q", said)
			}
			if e.jsonMode() != strings.Contains(said, `{"error":{"code":"USAGE"`) {
				t.Errorf("JSON mode is %v: %q", e.jsonMode(), said)
			}
		})
	}
}

func TestJSONMode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args     string
		terminal bool
		want     bool
	}{
		{"list", true, false},
		{"list", false, true},
		{"list --json", true, true},
		{"--json list", true, true},
		{"list --format json", true, true},
		{"list --format=text", false, false},
		{"list --format text", false, false},
		{"list --format", false, true},
		{"list --bogus --json", true, true},
		{"list -- --json", true, false},
	} {
		e, _, _ := testEnv(t, strings.Fields(tt.args)...)
		e.stdoutIsTerminal = tt.terminal
		if got := e.jsonMode(); got != tt.want {
			t.Errorf("%q on a terminal %v: %v, want %v", tt.args, tt.terminal, got, tt.want)
		}
	}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"plain text\twith a tab\n", "plain text\twith a tab\n"},
		{"naïve 日本語", "naïve 日本語"},
		{"\x1b[31mred", `\x1b[31mred`},
		{"\x1b]0;title\x07", `\x1b]0;title\x07`},
		{"a\rb", `a\x0db`},
		{"\xff\xfe", `\xff\xfe`},
		{"\u009b31m", `\x9b31m`},
		{"user\u202Etxt.exe", `user\u202etxt.exe`},
		{"\x7f", `\x7f`},
	} {
		if got := escape(tt.in); got != tt.want {
			t.Errorf("escape(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// Text that arrives in pieces, as that of a child does, is escaped like the whole.
func TestTextWriterPieces(t *testing.T) {
	t.Parallel()
	const text = "naïve \x1b[31m 日本\xff語 \U0001F600\xe6"
	want := escape(text)
	for size := 1; size <= len(text); size++ {
		e, out, _ := testEnv(t)
		e.stdoutIsTerminal = true
		w := e.textOut()
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != want {
			t.Errorf("in pieces of %d: %q, want %q", size, got, want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"/home/u/repo": "/home/u/repo",
		"/a b":         "'/a b'",
		"it's":         `'it'\''s'`,
		"":             "''",
		"$(x)":         "'$(x)'",
	} {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestHelpNamesEveryExitStatus(t *testing.T) {
	t.Parallel()
	e, out, _ := testEnv(t, "-h")
	if got := run(t.Context(), e); got != 0 {
		t.Fatalf("exit status %d", got)
	}
	for _, info := range schemas.Codes {
		if info.Exit == 0 {
			continue
		}
		if line := fmt.Sprintf("\n  %d ", info.Exit); !strings.Contains(out.String(), line) {
			t.Errorf("git spot -h does not explain exit status %d", info.Exit)
		}
	}
}

// Input that never comes is not waited for after a signal.
func TestReadInputEndsWithItsContext(t *testing.T) {
	t.Parallel()
	e, _, _ := testEnv(t)
	in, writer := io.Pipe()
	defer writer.Close() //nolint:errcheck // nothing was written
	e.in = in
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	time.AfterFunc(10*time.Millisecond, func() { cancel(stopped) })
	if _, err := e.readInput(ctx, "-"); !errors.Is(err, stopped) {
		t.Errorf("got %v", err)
	}
}
