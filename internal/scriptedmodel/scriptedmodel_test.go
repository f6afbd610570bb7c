package scriptedmodel_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/git-spot/git-spot/internal/scriptedmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o scriptedmodel.Options) *scriptedmodel.Server {
	t.Helper()
	s, err := scriptedmodel.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func script(t *testing.T, text string) scriptedmodel.Script {
	t.Helper()
	s, err := scriptedmodel.Decode(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var apis = []string{scriptedmodel.Chat, scriptedmodel.Responses, scriptedmodel.Messages}

// minimal is the smallest request with a tool in each wire format.
func minimal(api, prompt string, stream bool) (path, body string) {
	switch api {
	case scriptedmodel.Chat:
		return "/v1/chat/completions", fmt.Sprintf(`{"model":"m","stream":%t,"stream_options":{"include_usage":true},
			"messages":[{"role":"user","content":%q}]}`, stream, prompt)
	case scriptedmodel.Responses:
		return "/v1/responses", fmt.Sprintf(`{"model":"m","stream":%t,"input":%q}`, stream, prompt)
	}
	return "/v1/messages", fmt.Sprintf(`{"model":"m","stream":%t,"max_tokens":9,"messages":[{"role":"user","content":%q}]}`, stream, prompt)
}

// post returns the response, whose body the caller closes.
func post(t *testing.T, s *scriptedmodel.Server, path, body string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Anthropic-Version", "2023-06-01")
	tr := &http.Transport{DisableKeepAlives: true}
	return (&http.Client{Transport: tr}).Do(r)
}

// says returns status and body.
func says(t *testing.T, s *scriptedmodel.Server, path, body string) (int, string) {
	t.Helper()
	r, err := post(t, s, path, body)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(data)
}

// everywhere runs f for each wire format, streaming and not.
func everywhere(t *testing.T, f func(t *testing.T, api string, stream bool)) {
	t.Helper()
	for _, api := range apis {
		for stream, mode := range map[bool]string{true: "stream", false: "whole"} {
			t.Run(api+"/"+mode, func(t *testing.T) {
				t.Parallel()
				f(t, api, stream)
			})
		}
	}
}

// Nobody but this machine is served, and no page in a browser that a name of its own leads here.
func TestLoopbackOnly(t *testing.T) {
	t.Parallel()
	s := start(t, scriptedmodel.Options{})
	if !strings.HasPrefix(s.URL(), "http://127.0.0.1:") {
		t.Errorf("the URL is %s", s.URL())
	}
	for host, want := range map[string]int{
		"127.0.0.1": 200, "localhost:80": 200, "LOCALHOST": 200, "[::1]:80": 200, "::1": 200,
		"example.com": 421, "192.168.0.1:80": 421, "127.0.0.1.example.com": 421, "localhost.example.com": 421, "0.0.0.0": 421,
	} {
		path, body := minimal(scriptedmodel.Chat, "x", false)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("Host %q: got %d, want %d", host, response.StatusCode, want)
		}
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	s := start(t, scriptedmodel.Options{Key: "k"})
	for _, test := range []struct {
		api, header, value string
		want               int
	}{
		{scriptedmodel.Chat, "Authorization", "Bearer k", 200},
		{scriptedmodel.Responses, "Authorization", "Bearer k", 200},
		{scriptedmodel.Messages, "Authorization", "Bearer k", 200},
		{scriptedmodel.Messages, "X-Api-Key", "k", 200},
		{scriptedmodel.Chat, "X-Api-Key", "k", 401},
		{scriptedmodel.Chat, "Authorization", "Bearer kk", 401},
		{scriptedmodel.Messages, "X-Api-Key", "", 401},
	} {
		path, body := minimal(test.api, "x", false)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Anthropic-Version", "2023-06-01")
		r.Header.Set(test.header, test.value)
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%s with %s %q: got %d, want %d", test.api, test.header, test.value, response.StatusCode, test.want)
		}
	}
}

// What breaks off, breaks off so that a client can see it, except for a cut, which looks complete.
// What was counted by then is what had been sent by then.
func TestFaults(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, api string, stream bool) {
		s := start(t, scriptedmodel.Options{Script: script(t, `{"steps":[
			{"fault":"drop","text":"never to be seen as a whole by anybody at all"},
			{"fault":"cut","text":"never to be seen as a whole by anybody at all"},
			{"fault":"garbage","text":"seen"},
			{"fault":"error","error":"overloaded_error","text":"too much"},
			{"text":"seen","usage":{"input":5,"cacheRead":4,"output":3}}]}`)})
		path, body := minimal(api, "x", stream)
		read := func() (int, string, error) {
			r, err := post(t, s, path, body)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Body.Close() }()
			data, err := io.ReadAll(r.Body)
			return r.StatusCode, string(data), err
		}
		ends := map[string]string{ // of a stream
			scriptedmodel.Chat: "data: [DONE]\n\n", scriptedmodel.Responses: "response.completed", scriptedmodel.Messages: "message_stop",
		}[api]
		complete := func(got string) bool {
			if stream {
				return strings.Contains(got, ends)
			}
			return json.Valid([]byte(got))
		}

		status, got, err := read()
		if status != 200 || !errors.Is(err, io.ErrUnexpectedEOF) || got == "" || complete(got) {
			t.Errorf("drop: got %d, %v, %q", status, err, got)
		}
		status, got, err = read()
		if status != 200 || err != nil || got == "" || complete(got) {
			t.Errorf("cut: got %d, %v, %q", status, err, got)
		}
		if status, got, err = read(); status != 200 || err != nil || complete(got) != stream {
			t.Errorf("garbage: got %d, %v, %q", status, err, got)
		} else if stream && !strings.Contains(got, "data: {\"choices\":[{\n\n") {
			t.Errorf("garbage: got %q", got)
		}
		wantStatus := 200
		if !stream {
			wantStatus = 500
		}
		if status, got, err = read(); status != wantStatus || err != nil || !strings.Contains(got, "too much") ||
			!strings.Contains(got, "overloaded_error") || stream && strings.Contains(got, ends) {
			t.Errorf("error: got %d, %v, %q", status, err, got)
		}
		before := s.Usage()
		switch api {
		case scriptedmodel.Messages: // the start of each stream told of the input
			if stream != (before.Input > 0) {
				t.Errorf("counted %+v of answers that broke off", before)
			}
		case scriptedmodel.Chat, scriptedmodel.Responses: // the garbage was followed by the rest
			if stream != (before.Output > 0) {
				t.Errorf("counted %+v of answers that broke off", before)
			}
		}
		if status, got, err = read(); status != 200 || err != nil || !complete(got) {
			t.Errorf("got %d, %v, %q", status, err, got)
		}
		after := s.Usage()
		if after.Input-before.Input != 5 || after.CacheRead-before.CacheRead != 4 || after.Output-before.Output != 3 {
			t.Errorf("counted %+v and then %+v", before, after)
		}
	})
}

// Close ends what hangs, and so does the end of the context.
func TestHangingRequestsEnd(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"hang", "stall"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, api string, stream bool) {
				for _, end := range []func(context.CancelFunc, *scriptedmodel.Server) error{
					func(_ context.CancelFunc, s *scriptedmodel.Server) error { return s.Close() },
					func(cancel context.CancelFunc, _ *scriptedmodel.Server) error { cancel(); return nil },
				} {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					s, err := scriptedmodel.Start(ctx, scriptedmodel.Options{Script: script(t, `{"steps":[{"fault":"`+fault+`","text":"a long text of many words"}]}`)})
					if err != nil {
						t.Fatal(err)
					}
					path, body := minimal(api, "x", stream)
					var clients sync.WaitGroup
					begun := make(chan struct{})
					clients.Go(func() {
						r, err := post(t, s, path, body)
						if fault == "hang" {
							if err == nil {
								_ = r.Body.Close()
								t.Error("got an answer")
							}
							return
						}
						if err != nil {
							t.Error(err)
							close(begun)
							return
						}
						defer func() { _ = r.Body.Close() }()
						b := bufio.NewReader(r.Body)
						_, err = b.ReadByte()
						close(begun)
						if _, rest := io.Copy(io.Discard, b); err != nil || rest == nil {
							t.Errorf("got %v and then %v, want the beginning of an answer", err, rest)
						}
					})
					if fault == "stall" {
						<-begun
					} else {
						for len(s.Requests()) == 0 {
							runtime.Gosched() // until it is hanging
						}
					}
					if err := end(cancel, s); err != nil {
						t.Error(err)
					}
					clients.Wait()
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// Fifty conversations at once each get their own story, and every token is counted.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	s := start(t, scriptedmodel.Options{Script: script(t, `{"steps":[
		{"status":429,"times":2},{"text":"hello","usage":{"input":10,"cacheRead":2,"output":3,"reasoning":1}}]}`)})
	const streams = 50
	var clients sync.WaitGroup
	for i := range streams {
		clients.Go(func() {
			path, body := minimal(apis[i%len(apis)], fmt.Sprint("conversation ", i), true)
			for _, want := range []int{429, 429, 200} {
				if got, text := says(t, s, path, body); got != want || want == 200 && !strings.Contains(text, "hello") {
					t.Errorf("%d: got %d %s, want %d", i, got, text, want)
				}
			}
		})
	}
	clients.Wait()
	want := scriptedmodel.Usage{Input: 10 * streams, CacheRead: 2 * streams, Output: 3 * streams, Reasoning: streams}
	if got := s.Usage(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	if got := len(s.Requests()); got != 3*streams {
		t.Errorf("%d requests, want %d", got, 3*streams)
	}
}

// Usage is in a chat stream only if the client asks for it, and only then counted.
func TestChatUsageOnRequest(t *testing.T) {
	t.Parallel()
	s := start(t, scriptedmodel.Options{})
	_, got := says(t, s, "/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	if strings.Contains(got, "usage") || s.Usage() != (scriptedmodel.Usage{}) {
		t.Errorf("counted %+v in %s", s.Usage(), got)
	}
}

func TestConversations(t *testing.T) {
	t.Parallel()
	s := start(t, scriptedmodel.Options{Script: script(t, `{"steps":[{"text":"one"}],"conversations":[
		{"contains":"review","steps":[{"text":"two"}]},{"contains":"re","steps":[{"status":500},{"text":"three"}]}]}`)})
	for prompt, want := range map[string]string{"make it": "one", "please review": "two", "retry": "HTTP 500"} {
		path, body := minimal(scriptedmodel.Chat, prompt, false)
		status, got := says(t, s, path, body)
		if status == 500 {
			got = "HTTP 500"
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: got %s, want %q", prompt, got, want)
		}
	}
}

// A script names a tool by what it does; a program's own name for it is sent, with its own names of
// the arguments.
func TestToolsAreTakenFromTheOffer(t *testing.T) {
	t.Parallel()
	offer := func(name string, properties ...string) string {
		p := map[string]any{}
		for _, name := range properties {
			p[name] = map[string]any{"type": "string"}
		}
		data, err := json.Marshal(map[string]any{
			"type": "function", "function": map[string]any{"name": name, "parameters": map[string]any{"type": "object", "properties": p}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, test := range []struct{ call, offer, name, args string }{
		{`{"tool":"read","args":{"path":"a"}}`, offer("read", "path"), "read", `{"path":"a"}`},
		{`{"tool":"read","args":{"path":"a"}}`, offer("Read", "file_path"), "Read", `{"file_path":"a"}`},
		{`{"tool":"edit","args":{"path":"a","edits":[{"oldText":"x","newText":"y"}]}}`, offer("edit", "path", "edits"), "edit", `{"path":"a","edits":[{"oldText":"x","newText":"y"}]}`},
		{`{"tool":"edit","args":{"path":"a","edits":[{"oldText":"x","newText":"y"}]}}`, offer("Edit", "file_path", "old_string", "new_string"), "Edit", `{"file_path":"a","new_string":"y","old_string":"x"}`},
		{`{"tool":"edit","args":{"path":"a","oldText":"<","newText":"y","n":1}}`, offer("replace", "file_path", "old_string", "new_string"), "replace", `{"file_path":"a","n":1,"new_string":"y","old_string":"<"}`},
		{`{"tool":"read","args":{"path":"a"}}`, offer("Read", "path") + "," + offer("read", "filePath"), "read", `{"path":"a"}`},
		{`{"tool":"find"}`, offer("Glob", "pattern"), "Glob", `{}`},
		{`{"tool":"ls","args":{"path":"a"}}`, offer("Read", "file_path"), "ls", `{"path":"a"}`},
		{`{"tool":"bash","args":{"path":"a"}}`, offer("Bash", "file_path"), "bash", `{"path":"a"}`},
		{`{"tool":"read","raw":"{no JSON"}`, offer("Read", "file_path"), "Read", `{no JSON`},
	} {
		s := start(t, scriptedmodel.Options{Script: script(t, `{"steps":[{"calls":[`+test.call+`]}]}`)})
		_, got := says(t, s, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[`+test.offer+`]}`)
		var answer struct {
			Choices []struct {
				Message struct {
					ToolCalls []struct {
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal([]byte(got), &answer); err != nil || len(answer.Choices) != 1 || len(answer.Choices[0].Message.ToolCalls) != 1 {
			t.Fatalf("%s: got %s", test.call, got)
		}
		if f := answer.Choices[0].Message.ToolCalls[0].Function; f.Name != test.name || f.Arguments != test.args {
			t.Errorf("%s of %s: got %s %s, want %s %s", test.call, test.offer, f.Name, f.Arguments, test.name, test.args)
		}
	}
}

// The server refuses what the vendors refuse, so that a client that passes here passes there.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := start(t, scriptedmodel.Options{})
	user := `{"role":"user","content":"x"}`
	chat := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	input := func(items string) string { return `{"model":"m","input":[` + items + `]}` }
	messages := func(m string) string { return `{"model":"m","max_tokens":9,"messages":[` + m + `]}` }
	call := `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	result := `{"role":"tool","tool_call_id":"c","content":"r"}`
	use := `{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]}`
	used := `{"type":"tool_result","tool_use_id":"c","content":"r"}`
	item := `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`
	output := `{"type":"function_call_output","call_id":"c","output":"r"}`
	for _, test := range []struct{ path, body, want string }{
		{"/v1/chat/completions", `{`, "unexpected end"},
		{"/v1/chat/completions", `{"messages":[` + user + `]}`, "model"},
		{"/v1/chat/completions", chat(``), "empty"},
		{"/v1/chat/completions", chat(`{"role":"robot","content":"x"}`), "unknown role"},
		{"/v1/chat/completions", chat(`{"role":"user","content":7}`), "content"},
		{"/v1/chat/completions", chat(user + `,{"role":"assistant","content":null}`), "content or tool_calls"},
		{"/v1/chat/completions", chat(user + `,` + call), "no answer"},
		{"/v1/chat/completions", chat(user + `,` + call + `,` + user), "followed by tool messages"},
		{"/v1/chat/completions", chat(user + `,` + result), "is none"},
		{"/v1/chat/completions", chat(user + `,` + call + `,` + result + `,` + result), "is none"},
		{"/v1/chat/completions", chat(user + `,{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f"}}]}`), "invalid tool call"},
		{"/v1/chat/completions", `{"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"a b"}}]}`, "no name"},
		{"/v1/chat/completions", `{"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a"}}]}`, "two tools"},
		{"/v1/chat/completions", chat(user + `,` + call + `,` + result), ""},

		{"/v1/responses", `{"input":"x"}`, "model"},
		{"/v1/responses", input(``), "empty"},
		{"/v1/responses", input(`{"role":"robot","content":"x"}`), "unknown role"},
		{"/v1/responses", input(`{"role":"user","content":[{"type":"output_text","text":"x"}]}`), "invalid value"},
		{"/v1/responses", input(`{"role":"assistant","content":[{"type":"input_text","text":"x"}]}`), "invalid value"},
		{"/v1/responses", input(user + `,` + item), "no tool output"},
		{"/v1/responses", input(user + `,` + output), "no tool call"},
		{"/v1/responses", input(user + `,` + item + `,{"type":"function_call_output","call_id":"c"}`), "missing output"},
		{"/v1/responses", input(user + `,{"type":"reasoning","id":"rs_1","summary":[]},` + user), "required following item"},
		{"/v1/responses", input(user + `,{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},` + item + `,` + output), "verified"},
		{"/v1/responses", input(user + `,{"type":"image","id":"x"}`), "unknown type"},
		{"/v1/responses", input(user + `,` + item + `,` + output), ""},

		{"/v1/messages", `{"model":"m","messages":[` + user + `]}`, "max_tokens"},
		{"/v1/messages", messages(``), "the first is one of the user"},
		{"/v1/messages", messages(`{"role":"assistant","content":"x"}`), "the first is one of the user"},
		{"/v1/messages", messages(`{"role":"user","content":""}`), "non-empty"},
		{"/v1/messages", messages(`{"role":"user","content":[]}`), "non-empty"},
		{"/v1/messages", messages(user + `,{"role":"robot","content":"x"}`), "unknown role"},
		{"/v1/messages", messages(user + `,` + use), "without tool_result"},
		{"/v1/messages", messages(user + `,` + use + `,` + user), "without tool_result"},
		{"/v1/messages", messages(user + `,{"role":"user","content":[` + used + `]}`), "after its tool_use"},
		{"/v1/messages", messages(user + `,` + use + `,{"role":"user","content":[{"type":"text","text":"x"},` + used + `]}`), "after its tool_use"},
		{"/v1/messages", messages(user + `,` + use + `,{"role":"user","content":[` + used + `,` + used + `]}`), "after its tool_use"},
		{"/v1/messages", messages(user + `,{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":"{}"}]}`), "invalid tool_use"},
		{"/v1/messages", messages(user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"y"}]}`), "signature"},
		{"/v1/messages", messages(user + `,` + use + `,{"role":"user","content":[` + used + `,{"type":"text","text":"x"}]}`), ""},

		{"/v1/models", ``, "404"},
		{"/", ``, "404"},
	} {
		status, got := says(t, s, test.path, test.body)
		if want := 400; test.want == "" && status != 200 || test.want != "" && status != want && status != 404 || !strings.Contains(got, test.want) {
			t.Errorf("%s %s: got %d %s, want %q", test.path, test.body, status, got, test.want)
		}
	}
	if status, _ := says(t, s, "/v1/chat/completions", strings.Repeat(" ", 32<<20+1)); status != 413 {
		t.Errorf("32 MiB and a byte: got %d", status)
	}
}

// The vendors refuse a conversation in which what a model thought before it called a tool is missing.
func TestReasoningMustComeBack(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("scriptedhm"))
	signature := base64.StdEncoding.EncodeToString(sum[:])
	for _, test := range []struct {
		path, body string
		want       int
	}{
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"},
			{"role":"assistant","reasoning_content":"%s","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c","content":"r"}]}`, 400},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"},
			{"role":"assistant","reasoning_content":"%s","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c","content":"r"},{"role":"assistant","content":"y"},{"role":"user","content":"z"}]}`, 400},
		{"/v1/responses", `{"model":"m","input":[{"role":"user","content":"x"},
			{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"%s"}]},
			{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
			{"type":"function_call_output","call_id":"c","output":"r"}]}`, 400},
		{"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"%s","signature":"` + signature + `"},
				{"type":"tool_use","id":"c","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}]}`, 400},
		{"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},
			{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"%s","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]},
			{"role":"assistant","content":"y"},{"role":"user","content":"z"}]}`, 200},
		{"/v1/responses", `{"model":"m","input":[{"role":"user","content":"x"},
			{"type":"function_call","call_id":"c","name":"%s","arguments":"{}"},
			{"type":"function_call_output","call_id":"c","output":"r"},{"role":"assistant","content":"y"},{"role":"user","content":"z"}]}`, 200},
	} {
		s := start(t, scriptedmodel.Options{Script: script(t, `{"steps":[{"reasoning":"hm","calls":[{"tool":"f"}]}]}`)})
		if status, got := says(t, s, test.path, fmt.Sprintf(test.body, "hm")); status != 200 {
			t.Errorf("%s: got %d %s", test.path, status, got)
		}
		if status, got := says(t, s, test.path, fmt.Sprintf(test.body, "f")); status != test.want {
			t.Errorf("%s without the reasoning: got %d %s, want %d", test.path, status, got, test.want)
		}
	}
}

func TestScriptsAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                            "EOF",
		`{"step":[]}`:                 "unknown field",
		`{"steps":[{"txet":"x"}]}`:    "unknown field",
		`{"steps":[]} {}`:             "follows",
		`{"steps":[{"status":200}]}`:  "is no error",
		`{"steps":[{"fault":"nap"}]}`: "unknown fault",
		`{"steps":[{"stop":"nap"}]}`:  "unknown stop",
		`{"steps":[{"status":500,"fault":"hang"}]}`:                   "excludes",
		`{"steps":[{"error":"x"}]}`:                                   "needs a status",
		`{"steps":[{"retryAfter":"1"}]}`:                              "needs a status",
		`{"steps":[{"status":429,"retryAfter":"1\r\nX: y"}]}`:         "one line",
		`{"steps":[{"times":-1}]}`:                                    "times",
		`{"steps":[{"times":1000001}]}`:                               "times",
		`{"steps":[{"usage":{"input":-1}}]}`:                          "out of range",
		`{"steps":[{"usage":{"output":1,"reasoning":2}}]}`:            "includes it",
		`{"steps":[{"calls":[{}]}]}`:                                  "without a tool",
		`{"steps":[{"calls":[{"tool":"read","args":[]}]}]}`:           "no object",
		`{"steps":[{"calls":[{"tool":"read","args":{},"raw":"x"}]}]}`: "args or raw",
		`{"conversations":[{"steps":[]}]}`:                            "which words",
		`{"conversations":[{"contains":"x","steps":[{"status":1}]}]}`: `conversation "x": step 1`,
	} {
		s, err := scriptedmodel.Decode(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || s.Steps != nil || s.Conversations != nil {
			t.Errorf("%s: got %+v, %v, want %q", text, s, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"steps":[{"text":"x","calls":[{"tool":"read","args":{"path":"a"}},{"tool":"x","raw":"{"}],"reasoning":"r","usage":{"input":1}}]}`))
	f.Add([]byte(`{"steps":[{"status":429,"retryAfter":"1","error":"insufficient_quota","times":3},{"fault":"hang"}]}`))
	f.Add([]byte(`{"conversations":[{"contains":"x","steps":[{"stop":"length","model":"m"}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scriptedmodel.Decode(bytes.NewReader(data))
		if err != nil {
			if s.Steps != nil || s.Conversations != nil {
				t.Errorf("got %+v with %v", s, err)
			}
			return
		}
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := scriptedmodel.Decode(bytes.NewReader(encoded))
		if err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		if twice, err := json.Marshal(again); err != nil || !bytes.Equal(encoded, twice) {
			t.Errorf("got %s, %v, want %s", twice, err, encoded)
		}
	})
}

// A client that goes away in mid-stream leaves nothing behind; goleak holds that.
func TestClientsGoAway(t *testing.T) {
	t.Parallel()
	s := start(t, scriptedmodel.Options{Script: script(t, `{"steps":[{"text":"`+strings.Repeat("word ", 1<<18)+`"}]}`)})
	for _, api := range apis {
		path, body := minimal(api, "x", true)
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nAnthropic-Version: 1\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		if _, err := c.Read(make([]byte, 10)); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
