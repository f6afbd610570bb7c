package scriptedmodel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Chat completions, as in OpenAI's API reference.

type chatRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct {
		Role       string  `json:"role"`
		Content    content `json:"content"`
		Refusal    string  `json:"refusal"`
		Reasoning  string  `json:"reasoning_content"`
		ToolCallID string  `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name      string  `json:"name"`
				Arguments *string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	} `json:"tools"`
}

// content is the text of a message: a string, or parts of which some are text.
type content struct {
	text  string
	types []string // of the parts
	given bool
}

// UnmarshalJSON takes null, a string or an array of parts.
func (c *content) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	c.given = true
	if data[0] == '"' {
		return json.Unmarshal(data, &c.text)
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return errors.New("content is neither a string nor an array of parts")
	}
	for _, p := range parts {
		c.text += p.Text
		c.types = append(c.types, p.Type)
	}
	return nil
}

// function is a tool that is offered, in both of OpenAI's wire formats.
type function struct {
	Name       string `json:"name"`
	Parameters schema `json:"parameters"`
}

type schema struct {
	Properties map[string]json.RawMessage `json:"properties"`
}

var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func offer(tools []tool, f function) ([]tool, error) {
	if !functionName.MatchString(f.Name) {
		return nil, fmt.Errorf("%q is no name for a function", f.Name)
	}
	if slices.ContainsFunc(tools, func(t tool) bool { return t.name == f.Name }) {
		return nil, fmt.Errorf("two tools are called %q", f.Name)
	}
	return append(tools, tool{f.Name, f.Parameters.Properties}), nil
}

func readChat(_ http.Header, body []byte) (ask, error) {
	var r chatRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return ask{}, err
	}
	a := ask{model: r.Model, stream: r.Stream, usage: r.StreamOptions.IncludeUsage}
	if r.Model == "" {
		return ask{}, errors.New("you must provide a model parameter")
	}
	if len(r.Messages) == 0 {
		return ask{}, errors.New("messages is empty")
	}
	open := map[string]bool{} // the calls that have no answer yet
	prompted := false
	for i, m := range r.Messages {
		if m.Role != "tool" && len(open) > 0 {
			return ask{}, fmt.Errorf("messages[%d]: an assistant message with tool_calls must be followed by tool messages for each tool_call_id", i)
		}
		switch m.Role {
		case "system", "developer":
		case "user":
			if !prompted {
				a.prompt, prompted = m.Content.text, true
			}
		case "assistant":
			a.spoken = append(a.spoken, turn{len(m.ToolCalls) > 0, m.Reasoning})
			if !m.Content.given && m.Refusal == "" && len(m.ToolCalls) == 0 {
				return ask{}, fmt.Errorf("messages[%d]: an assistant message has content or tool_calls", i)
			}
			for _, c := range m.ToolCalls {
				if c.ID == "" || open[c.ID] || c.Type != "function" || c.Function.Name == "" || c.Function.Arguments == nil {
					return ask{}, fmt.Errorf("messages[%d]: invalid tool call %q", i, c.ID)
				}
				open[c.ID] = true
			}
		case "tool":
			if !open[m.ToolCallID] {
				return ask{}, fmt.Errorf("messages[%d]: a tool message answers a tool call before it, and %q is none", i, m.ToolCallID)
			}
			if !m.Content.given {
				return ask{}, fmt.Errorf("messages[%d]: a tool message has content", i)
			}
			delete(open, m.ToolCallID)
		default:
			return ask{}, fmt.Errorf("messages[%d]: unknown role %q", i, m.Role)
		}
	}
	if len(open) > 0 {
		return ask{}, errors.New("tool calls at the end have no answer")
	}
	for _, t := range r.Tools {
		var err error
		if a.tools, err = offer(a.tools, t.Function); err != nil {
			return ask{}, err
		}
	}
	return a, nil
}

func (a answer) chatFinish() string {
	switch {
	case a.step.Stop == StopLength:
		return "length"
	case len(a.calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

// chatText is the name of the field that the text is in.
func (a answer) chatText() string {
	if a.step.Stop == StopRefusal {
		return "refusal"
	}
	return "content"
}

func (a answer) chatUsage() object {
	u := a.usage
	prompt := object{"cached_tokens": u.CacheRead, "audio_tokens": 0}
	if u.CacheWrite > 0 {
		prompt["cache_write_tokens"] = u.CacheWrite
	}
	input := u.Input + u.CacheRead + u.CacheWrite
	return object{
		"prompt_tokens": input, "completion_tokens": u.Output, "total_tokens": input + u.Output,
		"prompt_tokens_details": prompt,
		"completion_tokens_details": object{
			"reasoning_tokens": u.Reasoning, "audio_tokens": 0,
			"accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
		},
	}
}

func (a answer) chatEnvelope(kind string) object {
	return object{
		"id": "chatcmpl-" + a.id, "object": kind, "created": epoch, "model": a.model,
		"service_tier": "default", "system_fingerprint": "fp_scripted",
	}
}

func streamChat(a answer) []event {
	var events []event
	chunk := func(delta object, finish any) {
		e := a.chatEnvelope("chat.completion.chunk")
		e["choices"] = list{object{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}
		if a.ask.usage {
			e["usage"] = nil
		}
		events = append(events, event{data: encode(e)})
	}
	chunk(object{"role": "assistant", "content": "", "refusal": nil}, nil)
	for _, p := range pieces(a.step.Reasoning) {
		chunk(object{"reasoning_content": p}, nil)
	}
	for _, p := range pieces(a.step.Text) {
		chunk(object{a.chatText(): p}, nil)
	}
	for i, c := range a.calls {
		chunk(object{"tool_calls": list{object{
			"index": i, "id": "call_" + c.id, "type": "function", "function": object{"name": c.name, "arguments": ""},
		}}}, nil)
		for _, p := range pieces(c.args) {
			chunk(object{"tool_calls": list{object{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	chunk(object{}, a.chatFinish())
	if a.ask.usage {
		e := a.chatEnvelope("chat.completion.chunk")
		e["choices"], e["usage"] = list{}, a.chatUsage()
		events = append(events, event{data: encode(e), usage: a.usage})
	}
	return append(events, event{data: []byte("[DONE]")})
}

func wholeChat(a answer) object {
	m := object{"role": "assistant", "content": nil, "refusal": nil, "annotations": list{}}
	if a.step.Text != "" || len(a.calls) == 0 {
		m[a.chatText()] = a.step.Text
	}
	if a.step.Reasoning != "" {
		m["reasoning_content"] = a.step.Reasoning
	}
	var calls list
	for _, c := range a.calls {
		calls = append(calls, object{"id": "call_" + c.id, "type": "function", "function": object{"name": c.name, "arguments": c.args}})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	e := a.chatEnvelope("chat.completion")
	e["choices"] = list{object{"index": 0, "message": m, "logprobs": nil, "finish_reason": a.chatFinish()}}
	e["usage"] = a.chatUsage()
	return e
}

func failChat(a answer) event {
	return event{data: encode(problemOpenAI(refusal{
		status: http.StatusInternalServerError, code: a.step.Error, message: cmp.Or(a.step.Text, "scripted: the stream fails"),
	}))}
}

// problemOpenAI is the body of an HTTP error of both of OpenAI's wire formats.
func problemOpenAI(r refusal) object {
	kind, code := "invalid_request_error", any(nil)
	switch r.status {
	case http.StatusUnauthorized:
		code = "invalid_api_key"
	case http.StatusNotFound:
		code = "model_not_found"
	case http.StatusTooManyRequests:
		kind, code = "requests", "rate_limit_exceeded"
	}
	if r.status >= 500 {
		kind = "server_error"
	}
	if r.code != "" {
		code = r.code
	}
	if strings.HasSuffix(r.code, "_quota") || strings.HasSuffix(r.code, "_error") {
		kind = r.code
	}
	return object{"error": object{"message": r.message, "type": kind, "param": nil, "code": code}}
}
