package gitstate_test

import (
	"context"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/gitstate/statetest"
	"github.com/git-spot/git-spot/internal/gitexec"
)

type openFunc = func(context.Context, *gitexec.Repo) (gitstate.Store, error)

// force closes the store when the test ends.
func force(open openFunc) statetest.Force {
	return func(tb testing.TB, o gitexec.Options) (gitstate.Store, error) {
		tb.Helper()
		s, err := open(tb.Context(), statetest.Discover(tb, o))
		if err != nil {
			return nil, err
		}
		tb.Cleanup(func() {
			if err := s.Close(); err != nil {
				tb.Errorf("close: %v", err)
			}
		})
		return s, nil
	}
}

func opener(open openFunc) statetest.Open {
	return func(tb testing.TB, o gitexec.Options) gitstate.Store {
		tb.Helper()
		s, err := force(open)(tb, o)
		if err != nil {
			tb.Fatal(err)
		}
		return s
	}
}

var plumbing = opener(gitstate.OpenPlumbing)

func TestPlumbing(t *testing.T) {
	t.Parallel()
	statetest.Suite{Open: plumbing, Process: "TestPlumbingProcess"}.Run(t)
}

func TestPlumbingSHA256(t *testing.T) {
	t.Parallel()
	statetest.Suite{Open: plumbing, Process: "TestPlumbingProcess", Init: []string{"--object-format=sha256"}}.Run(t)
}

func TestPlumbingProcess(t *testing.T) { statetest.Helper(t, plumbing) }

func TestRepositoryKinds(t *testing.T) {
	t.Parallel()
	statetest.Matrix(t, func(tb testing.TB, repo *gitexec.Repo) (gitstate.Store, gitstate.Backend) {
		tb.Helper()
		s, backend, err := gitstate.OpenStore(tb.Context(), repo)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := s.Close(); err != nil {
				tb.Errorf("close: %v", err)
			}
		})
		return s, backend
	}, backends())
}
