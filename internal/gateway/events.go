package gateway

import (
	"bytes"
	"strings"
)

// maxEvent is the most bytes of one event, or of an answer that is no stream, that are looked at. What
// is longer passes, and what it says of usage is not known.
const maxEvent = 4 << 20

// events takes an answer apart while it passes: server-sent events, or one JSON document, whatever its
// header says. It never fails: what cannot be read is skipped.
type events struct {
	found func(data []byte) // called with each event's data, or with the document; valid during the call

	kind kind
	line buffer // of a stream: the line so far; else the document so far
	data buffer // the data lines of the event so far
	some bool   // there was one
	long bool   // the line, or the document, is too long
	lost bool   // the event has lost a line
	cr   bool   // the last byte was the CR of a line's end
}

type kind byte

const (
	unseen kind = iota
	document
	sse
)

func newEvents(grow func(bytes int) bool, found func(data []byte)) *events {
	return &events{found: found, line: buffer{most: maxEvent, grow: grow}, data: buffer{most: maxEvent, grow: grow}}
}

func (e *events) feed(p []byte) {
	if e.kind == unseen {
		for len(p) > 0 && strings.IndexByte("\xef\xbb\xbf \t\r\n", p[0]) >= 0 { // a byte order mark may come first
			p = p[1:]
		}
		if len(p) == 0 {
			return
		}
		e.kind = sse
		if p[0] == '{' || p[0] == '[' {
			e.kind = document
		}
	}
	if e.kind == document {
		e.long = e.long || !e.line.add(p)
		return
	}
	for len(p) > 0 {
		if e.cr && p[0] == '\n' {
			p = p[1:]
		}
		e.cr = false
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			e.long = e.long || !e.line.add(p)
			return
		}
		e.end(p[:end])
		e.cr = p[end] == '\r'
		p = p[end+1:]
	}
}

// end takes the last piece of a line.
func (e *events) end(p []byte) {
	switch {
	case e.long || len(e.line.data) > 0 && !e.line.add(p):
		e.lost = true
	case len(e.line.data) > 0:
		e.take(e.line.data)
	default:
		e.take(p)
	}
	e.line.reset()
	e.long = false
}

// take reads a line without its end.
func (e *events) take(line []byte) {
	if len(line) == 0 {
		if e.some && !e.lost {
			e.found(e.data.data)
		}
		e.data.reset()
		e.some, e.lost = false, false
		return
	}
	value, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok || e.lost {
		return
	}
	if e.some {
		e.lost = !e.data.add([]byte("\n"))
	}
	e.some = true
	e.lost = e.lost || !e.data.add(bytes.TrimPrefix(value, []byte(" ")))
}

// finish reads what is left at the end of the answer. A server that ends without an empty line has said
// what it said.
func (e *events) finish() {
	switch e.kind {
	case document:
		if !e.long {
			e.found(e.line.data)
		}
	case sse:
		e.end(nil)
		e.end(nil)
	}
}
