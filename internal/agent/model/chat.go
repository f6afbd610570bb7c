package model

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

// chat is the client for chat completions, which a hundred servers speak, each with its own accent.
type chat struct {
	service openai.ChatCompletionService
	o       Options
}

func newChat(o Options) *chat {
	return &chat{service: openai.NewChatCompletionService(openaiOptions(o)...), o: o}
}

// openaiOptions leave nothing to the environment: the services of the SDK, unlike its client, do not
// look there.
func openaiOptions(o Options) []option.RequestOption {
	options := []option.RequestOption{
		option.WithBaseURL(o.BaseURL),
		option.WithHTTPClient(httpClient()),
		option.WithMaxRetries(0),
	}
	if o.Token != "" {
		options = append(options, option.WithAPIKey(o.Token))
	}
	return options
}

func (c *chat) Ask(ctx context.Context, r Request, progress func(string)) (Answer, error) {
	requestCtx, e := newExchange(ctx, c.o)
	defer e.close()
	stream := c.service.NewStreaming(requestCtx, c.params(r), option.WithMiddleware(e.middleware))
	defer func() { _ = stream.Close() }()
	a := chatAnswer{exchange: e, progress: progress, last: map[int64]*chatCall{}}
	for stream.Next() {
		if err := a.add(stream.Current()); err != nil {
			return Answer{}, e.failure(ctx, err)
		}
	}
	switch a.finish {
	case "": // whatever came after the reason was not needed
		return Answer{}, e.failure(ctx, stream.Err())
	case "insufficient_system_resource", "network_error": // DeepSeek, GLM
		return Answer{}, &Error{Class: ClassTransient, Message: "the server broke the answer off: " + a.finish}
	}
	return a.answer(r), nil
}

func (c *chat) params(r Request) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model:           c.o.Model,
		Messages:        []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(r.System)},
		StreamOptions:   openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
		ReasoningEffort: shared.ReasoningEffort(c.o.Effort),
	}
	for _, m := range r.Messages {
		switch m.Role {
		case RoleUser:
			p.Messages = append(p.Messages, openai.UserMessage(m.Text))
		case RoleAssistant:
			p.Messages = append(p.Messages, chatAssistant(m))
		case RoleTool:
			for _, result := range m.Results {
				p.Messages = append(p.Messages, openai.ToolMessage(result.Text, result.ID))
			}
		}
	}
	if r.NoCalls { // "tool_choice": "none" is not known everywhere
		return p
	}
	for _, tool := range r.Tools {
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: tool.Name, Description: openai.String(tool.Description), Parameters: schema(tool),
		}))
	}
	return p
}

// schema is the schema of a tool's parameters, with the order of its properties kept.
func schema(t Tool) map[string]any {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(t.Parameters, &keys) // what is none of ours has been checked by its tests
	object := map[string]any{}
	for key, value := range keys {
		object[key] = value
	}
	return object
}

// chatOpaque is what servers add to the format and want back: DeepSeek, Kimi, GLM and Qwen
// reasoning_content, OpenRouter and MiniMax reasoning and reasoning_details, Gemini an extra_content
// with each call.
type chatOpaque struct {
	Fields map[string]json.RawMessage   `json:"fields,omitempty"`
	Calls  []map[string]json.RawMessage `json:"calls,omitempty"` // as many as the message has, or none
}

var (
	chatFields = []string{"reasoning_content", "reasoning", "reasoning_details"}
	callFields = []string{"extra_content"}
)

func chatAssistant(m Message) openai.ChatCompletionMessageParamUnion {
	var opaque chatOpaque
	_ = json.Unmarshal(m.Opaque, &opaque) // of an older form: the server does without
	message := &openai.ChatCompletionAssistantMessageParam{}
	if m.Text != "" || len(m.Calls) == 0 {
		message.Content.OfString = openai.String(m.Text)
	}
	for i, call := range m.Calls {
		p := openai.ChatCompletionMessageFunctionToolCallParam{
			ID: call.ID,
			Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
				Name: call.Name, Arguments: string(call.Arguments),
			},
		}
		if i < len(opaque.Calls) {
			p.SetExtraFields(extra(opaque.Calls[i], callFields))
		}
		message.ToolCalls = append(message.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &p})
	}
	message.SetExtraFields(extra(opaque.Fields, chatFields))
	return openai.ChatCompletionMessageParamUnion{OfAssistant: message}
}

// extra picks the fields that may be sent; the rest of an opaque value could overrule the message.
func extra(fields map[string]json.RawMessage, names []string) map[string]any {
	picked := map[string]any{}
	for _, name := range names {
		if value, ok := fields[name]; ok {
			picked[name] = value
		}
	}
	return picked
}

// chatAnswer puts an answer together from its chunks.
type chatAnswer struct {
	*exchange
	progress func(string)

	text, refusal strings.Builder
	reasoning     map[string]*strings.Builder // by field
	details       []json.RawMessage           // pieces of reasoning_details
	calls         []*chatCall
	last          map[int64]*chatCall // by index
	finish        string
	input         int64
}

type chatCall struct {
	id, name string
	args     strings.Builder
	extra    map[string]json.RawMessage
}

func (c *chatCall) complete() bool {
	args := c.args.String()
	return strings.HasSuffix(args, "}") && json.Valid([]byte(args))
}

func (a *chatAnswer) add(chunk openai.ChatCompletionChunk) error {
	if n := chunk.Usage.PromptTokens; n > 0 {
		a.input = n
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		if err := a.delta(choice.Delta); err != nil {
			return err
		}
		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
			a.settle()
		}
	}
	return nil
}

func (a *chatAnswer) delta(d openai.ChatCompletionChunkChoiceDelta) error {
	if err := a.grow(len(d.Content) + len(d.Refusal)); err != nil {
		return err
	}
	a.text.WriteString(d.Content)
	a.refusal.WriteString(d.Refusal)
	for _, name := range chatFields {
		field, sent := d.JSON.ExtraFields[name]
		if !sent || field.Raw() == "null" {
			continue
		}
		if err := a.grow(len(field.Raw())); err != nil {
			return err
		}
		a.reason(name, []byte(field.Raw()))
	}
	for _, call := range d.ToolCalls {
		if err := a.call(call); err != nil {
			return err
		}
	}
	a.progress(d.Content)
	return nil
}

// reason adds a piece of reasoning: text, or elements of an array.
func (a *chatAnswer) reason(name string, raw []byte) {
	var text string
	var elements []json.RawMessage
	switch {
	case json.Unmarshal(raw, &text) == nil:
		if a.reasoning == nil {
			a.reasoning = map[string]*strings.Builder{}
		}
		if a.reasoning[name] == nil {
			a.reasoning[name] = &strings.Builder{}
		}
		_, _ = a.reasoning[name].WriteString(text) // never fails
	case json.Unmarshal(raw, &elements) == nil:
		a.details = append(a.details, elements...)
	}
}

// call adds a piece of a call. Its index says which one it belongs to; servers that number all calls 0
// are told by a second id, or a second name after arguments that are complete.
func (a *chatAnswer) call(d openai.ChatCompletionChunkChoiceDeltaToolCall) error {
	if err := a.grow(len(d.ID) + len(d.Function.Name) + len(d.Function.Arguments) + 64); err != nil {
		return err
	}
	c := a.last[d.Index]
	another := c == nil ||
		d.ID != "" && c.id != "" && d.ID != c.id ||
		d.ID == "" && d.Function.Name != "" && c.name != "" && c.complete()
	if another {
		c = &chatCall{}
		a.calls = append(a.calls, c)
		a.last[d.Index] = c
	}
	c.id = cmp.Or(c.id, d.ID)
	if d.Function.Name != c.name { // some repeat it with each piece
		c.name += d.Function.Name
	}
	c.args.WriteString(d.Function.Arguments)
	for _, name := range callFields {
		field, sent := d.JSON.ExtraFields[name]
		if !sent || field.Raw() == "null" {
			continue
		}
		if err := a.grow(len(field.Raw())); err != nil {
			return err
		}
		if c.extra == nil {
			c.extra = map[string]json.RawMessage{}
		}
		c.extra[name] = json.RawMessage(field.Raw())
	}
	return nil
}

func (a *chatAnswer) answer(r Request) Answer {
	answer := Answer{Message: Message{Role: RoleAssistant, Text: a.text.String()}, Stop: StopEnd, Input: a.input}
	switch a.finish {
	case "length", "model_context_window_exceeded":
		answer.Stop = StopLength
	case "content_filter", "sensitive":
		answer.Stop = StopRefused
	}
	if a.refusal.Len() > 0 {
		answer.Stop, answer.Text = StopRefused, a.refusal.String()
	}
	opaque := chatOpaque{Fields: map[string]json.RawMessage{}}
	for name, text := range a.reasoning {
		opaque.Fields[name] = encode(text.String())
	}
	if len(a.details) > 0 {
		opaque.Fields["reasoning_details"] = encode(a.details)
	}
	extras := false
	for _, c := range a.calls {
		object, malformed := arguments(c.args.String())
		answer.Calls = append(answer.Calls, Call{ID: c.id, Name: c.name, Arguments: object, Malformed: malformed})
		opaque.Calls = append(opaque.Calls, c.extra)
		extras = extras || c.extra != nil
	}
	if !extras {
		opaque.Calls = nil
	}
	if extras || len(opaque.Fields) > 0 {
		answer.Opaque = encode(opaque)
	}
	answer.Calls = settle(answer.Calls, r)
	return answer
}

// encode is the JSON of what has a JSON.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only strings and JSON itself are encoded here
	}
	return data
}
