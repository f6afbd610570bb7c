package worktree

import (
	"context"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
)

// ApprovedCommit makes the commit that lands: tree on parent with the user's own identity and, where
// commit.gpgSign says so, signature; message is taken verbatim. No ref moves. *IdentityError if git
// has no configured identity, *SigningError if the signature cannot be had; it is never left out.
func ApprovedCommit(ctx context.Context, repo *gitexec.Repo, tree, parent gitstate.OID, message string) (gitstate.OID, error) {
	return "", nil
}
