package gateway_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/gateway"
	"github.com/git-spot/git-spot/schemas"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", gateway.MaxEvent+1)
	for _, row := range []struct {
		name, in string
		want     []string
	}{
		{"plain", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
		{"CR LF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{"a"}},
		{"comments and other fields", ": hello\n\nevent: x\nid: 1\nretry: 3\ndata: a\n:ping\n\n", []string{"a"}},
		{"several lines", "data: a\ndata:b\ndata:  c\n\n", []string{"a\nb\n c"}},
		{"no data", "event: x\n\ndata\n\n", nil},
		{"empty data", "data:\n\n", []string{""}},
		{"no end", "data: a\n\ndata: b", []string{"a", "b"}},
		{"no empty line", "data: a\n\ndata: b\n", []string{"a", "b"}},
		{"one document", " \n{\"a\":\n\n1}", []string{"{\"a\":\n\n1}"}},
		{"a list", "[1]", []string{"[1]"}},
		{"nothing", "", nil},
		{"space", " \r\n\t", nil},
		{"too long a line", "data: " + long + "\n\ndata: b\n\n", []string{"b"}},
		{"too long an event", "data: " + long[:len(long)/2] + "\ndata: " + long[:len(long)/2+9] + "\n\ndata: b\n\n", []string{"b"}},
		{"too long a comment", ": " + long + "\ndata: b\n\n", nil},
		{"too long a document", "{" + long, nil},
		{"too long and no end", "data: " + long, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 2, 32 << 10} {
				if len(row.in) > 1000 && size < 1000 {
					continue
				}
				if got := gateway.Events(slices.Collect(slices.Chunk([]byte(row.in), size))...); !slices.Equal(got, row.want) {
					t.Errorf("in pieces of %d bytes: got %.200q, want %q", size, got, row.want)
				}
			}
		})
	}
}

// cut makes pieces of b, also empty ones.
func cut(b []byte, seed uint64) (pieces [][]byte) {
	random := rand.New(rand.NewPCG(seed, 1))
	for len(b) > 0 {
		n := random.IntN(min(len(b), 40) + 1)
		pieces = append(pieces, bytes.Clone(b[:n]))
		b = b[n:]
	}
	return pieces
}

// FuzzAnswer: an answer is read without a panic, and to the same result however it is cut.
func FuzzAnswer(f *testing.F) {
	for i, answer := range answers {
		f.Add(byte(i), uint64(i), []byte(answer.body))
	}
	f.Add(byte(0), uint64(7), []byte("data: {\"usage\":{\"prompt_tokens\":1e400,\"completion_tokens\":-1,\"total_tokens\":\"x\"}}\r\rdata:{\"choices\":[{\"delta\":\"\\\"\"}]}"))
	f.Fuzz(func(t *testing.T, which byte, seed uint64, body []byte) {
		api := []string{"chat", "responses", "messages"}[which%3]
		u, model, text := gateway.Usage(api, body)
		cu, cmodel, ctext := gateway.Usage(api, cut(body, seed)...)
		if show(u) != show(cu) || model != cmodel || text != ctext {
			t.Fatalf("whole %s %q %d, in pieces %s %q %d", show(u), model, text, show(cu), cmodel, ctext)
		}
		for _, n := range []*int64{u.UncachedInput, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning} {
			if n != nil && (*n < 0 || *n > 1<<42) {
				t.Fatalf("got %s", show(u))
			}
		}
		if text < 0 || text > int64(len(body)) {
			t.Fatalf("%d bytes of text in %d", text, len(body))
		}
	})
}

// show is usage on one line; - is not known.
func show(u schemas.Usage) string {
	n := func(p *int64) string {
		if p == nil {
			return "-"
		}
		return fmt.Sprint(*p)
	}
	s := fmt.Sprintf("in %s read %s write %s out %s reason %s", n(u.UncachedInput), n(u.CacheRead), n(u.CacheWrite), n(u.Output), n(u.Reasoning))
	if u.CostUSD != nil {
		s += fmt.Sprintf(" $%.6f", *u.CostUSD)
	}
	return s
}

func sse(events ...string) string { return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n" }

var answers = []struct{ name, api, body, want, model string }{
	{
		"OpenAI", "chat", sse(`{"model":"gpt-5-2025-08-07","choices":[{"delta":{"content":"hi"}}],"usage":null}`,
			`{"model":"gpt-5-2025-08-07","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":64,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":15}}}`, `[DONE]`),
		"in 36 read 64 write - out 20 reason 15", "gpt-5-2025-08-07",
	},
	{
		"OpenAI, whole", "chat", `{"id":"x","model":"gpt-5","choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`,
		"in 7 read - write - out 2 reason -", "gpt-5",
	},
	{
		"DeepSeek", "chat", sse(`{"model":"deepseek-chat","choices":[{"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":9,"total_tokens":59,"prompt_cache_hit_tokens":32,"prompt_cache_miss_tokens":18}}`, `[DONE]`),
		"in 18 read 32 write - out 9 reason -", "deepseek-chat",
	},
	{
		"Moonshot", "chat", sse(`{"model":"kimi-k2","choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":50,"completion_tokens":9,"total_tokens":59,"cached_tokens":48}}]}`),
		"in 2 read 48 write - out 9 reason -", "kimi-k2",
	},
	{
		"OpenRouter", "chat", sse(`{"model":"a/b","choices":[],"usage":{"prompt_tokens":194,"completion_tokens":2,"total_tokens":196,"cost":0.00095,"is_byok":false,"cost_details":{"upstream_inference_cost":null},"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":100}}}`),
		"in 84 read 10 write 100 out 2 reason - $0.000950", "a/b",
	},
	{
		"OpenRouter with the user's own key", "chat", `{"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":0.05,"is_byok":true,"cost_details":{"upstream_inference_cost":1}}}`,
		"in 1 read - write - out 2 reason - $1.050000", "",
	},
	{
		"OpenRouter with the user's own key, the price unknown", "chat", `{"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":0.05,"is_byok":true}}`,
		"in 1 read - write - out 2 reason -", "",
	},
	{
		"DashScope", "chat", sse(`{"choices":[],"usage":{"prompt_tokens":3000,"completion_tokens":20,"total_tokens":3020,"prompt_tokens_details":{"cached_tokens":1000,"cache_creation_input_tokens":1500}}}`),
		"in 500 read 1000 write 1500 out 20 reason -", "",
	},
	{
		"Gemini counts thoughts in the total alone", "chat", sse(`{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":45}}`),
		"in 10 read - write - out 35 reason -", "",
	},
	{
		"xAI counts reasoning beside the rest", "chat", `{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":45,"completion_tokens_details":{"reasoning_tokens":30}}}`,
		"in 10 read - write - out 35 reason 30", "",
	},
	{
		"a total that does not add up", "chat", `{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":99,"completion_tokens_details":{"reasoning_tokens":3}}}`,
		"in 10 read - write - out 5 reason 3", "",
	},
	{
		"usage in every chunk", "chat", sse(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`,
			`{"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`),
		"in 9 read - write - out 2 reason -", "",
	},
	{
		"more cached than there is", "chat", `{"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":100}}}`,
		"in 0 read 100 write - out 2 reason -", "",
	},
	{
		"numbers that are none", "chat", `{"usage":{"prompt_tokens":"9","completion_tokens":-2,"cost":"x","prompt_tokens_details":7,"completion_tokens_details":{"reasoning_tokens":1.5},"cached_tokens":99999999999999999999}}`,
		"in - read - write - out - reason -", "",
	},
	{"usage that is none", "chat", `{"model":5,"usage":"none"}`, "in - read - write - out - reason -", ""},
	{
		"Responses", "responses", sse(`{"type":"response.created","response":{"model":"gpt-5-codex","usage":null}}`, `{"type":"response.output_text.delta","delta":"abc"}`,
			`{"type":"response.completed","response":{"model":"gpt-5-codex","usage":{"input_tokens":75,"input_tokens_details":{"cached_tokens":32},"output_tokens":125,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":200}}}`),
		"in 43 read 32 write - out 125 reason 64", "gpt-5-codex",
	},
	{
		"Responses, whole", "responses", `{"object":"response","model":"gpt-5","usage":{"input_tokens":7,"output_tokens":3}}`,
		"in 7 read - write - out 3 reason -", "gpt-5",
	},
	{
		"Anthropic", "messages", sse(`{"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":25,"cache_creation_input_tokens":7,"cache_read_input_tokens":100,"output_tokens":1}}}`,
			`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hello"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}`, `{"type":"message_stop"}`),
		"in 25 read 100 write 7 out 15 reason -", "claude-x",
	},
	{
		"Anthropic, cumulative", "messages", sse(`{"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":25,"output_tokens":1}}}`,
			`{"type":"message_delta","usage":{"input_tokens":25,"cache_read_input_tokens":3,"output_tokens":10}}`,
			`{"type":"message_delta","usage":{"input_tokens":30,"cache_read_input_tokens":3,"output_tokens":15}}`),
		"in 30 read 3 write - out 15 reason -", "claude-x",
	},
	{
		"Anthropic, broken off", "messages", sse(`{"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":25,"output_tokens":1}}}`,
			`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hello"}}`),
		"in 25 read - write - out - reason -", "claude-x",
	},
	{
		"Anthropic by others: nothing at first, all at the end", "messages", sse(`{"type":"message_start","message":{"model":"glm","usage":{"input_tokens":0,"output_tokens":0}}}`,
			`{"type":"message_delta","usage":{"input_tokens":25,"cache_read_input_tokens":4,"output_tokens":15}}`),
		"in 25 read 4 write - out 15 reason -", "glm",
	},
	{
		"Anthropic by others: all at first, nothing at the end", "messages", sse(`{"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":0}}}`,
			`{"type":"message_delta","usage":{"input_tokens":0,"output_tokens":15}}`),
		"in 25 read - write - out 15 reason -", "",
	},
	{
		"Anthropic, whole", "messages", `{"type":"message","model":"claude-x","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":7,"output_tokens":3,"cache_read_input_tokens":0}}`,
		"in 7 read 0 write - out 3 reason -", "claude-x",
	},
	{"garbage", "messages", "\x00\x01data: {\n\n\ndata: }\n\n", "in - read - write - out - reason -", ""},
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, row := range answers {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(5) {
				u, model, _ := gateway.Usage(row.api, cut([]byte(row.body), seed)...)
				if got := show(u); got != row.want || model != row.model {
					t.Fatalf("got %s from %q, want %s from %q", got, model, row.want, row.model)
				}
			}
		})
	}
}

// TestTextIsCounted: where there is no usage, the limits go by the text alone, not by what is around it.
func TestTextIsCounted(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		api, body string
		want      int64
	}{
		{"chat", sse(`{"choices":[{"delta":{"role":"","content":"hello"}}]}`, `{"choices":[{"delta":{"content":" wor\"d"}}]}`), 12},
		{"chat", sse(`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}}]}`), 9},
		{"responses", sse(`{"type":"response.output_text.delta","delta":"hello","item_id":"abc"}`), 5},
		{"messages", sse(`{"type":"content_block_delta","delta":{"type":"","text":"hello"}}`), 5},
		{"messages", sse(`{"delta":{"text" : "a" , "more" : ["b", {"c":"d"}] }}`), 3},
		{"messages", sse(`{"delta":"\\"}`), 2},
	} {
		if _, _, got := gateway.Usage(row.api, []byte(row.body)); got != row.want {
			t.Errorf("%s: got %d, want %d", row.body, got, row.want)
		}
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	const key = "sk-abcabcabd/+xyz"
	const other = "sk-abcabcabd%2F%2Bxyz" // as in an address
	for _, row := range []struct{ in, want string }{
		{"nothing to hide", "nothing to hide"},
		{key, "[redacted]"},
		{"a" + key + "b" + key, "a[redacted]b[redacted]"},
		{key + key, "[redacted][redacted]"},
		{"sk-abcabc" + key, "sk-abcabc[redacted]"},
		{"a " + other + " b", "a [redacted] b"},
		{`"sk-abcabcabd\/+xyz"`, `"[redacted]"`},
		{"sk-abcabcabd/+xy", "sk-abcabcabd/+xy"},
		{"ends with sk-abc", "ends with sk-abc"},
	} {
		for seed := range uint64(20) {
			if got := strings.Join(gateway.Mask(key, cut([]byte(row.in), seed)...), ""); got != row.want {
				t.Fatalf("%q: got %q, want %q", row.in, got, row.want)
			}
		}
	}
}

// TestMaskHoldsNothingElseBack: what cannot be the beginning of the key goes on at once.
func TestMaskHoldsNothingElseBack(t *testing.T) {
	t.Parallel()
	got := gateway.Mask("sk-0123456789", []byte("data: a\n\n"), []byte("x sk-01"), []byte("2y s"), []byte("t\n\n"))
	want := []string{"data: a\n\n", "x ", "sk-012y ", "st\n\n", ""}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := gateway.Mask("ollama", []byte("ask ollama")); got[0] != "ask ollama" {
		t.Errorf("got %q: a word is no key", got)
	}
}

// FuzzMask: however a stream is cut, the key is not in what is passed on, and nothing else is missing.
func FuzzMask(f *testing.F) {
	f.Add(uint64(1), "sk-0123456789ab", []byte("a sk-0123456789ab b"))
	f.Add(uint64(2), "aaaaaaaaaaaaa", []byte(strings.Repeat("a", 40)))
	f.Add(uint64(3), "abababababababab", []byte("xxabababababababababababyy"))
	f.Fuzz(func(t *testing.T, seed uint64, key string, body []byte) {
		if len(key) > 200 || len(body) > 2000 || strings.ContainsAny(key, "[]") {
			return // "[redacted]" itself could make such a key
		}
		got := strings.Join(gateway.Mask(key, cut(body, seed)...), "")
		if len(key) < 12 {
			if got != string(body) {
				t.Fatalf("got %q, want it unchanged", got)
			}
			return
		}
		if strings.Contains(got, key) {
			t.Fatalf("the key is in %q", got)
		}
		if whole := strings.Join(gateway.Mask(key, body), ""); !strings.Contains(string(body), key) && len(body) == len(whole) && got != string(body) {
			t.Fatalf("got %q, want it unchanged", got)
		}
	})
}

func TestSameModel(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		asked, answered string
		want            bool
	}{
		{"gpt-5", "gpt-5", true},
		{"gpt-5", "gpt-5-2025-08-07", true},
		{"claude-sonnet-4-5", "claude-sonnet-4-5-20250929", true},
		{"claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", true},
		{"gpt-4-0613", "gpt-4", true},
		{"openai/gpt-5", "gpt-5-2025-08-07", true},
		{"gemini-2.5-pro", "models/gemini-2.5-pro", true},
		{"GLM-4.6", "glm-4.6", true},
		{"llama3", "llama3:latest", true},
		{"gemini-2.5-flash", "gemini-2.5-flash-001", true},
		{"gpt-5", "gpt-5-mini", false},
		{"gpt-5", "gpt-5-mini-2025-08-07", false},
		{"glm-5.2", "glm-5.3", false},
		{"kimi-k2-0905", "kimi-k2-0711", false},
		{"qwen3:30b", "qwen3:4b", false},
		{"phi", "phi-4", false},
		{"gpt-5", "gpt-4", false},
		{"gpt-5", "gpt-5.1", false},
	} {
		if got := gateway.SameModel(row.asked, row.answered); got != row.want {
			t.Errorf("%s answered as %s: got %v", row.asked, row.answered, got)
		}
	}
}
