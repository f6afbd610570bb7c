package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/git-spot/git-spot/internal/config"
)

// recorded is one line of a record: a request as it was sent, and what came back as the worker got it.
type recorded struct {
	Request struct {
		Method string `json:"method"`
		Path   string `json:"path"` // after the base URL
		Body   string `json:"body"`
	} `json:"request"`
	Response struct {
		Status int               `json:"status"`
		Header map[string]string `json:"header"`
		Body   string            `json:"body"`
		Cut    bool              `json:"cut,omitempty"` // it broke off
	} `json:"response"`
}

// maxRecorded is the most bytes that a request, and that an answer, may have to be recorded.
const maxRecorded = 16 << 20

// recorder writes exchanges down. A nil one does nothing.
type recorder struct {
	redact config.Redactor
	warn   func(string)

	mu sync.Mutex // one line at a time
	to io.Writer
}

// kept is an exchange that is being written down. A nil one is not.
type kept struct {
	*recorder
	line  recorded
	body  buffer
	spoil bool
}

// begin writes the exchange down that has got the header of its answer.
func (r *recorder) begin(x *transfer) *kept {
	if r == nil {
		return nil
	}
	k := &kept{recorder: r, body: buffer{most: maxRecorded, grow: x.held.grow}}
	if k.spoil = len(x.request.body) > maxRecorded || !x.held.grow(len(x.request.body)); k.spoil {
		return k
	}
	k.line.Request.Method, k.line.Request.Path = http.MethodPost, x.route.path
	k.line.Request.Body = r.redact.RedactJSON(string(x.request.body))
	k.line.Response.Status, k.line.Response.Header = x.status, map[string]string{}
	for name := range x.w.Header() {
		k.line.Response.Header[name] = r.redact.Redact(x.w.Header().Get(name))
	}
	return k
}

func (k *kept) add(p []byte) {
	if k != nil && !k.spoil {
		k.spoil = !k.body.add(p)
	}
}

func (k *kept) end(whole bool) {
	if k == nil {
		return
	}
	if k.spoil || !utf8.Valid(k.body.data) {
		k.warn("an exchange was not recorded: it is too long, or not text")
		return
	}
	k.line.Response.Body = k.redact.RedactJSON(string(k.body.data))
	k.line.Response.Cut = !whole
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(k.line)
	k.mu.Lock()
	if err == nil {
		_, err = k.to.Write(b.Bytes())
	}
	k.mu.Unlock()
	if err != nil {
		k.warn(fmt.Sprintf("an exchange was not recorded: %v", err))
	}
}

// replay answers from a record.
type replay struct {
	redact config.Redactor

	mu   sync.Mutex
	left map[[sha256.Size]byte][]recorded // by what was asked
}

// readRecord reads a whole record.
func readRecord(from io.Reader, redact config.Redactor) (*replay, error) {
	const most = 512 << 20
	p := &replay{redact: redact, left: map[[sha256.Size]byte][]recorded{}}
	lines := bufio.NewReader(io.LimitReader(from, most))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var r recorded
			if err := json.Unmarshal(line, &r); err != nil {
				return nil, fmt.Errorf("line %d of the record: %w", n, err)
			}
			if r.Response.Status < 200 || r.Response.Status > 599 {
				return nil, fmt.Errorf("line %d of the record has no status", n)
			}
			key := exchangeKey(r.Request.Path, r.Request.Body)
			r.Request.Body = ""
			p.left[key] = append(p.left[key], r)
		}
		switch {
		case errors.Is(err, io.EOF):
			return p, nil
		case err != nil:
			return nil, fmt.Errorf("the record: %w", err)
		}
	}
}

// exchangeKey is the same for requests that ask the same. The name under which a provider caches the
// conversation is another in each.
func exchangeKey(path, body string) [sha256.Size]byte {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(body), &members) == nil && members["prompt_cache_key"] != nil {
		delete(members, "prompt_cache_key")
		if rest, err := json.Marshal(members); err == nil {
			body = string(rest)
		}
	}
	return sha256.Sum256([]byte(path + "\x00" + body))
}

// ask takes the next answer to an equal request.
func (p *replay) ask(_ context.Context, route route, _ http.Header, body []byte) (*http.Response, error) {
	key := exchangeKey(route.path, p.redact.RedactJSON(string(body)))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.left[key]) == 0 {
		return nil, &problem{http.StatusBadRequest, "not_recorded", "this request is not in the record that is replayed, or not once more"}
	}
	r := p.left[key][0].Response
	p.left[key] = p.left[key][1:]
	resp := &http.Response{StatusCode: r.Status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(r.Body))}
	if r.Cut {
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(r.Body), broken{}))
	}
	for name, value := range r.Header {
		resp.Header.Set(name, value)
	}
	return resp, nil
}

func (p *replay) close() {}

// broken is the end of an answer that breaks off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
