package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/git-spot/git-spot/internal/agent/model"
)

// server answers each request with the next of its streams, and keeps what it was asked.
type server struct {
	*httptest.Server
	bodies  []map[string]any
	headers []http.Header
}

func playing(t *testing.T, answers ...string) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var body map[string]any
		if err = errors.Join(err, json.Unmarshal(data, &body)); err != nil {
			t.Errorf("request: %v", err)
		}
		s.bodies, s.headers = append(s.bodies, body), append(s.headers, r.Header)
		answer := answers[min(len(s.bodies), len(answers))-1]
		if status, body, found := strings.Cut(answer, "|"); found && len(status) == 3 {
			code := 0
			_, _ = fmt.Sscan(status, &code)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) client(t *testing.T, api string, change ...func(*model.Options)) model.Client {
	t.Helper()
	o := model.Options{API: api, BaseURL: s.URL + "/v1", Token: "token", Model: "m", Now: time.Now}
	if api == model.APIMessages {
		o.BaseURL = s.URL
	}
	for _, c := range change {
		c(&o)
	}
	client, err := model.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func ask(t *testing.T, c model.Client, messages ...model.Message) (model.Answer, string, error) {
	t.Helper()
	var heard strings.Builder
	if len(messages) == 0 {
		messages = []model.Message{{Role: model.RoleUser, Text: "do it"}}
	}
	answer, err := c.Ask(t.Context(), model.Request{
		System: "be good", Messages: messages,
		Tools: []model.Tool{{Name: "read", Description: "reads", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}},
	}, func(text string) { heard.WriteString(text) })
	return answer, heard.String(), err
}

// data makes a stream of events without names.
func data(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		fmt.Fprintf(&b, "data: %s\n\n", c)
	}
	return b.String()
}

// delta is a chunk of chat completions.
func delta(delta, finish string) string {
	if finish == "" {
		finish = "null"
	}
	return fmt.Sprintf(`{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`, delta, finish)
}

// events makes a stream of events with names, which their type says.
func events(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		var e struct{ Type string }
		_ = json.Unmarshal([]byte(c), &e)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e.Type, c)
	}
	return b.String()
}

func calls(pairs ...string) []model.Call {
	var c []model.Call
	for i := 0; i < len(pairs); i += 3 {
		c = append(c, model.Call{ID: pairs[i], Name: pairs[i+1], Arguments: json.RawMessage(pairs[i+2])})
	}
	return c
}

const done = "[DONE]"

// TestStreams holds how answers are put together, accent by accent.
func TestStreams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, api, stream string
		want              model.Answer // Opaque is not compared
	}{
		{
			name: "text and calls with interleaved indexes and fragments", api: model.APIChat,
			stream: data(
				delta(`{"role":"assistant","content":"I lo"}`, ""), delta(`{"content":"ok"}`, ""),
				delta(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"read","arguments":""}}]}`, ""),
				delta(`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"ls","arguments":"{\"pa"}}]}`, ""),
				delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}`, ""),
				delta(`{"tool_calls":[{"index":1,"function":{"arguments":"th\":\"b\"}"}},{"index":0,"function":{"arguments":"\"a\"}"}}]}`, ""),
				delta(`{}`, `"tool_calls"`),
				`{"choices":[],"usage":{"prompt_tokens":123,"completion_tokens":4,"total_tokens":127}}`, done),
			want: model.Answer{Message: model.Message{Text: "I look", Calls: calls("a", "read", `{"path":"a"}`, "b", "ls", `{"path":"b"}`)}, Input: 123},
		},
		{
			name: "every call with index 0, ids that differ", api: model.APIChat,
			stream: data(
				delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]}`, ""),
				delta(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"read","arguments":"{\"path\":\"b\"}"}}]}`, `"stop"`), done),
			want: model.Answer{Message: model.Message{Calls: calls("a", "read", `{"path":"a"}`, "b", "read", `{"path":"b"}`)}},
		},
		{
			name: "no ids, no indexes", api: model.APIChat,
			stream: data(
				delta(`{"tool_calls":[{"function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]}`, ""),
				delta(`{"tool_calls":[{"function":{"name":"read","arguments":"{\"path\":\"b\"}"}}]}`, ""),
				delta(`{}`, `"tool_calls"`)),
			want: model.Answer{Message: model.Message{Calls: calls("call_1_0", "read", `{"path":"a"}`, "call_1_1", "read", `{"path":"b"}`)}},
		},
		{
			name: "the same id twice, the name with each piece", api: model.APIChat,
			stream: data(
				delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"path\""}}]}`, ""),
				delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":":\"a\"}"}}]}`, ""),
				delta(`{"tool_calls":[{"index":1,"id":"a","function":{"name":"ls","arguments":""}}]}`, `"tool_calls"`), done),
			want: model.Answer{Message: model.Message{Calls: calls("a", "read", `{"path":"a"}`, "call_1_1", "ls", `{}`)}},
		},
		{
			name: "arguments of every kind", api: model.APIChat,
			stream: data(
				delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"a","arguments":""}},{"index":1,"id":"b","function":{"name":"b","arguments":"null"}},{"index":2,"id":"c","function":{"name":"c","arguments":"\"{\\\"x\\\":1}\""}},{"index":3,"id":"d","function":{"name":"","arguments":" {\"x\":2} "}}]}`, `"tool_calls"`), done),
			want: model.Answer{Message: model.Message{Calls: calls("a", "a", `{}`, "b", "b", `{}`, "c", "c", `{"x":1}`, "d", "unknown", `{"x":2}`)}},
		},
		{
			name: "arguments that are no object", api: model.APIChat,
			stream: data(delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"path\": oops"}}]}`, `"tool_calls"`), done),
			want:   model.Answer{Message: model.Message{Calls: []model.Call{{ID: "a", Name: "read", Arguments: json.RawMessage("{}"), Malformed: `{"path": oops`}}}},
		},
		{
			name: "an unknown reason, another choice, comments", api: model.APIChat,
			stream: ": OPENROUTER PROCESSING\n\n" + data(`{"choices":[{"index":1,"delta":{"content":"not this"},"finish_reason":"stop"}]}`, delta(`{"content":"yes"}`, `"eos"`), done),
			want:   model.Answer{Message: model.Message{Text: "yes"}},
		},
		{
			name: "cut", api: model.APIChat,
			stream: data(delta(`{"content":"and"}`, `"length"`), done),
			want:   model.Answer{Message: model.Message{Text: "and"}, Stop: model.StopLength},
		},
		{
			name: "filtered", api: model.APIChat,
			stream: data(delta(`{"content":""}`, `"content_filter"`), done),
			want:   model.Answer{Stop: model.StopRefused},
		},
		{
			name: "refused", api: model.APIChat,
			stream: data(delta(`{"refusal":"I won't"}`, `"stop"`), done),
			want:   model.Answer{Message: model.Message{Text: "I won't"}, Stop: model.StopRefused},
		},
		{
			name: "empty", api: model.APIChat,
			stream: data(delta(`{}`, `"stop"`), done),
		},
		{
			name: "broken off after the end", api: model.APIChat,
			stream: data(delta(`{"content":"yes"}`, `"stop"`), `{"choices":`),
			want:   model.Answer{Message: model.Message{Text: "yes"}},
		},
		{
			name: "text, reasoning and a call", api: model.APIResponses,
			stream: events(
				`{"type":"response.created","response":{"id":"r","status":"in_progress","output":[],"error":null}}`,
				`{"type":"response.output_text.delta","delta":"I look","output_index":1}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"e"}}`,
				`{"type":"response.completed","response":{"id":"r","status":"completed","error":null,"output":[{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"e"},{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I look","annotations":[]}]},{"type":"function_call","id":"f","call_id":"c","name":"read","arguments":"{\"path\":\"a\"}","status":"completed"}],"usage":{"input_tokens":50,"output_tokens":7,"total_tokens":57}}}`),
			want: model.Answer{Message: model.Message{Text: "I look", Calls: calls("c", "read", `{"path":"a"}`)}, Input: 50},
		},
		{
			name: "items only as they come, an id that is missing, arguments as an object", api: model.APIResponses,
			stream: events(
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","name":"read","arguments":{"path":"a"}}}`,
				`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"d","name":"ls","arguments":""}}`,
				`{"type":"response.completed","response":{"status":"completed","output":[]}}`),
			want: model.Answer{Message: model.Message{Calls: calls("call_1_0", "read", `{"path":"a"}`, "d", "ls", `{}`)}},
		},
		{
			name: "cut", api: model.APIResponses,
			stream: events(`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"and"}]}]}}`),
			want:   model.Answer{Message: model.Message{Text: "and"}, Stop: model.StopLength},
		},
		{
			name: "refused", api: model.APIResponses,
			stream: events(`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"I won't"}]}]}}`),
			want:   model.Answer{Message: model.Message{Text: "I won't"}, Stop: model.StopRefused},
		},
		{
			name: "text, thinking and calls", api: model.APIMessages,
			stream: events(
				`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":1}}}`,
				`{"type":"ping"}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`,
				`{"type":"content_block_stop","index":0}`,
				`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"r"}}`,
				`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
				`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"I look"}}`,
				`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"a","name":"read","input":{}}}`,
				`{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"b","name":"ls","input":{}}}`,
				`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}`,
				`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}`,
				`{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
				`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"\"a\"}"}}`,
				`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}`,
				`{"type":"message_stop"}`),
			want: model.Answer{Message: model.Message{Text: "I look", Calls: calls("a", "read", `{"path":"a"}`, "b", "ls", `{}`)}, Input: 60},
		},
		{
			name: "input at once, usage at the end, no last event", api: model.APIMessages,
			stream: events(
				`{"type":"message_start","message":{"role":"assistant","content":[]}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"","name":"read","input":{"path":"a"}}}`,
				`{"type":"message_delta","delta":{"stop_reason":"whatever"},"usage":{"input_tokens":40,"output_tokens":9}}`),
			want: model.Answer{Message: model.Message{Calls: calls("call_1_0", "read", `{"path":"a"}`)}, Input: 40},
		},
		{
			name: "cut", api: model.APIMessages,
			stream: events(
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"an"}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"d"}}`,
				`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`),
			want: model.Answer{Message: model.Message{Text: "and"}, Stop: model.StopLength},
		},
		{
			name: "refused", api: model.APIMessages,
			stream: events(
				`{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"I won't"}},"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`),
			want: model.Answer{Message: model.Message{Text: "I won't"}, Stop: model.StopRefused},
		},
	} {
		t.Run(c.api+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			got, heard, err := ask(t, playing(t, c.stream).client(t, c.api))
			if err != nil {
				t.Fatal(err)
			}
			if got.Stop != model.StopRefused && heard != got.Text {
				t.Errorf("heard %q, said %q", heard, got.Text)
			}
			got.Opaque = nil
			if c.want.Role = model.RoleAssistant; c.want.Stop == "" {
				c.want.Stop = model.StopEnd
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestBroken holds what is no answer.
func TestBroken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, api, answer string
		class             model.Class
		message           string
	}{
		{"ends early", model.APIChat, data(delta(`{"content":"and"}`, "")), model.ClassTransient, "ended before"},
		{"ends early, politely", model.APIChat, data(delta(`{"content":"and"}`, ""), done), model.ClassTransient, "ended before"},
		{"nothing", model.APIChat, "", model.ClassTransient, "ended before"},
		{"error", model.APIChat, data(delta(`{"content":"and"}`, ""), `{"error":{"message":"boom","code":502}}`), model.ClassTransient, "boom"},
		{"no JSON", model.APIChat, data(`{"choices":[}`), model.ClassTransient, ""},
		{"JSON", model.APIChat, `200|{"choices":[{"message":{"content":"not a stream"}}]}`, model.ClassSetup, "no stream"},
		{"elsewhere", model.APIChat, `302|`, model.ClassSetup, "Found"},
		{"ends early", model.APIResponses, events(`{"type":"response.output_text.delta","delta":"and"}`), model.ClassTransient, "ended before"},
		{"failed", model.APIResponses, events(`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}`), model.ClassTransient, "boom"},
		{"error", model.APIResponses, events(`{"type":"error","code":"rate_limit_exceeded","message":"slow"}`), model.ClassRateLimit, "slow"},
		{"error of another form", model.APIResponses, events(`{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"long"}}`), model.ClassCapability, "long"},
		{"ends early", model.APIMessages, events(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"and"}}`), model.ClassTransient, "ended before"},
		{"ends early, politely", model.APIMessages, events(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"and"}}`, `{"type":"message_stop"}`), model.ClassTransient, "ended before"},
		{"error", model.APIMessages, events(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), model.ClassTransient, "Overloaded"},
		{"no JSON", model.APIMessages, "event: message_start\ndata: {\n\n", model.ClassTransient, ""},
		{"proxy", model.APIMessages, `502|<html>`, model.ClassTransient, "Bad Gateway"},
		{"too long", model.APIChat, data(delta(`{"content":"`+strings.Repeat("x", 5<<20)+`"}`, ""), delta(`{"content":"`+strings.Repeat("x", 5<<20)+`"}`, `"stop"`)), model.ClassPermanent, "8 MiB"},
		{"arguments too long", model.APIChat, data(delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"a","arguments":"`+strings.Repeat("x", 9<<20)+`"}}]}`, `"stop"`)), model.ClassPermanent, "8 MiB"},
		{"reasoning too long", model.APIChat, data(delta(`{"reasoning_content":"`+strings.Repeat("x", 9<<20)+`"}`, `"stop"`)), model.ClassPermanent, "8 MiB"},
		{"too many items", model.APIResponses, strings.Repeat(events(`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"`+strings.Repeat("x", 1<<20)+`"}]}}`), 13), model.ClassPermanent, "8 MiB"},
		{"a line too long", model.APIResponses, `data: {"type":"` + strings.Repeat("x", 13<<20), model.ClassPermanent, "8 MiB"},
		{"too long", model.APIMessages, events(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"`+strings.Repeat("x", 9<<20)+`"}}`), model.ClassPermanent, "8 MiB"},
	} {
		t.Run(c.api+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			s := playing(t, c.answer)
			answer, _, err := ask(t, s.client(t, c.api))
			e, ok := errors.AsType[*model.Error](err)
			if !ok || e.Class != c.class || !strings.Contains(e.Message, c.message) {
				t.Errorf("got %v", err)
			}
			if answer.Text != "" || answer.Calls != nil || len(s.bodies) != 1 {
				t.Errorf("answer %+v after %d requests", answer, len(s.bodies))
			}
		})
	}
}

// TestSentBack holds what a server gets back of its own answer, and its results.
func TestSentBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, api, stream, key, want string }{
		{
			"reasoning_content", model.APIChat,
			data(delta(`{"reasoning_content":"h"}`, ""), delta(`{"reasoning_content":"m","content":null}`, ""),
				delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{oops"}}]}`, `"tool_calls"`), done),
			"messages", `[{"role":"system","content":"be good"},{"role":"user","content":"do it"},
				{"role":"assistant","reasoning_content":"hm","tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"a","content":"content"},{"role":"user","content":"and?"}]`,
		},
		{
			"reasoning_details and extra_content", model.APIChat,
			data(delta(`{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"h"}]}`, ""), delta(`{"reasoning_details":[{"type":"reasoning.text","text":"m"}],"role_x":"y"}`, ""),
				delta(`{"content":"I look","tool_calls":[{"index":0,"id":"a","extra_content":{"google":{"thought_signature":"s"}},"function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]}`, `"tool_calls"`), done),
			"messages", `[{"role":"system","content":"be good"},{"role":"user","content":"do it"},
				{"role":"assistant","content":"I look","reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"h"},{"type":"reasoning.text","text":"m"}],
				 "tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"},"extra_content":{"google":{"thought_signature":"s"}}}]},
				{"role":"tool","tool_call_id":"a","content":"content"},{"role":"user","content":"and?"}]`,
		},
		{
			"output items", model.APIResponses,
			events(`{"type":"response.completed","response":{"status":"completed","output":[{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"e"},{"type":"message","id":"m","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"I look","annotations":[]}]},{"type":"function_call","id":"f","name":"read","call_id":"","arguments":"{oops"}]}}`),
			"input", `[{"role":"user","content":"do it","type":"message"},
				{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"e"},
				{"type":"message","id":"m","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"I look","annotations":[]}]},
				{"type":"function_call","id":"f","name":"read","call_id":"call_1_0","arguments":"{}"},
				{"type":"function_call_output","call_id":"call_1_0","output":"content"},{"role":"user","content":"and?","type":"message"}]`,
		},
		{
			"thinking", model.APIMessages,
			events(
				`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`,
				`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"r"}}`,
				`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":" "}}`,
				`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"a","name":"read","input":{}}}`,
				`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{oops"}}`,
				`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`),
			"messages", `[{"role":"user","content":[{"type":"text","text":"do it","cache_control":{"type":"ephemeral"}}]},
				{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"r"},{"type":"tool_use","id":"a","name":"read","input":{}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[{"type":"text","text":"content"}]},{"type":"text","text":"and?","cache_control":{"type":"ephemeral"}}]}]`,
		},
	} {
		t.Run(c.api+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			s := playing(t, c.stream)
			client := s.client(t, c.api)
			answer, _, err := ask(t, client)
			if err != nil {
				t.Fatal(err)
			}
			stored, err := json.Marshal(answer.Message) // it has been in a transcript
			var message model.Message
			if err := errors.Join(err, json.Unmarshal(stored, &message)); err != nil {
				t.Fatal(err)
			}
			status := "ok"
			if message.Calls[0].Malformed != "" {
				status = "error"
			}
			if _, _, err := ask(t, client,
				model.Message{Role: model.RoleUser, Text: "do it"}, message,
				model.Message{Role: model.RoleTool, Results: []model.Result{{ID: message.Calls[0].ID, Name: "read", Text: "content", Status: status}}},
				model.Message{Role: model.RoleUser, Text: "and?"}); err != nil {
				t.Fatal(err)
			}
			var want any
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, s.bodies[1][c.key]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRequests holds the rest of a request, and that the environment has no say in it.
//
//nolint:paralleltest // it sets the environment
func TestRequests(t *testing.T) {
	for name, value := range map[string]string{
		"OPENAI_API_KEY": "stolen", "OPENAI_BASE_URL": "http://127.0.0.1:1", "OPENAI_ORG_ID": "stolen", "OPENAI_CUSTOM_HEADERS": "X-Stolen: stolen",
		"ANTHROPIC_API_KEY": "stolen", "ANTHROPIC_AUTH_TOKEN": "stolen", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_CUSTOM_HEADERS": "X-Stolen: stolen",
		"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1",
	} {
		t.Setenv(name, value)
	}
	end := map[string]string{
		model.APIChat:      data(delta(`{"content":"yes"}`, `"stop"`), done),
		model.APIResponses: events(`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]}]}}`),
		model.APIMessages: events(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"yes"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`),
	}
	tool := `{"name":"read","description":"reads","%s":{"type":"object","properties":{"path":{"type":"string"}}}%s}`
	for _, c := range []struct{ api, want string }{
		{model.APIChat, `{"model":"m","stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"high",
			"tools":[{"type":"function","function":` + fmt.Sprintf(tool, "parameters", "") + `}]}`},
		{model.APIResponses, `{"model":"m","stream":true,"store":false,"instructions":"be good","include":["reasoning.encrypted_content"],"reasoning":{"effort":"high"},
			"prompt_cache_key":"s","tools":[` + fmt.Sprintf(tool, "parameters", `,"strict":false,"type":"function"`) + `]}`},
		{model.APIMessages, `{"model":"m","stream":true,"max_tokens":2000,"output_config":{"effort":"high"},"thinking":{"type":"adaptive"},
			"system":[{"type":"text","text":"be good","cache_control":{"type":"ephemeral"}}],
			"tools":[` + fmt.Sprintf(tool, "input_schema", `,"cache_control":{"type":"ephemeral"}`) + `]}`},
	} {
		s := playing(t, end[c.api])
		client := s.client(t, c.api, func(o *model.Options) { o.Effort, o.Context, o.Session = "high", 8000, "s" })
		if answer, _, err := ask(t, client); err != nil || answer.Text != "yes" {
			t.Fatalf("%s: %+v, %v", c.api, answer, err)
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		delete(s.bodies[0], "messages")
		delete(s.bodies[0], "input")
		if diff := cmp.Diff(want, s.bodies[0]); diff != "" {
			t.Errorf("%s: %s", c.api, diff)
		}
		headers := fmt.Sprint(s.headers[0])
		if strings.Contains(headers, "stolen") || !strings.Contains(headers, "token") {
			t.Errorf("%s: headers %s", c.api, headers)
		}

		if _, err := client.Ask(t.Context(), model.Request{
			Messages: []model.Message{{Role: model.RoleUser, Text: "report"}}, NoCalls: true,
			Tools: []model.Tool{{Name: "read", Parameters: json.RawMessage(`{"type":"object"}`)}},
		}, func(string) {}); err != nil {
			t.Fatal(err)
		}
		choice, offered := s.bodies[1]["tool_choice"], s.bodies[1]["tools"]
		if fmt.Sprint(choice) != "none" && fmt.Sprint(choice) != "map[type:none]" && offered != nil {
			t.Errorf("%s: the model may call: %v of %v", c.api, choice, offered)
		}
	}
}

// TestAdapts asks again for less where a server cannot do as much.
func TestAdapts(t *testing.T) {
	t.Parallel()
	s := playing(t, `400|{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-haiku"}}`,
		events(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`))
	if _, _, err := ask(t, s.client(t, model.APIMessages)); err != nil || s.bodies[1]["max_tokens"] != 8192.0 {
		t.Errorf("%v: %v", err, s.bodies)
	}
	s = playing(t, `400|{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error"}}`,
		events(`{"type":"response.completed","response":{"status":"completed","output":[]}}`))
	if _, _, err := ask(t, s.client(t, model.APIResponses)); err != nil || s.bodies[1]["include"] != nil {
		t.Errorf("%v: %v", err, s.bodies)
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	for _, api := range []string{model.APIChat, model.APIResponses, model.APIMessages} {
		for _, begins := range []bool{false, true} {
			t.Run(fmt.Sprint(api, begins), func(t *testing.T) {
				t.Parallel()
				arrived, release := make(chan struct{}, 1), make(chan struct{})
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if begins {
						w.Header().Set("Content-Type", "text/event-stream")
						_, _ = io.WriteString(w, ": hello\n\n")
						_ = http.NewResponseController(w).Flush()
					}
					arrived <- struct{}{}
					<-release
				}))
				defer s.Close()
				defer close(release)
				client, err := model.New(model.Options{API: api, BaseURL: s.URL, Model: "m", Now: time.Now, Idle: 50 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				_, _, err = ask(t, client)
				if e, _ := errors.AsType[*model.Error](err); e == nil || e.Class != model.ClassTransient || !strings.Contains(e.Message, "silent") {
					t.Errorf("got %v", err)
				}
				<-arrived

				client, err = model.New(model.Options{API: api, BaseURL: s.URL, Model: "m", Now: time.Now})
				if err != nil {
					t.Fatal(err)
				}
				enough := errors.New("enough")
				ctx, cancel := context.WithCancelCause(t.Context())
				go func() {
					<-arrived
					cancel(enough)
				}()
				_, err = client.Ask(ctx, model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "a"}}}, func(string) {})
				if !errors.Is(err, enough) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for base, ok := range map[string]bool{
		"http://127.0.0.1:8080/v1":     true,
		"http://[::1]:8080":            true,
		"http://localhost:8080":        false,
		"http://127.0.0.1.example.com": false,
		"http://10.0.0.1:8080":         false,
		"https://127.0.0.1":            false,
		"http://user@127.0.0.1":        false,
		"http://127.0.0.1/?x=y":        false,
		"http://0.0.0.0:80":            false,
		"127.0.0.1:80":                 false,
		"":                             false,
	} {
		client, err := model.New(model.Options{API: model.APIChat, BaseURL: base, Model: "m"})
		if e, _ := errors.AsType[*model.Error](err); (client != nil) != ok || (err == nil) != ok || !ok && e.Class != model.ClassSetup {
			t.Errorf("%q: %v", base, err)
		}
	}
	if _, err := model.New(model.Options{API: "soap", BaseURL: "http://127.0.0.1", Model: "m"}); err == nil {
		t.Error("soap")
	}
	if _, err := model.New(model.Options{API: model.APIChat, BaseURL: "http://127.0.0.1"}); err == nil {
		t.Error("no model")
	}
}
