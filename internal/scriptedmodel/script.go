package scriptedmodel

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Script is what the model says, in order. Which step is due follows from the request alone: the model
// has spoken as often as there are answers of its in the conversation, so that a request that is
// repeated gets the same answer again. A step that fails is played before the answer that follows it,
// as often as it says, in each conversation. When no step is left, the model says "done".
type Script struct {
	Steps []Step `json:"steps,omitempty"`
	// Conversations have steps of their own: the first whose words are in the first user message.
	Conversations []Conversation `json:"conversations,omitempty"`
}

// Conversation is the steps for those requests whose first user message contains some words.
type Conversation struct {
	Contains string `json:"contains"`
	Steps    []Step `json:"steps"`
}

// Step is one answer, or one failure to answer.
type Step struct {
	Text      string `json:"text,omitempty"` // with Status or the fault error, the message of the error
	Calls     []Call `json:"calls,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	// Stop is why the answer ends: "" as it is, StopLength or StopRefusal.
	Stop  string `json:"stop,omitempty"`
	Model string `json:"model,omitempty"` // the model that the answer names; "" is the one that was asked for
	Usage *Usage `json:"usage,omitempty"` // the numbers to send; nil makes some up, from sizes
	// Status answers with an HTTP error instead, RetryAfter is its header of that name, and Error its
	// code or type: insufficient_quota, context_length_exceeded, or a word of the wire format's own;
	// "" is what the status has.
	Status     int    `json:"status,omitempty"`
	RetryAfter string `json:"retryAfter,omitempty"`
	Error      string `json:"error,omitempty"`
	// Fault is one of the Fault constants, or "".
	Fault string `json:"fault,omitempty"`
	Times int    `json:"times,omitempty"` // how often the step is played; 0 is once
}

// The faults. All but the first begin an answer and break it off in the middle.
const (
	FaultHang    = "hang"    // nothing comes
	FaultStall   = "stall"   // nothing more comes
	FaultDrop    = "drop"    // the connection ends
	FaultCut     = "cut"     // the answer ends as if it were complete
	FaultError   = "error"   // the stream says that there is an error, as Step.Error; without a stream, status 500
	FaultGarbage = "garbage" // what comes is not JSON, and then the rest
)

// What Step.Stop can be.
const (
	StopLength  = "length"
	StopRefusal = "refusal"
)

// Call is a tool call.
type Call struct {
	// Tool is read, write, edit, grep, find or ls, for which the server takes the tool that the request
	// offers for that, or any name, which is sent as it is.
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"` // an object; nil is an empty one
	// Raw is sent as the arguments instead, and need not be JSON.
	Raw string `json:"raw,omitempty"`
}

// Usage counts tokens. Input excludes what was read from the cache and what was written to it; Output
// includes Reasoning.
type Usage struct {
	Input      int64 `json:"input,omitempty"`
	CacheRead  int64 `json:"cacheRead,omitempty"`
	CacheWrite int64 `json:"cacheWrite,omitempty"`
	Output     int64 `json:"output,omitempty"`
	Reasoning  int64 `json:"reasoning,omitempty"`
}

// The limits of a script: no test needs more, and a file of a stranger gets no more.
const (
	maxScript = 64 << 20 // bytes
	maxTimes  = 1_000_000
	maxTokens = 1 << 40
)

// Decode reads a script from JSON. Keys that it does not know are errors, and so is anything after it.
func Decode(r io.Reader) (Script, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxScript+1))
	if err != nil {
		return Script{}, err
	}
	if len(data) > maxScript {
		return Script{}, errors.New("script: larger than 64 MiB")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var s Script
	if err := d.Decode(&s); err != nil {
		return Script{}, fmt.Errorf("script: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Script{}, errors.New("script: something follows it")
	}
	if err := s.valid(); err != nil {
		return Script{}, err
	}
	return s, nil
}

func (s Script) valid() error {
	for i, step := range s.Steps {
		if err := step.valid(); err != nil {
			return fmt.Errorf("script: step %d: %w", i+1, err)
		}
	}
	for _, c := range s.Conversations {
		if c.Contains == "" {
			return errors.New("script: a conversation says for which words it is")
		}
		for i, step := range c.Steps {
			if err := step.valid(); err != nil {
				return fmt.Errorf("script: conversation %q: step %d: %w", c.Contains, i+1, err)
			}
		}
	}
	return nil
}

func (s Step) valid() error {
	if s.Status != 0 && (s.Status < 400 || s.Status > 599) {
		return fmt.Errorf("status %d is no error", s.Status)
	}
	faults := []string{"", FaultHang, FaultStall, FaultDrop, FaultCut, FaultError, FaultGarbage}
	if !slices.Contains(faults, s.Fault) {
		return fmt.Errorf("unknown fault %q", s.Fault)
	}
	if !slices.Contains([]string{"", StopLength, StopRefusal}, s.Stop) {
		return fmt.Errorf("unknown stop %q", s.Stop)
	}
	if s.Status != 0 && (s.Fault != "" || len(s.Calls) > 0) {
		return errors.New("a status excludes faults and calls")
	}
	if s.Error != "" && s.Status == 0 && s.Fault != FaultError {
		return errors.New("an error needs a status, or the fault error")
	}
	if s.RetryAfter != "" && s.Status == 0 {
		return errors.New("retryAfter needs a status")
	}
	if strings.ContainsAny(s.RetryAfter, "\r\n") {
		return errors.New("retryAfter is one line")
	}
	if s.Times < 0 || s.Times > maxTimes {
		return fmt.Errorf("times is between 0 and %d", maxTimes)
	}
	if u := s.Usage; u != nil {
		for _, n := range []int64{u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning} {
			if n < 0 || n > maxTokens {
				return errors.New("usage is out of range")
			}
		}
		if u.Reasoning > u.Output {
			return errors.New("more reasoning than output, which includes it")
		}
	}
	for _, c := range s.Calls {
		if c.Tool == "" {
			return errors.New("a call without a tool")
		}
		if c.Raw != "" && c.Args != nil {
			return errors.New("a call has args or raw")
		}
		var object map[string]json.RawMessage
		if c.Args != nil && (json.Unmarshal(c.Args, &object) != nil || object == nil) {
			return fmt.Errorf("the arguments of %s are no object", c.Tool)
		}
	}
	return nil
}

func (s Step) fails() bool { return s.Status != 0 || s.Fault != "" }

// part returns the steps for a conversation that begins with prompt, and which they are.
func (s Script) part(prompt string) (int, []Step) {
	for i, c := range s.Conversations {
		if strings.Contains(prompt, c.Contains) {
			return i + 1, c.Steps
		}
	}
	return 0, s.Steps
}

// due returns the answer for the turn of that number, and the first of the failures that come before it.
func due(steps []Step, turn int) (answer Step, from int) {
	for i, step := range steps {
		times := max(1, step.Times)
		switch {
		case step.fails():
		case turn < times:
			return step, from
		default:
			turn -= times
			from = i + 1
		}
	}
	if turn > 0 {
		from = len(steps)
	}
	return Step{Text: "done"}, from
}

// ask is what the server needs to know of a request.
type ask struct {
	model  string
	stream bool
	usage  bool   // whether usage is wanted in the stream
	prompt string // the first user message
	tools  []tool
	spoken []turn // what the model has said
}

// turn is what the model said at once, as far as it matters.
type turn struct {
	called    bool // a tool, with an answer that may depend on the reasoning
	reasoning string
}

func (a ask) key() [32]byte { return sha256.Sum256([]byte(a.prompt)) }

// answer is a step as it is sent. What has an id has one that follows from conversation and turn.
type answer struct {
	ask   ask
	step  Step
	model string
	id    string // without the prefix that the wire format gives it
	calls []call
	usage Usage
}

type call struct{ id, name, args string }

func (s Script) answer(ask ask, step Step, size int) answer {
	key := ask.key()
	a := answer{ask: ask, step: step, model: cmp.Or(step.Model, ask.model), id: fmt.Sprintf("%x%04d", key[:6], len(ask.spoken))}
	output := len(step.Text)
	for i, c := range step.Calls {
		name, args := pick(ask.tools, c)
		a.calls = append(a.calls, call{fmt.Sprintf("%s_%d", a.id, i), name, args})
		output += len(name) + len(args)
	}
	if step.Usage != nil {
		a.usage = *step.Usage
		return a
	}
	// About four bytes are a token; what an earlier request had is in the cache.
	tokens := func(bytes int) int64 { return int64(bytes+3) / 4 }
	a.usage.Reasoning = tokens(len(step.Reasoning))
	a.usage.Output = a.usage.Reasoning + tokens(output)
	a.usage.Input = tokens(size)
	if len(ask.spoken) > 0 {
		a.usage.CacheRead = a.usage.Input / 2
		a.usage.Input -= a.usage.CacheRead
	}
	return a
}
