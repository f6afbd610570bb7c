// git-spot hands a bounded coding task to an untrusted coding agent, proves the result and lets it
// through only when every gate is green. Run it as "git spot".
//
// This package is the command line: flags, wiring, text and JSON output, exit statuses. One file a
// command. It holds no retry, no lock and no state transition; those are in gitstate and internal/flow.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/git-spot/git-spot/internal/fault"
	"github.com/git-spot/git-spot/internal/proc"
)

func main() { os.Exit(Main()) }

// Main runs one command and returns the exit status of the process.
func Main() int {
	// Without git-spot-shim beside it the program supervises workers itself. Nothing may come before
	// this: the supervisor must not take signals or open anything.
	if len(os.Args) > 1 && os.Args[1] == proc.SuperviseArg {
		return proc.ShimMain(os.Args[2:])
	}
	log.SetOutput(io.Discard) // net/http says there what a provider sends unasked: the key may be in it
	cli.HelpFlag = nil        // help is ours, see help.go

	ctx, stop := withSignals(context.Background())
	defer stop()
	status := run(ctx, &env{
		in:               os.Stdin,
		out:              os.Stdout,
		err:              os.Stderr,
		getenv:           os.Getenv,
		now:              time.Now,
		args:             os.Args[1:],
		stdoutIsTerminal: term.IsTerminal(int(os.Stdout.Fd())),
	})
	_ = fault.At(fault.Exit, "") // whatever comes now, the work is done
	return status
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("ended by signal %q", e.signal) }

// withSignals returns a context that the first SIGINT, SIGTERM or SIGHUP cancels, with a *signalError
// as its cause. A second SIGINT ends the process at once: what is recorded by then is what there is.
// A signal that the caller of git spot chose to ignore (nohup, a shell's background job) stays ignored.
func withSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() { // lives as long as the process
		for s := range signals {
			if ctx.Err() != nil && s == syscall.SIGINT {
				os.Exit(exitInterrupt)
			}
			cancel(&signalError{signal: s.(syscall.Signal)})
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// interrupted returns the signal that ended ctx, nil if none did.
func interrupted(ctx context.Context) *signalError {
	e, _ := errors.AsType[*signalError](context.Cause(ctx))
	return e
}
