// Latency measures what the gateway adds to a request: it asks a model server on loopback, directly and
// through a gateway in turns, and prints what each took:
//
//	latency [-requests N]
//
// Each line is a name, the median and the 99th percentile of the time from the first byte sent to the
// last byte read, in milliseconds, separated by tabs. The server answers at once, with a stream of forty
// events; requests are made one after the other on a connection that is kept.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/git-spot/git-spot/internal/gateway"
)

func main() {
	requests := flag.Int("requests", 1000, "samples of each figure")
	flag.Parse()
	if err := measure(context.Background(), *requests); err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

// way is one way to the model.
type way struct {
	name, url, token string
	client           http.Client
	took             []time.Duration
}

func measure(ctx context.Context, requests int) error {
	const key = "sk-0123456789abcdef0123456789abcdef"
	provider, stop, err := serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g, err := gateway.Start(ctx, ln, gateway.Options{Upstream: provider, API: "chat", Model: "m", Key: key})
	if err != nil {
		return err
	}
	defer g.Close() //nolint:errcheck // the figures are printed
	for _, size := range []int{1, 100, 1000} {
		ways := []*way{
			{name: fmt.Sprintf("directly, %d kB", size), url: provider, token: key},
			{name: fmt.Sprintf("through the gateway, %d kB", size), url: g.BaseURL(), token: g.Token()},
		}
		body := []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"` +
			strings.Repeat("some text of a file\\n", size*1000/20) + `"}]}`)
		n := requests
		if size > 100 {
			n = max(1, n/10)
		}
		for range n {
			for _, w := range ways {
				if err := w.ask(ctx, body); err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
			}
		}
		for _, w := range ways {
			slices.Sort(w.took)
			fmt.Printf("%s\t%.3f\t%.3f\n", w.name, ms(w.took[len(w.took)/2]), ms(w.took[len(w.took)*99/100]))
			w.client.CloseIdleConnections()
		}
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (w *way) ask(ctx context.Context, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+w.token)
	start := time.Now()
	resp, err := w.client.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	w.took = append(w.took, time.Since(start))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the answer is %s", resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// serve is a model server that has an answer to everything.
func serve(ctx context.Context) (url string, stop func(), err error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	event := []byte(`data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"a word "}}]}` + "\n\n")
	last := []byte(`data: {"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":40}}` + "\n\ndata: [DONE]\n\n")
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		for range 40 {
			if _, err := w.Write(event); err != nil {
				return
			}
			if err := out.Flush(); err != nil {
				return
			}
		}
		_, _ = w.Write(last)
	})}
	go func() { _ = server.Serve(ln) }()
	return "http://" + ln.Addr().String(), func() { _ = server.Close() }, nil
}
