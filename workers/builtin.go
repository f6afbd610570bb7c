package workers

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strconv"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
)

// builtin drives git-spot-agent, the coding agent that comes with git spot. It talks to the model of the
// profile through the gateway and has no tool that starts a program.
type builtin struct{}

const (
	agentProgram = "git-spot-agent"
	agentSession = "session.jsonl" // its transcript, in its home

	// agentToken is the variable in which the agent finds the gateway's token.
	agentToken = "GIT_SPOT_GATEWAY_TOKEN"
)

func (builtin) Name() string { return "builtin" }

func (builtin) Program(p *config.Profile) Program {
	if p.Program != "" {
		return Program{Name: p.Program}
	}
	return Program{Name: agentProgram, Companion: true}
}

func (builtin) Invocation(t Turn) (Invocation, error) {
	p := t.Profile
	for _, key := range []struct{ name, value string }{{"baseURL", p.BaseURL}, {"model", p.Model}} {
		if key.value == "" {
			name := "spot.profile." + p.Name + "." + key.name
			missing := setupError(p, name+" is not set", nil)
			missing.Key = name
			return Invocation{}, missing
		}
	}
	args := []string{
		"--api", p.API, "--base-url", t.gateway.baseURL, "--model", p.Model, "--kind", string(t.Kind),
		"--max-steps", strconv.Itoa(maxSteps(t)), "--session", filepath.Join(t.Home, agentSession),
	}
	if t.resumed {
		args = append(args, "--resume")
	}
	if p.ReasoningEffort != "" {
		args = append(args, "--effort", p.ReasoningEffort)
	}
	if p.MaxContextSize > 0 {
		args = append(args, "--context", strconv.FormatInt(p.MaxContextSize, 10))
	}
	return Invocation{
		Args: args, Env: []string{agentToken + "=" + t.gateway.token}, Stdin: t.Prompt, Credential: credentialGateway,
		Terminal: true, Steps: true, OwnStepLimit: true, Session: agentSession,
	}, nil
}

func (builtin) Parser(*config.Profile) Parser { return &builtinParser{} }

// builtinParser reads the protocol of adapter command, and warnings. The usage is what the gateway
// counts, an empty line says no more than that the agent is alive, and the final event says why it is the
// last.
type builtinParser struct {
	jsonlParser
	done bool
	stop string // of the final event: done, steps or question
	last string // its text
}

func (p *builtinParser) Stdout(raw []byte) []schemas.Event {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	var own struct{ Type, Text, Stop string }
	if json.Unmarshal(raw, &own) == nil {
		switch schemas.EventType(own.Type) {
		case schemas.EventFinal:
			p.done, p.stop, p.last = true, own.Stop, own.Text
			p.spoke, p.class, p.message = true, "", ""
			return []schemas.Event{{Type: schemas.EventFinal, Text: own.Text}}
		case schemas.EventWarning:
			return []schemas.Event{{Type: schemas.EventWarning, Text: own.Text}}
		}
	}
	events := p.jsonlParser.Stdout(raw)
	switch events[0].Type {
	case schemas.EventUsage:
		return nil
	case schemas.EventError:
		p.done = true
	}
	return events
}

func (p *builtinParser) Done() bool { return p.done }

func (p *builtinParser) Verdict(exit int) Verdict {
	v := p.jsonlParser.Verdict(exit)
	if v.Class != "" {
		return v
	}
	switch p.stop {
	case "steps":
		v.StepCapped = true
	case "question":
		v.Question = question(p.last)
	}
	return v
}
