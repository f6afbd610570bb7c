package gitstate

import (
	"context"

	"github.com/git-spot/git-spot/internal/gitexec"
)

// OpenPlumbing opens a store on the plumbing backend, whatever the probe says.
func OpenPlumbing(ctx context.Context, repo *gitexec.Repo) (Store, error) {
	return newStore(repo, newPlumbing(ctx, repo)), nil
}

// OpenLibgit2 opens a store on the libgit2 backend, whatever the probe says.
func OpenLibgit2(ctx context.Context, repo *gitexec.Repo) (Store, error) {
	b, err := openLibgit2(repo, newPlumbing(ctx, repo))
	if err != nil {
		return nil, err
	}
	return newStore(repo, b), nil
}

// The coding of objects, for fuzzing.
var (
	EncodeTree   = encodeTree
	DecodeTree   = decodeTree
	EncodeCommit = encodeCommit
	DecodeCommit = decodeCommit
)
