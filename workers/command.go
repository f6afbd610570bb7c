package workers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
)

// maxPromptArgument is far enough below the kernel's 128 KiB for one argument.
const maxPromptArgument = 100 << 10

// command drives any program that a profile describes by argv, prompt, output and env.
type command struct{}

func (command) Name() string { return "command" }

func (command) Program(p *config.Profile) Program {
	if p.Program != "" {
		return Program{Name: p.Program}
	}
	return Program{Name: p.Argv[0]}
}

func (command) Invocation(t Turn) (Invocation, error) {
	inv := Invocation{Args: slices.Clone(t.Profile.Argv[1:]), Credential: "none", Steps: t.Profile.Output == "jsonl"}
	switch t.Profile.Prompt {
	case "file":
		inv.PromptFile = filepath.Join(t.Tmp, fmt.Sprintf("prompt-%d.md", t.Attempt))
		inv.Args = append(inv.Args, inv.PromptFile)
	case "argument":
		if len(t.Prompt) > maxPromptArgument || strings.ContainsRune(t.Prompt, 0) {
			return Invocation{}, setupError(t.Profile, fmt.Sprintf(
				"a prompt of %d bytes cannot be an argument (at most %d, no NUL); use prompt = stdin or file",
				len(t.Prompt), maxPromptArgument), nil)
		}
		prompt := t.Prompt
		if strings.HasPrefix(prompt, "-") {
			// Whatever the program's syntax of options is, none begins with a newline.
			prompt = "\n" + prompt
		}
		inv.Args = append(inv.Args, prompt)
	default:
		inv.Stdin = t.Prompt
	}
	if name := t.Profile.APIKeyEnv; name != "" {
		inv.Env = append(inv.Env, name+"="+t.Getenv(name))
		inv.Credential = "environment"
	}
	return inv, nil
}

func (command) Parser(p *config.Profile) Parser {
	if p.Output == "jsonl" {
		return &jsonlParser{}
	}
	return &textParser{}
}

// textParser takes standard output for what the worker has to say.
type textParser struct {
	spoke bool
	fromStderr
}

func (p *textParser) Stdout(line []byte) []schemas.Event {
	p.spoke = p.spoke || len(bytes.TrimSpace(line)) > 0
	return []schemas.Event{{Type: schemas.EventText, Text: string(line)}}
}

func (*textParser) Done() bool { return false }

func (p *textParser) Verdict(exit int) Verdict { return p.verdict(exit, p.spoke) }

// jsonlParser reads one event a line. What is no event of the protocol is text.
type jsonlParser struct {
	spoke   bool
	class   schemas.FailureClass // of the last error event that no final event followed
	message string
	fromStderr
}

// line is every key of the protocol. A key of another kind than its type makes the line text.
type line struct {
	Type    string  `json:"type"`
	Text    *string `json:"text"`
	Name    string  `json:"name"`
	Status  string  `json:"status"`
	ID      string  `json:"id"`
	Class   string  `json:"class"`
	Message *string `json:"message"`
	schemas.Usage
}

func (p *jsonlParser) Stdout(raw []byte) []schemas.Event {
	raw = bytes.TrimRight(raw, "\r")
	if len(bytes.TrimSpace(raw)) > 0 {
		p.spoke = true
	}
	text := []schemas.Event{{Type: schemas.EventText, Text: string(raw)}}
	var l line
	if err := json.Unmarshal(raw, &l); err != nil {
		return text
	}
	e := schemas.Event{Type: schemas.EventType(l.Type)}
	switch {
	case e.Type == schemas.EventText && l.Text != nil:
		e.Text = *l.Text
	case e.Type == schemas.EventFinal && l.Text != nil:
		e.Text = *l.Text
		p.class, p.message = "", ""
	case e.Type == schemas.EventTool && l.Name != "":
		e.Name, e.Status = l.Name, l.Status
		if e.Status == "" {
			e.Status = "ok"
		}
	case e.Type == schemas.EventUsage && valid(l.Usage):
		e.Usage = &l.Usage
	case e.Type == schemas.EventSession && l.ID != "":
		e.Session = l.ID
	case e.Type == schemas.EventError && (l.Class != "" || l.Message != nil):
		p.class = classOf(l.Class)
		if l.Message != nil {
			p.message = *l.Message
		}
		e.Class, e.Text = string(p.class), p.message
	default:
		return text
	}
	return []schemas.Event{e}
}

// valid says whether a usage event says anything and nothing absurd.
func valid(u schemas.Usage) bool {
	said := false
	for _, n := range []*int64{u.UncachedInput, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning} {
		if n != nil && (*n < 0 || *n > 1<<50) {
			return false
		}
		said = said || n != nil
	}
	for _, f := range []*float64{u.Credits, u.CostUSD} {
		if f != nil && (*f < 0 || *f > 1e12) {
			return false
		}
		said = said || f != nil
	}
	return said
}

func (*jsonlParser) Done() bool { return false }

// Verdict believes an error event, whatever the exit status, unless a final event came after it: a
// program that says how it ended has recovered.
func (p *jsonlParser) Verdict(exit int) Verdict {
	if p.class != "" {
		return Verdict{Class: p.class, Message: p.message}
	}
	return p.verdict(exit, p.spoke)
}
