package workers_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/workers"
)

// agentScene is a turn of the builtin agent in whose place a shell script stands. Nobody is where its
// provider should be.
func agentScene(t *testing.T, script string) *scene {
	t.Helper()
	s := newScene(t)
	program := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	s.turn.Profile = &config.Profile{
		Name: "w", Adapter: "builtin", Program: program, Model: "m", API: "chat", BaseURL: "http://127.0.0.1:9/v1",
	}
	return s
}

func TestBuiltinOutcomes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, prints string
		exit         string
		outcome      schemas.Outcome
		class        schemas.FailureClass
		question     string
	}{
		{"done", `{"type":"final","text":"Done.","stop":"done"}`, "0", schemas.OutcomeCompleted, "", ""},
		{"at its limit", `{"type":"final","text":"Half.","stop":"steps"}`, "0", schemas.OutcomeStepCapped, "", ""},
		{"a question", `{"type":"final","text":"Hm.\n\nQUESTION: Which word?","stop":"question"}`, "0", schemas.OutcomeCompleted, "", "Which word?"},
		{"a question in bold", `{"type":"final","text":"**QUESTION:** Which word?","stop":"question"}`, "0", schemas.OutcomeCompleted, "", "Which word?"},
		{"a question in a quotation", `{"type":"final","text":"> _QUESTION:_ Which word?","stop":"question"}`, "0", schemas.OutcomeCompleted, "", "Which word?"},
		{"two questions", `{"type":"final","text":"QUESTION: Which word?\r\nQUESTION: Where?","stop":"question"}`, "0", schemas.OutcomeCompleted, "", "Which word? QUESTION: Where?"},
		{"choices", `{"type":"final","text":"Hm.\n\nQUESTION: Which word?\n- hello\n- goodbye","stop":"question"}`, "0", schemas.OutcomeCompleted, "", "Which word? - hello - goodbye"},
		{"a question without words", `{"type":"final","text":"I am lost.\n\nQUESTION:","stop":"question"}`, "0", schemas.OutcomeCompleted, "", "I am lost. QUESTION:"},
		{"no question", `{"type":"final","text":"QUESTION: Which word?","stop":"done"}`, "0", schemas.OutcomeCompleted, "", ""},
		{"an error", `{"type":"error","class":"quota","message":"nothing left"}`, "1", schemas.OutcomeError, schemas.FailureQuota, ""},
		{"an error and exit status 0", `{"type":"error","class":"incomplete","message":"in circles"}`, "0", schemas.OutcomeError, schemas.FailureIncomplete, ""},
		{"a budget that only it says is spent", `{"type":"error","class":"budget","message":"spent"}`, "1", schemas.OutcomeError, schemas.FailurePermanent, ""},
		{"no last word", `{"type":"text","text":"working"}`, "0", schemas.OutcomeError, schemas.FailureIncomplete, ""},
		{"nothing", "", "0", schemas.OutcomeError, schemas.FailureIncomplete, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := agentScene(t, "cat >/dev/null\ncat <<'END'\n\n"+
				`{"type":"usage","uncachedInput":7,"output":7}`+"\n"+row.prints+"\nEND\nexit "+row.exit+"\n").run(t)
			s.want(t, row.outcome, row.class)
			if s.try.Question != row.question {
				t.Errorf("got the question %q, want %q", s.try.Question, row.question)
			}
			if u := s.try.Usage; u.Output == nil || *u.Output != 0 || u.UncachedInput == nil || *u.UncachedInput != 0 {
				t.Errorf("got the usage %+v, and the gateway has counted nothing", u)
			}
			if s.final.Credential != "gateway" {
				t.Errorf("got the credential %s", s.final.Credential)
			}
			if types := s.types(t); slices.Contains(types, schemas.EventDropped) {
				t.Errorf("got the events %q", types)
			}
		})
	}
}

// What the agent warns of is a warning of the turn, and not what the worker said.
func TestBuiltinWarnings(t *testing.T) {
	t.Parallel()
	s := agentScene(t, "cat >/dev/null\ncat <<'END'\n"+`{"type":"worker_warning","text":"busy; trying again in 2s"}`+"\n"+
		`{"type":"error","class":"rate_limit","message":"busy"}`+"\nEND\nexit 1\n").run(t)
	s.want(t, schemas.OutcomeError, schemas.FailureRateLimit)
	if !slices.Equal(s.final.Warnings, []string{"busy; trying again in 2s"}) || s.final.Text != "" {
		t.Errorf("got the warnings %q and the text %q", s.final.Warnings, s.final.Text)
	}
	if !strings.Contains(s.log.String(), "[warn] busy; trying again in 2s") {
		t.Errorf("got the log\n%s", s.log.String())
	}
}

// A session goes from turn to turn, and only if it is what a program would leave.
func TestSession(t *testing.T) {
	t.Parallel()
	const find = "while [ \"$1\" != --session ]; do shift; done\n"
	const end = `echo '{"type":"final","text":"Done.","stop":"done"}'` + "\n"
	const key = "sk-0123456789abcdefghijklmnop"
	for _, row := range []struct{ name, leaves, kept string }{
		{"a session", `echo "it said ` + key + `" >"$2"`, "it said [redacted]\n"},
		{"a session where a folder is in its place", `echo mine >"$2"; rm "$PWD/kept"; mkdir -p "$PWD/kept/full"`, "mine\n"},
		{"none", "", ""},
		{"a link", `ln -s "$PWD/secret" "$2"`, ""},
		{"a folder", `mkdir "$2"`, ""},
		{"a FIFO", `mkfifo "$2"`, ""},
		{"far too much", `dd if=/dev/zero of="$2" bs=1048576 count=0 seek=65 2>/dev/null`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := agentScene(t, find+"cat >/dev/null\n"+row.leaves+"\n"+end)
			s.turn.Session = filepath.Join(s.turn.Dir, "kept")
			if err := os.WriteFile(filepath.Join(s.turn.Dir, "secret"), []byte("secret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.turn.Session, []byte("of an earlier turn\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.run(t).want(t, schemas.OutcomeCompleted, "")
			got, err := os.ReadFile(s.turn.Session)
			if string(got) != row.kept || row.kept == "" && !os.IsNotExist(err) {
				t.Errorf("kept %.100q, %v", got, err)
			}
		})
	}

	t.Run("goes on", func(t *testing.T) {
		t.Parallel()
		s := agentScene(t, "args=$*\n"+find+`cat "$2" - >"$PWD/got"; echo "$args" >"$PWD/args"`+"\n"+end)
		s.turn.Session, s.turn.Resume = filepath.Join(t.TempDir(), "session"), "on with it"
		for _, want := range []string{"# Task\n", "so far\non with it"} {
			if s.run(t).want(t, schemas.OutcomeCompleted, ""); t.Failed() {
				return
			}
			got, err := os.ReadFile(filepath.Join(s.turn.Dir, "got"))
			args, err2 := os.ReadFile(filepath.Join(s.turn.Dir, "args"))
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			resumed := strings.Contains(string(args), "--resume")
			if string(got) != want || resumed != strings.HasPrefix(want, "so far") {
				t.Errorf("the agent got %q and %q, want %q", got, args, want)
			}
			if err := os.WriteFile(s.turn.Session, []byte("so far\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What start.json keeps of the command line has neither the gateway's address nor its token.
func TestBuiltinArgv(t *testing.T) {
	t.Parallel()
	s := agentScene(t, "")
	s.turn.Profile.Program = "my-agent"
	argv, err := workers.Argv(s.turn)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(argv, " ")
	if !strings.HasPrefix(line, "my-agent --api chat --base-url [gateway] --model m --kind code --max-steps 120 ") {
		t.Errorf("got %q", line)
	}
}

// A session that cannot be gone on with, since the profile has another model now or the file was changed,
// must not be the end of the run: the worker begins a new one with the whole task.
func TestBuiltinBeginsAnew(t *testing.T) {
	t.Parallel()
	s := agentScene(t, `
case "$*" in *--resume*)
	cat >/dev/null
	echo '{"type":"error","class":"setup","message":"it is with another model"}'
	exit 1
esac
echo '{"type":"session","id":"new"}'
printf new >"$HOME/session.jsonl"
echo "{\"type\":\"final\",\"text\":\"told $(cat)\",\"stop\":\"done\"}"
`)
	s.turn.Prompt, s.turn.Resume, s.turn.Session = "the task", "go on", filepath.Join(t.TempDir(), "session")
	if err := os.WriteFile(s.turn.Session, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(t).want(t, schemas.OutcomeCompleted, "")
	if s.final.Text != "told the task" || s.try.SessionID != "new" {
		t.Errorf("got %q in session %q", s.final.Text, s.try.SessionID)
	}
	if want := []string{"the worker began a new session: it is with another model"}; !slices.Equal(s.final.Warnings, want) {
		t.Errorf("got the warnings %q, want %q", s.final.Warnings, want)
	}
	if kept, err := os.ReadFile(s.turn.Session); err != nil || string(kept) != "new" {
		t.Errorf("kept %q, %v", kept, err)
	}
}

// Secrets in a kept session are masked, and it stays what the worker can read.
func TestBuiltinSessionIsMasked(t *testing.T) {
	t.Parallel()
	s := agentScene(t, `
cat >/dev/null
cat >"$HOME/session.jsonl" <<'END'
{"text":"- \"API_TOKEN=abcdefghijklmnop\"\n"}
END
echo '{"type":"final","text":"Hm.","stop":"done"}'
`)
	s.turn.Session = filepath.Join(t.TempDir(), "session")
	s.run(t).want(t, schemas.OutcomeCompleted, "")
	kept, err := os.ReadFile(s.turn.Session)
	if want := `{"text":"- \"API_TOKEN=[redacted]\"\n"}` + "\n"; err != nil || string(kept) != want {
		t.Errorf("kept %q, %v, want %q", kept, err, want)
	}
}

// A worker that fails for want of something else fails once.
func TestBuiltinFailsOnce(t *testing.T) {
	t.Parallel()
	s := agentScene(t, `
cat >/dev/null
echo '{"type":"session","id":"old"}'
echo '{"type":"error","class":"setup","message":"no such model"}'
exit 1
`)
	s.turn.Resume, s.turn.Session = "go on", filepath.Join(t.TempDir(), "session")
	if err := os.WriteFile(s.turn.Session, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(t).want(t, schemas.OutcomeError, schemas.FailureSetup)
	if got := s.types(t); !slices.Equal(got, []schemas.EventType{schemas.EventSession, schemas.EventError, schemas.EventUsage}) {
		t.Errorf("got %q", got)
	}
	if kept, err := os.ReadFile(s.turn.Session); err != nil || string(kept) != "old" {
		t.Errorf("kept %q, %v", kept, err)
	}
}
