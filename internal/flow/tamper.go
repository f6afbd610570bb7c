package flow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/worktree"
)

// repositoryChange is what happened to the repository while something untrusted ran.
type repositoryChange struct {
	tampered []string          // executable configuration that appeared, and was taken out again
	replaced map[string][]byte // what it was, by name
	warnings []string          // everything else: users commit and fetch while a worker works
}

// said is the change in words, for a run whose gates are not judged now.
func (c repositoryChange) said() []string {
	said := slices.Clip(c.warnings)
	for _, what := range c.tampered {
		said = append(said, fmt.Sprintf("%s: %s was undone", schemas.CodeGitStateTampered, what))
	}
	return said
}

// undoTampering compares the repository with what it was before. It must come before any call of git
// that filters content: git runs what is configured.
func (s *Session) undoTampering(ctx context.Context, before *worktree.Fingerprint) (repositoryChange, error) {
	var c repositoryChange
	now, err := worktree.TakeFingerprint(ctx, s.Repo)
	if err != nil {
		return c, err
	}
	change := before.Compare(now)
	for _, what := range change.Changed {
		c.warnings = append(c.warnings, fmt.Sprintf("%s: %s", schemas.CodeSourceChanged, what))
	}
	c.warnings = bounded(c.warnings)
	if len(change.ExecutableConfig) > 0 {
		c.tampered = bounded(change.ExecutableConfig)
		c.replaced, err = before.Undo(ctx, s.Repo, now)
	}
	return c, err
}

// fingerprintPath holds the repository's fingerprint while a turn is not yet recorded, for whoever goes
// on after a kill.
func (s *Session) fingerprintPath(id gitstate.RunID) string {
	return filepath.Join(s.liveFolder(id), "fingerprint")
}

// keepFingerprint takes the repository's fingerprint before something untrusted runs, and keeps it for
// whoever goes on after a kill.
func (s *Session) keepFingerprint(ctx context.Context, id gitstate.RunID) (*worktree.Fingerprint, error) {
	f, err := worktree.TakeFingerprint(ctx, s.Repo)
	if err != nil {
		return nil, err
	}
	if err := gitstate.MakeRunFolder(s.Repo, id); err != nil {
		return nil, err
	}
	return f, f.Save(s.fingerprintPath(id))
}

// undoLostTampering is undoTampering for a phase whose owner was killed. In any other the fingerprint is
// what a killed command had no time to remove, and what differs from it may be the user's.
func (s *Session) undoLostTampering(ctx context.Context, phase *gitstate.Phase) (repositoryChange, error) {
	if !gitstate.StandingOf(phase.State.State).Owned {
		return repositoryChange{}, nil
	}
	before, err := worktree.LoadFingerprint(s.fingerprintPath(phase.ID))
	turn := phase.State.State == schemas.StateRunning || phase.State.State == schemas.StateRevising
	if errors.Is(err, fs.ErrNotExist) && !turn {
		return repositoryChange{}, nil // it was killed before anything untrusted ran, or nothing does
	}
	if err != nil {
		// Who wrote that there could also have removed it. The run must not stay where it is for ever.
		return repositoryChange{warnings: []string{fmt.Sprintf("what the turn did to the repository is not known: %v", err)}}, nil
	}
	return s.undoTampering(ctx, before)
}
