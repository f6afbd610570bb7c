package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/gateway"
)

// TestKey: the worker has a token and an address of this machine, the provider gets the key, and nothing
// of the worker's header that it does not need.
func TestKey(t *testing.T) {
	t.Parallel()
	for api, its := range apis {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			p := serve(t, answer(200, map[string]string{"Content-Type": "application/json"}, its.answer))
			g := start(t, gateway.Options{Upstream: p.URL + "/base/", API: api, Key: " " + theKey + "\n"})
			r := g.request(t, its.body)
			r.Header.Set("User-Agent", "worker/1")
			r.Header.Set("Cookie", "a=b")
			r.Header.Set("X-Stainless-OS", "Linux")
			r.Header.Set("Forwarded", "for=1")
			r.Header.Set("Accept-Encoding", "gzip")
			r.Header.Set("Anthropic-Beta", "context-management-2025-06-27")
			r.Header.Set("Anthropic-Version", "2023-06-01")
			if got := do(r); got.status != 200 || got.body != its.answer {
				t.Fatalf("got %s", got)
			}
			sent := p.requests()[0]
			if sent.URL.Path != its.upstream || sent.Method != http.MethodPost || sent.Host != strings.TrimPrefix(p.URL, "http://") {
				t.Errorf("got %s %s %s", sent.Method, sent.Host, sent.URL)
			}
			header := http.Header{
				"Authorization": {"Bearer " + theKey}, "Content-Type": {"application/json"}, "Accept": {"application/json"},
				"Accept-Encoding": {"identity"}, "User-Agent": {"git-spot"}, "Content-Length": {fmt.Sprint(len(its.body))},
			}
			if api == "messages" {
				header["X-Api-Key"] = []string{theKey}
				header["Anthropic-Version"], header["Anthropic-Beta"] = []string{"2023-06-01"}, []string{"context-management-2025-06-27"}
			}
			if got, want := fmt.Sprint(sent.Header), fmt.Sprint(header); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if body, err := io.ReadAll(sent.Body); err != nil || string(body) != its.body {
				t.Errorf("got %s, %v", body, err)
			}
			if usages, warnings := g.said(); !slices.Equal(usages, []string{"in 10 read - write - out 5 reason -"}) || len(warnings) > 0 {
				t.Errorf("got %q and warnings %q", usages, warnings)
			}
		})
	}
}

func TestWithoutKey(t *testing.T) {
	t.Parallel()
	p := serve(t, answer(200, nil, apis["chat"].answer))
	g := start(t, gateway.Options{Upstream: p.URL})
	if got := g.post(t, apis["chat"].body); got.status != 200 {
		t.Fatalf("got %s", got)
	}
	if got := p.requests()[0].Header; got.Get("Authorization") != "" || got.Get("X-Api-Key") != "" {
		t.Errorf("got %v: the worker's token is nothing to the provider", got)
	}
}

// TestBaseURL: both ways of writing the base URL of messages, and queries that a base URL has.
func TestBaseURL(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ api, base, query, want string }{
		{"messages", "", "?beta=true", "/v1/messages?beta=true"},
		{"messages", "/v1", "", "/v1/messages"},
		{"messages", "/anthropic/v1/", "?beta=true&x=1", "/anthropic/v1/messages"},
		{"messages", "/anthropic?v=1", "?beta=true", "/anthropic/v1/messages?v=1&beta=true"},
		{"chat", "/api/paas/v4", "?x=1", "/api/paas/v4/chat/completions"},
		{"chat", "/v1/?api-version=1", "", "/v1/chat/completions?api-version=1"},
		{"responses", "/v1#fragment", "", "/v1/responses"},
	} {
		t.Run(row.api+row.base+row.query, func(t *testing.T) {
			t.Parallel()
			p := serve(t, answer(200, nil, "{}"))
			g := start(t, gateway.Options{Upstream: p.URL + row.base, API: row.api})
			r := g.request(t, apis[row.api].body)
			r.URL.RawQuery = strings.TrimPrefix(row.query, "?")
			if got := do(r); got.status != 200 {
				t.Fatalf("got %s", got)
			}
			if got := p.requests()[0].URL.String(); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// TestAccess: what a worker, or a page in a browser, may not have never gets to the provider.
func TestAccess(t *testing.T) {
	t.Parallel()
	for api, its := range apis {
		p := serve(t, answer(200, nil, its.answer))
		g := start(t, gateway.Options{Upstream: p.URL, API: api, Key: theKey})
		base := strings.TrimSuffix(g.BaseURL(), "/v1")
		for _, row := range []struct {
			name, method, path string
			change             func(*http.Request)
			status             int
			kind               string // type of the error in the format of messages, else its code or type
		}{
			{"no token", "POST", "", func(r *http.Request) { r.Header.Del("Authorization") }, 401, "authentication_error invalid_api_key"},
			{"another token", "POST", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+theKey) }, 401, "authentication_error invalid_api_key"},
			{"an empty token", "POST", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, 401, "authentication_error invalid_api_key"},
			{"the token in the query alone", "POST", "", func(r *http.Request) { r.URL.RawQuery = "key=" + g.Token(); r.Header.Del("Authorization") }, 401, "authentication_error invalid_api_key"},
			{"the token as x-api-key", "POST", "", func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Set("X-Api-Key", g.Token()) }, 200, ""},
			{"the token beside another key", "POST", "", func(r *http.Request) { r.Header.Set("X-Api-Key", "none") }, 200, ""},
			{"a name that leads here", "POST", "", func(r *http.Request) { r.Host = "evil.example:80" }, 403, "permission_error invalid_request_error"},
			{"no name", "POST", "", func(r *http.Request) { r.Host = "0.0.0.0" }, 403, "permission_error invalid_request_error"},
			{"localhost", "POST", "", func(r *http.Request) { r.Host = "LocalHost:1" }, 200, ""},
			{"loopback of the sixth version", "POST", "", func(r *http.Request) { r.Host = "[::1]" }, 200, ""},
			{"a page", "POST", "", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1") }, 403, "permission_error invalid_request_error"},
			{"a page without an origin", "POST", "", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403, "permission_error invalid_request_error"},
			{"another method", "GET", "", nil, 405, "invalid_request_error"},
			{"another method", "DELETE", "", nil, 405, "invalid_request_error"},
			{"another path", "POST", "/v1/files", nil, 404, "not_found_error invalid_request_error"},
			{"another path", "POST", "/v1/batches", nil, 404, "not_found_error invalid_request_error"},
			{"another path", "GET", "/", nil, 404, "not_found_error invalid_request_error"},
			{"a path with detours", "POST", "/v1/x/.." + strings.TrimPrefix(its.path, "/v1"), nil, 404, "not_found_error invalid_request_error"},
			{"a path with a double slash", "POST", "//v1" + strings.TrimPrefix(its.path, "/v1"), nil, 404, "not_found_error invalid_request_error"},
			{"a path below", "POST", "/v1" + strings.TrimPrefix(its.path, "/v1") + "/x", nil, 404, "not_found_error invalid_request_error"},
			{"a body that is no JSON", "POST", "", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415, "invalid_request_error"},
			{"a body that is compressed", "POST", "", func(r *http.Request) { r.Header.Set("Content-Encoding", "zstd") }, 415, "invalid_request_error"},
			{"a change of the list of models", "POST", "/v1/models", nil, 405, "invalid_request_error"},
		} {
			t.Run(api+" "+row.name, func(t *testing.T) {
				t.Parallel()
				r := g.request(t, its.body)
				r.Method = row.method
				if row.path != "" {
					u := strings.SplitN(base, "://", 2)
					r.URL.Scheme, r.URL.Host, r.URL.Path = u[0], u[1], row.path
				}
				if row.change != nil {
					row.change(r)
				}
				got := do(r)
				if got.status != row.status || got.err != nil {
					t.Fatalf("got %s, want %d", got, row.status)
				}
				if row.status == 200 {
					return
				}
				var e struct {
					Type  string
					Error struct{ Type, Code, Message string }
				}
				if err := json.Unmarshal([]byte(got.body), &e); err != nil || e.Error.Message == "" {
					t.Fatalf("got %s, want an error of the API", got.body)
				}
				if api == "messages" && e.Type != "error" {
					t.Errorf("got %s, want the type error", got.body)
				}
				if !slices.Contains(strings.Fields(row.kind), e.Error.Type) && !slices.Contains(strings.Fields(row.kind), e.Error.Code) {
					t.Errorf("got %s, want %s", got.body, row.kind)
				}
			})
		}
		t.Cleanup(func() {
			if got := len(p.requests()); got != 4 && !t.Failed() {
				t.Errorf("%s: the provider got %d requests, want the 4 that are allowed", api, got)
			}
		})
	}
}

// TestRefusedRequestsAreNotSent: the reasons are in TestRequestsThatAreRefused.
func TestRefusedRequestsAreNotSent(t *testing.T) {
	t.Parallel()
	p := serve(t, answer(200, nil, "{}"))
	g := start(t, gateway.Options{Upstream: p.URL})
	for body, status := range map[string]int{
		`{"model":"other","messages":[]}`:                         404,
		`{"model":"m","tools":[{"type":"web_search"}]}`:           400,
		`{"model":"m","model":"m"}`:                               400,
		`{"model":"m","x":"` + strings.Repeat("x", 32<<20) + `"}`: 413,
	} {
		if got := g.post(t, body); got.status != status || !strings.Contains(got.body, `"error"`) {
			t.Errorf("%.60s: got %s, want %d", body, got, status)
		}
	}
	chunked := g.request(t, "")
	chunked.Body, chunked.ContentLength = io.NopCloser(io.LimitReader(spaces{}, 33<<20)), -1
	if got := do(chunked); got.status != 413 {
		t.Errorf("a long body in pieces: got %s, want 413", got)
	}
	if got := p.requests(); len(got) > 0 {
		t.Errorf("the provider got %d requests", len(got))
	}
}

// spaces is JSON that has not begun yet.
type spaces struct{}

var blank = bytes.Repeat([]byte(" "), 32<<10)

func (spaces) Read(p []byte) (int, error) { return copy(p, blank), nil }

func TestModels(t *testing.T) {
	t.Parallel()
	for api := range apis {
		p := serve(t, answer(200, nil, "{}"))
		g := start(t, gateway.Options{Upstream: p.URL, API: api, Model: `org/m"1`, Key: theKey})
		r := g.request(t, "")
		r.Method, r.URL.Path = http.MethodGet, "/v1/models"
		got := do(r)
		var list struct{ Data []struct{ ID string } }
		if err := json.Unmarshal([]byte(got.body), &list); err != nil || got.status != 200 || len(list.Data) != 1 || list.Data[0].ID != `org/m"1` {
			t.Errorf("%s: got %s, want the one model", api, got)
		}
		if got := p.requests(); len(got) > 0 {
			t.Errorf("%s: the provider was asked", api)
		}
	}
}

func TestCountTokens(t *testing.T) {
	t.Parallel()
	p := serve(t, answer(200, nil, `{"input_tokens":14}`))
	g := start(t, gateway.Options{Upstream: p.URL, API: "messages"})
	r := g.request(t, apis["messages"].body)
	r.URL.Path += "/count_tokens"
	if got := do(r); got.status != 200 || got.body != `{"input_tokens":14}` {
		t.Fatalf("got %s", got)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if usages, warnings := g.said(); len(usages)+len(warnings) > 0 {
		t.Errorf("got %q and %q: counting costs nothing", usages, warnings)
	}
	if got := p.requests()[0].URL.Path; got != "/v1/messages/count_tokens" {
		t.Errorf("got %s", got)
	}
}

// TestRedirect: the key goes to nobody whom the provider names.
func TestRedirect(t *testing.T) {
	t.Parallel()
	other := serve(t, answer(200, nil, "{}"))
	for _, status := range []int{301, 302, 303, 307, 308, 304, 300} {
		p := serve(t, answer(status, map[string]string{"Location": other.URL}, ""))
		g := start(t, gateway.Options{Upstream: p.URL, Key: theKey})
		if got := g.post(t, apis["chat"].body); got.status != 404 || !strings.Contains(got.body, "redirects") || got.header.Get("Location") != "" {
			t.Errorf("%d: got %s", status, got)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if usages, warnings := g.said(); len(usages)+len(warnings) > 0 {
			t.Errorf("%d: got %q and %q", status, usages, warnings)
		}
	}
	if got := other.requests(); len(got) > 0 {
		t.Errorf("it went there: %v", got[0].Header)
	}
}

// TestAnswerHeader: the worker gets the header that it needs, and nothing of the account.
func TestAnswerHeader(t *testing.T) {
	t.Parallel()
	p := serve(t, answer(429, map[string]string{
		"Content-Type": "application/json", "Retry-After": "7", "X-Request-Id": "r " + theKey, "X-Ratelimit-Remaining-Tokens": "5",
		"Anthropic-Ratelimit-Tokens-Reset": "x", "Set-Cookie": "a=b", "Openai-Organization": "acme", "Server": "x", "Location": "/x",
		"Content-Security-Policy": "x", "Request-Id": strings.Repeat("x", 2000),
	}, `{"error":{"message":"slow down"}}`))
	g := start(t, gateway.Options{Upstream: p.URL, Key: theKey})
	got := g.post(t, apis["chat"].body)
	got.header.Del("Date")
	got.header.Del("Connection")
	want := http.Header{
		"Content-Type": {"application/json"}, "Retry-After": {"7"}, "X-Request-Id": {"r [redacted]"},
		"X-Ratelimit-Remaining-Tokens": {"5"}, "Anthropic-Ratelimit-Tokens-Reset": {"x"},
	}
	if fmt.Sprint(got.header) != fmt.Sprint(want) || got.status != 429 || got.body != `{"error":{"message":"slow down"}}` {
		t.Errorf("got %s %v, want %v", got, got.header, want)
	}
	if usages, warnings := g.said(); len(usages)+len(warnings) > 0 {
		t.Errorf("got %q and %q: a refusal costs nothing", usages, warnings)
	}
}

// TestKeyInAnswer: a provider that says the key again says it to nobody.
func TestKeyInAnswer(t *testing.T) {
	t.Parallel()
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text := "data: you sent " + r.Header.Get("Authorization") + "\n\ndata: and " + r.Header.Get("Authorization")[:20] + "\n\n"
		for i := range text {
			_, _ = io.WriteString(w, text[i:i+1])
			_ = http.NewResponseController(w).Flush()
		}
	})
	g := start(t, gateway.Options{Upstream: p.URL, Key: theKey})
	got := g.post(t, asStream("chat"))
	want := "data: you sent Bearer [redacted]\n\ndata: and Bearer " + theKey[:13] + "\n\n"
	if got.body != want || got.err != nil {
		t.Errorf("got %q, %v, want %q", got.body, got.err, want)
	}
}

// TestStart: what cannot be safe does not start, and says why without the key.
func TestStart(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ upstream, key, says, warns string }{
		{"https://api.example.com/v1", theKey, "", ""},
		{"http://127.0.0.1:11434/v1", theKey, "", ""},
		{"http://localhost:11434/v1", theKey, "", ""},
		{"http://[::1]:1/v1", theKey, "", ""},
		{"http://192.168.1.9/v1", theKey, "", "the key goes to 192.168.1.9 unencrypted"},
		{"http://[fd00::1]:80/v1", theKey, "", "the key goes to [fd00::1]:80 unencrypted"},
		{"http://100.64.1.1/v1", theKey, "", "the key goes to 100.64.1.1 unencrypted"},
		{"http://gpu-box:8000/v1", theKey, "", "the key goes to gpu-box:8000 unencrypted"},
		{"http://gpu.local/v1", theKey, "", "the key goes to gpu.local unencrypted"},
		{"http://gpu.local/v1", "", "", ""},
		{"http://api.example.com/v1", "", "", ""},
		{"http://api.example.com/v1", theKey, "must begin with https://", ""},
		{"http://8.8.8.8/v1", theKey, "must begin with https://", ""},
		{"http://127.0.0.1.example.com/v1", theKey, "must begin with https://", ""},
		{"http://[::ffff:8.8.8.8]/v1", theKey, "must begin with https://", ""},
		{"http://0.0.0.0/v1", theKey, "must begin with https://", ""},
		{"https://user:password@x/v1", "", "name or a password", ""},
		{"ftp://x/v1", theKey, "must be https://HOST/PATH", ""},
		{"https:///v1", theKey, "must be https://HOST/PATH", ""},
		{"api.example.com/v1", theKey, "must be https://HOST/PATH", ""},
		{"", theKey, "must be https://HOST/PATH", ""},
		{"https://x\x7f" + theKey, "", "must be https://HOST/PATH", ""},
		{"https://x/v1", "sk-\r\nX-Other: 1", "bytes that no key has", ""},
		{"https://x/v1", "sk-ключ", "bytes that no key has", ""},
	} {
		g, err := tryStart(t, gateway.Options{Upstream: row.upstream, Key: row.key}, gateway.Bounds{})
		switch {
		case row.says == "" && err != nil:
			t.Errorf("%q: %v", row.upstream, err)
		case row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says) || strings.Contains(err.Error(), theKey)):
			t.Errorf("%q: got %v, want %q", row.upstream, err, row.says)
		}
		if err == nil {
			if _, warnings := g.said(); strings.Join(warnings, ";") != row.warns {
				t.Errorf("%q: got warnings %q, want %q", row.upstream, warnings, row.warns)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, o := range []gateway.Options{{API: "gemini", Upstream: "https://x"}, {API: "chat", Model: "", Upstream: "https://x"}} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gateway.Start(t.Context(), ln, o); err == nil {
			t.Errorf("%+v: it has started", o)
		}
		if err := ln.Close(); err != nil {
			t.Errorf("the listener is the caller's if it does not start: %v", err)
		}
	}
	everywhere, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer everywhere.Close() //nolint:errcheck // nothing came of it
	if _, err := gateway.Start(t.Context(), everywhere, gateway.Options{API: "chat", Model: "m", Upstream: "https://x"}); err == nil {
		t.Error("it has started on every interface")
	}
}

// TestNameThatLeadsElsewhere: a name of the own network that has an address of the Internet does not get
// the key unencrypted.
func TestNameThatLeadsElsewhere(t *testing.T) {
	t.Parallel()
	if err := gateway.Reaches("gpu-box", "8.8.8.8:80", theKey); err == nil || !strings.Contains(err.Error(), "unencrypted") {
		t.Errorf("got %v", err)
	}
	if err := gateway.Reaches("gpu-box", "192.168.1.1:80", theKey); err != nil {
		t.Errorf("got %v", err)
	}
}

// TestModelThatAnswers: a server that says it is another model is reported once each.
func TestModelThatAnswers(t *testing.T) {
	t.Parallel()
	names := make(chan string, 40)
	p := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"model": <-names, "usage": map[string]any{}})
	})
	g := start(t, gateway.Options{Upstream: p.URL, Model: "m%d", Key: theKey})
	for _, name := range []string{"m%d-20250101", "other\x1b[31m", "other\x1b[31m", strings.Repeat("x", 500)} {
		names <- name
		g.post(t, `{"model":"m%d"}`)
	}
	_, warnings := g.said()
	want := []string{
		`the model m%d was asked, and one that calls itself "other\x1b[31m" answered`,
		`the model m%d was asked, and one that calls itself "` + strings.Repeat("x", 100) + `..." answered`,
	}
	if !slices.Equal(warnings, want) {
		t.Errorf("got %q, want %q", warnings, want)
	}
	for i := range 20 {
		names <- fmt.Sprint("other", i)
		g.post(t, `{"model":"m%d","a`+fmt.Sprint(i)+`":1}`)
	}
	if _, warnings := g.said(); len(warnings) != 16 {
		t.Errorf("got %d warnings, want 8 of each kind: they can be made up", len(warnings))
	}
}
