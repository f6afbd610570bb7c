package worktree

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/schemas"
)

// RootError is a place for worktrees that cannot be used. Nothing was written.
type RootError struct {
	Root       string // the folder that was asked for
	Repository string // the work tree or git directory that it lies in, or ""
	Detail     string // what is wrong, if it is not that
}

func (e *RootError) Error() string {
	if e.Detail != "" {
		return fmt.Sprintf("worktree root %q: %s", e.Root, e.Detail)
	}
	return fmt.Sprintf("worktree root %q lies inside the repository %q", e.Root, e.Repository)
}

// Code is CONFIG_INVALID.
func (e *RootError) Code() schemas.Code { return schemas.CodeConfigInvalid }

// IdentityError is a repository without a configured identity. Nothing was written.
type IdentityError struct {
	Detail string // git's words
}

func (e *IdentityError) Error() string { return "no git identity is configured: " + e.Detail }

// Code is IDENTITY_MISSING.
func (e *IdentityError) Code() schemas.Code { return schemas.CodeIdentityMissing }

// SigningError is a commit that had to be signed and could not be. No commit was made.
type SigningError struct {
	TimedOut bool
	Err      error
}

func (e *SigningError) Error() string { return fmt.Sprintf("sign the approved commit: %v", e.Err) }
func (e *SigningError) Unwrap() error { return e.Err }

// Code is SIGNING_FAILED.
func (e *SigningError) Code() schemas.Code { return schemas.CodeSigningFailed }

// CheckoutError is a commit that git could not check out for a worker. Nothing of it is left.
type CheckoutError struct{ Err error }

func (e *CheckoutError) Error() string { return fmt.Sprintf("make a worktree: %v", e.Err) }

// Unwrap returns git's error.
func (e *CheckoutError) Unwrap() error { return e.Err }

// Code is WORKER_SETUP: a program that the checkout takes, such as a filter, is missing or fails.
func (e *CheckoutError) Code() schemas.Code { return schemas.CodeWorkerSetup }

// RoomError is a clean room that could not be made. Nothing of it is left.
type RoomError struct {
	Name string
	Err  error
	gone bool // the repository is
}

func (e *RoomError) Error() string { return fmt.Sprintf("make clean room %s: %v", e.Name, e.Err) }
func (e *RoomError) Unwrap() error { return e.Err }

// Code is DISK_FULL, NOT_A_REPOSITORY if the repository has gone, or WORKER_SETUP: a program that the
// checkout takes, such as a filter, is missing or fails. All of them are the environment's, so that
// the run can go on once it is mended.
func (e *RoomError) Code() schemas.Code {
	if coded, ok := errors.AsType[schemas.Coded](e.Err); ok && coded.Code() == schemas.CodeDiskFull {
		return schemas.CodeDiskFull
	}
	if e.gone {
		return schemas.CodeNotARepository
	}
	return schemas.CodeWorkerSetup
}

// ReuseError is a pattern of reuse that cannot be followed.
type ReuseError struct {
	Glob   string // "" if Path says it
	Path   string
	Detail string
}

func (e *ReuseError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("reuse %q: %s", e.Glob, e.Detail)
	}
	return fmt.Sprintf("reuse %q: %s", e.Path, e.Detail)
}

// Code is CONTRACT_INVALID.
func (e *ReuseError) Code() schemas.Code { return schemas.CodeContractInvalid }

// SourceError is a branch or a checkout that does not let the approved commit in. Nothing of the
// user's was changed.
//
// A checkout is clean if no tracked file differs from HEAD in the index or in the work tree, no merge,
// rebase, cherry-pick, revert or bisect is in progress, and nothing untracked, ignored or not, lies
// where a file will be written. Other untracked files do not matter. A submodule whose HEAD is not the
// recorded commit is a difference; changes inside it are not looked for.
type SourceError struct {
	Reason   schemas.Code // SOURCE_DIRTY or SOURCE_MOVED
	Branch   string
	Checkout string    // "" if the branch itself is meant
	Detail   string    // what is in the way, if not paths
	Paths    []string  // what is in the way
	Want     string    // SOURCE_MOVED: the commit the branch should be at
	Got      string    // SOURCE_MOVED: where it is; "" if it does not exist
	Lock     string    // a lock file of somebody else's
	LockTime time.Time // when it was written
}

func (e *SourceError) Error() string {
	if e.Reason == schemas.CodeSourceMoved {
		return fmt.Sprintf("%s is at %q and not at %s", e.Branch, e.Got, e.Want)
	}
	s := fmt.Sprintf("checkout %q of %s is not clean", e.Checkout, e.Branch)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if len(e.Paths) > 0 {
		s += fmt.Sprintf(": %q", e.Paths)
	}
	return strings.TrimSpace(s)
}

// Code is the reason.
func (e *SourceError) Code() schemas.Code { return e.Reason }

// fullBelow is the room on a file system, in bytes, at which a failed write is taken for a full disk:
// programs seldom say why a write failed, and what they wrote in part they may have removed again.
const fullBelow = 1 << 20

// diskFull returns err as a *durable.DiskError if the file system of dir has no room left, so that it
// says so whoever ran into the end: git, a filter or this program.
func diskFull(dir string, err error) error {
	if coded, ok := errors.AsType[schemas.Coded](err); ok && coded.Code() == schemas.CodeDiskFull {
		return err
	}
	var stat unix.Statfs_t
	if unix.Statfs(dir, &stat) != nil {
		return err
	}
	if noBlocks, noFiles := stat.Bavail*uint64(stat.Bsize) < fullBelow, stat.Files > 0 && stat.Ffree == 0; !noBlocks && !noFiles {
		return err
	}
	return &durable.DiskError{Path: dir, Err: errors.Join(unix.ENOSPC, err)}
}
