package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
)

// meter counts what the run has spent, and decides whether a request may still be sent.
//
// What a request really costs is known when it ends. One request at a time can overspend the budget by
// what it costs itself; many at once could do so many times over. So a request that others run beside is
// sent only if the budget holds for the most that all of them may cost, and else waits for their end.
type meter struct {
	maxTokens int64
	maxCost   float64
	rate      config.Rate
	model     string

	calls   sync.Mutex // the functions of Options are called one at a time
	onUsage func(schemas.Usage)
	onWarn  func(string)
	refused func()
	refusal sync.Once
	said    map[string]bool
	foreign map[string]int // warnings by kind

	mu       sync.Mutex // guards what follows
	spent    spend
	reserved spend
	running  int
	changed  chan struct{} // closed when a request ends
	unknown  int           // requests whose usage is not wholly known
	worked   bool          // a request was settled: the model may have worked on it
}

// spend is an amount of both kinds.
type spend struct {
	tokens int64
	cost   float64
}

func (s spend) plus(t spend) spend  { return spend{s.tokens + t.tokens, s.cost + t.cost} }
func (s spend) minus(t spend) spend { return spend{s.tokens - t.tokens, s.cost - t.cost} }

// maxForeign bounds how many warnings there are of one kind that quote the worker or the provider.
const maxForeign = 8

func newMeter(o Options) *meter {
	return &meter{
		maxTokens: o.Limits.MaxTokens, maxCost: o.Limits.MaxCostUSD, rate: o.Rate, model: o.Model,
		onUsage: o.Usage, onWarn: o.Warn, refused: o.Refused,
		said: map[string]bool{}, foreign: map[string]int{}, changed: make(chan struct{}),
	}
}

func (m *meter) over(s spend) bool {
	return m.maxTokens > 0 && s.tokens >= m.maxTokens || m.maxCost > 0 && s.cost >= m.maxCost
}

// warn says text once.
func (m *meter) warn(text string) {
	m.calls.Lock()
	defer m.calls.Unlock()
	m.once(text)
}

// quote warns of a foreign word, each once, and of no more than a few of them.
func (m *meter) quote(kind, format, word string) {
	m.calls.Lock()
	defer m.calls.Unlock()
	if text := fmt.Sprintf(format, short(word)); !m.said[text] && m.foreign[kind] < maxForeign {
		m.foreign[kind]++
		m.once(text)
	}
}

func (m *meter) once(text string) {
	if m.onWarn != nil && !m.said[text] {
		m.said[text] = true
		m.onWarn(text)
	}
}

// bill is one request's account.
type bill struct {
	m         *meter
	body      int64 // bytes of the request
	estimated spend
	counted   spend // what of it is in meter.spent
}

// admit opens the account of a request, or returns nil: the budget is spent, or ctx has ended.
func (m *meter) admit(ctx context.Context, body, maxOutput int64) (*bill, error) {
	b := &bill{m: m, body: body, estimated: m.estimate(quarter(body), maxOutput)}
	for {
		m.mu.Lock()
		switch {
		case m.over(m.spent):
			m.mu.Unlock()
			m.refuse()
			return nil, nil
		case m.running == 0 || !m.over(m.spent.plus(m.reserved).plus(b.estimated)) && m.priced():
			m.running++
			m.reserved = m.reserved.plus(b.estimated)
			m.mu.Unlock()
			return b, nil
		}
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// priced says whether the cost of a request can be told beforehand, if that matters.
func (m *meter) priced() bool {
	return m.maxCost <= 0 || m.rate.Input != nil && m.rate.Output != nil
}

func (m *meter) refuse() {
	m.refusal.Do(func() {
		if m.refused != nil {
			m.calls.Lock()
			defer m.calls.Unlock()
			m.refused()
		}
	})
}

// quarter is the usual estimate of the tokens in so many bytes, rounded up.
func quarter(bytes int64) int64 { return (bytes + 3) / 4 }

// estimate is for the limits alone, and is never reported.
func (m *meter) estimate(input, output int64) spend {
	s := spend{tokens: input + output}
	if m.rate.Input != nil && m.rate.Output != nil {
		s.cost = (float64(input)**m.rate.Input + float64(output)**m.rate.Output) / 1e6
	}
	return s
}

// count makes what is known so far part of what is spent: before the worker, which may ask again at
// once, is told of it.
func (b *bill) count(u schemas.Usage) {
	now := spend{tokens: tokens(u)}
	if cost := b.m.cost(u); cost != nil {
		now.cost = *cost
	}
	b.set(now)
}

func (b *bill) set(now spend) {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	b.m.spent = b.m.spent.plus(now.minus(b.counted))
	b.counted = now
}

// cost is the server's own figure, else that of the rates.
func (m *meter) cost(u schemas.Usage) *float64 {
	if u.CostUSD != nil {
		return u.CostUSD
	}
	return price(u, m.rate)
}

// settle closes the account of a request that the model has, or may have, worked on: text is the bytes
// of what it said.
func (b *bill) settle(u schemas.Usage, text int64) {
	m := b.m
	whole := u.UncachedInput != nil && u.Output != nil
	input, output := quarter(b.body), quarter(text)
	if u.UncachedInput != nil {
		input = tokens(schemas.Usage{UncachedInput: u.UncachedInput, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite})
	}
	if u.Output != nil {
		output = *u.Output
	}
	now := m.estimate(input, output) // where a rate of the caches is missing, that of the input bounds it
	if u.CostUSD = m.cost(u); u.CostUSD != nil {
		now.cost = *u.CostUSD
	}
	b.set(now)
	m.mu.Lock()
	m.worked = true
	m.mu.Unlock()
	b.end(!whole)
	if m.maxCost > 0 && u.CostUSD == nil && !m.priced() {
		m.warn(fmt.Sprintf("maxCostUSD cannot be enforced: the provider does not say what a request costs, "+
			"and spot.rate.%s.input and .output are not set", m.model))
	}
	if m.onUsage != nil && (u != schemas.Usage{}) {
		m.calls.Lock()
		defer m.calls.Unlock()
		m.onUsage(u)
	}
}

// Free says that no request has cost anything so far: the model has worked on none.
func (g *Gateway) Free() bool {
	g.meter.mu.Lock()
	defer g.meter.mu.Unlock()
	return !g.meter.worked
}

// void closes the account of a request that the model has not worked on.
func (b *bill) void() {
	b.set(spend{})
	b.end(false)
}

func (b *bill) end(unknown bool) {
	m := b.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	m.reserved = m.reserved.minus(b.estimated)
	if m.running == 0 {
		m.reserved = spend{} // sums of fractions do not end at 0
	}
	if unknown {
		m.unknown++
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// answered warns of a server that says it is another model than the one that was asked.
func (m *meter) answered(as string) {
	if as == "" || sameModel(m.model, as) {
		return
	}
	m.quote("model", "the model "+strings.ReplaceAll(m.model, "%", "%%")+" was asked, and one that calls itself %q answered", as)
}

// sameModel says whether two names differ in no more than the vendor before one and the date after one.
func sameModel(a, b string) bool {
	a, b = bare(a), bare(b)
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, ok := strings.CutPrefix(b, a)
	return ok && (rest == "" || dated(rest))
}

func bare(model string) string {
	model = strings.ToLower(model)
	model = model[strings.LastIndexByte(model, '/')+1:]
	model = strings.TrimSuffix(model, ":latest")
	return strings.TrimSuffix(model, "-latest")
}

// dated says whether the end of a name is a date or a revision: -20250514, -2025-05-14, -0905, @001.
func dated(end string) bool {
	const fewest = 3 // -70b is a size, and so may be -70
	digits := strings.TrimLeft(end[1:], "-")
	return (end[0] == '-' || end[0] == '@') && len(strings.ReplaceAll(digits, "-", "")) >= fewest &&
		strings.Trim(digits, "0123456789-") == ""
}

// short is what of a foreign word is shown.
func short(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// close says what is not known, now that nothing runs any more.
func (m *meter) close() {
	m.mu.Lock()
	unknown := m.unknown
	m.mu.Unlock()
	switch {
	case unknown == 1:
		m.warn("usage of 1 request is not known")
	case unknown > 1:
		m.warn(fmt.Sprintf("usage of %d requests is not known", unknown))
	}
}
