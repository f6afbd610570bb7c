package model

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
)

// messages is the client for Anthropic messages and what is compatible with them.
type messages struct {
	service anthropic.MessageService
	o       Options
	output  int64 // most tokens of one answer, which this API has to be told
}

// Output tokens that a request allows: what current models take, a part of a small context window.
const (
	mostOutput  = 32000
	leastOutput = 1024
)

func newMessages(o Options) *messages {
	options := []option.RequestOption{
		option.WithBaseURL(o.BaseURL),
		option.WithHTTPClient(httpClient()),
		option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(),
	}
	if o.Token != "" {
		options = append(options, option.WithAPIKey(o.Token))
	}
	output := int64(mostOutput)
	if o.Context > 0 {
		output = min(output, max(o.Context/4, leastOutput))
	}
	return &messages{service: anthropic.NewMessageService(options...), o: o, output: output}
}

// fewerTokens matches what an older model says about a limit of output that it does not reach.
var fewerTokens = regexp.MustCompile(`max_tokens: \d+ > (\d+)`)

func (c *messages) Ask(ctx context.Context, r Request, progress func(string)) (Answer, error) {
	answer, err := c.ask(ctx, r, progress)
	if e, ok := errors.AsType[*Error](err); ok {
		if m := fewerTokens.FindStringSubmatch(e.Message); m != nil {
			if n, err := strconv.ParseInt(m[1], 10, 64); err == nil && n > 0 && n < c.output {
				c.output = n
				return c.ask(ctx, r, progress)
			}
		}
	}
	return answer, err
}

func (c *messages) ask(ctx context.Context, r Request, progress func(string)) (Answer, error) {
	requestCtx, e := newExchange(ctx, c.o)
	defer e.close()
	stream := c.service.NewStreaming(requestCtx, c.params(r), option.WithMiddleware(e.middleware))
	defer func() { _ = stream.Close() }()
	a := messagesAnswer{exchange: e, progress: progress, open: map[int64]*messagesBlock{}}
	for stream.Next() {
		done, err := a.add(stream.Current())
		if err != nil {
			return Answer{}, e.failure(ctx, err)
		}
		if done {
			return a.answer(r), nil
		}
	}
	if a.stop == "" { // whatever came after that was not needed
		return Answer{}, e.failure(ctx, stream.Err())
	}
	return a.answer(r), nil
}

func (c *messages) params(r Request) anthropic.MessageNewParams {
	cached := anthropic.NewCacheControlEphemeralParam()
	p := anthropic.MessageNewParams{
		Model:     c.o.Model,
		MaxTokens: c.output,
		System:    []anthropic.TextBlockParam{{Text: r.System, CacheControl: cached}},
	}
	if c.o.Effort != "" {
		p.OutputConfig.Effort = anthropic.OutputConfigEffort(c.o.Effort)
		p.Thinking.OfAdaptive = &anthropic.ThinkingConfigAdaptiveParam{}
	}
	for i, tool := range r.Tools {
		t := &anthropic.ToolParam{Name: tool.Name, Description: anthropic.String(tool.Description)}
		t.InputSchema = param.Override[anthropic.ToolInputSchemaParam](tool.Parameters)
		if i == len(r.Tools)-1 {
			t.CacheControl = cached
		}
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: t})
	}
	if r.NoCalls { // the tools stay: the API wants those that the conversation speaks of
		p.ToolChoice.OfNone = &anthropic.ToolChoiceNoneParam{}
	}
	for _, m := range r.Messages {
		blocks := messagesBlocks(m)
		if len(blocks) == 0 {
			continue
		}
		role := anthropic.MessageParamRoleUser
		if m.Role == RoleAssistant {
			role = anthropic.MessageParamRoleAssistant
		}
		if last := len(p.Messages) - 1; last >= 0 && p.Messages[last].Role == role {
			p.Messages[last].Content = append(p.Messages[last].Content, blocks...)
			continue
		}
		p.Messages = append(p.Messages, anthropic.MessageParam{Role: role, Content: blocks})
	}
	// The last user's message is where this request's cache ends, the one before where the last one's did:
	// servers look only some blocks back from a mark.
	for i, marks := len(p.Messages)-1, 2; i >= 0 && marks > 0; i-- {
		if p.Messages[i].Role == anthropic.MessageParamRoleUser {
			blocks := p.Messages[i].Content
			*blocks[len(blocks)-1].GetCacheControl() = cached // text and results of tools have one
			marks--
		}
	}
	return p
}

func messagesBlocks(m Message) []anthropic.ContentBlockParamUnion {
	var blocks []anthropic.ContentBlockParamUnion
	switch m.Role {
	case RoleUser:
		blocks = append(blocks, anthropic.NewTextBlock(m.Text))
	case RoleTool:
		for _, result := range m.Results {
			blocks = append(blocks, anthropic.NewToolResultBlock(result.ID, result.Text, result.Status != "ok"))
		}
	case RoleAssistant:
		var sent []json.RawMessage
		_ = json.Unmarshal(m.Opaque, &sent) // always an array: it came from an answer
		for _, block := range sent {
			blocks = append(blocks, param.Override[anthropic.ContentBlockParamUnion](block))
		}
	}
	return blocks
}

// messagesAnswer puts an answer together from its events.
type messagesAnswer struct {
	*exchange
	progress func(string)

	blocks []*messagesBlock
	open   map[int64]*messagesBlock // by index
	stop   anthropic.StopReason
	words  string // why it refused
	input  int64
}

type messagesBlock struct {
	kind, id, name, data     string
	text, thinking, sig, arg strings.Builder
}

// add takes one event, and says whether it was the last.
func (a *messagesAnswer) add(event anthropic.MessageStreamEventUnion) (done bool, err error) {
	switch event.Type {
	case "message_start":
		u := event.Message.Usage
		a.input = u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
	case "content_block_start":
		start := event.ContentBlock
		b := &messagesBlock{kind: start.Type, id: start.ID, name: start.Name, data: start.Data}
		b.text.WriteString(start.Text)
		b.thinking.WriteString(start.Thinking)
		b.sig.WriteString(start.Signature)
		if raw := start.JSON.Input.Raw(); raw != "{}" && raw != "null" { // some send the whole of it here
			b.arg.WriteString(raw)
		}
		a.blocks = append(a.blocks, b)
		a.open[event.Index] = b
		a.progress(start.Text)
		err = a.grow(64 + len(b.id) + len(b.name) + len(b.data) + b.text.Len() + b.thinking.Len() + b.sig.Len() + b.arg.Len())
	case "content_block_delta":
		d := event.Delta
		if err := a.grow(len(d.Text) + len(d.Thinking) + len(d.Signature) + len(d.PartialJSON)); err != nil {
			return false, err
		}
		if b := a.open[event.Index]; b != nil {
			b.text.WriteString(d.Text)
			b.thinking.WriteString(d.Thinking)
			b.sig.WriteString(d.Signature)
			b.arg.WriteString(d.PartialJSON)
		}
		a.progress(d.Text)
	case "message_delta":
		u := event.Usage // of some servers the only one
		a.input = max(a.input, u.InputTokens+u.CacheReadInputTokens+u.CacheCreationInputTokens)
		if event.Delta.StopReason != "" {
			a.stop = event.Delta.StopReason
			a.words = event.Delta.StopDetails.Explanation
			a.settle()
		}
	case "message_stop":
		return a.stop != "", nil
	}
	return false, err
}

func (a *messagesAnswer) answer(r Request) Answer {
	answer := Answer{Message: Message{Role: RoleAssistant}, Stop: StopEnd, Input: a.input}
	var texts []string
	for _, b := range a.blocks {
		switch b.kind {
		case "text":
			texts = append(texts, b.text.String())
		case "tool_use":
			object, malformed := arguments(b.arg.String())
			answer.Calls = append(answer.Calls, Call{ID: b.id, Name: b.name, Arguments: object, Malformed: malformed})
		}
	}
	answer.Text = strings.Join(texts, "")
	answer.Calls = settle(answer.Calls, r)
	switch a.stop {
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		answer.Stop = StopLength
	case anthropic.StopReasonRefusal:
		answer.Stop = StopRefused
		if answer.Text == "" {
			answer.Text = a.words
		}
	}
	answer.Opaque = a.opaque(answer.Calls)
	return answer
}

// opaque is the content that goes back. Blocks of other kinds than these come only from tools that the
// server has, and none was offered.
func (a *messagesAnswer) opaque(calls []Call) json.RawMessage {
	content := []map[string]any{}
	for _, b := range a.blocks {
		switch b.kind {
		case "text":
			if strings.TrimSpace(b.text.String()) != "" { // an empty one is refused
				content = append(content, map[string]any{"type": "text", "text": b.text.String()})
			}
		case "thinking":
			content = append(content, map[string]any{"type": "thinking", "thinking": b.thinking.String(), "signature": b.sig.String()})
		case "redacted_thinking":
			content = append(content, map[string]any{"type": "redacted_thinking", "data": b.data})
		case "tool_use":
			content = append(content, map[string]any{"type": "tool_use", "id": calls[0].ID, "name": calls[0].Name, "input": calls[0].Arguments})
			calls = calls[1:]
		}
	}
	return encode(content)
}
