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

// recorded is one line of a record.
type recorded struct {
	Request  recordedRequest  `json:"request"`
	Response recordedResponse `json:"response"`
}

type recordedRequest struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Body   string `json:"body"`
}

type recordedResponse struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`
	Cut    bool              `json:"cut,omitempty"` // the answer broke off
}

// maxRecorded is the most bytes that a request, and that an answer, may have to be recorded.
const maxRecorded = 16 << 20

// recorder writes exchanges down. A nil recorder writes nothing.
type recorder struct {
	redact config.Redactor
	warn   func(string)

	mu sync.Mutex // one line at a time
	to io.Writer
}

// kept is an exchange that is being recorded. A nil one is not.
type kept struct {
	r     *recorder
	held  *holding
	line  recorded
	body  []byte
	spoil bool
}

func (r *recorder) begin(held *holding, path string, body []byte, status int, header http.Header) *kept {
	if r == nil {
		return nil
	}
	k := &kept{r: r, held: held}
	k.line.Request = recordedRequest{http.MethodPost, path, r.redact.Redact(string(body))}
	k.line.Response = recordedResponse{Status: status, Header: map[string]string{}}
	for name := range header {
		k.line.Response.Header[name] = r.redact.Redact(header.Get(name))
	}
	return k
}

func (k *kept) add(p []byte) {
	if k == nil || k.spoil {
		return
	}
	if len(k.body)+len(p) > maxRecorded || !k.held.grow(len(p)) {
		k.spoil, k.body = true, nil
		return
	}
	k.body = append(k.body, p...)
}

func (k *kept) end(whole bool) {
	if k == nil {
		return
	}
	if k.spoil || !utf8.Valid(k.body) {
		k.r.warn("an exchange was not recorded: it is too long, or not text")
		return
	}
	k.line.Response.Body = k.r.redact.Redact(string(k.body))
	k.line.Response.Cut = !whole
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(k.line)
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	if err == nil {
		_, err = k.r.to.Write(b.Bytes())
	}
	if err != nil {
		k.r.warn(fmt.Sprintf("an exchange was not recorded: %v", err))
	}
}

// replay answers from a record.
type replay struct {
	redact config.Redactor

	mu   sync.Mutex
	left map[[sha256.Size]byte][]recordedResponse
}

// readRecord reads all of a record.
func readRecord(from io.Reader, redact config.Redactor) (*replay, error) {
	const most = 256 << 20
	p := &replay{redact: redact, left: map[[sha256.Size]byte][]recordedResponse{}}
	lines := bufio.NewReader(io.LimitReader(from, most))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var r recorded
			if err := json.Unmarshal(line, &r); err != nil {
				return nil, fmt.Errorf("line %d of the record: %w", n, err)
			}
			key := exchangeKey(r.Request.Path, r.Request.Body)
			p.left[key] = append(p.left[key], r.Response)
		}
		if errors.Is(err, io.EOF) {
			return p, nil
		} else if err != nil {
			return nil, fmt.Errorf("the record: %w", err)
		}
	}
}

func exchangeKey(path, body string) [sha256.Size]byte {
	return sha256.Sum256([]byte(path + "\x00" + body))
}

func (p *replay) ask(_ context.Context, path string, _ http.Header, body []byte) (*http.Response, error) {
	path, _, _ = strings.Cut(path, "?")
	key := exchangeKey(path, p.redact.Redact(string(body)))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.left[key]) == 0 {
		return nil, &problem{http.StatusBadRequest, "not_recorded", "this request is not in the record that is being replayed"}
	}
	r := p.left[key][0]
	p.left[key] = p.left[key][1:]
	resp := &http.Response{StatusCode: r.Status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(r.Body))}
	for name, value := range r.Header {
		resp.Header.Set(name, value)
	}
	if r.Cut {
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(r.Body), broken{}))
	}
	return resp, nil
}

func (p *replay) close() {}

// broken is the end of an answer that broke off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
