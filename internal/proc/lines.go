package proc

import "bytes"

// Lines is an io.Writer that cuts what is written to it into lines at '\n', on bytes: invalid UTF-8
// and lines of any length pass. It takes no more memory than one line of its maximum. It is not safe
// for concurrent use.
type Lines struct {
	max     int
	fn      func(line []byte, dropped int64)
	part    []byte
	dropped int64
}

// NewLines returns a Lines that calls fn with each line, without its '\n', as soon as it is complete.
// Of a line longer than max bytes, which must be positive, fn gets the first max and the number of bytes
// dropped. The line is valid until fn returns.
func NewLines(max int, fn func(line []byte, dropped int64)) *Lines {
	return &Lines{max: max, fn: fn}
}

// Write never fails.
func (l *Lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, rest, complete := bytes.Cut(p, []byte{'\n'})
		keep := min(len(line), l.max-len(l.part))
		l.dropped += int64(len(line) - keep)
		switch {
		case !complete:
			l.part = append(l.part, line[:keep]...)
		case len(l.part) == 0:
			l.emit(line[:keep])
		default:
			l.emit(append(l.part, line[:keep]...))
		}
		p = rest
	}
	return n, nil
}

// emit hands out one line. The buffer is kept for the next only if it is small, so that one long line
// does not cost its memory for ever.
func (l *Lines) emit(line []byte) {
	dropped := l.dropped
	l.dropped = 0
	if cap(l.part) > 64<<10 {
		l.part = nil
	} else {
		l.part = l.part[:0]
	}
	l.fn(line, dropped)
}

// Close hands out an unfinished last line, if there is one. It never fails.
func (l *Lines) Close() error {
	if len(l.part) > 0 || l.dropped > 0 {
		l.emit(l.part)
	}
	return nil
}
