package worktree

import (
	"context"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// PlanLanding says what moving branch from old to new will touch, and writes nothing. The plan has no
// checkout if the branch is checked out nowhere. *SourceError if the branch is not at old, or if its
// checkout is in the way.
func PlanLanding(ctx context.Context, repo *gitexec.Repo, branch gitstate.Ref, old, new gitstate.OID) (*schemas.Integration, error) {
	return nil, nil
}

// Land carries a plan out. The plan must be in the ledger before. After a *SourceError nothing has
// changed; after another error ResumeLanding says what did.
func Land(ctx context.Context, repo *gitexec.Repo, plan *schemas.Integration, id gitstate.RunID) error {
	return nil
}

// ResumeLanding finishes or takes back what a Land with the same plan left when it was killed. It
// reports whether the branch holds plan.New; if not, everything is as it was before Land.
func ResumeLanding(ctx context.Context, repo *gitexec.Repo, plan *schemas.Integration, id gitstate.RunID) (landed bool, err error) {
	return false, nil
}
