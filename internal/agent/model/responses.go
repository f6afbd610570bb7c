package model

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	resp "github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// responses is the client for OpenAI responses. The server stores nothing: reasoning comes encrypted,
// and each output item is sent back as it came.
type responses struct {
	service resp.ResponseService
	o       Options
	plain   bool // this model does not reason, and refuses to be asked for its reasoning
}

func newResponses(o Options) *responses {
	return &responses{service: resp.NewResponseService(openaiOptions(o)...), o: o}
}

func (c *responses) Ask(ctx context.Context, r Request, progress func(string)) (Answer, error) {
	answer, err := c.ask(ctx, r, progress)
	if e, ok := errors.AsType[*Error](err); ok && !c.plain && strings.Contains(e.Message, "ncrypted content is not supported") {
		c.plain = true
		return c.ask(ctx, r, progress)
	}
	return answer, err
}

func (c *responses) ask(ctx context.Context, r Request, progress func(string)) (Answer, error) {
	requestCtx, e := newExchange(ctx, c.o)
	defer e.close()
	stream := c.service.NewStreaming(requestCtx, c.params(r), option.WithMiddleware(e.middleware))
	defer func() { _ = stream.Close() }()
	var items []json.RawMessage
	held := 0      // bytes of items, which may come without pieces; together they fit into the last event
	heard := false // whether the text came in pieces, too
	for stream.Next() {
		event := stream.Current()
		if err := e.grow(len(event.Delta)); err != nil {
			return Answer{}, e.failure(ctx, err)
		}
		switch event.Type {
		case "response.output_text.delta":
			heard = true
			progress(event.Delta)
		case "response.output_item.done":
			item := event.Item.RawJSON()
			if held += len(item); held > maxLine {
				return Answer{}, e.failure(ctx, errTooBig)
			}
			items = append(items, json.RawMessage(item))
		case "response.completed", "response.incomplete":
			if n := len(event.Response.Output); n > 0 { // complete, which the single items need not be
				items = make([]json.RawMessage, 0, n)
				for _, item := range event.Response.Output {
					items = append(items, json.RawMessage(item.RawJSON()))
				}
			}
			answer := responsesAnswer(items, event.Response, r)
			if !heard {
				progress(answer.Text)
			}
			return answer, nil
		case "error", "response.failed":
			return Answer{}, classify(0, []byte(event.RawJSON()))
		default:
			progress("")
		}
	}
	return Answer{}, e.failure(ctx, stream.Err())
}

func (c *responses) params(r Request) resp.ResponseNewParams {
	p := resp.ResponseNewParams{
		Model:        c.o.Model,
		Instructions: openai.String(r.System),
		Store:        openai.Bool(false),
		Reasoning:    shared.ReasoningParam{Effort: shared.ReasoningEffort(c.o.Effort)},
	}
	if c.o.Session != "" {
		p.PromptCacheKey = openai.String(c.o.Session)
	}
	if !c.plain {
		p.Include = []resp.ResponseIncludable{resp.ResponseIncludableReasoningEncryptedContent}
	}
	for _, m := range r.Messages {
		p.Input.OfInputItemList = append(p.Input.OfInputItemList, responsesInput(m)...)
	}
	for _, tool := range r.Tools {
		p.Tools = append(p.Tools, resp.ToolUnionParam{OfFunction: &resp.FunctionToolParam{
			Name: tool.Name, Description: openai.String(tool.Description), Parameters: schema(tool), Strict: openai.Bool(false),
		}})
	}
	if r.NoCalls {
		p.ToolChoice.OfToolChoiceMode = param.NewOpt(resp.ToolChoiceOptionsNone)
	}
	return p
}

func responsesInput(m Message) []resp.ResponseInputItemUnionParam {
	var items []resp.ResponseInputItemUnionParam
	switch m.Role {
	case RoleUser:
		item := resp.ResponseInputItemParamOfMessage(m.Text, resp.EasyInputMessageRoleUser)
		item.OfMessage.Type = resp.EasyInputMessageTypeMessage // not every server knows the short form
		items = append(items, item)
	case RoleTool:
		for _, result := range m.Results {
			item := resp.ResponseInputItemParamOfFunctionCallOutput(result.Text)
			item.OfFunctionCallOutput.CallID = openai.String(result.ID)
			items = append(items, item)
		}
	case RoleAssistant:
		var sent []json.RawMessage
		_ = json.Unmarshal(m.Opaque, &sent) // always an array: it came from an answer
		for _, item := range sent {
			items = append(items, param.Override[resp.ResponseInputItemUnionParam](item))
		}
	}
	return items
}

// responsesItem is what is read of an output item.
type responsesItem struct {
	Type      string          `json:"type"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Content   []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
}

func responsesAnswer(items []json.RawMessage, end resp.Response, r Request) Answer {
	answer := Answer{Message: Message{Role: RoleAssistant}, Stop: StopEnd, Input: end.Usage.InputTokens}
	switch end.IncompleteDetails.Reason {
	case "max_output_tokens":
		answer.Stop = StopLength
	case "content_filter":
		answer.Stop = StopRefused
	}
	var texts []string
	var calls []int // of items, which item each call is
	kept := slices.DeleteFunc(items, func(raw json.RawMessage) bool {
		var item responsesItem
		return json.Unmarshal(raw, &item) != nil
	})
	for i, raw := range kept {
		var item responsesItem
		_ = json.Unmarshal(raw, &item)
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				if part.Refusal != "" {
					answer.Stop = StopRefused
				}
				texts = append(texts, cmp.Or(part.Text, part.Refusal))
			}
		case "function_call":
			text := string(item.Arguments)
			_ = json.Unmarshal(item.Arguments, &text) // a string with JSON in it; of some servers the object itself
			object, malformed := arguments(text)
			answer.Calls = append(answer.Calls, Call{ID: item.CallID, Name: item.Name, Arguments: object, Malformed: malformed})
			calls = append(calls, i)
		}
	}
	answer.Text = strings.Join(texts, "\n")
	answer.Calls = settle(answer.Calls, r)
	for i, call := range answer.Calls {
		kept[calls[i]] = mended(kept[calls[i]], call)
	}
	answer.Opaque = encode(kept)
	return answer
}

// mended is the item of a call with what the call was given or rid of.
func mended(raw json.RawMessage, c Call) json.RawMessage {
	var item map[string]json.RawMessage
	_ = json.Unmarshal(raw, &item) // it was an object a moment ago
	item["call_id"], item["name"], item["arguments"] = encode(c.ID), encode(c.Name), encode(string(c.Arguments))
	return encode(item)
}
