package worktree

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// signingTimeout bounds a signing program that asks somebody who is not there, or a hardware token
// that waits for a touch.
const signingTimeout = 60 * time.Second

// strictIdentity keeps git from making an identity up from the user's and the machine's names.
const strictIdentity = "user.useConfigOnly=true"

// ApprovedCommit makes the commit that lands: tree on parent with the user's own identity as author and
// committer and, where commit.gpgSign says so, the user's signature. Message is taken verbatim. No ref
// moves and no hook runs; the objects are flushed to the disk.
//
// It is an *IdentityError if git has no configured identity, and a *SigningError if the signature
// cannot be had, at the latest after 60 seconds; it is never left out.
func ApprovedCommit(ctx context.Context, repo *gitexec.Repo, tree, parent gitstate.OID, message string) (gitstate.OID, error) {
	return approvedCommit(ctx, repo, tree, parent, message, signingTimeout)
}

func approvedCommit(ctx context.Context, repo *gitexec.Repo, tree, parent gitstate.OID, message string, patience time.Duration) (gitstate.OID, error) {
	sign, err := signs(ctx, repo)
	if err != nil {
		return "", err
	}
	call := gitexec.Call{
		Args:   []string{"commit-tree", "-p", string(parent), "-F", "-"},
		Stdin:  strings.NewReader(message),
		Config: []string{strictIdentity, "i18n.commitEncoding=UTF-8", "core.fsync=objects", "core.fsyncMethod=fsync"},
	}
	if sign {
		call.Args = append(call.Args, "-S")
		call.Signing, call.Timeout = true, patience
		call.Env = []string{"GPG_TTY="}
	}
	call.Args = append(call.Args, string(tree))
	out, err := repo.Run(ctx, call)
	if e, refused := errors.AsType[*gitexec.Error](err); refused && ctx.Err() == nil && e.Code() != schemas.CodeDiskFull {
		// git looks for the identity first, and has no words for it that a program could read.
		if _, _, err := Author(ctx, repo); err != nil {
			return "", err
		}
		if sign {
			return "", &SigningError{TimedOut: e.Status < 0, Err: err}
		}
	}
	if err != nil {
		return "", diskFull(repo.CommonDir, err)
	}
	return gitstate.ParseOID(strings.TrimSpace(string(out)))
}

// Author says whom git would name as the author of a commit. It is an *IdentityError if git does not
// know who that, or the committer, is.
func Author(ctx context.Context, repo *gitexec.Repo) (name, email string, err error) {
	var author string
	var authorErr, committerErr error
	var wg sync.WaitGroup
	wg.Go(func() { author, authorErr = identity(ctx, repo, "GIT_AUTHOR_IDENT") })
	wg.Go(func() { _, committerErr = identity(ctx, repo, "GIT_COMMITTER_IDENT") })
	wg.Wait()
	for _, err := range []error{authorErr, committerErr} {
		if err != nil {
			return "", "", err
		}
	}
	name, rest, _ := strings.Cut(author, " <") // neither has an angle bracket of its own
	email, _, _ = strings.Cut(rest, ">")
	return name, email, nil
}

func identity(ctx context.Context, repo *gitexec.Repo, who string) (string, error) {
	out, err := repo.Run(ctx, gitexec.Call{Args: []string{"var", who}, Config: []string{strictIdentity}})
	if e, refused := errors.AsType[*gitexec.Error](err); refused && e.Status > 0 {
		return "", &IdentityError{Detail: lastLine(e.Stderr)}
	}
	return string(out), err
}

// signs reports whether the user's configuration has commits signed.
func signs(ctx context.Context, repo *gitexec.Repo) (bool, error) {
	out, err := repo.Run(ctx, gitexec.Call{
		Args: []string{"config", "--type=bool", "--get", "commit.gpgSign"}, Signing: true,
	})
	if e, refused := errors.AsType[*gitexec.Error](err); refused && e.Status == 1 {
		return false, nil // not set
	}
	return strings.TrimSpace(string(out)) == "true", err
}

// lastLine is git's last word: for a missing identity the lines before it are advice.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "fatal: ")
}
