package gitexec

import (
	"bufio"
	"context"
	"io"
)

// Pipe is a git that answers requests until it is closed. It is not safe for concurrent use.
type Pipe struct {
	// In is git's standard input. A write fails once git has ended.
	In io.Writer
	// Out is git's standard output. It ends when git does.
	Out *bufio.Reader

	in   *io.PipeWriter
	done chan struct{}
	err  error
}

// Start starts a git that reads requests and prints answers, such as cat-file --batch-command. It
// runs until Close, or until ctx ends; c.Stdin must be nil. That git did not start is only known from
// the first read, which then finds the end, and from Close.
func (r *Repo) Start(ctx context.Context, c Call) *Pipe {
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	p := &Pipe{In: inWrite, Out: bufio.NewReader(outRead), in: inWrite, done: make(chan struct{})}
	cmd := r.command(ctx, c)
	cmd.Stdin, cmd.Stdout = inRead, outWrite
	go func() {
		defer close(p.done)
		_, p.err = r.exec(ctx, c.Args, cmd)
		// Neither end fails to close, and both tell our side that git is gone.
		_ = inRead.Close()
		_ = outWrite.Close()
	}()
	return p
}

// Close ends git's standard input, waits for git to end by itself and returns its *Error, if any. Output
// that was not read is lost. Only the first call may be made.
func (p *Pipe) Close() error {
	_ = p.in.Close()
	_, _ = io.Copy(io.Discard, p.Out) // lets a git that still writes come to its end
	<-p.done
	return p.err
}
