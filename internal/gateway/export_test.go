package gateway

import (
	"cmp"
	"context"
	"io"
	"net"
	"time"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
)

// Bounds of a gateway under test; 0 is as usual.
type Bounds struct {
	Header, Body, Write, Answer, Stall time.Duration

	Requests int64
}

// StartWith is Start with other bounds.
func StartWith(ctx context.Context, ln net.Listener, o Options, b Bounds) (*Gateway, error) {
	return start(ctx, ln, o, bounds{
		header: cmp.Or(b.Header, usual.header), body: cmp.Or(b.Body, usual.body), write: cmp.Or(b.Write, usual.write),
		answer: cmp.Or(b.Answer, usual.answer), stall: cmp.Or(b.Stall, usual.stall), requests: cmp.Or(b.Requests, usual.requests),
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

// MaxEvent is the most that is looked at of one event.
const MaxEvent = maxEvent

// Reaches is what becomes of a connection to a host that has an address, if the key would go there by
// http.
func Reaches(host, address, key string) error {
	f, _ := formats("chat")
	p, err := dial(Options{Upstream: "http://" + host, Key: key}, f, func(string) {})
	if err != nil {
		return err
	}
	return p.control("tcp", address, nil)
}

// ReadRecord says whether a record can be replayed.
func ReadRecord(from io.Reader) error {
	_, err := readRecord(from, config.Redactor{})
	return err
}
