package worktree

import (
	"context"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// LandSteps names the steps of a landing.
func LandSteps(repo *gitexec.Repo, plan *schemas.Integration, id gitstate.RunID) []string {
	var names []string
	for _, s := range newLanding(repo, plan, id).steps() {
		names = append(names, s.name)
	}
	return names
}

// LandUpTo runs the first n steps of a landing and nothing that cleans up after them.
func LandUpTo(ctx context.Context, repo *gitexec.Repo, plan *schemas.Integration, id gitstate.RunID, n int) error {
	for _, s := range newLanding(repo, plan, id).steps()[:n] {
		if err := s.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// RunsContent is runsContent.
func RunsContent(command string, top map[string]string) bool { return runsContent(command, top) }

// ApprovedCommitWithin is ApprovedCommit with less patience for the signing program.
func ApprovedCommitWithin(ctx context.Context, repo *gitexec.Repo, tree, parent gitstate.OID, message string, patience time.Duration) (gitstate.OID, error) {
	return approvedCommit(ctx, repo, tree, parent, message, patience)
}
