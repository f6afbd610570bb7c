package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/git-spot/git-spot/schemas"
)

// The rule of this file: packages say what happened, as types with evidence; what to do about it is
// said here and nowhere else. One place turns an error into a code, an exit status and the lines on
// standard error.

const (
	exitInterrupt = 130 // SIGINT
	exitTerminate = 143 // SIGTERM, SIGHUP
)

// usageError is a command line that cannot be understood.
type usageError struct {
	command string // "" is the root
	message string
}

func (e *usageError) Error() string      { return e.message }
func (e *usageError) Code() schemas.Code { return schemas.CodeUsage }

// usagef returns a *usageError; strict fills in the command.
func usagef(format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...)}
}

// codedError gives a code to what a command finds out for itself.
type codedError struct {
	code    schemas.Code
	message string
	hints   []string
	paths   []string
	err     error
}

func (e *codedError) Error() string      { return e.message }
func (e *codedError) Code() schemas.Code { return e.code }
func (e *codedError) Unwrap() error      { return e.err }

// finish reports err, if there is one, and returns the exit status of the process.
func (e *env) finish(ctx context.Context, err error) int {
	if err == nil {
		return 0
	}
	wire, exit := describe(ctx, err)
	e.complain("", wire.Message)
	if wire.Hint != "" {
		e.complain("hint: ", wire.Hint)
	}
	if e.jsonMode() {
		line, marshalErr := json.Marshal(map[string]schemas.Error{"error": wire})
		if marshalErr == nil {
			fmt.Fprintf(e.err, "%s\n", line)
		}
	}
	return exit
}

// describe returns what a caller is told of err and the exit status that goes with it. Of several
// joined errors the first with a code counts: it is what happened, the rest is what followed from it.
func describe(ctx context.Context, err error) (schemas.Error, int) {
	wire := schemas.Error{Code: schemas.CodeInternal, Message: err.Error(), Paths: paths(err)}
	if coded, ok := errors.AsType[schemas.Coded](err); ok {
		wire.Code = coded.Code()
	} else if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		wire.Code = schemas.CodeDiskFull
	}
	signaled := interrupted(ctx)
	if signaled != nil {
		wire.Code = schemas.CodeInterrupted
		if wire.Message == context.Canceled.Error() {
			wire.Message = signaled.Error()
		}
	}
	info := wire.Code.Info()
	wire.Retryable = info.Retryable
	wire.Hint = strings.Join(hints(wire.Code, err), "\n")
	if signaled != nil && signaled.signal != syscall.SIGINT {
		return wire, exitTerminate
	}
	return wire, info.Exit
}

// paths returns the repository paths that err is about.
func paths(err error) []string {
	if e, ok := errors.AsType[*codedError](err); ok {
		return slices.Clone(e.paths)
	}
	return nil
}

// hints says what to do next, with the exact command where there is one.
func hints(code schemas.Code, err error) []string {
	if e, ok := errors.AsType[*usageError](err); ok {
		return []string{strings.TrimSpace("git spot "+e.command) + " -h"}
	}
	if e, ok := errors.AsType[*codedError](err); ok && len(e.hints) > 0 {
		return e.hints
	}
	switch code {
	case schemas.CodeRunNotFound, schemas.CodeRunAmbiguous:
		return []string{"git spot list"}
	case schemas.CodeConflict:
		return []string{"nothing was written; run the same command again"}
	default:
		return nil
	}
}
