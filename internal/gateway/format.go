package gateway

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/git-spot/git-spot/schemas"
)

// format is a wire format: what a gateway must know of one.
type format struct {
	base      string           // what follows the address in the base URL that the worker is given
	upstream  func(*url.URL)   // makes of a profile's base URL what the routes' paths follow
	routes    map[string]route // by path
	authorize func(h http.Header, host, key string)
	forward   func(to, from http.Header) // headers beside those that every request has
	member    func(r *rewriter, name string) error
	askUsage  bool // usage comes in a stream only if it is asked for
	usage     func(wireUsage) schemas.Usage
	problem   func(p problem) any
	models    func(model string) any
}

// route is one path that a worker may use.
type route struct {
	path  string // after the upstream; "" is answered by the gateway itself
	free  bool   // the model does not work on it
	query string // the only query that is passed on
}

// formats returns the format that a profile calls api.
func formats(api string) (format, bool) {
	openai := format{
		base: "/v1", authorize: bearer, forward: openaiHeader, problem: openaiProblem, models: openaiModels,
		upstream: func(*url.URL) {},
	}
	switch api {
	case "chat":
		openai.routes = map[string]route{"/v1/chat/completions": {path: "/chat/completions"}, "/v1/models": {}}
		openai.member, openai.usage, openai.askUsage = (*rewriter).chat, chatUsage, true
		return openai, true
	case "responses":
		openai.routes = map[string]route{"/v1/responses": {path: "/responses"}, "/v1/models": {}}
		openai.member, openai.usage = (*rewriter).responses, responsesUsage
		return openai, true
	case "messages":
		return format{
			routes: map[string]route{
				"/v1/messages":              {path: "/v1/messages", query: "beta=true"},
				"/v1/messages/count_tokens": {path: "/v1/messages/count_tokens", query: "beta=true", free: true},
				"/v1/models":                {},
			},
			upstream:  func(u *url.URL) { u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1") },
			authorize: anthropicKey, forward: anthropicHeader, problem: anthropicProblem, models: anthropicModels,
			member: (*rewriter).messages, usage: messagesUsage,
		}, true
	}
	return format{}, false
}

func bearer(h http.Header, _, key string) { h.Set("Authorization", "Bearer "+key) }

// anthropicKey presents the key as Anthropic wants it; others that speak its format want either of two.
func anthropicKey(h http.Header, host, key string) {
	h.Set("X-Api-Key", key)
	if host != "api.anthropic.com" {
		bearer(h, host, key)
	}
}

func openaiHeader(to, from http.Header) { beta(to, from, "Openai-Beta") }

func anthropicHeader(to, from http.Header) {
	version := from.Get("Anthropic-Version")
	if len(version) != len("2023-06-01") || strings.Trim(version, "0123456789-") != "" {
		version = "2023-06-01"
	}
	to.Set("Anthropic-Version", version)
	beta(to, from, "Anthropic-Beta")
}

// beta passes on the names of what is being tried out. Such a name does no more than to make members,
// tools or values of a request known to the server, and those are looked at one by one.
func beta(to, from http.Header, name string) {
	const most = 2 << 10
	if value := strings.Join(from.Values(name), ","); value != "" && len(value) <= most &&
		strings.Trim(strings.ToLower(value), "abcdefghijklmnopqrstuvwxyz0123456789-_.,= ") == "" {
		to.Set(name, value)
	}
}

// problem is an error that the gateway itself answers with.
type problem struct {
	status  int
	code    string // of ours; "" is that of the status
	message string
}

func (p *problem) Error() string { return p.message }

// codeBudget is how the worker tells the end of its budget from a provider's errors.
const codeBudget = "budget_exceeded"

func openaiProblem(p problem) any {
	kind, code := "invalid_request_error", any(nil)
	switch {
	case p.code == codeBudget:
		kind = codeBudget
	case p.status == http.StatusTooManyRequests:
		kind, code = "rate_limit_error", "rate_limit_exceeded"
	case p.status >= 500:
		kind, code = "server_error", "upstream_error"
	}
	if p.code != "" {
		code = p.code
	}
	return map[string]any{"error": map[string]any{"message": p.message, "type": kind, "param": nil, "code": code}}
}

func anthropicProblem(p problem) any {
	kind := map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
		http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
		http.StatusTooManyRequests: "rate_limit_error", http.StatusGatewayTimeout: "timeout_error",
		http.StatusPaymentRequired: codeBudget,
	}[p.status]
	switch {
	case kind != "":
	case p.status >= 500:
		kind = "api_error"
	default:
		kind = "invalid_request_error"
	}
	return map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": p.message}}
}

// The list of models is the one that may be asked, and nothing that the account has beside it.

func openaiModels(model string) any {
	return map[string]any{
		"object": "list",
		"data":   []any{map[string]any{"id": model, "object": "model", "created": 0, "owned_by": "git-spot"}},
	}
}

func anthropicModels(model string) any {
	return map[string]any{
		"data": []any{map[string]any{
			"id": model, "type": "model", "display_name": model, "created_at": "1970-01-01T00:00:00Z",
		}},
		"has_more": false, "first_id": model, "last_id": model,
	}
}

// encoded is v as JSON.
func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings
	}
	return data
}
