package worktree

import (
	"fmt"
	"strings"
	"time"

	"github.com/git-spot/git-spot/schemas"
)

// RootError is a worktree folder that would lie inside the repository.
type RootError struct {
	Root       string // the folder that was asked for
	Repository string // the work tree or git directory that it lies in
}

func (e *RootError) Error() string {
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

// RoomError is a clean room that could not be made. Nothing of it is left.
type RoomError struct {
	Name string
	Err  error
}

func (e *RoomError) Error() string { return fmt.Sprintf("make clean room %s: %v", e.Name, e.Err) }
func (e *RoomError) Unwrap() error { return e.Err }

// SourceError is a branch or a checkout that does not let the approved commit in. Nothing of the
// user's was changed.
type SourceError struct {
	Reason   schemas.Code // SOURCE_DIRTY or SOURCE_MOVED
	Branch   string
	Checkout string   // "" if the branch itself is meant
	Detail   string   // what is in the way, if not paths
	Paths    []string // what is in the way
	Want     string   // SOURCE_MOVED: the commit the branch should be at
	Got      string   // SOURCE_MOVED: where it is; "" if it does not exist
	Lock     string   // a lock file of somebody else's
	LockAge  time.Duration
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
