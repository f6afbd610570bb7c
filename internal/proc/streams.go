package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// readSize bounds, with the writers' own, the memory that a child's output can take.
	readSize = 32 << 10
	// lateReads is how often a pipe is read once its time is up, and lateWait how long each read may
	// block: enough to empty the largest pipe, 1 MiB, and not more than a second.
	lateReads = 64
	lateWait  = 10 * time.Millisecond
)

// streams are the three standard streams of one child: the child's ends, and the goroutines that serve
// ours.
type streams struct {
	ends    []*os.File // the child's three
	stdin   *os.File   // our end; nil if the child has /dev/null
	input   io.Reader
	outputs []output

	start    time.Time
	last     atomic.Int64 // nanoseconds from start to the last byte
	deadline atomic.Int64 // nanoseconds from start; 0 while the child lives
	readers  sync.WaitGroup
	inputErr chan error
}

type output struct {
	from *os.File
	to   io.Writer
	err  error
	held bool // the pipe was given up before its end
}

func openStreams(c Command) (_ *streams, err error) {
	s := &streams{start: time.Now(), input: c.Stdin, inputErr: make(chan error, 1)}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	if c.Stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		s.ends = append(s.ends, null)
	} else {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		s.ends = append(s.ends, r)
		s.stdin = w
	}
	for i, to := range []io.Writer{c.Stdout, c.Stderr} {
		if i == 1 && sameWriter(c.Stdout, c.Stderr) {
			s.ends = append(s.ends, s.ends[1])
			break
		}
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if to == nil {
			to = io.Discard
		}
		s.ends = append(s.ends, w)
		s.outputs = append(s.outputs, output{from: r, to: to})
	}
	return s, nil
}

func sameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && a == b
}

// child is the child's ends in the order of its descriptors, for a slice that may be appended to.
func (s *streams) child() []*os.File { return s.ends[:len(s.ends):len(s.ends)] }

// abandon closes everything of a child that did not start.
func (s *streams) abandon() {
	s.closeEnds()
	if s.stdin != nil {
		_ = s.stdin.Close()
	}
	for _, o := range s.outputs {
		_ = o.from.Close()
	}
}

func (s *streams) closeEnds() {
	for _, f := range s.ends {
		_ = f.Close() // stdout may be stderr: the second close says so
	}
}

// begin closes the child's ends, now that it has them, and starts copying.
func (s *streams) begin() {
	s.closeEnds()
	s.touch()
	if s.stdin != nil {
		go s.feed()
	}
	for i := range s.outputs {
		s.readers.Go(func() { s.read(&s.outputs[i]) })
	}
}

func (s *streams) feed() {
	_, err := io.CopyBuffer(struct{ io.Writer }{s.stdin}, struct{ io.Reader }{s.input}, make([]byte, readSize))
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		err = nil // It ended, or did not want to read on: its own business.
	}
	// Before the close: who sees the child end by the end of its input must see the error.
	s.inputErr <- err
	_ = s.stdin.Close()
}

func (s *streams) read(o *output) {
	defer func() { _ = o.from.Close() }()
	buf := make([]byte, readSize)
	for late := 0; ; {
		if end := s.deadline.Load(); end != 0 {
			at := s.start.Add(time.Duration(end))
			if soon := time.Now().Add(lateWait); soon.After(at) {
				if late++; late > lateReads {
					o.held = true
					return
				}
				at = soon
			}
			_ = o.from.SetReadDeadline(at)
		}
		n, err := o.from.Read(buf)
		if n > 0 {
			s.touch()
			if o.err == nil {
				_, o.err = o.to.Write(buf[:n])
			}
			s.touch()
		}
		if err != nil {
			o.held = errors.Is(err, os.ErrDeadlineExceeded)
			return
		}
	}
}

func (s *streams) touch() { s.last.Store(int64(time.Since(s.start))) }

// silence is how long ago the last byte came.
func (s *streams) silence() time.Duration {
	return time.Since(s.start) - time.Duration(s.last.Load())
}

// end is called when the child has ended. It reads what is left, for at most drain if somebody keeps
// a pipe open (held), and returns the errors of the child's writers and of its reader.
func (s *streams) end(drain time.Duration) (held bool, err error) {
	if s.stdin != nil {
		_ = s.stdin.Close()
	}
	at := time.Now().Add(drain)
	s.deadline.Store(int64(at.Sub(s.start)))
	for i := range s.outputs {
		_ = s.outputs[i].from.SetReadDeadline(at) // wakes a read that has none
	}
	s.readers.Wait()
	for i := range s.outputs {
		held = held || s.outputs[i].held
		if o := s.outputs[i]; o.err != nil {
			err = errors.Join(err, fmt.Errorf("write the output of a child: %w", o.err))
		}
	}
	select {
	case e := <-s.inputErr:
		if e != nil {
			err = errors.Join(err, fmt.Errorf("read the input of a child: %w", e))
		}
	default:
	}
	return held, err
}
