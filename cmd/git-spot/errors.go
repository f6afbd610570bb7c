package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/flow"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/review"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/workers"
	"github.com/git-spot/git-spot/worktree"
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
	err     error // what a package said of it, if one did
}

func (e *usageError) Error() string      { return e.message }
func (e *usageError) Code() schemas.Code { return schemas.CodeUsage }
func (e *usageError) Unwrap() error      { return e.err }

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

// missingFile adds to the advice on a file that cannot be read; any other error is returned as it is.
func missingFile(err error, hint string) error {
	if e, ok := errors.AsType[*codedError](err); ok && e.code == schemas.CodeFileNotFound {
		e.hints = append(hints(e.code, err), hint)
	}
	return err
}

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

// describe returns what a caller is told of err and the exit status that goes with it.
func describe(ctx context.Context, err error) (schemas.Error, int) {
	wire := schemas.Error{Code: codeOf(err), Message: err.Error(), Paths: paths(err)}
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

// codeOf returns the code of err, "" for nil. Of several errors in it the first that says more than
// INTERNAL counts: it is what happened, the rest is what followed from it.
func codeOf(err error) schemas.Code {
	if err == nil {
		return ""
	}
	if coded, ok := err.(schemas.Coded); ok && coded.Code() != schemas.CodeInternal { //nolint:errorlint // this is the walk
		return coded.Code()
	}
	var inner []error
	switch e := err.(type) { //nolint:errorlint // this is the walk
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	}
	for _, err := range inner {
		if code := codeOf(err); code != "" && code != schemas.CodeInternal {
			return code
		}
	}
	if err == syscall.ENOSPC || err == syscall.EDQUOT { //nolint:errorlint // this is the walk
		return schemas.CodeDiskFull
	}
	return schemas.CodeInternal
}

// paths returns the paths that err is about.
func paths(err error) []string {
	if e, ok := errors.AsType[*codedError](err); ok {
		return e.paths
	}
	if e, ok := errors.AsType[*flow.VerificationError](err); ok {
		return e.Paths
	}
	if e, ok := errors.AsType[*worktree.SourceError](err); ok {
		return e.Paths
	}
	return nil
}

// hints says what to do next: the exact command where there is one, else a sentence.
func hints(code schemas.Code, err error) []string {
	if e, ok := errors.AsType[*codedError](err); ok && len(e.hints) > 0 {
		return e.hints
	}
	for _, advise := range advice {
		if said := advise(err); said != nil {
			return said
		}
	}
	switch code {
	case schemas.CodeConflict:
		return []string{"nothing was written; run the same command again"}
	case schemas.CodeDiskFull:
		return []string{"free some space and run the same command again"}
	case schemas.CodeContractInvalid:
		return []string{"git spot schema task-contract", "git spot template code"}
	case schemas.CodeReviewInvalid:
		return []string{"git spot schema review-result"}
	case schemas.CodeLedgerCorrupt:
		return []string{"git spot fsck"}
	case schemas.CodeWorkerSetup, schemas.CodeWorkerAuth, schemas.CodeWorkerCapability, schemas.CodeConfigInvalid:
		return []string{"git spot doctor"}
	case schemas.CodeFileNotFound:
		return []string{"a relative path is taken from -C DIR, or from here without it; - is standard input"}
	case schemas.CodeHighRiskBlocked:
		return []string{"do it yourself, or hand out the parts of it that are of lower risk"}
	case schemas.CodeSandboxUnavailable:
		return []string{"git config spot.sandbox prefer goes on without one, and every receipt says so"}
	case schemas.CodeInterrupted:
		return []string{"git spot list shows where the run stands"}
	case schemas.CodeInternal:
		return []string{"run it again with GIT_SPOT_TRACE=1 to see what was called"}
	default:
		return nil
	}
}

// advice is what to do about one type of error each; nil for any other type.
var advice = []func(error) []string{
	about(func(*gitstate.NotFoundError) []string { return []string{"git spot list"} }),
	about(func(e *gitstate.AmbiguousError) []string {
		const most = 5
		said := []string{}
		for _, id := range e.IDs[:min(most, len(e.IDs))] {
			said = append(said, "git spot inspect --id "+string(id))
		}
		return said
	}),
	about(func(e *gitstate.ExistsError) []string {
		look := "git spot inspect --id " + string(e.ID) + " shows it; a new run needs another --id"
		if e.Due == "" {
			return []string{look}
		}
		return []string{e.Due, look}
	}),
	about(func(e *gitstate.WrongStateError) []string {
		switch {
		case e.Due != "":
			return []string{e.Due}
		case e.Command == "report": // it was made before the clean-up
			return []string{"git show " + string(gitstate.RunRef(e.ID)) + ":report.md"}
		default:
			return []string{"git spot inspect --id " + string(e.ID)}
		}
	}),
	about(func(e *gitstate.HeldError) []string {
		return []string{"git spot log --id " + string(e.ID) + " -f", "git spot abort --id " + string(e.ID)}
	}),
	about(func(*gitstate.ConcurrencyError) []string {
		return []string{"git spot list --running", "git config spot.maxConcurrentRuns N"}
	}),
	about(func(e *gitstate.LockError) []string {
		return []string{"if no git is running here any more: rm " + shellQuote(e.Path)}
	}),

	about(func(e *gitexec.RepoError) []string {
		switch e.Code() {
		case schemas.CodeRepoOwner:
			return []string{"git config --global --add safe.directory " + shellQuote(e.Dir)}
		case schemas.CodeNotARepository:
			return []string{"run it in a repository, or name one with -C DIR"}
		default:
			return []string{"git -C " + shellQuote(e.Dir) + " status"}
		}
	}),
	about(func(e *workers.Error) []string {
		switch {
		case e.Companion != "":
			return []string{"make install, or copy " + e.Companion + " to the folder of git-spot"}
		case e.Variable != "":
			said := []string{"export " + e.Variable + "=KEY"}
			if e.BaseURL != "" {
				said = append(said, "or let git's credential helper keep it, which git config credential.helper must name:",
					"printf '%s\\n' "+shellQuote("url="+e.BaseURL)+" username=git-spot password=KEY | git credential approve")
			}
			return append(said, "or have another do it: CONFIGURATION in git help spot")
		case e.Adapter != "":
			return []string{
				"a profile of your own, called NAME, can drive any program:",
				"git config spot.profile.NAME.adapter command",
				"git config --add spot.profile.NAME.argv PROGRAM, and once more for each of its arguments",
				"git config spot.defaultProfile NAME",
			}
		case e.Key != "":
			return []string{"git config --global " + shellQuote(e.Key) + " VALUE"}
		case e.Code() == schemas.CodeConfigInvalid: // no profile has that name
			return []string{"--profile is one of " + strings.Join(e.Known, " "), `git config --show-origin --get-regexp '^spot\.profile\.'`}
		case e.Code() == schemas.CodeWorkerSetup && e.Profile != "":
			return []string{"git config --show-origin --get-regexp " + shellQuote(`^spot\.profile\.`+regexp.QuoteMeta(e.Profile)+`\.`)}
		default:
			return nil
		}
	}),
	about(func(*gitexec.ProgramError) []string { return []string{"install a newer git and put it first on PATH"} }),
	about(func(e *config.Error) []string {
		if e.Origin == "" { // a key that should be there, and is not
			return []string{"git config --add " + shellQuote(e.Key) + " VALUE"}
		}
		return []string{"git config --show-origin --get-all " + shellQuote(e.Key)}
	}),

	about(func(*worktree.RootError) []string {
		return []string{"git config spot.worktreeRoot DIR names a folder outside of the repository that can be made and written to"}
	}),
	about(func(*flow.UnbornError) []string { return []string{`git commit --allow-empty -m "first commit"`} }),
	about(func(*worktree.IdentityError) []string {
		return []string{"git config --global user.name NAME", "git config --global user.email ADDRESS"}
	}),
	about(func(*worktree.SigningError) []string {
		return []string{"try the key with git commit-tree -S, then run the same command again"}
	}),
	about(func(e *worktree.SourceError) []string {
		switch {
		case e.Lock != "":
			return []string{"if no git is running there any more: rm " + shellQuote(e.Lock)}
		case e.Code() == schemas.CodeSourceDirty && e.Checkout != "":
			return []string{"git -C " + shellQuote(e.Checkout) + " status", "commit or put away what is there, then run the same command again"}
		}
		said := []string{"git log --oneline " + shellQuote(e.Want) + ".." + shellQuote(strings.TrimPrefix(e.Branch, "refs/heads/"))}
		if e.Code() == schemas.CodeSourceMoved && len(e.Paths) == 0 { // before the landing, not in the middle of it
			said = append(said, "this version cannot rebase: git spot abort gives the run up, its commit stays under refs/spot/candidates, and the task can be handed out again")
		}
		return said
	}),
	about(func(e *flow.UnlandedError) []string {
		return []string{"git spot cleanup --id " + string(e.ID) + " --discard keeps its work under refs/spot/attempts/"}
	}),
	about(func(e *flow.LostWorktreeError) []string {
		return []string{"git spot diff --id " + string(e.ID) + " shows what was done; a new turn needs a new run"}
	}),
	about(func(e *flow.VerificationError) []string { return []string{"git spot inspect --id " + string(e.ID)} }),
	about(func(e *flow.TurnError) []string {
		look, on := "git spot inspect --id "+string(e.ID), "git spot recover --id "+string(e.ID)
		switch e.Reason.Info().Exit {
		case schemas.CodeWorkerSetup.Info().Exit: // it is for a person to mend
			return []string{look, "git spot doctor --profile " + shellQuote(e.Profile), on + ", when it is mended"}
		default:
			return []string{look, on}
		}
	}),
	about(func(e *flow.ProtectedError) []string {
		return []string{"git log -1 " + string(gitstate.CandidateRef(e.ID))}
	}),

	about(func(e *flow.NoSourceError) []string {
		if e.Source == "" {
			return []string{"git spot integrate --id " + string(e.ID) + " --onto BRANCH"}
		}
		return []string{"git spot integrate --id " + string(e.ID)}
	}),
	about(func(*flow.RevisionError) []string { return []string{"git log --oneline --decorate --all"} }),

	about(func(e *review.EvidenceError) []string {
		if len(e.Missing) > 0 {
			return []string{"--evidence " + e.Missing[0] + "=TEXT, or an entry of evidence in the review, says why it is met"}
		}
		return nil
	}),
	about(func(*review.FindingsError) []string {
		return []string{"git spot revise hands them to the worker; one that is settled is marked resolved"}
	}),
	about(func(e *review.UnverifiedError) []string {
		if e.Reason == "" {
			return []string{"git spot verify"}
		}
		return []string{"git spot inspect shows what failed, git spot revise hands it to the worker"}
	}),
	about(func(*review.LimitError) []string {
		return []string{"git spot abort, then git spot report", "git config spot.maxRevisions N allows more"}
	}),
	about(func(e *review.VerdictError) []string {
		switch {
		case e.Problem != "":
			return []string{"--finding P1:PATH:LINE:TEXT, or an entry of findings in the review, says what is wrong"}
		case e.Verdict == schemas.ReviewRevise:
			return []string{"git spot revise hands it to the worker"}
		default:
			return []string{"git spot approve or git spot land, with a message"}
		}
	}),
	about(func(*review.HashError) []string {
		return []string{"git spot inspect shows the change's diffSha256 and what verified it"}
	}),

	// Last: what is inside it says more.
	about(func(e *usageError) []string { return []string{strings.TrimSpace("git spot "+e.command) + " -h"} }),
}

// about makes advice for one type of error.
func about[E error](say func(E) []string) func(error) []string {
	return func(err error) []string {
		if e, ok := errors.AsType[E](err); ok {
			return say(e)
		}
		return nil
	}
}

// shellQuote returns s as one word of a shell's command line.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
