// Package gateway stands between an untrusted worker and the model that the user pays for. The worker
// gets a loopback address and a token of its run; the gateway adds the key, lets nothing through but
// requests to one model for what a model says, counts what each costs, and refuses the next one once the
// budget is spent.
//
// Everything that comes in, from the worker as from the provider, is hostile input. What a request may
// hold is an allowlist: what is not on it is left out or refused, so that neither the key, nor the
// account behind it, nor the provider's network can be used for anything else.
package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
)

// Options of a Gateway. Its functions must not call the Gateway's Close.
type Options struct {
	Upstream string              // the profile's base URL
	API      string              // chat, responses or messages
	Model    string              // the only one that may be asked for
	Key      string              // "" sends none; never leaves for another host than that of Upstream
	Limits   schemas.Limits      // MaxTokens and MaxCostUSD
	Rate     config.Rate         // what a request costs whose answer does not say it
	Usage    func(schemas.Usage) // what each request consumed, as it ends, if anything of it is known
	Warn     func(string)        // each different warning once
	Refused  func()              // once, when the first request is refused for the budget
	Redact   config.Redactor     // masks what is recorded; Key and token are added
	Record   io.Writer           // gets every exchange that was answered, a JSON line each
	Replay   io.Reader           // such lines: nothing is asked upstream, and neither Upstream nor Key is used
}

// Limits of what one gateway holds and lets happen at once.
const (
	maxBody     = 32 << 20 // bytes of a request
	maxAnswers  = 64 << 20 // bytes of answers that are held at once, to read their usage or to record them
	maxInFlight = 64       // requests; the next one is told to come again
	maxConns    = 512      // connections of the worker; the next one waits
	maxHeader   = 64 << 10 // bytes of a request's header
)

// bounds are how long each part of an exchange may take, and how much all of them may hold.
type bounds struct {
	header   time.Duration // the worker sends a request's header
	body     time.Duration // the worker sends a whole body
	write    time.Duration // the worker takes a piece of the answer
	answer   time.Duration // the provider begins to answer: a model may think for long, and say nothing
	stall    time.Duration // the provider sends the next piece
	requests int64         // bytes of all requests that are held at once; the next one waits
}

var usual = bounds{
	header: 20 * time.Second, body: 2 * time.Minute, write: 5 * time.Minute, answer: 15 * time.Minute, stall: 10 * time.Minute,
	requests: 128 << 20,
}

// Gateway serves one worker's run until Close. It is safe for concurrent use.
type Gateway struct {
	o        Options
	format   format
	bounds   bounds
	base     string
	token    string
	proof    [sha256.Size]byte
	mask     masker
	meter    *meter
	recorder *recorder
	upstream upstream

	slots    chan struct{} // of requests in flight
	requests *semaphore.Weighted
	answers  *semaphore.Weighted

	server *http.Server
	cancel context.CancelFunc
	served chan error
	conns  sync.WaitGroup
	closed sync.Once
	end    error
}

// Start serves on ln, which must listen on loopback and which it closes in the end, until Close. When
// ctx ends, so do the requests that are under way. An error has started nothing and left ln open.
func Start(ctx context.Context, ln net.Listener, o Options) (*Gateway, error) {
	return start(ctx, ln, o, usual)
}

func start(ctx context.Context, ln net.Listener, o Options, b bounds) (*Gateway, error) {
	o.Key = strings.TrimSpace(o.Key)
	form, ok := formats(o.API)
	switch addr, isTCP := ln.Addr().(*net.TCPAddr); {
	case !ok:
		return nil, fmt.Errorf("gateway: the API is chat, responses or messages, not %q", o.API)
	case o.Model == "":
		return nil, errors.New("gateway: no model is named")
	case !isTCP || !addr.IP.IsLoopback():
		return nil, fmt.Errorf("gateway: %s is not on loopback", ln.Addr())
	}
	g := &Gateway{
		o: o, format: form, bounds: b,
		base:     "http://" + ln.Addr().String() + form.base,
		token:    "spot-" + rand.Text(),
		mask:     newMasker(o.Key),
		meter:    newMeter(o),
		slots:    make(chan struct{}, maxInFlight),
		served:   make(chan error, 1),
		requests: semaphore.NewWeighted(b.requests), answers: semaphore.NewWeighted(maxAnswers),
	}
	g.proof = sha256.Sum256([]byte(g.token))
	secrets := o.Redact.With(o.Key).With(g.token)
	if o.Record != nil {
		g.recorder = &recorder{to: o.Record, redact: secrets, warn: g.meter.warn}
	}
	var err error
	if o.Replay != nil {
		g.upstream, err = readRecord(o.Replay, secrets)
	} else {
		g.upstream, err = dial(o, form, g.meter.warn)
	}
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	ctx, g.cancel = context.WithCancel(ctx)
	g.server = &http.Server{
		Handler:           http.HandlerFunc(g.serve),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: b.header,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // it would go to standard error
		ConnState: func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				g.conns.Add(1)
			case http.StateClosed:
				g.conns.Done()
			}
		},
	}
	go func() { g.served <- g.server.Serve(limit(ln, maxConns)) }()
	return g, nil
}

// BaseURL is what the worker is told to be its provider's base URL.
func (g *Gateway) BaseURL() string { return g.base }

// Token is what the worker is told to be its key. It is good for this gateway alone, until Close.
func (g *Gateway) Token() string { return g.token }

// Close ends every request that is under way, accounts for it and waits until nothing of the gateway
// runs. Later calls return what the first did.
func (g *Gateway) Close() error {
	g.closed.Do(func() {
		g.cancel()
		g.end = g.server.Close()
		if err := <-g.served; !errors.Is(err, http.ErrServerClosed) {
			g.end = errors.Join(g.end, err)
		}
		_ = g.server.Close() // a connection that was accepted meanwhile
		g.conns.Wait()
		g.upstream.close()
		g.meter.close()
	})
	return g.end
}

// limit bounds the connections of ln that are open at once: each of them costs a descriptor.
func limit(ln net.Listener, most int) net.Listener {
	return &limited{Listener: ln, free: make(chan struct{}, most), done: make(chan struct{})}
}

type limited struct {
	net.Listener
	free chan struct{}
	done chan struct{}
	once sync.Once
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &counted{Conn: conn, gone: func() { <-l.free }}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

type counted struct {
	net.Conn
	once sync.Once
	gone func()
}

func (c *counted) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.gone)
	return err
}

// CloseWrite is for net/http: a worker that still sends when it is refused is to see the refusal.
func (c *counted) CloseWrite() error {
	if conn, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return nil
}
