package model

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

var errTooBig = &Error{Class: ClassPermanent, Message: fmt.Sprintf("the answer is longer than %d MiB", maxAnswer>>20)}

// exchange is one request with its answer: it watches that the server goes on talking and how much it
// says. Each client hands its middleware to the SDK.
type exchange struct {
	now    func() time.Time
	cancel context.CancelFunc
	silent atomic.Bool
	size   int64 // bytes of the answer

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	idle  time.Duration
}

// newExchange returns the context of the request, too: it ends with parent, when the server falls silent,
// and with close.
func newExchange(parent context.Context, o Options) (context.Context, *exchange) {
	ctx, cancel := context.WithCancel(parent)
	e := &exchange{now: o.Now, cancel: cancel, idle: o.Idle}
	e.timer = time.AfterFunc(e.idle, func() {
		e.silent.Store(true)
		cancel()
	})
	return ctx, e
}

func (e *exchange) close() {
	e.timer.Stop()
	e.cancel()
}

// alive notes that the server said something.
func (e *exchange) alive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer.Reset(e.idle)
}

// settle says that the answer is complete: what may still come is not worth a long wait.
func (e *exchange) settle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = min(e.idle, settleIdle)
	e.timer.Reset(e.idle)
}

// grow counts n bytes of the answer.
func (e *exchange) grow(n int) error {
	e.size += int64(n)
	if e.size > maxAnswer {
		return errTooBig
	}
	return nil
}

// middleware turns what is no stream of events into a *Error, and bounds what is one.
func (e *exchange) middleware(request *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	response, err := next(request)
	if err != nil {
		return nil, err
	}
	e.alive()
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode == http.StatusOK && kind == "text/event-stream" {
		response.Body = &body{ReadCloser: response.Body, exchange: e}
		return response, nil
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxRefuse))
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil && len(text) == 0 {
		return nil, err
	}
	refusal := classify(response.StatusCode, text)
	if refusal.RetryAfter == 0 {
		refusal.RetryAfter = retryAfter(response.Header, e.now())
	}
	return nil, refusal
}

// failure makes a *Error of what an SDK returned, or the cause of the context that the caller gave. A nil
// err stands for a stream that ended before the answer did.
func (e *exchange) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e.silent.Load() {
		return &Error{Class: ClassTransient, Silent: true, Message: "the server has fallen silent"}
	}
	if err == nil {
		return &Error{Class: ClassTransient, Message: "the stream ended before the answer did"}
	}
	if known := serverError(err); known != nil {
		return known
	}
	return &Error{Class: ClassTransient, Message: bounded(err.Error())}
}

// body is the body of a stream of events.
type body struct {
	io.ReadCloser
	exchange    *exchange
	total, line int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.exchange.alive()
	}
	b.total += int64(n)
	if last := bytes.LastIndexByte(p[:n], '\n'); last >= 0 {
		b.line = int64(n - last - 1)
	} else {
		b.line += int64(n)
	}
	if b.total > maxStream || b.line > maxLine {
		return n, errTooBig
	}
	return n, err
}
