package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/git-spot/git-spot/internal/scriptedmodel"
)

// asProgram makes the test binary the program.
const asProgram = "GIT_SPOT_AGENT_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const key = "run-token-0123456789"

// program is the program with nothing in its environment but the token.
func program(t *testing.T, dir, prompt string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, args...)
	c.Dir, c.Stdin, c.Env = dir, strings.NewReader(prompt), []string{asProgram + "=1", tokenVariable + "=" + key}
	return c
}

type event struct{ Type, Text, Class, Message, Stop string }

func last(t *testing.T, out []byte) event {
	t.Helper()
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var e event
	if err := json.Unmarshal(lines[len(lines)-1], &e); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return e
}

func serve(t *testing.T, steps ...scriptedmodel.Step) *scriptedmodel.Server {
	t.Helper()
	s, err := scriptedmodel.Start(t.Context(), scriptedmodel.Options{Script: scriptedmodel.Script{Steps: steps}, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func write(path, content string) scriptedmodel.Call {
	data, _ := json.Marshal(map[string]string{"path": path, "content": content})
	return scriptedmodel.Call{Tool: "write", Args: data}
}

func TestTurn(t *testing.T) {
	t.Parallel()
	for _, api := range []string{"chat", "responses", "messages"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			s := serve(t, scriptedmodel.Step{Calls: []scriptedmodel.Call{write("new.txt", "new\n")}}, scriptedmodel.Step{Text: "written"})
			dir := t.TempDir()
			c := program(t, dir, "write new.txt", "--api", api, "--base-url", s.BaseURL(api), "--model", "m", "--max-steps", "9", "--context", "64000", "--kind", "code")
			out, err := c.Output()
			if e := last(t, out); err != nil || e != (event{Type: "final", Text: "written", Stop: "done"}) {
				t.Errorf("%v: %s", err, out)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "new.txt")); err != nil || string(got) != "new\n" {
				t.Errorf("new.txt is %q, %v", got, err)
			}
		})
	}
}

// TestTerm ends the program while the server hangs: at once, with a last event, and so that the session
// can go on.
func TestTerm(t *testing.T) {
	t.Parallel()
	writes := scriptedmodel.Step{Calls: []scriptedmodel.Call{write("new.txt", "new\n")}}
	hangs := serve(t, writes, scriptedmodel.Step{Fault: scriptedmodel.FaultHang, Times: 10})
	answers := serve(t, writes, scriptedmodel.Step{Text: "written"})
	dir, session := t.TempDir(), filepath.Join(t.TempDir(), "session")
	args := []string{"--api", "chat", "--model", "m", "--session", session, "--base-url"}
	c := program(t, dir, "write new.txt", append(slices.Clone(args), hangs.BaseURL("chat"))...)
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for !bytes.Contains(out.Bytes(), []byte(`"tool"`)) {
		buf := make([]byte, 4096)
		n, err := stdout.Read(buf)
		out.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v: %s", err, out.Bytes())
		}
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(&out, stdout)
	if err = errors.Join(err, c.Wait()); c.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	if e := last(t, out.Bytes()); e.Type != "error" || e.Class != "incomplete" {
		t.Errorf("the last event is %+v", e)
	}
	if data, err := os.ReadFile(session); err != nil || bytes.Contains(data, []byte(key)) {
		t.Errorf("session: %s, %v", data, err)
	}
	resumed, err := program(t, dir, "go on", append(args, answers.BaseURL("chat"), "--resume")...).Output()
	if e := last(t, resumed); err != nil || e.Text != "written" {
		t.Errorf("%v: %s", err, resumed)
	}
}

// TestRefusals are turns that cannot begin: one event says why.
func TestRefusals(t *testing.T) {
	t.Parallel()
	good := []string{"--api", "chat", "--base-url", "http://127.0.0.1:1/v1", "--model", "m"}
	for _, c := range []struct {
		name, prompt string
		args         []string
		message      string
	}{
		{"flag", "do it", append(slices.Clone(good), "--shell"), "-shell"},
		{"argument", "do it", append(slices.Clone(good), "do"), `"do"`},
		{"number", "do it", append(slices.Clone(good), "--max-steps", "many"), "many"},
		{"negative", "do it", append(slices.Clone(good), "--context", "-1"), "negative"},
		{"resume", "do it", append(slices.Clone(good), "--resume"), "-session"},
		{"prompt", " \n", good, "empty"},
		{"long prompt", strings.Repeat("x", maxPrompt+1), good, "16 MiB"},
		{"api", "do it", append(slices.Clone(good), "--api", "soap"), "soap"},
		{"model", "do it", append(slices.Clone(good), "--model", ""), "no model"},
		{"base URL", "do it", append(slices.Clone(good), "--base-url", "http://example.com"), "loopback"},
		{"folder", "do it", append(slices.Clone(good), "--session", "none/session"), "none/session"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := run(t.Context(), c.args, func(string) string { return "" }, strings.NewReader(c.prompt), &out)
			if e := last(t, out.Bytes()); err == nil || e.Type != "error" || e.Class != "setup" || !strings.Contains(e.Message, c.message) {
				t.Errorf("%v: %s", err, out.Bytes())
			}
			if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1 {
				t.Errorf("%d events: %s", n, out.Bytes())
			}
		})
	}
}

// TestPromptNeverEnds ends although standard input does not.
func TestPromptNeverEnds(t *testing.T) {
	t.Parallel()
	in, w := io.Pipe()
	defer func() { _ = w.Close() }()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	var out bytes.Buffer
	if err := run(ctx, nil, func(string) string { return "" }, in, &out); err == nil || !strings.Contains(out.String(), "enough") {
		t.Errorf("%v: %s", err, out.Bytes())
	}
}

// TestNothingToAbuse holds that no code is linked in that starts processes, and that git-spot itself has
// nothing of this program's.
func TestNothingToAbuse(t *testing.T) {
	t.Parallel()
	deps := func(pkg string) []string {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	if slices.Contains(deps("."), "os/exec") {
		t.Error("git-spot-agent can start processes")
	}
	for _, d := range deps("../git-spot") {
		if strings.Contains(d, "openai") || strings.Contains(d, "anthropic") || strings.Contains(d, "internal/agent") {
			t.Errorf("git-spot is made of %s", d)
		}
	}
}
