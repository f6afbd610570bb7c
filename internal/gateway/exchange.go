package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/git-spot/git-spot/schemas"
)

// serve answers one request of the worker.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	if err := g.request(w, r); err != nil {
		p, ok := errors.AsType[*problem](err)
		if !ok {
			panic(http.ErrAbortHandler) // the worker is gone, or has the beginning of an answer: ends the connection
		}
		g.refuse(w, *p)
	}
}

// refuse answers with an error of the API's shape. The connection ends with it, so that a worker that is
// in the middle of a body need not be listened to.
func (g *Gateway) refuse(w http.ResponseWriter, p problem) {
	w.Header().Set("Connection", "close")
	if p.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	p.message = "git spot: " + p.message
	g.say(w, p.status, g.format.problem(p))
}

func (g *Gateway) say(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encoded(v)) // who does not listen has no use for it
}

// request lets a request of the worker through, or returns a *problem to answer with. Any other error
// has no answer.
func (g *Gateway) request(w http.ResponseWriter, r *http.Request) error {
	// A page in the user's browser can send requests here, also under a name of its own.
	if !loopback(r.Host) || len(r.Header.Values("Origin")) > 0 {
		return &problem{status: http.StatusForbidden, message: "only a program on this machine is answered"}
	}
	if !g.admits(r.Header) {
		return &problem{http.StatusUnauthorized, "invalid_api_key", "the token is not that of this run"}
	}
	route, ok := g.routes[r.URL.Path]
	method := http.MethodPost
	if route.path == "" {
		method = http.MethodGet
	}
	switch {
	case !ok:
		return &problem{status: http.StatusNotFound, message: "nothing is served here but the model"}
	case r.Method != method:
		w.Header().Set("Allow", method)
		return &problem{status: http.StatusMethodNotAllowed, message: "only " + method + " is served here"}
	case route.path == "":
		g.say(w, http.StatusOK, g.format.models(g.o.Model))
		return nil
	}
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	default:
		return &problem{status: http.StatusTooManyRequests, message: "too many requests at once"}
	}
	return g.exchange(w, r, route)
}

// loopback says whether a Host header names this machine's loopback.
func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}

// admits says whether the header has this run's token, where any of the formats has a key.
func (g *Gateway) admits(h http.Header) bool {
	right := 0
	for _, presented := range append(h.Values("X-Api-Key"), h.Values("Authorization")...) {
		if scheme, rest, ok := strings.Cut(presented, " "); ok && strings.EqualFold(scheme, "Bearer") {
			presented = rest
		}
		sum := sha256.Sum256([]byte(presented))
		right |= subtle.ConstantTimeCompare(sum[:], g.proof[:])
	}
	return right == 1
}

// holding is what one exchange holds of the gateway's memory.
type holding struct {
	g     *Gateway
	bytes int64
}

// grow takes more, if there is more now.
func (h *holding) grow(n int) bool {
	ok := h.g.memory.TryAcquire(int64(n))
	if ok {
		h.bytes += int64(n)
	}
	return ok
}

// wait takes more as soon as there is more.
func (h *holding) wait(ctx context.Context, n int64) error {
	err := h.g.memory.Acquire(ctx, n)
	if err == nil {
		h.bytes += n
	}
	return err
}

func (h *holding) release(n int64) {
	h.g.memory.Release(n)
	h.bytes -= n
}

// exchange sends a request on and its answer back.
func (g *Gateway) exchange(w http.ResponseWriter, r *http.Request, route route) error {
	held := &holding{g: g}
	defer func() { held.release(held.bytes) }()
	a, err := g.read(w, r, held)
	if err != nil {
		return err
	}
	for _, name := range a.dropped {
		g.meter.warn("not passed on to the provider: " + name)
	}
	maxOutput := a.maxOutput
	if route.free {
		maxOutput = 0
	}
	bill, err := g.meter.admit(r.Context(), int64(len(a.body)), maxOutput)
	switch {
	case err != nil:
		return err
	case bill == nil:
		return &problem{http.StatusPaymentRequired, codeBudget, "the budget of this run is spent"}
	}

	x := &transfer{g: g, w: w, bill: bill, held: held, request: a, path: route.path, free: route.free}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	x.watch = time.AfterFunc(g.patience.answer, func() { cancel(errSilent) })
	defer x.watch.Stop()
	defer x.settle()

	header := http.Header{}
	g.format.forward(header, r.Header)
	path := route.path
	if route.query != "" && r.URL.RawQuery == route.query {
		path += "?" + route.query
	}
	resp, err := g.upstream.ask(ctx, path, header, a.body)
	if err != nil {
		return x.failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // what is left of it is not wanted
	return x.copy(ctx, resp)
}

// errSilent is the cause of an end for want of an answer.
var errSilent = errors.New("the provider has not answered in time")

// read takes the body of a request and makes of it what may be sent.
func (g *Gateway) read(w http.ResponseWriter, r *http.Request, held *holding) (asked, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return asked{}, &problem{status: http.StatusUnsupportedMediaType, message: "the body must be application/json"}
	}
	if r.Header.Get("Content-Encoding") != "" {
		return asked{}, &problem{status: http.StatusUnsupportedMediaType, message: "the body must not be compressed"}
	}
	size := r.ContentLength
	tooLarge := &problem{status: http.StatusRequestEntityTooLarge, message: "a request has at most 32 MiB"}
	switch {
	case size > maxBody:
		return asked{}, tooLarge
	case size < 0:
		size = maxBody
	}
	// What comes, and what is made of it.
	if err := held.wait(r.Context(), 2*size+bytesPerRequest); err != nil {
		return asked{}, err
	}
	late := g.deadline(w, g.patience.body)
	var body []byte
	var err error
	if r.ContentLength >= 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	}
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return asked{}, tooLarge
	}
	if late() {
		return asked{}, &problem{status: http.StatusRequestTimeout, message: "the body did not come in time"}
	}
	if err != nil {
		return asked{}, err
	}
	a, err := rewrite(g.format, g.o.Model, body)
	if err != nil {
		return asked{}, err
	}
	held.release(max(0, 2*size-int64(cap(a.body))))
	return a, nil
}

// bytesPerRequest is what a request costs beside its body: buffers of both connections.
const bytesPerRequest = 64 << 10

// past is a time that any deadline has passed.
var past = time.Unix(1, 0)

// deadline ends reading from the worker after d. The result takes the deadline back and says whether it
// was too late for that.
func (g *Gateway) deadline(w http.ResponseWriter, d time.Duration) (late func() bool) {
	conn := http.NewResponseController(w)
	timer := time.AfterFunc(d, func() { _ = conn.SetReadDeadline(past) })
	return func() bool { return !timer.Stop() }
}

// transfer is the way back of one exchange.
type transfer struct {
	g       *Gateway
	w       http.ResponseWriter
	bill    *bill
	held    *holding
	request asked
	path    string
	free    bool
	watch   *time.Timer // ends the exchange if the provider does nothing

	unsent  bool // the provider has not got the request
	status  int
	reading reading
	size    int64 // bytes of the answer
	stream  bool
	kept    *kept
}

// failed is the answer to a request that got none.
func (x *transfer) failed(ctx context.Context, err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		x.unsent = true
		return p
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" || isProxy(err) {
		x.unsent = true
	}
	switch {
	case errors.Is(context.Cause(ctx), errSilent):
		return &problem{http.StatusGatewayTimeout, "upstream_timeout", errSilent.Error()}
	case ctx.Err() != nil:
		return err // the worker is gone
	}
	return &problem{status: http.StatusBadGateway, message: "the provider cannot be reached: " + short(x.g.mask.text(err.Error()))}
}

func isProxy(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "proxyconnect"
}

// copy sends the answer on as it comes.
func (x *transfer) copy(ctx context.Context, resp *http.Response) error {
	x.status = resp.StatusCode
	switch {
	case x.status >= 300 && x.status < 400:
		// Whoever it points to is not who the key is for. Trying again does not help either.
		return &problem{http.StatusBadRequest, "upstream_redirect", "the provider redirects: the base URL of the profile is not its own"}
	case x.status < 200:
		return &problem{status: http.StatusBadGateway, message: "the provider speaks another protocol"}
	case resp.Header.Get("Content-Encoding") != "" && !strings.EqualFold(resp.Header.Get("Content-Encoding"), "identity"):
		return &problem{status: http.StatusBadGateway, message: "the provider sends what was not asked for: a compressed answer"}
	}
	x.passHeader(resp.Header)
	x.kept = x.g.recorder.begin(x.held, x.path, x.request.body, x.status, x.w.Header())
	x.w.WriteHeader(x.status)
	out := http.NewResponseController(x.w)
	slow := time.AfterFunc(x.g.patience.write, func() { _ = out.SetWriteDeadline(past) })
	defer slow.Stop()

	mask := stream{masker: x.g.mask}
	events := &events{grow: x.held.grow, found: func(data []byte) {
		x.reading.read(data)
	}}
	pass := func(p []byte) error {
		if len(p) == 0 {
			return nil
		}
		x.size += int64(len(p))
		events.feed(p)
		x.count()
		x.kept.add(p)
		slow.Reset(x.g.patience.write)
		if _, err := x.w.Write(p); err != nil {
			return err
		}
		err := out.Flush()
		slow.Stop()
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	slow.Stop()
	buffer := make([]byte, 32<<10)
	for {
		x.watch.Reset(x.g.patience.stall)
		n, readErr := resp.Body.Read(buffer)
		x.watch.Stop()
		err := pass(mask.next(buffer[:n]))
		if readErr != nil && err == nil {
			err = pass(mask.rest())
		}
		switch {
		case err != nil:
			return err
		case readErr == nil:
			continue
		}
		events.finish()
		x.stream = events.kind == sse
		x.count()
		if readErr == io.EOF {
			x.kept.end(true)
			return nil
		}
		x.kept.end(false)
		return readErr
	}
}

// passHeader takes over what the worker needs of the answer's header.
func (x *transfer) passHeader(from http.Header) {
	const most = 1 << 10
	to := x.w.Header()
	for name, values := range from {
		lower := strings.ToLower(name)
		switch lower {
		case "content-type", "retry-after", "retry-after-ms", "request-id", "x-request-id", "x-should-retry":
		default:
			if !strings.HasPrefix(lower, "x-ratelimit-") && !strings.HasPrefix(lower, "anthropic-ratelimit-") {
				continue
			}
		}
		if len(values[0]) <= most && len(to) < 64 {
			to.Set(name, x.g.mask.text(values[0]))
		}
	}
	if to.Get("Content-Type") == "" {
		to.Set("Content-Type", "application/octet-stream") // else net/http guesses
	}
}

// usage is what is known of the request's usage.
func (x *transfer) usage() schemas.Usage {
	u := x.g.format.usage(x.reading.said)
	if cost := x.reading.said.Cost; cost.known {
		u.CostUSD = &cost.usd
	}
	return u
}

func (x *transfer) billed() bool { return !x.free && (x.status == 0 || x.status/100 == 2) }

func (x *transfer) count() {
	if x.billed() {
		x.bill.count(x.usage())
	}
}

// settle accounts for the exchange, however it has ended.
func (x *transfer) settle() {
	x.g.meter.answered(x.reading.model)
	if x.unsent || !x.billed() {
		x.bill.void()
		return
	}
	text := x.reading.text
	if !x.stream {
		text = max(text, x.size)
	}
	x.bill.settle(x.usage(), text)
}
