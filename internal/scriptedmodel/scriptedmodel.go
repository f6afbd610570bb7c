// Package scriptedmodel is a model server that says what a script tells it to: tests and the demo play
// a model with it. It speaks chat completions, responses and messages as the vendors document them,
// streaming and not, refuses what they refuse, and can fail in the ways in which they fail. It listens
// on loopback alone and answers nobody who asks for another host.
package scriptedmodel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// The wire formats, in the words of spot.profile.NAME.api.
const (
	Chat      = "chat"
	Responses = "responses"
	Messages  = "messages"
)

// Options of a Server.
type Options struct {
	Script Script
	// Key is demanded as a bearer token, or as x-api-key by messages. "" takes any and none.
	Key string
}

// Server plays a script. It is safe for concurrent use.
type Server struct {
	o      Options
	url    string
	http   *http.Server
	cancel context.CancelFunc
	served chan error
	conns  sync.WaitGroup // with the handlers, which run in them; grows only while serving

	mu       sync.Mutex // guards what follows
	closed   bool
	requests []Request
	used     map[conversation]map[int]int // how often each failing step was played
	sent     Usage
}

// Request is one that the server got, whatever it answered.
type Request struct {
	API    string // chat, responses, messages, or "" for a path that is none of them
	Path   string
	Header http.Header
	Body   []byte
}

// conversation tells apart those who play the same steps at the same time: by what the first user
// message says.
type conversation struct {
	part   int // which steps of the script
	prompt [32]byte
}

// maxBody is what a request may have in bytes.
const maxBody = 32 << 20

// Start listens on a free port of 127.0.0.1 and serves until Close, or until ctx ends. It refuses an
// invalid script.
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := o.Script.valid(); err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("scripted model: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Server{
		o: o, url: "http://" + ln.Addr().String(), cancel: cancel, served: make(chan error, 1),
		used: map[conversation]map[int]int{},
	}
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: time.Minute,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.conns.Add(1)
			case http.StateClosed:
				s.conns.Done()
			}
		},
	}
	go func() { s.served <- s.http.Serve(ln) }()
	context.AfterFunc(ctx, func() { _ = s.http.Close() })
	return s, nil
}

// URL is http://ADDRESS:PORT, without a path.
func (s *Server) URL() string { return s.url }

// BaseURL is what a profile's baseURL is for the wire format api.
func (s *Server) BaseURL(api string) string {
	if api == Messages {
		return s.url
	}
	return s.url + "/v1"
}

// Requests returns all requests so far, in the order in which they came. The caller must not change them.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[:len(s.requests):len(s.requests)]
}

// Usage is the sum of the numbers that were sent. What a client has read is in it.
func (s *Server) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Close ends every request, also those that hang, and waits until nothing of the server runs.
// Later calls do nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.cancel()
	err := s.http.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	_ = s.http.Close() // a connection that was accepted meanwhile
	s.conns.Wait()
	return err
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !loopback(r.Host) {
		http.Error(w, "this server answers on loopback only", http.StatusMisdirectedRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	wire, known := wires[r.URL.Path]
	s.mu.Lock()
	s.requests = append(s.requests, Request{API: wire.api, Path: r.URL.Path, Header: r.Header.Clone(), Body: body})
	s.mu.Unlock()
	if !known {
		http.NotFound(w, r)
		return
	}
	a, err := s.answer(r, wire, body)
	if refusal, ok := errors.AsType[*refusal](err); ok {
		s.refuse(w, wire, refusal)
		return
	}
	switch {
	case a.step.Fault == FaultHang:
		hang(r)
	case a.ask.stream:
		s.stream(w, r, wire, a)
	default:
		s.whole(w, r, wire, a)
	}
}

// loopback says whether a Host header names this machine's loopback. A page that a name of its own
// leads here is not answered.
func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && addr.IsLoopback()
}

// answer finds what the script says to the request. The error is a *refusal.
func (s *Server) answer(r *http.Request, wire wire, body []byte) (answer, error) {
	if r.Method != http.MethodPost {
		return answer{}, &refusal{status: http.StatusMethodNotAllowed, message: "only POST is answered here"}
	}
	if s.o.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.o.Key &&
		(wire.api != Messages || r.Header.Get("X-Api-Key") != s.o.Key) {
		return answer{}, &refusal{status: http.StatusUnauthorized, message: "the key is not valid"}
	}
	ask, err := wire.read(r.Header, body)
	if err != nil {
		return answer{}, &refusal{status: http.StatusBadRequest, message: err.Error()}
	}
	_, steps := s.o.Script.part(ask.prompt)
	for i, spoken := range ask.spoken {
		if step, _ := due(steps, i); spoken.called && spoken.reasoning != step.Reasoning {
			return answer{}, &refusal{status: http.StatusBadRequest, message: "the reasoning before a tool call must be passed back"}
		}
	}
	a := s.o.Script.answer(ask, s.next(ask), len(body))
	if a.step.Status != 0 {
		return answer{}, &refusal{a.step.Status, a.step.Error, a.step.Text, a.step.RetryAfter}
	}
	return a, nil
}

// next takes the step that is due in the conversation.
func (s *Server) next(ask ask) Step {
	part, steps := s.o.Script.part(ask.prompt)
	key := conversation{part, ask.key()}
	answer, from := due(steps, len(ask.spoken))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := from; i < len(steps) && steps[i].fails(); i++ {
		if s.used[key][i] < max(1, steps[i].Times) {
			if s.used[key] == nil {
				s.used[key] = map[int]int{}
			}
			s.used[key][i]++
			return steps[i]
		}
	}
	return answer
}

// count adds what is about to be sent, so that a client that has read it finds it in Usage, and returns
// how to take it back if it could not be.
func (s *Server) count(u Usage) (undo func()) {
	add := func(sign int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent.Input += sign * u.Input
		s.sent.CacheRead += sign * u.CacheRead
		s.sent.CacheWrite += sign * u.CacheWrite
		s.sent.Output += sign * u.Output
		s.sent.Reasoning += sign * u.Reasoning
	}
	add(1)
	return func() { add(-1) }
}
