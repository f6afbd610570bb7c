package scriptedmodel

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Messages, as in Anthropic's API reference.

type messagesRequest struct {
	Model     string `json:"model"`
	MaxTokens int64  `json:"max_tokens"`
	Stream    bool   `json:"stream"`
	Messages  []struct {
		Role    string `json:"role"`
		Content blocks `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name        string `json:"name"`
		InputSchema schema `json:"input_schema"`
	} `json:"tools"`
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
}

type blocks []block

// UnmarshalJSON takes a string for a block of text.
func (b *blocks) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		*b = blocks{{Type: "text"}}
		return json.Unmarshal(data, &(*b)[0].Text)
	}
	return json.Unmarshal(data, (*[]block)(b))
}

func readMessages(header http.Header, body []byte) (ask, error) {
	var r messagesRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return ask{}, err
	}
	a := ask{model: r.Model, stream: r.Stream, usage: true}
	switch {
	case header.Get("Anthropic-Version") == "":
		return ask{}, errors.New("anthropic-version: header is required")
	case r.Model == "":
		return ask{}, errors.New("model: field required")
	case r.MaxTokens < 1:
		return ask{}, errors.New("max_tokens: field required, greater than 0")
	case len(r.Messages) == 0 || r.Messages[0].Role != "user":
		return ask{}, errors.New("messages: the first is one of the user")
	}
	var open []string // the calls of the message before
	for i, m := range r.Messages {
		if len(m.Content) == 0 {
			return ask{}, fmt.Errorf("messages.%d: all messages must have non-empty content", i)
		}
		answered, others := map[string]bool{}, false
		var calls []string
		reasoning := ""
		for _, b := range m.Content {
			switch {
			case b.Type == "text" && b.Text == "":
				return ask{}, fmt.Errorf("messages.%d: text content blocks must be non-empty", i)
			case b.Type == "thinking" && (m.Role != "assistant" || b.Signature != sign(b.Thinking)):
				return ask{}, fmt.Errorf("messages.%d: invalid signature in thinking block", i)
			case b.Type == "thinking":
				reasoning += b.Thinking
			case b.Type == "tool_use":
				var input map[string]json.RawMessage
				if m.Role != "assistant" || b.ID == "" || b.Name == "" || slices.Contains(calls, b.ID) ||
					json.Unmarshal(b.Input, &input) != nil || input == nil {
					return ask{}, fmt.Errorf("messages.%d: invalid tool_use %q", i, b.ID)
				}
				calls = append(calls, b.ID)
			case b.Type == "tool_result":
				if others || !slices.Contains(open, b.ToolUseID) || answered[b.ToolUseID] {
					return ask{}, fmt.Errorf("messages.%d: tool_result %q must be at the start of the message after its tool_use, once", i, b.ToolUseID)
				}
				answered[b.ToolUseID] = true
			}
			others = others || b.Type != "tool_result"
		}
		if len(answered) < len(open) {
			return ask{}, fmt.Errorf("messages.%d: tool_use ids were found without tool_result blocks", i)
		}
		open = calls
		switch m.Role {
		case "user":
			if others { // only since the user spoke must thinking be passed back
				a.spoken = make([]turn, len(a.spoken))
			}
		case "assistant":
			a.spoken = append(a.spoken, turn{len(calls) > 0, reasoning})
		default:
			return ask{}, fmt.Errorf("messages.%d: unknown role %q", i, m.Role)
		}
	}
	if len(open) > 0 {
		return ask{}, errors.New("messages: tool_use ids were found without tool_result blocks")
	}
	for _, b := range r.Messages[0].Content {
		a.prompt += b.Text
	}
	for _, t := range r.Tools {
		var err error
		if a.tools, err = offer(a.tools, function{t.Name, t.InputSchema}); err != nil {
			return ask{}, err
		}
	}
	return a, nil
}

// sign is the signature of a thinking block, without which it is not taken back.
func sign(thinking string) string {
	sum := sha256.Sum256([]byte("scripted" + thinking))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (a answer) stopReason() string {
	switch {
	case a.step.Stop == StopLength:
		return "max_tokens"
	case a.step.Stop == StopRefusal:
		return "refusal"
	case len(a.calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func (a answer) stopDetails() any {
	if a.step.Stop != StopRefusal {
		return nil
	}
	return object{"type": "refusal", "category": nil, "explanation": nil}
}

// messagesUsage has the output tokens that are known when it is sent.
func (a answer) messagesUsage(output int64) object {
	return object{
		"input_tokens": a.usage.Input, "cache_read_input_tokens": a.usage.CacheRead,
		"cache_creation_input_tokens": a.usage.CacheWrite, "output_tokens": output,
		"cache_creation": object{"ephemeral_5m_input_tokens": a.usage.CacheWrite, "ephemeral_1h_input_tokens": 0},
		"service_tier":   "standard",
	}
}

func (a answer) thinkingDetails() object { return object{"thinking_tokens": a.usage.Reasoning} }

func (a answer) message() object {
	return object{
		"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": a.model, "content": list{},
		"stop_reason": nil, "stop_sequence": nil, "stop_details": nil,
	}
}

func streamMessages(a answer) []event {
	var events []event
	add := func(name string, u Usage, data object) {
		data["type"] = name
		events = append(events, event{name, encode(data), u})
	}
	index := 0
	block := func(start object, deltas ...object) {
		add("content_block_start", Usage{}, object{"index": index, "content_block": start})
		for _, d := range deltas {
			add("content_block_delta", Usage{}, object{"index": index, "delta": d})
		}
		add("content_block_stop", Usage{}, object{"index": index})
		index++
	}
	deltas := func(kind, field, s string) []object {
		var out []object
		for _, p := range pieces(s) {
			out = append(out, object{"type": kind, field: p})
		}
		return out
	}

	// The first output token is known at the start, the rest at the end.
	first := min(1, a.usage.Output)
	m := a.message()
	m["usage"] = a.messagesUsage(first)
	start, rest := a.usage, Usage{Output: a.usage.Output - first, Reasoning: a.usage.Reasoning}
	start.Output, start.Reasoning = first, 0
	add("message_start", start, object{"message": m})
	add("ping", Usage{}, object{})
	if a.step.Reasoning != "" {
		block(object{"type": "thinking", "thinking": "", "signature": ""}, append(
			deltas("thinking_delta", "thinking", a.step.Reasoning),
			object{"type": "signature_delta", "signature": sign(a.step.Reasoning)},
		)...)
	}
	if a.step.Text != "" {
		block(object{"type": "text", "text": ""}, deltas("text_delta", "text", a.step.Text)...)
	}
	for _, c := range a.calls {
		block(object{"type": "tool_use", "id": "toolu_" + c.id, "name": c.name, "input": object{}},
			append([]object{{"type": "input_json_delta", "partial_json": ""}}, deltas("input_json_delta", "partial_json", c.args)...)...)
	}
	usage := a.messagesUsage(a.usage.Output)
	delete(usage, "cache_creation")
	delete(usage, "service_tier")
	usage["output_tokens_details"] = a.thinkingDetails()
	add("message_delta", rest, object{
		"delta": object{"stop_reason": a.stopReason(), "stop_sequence": nil, "stop_details": a.stopDetails()}, "usage": usage,
	})
	add("message_stop", Usage{}, object{})
	return events
}

func wholeMessages(a answer) object {
	content := list{}
	if a.step.Reasoning != "" {
		content = append(content, object{"type": "thinking", "thinking": a.step.Reasoning, "signature": sign(a.step.Reasoning)})
	}
	if a.step.Text != "" {
		content = append(content, object{"type": "text", "text": a.step.Text})
	}
	for _, c := range a.calls {
		var input any = c.args // what is no JSON can only be sent as a string here
		if json.Valid([]byte(c.args)) {
			input = json.RawMessage(c.args)
		}
		content = append(content, object{"type": "tool_use", "id": "toolu_" + c.id, "name": c.name, "input": input})
	}
	m := a.message()
	usage := a.messagesUsage(a.usage.Output)
	usage["output_tokens_details"] = a.thinkingDetails()
	m["content"], m["usage"], m["stop_reason"], m["stop_details"] = content, usage, a.stopReason(), a.stopDetails()
	return m
}

func failMessages(a answer) event {
	return event{name: "error", data: encode(problemMessages(refusal{
		status: 529, code: a.step.Error, message: cmp.Or(a.step.Text, "Overloaded"),
	}))}
}

func problemMessages(r refusal) object {
	kind := "api_error"
	switch r.status {
	case http.StatusUnauthorized:
		kind = "authentication_error"
	case http.StatusPaymentRequired:
		kind = "billing_error"
	case http.StatusForbidden:
		kind = "permission_error"
	case http.StatusNotFound:
		kind = "not_found_error"
	case http.StatusRequestEntityTooLarge:
		kind = "request_too_large"
	case http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case http.StatusGatewayTimeout:
		kind = "timeout_error"
	case 529:
		kind = "overloaded_error"
	default:
		if r.status < 500 {
			kind = "invalid_request_error"
		}
	}
	switch {
	case r.code == "insufficient_quota":
		kind = "billing_error"
	case r.code == "context_length_exceeded":
		r.message = "prompt is too long: 210000 tokens > 200000 maximum"
	case strings.HasSuffix(r.code, "_error"):
		kind = r.code
	}
	return object{"type": "error", "error": object{"type": kind, "message": r.message}, "request_id": "req_scripted"}
}
