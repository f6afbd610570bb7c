package gateway

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
)

// Patience of a gateway under test; 0 is as usual.
type Patience struct{ Header, Body, Write, Answer, Stall time.Duration }

// StartWith is Start with another patience.
func StartWith(ctx context.Context, ln net.Listener, o Options, p Patience) (*Gateway, error) {
	return start(ctx, ln, o, patience{
		header: cmp.Or(p.Header, usual.header), body: cmp.Or(p.Body, usual.body), write: cmp.Or(p.Write, usual.write),
		answer: cmp.Or(p.Answer, usual.answer), stall: cmp.Or(p.Stall, usual.stall),
	})
}

// Rewrite is what of a request is sent to the model, and what of it is left out.
func Rewrite(api, model string, body []byte) (out []byte, dropped []string, err error) {
	f, _ := formats(api)
	a, err := rewrite(f, model, body)
	return a.body, a.dropped, err
}

// Events feeds pieces of an answer to the decoder and returns the data of its events.
func Events(pieces ...[]byte) (events []string) {
	e := newEvents(func(int) bool { return true }, func(data []byte) { events = append(events, string(data)) })
	for _, p := range pieces {
		e.feed(p)
	}
	e.finish()
	return events
}

// Usage is what the answer says of usage, the model it says it is, and how many bytes it said.
func Usage(api string, pieces ...[]byte) (schemas.Usage, string, int64) {
	f, _ := formats(api)
	var r reading
	e := newEvents(func(int) bool { return true }, r.read)
	for _, p := range pieces {
		e.feed(p)
	}
	e.finish()
	u := f.usage(r.said)
	u.CostUSD = r.said.cost()
	return u, r.model, r.text
}

// Mask is what is left of a stream in pieces, piece by piece; the last is what was held back.
func Mask(key string, pieces ...[]byte) (out []string) {
	s := stream{masker: newMasker(key)}
	for _, p := range pieces {
		out = append(out, string(s.next(p)))
	}
	return append(out, string(s.rest()))
}

// SameModel says whether no warning is due.
func SameModel(asked, answered string) bool { return sameModel(asked, answered) }

// RedactText masks secrets in JSON.
func RedactText(r config.Redactor, s string) string { return redactText(r, s) }

// MaxEvent is the most that is looked at of one event.
const MaxEvent = maxEvent
