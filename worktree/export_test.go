package worktree

import (
	"context"

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
