package gateway

import "bytes"

// maxEvent is the most bytes of one event, or of a body that is no stream, that are looked at. What is
// longer passes, and what it says of usage is not known.
const maxEvent = 8 << 20

// events takes an answer apart while it passes: server-sent events, or one JSON document. It never
// fails: what cannot be read is skipped. Memory for more than a few lines is asked for with grow.
type events struct {
	found func(data []byte)    // called with each event's data, or with the document; valid during the call
	grow  func(bytes int) bool // says whether so many more may be held

	kind  kind
	line  []byte // of a stream: the line so far; else the document so far
	data  []byte // the data lines of the event so far
	lines int    // how many of them
	skip  bool   // the line, or document, is too long
	bad   bool   // the event has lost a line
	cr    bool   // the last byte was the CR of a line's end
}

type kind byte

const (
	unseen kind = iota
	document
	sse
)

func (e *events) feed(p []byte) {
	if e.kind == unseen {
		start := bytes.TrimLeft(p, "\xef\xbb\xbf \t\r\n") // a stream may begin with a byte order mark
		if len(start) == 0 {
			return
		}
		e.kind = sse
		if start[0] == '{' || start[0] == '[' {
			e.kind = document
		}
		p = start
	}
	if e.kind == document {
		e.skip = e.skip || !e.keep(&e.line, p)
		return
	}
	for len(p) > 0 {
		if e.cr && p[0] == '\n' {
			p = p[1:]
		}
		e.cr = false
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			e.skip = e.skip || !e.keep(&e.line, p)
			return
		}
		if len(e.line) == 0 && !e.skip {
			e.take(p[:end])
		} else {
			if e.skip = e.skip || !e.keep(&e.line, p[:end]); !e.skip {
				e.take(e.line)
			} else {
				e.bad = true
			}
			e.line, e.skip = e.line[:0], false
		}
		e.cr = p[end] == '\r'
		p = p[end+1:]
	}
}

// finish reads what is left at the end of the answer. A server that ends without an empty line has
// nevertheless said what it said.
func (e *events) finish() {
	if e.kind == document {
		if !e.skip {
			e.found(e.line)
		}
		return
	}
	if e.skip {
		e.bad = true
	} else if len(e.line) > 0 {
		e.take(e.line)
	}
	e.take(nil)
}

// take reads one line without its end.
func (e *events) take(line []byte) {
	if len(line) == 0 {
		if e.lines > 0 && !e.bad {
			e.found(e.data)
		}
		e.data, e.lines, e.bad = e.data[:0], 0, false
		return
	}
	value, isData := bytes.CutPrefix(line, []byte("data:"))
	if !isData || e.bad {
		return
	}
	value = bytes.TrimPrefix(value, []byte(" "))
	if e.lines > 0 {
		e.bad = !e.keep(&e.data, []byte("\n"))
	}
	e.bad = e.bad || !e.keep(&e.data, value)
	e.lines++
}

// keep appends p to a buffer, unless that would be too long.
func (e *events) keep(to *[]byte, p []byte) bool {
	const first = 4 << 10
	need := len(*to) + len(p)
	if need > maxEvent {
		return false
	}
	if need > cap(*to) {
		size := max(2*cap(*to), need, first)
		if !e.grow(size - cap(*to)) {
			return false
		}
		*to = append(make([]byte, 0, size), *to...)
	}
	*to = append(*to, p...)
	return true
}
