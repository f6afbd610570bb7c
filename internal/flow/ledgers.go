package flow

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/schemas"
)

// While something untrusted runs, ledgers only go on: no command of git spot takes one away or back, and the
// candidates and attempts of a run move with its ledger. So what was otherwise done to them can be told and
// put right.

// ledgers are the refs of all runs: ledgers, candidates and attempts.
func (s *Session) ledgers(ctx context.Context) ([]gitstate.RefValue, error) {
	refs, err := s.Ledger.Store().Refs(ctx, "refs/spot/")
	return slices.DeleteFunc(refs, func(ref gitstate.RefValue) bool {
		return ref.Err != nil || strings.HasPrefix(string(ref.Ref), "refs/spot/slots/")
	}), err
}

// restoreLedgers brings back what ledgers said before, as far as it is gone or was replaced by something that
// does not go on from it, and names the refs. The ledger of phase is where the phase has brought it since.
func (s *Session) restoreLedgers(ctx context.Context, before []gitstate.RefValue, phase *gitstate.Phase) (restored []string, err error) {
	refs, err := s.Ledger.Store().Refs(ctx, "refs/spot/")
	if err != nil {
		return nil, err
	}
	now := map[gitstate.Ref]gitstate.RefValue{}
	for _, ref := range refs {
		now[ref.Ref] = ref
	}
	gone := map[gitstate.RunID]bool{} // on, to a later event
	for _, was := range before {
		id := runOf(was.Ref)
		if was.Ref == gitstate.RunRef(id) {
			if id == phase.ID {
				was.OID = phase.Head
			}
			is := now[was.Ref]
			gone[id] = is.OID != was.OID && is.OID != "" && s.goesOn(ctx, id, was.OID)
		}
	}
	for _, was := range before {
		id := runOf(was.Ref)
		if on, known := gone[id]; on || !known {
			continue
		}
		if was.Ref == gitstate.RunRef(phase.ID) {
			was.OID = phase.Head
		}
		done, err := s.restoreRef(ctx, was, now[was.Ref])
		if err != nil {
			return restored, err
		}
		if done {
			restored = append(restored, string(was.Ref))
		}
	}
	return restored, nil
}

// runOf is the run of refs/spot/<kind>/<id> or of what is below it.
func runOf(ref gitstate.Ref) gitstate.RunID {
	if parts := strings.SplitN(string(ref), "/", 5); len(parts) > 3 {
		return gitstate.RunID(parts[3])
	}
	return ""
}

// goesOn reports whether the ledger of a run can be read and has the event from in its history.
func (s *Session) goesOn(ctx context.Context, id gitstate.RunID, from gitstate.OID) bool {
	run, err := s.Ledger.Load(ctx, id)
	if err != nil {
		return false
	}
	for oid := run.Head; oid != from; {
		commit, err := s.Ledger.Store().Commit(ctx, oid)
		if err != nil || len(commit.Parents) != 1 {
			return false
		}
		oid = commit.Parents[0]
	}
	return true
}

// restoreRef brings a ref to where it was. It reports false if it is there, or if somebody moves it at this
// very moment.
func (s *Session) restoreRef(ctx context.Context, was, is gitstate.RefValue) (bool, error) {
	if is.OID == was.OID && is.Err == nil {
		return false, nil
	}
	old := is.OID
	if is.Err != nil {
		// An update cannot name what nobody can read. Where refs are files, what is left is the packed one.
		if err := durable.RemoveAll(filepath.Join(s.Repo.CommonDir, filepath.FromSlash(string(was.Ref)))); err != nil {
			return false, err
		}
		var err error
		if old, err = s.refOrZero(ctx, was.Ref); err != nil || old == was.OID {
			return err == nil, err
		}
	}
	if old == "" {
		old = gitstate.ZeroOID
	}
	err := s.Ledger.Store().Update(ctx, []gitstate.RefUpdate{{Ref: was.Ref, New: was.OID, Old: old}})
	if _, raced := errors.AsType[*gitstate.ConflictError](err); raced {
		return false, nil
	}
	// A lock or a name that is in the way keeps nobody from recording this turn: what is not restored is said.
	if coded, ok := errors.AsType[schemas.Coded](err); ok && coded.Code() != schemas.CodeInternal && coded.Code() != schemas.CodeDiskFull {
		err = nil
	}
	return err == nil, err
}
