//go:build cgo

package gitstate_test

import (
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/gitstate/statetest"
)

// backends are those of this build.
func backends() map[string]statetest.Force {
	return map[string]statetest.Force{"libgit2": force(gitstate.OpenLibgit2), "plumbing": force(gitstate.OpenPlumbing)}
}

var libgit2 = opener(gitstate.OpenLibgit2)

func TestLibgit2(t *testing.T) {
	t.Parallel()
	statetest.Suite{Open: libgit2, Process: "TestLibgit2Process"}.Run(t)
}

func TestLibgit2Process(t *testing.T) {
	t.Parallel()
	statetest.Helper(t, libgit2)
}
