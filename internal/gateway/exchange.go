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
	"slices"
	"strings"
	"time"

	"github.com/git-spot/git-spot/schemas"
)

// serve answers one request of the worker.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	if err := g.request(w, r); err != nil {
		p, ok := errors.AsType[*problem](err)
		if !ok {
			// The worker is gone, or it has the beginning of an answer that has no end: a connection
			// that breaks off cannot be taken for a whole answer.
			panic(http.ErrAbortHandler)
		}
		if p.status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		g.drain(w, r)
		g.say(w, p.status, g.format.problem(*p))
	}
}

// drain takes what is left of a body that nobody wants: most programs read no answer before they have
// sent all, and see no refusal if the connection ends meanwhile.
func (g *Gateway) drain(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Expect") == "" { // else it is not sent before it is read
		defer g.hurry(w)()
		_, _ = io.CopyN(io.Discard, r.Body, 2*maxBody)
	}
}

// hurry ends reading from the worker once its time is up. The result calls that off, and says whether it
// was too late for it.
func (g *Gateway) hurry(w http.ResponseWriter) (late func() bool) {
	conn := http.NewResponseController(w)
	slow := time.AfterFunc(g.bounds.body, func() { _ = conn.SetReadDeadline(past) })
	return func() bool { return !slow.Stop() }
}

func (g *Gateway) say(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encoded(v)) // who does not listen has no use for it
}

// request lets a request of the worker through, or returns a *problem to answer with. Any other error
// ends the connection.
func (g *Gateway) request(w http.ResponseWriter, r *http.Request) error {
	// A page in the user's browser can send requests here, also under a name of its own.
	if !loopback(r.Host) || len(r.Header.Values("Origin")) > 0 {
		return &problem{status: http.StatusForbidden, message: "only a program on this machine is answered"}
	}
	if !g.admits(r.Header) {
		return &problem{http.StatusUnauthorized, "invalid_api_key", "the token is not that of this run"}
	}
	route, ok := g.format.routes[r.URL.Path]
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
	if r.URL.RawQuery != route.query {
		route.query = ""
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

// admits says whether the header has this run's token, in either of the places where a key is looked for.
func (g *Gateway) admits(h http.Header) bool {
	right := 0
	for _, presented := range slices.Concat(h.Values("X-Api-Key"), h.Values("Authorization")) {
		if scheme, rest, ok := strings.Cut(presented, " "); ok && strings.EqualFold(scheme, "Bearer") {
			presented = rest
		}
		sum := sha256.Sum256([]byte(presented))
		right |= subtle.ConstantTimeCompare(sum[:], g.proof[:])
	}
	return right == 1
}

// exchange sends a request on and its answer back.
func (g *Gateway) exchange(w http.ResponseWriter, r *http.Request, route route) error {
	held := &holding{g: g}
	defer held.release()
	a, err := g.read(w, r, held)
	if err != nil {
		return err
	}
	for _, name := range a.dropped {
		g.meter.quote("dropped", "%q of the worker's requests is not passed on to the provider", name)
	}
	if route.free {
		a.maxOutput = 0
	}
	bill, err := g.meter.admit(r.Context(), int64(len(a.body)), a.maxOutput)
	switch {
	case err != nil:
		return err
	case bill == nil:
		return &problem{http.StatusPaymentRequired, codeBudget, "the budget of this run is spent"}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	x := &transfer{g: g, w: w, held: held, bill: bill, route: route, request: a}
	x.watch = time.AfterFunc(g.bounds.answer, func() { cancel(errSilent) })
	defer x.watch.Stop()
	x.events = newEvents(held.grow, x.reading.read)
	defer x.settle()

	header := http.Header{"Accept": {"application/json"}}
	if a.stream {
		header.Set("Accept", "text/event-stream")
	}
	g.format.forward(header, r.Header)
	resp, err := g.upstream.ask(ctx, route, header, a.body)
	if err != nil {
		return x.failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // what is left of it is not wanted
	return x.pass(resp)
}

// errSilent is the cause of an end for want of an answer.
var errSilent = errors.New("the provider did not answer in time")

// read takes the body of a request and makes of it what may be sent.
func (g *Gateway) read(w http.ResponseWriter, r *http.Request, held *holding) (asked, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return asked{}, &problem{status: http.StatusUnsupportedMediaType, message: "the body must be application/json"}
	}
	if r.Header.Get("Content-Encoding") != "" {
		return asked{}, &problem{status: http.StatusUnsupportedMediaType, message: "the body must not be compressed"}
	}
	tooLarge := &problem{status: http.StatusRequestEntityTooLarge, message: "a request has at most 32 MiB"}
	size := r.ContentLength
	switch {
	case size > maxBody:
		return asked{}, tooLarge
	case size < 0:
		size = maxBody // it does not say
	}
	// What comes, and what is made of it.
	if err := held.wait(r.Context(), 2*size); err != nil {
		return asked{}, err
	}
	late := g.hurry(w)
	var body []byte
	var err error
	if r.ContentLength >= 0 {
		body = make([]byte, size)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	}
	_, over := errors.AsType[*http.MaxBytesError](err)
	switch isLate := late(); {
	case over:
		return asked{}, tooLarge
	case isLate:
		return asked{}, &problem{status: http.StatusRequestTimeout, message: "the body did not come in time"}
	case err != nil:
		return asked{}, err
	}
	a, err := rewrite(g.format, g.o.Model, body)
	if err != nil {
		return asked{}, err
	}
	held.less(max(0, 2*size-int64(cap(a.body))))
	return a, nil
}

// past is a deadline that has passed: setting it ends what is under way.
var past = time.Unix(1, 0)

// transfer is the way of one request to the provider and back.
type transfer struct {
	g       *Gateway
	w       http.ResponseWriter
	held    *holding
	bill    *bill
	route   route
	request asked
	watch   *time.Timer // ends the exchange if the provider does nothing

	unsent  bool // the provider has not got the request
	status  int  // of its answer
	events  *events
	reading reading
	size    int64 // bytes of the answer
}

// failed is how a request ends that got no answer.
func (x *transfer) failed(ctx context.Context, err error) error {
	_, x.unsent = errors.AsType[unsentError](err)
	switch p, ok := errors.AsType[*problem](err); {
	case ok:
		x.unsent = true
		return p
	case errors.Is(context.Cause(ctx), errSilent):
		return &problem{http.StatusGatewayTimeout, "upstream_timeout", errSilent.Error()}
	case ctx.Err() != nil:
		return err // the worker is gone
	}
	return &problem{status: http.StatusBadGateway, message: "the provider cannot be reached: " + short(x.g.mask.text(err.Error()))}
}

// pass sends the answer to the worker as it comes.
func (x *transfer) pass(resp *http.Response) error {
	x.status = resp.StatusCode
	encoding := resp.Header.Get("Content-Encoding")
	switch {
	case x.status >= 300 && x.status < 400:
		// Whoever it points to is not who the key is for.
		return &problem{http.StatusNotFound, "upstream_redirect", "the provider redirects: the base URL of the profile is not the right one"}
	case x.status < 200:
		return &problem{status: http.StatusBadGateway, message: "the provider changes to another protocol"}
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return &problem{status: http.StatusBadGateway, message: "the provider compresses its answer, which it was asked not to"}
	}
	x.passHeader(resp.Header)
	kept := x.g.recorder.begin(x)
	whole := false
	defer func() { kept.end(whole) }()

	out := http.NewResponseController(x.w)
	slow := time.AfterFunc(x.g.bounds.write, func() { _ = out.SetWriteDeadline(past) })
	defer slow.Stop()
	write := func(p []byte) error {
		x.size += int64(len(p))
		x.events.feed(p)
		x.count() // before the worker, which may ask again at once, can know of it
		kept.add(p)
		slow.Reset(x.g.bounds.write)
		if _, err := x.w.Write(p); err != nil {
			return err
		}
		err := out.Flush()
		slow.Stop()
		return err
	}
	x.w.WriteHeader(x.status)
	if err := write(nil); err != nil {
		return err
	}
	mask := stream{masker: x.g.mask}
	buffer := make([]byte, 32<<10)
	for {
		x.watch.Reset(x.g.bounds.stall)
		n, err := resp.Body.Read(buffer)
		x.watch.Stop()
		p := mask.next(buffer[:n])
		if err != nil {
			p = append(p, mask.rest()...)
		}
		if len(p) > 0 {
			if err := write(p); err != nil {
				return err
			}
		}
		if err != nil {
			x.events.finish()
			if whole = errors.Is(err, io.EOF); whole {
				return nil
			}
			return err
		}
	}
}

// passHeader takes over what the worker needs of the answer's header.
func (x *transfer) passHeader(from http.Header) {
	const most, longest = 48, 1 << 10
	to := x.w.Header()
	for name, values := range from {
		switch lower := strings.ToLower(name); {
		case lower == "content-type" || lower == "retry-after" || lower == "retry-after-ms" || lower == "x-should-retry" ||
			lower == "request-id" || lower == "x-request-id" ||
			strings.HasPrefix(lower, "x-ratelimit-") || strings.HasPrefix(lower, "anthropic-ratelimit-"):
			if len(values[0]) <= longest && (len(to) < most || lower == "content-type") {
				to.Set(name, x.g.mask.text(values[0]))
			}
		}
	}
	if to.Get("Content-Type") == "" {
		to.Set("Content-Type", "application/octet-stream") // net/http would guess
	}
}

// usage is what is known of the request's usage.
func (x *transfer) usage() schemas.Usage {
	u := x.g.format.usage(x.reading.said)
	u.CostUSD = x.reading.said.cost()
	return u
}

// billed says whether the provider may have let the model work on the request.
func (x *transfer) billed() bool {
	return !x.unsent && !x.route.free && (x.status == 0 || x.status/100 == 2)
}

func (x *transfer) count() {
	if x.billed() {
		x.bill.count(x.usage())
	}
}

// settle accounts for the exchange, however it has ended.
func (x *transfer) settle() {
	if !x.billed() {
		x.bill.void()
		return
	}
	x.g.meter.answered(x.reading.model)
	text := x.reading.text
	if text == 0 { // it is in one piece, or has a form of its own
		text = x.size
	}
	x.bill.settle(x.usage(), text)
}

// holding is what one exchange holds of the gateway's memory.
type holding struct {
	g       *Gateway
	request int64
	answer  int64
	few     int // bytes of the answer's that need not be asked for
}

// Bytes of an exchange beside the body of the request: buffers of both connections, and what is enough
// to read the usual answer.
const (
	fewBytes        = 128 << 10
	bytesPerRequest = 64<<10 + fewBytes
)

// wait takes memory for a request of size bytes, as soon as there is some.
func (h *holding) wait(ctx context.Context, size int64) error {
	size += bytesPerRequest
	err := h.g.requests.Acquire(ctx, size)
	if err == nil {
		h.request, h.few = size, fewBytes
	}
	return err
}

// less gives a part back.
func (h *holding) less(n int64) {
	h.g.requests.Release(n)
	h.request -= n
}

// grow takes memory for an answer, if there is some now: whoever holds some must not wait for more.
func (h *holding) grow(n int) bool {
	if n <= h.few {
		h.few -= n
		return true
	}
	ok := h.g.answers.TryAcquire(int64(n))
	if ok {
		h.answer += int64(n)
	}
	return ok
}

func (h *holding) release() {
	h.g.requests.Release(h.request)
	h.g.answers.Release(h.answer)
}
