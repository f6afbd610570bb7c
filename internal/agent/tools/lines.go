package tools

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// lines reads a text line by line in bounded memory.
type lines struct {
	r    *bufio.Reader
	keep int // bytes kept of each line
	buf  []byte
}

// line is one of them. text has no line ending, is cut at keep, and is valid until the next call.
type line struct {
	text []byte
	size int64 // bytes without the line ending
	end  string
	nul  bool // the line has a NUL byte
}

func newLines(r io.Reader, keep int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), keep: keep}
}

// binary reports whether what follows begins as no text does: git's rule, a NUL in the first 8,000 bytes.
func (l *lines) binary() (head []byte, yes bool, err error) {
	head, err = l.r.Peek(8000)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head, bytes.IndexByte(head, 0) >= 0, err
}

// next returns the next line, or io.EOF. It looks at ctx now and then, also inside a line.
func (l *lines) next(ctx context.Context) (line, error) {
	var n line
	var last byte // of the line so far
	l.buf = l.buf[:0]
	for first := true; ; first = false {
		part, err := l.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return line{}, err
		}
		ended := err == nil
		if len(part) == 0 && n.size == 0 {
			return line{}, io.EOF
		}
		n.nul = n.nul || bytes.IndexByte(part, 0) >= 0
		if ended {
			part = part[:len(part)-1]
			n.end = "\n"
		}
		n.size += int64(len(part))
		if len(part) > 0 {
			last = part[len(part)-1]
		}
		if ended && last == '\r' {
			n.end = "\r\n"
			n.size--
		}
		if done := ended || err != nil && !errors.Is(err, bufio.ErrBufferFull); first && done {
			n.text = part[:min(int64(len(part)), n.size, int64(l.keep))]
			return n, nil
		} else {
			l.buf = append(l.buf, part[:min(len(part), l.keep-len(l.buf))]...)
			if done {
				n.text = l.buf[:min(int64(len(l.buf)), n.size)]
				return n, nil
			}
		}
		if err := ctx.Err(); err != nil {
			return line{}, context.Cause(ctx)
		}
	}
}
