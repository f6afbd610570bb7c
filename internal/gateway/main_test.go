package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/git-spot/git-spot/internal/gateway"
	"github.com/git-spot/git-spot/schemas"
)

// Nothing of a gateway, and nothing that it connected to, is left when it is closed.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The user's key. It must never be found where a worker or a file is.
const theKey = "sk-the/users+own-key-0123456789abcdef"

// apis are the wire formats with the least request of each, where it goes, and how the least answer looks.
var apis = map[string]struct{ path, upstream, body, answer string }{
	"chat": {
		"/chat/completions", "/base/chat/completions", `{"model":"m","messages":[{"role":"user","content":"go"}]}`,
		`{"model":"m","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}`,
	},
	"responses": {
		"/responses", "/base/responses", `{"model":"m","input":"go"}`,
		`{"model":"m","usage":{"input_tokens":10,"output_tokens":5}}`,
	},
	"messages": {
		"/v1/messages", "/base/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"go"}]}`,
		`{"model":"m","usage":{"input_tokens":10,"output_tokens":5}}`,
	},
}

// asStream is a request of the API that asks for a stream.
func asStream(api string) string { return strings.Replace(apis[api].body, `{`, `{"stream":true,`, 1) }

// upstreamFunc is a provider; what it hears is in got.
type provider struct {
	*httptest.Server
	mu  sync.Mutex
	got []*http.Request
}

// serve is a provider that answers with handle.
func serve(t *testing.T, handle http.HandlerFunc) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		c := r.Clone(context.WithoutCancel(r.Context()))
		c.Body = io.NopCloser(strings.NewReader(string(body)))
		p.mu.Lock()
		p.got = append(p.got, c)
		p.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handle(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// requests are those that the provider has got.
func (p *provider) requests() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

// answer is a provider that always says the same.
func answer(status int, header map[string]string, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// raw is a provider that speaks with one connection at a time, as talk does, until the test ends.
func raw(t *testing.T, talk func(conn net.Conn, request *http.Request)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(t.Context(), func() { _ = conn.Close() })
			conns.Go(func() {
				defer stop()
				defer conn.Close() //nolint:errcheck // that is how it ends
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, r.Body); err == nil {
					talk(conn, r)
				}
			})
		}
	})
	t.Cleanup(func() { _ = ln.Close(); conns.Wait() })
	return "http://" + ln.Addr().String()
}

// run is a gateway under test, and what it has said.
type run struct {
	*gateway.Gateway
	api string

	mu      sync.Mutex
	usages  []schemas.Usage
	warns   []string
	refused int
}

func start(t *testing.T, o gateway.Options) *run {
	t.Helper()
	return startWith(t, o, gateway.Bounds{})
}

// startWith starts a gateway to the model m of the API chat, unless something else is said.
func startWith(t *testing.T, o gateway.Options, b gateway.Bounds) *run {
	t.Helper()
	g, err := tryStart(t, o, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func tryStart(t *testing.T, o gateway.Options, b gateway.Bounds) (*run, error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.API == "" {
		o.API = "chat"
	}
	if o.Model == "" {
		o.Model = "m"
	}
	g := &run{api: o.API}
	o.Usage = func(u schemas.Usage) { g.mu.Lock(); defer g.mu.Unlock(); g.usages = append(g.usages, u) }
	o.Warn = func(s string) { g.mu.Lock(); defer g.mu.Unlock(); g.warns = append(g.warns, s) }
	o.Refused = func() { g.mu.Lock(); defer g.mu.Unlock(); g.refused++ }
	if g.Gateway, err = gateway.StartWith(t.Context(), ln, o, b); err != nil {
		_ = ln.Close()
		return nil, err
	}
	return g, nil
}

// said are the usages, one a line, and the warnings.
func (g *run) said() (usages, warnings []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, u := range g.usages {
		usages = append(usages, show(u))
	}
	return usages, slices.Clone(g.warns)
}

// exceeded says whether a request was refused because the budget is spent, which is said once.
func (g *run) exceeded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused == 1
}

// request is one that a worker sends to the model's endpoint.
func (g *run) request(t *testing.T, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.BaseURL()+apis[g.api].path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+g.Token())
	return r
}

// result is an answer as the worker gets it.
type result struct {
	status int
	header http.Header
	body   string
	err    error // the answer broke off, or never came
}

func (r result) String() string { return fmt.Sprintf("%d %.300q %v", r.status, r.body, r.err) }

// do sends a request on a connection of its own.
func do(r *http.Request) result { return watch(r, 1<<40) }

// watch sends a request on a connection of its own, and hangs up after some bytes of the answer.
func watch(r *http.Request, most int64) result {
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return result{err: err}
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end, or broken
	data, err := io.ReadAll(io.LimitReader(resp.Body, most))
	return result{resp.StatusCode, resp.Header, string(data), err}
}

// post sends a body to the model's endpoint.
func (g *run) post(t *testing.T, body string) result {
	t.Helper()
	return do(g.request(t, body))
}

// quiet is a log that nobody reads.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
