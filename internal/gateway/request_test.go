package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/gateway"
)

// with is a request with more members; without a member of its own, "" is sent.
func with(api, members string) string {
	switch api {
	case "responses":
		return `{"model":"m","input":"go",` + members + `}`
	case "messages":
		return `{"model":"m","max_tokens":9,` + members + `}`
	}
	return `{"model":"m",` + members + `}`
}

func user(content string) string { return `"messages":[{"role":"user","content":` + content + `}]` }

func TestRequestsThatPass(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, api, members string }{
		{"a conversation", "chat", `"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},` +
			`{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"1","type":"function","extra_content":{"google":{"thought_signature":"s"}},` +
			`"function":{"name":"read","arguments":"{\"url\":\"https://x\"}"}}]},{"role":"tool","tool_call_id":"1","content":"c"}]`},
		{"order and spelling", "chat", `"tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a": 1.50,"m":"\u00e9","url":"https://x"}}}]`},
		{"a picture inside", "chat", user(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA==","detail":"low"}}]`)},
		{"sound inside", "chat", user(`[{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]`)},
		{"a file inside", "chat", user(`[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AA=="}}]`)},
		{"half a character", "chat", user(`"\ud83d"`)},
		{"vendors' members", "chat", `"enable_thinking":true,"thinking":{"type":"enabled"},"reasoning":{"effort":"low"},"chat_template_kwargs":{"enable_thinking":false},"messages":[]`},
		{"no tools", "chat", `"tools":null,"tool_choice":"auto"`},
		{"a name twice where it means nothing", "chat", `"response_format":{"a":1,"a":2}`},
		{"a chosen tool", "chat", `"tool_choice":{"type":"function","function":{"name":"f"}}`},
		{"some tools", "chat", `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`},
		{"items", "responses", `"instructions":"i","store":false,"include":["reasoning.encrypted_content"],"tools":[{"type":"function","name":"f","parameters":{}},{"type":"custom","name":"c","format":{"type":"text"}},` +
			`{"type":"local_shell"},{"type":"apply_patch"},{"type":"shell","environment":{"type":"local"}},{"type":"namespace","name":"n","tools":[{"type":"function","name":"g"}]}]`},
		{"a search of the client", "responses", `"tools":[{"type":"tool_search","execution":"client","description":"d","parameters":{}}]`},
		{"history", "responses", `"text":{"verbosity":"low"},"reasoning":{"effort":"high"},"parallel_tool_calls":true,"max_output_tokens":100`},
		{"tools", "messages", `"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"custom","name":"g","input_schema":{}},` +
			`{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"str_replace_based_edit_tool"},{"type":"memory_20250818","name":"memory"}],"tool_choice":{"type":"any"}`},
		{"blocks", "messages", `"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},` +
			`{"type":"tool_use","id":"1","name":"f","input":{"type":"url","url":"https://x","file_id":"f"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[` +
			`{"type":"text","text":"r"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"d"}]}}]}]`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			body := with(row.api, row.members)
			out, dropped, err := gateway.Rewrite(row.api, "m", []byte(body))
			if err != nil || len(dropped) > 0 || string(out) != body {
				t.Errorf("got  %s\nwant %s\nleft out %q, error %v", out, body, dropped, err)
			}
		})
	}
}

func TestInputItems(t *testing.T) {
	t.Parallel()
	const body = `{"model":"m","input":[{"role":"user","content":"a"},{"type":"message","role":"user","content":[{"type":"input_text","text":"b"},{"type":"input_image","image_url":"data:image/png;base64,AA=="}]},` +
		`{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"e"},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"o"}]},{"type":"shell_call_output","call_id":"2","output":[{"stdout":"x","stderr":"","outcome":{"type":"exit","exit_code":0}}]},` +
		`{"type":"additional_tools","role":"developer","tools":[{"type":"custom","name":"exec","format":{"type":"grammar","syntax":"lark","definition":"d"}}]}]}`
	out, dropped, err := gateway.Rewrite("responses", "m", []byte(body))
	if err != nil || len(dropped) > 0 || string(out) != body {
		t.Errorf("got  %s\nwant %s\nleft out %q, error %v", out, body, dropped, err)
	}
}

// TestRequestsThatAreRefused: none of these may reach the provider in any form.
func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, api, body, says string }{
		{"another model", "chat", `{"model":"big","messages":[]}`, `"big" cannot be asked`},
		{"no model", "chat", `{"messages":[]}`, "names no model"},
		{"null model", "messages", `{"model":null,"messages":[]}`, "cannot be asked"},
		{"model of another type", "responses", `{"model":["m"]}`, "model has a ["},
		{"model twice", "chat", `{"model":"m","model":"big"}`, "cannot be asked"},
		{"model twice, once escaped", "chat", `{"model":"m","\u006dodel":"m"}`, "occurs twice"},
		{"a member twice, deep down", "chat", with("chat", user(`[{"type":"text","type":"image_url"}]`)), "type occurs twice"},
		{"tools twice", "chat", with("chat", `"tools":[],"tools":[{"type":"function"}]`), "tools occurs twice"},
		{"what is refused, after what says nothing", "responses", with("responses", `"background":false,"background":true`), "background"},
		{"other models", "chat", with("chat", `"models":["a","b"]`), "models is not allowed"},
		{"a preset", "chat", with("chat", `"preset":"p"`), "preset is not allowed"},
		{"several answers", "chat", with("chat", `"n":2`), "n must be 1"},
		{"stream of another type", "chat", with("chat", `"stream":1`), "stream must be"},
		{"web search", "chat", with("chat", `"web_search_options":{"search_context_size":"low"}`), "web_search_options"},
		{"web search at DashScope", "chat", with("chat", `"enable_search":true`), "enable_search"},
		{"web search at OpenRouter", "chat", with("chat", `"plugins":[{"id":"web"}]`), "plugins"},
		{"web search at Zhipu", "chat", with("chat", `"tools":[{"type":"web_search","web_search":{"enable":true}}]`), `"web_search" is not allowed`},
		{"web search at Moonshot", "chat", with("chat", `"tools":[{"type":"builtin_function","function":{"name":"$web_search"}}]`), "builtin_function"},
		{"code at DashScope", "chat", with("chat", `"enable_code_interpreter":true`), "enable_code_interpreter"},
		{"search", "responses", with("responses", `"tools":[{"type":"function","name":"f"},{"type":"web_search"}]`), `"web_search"`},
		{"a remote server", "responses", with("responses", `"tools":[{"type":"mcp","server_url":"https://x"}]`), `"mcp"`},
		{"a remote server in a namespace", "responses", with("responses", `"tools":[{"type":"namespace","tools":[{"type":"mcp"}]}]`), `"mcp"`},
		{"files of the account", "responses", with("responses", `"tools":[{"type":"file_search","vector_store_ids":["v"]}]`), `"file_search"`},
		{"code", "responses", with("responses", `"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`), `"code_interpreter"`},
		{"a picture is made", "responses", with("responses", `"tools":[{"type":"image_generation"}]`), `"image_generation"`},
		{"a computer", "responses", with("responses", `"tools":[{"type":"computer_use_preview"}]`), `"computer_use_preview"`},
		{"the provider's shell", "responses", with("responses", `"tools":[{"type":"shell","environment":{"type":"container_auto"}}]`), `"shell"`},
		{"somebody's shell", "responses", with("responses", `"tools":[{"type":"shell"}]`), `"shell"`},
		{"a search of the provider", "responses", with("responses", `"tools":[{"type":"tool_search"}]`), `"tool_search"`},
		{"a tool among the input", "responses", `{"model":"m","input":[{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"f"},{"type":"web_search"}]}]}`, `"web_search"`},
		{"a tool that was found", "responses", `{"model":"m","input":[{"type":"tool_search_output","call_id":"1","tools":[{"type":"mcp","server_url":"https://x"}]}]}`, `"mcp"`},
		{"a tool that is chosen", "responses", with("responses", `"tool_choice":{"type":"web_search_preview"}`), `"web_search_preview"`},
		{"a tool of a vendor", "messages", with("messages", `"tools":[{"type":"openrouter:bash"}]`), `"openrouter:bash"`},
		{"fetching", "messages", with("messages", `"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]`), `"web_fetch_20250910"`},
		{"running code", "messages", with("messages", `"tools":[{"type":"code_execution_20250825","name":"code_execution"}]`), `"code_execution_20250825"`},
		{"almost an editor", "messages", with("messages", `"tools":[{"type":"text_editor_2025","name":"x"}]`), `"text_editor_2025"`},
		{"remote servers", "messages", with("messages", `"mcp_servers":[{"type":"url","url":"https://x"}]`), "mcp_servers"},
		{"a container", "messages", with("messages", `"container":"c"`), "container"},
		{"in the background", "responses", with("responses", `"background":true`), "background"},
		{"a stored answer", "responses", with("responses", `"previous_response_id":"resp_1"`), "previous_response_id"},
		{"a stored conversation", "responses", with("responses", `"conversation":"conv_1"`), "conversation"},
		{"a stored prompt", "responses", with("responses", `"prompt":{"id":"pmpt_1"}`), "prompt"},
		{"a stored item", "responses", `{"model":"m","input":[{"type":"item_reference","id":"x"}]}`, `"item_reference"`},
		{"a picture elsewhere", "chat", with("chat", user(`[{"type":"image_url","image_url":{"url":"https://x/?secret"}}]`)), "data: URL"},
		{"a picture elsewhere, as a string", "chat", with("chat", user(`[{"type":"image_url","image_url":"https://x/?secret"}]`)), "data: URL"},
		{"a picture elsewhere, in the file system", "chat", with("chat", user(`[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]`)), "data: URL"},
		{"a picture elsewhere, after a space", "chat", with("chat", user(`[{"type":"image_url","image_url":{"url":" https://x"}}]`)), "data: URL"},
		{"a film elsewhere", "chat", with("chat", user(`[{"type":"video_url","video_url":{"url":"https://x"}}]`)), "data: URL"},
		{"a sound elsewhere", "chat", with("chat", user(`[{"type":"input_audio","input_audio":{"data":"https://x","format":"wav"}}]`)), "bytes themselves"},
		{"a file elsewhere", "chat", with("chat", user(`[{"type":"file","file":{"file_data":"https://x/a.pdf"}}]`)), "data: URL"},
		{"a file of the account", "chat", with("chat", user(`[{"type":"file","file":{"file_id":"file-1"}}]`)), "file_id"},
		{"a part that is not known", "chat", with("chat", user(`[{"type":"document_url","document_url":"https://x"}]`)), `"document_url"`},
		{"a picture elsewhere, in responses", "responses", `{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"https://x"}]}]}`, "data: URL"},
		{"a file elsewhere, in responses", "responses", `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_url":"https://x"}]}]}`, "file_url"},
		{"a file of the account, in responses", "responses", `{"model":"m","input":[{"type":"function_call_output","call_id":"1","output":[{"type":"input_file","file_id":"f"}]}]}`, "file_id"},
		{"a picture elsewhere, in messages", "messages", with("messages", user(`[{"type":"image","source":{"type":"url","url":"https://x"}}]`)), "source.url"},
		{"a picture elsewhere, in a result", "messages", with("messages", user(`[{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"https://x"}}]}]`)), "source.url"},
		{"a source without an address", "messages", with("messages", user(`[{"type":"image","source":{"type":"url"}}]`)), `"url"`},
		{"a file of the account, in messages", "messages", with("messages", user(`[{"type":"document","source":{"type":"file","file_id":"f"}}]`)), "source.file_id"},
		{"an upload", "messages", with("messages", user(`[{"type":"container_upload","file_id":"f"}]`)), "file_id"},
		{"in the system prompt", "messages", with("messages", `"system":[{"type":"image","source":{"type":"url","url":"https://x"}}]`), "source.url"},
		{"not an object", "chat", `[]`, "the body has a ["},
		{"not JSON", "chat", `{"model":"m"`, "not sound JSON"},
		{"two objects", "chat", `{"model":"m"}{"model":"big"}`, "more than one"},
		{"nothing", "chat", ``, "not sound JSON"},
		{"a byte order mark", "chat", "\xef\xbb\xbf" + `{"model":"m"}`, "not sound JSON"},
		{"too deep", "chat", with("chat", user(strings.Repeat(`[{"type":"tool_result","content":`, 6000)+`""`+strings.Repeat(`}]`, 6000))), "not sound JSON"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			out, _, err := gateway.Rewrite(row.api, "m", []byte(row.body))
			if err == nil || len(out) > 0 {
				t.Fatalf("%s is sent", out)
			}
			if !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %q, want %q in it", err, row.says)
			}
		})
	}
}

func TestWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, api, body, want, dropped string }{
		{"the price", "chat", `{"model":"m","service_tier":"priority","messages":[]}`, `{"model":"m","messages":[]}`, "service_tier"},
		{"the price, in messages", "messages", `{"speed":"fast","model":"m"}`, `{"model":"m"}`, "speed"},
		{"other letters", "chat", `{"model":"m","Model":"big","MODELS":["x"],"Tools":[{"type":"mcp"}]}`, `{"model":"m"}`, "Model MODELS Tools"},
		{
			"other letters, deep down", "chat", with("chat", user(`[{"type":"text","text":"a","Image_url":"https://x","Type":"image_url"}]`)),
			with("chat", user(`[{"type":"text","text":"a"}]`)), "content[].Image_url content[].Type",
		},
		{
			"a tool of another letter", "chat", with("chat", `"tools":[{"type":"function","Type":"mcp","server_url":"https://x","function":{}}]`),
			with("chat", `"tools":[{"type":"function","function":{}}]`), "tools[].Type tools[].server_url",
		},
		{
			"a template", "chat", with("chat", `"chat_template":"{{","chat_template_kwargs":{"chat_template":"{{","thinking":true}`),
			with("chat", `"chat_template_kwargs":{"thinking":true}`), "chat_template chat_template_kwargs.chat_template",
		},
		{"the machine", "responses", `{"client_metadata":{"id":"x"},"model":"m"}`, `{"model":"m"}`, ""},
		{"what says nothing", "responses", `{"model":"m","background":false,"conversation":null,"input":""}`, `{"model":"m","input":""}`, ""},
		{"one answer", "chat", `{"n":1,"model":"m"}`, `{"model":"m"}`, ""},
		{"what Ollama takes", "chat", with("chat", `"messages":[{"role":"user","content":"a","images":["AA=="]}]`), with("chat", user(`"a"`)), "messages[].images"},
		{"escapes in names", "chat", `{"\u006dodel":"m"}`, `{"model":"m"}`, ""},
		{"space", "chat", " {\n\t\"model\" : \"m\" ,\r\n\"messages\" : [ ] } ", `{"model":"m","messages":[]}`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			out, dropped, err := gateway.Rewrite(row.api, "m", []byte(row.body))
			if err != nil || string(out) != row.want || strings.Join(dropped, " ") != row.dropped {
				t.Errorf("got %s without %q, error %v", out, dropped, err)
			}
		})
	}
}

func TestUsageIsAskedFor(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"model":"m","stream":true}`:                                            `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
		`{"stream_options":{"include_usage":false},"model":"m","stream":true}`:   `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
		`{"stream_options":null,"model":"m","stream":false}`:                     `{"model":"m","stream":false}`,
		`{"model":"m","stream_options":{"include_usage":false},"stream":null}`:   `{"model":"m","stream":null}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":[1,{}]}} `: `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
	} {
		if out, _, err := gateway.Rewrite("chat", "m", []byte(body)); err != nil || string(out) != want {
			t.Errorf("%s: got %s, %v, want %s", body, out, err, want)
		}
	}
}

// FuzzRewrite: whatever comes in, what goes out is one JSON object that asks the one model, to each
// reader, and has no tool and no address that was not looked at.
func FuzzRewrite(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}],"tools":[{"type":"function"}],"stream":true}`,
		`{"model":"m","Model":"x","model ":"y","mod\u0065l":"z"}`,
		`{"model":"m","input":[{"type":"message","content":[{"type":"input_image","image_url":"https://x"}]}],"tool_choice":{"type":"mcp"}}`,
		`{"model":"m","system":[{"type":"text"}],"messages":[{"content":[{"type":"tool_result","content":[{"source":{"type":"base64","url":""}}]}]}]}`,
		`{"model":"m","tools":[{"type":"shell","environment":{"type":"local","skills":[]}},{"type":"namespace","tools":[{}]}]}`,
		"{\"model\":\"m\",\"mod\xffel\":\"x\",\"messages\":[{\"content\":\"\xff\\ud800\"}]}",
	} {
		for i := range 3 {
			f.Add(byte(i), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, which byte, body []byte) {
		api := []string{"chat", "responses", "messages"}[which%3]
		out, _, err := gateway.Rewrite(api, "m", body)
		if err != nil {
			if len(out) > 0 {
				t.Fatalf("%q is refused and sent", out)
			}
			return
		}
		var m map[string]any
		if err := json.Unmarshal(out, &m); err != nil {
			t.Fatalf("%q is no JSON object: %v", out, err)
		}
		// Another reader may take the first of two members, or the last, or not mind how a name is spelt.
		seen := map[string]bool{}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			token, err := d.Token()
			if err != nil {
				break
			}
			name, isName := token.(string)
			if !isName {
				continue
			}
			if name = strings.ToLower(name); seen[name] {
				t.Fatalf("%q has %s twice", out, name)
			}
			seen[name] = true
			if err := d.Decode(new(json.RawMessage)); err != nil {
				t.Fatal(err)
			}
		}
		if m["model"] != "m" {
			t.Fatalf("%q asks no model", out)
		}
		look(t, out, m, "")
		again, dropped, err := gateway.Rewrite(api, "m", out)
		if err != nil || len(dropped) > 0 || len(again) < len(out) {
			t.Fatalf("%q is not what a request may be: %q, %v", out, again, err)
		}
	})
}

// look finds what must not be in a request, by another reader.
func look(t *testing.T, out []byte, v any, under string) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			look(t, out, e, under)
		}
	case map[string]any:
		kind, _ := v["type"].(string)
		if under == "tools" && (strings.Contains(kind, "search") || strings.Contains(kind, "mcp") || strings.HasPrefix(kind, "code")) {
			t.Fatalf("%q has the tool %q", out, kind)
		}
		for name, value := range v {
			s, _ := value.(string)
			if slices.Contains([]string{"image_url", "video_url", "audio_url", "file_data"}, name) && s != "" && !strings.HasPrefix(s, "data:") {
				t.Fatalf("%q has something fetched", out)
			}
			switch name {
			case "messages", "input", "content", "system", "tools", "source", "output", "image_url", "video_url":
				look(t, out, value, name)
			}
		}
	}
}

// TestManyNames: a request takes memory by its length, not by what is in it.
//
//nolint:paralleltest // it measures what is allocated
func TestManyNames(t *testing.T) {
	var names strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&names, `"%x":0,`, i)
	}
	for _, body := range []string{
		`{` + names.String() + `"model":"m"}`,
		`{"model":"m","response_format":{` + names.String() + `"a":0}}`,
		`{"model":"m","messages":[{` + names.String() + `"a":0}]}`,
		`{"model":"m","messages":[` + strings.Repeat(`{"role":"user","content":[{"type":"text"}]},`, 50_000) + `{}]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, _, err := gateway.Rewrite("chat", "m", []byte(body)); err != nil {
			t.Error(err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 8*uint64(len(body)) {
			t.Errorf("%.50s...: %d bytes took %d", body, len(body), took)
		}
	}
}
