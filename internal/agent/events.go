package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// event is one line of standard output: the protocol of the adapter "command" with output jsonl.
type event struct {
	Type    string `json:"type"`
	ID      string `json:"id,omitempty"`      // session
	Text    string `json:"text,omitempty"`    // text, worker_warning
	Name    string `json:"name,omitempty"`    // tool
	Status  string `json:"status,omitempty"`  // tool: ok, error or denied
	Class   string `json:"class,omitempty"`   // error
	Message string `json:"message,omitempty"` // error
}

// finalEvent has a text even if that is empty: without one it would be no event to its reader.
type finalEvent struct {
	Type string `json:"type"` // final
	Text string `json:"text"`
	Stop string `json:"stop"` // done, steps or question
}

const (
	flushEvery = 2 * time.Second  // of text that streams in
	beatEvery  = 10 * time.Second // at least, between two heartbeats

	// The reader takes lines of at most 1 MiB, and JSON needs at most six bytes for one.
	maxEventText = 32 << 10
	maxFinal     = 128 << 10
	maxWord      = 200
)

// output writes events. Text that streams in goes out in whole lines, soon but not each for itself; an
// empty line says that the model is at work. Its methods may be called concurrently.
type output struct {
	mask masker

	mu      sync.Mutex
	w       io.Writer
	pending strings.Builder
	flush   *time.Timer // while pending has a whole line
	beat    *time.Timer // since the last heartbeat, until the next is allowed
	err     error       // the first of w
}

// progress takes a piece of the answer that streams in; "" is a sign of life.
func (o *output) progress(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if text == "" {
		if o.beat == nil {
			o.beat = time.AfterFunc(beatEvery, func() {
				o.mu.Lock()
				defer o.mu.Unlock()
				o.beat = nil
			})
			o.write([]byte("\n"))
		}
		return
	}
	o.pending.WriteString(text)
	if o.pending.Len() > maxEventText {
		o.flushLocked(true)
	}
	if o.flush == nil && strings.Contains(text, "\n") {
		o.flush = time.AfterFunc(flushEvery, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.flushLocked(false)
		})
	}
}

// endText writes what is left of an answer that has ended.
func (o *output) endText() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flushLocked(true)
}

// flushLocked writes the whole lines of pending, or all of it.
func (o *output) flushLocked(all bool) {
	if o.flush != nil {
		o.flush.Stop()
		o.flush = nil
	}
	text := o.pending.String()
	rest := ""
	if !all {
		end := strings.LastIndexByte(text, '\n') + 1
		text, rest = text[:end], text[end:]
	}
	o.pending.Reset()
	o.pending.WriteString(rest)
	text = strings.TrimSuffix(text, "\n")
	for text != "" {
		part := text[:runeBoundary(text, maxEventText)]
		o.write(o.mask.line(event{Type: "text", Text: part}))
		text = text[len(part):]
	}
}

// runeBoundary is the greatest length up to most at which s can be cut without cutting a character.
func runeBoundary(s string, most int) int {
	if len(s) <= most {
		return len(s)
	}
	for cut := most; cut > most-utf8.UTFMax; cut-- {
		if utf8.RuneStart(s[cut]) {
			return cut
		}
	}
	return most
}

// event writes an event after the text before it.
func (o *output) event(e any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flushLocked(true)
	o.write(o.mask.line(e))
}

func (o *output) warn(text string) { o.event(event{Type: "worker_warning", Text: text}) }

// tool tells of a call that was made. The name is what the model wrote.
func (o *output) tool(name, status string) {
	o.event(event{Type: "tool", Name: name[:runeBoundary(name, maxWord)], Status: status})
}

func (o *output) write(line []byte) {
	if o.err == nil {
		_, o.err = o.w.Write(line)
	}
}

// close stops the timers and returns the first error of writing.
func (o *output) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range []*time.Timer{o.flush, o.beat} {
		if t != nil {
			t.Stop()
		}
	}
	return o.err
}

// masker makes lines of JSON, in which a secret is masked wherever it turns up.
type masker struct{ secret string }

// minSecret keeps a secret that is hardly one from masking ordinary text.
const minSecret = 8

// line encodes v, which must be encodable, as one line.
func (m masker) line(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err)
	}
	if len(m.secret) < minSecret {
		return b.Bytes()
	}
	return bytes.ReplaceAll(b.Bytes(), []byte(m.secret), []byte("[masked]"))
}

// ends keeps the head and the tail of a text that is longer than most bytes.
func ends(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head := runeBoundary(text, most/2)
	tail := len(text) - most/2
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + "\n[...]\n" + text[tail:]
}
