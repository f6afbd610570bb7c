package workers_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/workers"
)

// agent is the adapter of a program that is like the real ones: it has a version, is found where its
// installer put it, and says when it is done.
type agent struct{ constraint string }

func (agent) Name() string { return "agent" }

func (a agent) Program(*config.Profile) workers.Program {
	return workers.Program{
		Name: "spot-test-agent", Places: []string{"~/.agent/bin"}, VersionArgs: []string{"--version"}, Constraint: a.constraint,
	}
}

func (agent) Invocation(t workers.Turn) (workers.Invocation, error) {
	return workers.Invocation{
		Args: []string{"run"}, Stdin: t.Prompt, Env: []string{"AGENT_HOME=" + t.Home}, Credential: "login", Terminal: true, Steps: true,
	}, nil
}

func (agent) Parser(*config.Profile) workers.Parser { return &agentParser{} }

type agentParser struct{ done bool }

func (p *agentParser) Stdout(line []byte) []schemas.Event {
	if text, ok := bytes.CutPrefix(line, []byte("END ")); ok {
		p.done = true
		return []schemas.Event{{Type: schemas.EventFinal, Text: string(text)}}
	}
	return []schemas.Event{{Type: schemas.EventTool, Name: "read", Status: "ok"}}
}

func (p *agentParser) Stderr(line []byte) []schemas.Event {
	if text, ok := bytes.CutPrefix(line, []byte("warning: ")); ok {
		return []schemas.Event{{Type: schemas.EventWarning, Text: string(text)}}
	}
	return nil
}

func (p *agentParser) Done() bool { return p.done }

func (p *agentParser) Verdict(exit int) workers.Verdict {
	if exit != 0 {
		return workers.Verdict{Class: schemas.FailureTransient, Message: "overloaded"}
	}
	return workers.Verdict{}
}

// install puts a program where agent looks for it.
func (s *scene) install(t *testing.T, script string) {
	t.Helper()
	s.env["HOME"] = t.TempDir()
	dir := filepath.Join(s.env["HOME"], ".agent", "bin")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "spot-test-agent"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) runWith(t *testing.T, a workers.Adapter) *scene {
	t.Helper()
	var err error
	if s.try, s.final, err = workers.RunWith(t.Context(), a, s.turn); err != nil {
		t.Fatal(err)
	}
	return s
}

const version = `[ "$1" = --version ] && { echo "agent v1.4.2 (linux)"; exit; }` + "\n"

func TestAdapterOfARealKind(t *testing.T) {
	t.Parallel()
	t.Run("good", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.install(t, version+`echo a; echo "warning: effort snapped to low" >&2; sleep 0.2; echo "END $AGENT_HOME"`)
		s.runWith(t, agent{">= 1.4, < 2"}).want(t, schemas.OutcomeCompleted, "")
		if s.try.ProgramVersion != "1.4.2" || s.final.Credential != "login" || *s.try.Steps != 1 || s.final.Text != s.turn.Home {
			t.Errorf("got %+v, %+v", s.try, s.final)
		}
		if len(s.final.Warnings) != 1 || !strings.Contains(s.log.String(), "[warn] effort snapped to low") {
			t.Errorf("got warnings %q and log %q", s.final.Warnings, s.log.String())
		}
	})
	t.Run("no last word", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.install(t, version+"echo a")
		s.runWith(t, agent{}).want(t, schemas.OutcomeError, schemas.FailureIncomplete)
	})
	t.Run("last word, but does not go", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.install(t, version+"echo END x; sleep 60")
		start := time.Now()
		s.runWith(t, agent{}).want(t, schemas.OutcomeCompleted, "")
		if time.Since(start) > 50*time.Second {
			t.Error("it was waited for")
		}
	})
	t.Run("own verdict", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.install(t, version+"exit 1")
		s.runWith(t, agent{}).want(t, schemas.OutcomeError, schemas.FailureTransient)
	})
	for name, row := range map[string]struct{ script, says string }{
		"too old":         {version, "has version 1.4.2, but >= 2 is needed"},
		"no version":      {"exit 0", "does not say its version"},
		"broken":          {"echo 3.0.0; exit 1", "does not say its version"},
		"hangs":           {"sleep 60", "does not say its version within"},
		"leaves a daemon": {"(sleep 60 &); sleep 60", "does not say its version within"},
		"waits for input": {"read x; echo 0.1.0", "does not say its version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.install(t, row.script)
			start := time.Now()
			s.runWith(t, agent{">= 2"}).want(t, schemas.OutcomeError, schemas.FailureSetup)
			if !strings.Contains(s.try.Message, row.says) && name != "waits for input" {
				t.Errorf("got %q, want %q", s.try.Message, row.says)
			}
			if time.Since(start) > 30*time.Second {
				t.Error("the probe was waited for")
			}
		})
	}
}
