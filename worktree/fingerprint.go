package worktree

import (
	"context"

	"github.com/git-spot/git-spot/internal/gitexec"
)

// Fingerprint is the state of everything in a repository that a worker has no business to change.
type Fingerprint struct{}

// TakeFingerprint reads the repository's configuration, hooks, info folder, refs (ours left out) and
// the HEAD and changed paths of its checkout.
func TakeFingerprint(ctx context.Context, repo *gitexec.Repo) (*Fingerprint, error) {
	return nil, nil
}

// Tampering is how two fingerprints differ.
type Tampering struct {
	// ExecutableConfig names added or changed configuration that makes git run something: keys,
	// hooks, attribute files. It is GIT_STATE_TAMPERED.
	ExecutableConfig []string
	// Changed names everything else: refs, HEAD, files of the checkout. It is SOURCE_CHANGED.
	Changed []string
}

// Compare says what changed from f to now.
func (f *Fingerprint) Compare(now *Fingerprint) Tampering { return Tampering{} }

// Undo removes the executable configuration that Compare(now) names, and puts back what was there in
// f. It returns what it replaced, by name, so that the caller can keep it.
func (f *Fingerprint) Undo(ctx context.Context, repo *gitexec.Repo, now *Fingerprint) (map[string][]byte, error) {
	return nil, nil
}
