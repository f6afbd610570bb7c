package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/git-spot/git-spot/internal/gateway"
	"github.com/git-spot/git-spot/schemas"
)

const (
	chunkedStream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	firstChunk    = "e\r\ndata: {\"a\":1}\r\n"
)

// hold keeps a connection until somebody ends it.
func hold(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// TestBrokenProviders: every way of not answering ends, in words that a worker program takes for a
// passing trouble, or in an answer that is visibly broken off.
func TestBrokenProviders(t *testing.T) {
	t.Parallel()
	soon := gateway.Bounds{Answer: 500 * time.Millisecond, Stall: 500 * time.Millisecond}
	for _, row := range []struct {
		name    string
		talk    func(net.Conn, *http.Request)
		status  int
		says    string
		broken  bool
		unknown bool           // the provider may have let the model work
		bounds  gateway.Bounds // short, where it is waited for that nothing happens
	}{
		{"never answers", func(c net.Conn, _ *http.Request) { hold(c) }, 504, "did not answer in time", false, true, soon},
		{"hangs up", func(net.Conn, *http.Request) {}, 502, "cannot be reached", false, true, gateway.Bounds{}},
		{"is no HTTP", func(c net.Conn, _ *http.Request) { _, _ = io.WriteString(c, "SSH-2.0-x\r\n\r\n") }, 502, "malformed HTTP", false, true, gateway.Bounds{}},
		{"sends half a header", func(c net.Conn, _ *http.Request) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-"); hold(c) }, 504, "", false, true, soon},
		{"sends a header without end", func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "X-A: "+strings.Repeat("a", 1000)+"\r\n"); err != nil {
					return
				}
			}
		}, 502, "header", false, true, gateway.Bounds{}},
		{"says for ever that it goes on", func(c net.Conn, _ *http.Request) {
			for {
				if _, err := io.WriteString(c, strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 1000)); err != nil {
					return
				}
			}
		}, 502, "header", false, true, gateway.Bounds{}},
		{"wants another protocol", func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			hold(c)
		}, 502, "another protocol", false, false, gateway.Bounds{}},
		{"compresses", func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08")
		}, 502, "compresses", false, true, gateway.Bounds{}},
		{"stalls", func(c net.Conn, _ *http.Request) { _, _ = io.WriteString(c, chunkedStream+firstChunk); hold(c) }, 200, `data: {"a":1}`, true, true, soon},
		{"drops", func(c net.Conn, _ *http.Request) { _, _ = io.WriteString(c, chunkedStream+firstChunk) }, 200, `data: {"a":1}`, true, true, gateway.Bounds{}},
		{"drops at once", func(c net.Conn, _ *http.Request) { _, _ = io.WriteString(c, chunkedStream) }, 200, "", true, true, gateway.Bounds{}},
		{"sends garbage for a piece", func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, chunkedStream+firstChunk+"zz\r\n")
		}, 200, `data: {"a":1}`, true, true, gateway.Bounds{}},
		{"promises more than it sends", func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}")
		}, 200, "{}", true, true, gateway.Bounds{}},
		{"sends more than it promised", func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\n{}")
		}, 200, "{}", false, true, gateway.Bounds{}},
		{"is old", func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n"+apis["chat"].answer)
		}, 200, apis["chat"].answer, false, false, gateway.Bounds{}},
		{"has no words", func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}, 204, "", false, true, gateway.Bounds{}},
		{"is overloaded", func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 529 Overloaded\r\nContent-Length: 4\r\n\r\nbusy")
		}, 529, "busy", false, false, gateway.Bounds{}},
		{"has a status of its own", func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 999 Whatever\r\nContent-Length: 2\r\n\r\n{}")
		}, 999, "{}", false, false, gateway.Bounds{}},
		{"has no status", func(c net.Conn, _ *http.Request) { _, _ = io.WriteString(c, "HTTP/1.1 007 Bond\r\n\r\n") }, 502, "", false, false, gateway.Bounds{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := startWith(t, gateway.Options{Upstream: raw(t, row.talk), Key: theKey}, row.bounds)
			got := g.post(t, asStream("chat"))
			if got.status != row.status || !strings.Contains(got.body, row.says) || (got.err != nil) != row.broken {
				t.Errorf("got %s, want %d with %q, broken off: %v", got, row.status, row.says, row.broken)
			}
			if row.status >= 500 && row.status < 505 && !strings.Contains(got.body, `"type":"server_error"`) {
				t.Errorf("got %s, want an error of the API", got.body)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
			_, warnings := g.said()
			if want := slices.Repeat([]string{"usage of 1 request is not known"}, map[bool]int{true: 1}[row.unknown]); !slices.Equal(warnings, want) {
				t.Errorf("got %q, want %q", warnings, want)
			}
		})
	}
}

// TestProvidersThatAreNotThere: nothing was sent, so nothing can have been spent.
func TestProvidersThatAreNotThere(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	stranger := httptest.NewTLSServer(nil)
	stranger.Config.ErrorLog = quiet()
	t.Cleanup(stranger.Close)
	for _, upstream := range []string{gone.URL, stranger.URL, "https://no-such-host.invalid/v1"} {
		g := start(t, gateway.Options{Upstream: upstream, API: "messages", Key: theKey})
		if got := g.post(t, apis["messages"].body); got.status != 502 || !strings.Contains(got.body, `"type":"api_error"`) {
			t.Errorf("%s: got %s", upstream, got)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if usages, warnings := g.said(); len(usages)+len(warnings) > 0 {
			t.Errorf("%s: got %q and %q", upstream, usages, warnings)
		}
	}
}

// TestWorkerHangsUp: the provider is let go at once, so that it stops working on what nobody reads, and
// the budget is charged all the same.
func TestWorkerHangsUp(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, sse(`{"model":"m"}`))
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
		close(ended)
	})
	g := start(t, gateway.Options{Upstream: p.URL, Limits: schemas.Limits{MaxTokens: 1}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan result)
	go func() { result <- do(g.request(t, asStream("chat")).WithContext(ctx)) }()
	<-begun
	cancel()
	<-ended
	if got := <-result; got.err == nil {
		t.Errorf("got %s", got)
	}
	if got := g.post(t, apis["chat"].body); got.status != http.StatusPaymentRequired {
		t.Errorf("got %s: hanging up is no way to spend nothing", got)
	}
}

// TestCloseEndsStreams: Close waits for what it ends, and what was under way is accounted for.
func TestCloseEndsStreams(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	p := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(ended)
	})
	g := start(t, gateway.Options{Upstream: p.URL})
	result := make(chan result)
	go func() { result <- g.post(t, asStream("chat")) }()
	<-begun
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	if got := <-result; got.err == nil {
		t.Errorf("got %s", got)
	}
	if _, warnings := g.said(); !slices.Equal(warnings, []string{"usage of 1 request is not known"}) {
		t.Errorf("got %q", warnings)
	}
	if err := g.Close(); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if got := g.post(t, apis["chat"].body); got.err == nil {
		t.Errorf("after the end: got %s", got)
	}
}

// TestContextEnds: without its context a gateway asks nobody any more.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	p := serve(t, func(_ http.ResponseWriter, r *http.Request) { begun <- struct{}{}; <-r.Context().Done() })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	inner, err := gateway.Start(ctx, ln, gateway.Options{Upstream: p.URL, API: "chat", Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	g := &run{Gateway: inner, api: "chat"}
	result := make(chan result)
	go func() { result <- g.post(t, asStream("chat")) }()
	<-begun
	cancel()
	if got := <-result; got.err == nil {
		t.Errorf("got %s", got)
	}
	if got := g.post(t, asStream("chat")); got.err == nil {
		t.Errorf("got %s", got)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// speak sends bytes to a gateway as they are, and returns what comes back until the gateway hangs up.
func speak(t *testing.T, g *run, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(g.BaseURL(), "http://"), "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // everything was read
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	back, _ := io.ReadAll(conn) // a reset is an end, too
	return string(back)
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	p := serve(t, answer(200, nil, "{}"))
	const head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
	for _, row := range []struct {
		name, text, want string
		bounds           gateway.Bounds
	}{
		{"nothing", "", "", gateway.Bounds{Header: 100 * time.Millisecond}},
		{"half a header", head, "", gateway.Bounds{Header: 100 * time.Millisecond}},
		{"half a body", head + "TOKENContent-Length: 100\r\n\r\n{", "HTTP/1.1 408", gateway.Bounds{Body: 100 * time.Millisecond}},
		{"half a body in pieces", head + "TOKENTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "HTTP/1.1 408", gateway.Bounds{Body: 100 * time.Millisecond}},
		{"half a body without a token", head + "Content-Length: 100\r\n\r\n{", "HTTP/1.1 401", gateway.Bounds{Body: 100 * time.Millisecond}},
		{"a body that is not sent before it is asked for", head + "Expect: 100-continue\r\nContent-Length: 100\r\n\r\n", "HTTP/1.1 401", gateway.Bounds{}},
		{"too long a header", head + "X: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", "HTTP/1.1 431", gateway.Bounds{}},
		{"two lengths", head + "TOKENContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 400", gateway.Bounds{}},
		{"no HTTP", "hello\r\n\r\n", "HTTP/1.1 400", gateway.Bounds{}},
		{"a tunnel", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nTOKENConnection: close\r\n\r\n", "HTTP/1.1 403", gateway.Bounds{}},
		{"a tunnel to itself", "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\nTOKENConnection: close\r\n\r\n", "HTTP/1.1 404", gateway.Bounds{}},
		{"another host's address", strings.Replace(head, "/v1", "http://example.com/v1", 1) + "TOKENContent-Length: 0\r\n\r\n", "HTTP/1.1 403", gateway.Bounds{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := startWith(t, gateway.Options{Upstream: p.URL}, row.bounds)
			text := strings.Replace(row.text, "TOKEN", "Authorization: Bearer "+g.Token()+"\r\n", 1)
			if got := speak(t, g, text); !strings.HasPrefix(got, row.want) || row.want == "" && got != "" {
				t.Errorf("got %.200q, want %q", got, row.want)
			}
		})
	}
	t.Cleanup(func() {
		if got := p.requests(); len(got) > 0 {
			t.Errorf("%d requests were sent on", len(got))
		}
	})
}

// TestWorkerThatDoesNotRead: it loses its stream, and the provider is let go.
func TestWorkerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	p := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		for {
			if _, err := io.WriteString(w, sse(strings.Repeat("x", 1000))); err != nil {
				return
			}
		}
	})
	g := startWith(t, gateway.Options{Upstream: p.URL}, gateway.Bounds{Write: 100 * time.Millisecond})
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(g.BaseURL(), "http://"), "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing was read
	if err := g.request(t, asStream("chat")).Write(conn); err != nil {
		t.Fatal(err)
	}
	<-ended
}

// TestTooManyAtOnce: what is more than the gateway takes on at once is told to come again.
func TestTooManyAtOnce(t *testing.T) {
	t.Parallel()
	const all, taken = 500, 64
	release := make(chan struct{})
	p := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, apis["chat"].answer)
	})
	g := start(t, gateway.Options{Upstream: p.URL})
	results := make(chan result)
	for range all {
		go func() { results <- g.post(t, apis["chat"].body) }()
	}
	for range all - taken {
		if got := <-results; got.status != 429 || got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, "rate_limit") {
			t.Errorf("got %s", got)
		}
	}
	close(release)
	for range taken {
		if got := <-results; got.status != 200 {
			t.Errorf("got %s", got)
		}
	}
	if usages, _ := g.said(); len(usages) != taken {
		t.Errorf("got %d usages, want %d", len(usages), taken)
	}
}

// TestManyConnections: connections that do nothing do not keep others out for ever.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	p := serve(t, answer(200, nil, "{}"))
	g := startWith(t, gateway.Options{Upstream: p.URL}, gateway.Bounds{Header: time.Second})
	for range 600 {
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(g.BaseURL(), "http://"), "/v1"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // it did nothing
	}
	if got := g.post(t, apis["chat"].body); got.status != 200 {
		t.Errorf("got %s", got)
	}
}

// heap is what is in use, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemory does not run beside others, which would be measured too.
//
//nolint:paralleltest // see above
func TestMemory(t *testing.T) {
	const long, pass = 1 << 20, 12
	line := strings.Repeat("x", long)
	for _, row := range []struct{ name, begin, again string }{
		{"an endless line", "data: ", line},
		{"an endless event", "", "data: " + line + "\n"},
		{"an endless comment", ":", line},
		{"an endless document", "{", line},
		{"endless events", "", sse(`{"choices":[{"delta":{"content":"` + line + `"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, row.begin)
				for {
					if _, err := io.WriteString(w, row.again); err != nil {
						return
					}
				}
			})
			g := start(t, gateway.Options{Upstream: p.URL, Key: theKey})
			before := heap()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			transport := &http.Transport{DisableKeepAlives: true}
			resp, err := transport.RoundTrip(g.request(t, asStream("chat")).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close() //nolint:errcheck // it has no end
			if _, err := io.CopyN(io.Discard, resp.Body, pass*long); err != nil {
				t.Fatal(err)
			}
			if after := heap(); after > before+(16<<20) {
				t.Errorf("%d MiB more are in use after %d MiB have passed", (after-before)>>20, pass)
			}
		})
	}
}

// TestMemoryOfRequests: requests that are too large for what the gateway holds at once wait for each
// other, and all of them are served, and counted.
func TestMemoryOfRequests(t *testing.T) {
	t.Parallel()
	const requests, size = 40, 1 << 20
	var running, most atomic.Int64
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), running.Add(1)))
		_, _ = io.Copy(io.Discard, r.Body)
		running.Add(-1)
		_, _ = io.WriteString(w, apis["chat"].answer)
	}))
	defer p.Close()
	g := startWith(t, gateway.Options{Upstream: p.URL}, gateway.Bounds{Requests: 4 * size})
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			if got := g.post(t, body); got.status != 200 {
				t.Errorf("got %s", got)
			}
		})
	}
	all.Wait()
	if got := most.Load(); got > 3 {
		t.Errorf("%d requests of 1 MiB were under way at once, in 4 MiB", got)
	}
	if usages, _ := g.said(); len(usages) != requests {
		t.Errorf("got %d usages", len(usages))
	}
}

// TestManyBrokenStreams: fifty streams at once, of which most break in one way or another, leave nothing
// behind: no goroutine (TestMain), no connection, no key in what a worker sees.
func TestManyBrokenStreams(t *testing.T) {
	t.Parallel()
	const streams = 50
	var hangs [streams]chan struct{} // the worker whose request does hangs up
	for worker := range hangs {
		hangs[worker] = make(chan struct{})
	}
	faults := []func(w http.ResponseWriter, r *http.Request){
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, sse(apis["chat"].answer)) },
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, sse(r.Header.Get("Authorization")))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "data: "+r.Header.Get("Authorization")[:30])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.Header.Get("Authorization"), http.StatusUnauthorized)
		},
		func(w http.ResponseWriter, _ *http.Request) { // without end
			for {
				if _, err := io.WriteString(w, strings.Repeat("data: x\n\n", 1000)); err != nil {
					return
				}
			}
		},
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Request-Id", r.Header.Get("Authorization"))
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "{")
		},
	}
	want := []int{200, 502, 0, 200, 200, 401, 200, 200}
	enough := []int64{1 << 20, 1 << 20, 0, 1 << 20, int64(len("data: Bearer ")), 1 << 20, 100 << 10, 1 << 20} // bytes; then the worker hangs up
	var open atomic.Int64
	p := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ User int }
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			t.Error(err)
		}
		fault := ask.User % len(faults)
		if fault == 2 {
			hangs[ask.User/len(faults)] <- struct{}{}
		}
		faults[fault](w, r)
	}))
	p.Config.ErrorLog = quiet()
	p.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	p.Start()
	defer p.Close()
	g := start(t, gateway.Options{Upstream: p.URL, Key: theKey})
	var workers sync.WaitGroup
	for worker := range streams {
		workers.Go(func() {
			for i := range 8 {
				fault := (worker + i) % len(faults)
				ctx, cancel := context.WithCancel(t.Context())
				if fault == 2 {
					go func() { <-hangs[worker]; cancel() }()
				}
				got := watch(g.request(t, fmt.Sprintf(`{"model":"m","stream":true,"user":%d}`, worker*len(faults)+fault)).WithContext(ctx), enough[fault])
				cancel()
				if text := got.body + fmt.Sprint(got.header, got.err); strings.Contains(text, theKey) {
					t.Errorf("fault %d: the key is in %.300q", fault, text)
				}
				if got.status != want[fault] {
					t.Errorf("fault %d: got %s, want %d", fault, got, want[fault])
				}
			}
		})
	}
	workers.Wait()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	// The provider notices a little later that it was let go.
	for deadline := time.Now().Add(30 * time.Second); open.Load() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections to the provider are open", open.Load())
		}
	}
}

// TestStreamIsNotHeldBack: each piece reaches the worker before the provider sends the next.
func TestStreamIsNotHeldBack(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	p := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for text := range next {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
	})
	g := start(t, gateway.Options{Upstream: p.URL, Key: theKey})
	transport := &http.Transport{DisableKeepAlives: true}
	go func() { next <- ": hello\n" }()
	resp, err := transport.RoundTrip(g.request(t, asStream("chat")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is left before its end
	lines := bufio.NewReader(resp.Body)
	for i, text := range []string{": hello\n", "data: a\n", "\n", "data: sk-th\n", "data: b\n"} {
		if i > 0 {
			next <- text
		}
		if got, err := lines.ReadString('\n'); got != text || err != nil {
			t.Fatalf("got %q, %v, want %q", got, err, text)
		}
	}
	close(next)
}

// TestCloseEndsConnecting: a provider that takes a connection and says nothing does not outlive Close.
func TestCloseEndsConnecting(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // one connection was taken
	g := start(t, gateway.Options{Upstream: "https://" + ln.Addr().String()})
	result := make(chan result)
	go func() { result <- g.post(t, apis["chat"].body) }()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()                                            //nolint:errcheck // read to its end
	if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil { // the beginning of a handshake
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if got := <-result; got.err == nil {
		t.Errorf("got %s", got)
	}
	began := time.Now()
	hold(conn)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the connection was open for %v more", took)
	}
	if _, warnings := g.said(); len(warnings) > 0 {
		t.Errorf("got %q: nothing was sent", warnings)
	}
}
