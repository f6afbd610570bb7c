//go:build !cgo

package gitstate

import (
	"errors"

	"github.com/git-spot/git-spot/internal/gitexec"
)

func openLibgit2(*gitexec.Repo, *plumbing) (backend, error) {
	return nil, errors.New("built without libgit2")
}
