package tools

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

const bom = "\xef\xbb\xbf"

// lines reads a text line by line in bounded memory.
type lines struct {
	r    *bufio.Reader
	keep int // bytes kept of each line
	buf  []byte

	// textOnly ends a line at the first part of it that has a NUL: what follows does not matter.
	textOnly bool

	head   []byte // what the text begins with
	binary bool   // it is no text, by git's rule: a NUL in the first 8,000 bytes
	bom    bool   // it begins with a byte order mark, which is skipped
}

// line is one of them. text has no line ending, is cut at keep, and is valid until the next call.
type line struct {
	text []byte
	size int64 // bytes without the line ending
	end  string
	nul  bool // the line has a NUL byte
}

func (l line) cut() bool { return int64(len(l.text)) < l.size }

func newLines(keep int) *lines {
	return &lines{r: bufio.NewReaderSize(nil, 64<<10), keep: keep}
}

// begin turns to another text.
func (l *lines) begin(r io.Reader) error {
	l.r.Reset(r)
	head, err := l.r.Peek(8000)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	l.head = append(l.head[:0], head[:min(len(head), 512)]...)
	l.binary = bytes.IndexByte(head, 0) >= 0
	if l.bom = bytes.HasPrefix(head, []byte(bom)); l.bom {
		_, err = l.r.Discard(len(bom))
		return err
	}
	return nil
}

// next returns the next line, or io.EOF. It looks at ctx now and then, also inside a line.
func (l *lines) next(ctx context.Context) (line, error) {
	var n line
	var before byte // the last byte of the parts before this one
	l.buf = l.buf[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !full && !errors.Is(err, io.EOF) {
			return line{}, err
		}
		if len(part) == 0 && n.size == 0 {
			return line{}, io.EOF
		}
		if n.nul = n.nul || bytes.IndexByte(part, 0) >= 0; n.nul && l.textOnly {
			return n, nil
		}
		inBuffer := n.size == 0 && !full
		n.size += int64(len(part))
		if n.text = part; !inBuffer {
			l.buf = append(l.buf, part[:min(len(part), l.keep-len(l.buf))]...)
			n.text = l.buf
		}
		if !full {
			switch {
			case bytes.HasSuffix(part, []byte("\r\n")), string(part) == "\n" && before == '\r':
				n.end = "\r\n"
			case bytes.HasSuffix(part, []byte("\n")):
				n.end = "\n"
			}
			n.size -= int64(len(n.end))
			n.text = n.text[:min(int64(len(n.text)), n.size, int64(l.keep))]
			return n, nil
		}
		before = part[len(part)-1]
		if ctx.Err() != nil {
			return line{}, context.Cause(ctx)
		}
	}
}
