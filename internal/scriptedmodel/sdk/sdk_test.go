// Package sdk_test holds the scripted model to what the vendors' own clients understand. It is a package of
// its own because they take long to compile.
package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	aoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"go.uber.org/goleak"

	"github.com/git-spot/git-spot/internal/scriptedmodel"
)

// said is an answer as an official SDK understands it.
type said struct {
	Model, Text, Reasoning, Refusal, Stop string
	Calls                                 []called
	Usage                                 scriptedmodel.Usage
}

type called struct{ Name, Args string }

// talk is a conversation of an official SDK with a server: the SDK builds every request from the
// answers before, and the server refuses what is wrong with it.
type talk interface {
	// turn sends the prompt, or at a later turn the results of the calls before.
	turn(ctx context.Context) (said, error)
}

const (
	key    = "per-run-token"
	prompt = "Correct the greeting."
)

var parameters = map[string]any{
	"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}},
}

func talks(s *scriptedmodel.Server, stream bool) map[string]talk {
	client := openai.NewClient(
		option.WithBaseURL(s.BaseURL(scriptedmodel.Chat)), option.WithAPIKey(key), option.WithMaxRetries(0))
	return map[string]talk{
		scriptedmodel.Chat: &chat{stream: stream, client: client, params: openai.ChatCompletionNewParams{
			Model:         "m",
			Messages:      []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief."), openai.UserMessage(prompt)},
			StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
			Tools: []openai.ChatCompletionToolUnionParam{
				openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "read", Parameters: parameters}),
			},
		}},
		scriptedmodel.Responses: &response{stream: stream, client: client, params: responses.ResponseNewParams{
			Model: "m",
			Store: openai.Bool(false),
			Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
				responses.ResponseInputItemParamOfMessage(prompt, responses.EasyInputMessageRoleUser),
			}},
			Tools: []responses.ToolUnionParam{responses.ToolParamOfFunction("read", parameters, false)},
		}},
		scriptedmodel.Messages: &message{
			stream: stream,
			client: anthropic.NewClient(
				aoption.WithBaseURL(s.BaseURL(scriptedmodel.Messages)), aoption.WithAPIKey(key), aoption.WithMaxRetries(0)),
			params: anthropic.MessageNewParams{
				Model: "m", MaxTokens: 1000,
				Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))},
				Tools: []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
					Name: "read", InputSchema: anthropic.ToolInputSchemaParam{Properties: parameters["properties"]},
				}}},
			},
		},
	}
}

type chat struct {
	stream bool
	client openai.Client
	params openai.ChatCompletionNewParams
}

func (c *chat) turn(ctx context.Context) (said, error) {
	var got openai.ChatCompletion
	var usage openai.CompletionUsage
	var reasoning strings.Builder
	if c.stream {
		stream := c.client.Chat.Completions.NewStreaming(ctx, c.params)
		var acc openai.ChatCompletionAccumulator
		for stream.Next() {
			chunk := stream.Current()
			if !acc.AddChunk(chunk) {
				return said{}, errors.New("a chunk cannot be added")
			}
			usage = chunk.Usage // the accumulator leaves out what was written to the cache
			for _, choice := range chunk.Choices {
				_ = json.Unmarshal([]byte(choice.Delta.JSON.ExtraFields["reasoning_content"].Raw()), appendTo(&reasoning))
			}
		}
		if err := stream.Err(); err != nil {
			return said{}, err
		}
		got = acc.ChatCompletion
		got.Usage = usage
	} else {
		params := c.params
		params.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
		whole, err := c.client.Chat.Completions.New(ctx, params)
		if err != nil {
			return said{}, err
		}
		got = *whole
		for _, choice := range whole.Choices {
			_ = json.Unmarshal([]byte(choice.Message.JSON.ExtraFields["reasoning_content"].Raw()), appendTo(&reasoning))
		}
	}
	if len(got.Choices) != 1 {
		return said{}, fmt.Errorf("%d choices", len(got.Choices))
	}
	m, u := got.Choices[0].Message, got.Usage
	out := said{
		Model: got.Model, Text: m.Content, Reasoning: reasoning.String(), Refusal: m.Refusal, Stop: got.Choices[0].FinishReason,
		Usage: scriptedmodel.Usage{
			Input:     u.PromptTokens - u.PromptTokensDetails.CachedTokens - u.PromptTokensDetails.CacheWriteTokens,
			CacheRead: u.PromptTokensDetails.CachedTokens, CacheWrite: u.PromptTokensDetails.CacheWriteTokens,
			Output: u.CompletionTokens, Reasoning: u.CompletionTokensDetails.ReasoningTokens,
		},
	}
	own := m.ToParam()
	if out.Reasoning != "" {
		own.OfAssistant.SetExtraFields(map[string]any{"reasoning_content": out.Reasoning})
	}
	c.params.Messages = append(c.params.Messages, own)
	for _, call := range m.ToolCalls {
		out.Calls = append(out.Calls, called{call.Function.Name, call.Function.Arguments})
		c.params.Messages = append(c.params.Messages, openai.ToolMessage("a result", call.ID))
	}
	if len(m.ToolCalls) == 0 {
		c.params.Messages = append(c.params.Messages, openai.UserMessage("Go on."))
	}
	return out, nil
}

// appendTo appends the JSON string that is decoded into it.
func appendTo(b *strings.Builder) json.Unmarshaler { return (*appender)(b) }

type appender strings.Builder

func (a *appender) UnmarshalJSON(data []byte) error {
	var s string
	err := json.Unmarshal(data, &s)
	(*strings.Builder)(a).WriteString(s)
	return err
}

type response struct {
	stream bool
	client openai.Client
	params responses.ResponseNewParams
}

func (c *response) turn(ctx context.Context) (said, error) {
	var got responses.Response
	var text, args strings.Builder // as streamed
	if c.stream {
		stream := c.client.Responses.NewStreaming(ctx, c.params)
		next := int64(0)
		for stream.Next() {
			e := stream.Current()
			if e.SequenceNumber != next && e.Type != "response.failed" {
				return said{}, fmt.Errorf("%s has number %d, want %d", e.Type, e.SequenceNumber, next)
			}
			next++
			switch e.Type {
			case "response.output_text.delta", "response.refusal.delta":
				text.WriteString(e.Delta)
			case "response.function_call_arguments.delta":
				args.WriteString(e.Delta)
			case "response.completed", "response.incomplete":
				got = e.Response
			case "response.failed":
				return said{}, fmt.Errorf("failed: %s: %s", e.Response.Error.Code, e.Response.Error.Message)
			}
		}
		if err := stream.Err(); err != nil {
			return said{}, err
		}
		if got.ID == "" {
			return said{}, errors.New("the stream ended too soon")
		}
	} else {
		whole, err := c.client.Responses.New(ctx, c.params)
		if err != nil {
			return said{}, err
		}
		got = *whole
	}
	u := got.Usage
	out := said{Model: got.Model, Text: got.OutputText(), Stop: string(got.Status), Usage: scriptedmodel.Usage{
		Input:     u.InputTokens - u.InputTokensDetails.CachedTokens - u.InputTokensDetails.CacheWriteTokens,
		CacheRead: u.InputTokensDetails.CachedTokens, CacheWrite: u.InputTokensDetails.CacheWriteTokens,
		Output: u.OutputTokens, Reasoning: u.OutputTokensDetails.ReasoningTokens,
	}}
	input := &c.params.Input.OfInputItemList
	var outputs responses.ResponseInputParam
	streamed := ""
	for _, item := range got.Output {
		switch item := item.AsAny().(type) {
		case responses.ResponseReasoningItem:
			out.Reasoning += item.Summary[0].Text
			p := item.ToParam()
			*input = append(*input, responses.ResponseInputItemUnionParam{OfReasoning: &p})
		case responses.ResponseOutputMessage:
			out.Refusal += item.Content[0].Refusal
			p := item.ToParam()
			*input = append(*input, responses.ResponseInputItemUnionParam{OfOutputMessage: &p})
		case responses.ResponseFunctionToolCall:
			out.Calls = append(out.Calls, called{item.Name, item.Arguments})
			streamed += item.Arguments
			p := item.ToParam()
			*input = append(*input, responses.ResponseInputItemUnionParam{OfFunctionCall: &p})
			output := responses.ResponseInputItemParamOfFunctionCallOutput("a result")
			output.OfFunctionCallOutput.CallID = openai.String(item.CallID)
			outputs = append(outputs, output)
		}
	}
	if c.stream && (text.String() != out.Text+out.Refusal || args.String() != streamed) {
		return said{}, fmt.Errorf("what was streamed differs from what is complete: %q, %q", text.String(), args.String())
	}
	if outputs == nil {
		outputs = responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage("Go on.", responses.EasyInputMessageRoleUser)}
	}
	*input = append(*input, outputs...)
	return out, nil
}

type message struct {
	stream bool
	client anthropic.Client
	params anthropic.MessageNewParams
}

func (c *message) turn(ctx context.Context) (said, error) {
	var got anthropic.Message
	if c.stream {
		stream := c.client.Messages.NewStreaming(ctx, c.params)
		for stream.Next() {
			if err := got.Accumulate(stream.Current()); err != nil {
				return said{}, err
			}
		}
		if err := stream.Err(); err != nil {
			return said{}, err
		}
		if got.StopReason == "" {
			return said{}, errors.New("the stream ended too soon")
		}
	} else {
		whole, err := c.client.Messages.New(ctx, c.params)
		if err != nil {
			return said{}, err
		}
		got = *whole
	}
	u := got.Usage
	out := said{Model: got.Model, Stop: string(got.StopReason), Usage: scriptedmodel.Usage{
		Input: u.InputTokens, CacheRead: u.CacheReadInputTokens, CacheWrite: u.CacheCreationInputTokens,
		Output: u.OutputTokens, Reasoning: u.OutputTokensDetails.ThinkingTokens,
	}}
	var results []anthropic.ContentBlockParamUnion
	for _, b := range got.Content {
		switch b := b.AsAny().(type) {
		case anthropic.TextBlock:
			out.Text += b.Text
		case anthropic.ThinkingBlock:
			out.Reasoning += b.Thinking
		case anthropic.ToolUseBlock:
			out.Calls = append(out.Calls, called{b.Name, string(b.Input)})
			results = append(results, anthropic.NewToolResultBlock(b.ID, "a result", false))
		}
	}
	if out.Stop == "refusal" {
		out.Refusal, out.Text = out.Text, ""
	}
	if results == nil {
		results = append(results, anthropic.NewTextBlock("Go on."))
	}
	c.params.Messages = append(c.params.Messages, got.ToParam(), anthropic.NewUserMessage(results...))
	return out, nil
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withSDKs runs f for each wire format, streaming and not, against a server of its own.
func withSDKs(t *testing.T, script scriptedmodel.Script, f func(t *testing.T, s *scriptedmodel.Server, api string, k talk)) {
	t.Helper()
	for _, api := range []string{scriptedmodel.Chat, scriptedmodel.Responses, scriptedmodel.Messages} {
		for stream, mode := range map[bool]string{true: "stream", false: "whole"} {
			t.Run(api+"/"+mode, func(t *testing.T) {
				t.Parallel()
				s, err := scriptedmodel.Start(t.Context(), scriptedmodel.Options{Script: script, Key: key})
				if err != nil {
					t.Fatal(err)
				}
				f(t, s, api, talks(s, stream)[api])
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// The official SDKs understand every answer, and the server takes back what they make of it.
func TestSDKsFollowAScript(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Größe ✓ <b>&amp;</b>\n", 200)
	usage := &scriptedmodel.Usage{Input: 700, CacheRead: 200, CacheWrite: 30, Output: 50, Reasoning: 7}
	script := scriptedmodel.Script{Steps: []scriptedmodel.Step{
		{
			Text: "I look.", Reasoning: "First the files.", Usage: usage,
			Calls: []scriptedmodel.Call{
				{Tool: "read", Args: json.RawMessage(`{"path":"a.txt"}`)},
				{Tool: "read", Args: json.RawMessage(`{"path":"b/é.txt"}`)},
				{Tool: "nothing like it"},
			},
		},
		{Calls: []scriptedmodel.Call{{Tool: "read", Args: json.RawMessage(`{"path":"` + strings.Repeat("x", 100_000) + `"}`)}}},
		{Text: long, Model: "another"},
		{Text: "I may not.", Stop: scriptedmodel.StopRefusal},
		{Text: "Once upon a", Stop: scriptedmodel.StopLength, Usage: &scriptedmodel.Usage{}},
	}}
	stops := map[string][]string{
		scriptedmodel.Chat:      {"tool_calls", "tool_calls", "stop", "stop", "length", "stop"},
		scriptedmodel.Responses: {"completed", "completed", "completed", "completed", "incomplete", "completed"},
		scriptedmodel.Messages:  {"tool_use", "tool_use", "end_turn", "refusal", "max_tokens", "end_turn"},
	}
	withSDKs(t, script, func(t *testing.T, s *scriptedmodel.Server, api string, k talk) {
		want := []said{
			{
				Model: "m", Text: "I look.", Reasoning: "First the files.", Usage: *usage,
				Calls: []called{{"read", `{"path":"a.txt"}`}, {"read", `{"path":"b/é.txt"}`}, {"nothing like it", "{}"}},
			},
			{Model: "m", Calls: []called{{"read", `{"path":"` + strings.Repeat("x", 100_000) + `"}`}}},
			{Model: "another", Text: long},
			{Model: "m", Refusal: "I may not."},
			{Model: "m", Text: "Once upon a"},
			{Model: "m", Text: "done"},
		}
		var sum scriptedmodel.Usage
		for i, want := range want {
			got, err := k.turn(t.Context())
			if err != nil {
				t.Fatalf("turn %d: %v", i, err)
			}
			want.Stop = stops[api][i]
			sum.Input += got.Usage.Input
			sum.CacheRead += got.Usage.CacheRead
			sum.CacheWrite += got.Usage.CacheWrite
			sum.Output += got.Usage.Output
			sum.Reasoning += got.Usage.Reasoning
			if i > 0 {
				if i != 4 && (got.Usage.Input == 0 || got.Usage.Output == 0) {
					t.Errorf("turn %d: no usage was made up", i)
				}
				got.Usage = scriptedmodel.Usage{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("turn %d: %s", i, diff)
			}
		}
		if got := s.Usage(); got != sum {
			t.Errorf("the server counted %+v, the client %+v", got, sum)
		}
		requests := s.Requests()
		if len(requests) != len(want) {
			t.Errorf("%d requests, want %d", len(requests), len(want))
		}
		for _, r := range requests {
			if r.API != api || r.Header.Get("Content-Type") == "" || !json.Valid(r.Body) {
				t.Errorf("got a request %s %s %v", r.API, r.Path, r.Header)
			}
		}
	})
}

// status is that of the HTTP error that an SDK returned, with the words for it, or 0.
func status(err error) (code int, words string, header http.Header) {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e.StatusCode, e.Type + " " + e.Code + " " + e.Message, e.Response.Header
	}
	if e, ok := errors.AsType[*anthropic.Error](err); ok {
		return e.StatusCode, string(e.Type()) + " " + e.RawJSON(), e.Response.Header
	}
	return 0, "", nil
}

// A request that failed is repeated by the client, and then gets the answer that was due.
func TestSDKsSeeErrors(t *testing.T) {
	t.Parallel()
	script := scriptedmodel.Script{Steps: []scriptedmodel.Step{
		{Status: 401},
		{Status: 429, RetryAfter: "7"},
		{Status: 429, Error: "insufficient_quota", Text: "You have no money."},
		{Status: 500, Times: 2},
		{Status: 400, Error: "context_length_exceeded", Text: "prompt is too long: too much"},
		{Status: 404, Text: "no such model"},
		{Text: "at last"},
		{Status: 529},
	}}
	words := map[string][]string{
		scriptedmodel.Chat: {
			"invalid_api_key", "rate_limit_exceeded", "insufficient_quota insufficient_quota You have no money.", "server_error", "server_error",
			"invalid_request_error context_length_exceeded", "model_not_found no such model", "", "server_error",
		},
		scriptedmodel.Messages: {
			"authentication_error", "rate_limit_error", "billing_error", "api_error", "api_error",
			"prompt is too long", "not_found_error", "", "overloaded_error",
		},
	}
	words[scriptedmodel.Responses] = words[scriptedmodel.Chat]
	withSDKs(t, script, func(t *testing.T, s *scriptedmodel.Server, api string, k talk) {
		for i, want := range []int{401, 429, 429, 500, 500, 400, 404, 0, 529} {
			_, err := k.turn(t.Context())
			got, says, header := status(err)
			if got != want || !strings.Contains(says, words[api][i]) || (err == nil) != (want == 0) {
				t.Errorf("request %d: got %d %q (%v), want %d %q", i, got, says, err, want, words[api][i])
			}
			if retry := header.Get("Retry-After"); (retry == "7") != (i == 1) {
				t.Errorf("request %d: retry-after is %q", i, retry)
			}
		}
		if got, err := k.turn(t.Context()); err != nil || got.Text != "done" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}
