package model_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/git-spot/git-spot/internal/agent/model"
)

// TestClassify holds what providers are known to say, in their words.
func TestClassify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		status  int
		body    string
		class   model.Class
		tooLong bool
		message string // a part
	}{
		{"OpenAI key", 401, `{"error":{"message":"Incorrect API key provided: sk-x.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, model.ClassAuth, false, "Incorrect API key"},
		{"OpenAI quota", 429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, model.ClassQuota, false, "quota"},
		{"OpenAI rate", 429, `{"error":{"message":"Rate limit reached for gpt-5 on tokens per min","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, model.ClassRateLimit, false, "Rate limit"},
		{"OpenAI context", 400, `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, model.ClassCapability, true, "maximum context length"},
		{"OpenAI model", 404, `{"error":{"message":"The model 'gpt-9' does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, model.ClassSetup, false, "gpt-9"},
		{"OpenAI server", 500, `{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}`, model.ClassTransient, false, "The server had"},
		{"OpenAI parameter", 400, `{"error":{"message":"Unsupported parameter: 'x'","type":"invalid_request_error","param":"x","code":"unsupported_parameter"}}`, model.ClassPermanent, false, "Unsupported"},
		{"OpenAI region", 403, `{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","param":null,"type":"request_forbidden"}}`, model.ClassAuth, false, "region"},
		{"OpenAI stream", 0, `{"error":{"message":"The server had an error while processing your request","type":"server_error","param":null,"code":null}}`, model.ClassTransient, false, "The server had"},
		{"OpenAI stream, context", 0, `{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}`, model.ClassCapability, true, "exceeds"},
		{"OpenAI stream, rate", 0, `{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Rate limit reached"}}}`, model.ClassRateLimit, false, "Rate limit"},
		{"OpenAI stream, event", 0, `{"type":"error","code":"invalid_prompt","message":"flagged","param":null,"sequence_number":3}`, model.ClassPermanent, false, "flagged"},
		{"Anthropic key", 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, model.ClassAuth, false, "x-api-key"},
		{"Anthropic quota", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`, model.ClassQuota, false, "credit"},
		{"Anthropic rate", 429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 40,000 input tokens per minute"}}`, model.ClassRateLimit, false, "rate limit"},
		{"Anthropic context", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, model.ClassCapability, true, "too long"},
		{"Anthropic size", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, model.ClassCapability, true, "size"},
		{"Anthropic model", 404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}`, model.ClassSetup, false, "claude-9"},
		{"Anthropic overloaded", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, model.ClassTransient, false, "Overloaded"},
		{"Anthropic stream", 0, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, model.ClassTransient, false, "Overloaded"},
		{"Anthropic stream, request", 0, `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`, model.ClassPermanent, false, "no"},
		{"DeepSeek balance", 402, `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`, model.ClassQuota, false, "Balance"},
		{"DeepSeek model", 400, `{"error":{"message":"Model Not Exist","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, model.ClassSetup, false, "Model Not Exist"},
		{"Moonshot quota", 429, `{"error":{"message":"Your account is suspended, please check your plan and billing details","type":"exceeded_current_quota_error"}}`, model.ClassQuota, false, "suspended"},
		{"Moonshot busy", 429, `{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}}`, model.ClassRateLimit, false, "overloaded"},
		{"GLM balance", 429, `{"error":{"code":"1113","message":"余额不足或无可用资源包,请充值。"}}`, model.ClassQuota, false, "余额"},
		{"GLM rate", 429, `{"error":{"code":"1302","message":"您的账户已达到速率限制"}}`, model.ClassRateLimit, false, "速率"},
		{"MiniMax balance", 200, `{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, model.ClassQuota, false, "insufficient"},
		{"MiniMax key", 200, `{"base_resp":{"status_code":1004,"status_msg":"login fail: Please carry the API secret key"}}`, model.ClassAuth, false, "login fail"},
		{"Qwen filter", 400, `{"error":{"message":"Input data may contain inappropriate content.","code":"data_inspection_failed"}}`, model.ClassPermanent, false, "inappropriate"},
		{"Qwen context", 400, `{"error":{"code":"invalid_parameter_error","message":"Range of input length should be [1, 129024]","type":"invalid_request_error"}}`, model.ClassCapability, true, "Range"},
		{"Qwen arrears", 400, `{"error":{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing.","type":"Arrearage"}}`, model.ClassQuota, false, "standing"},
		{"Volcengine overdue", 403, `{"error":{"code":"AccountOverdueError","message":"The request failed because your account has an overdue balance.","type":"Forbidden"}}`, model.ClassQuota, false, "overdue"},
		{"Gemini minute", 429, `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}]`, model.ClassRateLimit, false, "quota"},
		{"Gemini key", 400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, model.ClassAuth, false, "not valid"},
		{"OpenRouter tools", 404, `{"error":{"message":"No endpoints found that support tool use.","code":404}}`, model.ClassCapability, false, "tool use"},
		{"OpenRouter stream", 0, `{"id":"x","error":{"code":429,"message":"Provider returned error","metadata":{"raw":"slow down","provider_name":"x"}},"choices":[]}`, model.ClassRateLimit, false, "slow down"},
		{"Ollama tools", 400, `{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error","param":null,"code":null}}`, model.ClassCapability, false, "gemma"},
		{"Ollama model", 404, `{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error"}}`, model.ClassSetup, false, "pulling"},
		{"Ollama, its own form", 404, `{"error":"model 'x' not found"}`, model.ClassSetup, false, "'x'"},
		{"llama.cpp context", 400, `{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (4096 tokens)","type":"exceed_context_size_error"}}`, model.ClassCapability, true, "available"},
		{"llama.cpp tools", 500, `{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}`, model.ClassCapability, false, "jinja"},
		{"llama.cpp loading", 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, model.ClassTransient, false, "Loading"},
		{"vLLM tools", 400, `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","param":null,"code":400}`, model.ClassCapability, false, "auto"},
		{"FastAPI", 422, `{"detail":[{"loc":["body"],"msg":"field required","type":"value_error.missing"}]}`, model.ClassPermanent, false, "field required"},
		{"the gateway", 402, `{"error":{"message":"the budget of this run is spent","type":"budget_exceeded","param":null,"code":"budget_exceeded"}}`, model.ClassBudget, false, "spent"},
		{"the gateway, messages", 402, `{"type":"error","error":{"type":"budget_exceeded","message":"the budget of this run is spent"}}`, model.ClassBudget, false, "spent"},
		{"a proxy", 502, "<html><body>Bad Gateway</body></html>", model.ClassTransient, false, "Bad Gateway"},
		{"plain text", 500, "upstream connect error", model.ClassTransient, false, "upstream"},
		{"nothing", 403, "", model.ClassAuth, false, "Forbidden"},
		{"a page", 200, "<html>Welcome</html>", model.ClassSetup, false, "no stream of events"},
		{"no page", 404, "404 page not found", model.ClassSetup, false, "page not found"},
		{"elsewhere", 302, "", model.ClassSetup, false, "Found"},
		{"a conflict", 409, "{}", model.ClassTransient, false, "Conflict"},
		{"a teapot", 418, "{}", model.ClassPermanent, false, "teapot"},
		{"deep", 400, strings.Repeat(`{"error":`, 5000) + "1" + strings.Repeat("}", 5000), model.ClassPermanent, false, "Bad Request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := model.Classify(c.status, []byte(c.body))
			if e.Class != c.class || e.TooLong != c.tooLong || !strings.Contains(e.Message, c.message) || e.Status != c.status {
				t.Errorf("got %+v", e)
			}
		})
	}
	if e := model.Classify(429, []byte(`[{"error":{"code":429,"details":[{"retryDelay":"34.5s"}]}}]`)); e.RetryAfter != 34500*time.Millisecond {
		t.Errorf("Gemini's delay is %v", e.RetryAfter)
	}
	long := model.Classify(500, []byte(strings.Repeat("é\x1b[31m\n", 100_000)))
	if len(long.Message) > 700 || !utf8.ValidString(long.Message) || strings.Contains(long.Message, "\n") {
		t.Errorf("a message of %d bytes: %q", len(long.Message), long.Message)
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(0, []byte(`{"error":{"message":"a","code":429}}`))
	f.Add(500, []byte(`[{"error":[{"error":{"detail":[1,null,{"msg":"x"}]}}]}]`))
	f.Add(200, []byte("\xff<html>"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := model.Classify(status, body)
		if e.Class == "" || e.Message == "" && http.StatusText(status) != "" || len(e.Message) > 700 || e.RetryAfter < 0 || e.TooLong && e.Class != model.ClassCapability {
			t.Errorf("got %+v", e)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"30":                            30 * time.Second,
		" 1.5 ":                         1500 * time.Millisecond,
		"0":                             0,
		"-5":                            0,
		"soon":                          0,
		"NaN":                           0,
		"1e300":                         365 * 24 * time.Hour,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute,
		"Fri, 02 Jan 2026 03:00:00 GMT": 0,
	} {
		if got := model.RetryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q is %v, want %v", value, got, want)
		}
	}
	if got := model.RetryAfter(http.Header{"Retry-After-Ms": {"250"}, "Retry-After": {"1"}}, now); got != 250*time.Millisecond {
		t.Errorf("milliseconds: %v", got)
	}
}
