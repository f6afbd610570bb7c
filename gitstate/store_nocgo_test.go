//go:build !cgo

package gitstate_test

import (
	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/gitstate/statetest"
)

// backends are those of this build.
func backends() map[string]statetest.Force {
	return map[string]statetest.Force{"plumbing": force(gitstate.OpenPlumbing)}
}
