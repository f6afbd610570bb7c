package workers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/workers"
)

// scene is a turn and what it left.
type scene struct {
	turn   workers.Turn
	env    map[string]string
	events bytes.Buffer
	log    bytes.Buffer
	try    schemas.Try
	final  workers.Final
}

func newScene(t *testing.T, argv ...string) *scene {
	t.Helper()
	s := &scene{env: map[string]string{"PATH": os.Getenv("PATH")}}
	root := t.TempDir()
	dirs := map[string]string{}
	for _, name := range []string{"work", "home", "tmp"} {
		dirs[name] = filepath.Join(root, name)
		if err := os.Mkdir(dirs[name], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.turn = workers.Turn{
		Profile: &config.Profile{
			Name: "w", Adapter: "command", Argv: argv, Prompt: "stdin", Output: "text", Capabilities: []string{"tool-use"},
		},
		Kind: schemas.KindCode, Prompt: "# Task\n", Dir: dirs["work"], Home: dirs["home"], Tmp: dirs["tmp"],
		RunID: "20260131-task-abc123", Attempt: 2, Events: &s.events, Log: &s.log,
		Getenv: func(name string) string { return s.env[name] },
		Now:    func() time.Time { return time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC) },
	}
	return s
}

// itself is the command line of one of this binary's own workers.
func itself(t *testing.T, what string, args ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{self, "__worker", what}, args...)
}

func (s *scene) run(t *testing.T) *scene {
	t.Helper()
	return s.runIn(t.Context(), t)
}

func (s *scene) runIn(ctx context.Context, t *testing.T) *scene {
	t.Helper()
	var err error
	if s.try, s.final, err = workers.Run(ctx, s.turn); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scene) parsed(t *testing.T) []schemas.Event {
	t.Helper()
	var events []schemas.Event
	for line := range bytes.Lines(s.events.Bytes()) {
		if err := schemas.Validate("worker-event", line); err != nil {
			t.Errorf("%v in %q", err, line)
		}
		var e schemas.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func (s *scene) types(t *testing.T) []schemas.EventType {
	t.Helper()
	var types []schemas.EventType
	for _, e := range s.parsed(t) {
		types = append(types, e.Type)
	}
	return types
}

func (s *scene) want(t *testing.T, outcome schemas.Outcome, class schemas.FailureClass) {
	t.Helper()
	if s.try.Outcome != outcome || s.try.FailureClass != class {
		t.Errorf("got %s %q (%s), want %s %q; log:\n%s",
			s.try.Outcome, s.try.FailureClass, s.try.Message, outcome, class, s.log.String())
	}
}

func sh(script string) []string { return []string{"sh", "-c", script} }

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, script, output string
		outcome              schemas.Outcome
		class                schemas.FailureClass
	}{
		{"exit 0", "echo done", "text", schemas.OutcomeCompleted, ""},
		{"exit 0 and silent", ":", "text", schemas.OutcomeCompleted, ""},
		{"exit 1", "echo no; exit 1", "text", schemas.OutcomeError, schemas.FailurePermanent},
		{"signal", "kill -SEGV $$", "text", schemas.OutcomeError, schemas.FailurePermanent},
		{"exit 1, account said on stderr", "echo 'Error: insufficient_quota' >&2; exit 1", "text", schemas.OutcomeError, schemas.FailureQuota},
		{"exit 0, nothing but a refusal", "echo 'Error: Not authenticated' >&2", "text", schemas.OutcomeError, schemas.FailureAuth},
		{"exit 0, refusal in somebody's test", "echo 'ok'; echo '401 Unauthorized' >&2", "text", schemas.OutcomeCompleted, ""},
		{"exit 1, refusal long ago", "echo 'rate limit' >&2; for i in 1 2 3 4 5; do echo $i >&2; done; exit 1", "text", schemas.OutcomeError, schemas.FailurePermanent},

		{"error event", `echo '{"type":"error","class":"rate_limit","message":"wait"}'; exit 1`, "jsonl", schemas.OutcomeError, schemas.FailureRateLimit},
		{"error event and exit 0", `echo '{"type":"error","class":"auth","message":"log in"}'`, "jsonl", schemas.OutcomeError, schemas.FailureAuth},
		{"error event, then the end", `echo '{"type":"error","class":"transient"}'; echo '{"type":"final","text":"ok"}'`, "jsonl", schemas.OutcomeCompleted, ""},
		{"class that is none", `echo '{"type":"error","class":"sad"}'; exit 3`, "jsonl", schemas.OutcomeError, schemas.FailurePermanent},
		{"class that is ours", `echo '{"type":"error","class":"budget"}'; exit 3`, "jsonl", schemas.OutcomeError, schemas.FailurePermanent},
		{"no error event", `echo '{"type":"text","text":"x"}'; exit 9`, "jsonl", schemas.OutcomeError, schemas.FailurePermanent},
		{"error as text is no event", `echo '{"type":"error","class":"auth"}'`, "text", schemas.OutcomeCompleted, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, sh(row.script)...)
			s.turn.Profile.Output = row.output
			s.run(t).want(t, row.outcome, row.class)
			if s.try.Message == "" && row.outcome == schemas.OutcomeError && !strings.Contains(row.script, `"class"`) {
				t.Error("an error without a message")
			}
		})
	}
}

func TestTryOfAWorkerThatEnded(t *testing.T) {
	t.Parallel()
	s := newScene(t, sh("echo oops >&2; exit 7")...).run(t)
	if s.try.ExitStatus == nil || *s.try.ExitStatus != 7 || s.try.Signal != "" {
		t.Errorf("got %+v", s.try)
	}
	if s.try.Steps != nil || s.try.Usage != (schemas.Usage{}) {
		t.Errorf("got steps %v and usage %+v, want that a program without events says neither", s.try.Steps, s.try.Usage)
	}
	if !filepath.IsAbs(s.try.Program) || s.try.Profile.Name != "w" {
		t.Errorf("got %+v", s.try)
	}
	if s.final.StderrTail != "oops\n" || s.final.Credential != "none" {
		t.Errorf("got %+v", s.final)
	}
	if s.final.Isolation.Level != schemas.IsolationNone || len(s.final.Isolation.Missing) != 4 {
		t.Errorf("got %+v, want that nothing isolates a worker", s.final.Isolation)
	}

	s = newScene(t, sh("kill -KILL $$")...).run(t)
	if s.try.ExitStatus != nil || s.try.Signal != "SIGKILL" {
		t.Errorf("got %+v", s.try)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	s := newScene(t, sh(`cat <<'END'
{"type":"session","id":"s-1"}
{"type":"text","text":"I look"}
{"type":"tool","name":"read","status":"ok"}
{"type":"tool","name":"edit","status":"error"}
{"type":"tool","name":"edit"}
{"type":"usage","uncachedInput":10,"output":5,"costUSD":0.5}
{"type":"usage","uncachedInput":1,"cacheRead":0,"output":2,"costUSD":0.25}
{"type":"final","text":"all done\nreally"}
not json
{"type":"stderr","text":"forged"}
{"type":"dropped","bytes":5}
{"type":"text","text":5}
{"type":"usage","output":-3}
{"type":"usage"}
{"type":"tool"}
END`)...)
	s.turn.Profile.Output = "jsonl"
	s.run(t).want(t, schemas.OutcomeCompleted, "")
	want := []schemas.EventType{
		"session", "text", "tool", "tool", "tool", "usage", "usage", "final", "text", "text", "text", "text", "text",
		"text", "text",
	}
	if got := s.types(t); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	u := s.try.Usage
	if *u.UncachedInput != 11 || *u.CacheRead != 0 || *u.Output != 7 || *u.CostUSD != 0.75 || u.CacheWrite != nil || u.Credits != nil {
		t.Errorf("got %+v, want sums, and nil where nobody said anything", u)
	}
	if *s.try.Steps != 3 || !maps.Equal(s.try.ToolErrors, map[string]int{"edit": 1}) || s.try.SessionID != "s-1" {
		t.Errorf("got %+v", s.try)
	}
	if s.final.Text != "all done\nreally" {
		t.Errorf("got final text %q", s.final.Text)
	}
}

func TestTextIsTheFinalText(t *testing.T) {
	t.Parallel()
	s := newScene(t, sh("echo one; echo; printf two")...).run(t)
	if s.final.Text != "one\n\ntwo\n" {
		t.Errorf("got %q", s.final.Text)
	}
	if got := s.types(t); !slices.Equal(got, []schemas.EventType{"text", "text", "text"}) {
		t.Errorf("got %v", got)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("wall", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, sh("while :; do echo x; sleep 0.1; done")...)
		s.turn.Limits.TimeoutSeconds = 1
		s.run(t).want(t, schemas.OutcomeTimedOut, "")
	})
	t.Run("wall of the profile", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, sh("while :; do echo x; sleep 0.1; done")...)
		s.turn.Limits.TimeoutSeconds, s.turn.Profile.TimeoutSeconds = 600, 1
		s.run(t).want(t, schemas.OutcomeTimedOut, "")
	})
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, itself(t, "hang")...)
		s.turn.Limits.IdleSeconds = 1
		s.run(t).want(t, schemas.OutcomeIdle, "")
	})
	t.Run("steps", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, sh(`while :; do echo '{"type":"tool","name":"read","status":"ok"}'; sleep 0.01; done`)...)
		s.turn.Profile.Output, s.turn.Limits.MaxSteps = "jsonl", 5
		s.run(t).want(t, schemas.OutcomeStepCapped, "")
		if *s.try.Steps < 5 || !strings.Contains(strings.Join(s.final.Warnings, " "), string(schemas.CodeWorkerStepCap)) {
			t.Errorf("got %d steps, warnings %q", *s.try.Steps, s.final.Warnings)
		}
		if !strings.Contains(s.log.String(), "[warn] WORKER_STEP_CAP") {
			t.Errorf("the log does not warn:\n%s", s.log.String())
		}
	})
	t.Run("tokens", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, sh(`while :; do echo '{"type":"usage","uncachedInput":60,"output":10}'; sleep 0.01; done`)...)
		s.turn.Profile.Output, s.turn.Limits.MaxTokens = "jsonl", 100
		s.run(t).want(t, schemas.OutcomeError, schemas.FailureBudget)
	})
	t.Run("dollars", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, sh(`while :; do echo '{"type":"usage","costUSD":0.4}'; sleep 0.01; done`)...)
		s.turn.Profile.Output, s.turn.Limits.MaxCostUSD = "jsonl", 1
		s.run(t).want(t, schemas.OutcomeError, schemas.FailureBudget)
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		s := newScene(t, itself(t, "hang")...)
		time.AfterFunc(200*time.Millisecond, cancel)
		s.runIn(ctx, t).want(t, schemas.OutcomeInterrupted, "")
	})
	t.Run("cancelled before", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := newScene(t, sh("touch started")...)
		s.runIn(ctx, t).want(t, schemas.OutcomeInterrupted, "")
		if _, err := os.Stat(filepath.Join(s.turn.Dir, "started")); err == nil {
			t.Error("the worker was started")
		}
	})
	t.Run("TERM is not enough", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, itself(t, "stubborn")...)
		s.turn.Limits.TimeoutSeconds = 1
		s.run(t).want(t, schemas.OutcomeTimedOut, "")
		if s.try.Signal != "SIGKILL" {
			t.Errorf("got signal %q", s.try.Signal)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestHostileOutput(t *testing.T) {
	t.Parallel()
	t.Run("60 MB line", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, itself(t, "huge")...).run(t)
		s.want(t, schemas.OutcomeCompleted, "")
		events := s.parsed(t)
		last := events[len(events)-1]
		if !slices.ContainsFunc(events, func(e schemas.Event) bool { return e.Type == "text" && e.Text == "after" }) {
			t.Errorf("the line after the long one is lost; last is %+v", last)
		}
		dropped := int64(0)
		for _, e := range events {
			dropped += e.Bytes
		}
		if dropped < 59<<20 || s.events.Len() > 1<<20 {
			t.Errorf("dropped %d, wrote %d bytes", dropped, s.events.Len())
		}
	})
	t.Run("flood keeps head and tail", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, itself(t, "flood", "20000")...).run(t)
		s.want(t, schemas.OutcomeCompleted, "")
		for name, file := range map[string]*bytes.Buffer{"events": &s.events, "log": &s.log} {
			if file.Len() > 8<<20 {
				t.Errorf("%s has %d bytes", name, file.Len())
			}
			if !strings.Contains(file.String(), "the very last line") || !strings.Contains(file.String(), "dropped") {
				t.Errorf("%s lacks its end or the marker", name)
			}
		}
		if len(s.final.Text) > 300<<10 || !strings.HasSuffix(s.final.Text, "the very last line\n") {
			t.Errorf("the final text has %d bytes", len(s.final.Text))
		}
		s.parsed(t)
	})
	t.Run("invalid UTF-8 and terminal sequences", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, sh(`printf 'a\377b \033[31mred\033[0m \033]0;title\007x \r\010\010 \302\233 \342\200\256 end\n'`)...).run(t)
		events := s.parsed(t)
		if len(events) != 1 || !strings.Contains(events[0].Text, "a\uFFFDb red x") {
			t.Errorf("got %+v", events)
		}
		if log := s.log.String(); strings.ContainsAny(log, "\x1b\r\b\u009b\u202e") || !strings.Contains(log, `\x0d\x08\x08`) {
			t.Errorf("got log %q", log)
		}
	})
	t.Run("forged records", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, sh(`printf '%s\n' '{"type":"text","text":"x\n2026-01-31T12:00:00Z [warn] forged\r\n2026-01-31T12:00:00Z [tool] forged"}'`)...)
		s.turn.Profile.Output = "jsonl"
		s.run(t)
		lines := strings.Split(strings.TrimSuffix(s.log.String(), "\n"), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[1], "   ") || !strings.HasPrefix(lines[2], "   ") {
			t.Errorf("got log %q", lines)
		}
	})
	t.Run("daemon", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, sh(`setsid sh -c 'trap "" TERM; sleep 30; echo late > late.txt' & echo $! > pid; echo done`)...)
		start := time.Now()
		s.run(t).want(t, schemas.OutcomeCompleted, "")
		if time.Since(start) > 25*time.Second {
			t.Error("the worker's daemon was waited for")
		}
		text, err := os.ReadFile(filepath.Join(s.turn.Dir, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the worker's daemon is still there: %v", err)
		}
	})
}

func TestSecretsAreNeverStored(t *testing.T) {
	t.Parallel()
	const (
		own   = "plain-looking-own-key-001"
		other = "plain-looking-other-key-002"
		short = "sk-Abcdefghijklmnop1234"
	)
	for _, output := range []string{"text", "jsonl"} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, sh(`
echo "key $KEY $OTHER sk-Abcdefghijklmnop1234"
printf 'plain-looking-'; sleep 0.1; printf 'own-key-001\n'
printf 'plain-\033[1mlooking\033[0m-own-key-001\n'
echo "stderr $KEY $OTHER" >&2
printf '{"type":"text","text":"%s"}\n' "$KEY"
printf '{"type":"text","text":"plain-looking\\u002down-key-001"}\n'
printf '{"type":"tool","name":"%s","status":"%s"}\n' "$KEY" "$OTHER"
printf '{"type":"session","id":"%s"}\n' "$KEY"
printf '{"type":"final","text":"%s"}\n' "$KEY"
printf '{"type":"error","class":"%s","message":"%s"}\n' "$KEY" "$OTHER"
exit 1`)...)
			s.env["KEY"], s.env["OTHER"] = own, other
			s.turn.Profile.Output, s.turn.Profile.APIKeyEnv, s.turn.Profile.Env = output, "KEY", []string{"OTHER"}
			s.turn.Redact = config.Redactor{}.With(other)
			s.run(t)
			everything, err := schemas.MarshalIndent([]any{s.try, s.final})
			if err != nil {
				t.Fatal(err)
			}
			all := s.events.String() + s.log.String() + string(everything)
			for _, secret := range []string{own, other, short} {
				if strings.Contains(all, secret) {
					t.Errorf("%q is stored:\n%s", secret, all)
				}
			}
			if s.final.Credential != "environment" {
				t.Errorf("got credential %q", s.final.Credential)
			}
		})
	}
	t.Run("at the cut of a long line", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, sh(`head -c 1048566 /dev/zero | tr '\0' x; printf "$KEY\nend\n"`)...)
		s.env["KEY"], s.turn.Profile.APIKeyEnv = own, "KEY"
		s.run(t)
		if strings.Contains(s.events.String()+s.final.Text, "plain-lo") {
			t.Error("the start of the key is stored")
		}
	})
	t.Run("argument", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, "sh", "-c", "x "+own)
		s.env["KEY"], s.turn.Profile.APIKeyEnv, s.turn.Profile.Prompt = own, "KEY", "argument"
		s.turn.Prompt = "the prompt"
		argv, err := workers.Argv(s.turn)
		if want := []string{"sh", "-c", "x [redacted]", "[prompt]"}; err != nil || !slices.Equal(argv, want) {
			t.Errorf("got %q %v, want %q", argv, err, want)
		}
	})
}

func TestEnvironmentIsAnAllowlist(t *testing.T) {
	t.Parallel()
	s := newScene(t, itself(t, "environ")...)
	maps.Copy(s.env, map[string]string{
		"PATH": ".::bin:/usr/bin:/bin", "LANG": "C.UTF-8", "LC_TIME": "C", "TZ": "UTC", "USER": "u", "LOGNAME": "u", "TERM": "xterm",
		"HOME": "/home/u", "TMPDIR": "/elsewhere", "KEY": "k-e-y", "MARK": "marked", "GIT_DIR": "/x", "GIT_AUTHOR_NAME": "a",
		"PARENT_AGENT": "codex", "CODEX_THREAD_ID": "t", "ANTHROPIC_API_KEY": "no", "AWS_SECRET_ACCESS_KEY": "no",
		"DATABASE_URL": "no", "SSH_AUTH_SOCK": "/s", "GIT_ASKPASS": "a", "GIT_SPOT_TRACE": "1", "XDG_RUNTIME_DIR": "/r",
	})
	s.turn.Profile.APIKeyEnv, s.turn.Profile.Env = "KEY", []string{"MARK", "UNSET", "FIXED=1=2"}
	s.run(t).want(t, schemas.OutcomeCompleted, "")
	got := strings.Split(strings.TrimSuffix(s.final.Text, "\n"), "\n")
	slices.Sort(got)
	want := []string{
		"FIXED=1=2", "GIT_SPOT_ATTEMPT=2", "GIT_SPOT_KIND=code", "GIT_SPOT_RUN_ID=20260131-task-abc123",
		"HOME=" + s.turn.Home, "KEY=k-e-y", "LANG=C.UTF-8", "LC_TIME=C", "LOGNAME=u", "MARK=marked", "PATH=/usr/bin:/bin",
		"TERM=dumb", "TMPDIR=" + s.turn.Tmp, "TZ=UTC", "USER=u",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestPromptReachesTheProgram(t *testing.T) {
	t.Parallel()
	const size = 200 << 10
	big := "# Task\n" + strings.Repeat("x", size)
	t.Run("stdin", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, itself(t, "stdin")...)
		s.turn.Prompt = big
		if s.run(t); s.final.Text != "204807 204800 <nil>\n" {
			t.Errorf("got %q", s.final.Text)
		}
	})
	t.Run("stdin that nobody reads", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, sh("exec 0<&-; echo done")...)
		s.turn.Prompt = big
		s.run(t).want(t, schemas.OutcomeCompleted, "")
	})
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, "sh", "-c", `wc -c < "$1"; ls -l "$1" | cut -c1-10; echo "$1"`, "sh")
		s.turn.Prompt, s.turn.Profile.Prompt = big, "file"
		s.run(t)
		lines := strings.Split(s.final.Text, "\n")
		if strings.TrimSpace(lines[0]) != "204807" || lines[1] != "-rw-------" || filepath.Dir(lines[2]) != s.turn.Tmp {
			t.Errorf("got %q", lines)
		}
		if _, err := os.Lstat(lines[2]); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the prompt is still there: %v", err)
		}
		argv, err := workers.Argv(s.turn)
		if err != nil || argv[len(argv)-1] != "[prompt file]" {
			t.Errorf("got %q %v", argv, err)
		}
	})
	t.Run("file in whose place something is", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, "sh", "-c", `cat "$1"`, "sh")
		s.turn.Profile.Prompt = "file"
		outside := filepath.Join(t.TempDir(), "outside")
		if err := os.Symlink(outside, filepath.Join(s.turn.Tmp, "prompt-2.md")); err != nil {
			t.Fatal(err)
		}
		if s.run(t); s.final.Text != "# Task\n" {
			t.Errorf("got %q", s.final.Text)
		}
		if _, err := os.Lstat(outside); err == nil {
			t.Error("the prompt was written through a link")
		}
	})
	t.Run("argument", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, itself(t, "args", "-p")...)
		s.turn.Prompt, s.turn.Profile.Prompt = "# do\n\"it\" $HOME", "argument"
		if s.run(t); s.final.Text != "\"-p\"\n\"# do\\n\\\"it\\\" $HOME\"\n" {
			t.Errorf("got %q", s.final.Text)
		}
	})
	t.Run("argument with a dash", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, itself(t, "args")...)
		s.turn.Prompt, s.turn.Profile.Prompt = "--force", "argument"
		if s.run(t); s.final.Text != "\"\\n--force\"\n" {
			t.Errorf("got %q, want what no program takes for an option", s.final.Text)
		}
	})
	t.Run("argument of 200 KiB", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, itself(t, "args")...)
		s.turn.Prompt, s.turn.Profile.Prompt = big, "argument"
		refusal(t, workers.Check(t.Context(), s.turn), schemas.FailureSetup, schemas.CodeWorkerSetup, "profile w")
		s.run(t).want(t, schemas.OutcomeError, schemas.FailureSetup)
	})
}

// refusal wants err to be a refusal whose message has says in it.
func refusal(t *testing.T, err error, class schemas.FailureClass, code schemas.Code, says string) {
	t.Helper()
	e, ok := errors.AsType[*workers.Error](err)
	if !ok || e.Class != class || e.Code() != code {
		t.Fatalf("got %v, want class %q and code %s", err, class, code)
	}
	if !strings.Contains(e.Error(), says) {
		t.Errorf("%q does not say %q", e, says)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	t.Run("good", func(t *testing.T) {
		t.Parallel()
		if err := workers.Check(t.Context(), newScene(t, "sh").turn); err != nil {
			t.Error(err)
		}
	})
	t.Run("nothing but what it needs", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, "sh")
		err := workers.Check(t.Context(), workers.Turn{Profile: s.turn.Profile, Kind: schemas.KindCode, Getenv: s.turn.Getenv})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("program", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, "git-spot-no-such-program")
		refusal(t, workers.Check(t.Context(), s.turn), schemas.FailureSetup, schemas.CodeWorkerSetup, "git-spot-no-such-program")
		s.run(t).want(t, schemas.OutcomeError, schemas.FailureSetup)
	})
	t.Run("program in the home", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, "~/bin/tool")
		s.env["HOME"] = t.TempDir()
		refusal(t, workers.Check(t.Context(), s.turn), schemas.FailureSetup, schemas.CodeWorkerSetup, "profile w")
		tool := filepath.Join(s.env["HOME"], "bin", "tool")
		if err := os.Mkdir(filepath.Dir(tool), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		refusal(t, workers.Check(t.Context(), s.turn), schemas.FailureSetup, schemas.CodeWorkerSetup, "profile w")
		if err := os.Chmod(tool, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := workers.Check(t.Context(), s.turn); err != nil {
			t.Error(err)
		}
	})
	t.Run("program in the worktree", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, "./worker.sh")
		refusal(t, workers.Check(t.Context(), s.turn), schemas.FailureSetup, schemas.CodeWorkerSetup, "profile w")
	})
	t.Run("credential", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, "sh")
		s.turn.Profile.APIKeyEnv = "KEY"
		refusal(t, workers.Check(t.Context(), s.turn), schemas.FailureAuth, schemas.CodeWorkerAuth, "KEY")
		s.run(t).want(t, schemas.OutcomeError, schemas.FailureAuth)
	})
	t.Run("adapter", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.turn.Profile.Adapter = "zcode"
		refusal(t, workers.Check(t.Context(), s.turn), schemas.FailureSetup, schemas.CodeWorkerSetup, "command")
	})
}

func TestLogThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newScene(t, sh("echo a; echo b; touch ran")...)
	full := errors.New("no space left")
	s.turn.Events = writerFunc(func([]byte) (int, error) { return 0, full })
	try, final, err := workers.Run(t.Context(), s.turn)
	if !errors.Is(err, full) || try.Outcome != schemas.OutcomeCompleted || final.Text != "a\nb\n" {
		t.Errorf("got %v, %+v, %+v, want the error and the whole turn", err, try, final)
	}
	if !strings.Contains(s.log.String(), "[text] b") {
		t.Errorf("the other log is not complete: %q", s.log.String())
	}
}

func TestCode(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		outcome schemas.Outcome
		class   schemas.FailureClass
		code    schemas.Code
	}{
		{schemas.OutcomeCompleted, "", ""},
		{schemas.OutcomeEmpty, "", ""},
		{schemas.OutcomeStepCapped, "", ""},
		{schemas.OutcomeTimedOut, "", schemas.CodeWorkerTimeout},
		{schemas.OutcomeIdle, "", schemas.CodeWorkerIdle},
		{schemas.OutcomeInterrupted, "", schemas.CodeInterrupted},
		{schemas.OutcomeError, schemas.FailureAuth, schemas.CodeWorkerAuth},
		{schemas.OutcomeError, schemas.FailureQuota, schemas.CodeWorkerQuota},
		{schemas.OutcomeError, schemas.FailureRateLimit, schemas.CodeWorkerRateLimit},
		{schemas.OutcomeError, schemas.FailureTransient, schemas.CodeWorkerTransient},
		{schemas.OutcomeError, schemas.FailurePermanent, schemas.CodeWorkerPermanent},
		{schemas.OutcomeError, schemas.FailureCapability, schemas.CodeWorkerCapability},
		{schemas.OutcomeError, schemas.FailurePermission, schemas.CodeWorkerPermission},
		{schemas.OutcomeError, schemas.FailureSetup, schemas.CodeWorkerSetup},
		{schemas.OutcomeError, schemas.FailureIncomplete, schemas.CodeWorkerIncomplete},
		{schemas.OutcomeError, schemas.FailureBudget, schemas.CodeBudgetExceeded},
	} {
		if got := workers.Code(row.outcome, row.class); got != row.code {
			t.Errorf("%s %s: got %s, want %s", row.outcome, row.class, got, row.code)
		}
		falls := row.class == schemas.FailureQuota || row.class == schemas.FailureRateLimit || row.class == schemas.FailureTransient
		if got := workers.MayFallBack(row.class); got != falls {
			t.Errorf("%s: fallback %v, want %v", row.class, got, falls)
		}
	}
}
