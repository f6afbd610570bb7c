package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/review"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/worktree"
)

// SelfReview ends the parking of a verified run. This version has no self-review turn, and records
// that as the reason; it never blocks.
func (s *Session) SelfReview(ctx context.Context, id gitstate.RunID) (run *gitstate.Run, _ *schemas.SelfReview, err error) {
	phase, ctx, err := s.Ledger.Begin(ctx, id, "self-review", gitstate.BySelfReview)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, phase.Close()) }()
	skipped := &schemas.SelfReview{SchemaVersion: schemas.Version, Skipped: true, Reason: "unavailable"}
	document, err := schemas.MarshalIndent(skipped)
	if err != nil {
		return nil, nil, err
	}
	err = phase.Append(ctx, gitstate.Event{
		To: schemas.StateReviewing, Subject: "skip self-review: unavailable",
		Files: map[string][]byte{attemptFile(strconv.Itoa(phase.State.Attempt), "self-review.json"): document},
	})
	if err != nil {
		return nil, nil, err
	}
	return &phase.Run, skipped, nil
}

// Approve records the caller's verdict and makes the commit that may land: the verified tree on the
// base commit, by the user, with message as it is and the trailers that lead back to the run.
//
// Errors: those of review.CheckApproval, review.Message and worktree.ApprovedCommit. The run is
// unchanged after each.
func (s *Session) Approve(ctx context.Context, id gitstate.RunID, verdict *schemas.Review, message string) (run *gitstate.Run, err error) {
	phase, ctx, err := s.Ledger.Begin(ctx, id, "approve", gitstate.ByApprove)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, phase.Close()) }()
	if err := s.checkBase(ctx, phase); err != nil {
		return nil, err
	}
	st := &phase.State
	contract, err := s.Contract(ctx, &phase.Run)
	if err != nil {
		return nil, err
	}
	verification, err := s.Verification(ctx, &phase.Run)
	if err != nil && !errors.Is(err, gitstate.ErrNoFile) {
		return nil, err
	}
	if err := review.CheckApproval(contract, st, verification, verdict); err != nil {
		return nil, err
	}
	diff, err := s.Ledger.DiffHash(ctx, gitstate.OID(st.Base.Commit), gitstate.OID(st.Candidate))
	if err != nil {
		return nil, err
	}
	if diff.SHA256 != verdict.DiffSHA256 || string(diff.Tree) != verification.Tree {
		return nil, &review.HashError{Verified: verification.DiffSHA256, Reviewed: verdict.DiffSHA256, Now: diff.SHA256}
	}
	receipt, err := s.Receipt(ctx, &phase.Run)
	if err != nil {
		return nil, err
	}
	text, err := review.Message(message, review.Trailers{
		Run: string(id), DiffSHA256: diff.SHA256, Adapter: receipt.Profile.Adapter, Model: receipt.Profile.Model,
	})
	if err != nil {
		return nil, err
	}
	commit, err := worktree.ApprovedCommit(gitstate.WithSync(ctx), s.Repo, diff.Tree, diff.Base, text)
	if err != nil {
		return nil, err
	}
	candidate, err := s.moveRef(ctx, gitstate.CandidateRef(id), commit)
	if err != nil {
		return nil, err
	}
	document, err := schemas.MarshalIndent(verdict)
	if err != nil {
		return nil, err
	}
	summary := review.Summary(verdict)
	err = phase.Append(ctx, gitstate.Event{
		To: schemas.StateApproved, Subject: "approve",
		Files: map[string][]byte{attemptFile(strconv.Itoa(st.Attempt), "review.json"): document},
		Refs:  []gitstate.RefUpdate{candidate},
		Apply: func(st *schemas.RunState) {
			st.Review, st.Approved = &summary, string(commit)
		},
	})
	if err != nil {
		return nil, err
	}
	return &phase.Run, nil
}

// Integrate lands the approved commit on the source branch and updates the checkout that has it. Onto
// names the branch for a run without a source, as a full ref name.
//
// Errors: *worktree.SourceError with the run blocked until the source is mended, *NoSourceError,
// *RevisionError, *ProtectedError.
func (s *Session) Integrate(ctx context.Context, id gitstate.RunID, onto gitstate.Ref) (run *gitstate.Run, err error) {
	phase, ctx, err := s.Ledger.Begin(ctx, id, "integrate", gitstate.ByIntegrate)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, phase.Close()) }()
	if err := s.checkBase(ctx, phase); err != nil {
		return nil, err
	}
	// What has landed in part is finished whatever is asked now.
	if done, err := s.finishLanding(ctx, phase); err != nil || done {
		return &phase.Run, err
	}
	branch, err := s.target(ctx, phase, onto)
	if err != nil {
		return nil, err
	}
	st := &phase.State
	diff, err := s.Ledger.Diff(ctx, gitstate.OID(st.Base.Commit), gitstate.OID(st.Approved))
	if err != nil {
		return nil, err
	}
	if diff.SHA256 != st.DiffSHA256 || string(diff.Tree) != st.Tree {
		return nil, &review.HashError{Verified: st.DiffSHA256, Now: diff.SHA256}
	}
	plan, err := worktree.PlanLanding(ctx, s.Repo, branch, gitstate.OID(st.Base.Commit), gitstate.OID(st.Approved))
	if err != nil {
		return nil, s.blockSource(ctx, phase, err, nil)
	}
	err = phase.Append(ctx, gitstate.Event{
		To: schemas.StateIntegrating, Subject: "integrate into " + string(branch),
		Apply: func(st *schemas.RunState) { st.Integration, st.Blocked = plan, nil },
	})
	if err != nil {
		return nil, err
	}
	// From here on a cancelled context must not tear the checkout: it is finished or taken back.
	landing, cancel := surviving(ctx)
	defer cancel()
	if err = worktree.Land(landing, s.Repo, plan, id); err == nil {
		err = s.landed(landing, phase)
	} else {
		err = s.settleLanding(landing, phase, err)
	}
	if err != nil {
		return nil, err
	}
	return &phase.Run, nil
}

// finishLanding goes on with a landing that moved the branch and then met something foreign in the
// checkout. It reports whether the run is integrated now.
func (s *Session) finishLanding(ctx context.Context, phase *gitstate.Phase) (bool, error) {
	plan := phase.State.Integration
	if plan == nil {
		return false, nil
	}
	landed, err := worktree.ResumeLanding(ctx, s.Repo, plan, phase.ID)
	if err != nil {
		return false, s.blockSource(ctx, phase, err, plan)
	}
	if !landed {
		return false, nil
	}
	if err := phase.Append(ctx, gitstate.Event{To: schemas.StateIntegrating, Subject: "finish the landing on " + plan.Branch}); err != nil {
		return false, err
	}
	return true, s.landed(ctx, phase)
}

// settleLanding records what a landing that failed came to: the branch says whether it landed. If it
// did not, everything is as it was before, and the run is approved still or blocked by its source.
func (s *Session) settleLanding(ctx context.Context, phase *gitstate.Phase, cause error) error {
	landed, err := worktree.ResumeLanding(ctx, s.Repo, phase.State.Integration, phase.ID)
	if err != nil {
		return s.blockSource(ctx, phase, errors.Join(cause, err), keptPlan(phase, landed))
	}
	if landed {
		return s.landed(ctx, phase)
	}
	if _, source := errors.AsType[*worktree.SourceError](cause); source {
		return s.blockSource(ctx, phase, cause, nil)
	}
	return errors.Join(cause, phase.Append(ctx, gitstate.Event{
		To: schemas.StateApproved, Subject: "nothing landed",
		Apply: func(st *schemas.RunState) { st.Integration = nil },
	}))
}

// landed records that the branch holds the approved commit.
func (s *Session) landed(ctx context.Context, phase *gitstate.Phase) error {
	return phase.Append(ctx, gitstate.Event{To: schemas.StateIntegrated, Subject: "integrated into " + phase.State.Integration.Branch})
}

// keptPlan is the plan of a landing that is to be finished when the source is mended, or nil.
func keptPlan(phase *gitstate.Phase, landed bool) *schemas.Integration {
	if landed {
		return phase.State.Integration
	}
	return nil
}

// blockSource records that the source is in the way and returns cause. Plan is kept for the next
// integrate if the branch has moved already. Any other error than
// *worktree.SourceError records nothing: the run stays where recover or the same command finds it.
func (s *Session) blockSource(ctx context.Context, phase *gitstate.Phase, cause error, plan *schemas.Integration) error {
	source, ok := errors.AsType[*worktree.SourceError](cause)
	if !ok {
		return cause
	}
	short := *source
	short.Paths = bounded(source.Paths)
	blocked := &schemas.Blocked{
		Cause: schemas.BlockedSource, Code: short.Code(), Message: short.Error(), Paths: short.Paths, From: schemas.StateApproved,
	}
	return errors.Join(cause, phase.Append(ctx, gitstate.Event{
		To: schemas.StateBlocked, Subject: "blocked: " + string(source.Code()), Code: source.Code(),
		Apply: func(st *schemas.RunState) { st.Blocked, st.Integration = blocked, plan },
	}))
}

// target is the branch that a run lands on.
func (s *Session) target(ctx context.Context, phase *gitstate.Phase, onto gitstate.Ref) (gitstate.Ref, error) {
	branch := gitstate.Ref(phase.State.Base.Branch)
	switch {
	case branch == "" && onto == "":
		return "", &NoSourceError{ID: phase.ID}
	case branch == "":
		_, err := s.Repo.Run(ctx, gitexec.Call{Args: []string{"show-ref", "--verify", "--quiet", string(onto)}})
		switch {
		case isStatus(err, 1, 128): // a name that was mistyped is no source that has moved
			return "", &RevisionError{Revision: string(onto)}
		case err != nil:
			return "", err
		}
		branch = onto
	case onto != "" && onto != branch:
		return "", &NoSourceError{ID: phase.ID, Source: branch, Onto: onto}
	}
	if slices.Contains(s.Config.ProtectedBranch, strings.TrimPrefix(string(branch), "refs/heads/")) {
		return "", &ProtectedError{ID: phase.ID, Branch: branch}
	}
	return branch, nil
}

// NoSourceError is a run that was not prepared from a branch, or from another one than --onto says.
type NoSourceError struct {
	ID           gitstate.RunID
	Source, Onto gitstate.Ref
}

func (e *NoSourceError) Error() string {
	if e.Source == "" {
		return fmt.Sprintf("run %s was not prepared from a branch", e.ID)
	}
	return fmt.Sprintf("run %s was prepared from %s, not from %s", e.ID, e.Source, e.Onto)
}

// Code is USAGE.
func (e *NoSourceError) Code() schemas.Code { return schemas.CodeUsage }

// ProtectedError is a branch that spot.protectedBranch names. The approved commit stays a candidate.
type ProtectedError struct {
	ID     gitstate.RunID
	Branch gitstate.Ref
}

func (e *ProtectedError) Error() string {
	return fmt.Sprintf("%s is protected: the approved commit stays at %s", e.Branch, gitstate.CandidateRef(e.ID))
}

// Code is BRANCH_PROTECTED.
func (e *ProtectedError) Code() schemas.Code { return schemas.CodeBranchProtected }
