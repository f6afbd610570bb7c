package gateway_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/git-spot/git-spot/internal/gateway"
	"github.com/git-spot/git-spot/internal/scriptedmodel"
	"github.com/git-spot/git-spot/schemas"
)

const theKey = "sk-the-users-own-key-0123456789abcdef"

// bodies is a minimal request of each API.
func bodies(api, model string, stream bool) string {
	s := "false"
	if stream {
		s = "true"
	}
	switch api {
	case "responses":
		return `{"model":"` + model + `","stream":` + s + `,"input":"go"}`
	case "messages":
		return `{"model":"` + model + `","stream":` + s + `,"max_tokens":1000,"messages":[{"role":"user","content":"go"}]}`
	}
	return `{"model":"` + model + `","stream":` + s + `,"messages":[{"role":"user","content":"go"}]}`
}

var paths = map[string]string{"chat": "/chat/completions", "responses": "/responses", "messages": "/v1/messages"}

// run is a gateway under test and what it said.
type run struct {
	*gateway.Gateway
	api string

	mu      sync.Mutex
	usages  []schemas.Usage
	warns   []string
	refused int
}

func start(t *testing.T, o gateway.Options) *run { return startWith(t, o, gateway.Patience{}) }

func startWith(t *testing.T, o gateway.Options, p gateway.Patience) *run {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &run{api: o.API}
	o.Usage = func(u schemas.Usage) { g.mu.Lock(); defer g.mu.Unlock(); g.usages = append(g.usages, u) }
	o.Warn = func(s string) { g.mu.Lock(); defer g.mu.Unlock(); g.warns = append(g.warns, s) }
	o.Refused = func() { g.mu.Lock(); defer g.mu.Unlock(); g.refused++ }
	if o.Model == "" {
		o.Model = "some-model"
	}
	if g.Gateway, err = gateway.StartWith(t.Context(), ln, o, p); err != nil {
		_ = ln.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// post sends a body to the model's endpoint as the worker does.
func (g *run) post(t *testing.T, body string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.BaseURL()+paths[g.api], strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+g.Token())
	return do(t, req)
}

func do(t *testing.T, req *http.Request) (int, http.Header, string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(data)
}

func TestScriptedModel(t *testing.T) {
	t.Parallel()
	for _, api := range []string{"chat", "responses", "messages"} {
		for _, stream := range []bool{false, true} {
			t.Run(api+map[bool]string{true: " stream"}[stream], func(t *testing.T) {
				t.Parallel()
				m, err := scriptedmodel.Start(t.Context(), scriptedmodel.Options{
					Key:    theKey,
					Script: scriptedmodel.Script{Steps: []scriptedmodel.Step{{Text: "hello world, this is it"}}},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				g := start(t, gateway.Options{Upstream: m.BaseURL(api), API: api, Key: theKey})
				status, _, body := g.post(t, bodies(api, "some-model", stream))
				if status != 200 || !strings.Contains(body, "hello") {
					t.Fatalf("got %d %s", status, body)
				}
				if len(g.usages) != 1 {
					t.Fatalf("got %v, want one usage; warnings %q", g.usages, g.warns)
				}
				u, sent := g.usages[0], m.Usage()
				if *u.UncachedInput != sent.Input || *u.Output != sent.Output {
					t.Errorf("got %d in, %d out, want %+v", *u.UncachedInput, *u.Output, sent)
				}
			})
		}
	}
}
