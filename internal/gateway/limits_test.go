package gateway_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/gateway"
	"github.com/git-spot/git-spot/schemas"
)

func usd(f float64) *float64 { return &f }

// TestBudget: once the budget is spent the next request is refused, in words that a worker program and
// git spot both understand, and what was counted is what was said.
func TestBudget(t *testing.T) {
	t.Parallel()
	rate := config.Rate{Input: usd(1), Output: usd(10), CacheRead: usd(0.1)}
	for _, row := range []struct {
		name   string
		limits schemas.Limits
		rate   config.Rate
		usage  string // of each answer
		served int    // requests that are sent on
		want   string // usage that is reported of each
	}{
		{"no limit", schemas.Limits{}, rate, `{"prompt_tokens":100,"completion_tokens":50}`, 4, "in 100 read - write - out 50 reason - $0.000600"},
		{"tokens", schemas.Limits{MaxTokens: 400}, config.Rate{}, `{"prompt_tokens":100,"completion_tokens":50}`, 3, "in 100 read - write - out 50 reason -"},
		{"tokens, exactly", schemas.Limits{MaxTokens: 300}, config.Rate{}, `{"prompt_tokens":100,"completion_tokens":50}`, 2, "in 100 read - write - out 50 reason -"},
		{"tokens from the cache", schemas.Limits{MaxTokens: 160}, config.Rate{}, `{"prompt_tokens":100,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":90}}`, 2, "in 10 read 90 write - out 50 reason -"},
		{"cost by the rates", schemas.Limits{MaxCostUSD: 0.0012}, rate, `{"prompt_tokens":100,"completion_tokens":50}`, 2, "in 100 read - write - out 50 reason - $0.000600"},
		{"cost of the cache", schemas.Limits{}, rate, `{"prompt_tokens":100,"completion_tokens":0,"cached_tokens":100}`, 4, "in 0 read 100 write - out 0 reason - $0.000010"},
		{"cost that the server says", schemas.Limits{MaxCostUSD: 0.5}, rate, `{"prompt_tokens":1,"completion_tokens":1,"cost":0.3}`, 2, "in 1 read - write - out 1 reason - $0.300000"},
		{"cost that only the server knows", schemas.Limits{MaxCostUSD: 0.5}, config.Rate{}, `{"cost":0.3}`, 2, "in - read - write - out - reason - $0.300000"},
		{"cost with a rate missing", schemas.Limits{MaxCostUSD: 0.0005}, config.Rate{Input: usd(1), Output: usd(10)}, `{"prompt_tokens":500,"completion_tokens":0,"cached_tokens":400}`, 1, "in 100 read 400 write - out 0 reason -"},
		{"reasoning is a part of the output", schemas.Limits{MaxTokens: 150}, config.Rate{}, `{"prompt_tokens":100,"completion_tokens":50,"completion_tokens_details":{"reasoning_tokens":40}}`, 1, "in 100 read - write - out 50 reason 40"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, answer(200, nil, `{"model":"m","usage":`+row.usage+`}`))
			g := start(t, gateway.Options{Upstream: p.URL, Limits: row.limits, Rate: row.rate})
			for i := range 4 {
				got := g.post(t, apis["chat"].body)
				if i < row.served {
					if got.status != 200 || g.exceeded() {
						t.Fatalf("request %d: got %s", i+1, got)
					}
					continue
				}
				if got.status != http.StatusPaymentRequired || !strings.Contains(got.body, `"code":"budget_exceeded"`) || !g.exceeded() {
					t.Fatalf("request %d: got %s", i+1, got)
				}
			}
			if n := len(p.requests()); n != row.served {
				t.Errorf("%d requests were sent on, want %d", n, row.served)
			}
			usages, warnings := g.said()
			if want := slices.Repeat([]string{row.want}, row.served); !slices.Equal(usages, want) {
				t.Errorf("got %q, want %q", usages, want)
			}
			if want := min(1, 4-row.served); g.refused != want {
				t.Errorf("the refusal was told %d times, want %d", g.refused, want)
			}
			if len(warnings) > 0 {
				t.Errorf("got warnings %q", warnings)
			}
		})
	}
}

func TestBudgetInEveryFormat(t *testing.T) {
	t.Parallel()
	for api, its := range apis {
		p := serve(t, answer(200, nil, its.answer))
		g := start(t, gateway.Options{Upstream: p.URL, API: api, Limits: schemas.Limits{MaxTokens: 1}})
		g.post(t, its.body)
		want := `{"error":{"code":"budget_exceeded","message":"the budget of this run is spent","param":null,"type":"budget_exceeded"}}`
		if api == "messages" {
			want = `{"error":{"message":"the budget of this run is spent","type":"budget_exceeded"},"type":"error"}`
		}
		if got := g.post(t, its.body); got.body != want || got.status != 402 {
			t.Errorf("%s: got %s", api, got)
		}
	}
}

// TestUsageThatIsNotKnown: where the provider does not say it, the limit goes by an estimate, which is
// reported to nobody.
func TestUsageThatIsNotKnown(t *testing.T) {
	t.Parallel()
	// The body has 66 bytes, 17 tokens by the estimate; the answer has 40 bytes of text, 10 tokens.
	text := sse(`{"choices":[{"delta":{"content":"` + strings.Repeat("x", 40) + `"}}]}`)
	p := serve(t, answer(200, map[string]string{"Content-Type": "text/event-stream"}, text))
	body := `{"model":"m","messages":[{"role":"user","content":"go go go go"}]}`
	if len(body) != 66 {
		t.Fatalf("the body has %d bytes", len(body))
	}
	for _, row := range []struct {
		limits schemas.Limits
		rate   config.Rate
		served int
	}{
		{schemas.Limits{MaxTokens: 27}, config.Rate{}, 1}, // 17 + 10
		{schemas.Limits{MaxTokens: 28}, config.Rate{}, 2},
		{schemas.Limits{MaxCostUSD: 0.000027}, config.Rate{Input: usd(1), Output: usd(1)}, 1},
		{schemas.Limits{MaxCostUSD: 0.000028}, config.Rate{Input: usd(1), Output: usd(1)}, 2},
	} {
		g := start(t, gateway.Options{Upstream: p.URL, Limits: row.limits, Rate: row.rate})
		served := 0
		for range 3 {
			if g.post(t, body).status == 200 {
				served++
			}
		}
		if served != row.served || !g.exceeded() {
			t.Errorf("%+v: got %d requests through, want %d", row.limits, served, row.served)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		want := "usage of 1 request is not known"
		if served > 1 {
			want = fmt.Sprintf("usage of %d requests is not known", served)
		}
		if usages, warnings := g.said(); len(usages) > 0 || !slices.Equal(warnings, []string{want}) {
			t.Errorf("got %q and %q, want %q alone", usages, warnings, want)
		}
	}
}

// TestUsageOfAStrangeStream: where nothing can be told apart, everything is charged.
func TestUsageOfAStrangeStream(t *testing.T) {
	t.Parallel()
	p := serve(t, answer(200, nil, "data: "+strings.Repeat("x", 396)+"\n\n"))
	for tokens, served := range map[int64]int{21 + 101: 1, 21 + 102: 2} {
		g := start(t, gateway.Options{Upstream: p.URL, Limits: schemas.Limits{MaxTokens: tokens}})
		for i := range 3 {
			if got := g.post(t, `{"model":"m","stream":true,"messages":[]}`); (got.status == 200) != (i < served) {
				t.Errorf("%d tokens: request %d: got %s", tokens, i+1, got)
			}
		}
	}
}

// TestUsageThatIsKnownInPart: the beginning of a stream that broke off counts.
func TestUsageThatIsKnownInPart(t *testing.T) {
	t.Parallel()
	p := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(sse(`{"type":"message_start","message":{"model":"m","usage":{"input_tokens":25,"cache_read_input_tokens":10,"output_tokens":1}}}`,
			`{"type":"content_block_delta","delta":{"text":"12345678"}}`)))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	g := start(t, gateway.Options{
		Upstream: p.URL, API: "messages", Limits: schemas.Limits{MaxTokens: 37},
		Rate: config.Rate{Input: usd(1), Output: usd(1), CacheRead: usd(1)},
	})
	if got := g.post(t, asStream("messages")); got.err == nil {
		t.Errorf("got %s: what broke off came to an end", got)
	}
	if got := g.post(t, asStream("messages")); got.status != 402 {
		t.Errorf("got %s: 35 tokens and what 8 bytes are guessed to be are the budget", got)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	usages, warnings := g.said()
	if !slices.Equal(usages, []string{"in 25 read 10 write - out - reason -"}) || !slices.Equal(warnings, []string{"usage of 1 request is not known"}) {
		t.Errorf("got %q and %q", usages, warnings)
	}
}

// TestCostThatIsNotKnown: a limit that cannot be held is told of.
func TestCostThatIsNotKnown(t *testing.T) {
	t.Parallel()
	p := serve(t, answer(200, nil, apis["chat"].answer))
	g := start(t, gateway.Options{Upstream: p.URL, Limits: schemas.Limits{MaxCostUSD: 1e-9}, Rate: config.Rate{Input: usd(1)}})
	for range 3 {
		if got := g.post(t, apis["chat"].body); got.status != 200 {
			t.Errorf("got %s", got)
		}
	}
	_, warnings := g.said()
	want := "maxCostUSD cannot be enforced: the provider does not say what a request costs, and spot.rate.m.input and .output are not set"
	if !slices.Equal(warnings, []string{want}) {
		t.Errorf("got %q", warnings)
	}
}

// TestNobodyIsFaster: the worker that has read the end of an answer cannot ask again before the answer
// is counted.
func TestNobodyIsFaster(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(sse(`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}`, "[DONE]")))
		_ = http.NewResponseController(w).Flush()
		select { // the provider has said all, and does not end
		case <-hang:
		case <-r.Context().Done():
		}
	})
	defer close(hang)
	g := start(t, gateway.Options{Upstream: p.URL, Limits: schemas.Limits{MaxTokens: 15}})
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(g.request(t, asStream("chat")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it has no end
	for read := ""; !strings.Contains(read, "[DONE]"); {
		buffer := make([]byte, 1000)
		n, err := resp.Body.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		read += string(buffer[:n])
	}
	if got := g.post(t, apis["chat"].body); got.status != 402 {
		t.Errorf("got %s", got)
	}
}

// TestManyAtOnce: many requests at once spend no more than one at a time would, and one more.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	arrived := make(chan struct{}, 100)
	release := make(chan struct{})
	p := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		most.Store(max(most.Load(), running.Add(1)))
		arrived <- struct{}{}
		<-release
		running.Add(-1)
		_, _ = w.Write([]byte(`{"usage":{"prompt_tokens":50,"completion_tokens":50}}`))
	})
	body := `{"model":"m","max_tokens":190,"messages":[]}` // 11 and 190 tokens at most: 4 fit into 1000
	g := start(t, gateway.Options{Upstream: p.URL, Limits: schemas.Limits{MaxTokens: 1000}})
	var all sync.WaitGroup
	var served, refused atomic.Int64
	for range 40 {
		all.Go(func() {
			switch got := g.post(t, body); got.status {
			case 200:
				served.Add(1)
			case 402:
				refused.Add(1)
			default:
				t.Errorf("got %s", got)
			}
		})
	}
	for range 4 {
		<-arrived
	}
	close(release)
	all.Wait()
	if served.Load() != 10 || refused.Load() != 30 || most.Load() != 4 {
		t.Errorf("got %d served, %d refused, %d at once; want 10, 30, 4", served.Load(), refused.Load(), most.Load())
	}
	if g.refused != 1 {
		t.Errorf("the refusal was told %d times", g.refused)
	}
}

// TestOneAtATimeWithoutAPrice: if only the provider knows what a request costs, and only afterwards, a
// limit of cost holds only for one request at a time.
func TestOneAtATimeWithoutAPrice(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	p := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		most.Store(max(most.Load(), running.Add(1)))
		running.Add(-1)
		_, _ = w.Write([]byte(`{"usage":{"cost":0.25}}`))
	})
	g := start(t, gateway.Options{Upstream: p.URL, Limits: schemas.Limits{MaxCostUSD: 1}})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { g.post(t, apis["chat"].body) })
	}
	all.Wait()
	if got := len(p.requests()); got != 4 || most.Load() != 1 {
		t.Errorf("got %d requests through, %d at once; want 4, 1", got, most.Load())
	}
}
