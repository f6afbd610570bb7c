package gitstate_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/gitstate/statetest"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
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
	statetest.Suite{
		Open: plumbing, Process: "TestPlumbingProcess", Init: []string{"--object-format=sha256"},
		Only: []string{"core", "broken refs", "processes", "create if absent", "beside pack-refs and gc"},
	}.Run(t)
}

func TestPlumbingProcess(t *testing.T) {
	t.Parallel()
	statetest.Helper(t, plumbing)
}

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

// TestForeignOwner has a repository of another user that git trusts by the command line alone. libgit2
// does not know that, nor safe.directory=*.
func TestForeignOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give a repository away")
	}
	dir := statetest.Repository(t, filepath.Join(statetest.Folder(t), "repo"))
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 65534, 65534))
	})
	if err != nil {
		t.Fatal(err)
	}
	o := statetest.Options(dir)
	_, err = gitexec.Discover(t.Context(), o)
	if e, ok := errors.AsType[*gitexec.RepoError](err); !ok || e.Code() != schemas.CodeRepoOwner {
		t.Fatalf("untrusted: got %v", err)
	}
	getenv := o.Getenv
	o.Getenv = func(name string) string {
		if name == "GIT_CONFIG_PARAMETERS" {
			return "'safe.directory'='*'"
		}
		return getenv(name)
	}
	s, backend, err := gitstate.OpenStore(t.Context(), statetest.Discover(t, o))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if backend.Name != "plumbing" || backend.Reason == "" {
		t.Errorf("got %+v", backend)
	}
	if _, err := s.Ref(t.Context(), "refs/heads/main"); err != nil {
		t.Error(err)
	}
	if _, err := s.WriteBlob(t.Context(), []byte("x")); err != nil {
		t.Error(err)
	}
}
