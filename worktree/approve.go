package worktree

import (
	"context"
	"errors"
	"strings"
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
	for _, who := range []string{"GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"} {
		_, err := repo.Run(ctx, gitexec.Call{Args: []string{"var", who}, Config: []string{strictIdentity}})
		if e, refused := errors.AsType[*gitexec.Error](err); refused && e.Status > 0 {
			return "", &IdentityError{Detail: lastLine(e.Stderr)}
		}
		if err != nil {
			return "", err
		}
	}
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
	if e, refused := errors.AsType[*gitexec.Error](err); refused && sign && ctx.Err() == nil && e.Code() != schemas.CodeDiskFull {
		return "", &SigningError{TimedOut: e.Status < 0, Err: err}
	}
	if err != nil {
		return "", diskFull(repo.CommonDir, err)
	}
	return gitstate.ParseOID(strings.TrimSpace(string(out)))
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
