package flow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/workers"
	"github.com/git-spot/git-spot/worktree"
)

// PrepareOptions is what a caller may say about a new run.
type PrepareOptions struct {
	Contract *schemas.Contract
	Raw      []byte // the contract's bytes, stored as they are
	ID       gitstate.RunID
	Profile  string
	Model    string
	Base     Base
}

// Prepare records a new run and makes its worktree. It refuses in the order contract, policy, worker, slot, and
// a refusal leaves nothing behind: no ref, no folder, no slot.
//
// Errors: *KindError, *worktree.ReuseError, those of workers.Route and workers.Check, *SandboxError, RUN_EXISTS,
// CONCURRENCY_LIMIT, and what git says of a full disk.
func (s *Session) Prepare(ctx context.Context, o PrepareOptions) (run *gitstate.Run, err error) {
	if o.Contract.Kind != schemas.KindCode {
		return nil, &KindError{Kind: o.Contract.Kind}
	}
	if err := worktree.CheckReuse(ctx, s.Repo, o.Contract.Reuse); err != nil {
		return nil, err
	}
	caller, thread := config.Caller(s.Getenv)
	choice, err := workers.Route(s.Config, o.Contract, caller, o.Profile, s.Getenv)
	if err != nil {
		return nil, err
	}
	if o.Model != "" {
		chosen := *choice.Profile
		chosen.Model = o.Model
		choice.Profile = &chosen
	}
	if err := s.checkWorker(ctx, choice.Profile, o.Contract.Kind, ""); err != nil {
		return nil, err
	}
	if err := s.checkSandbox(); err != nil {
		return nil, err
	}
	root, err := worktree.Root(s.Repo, s.Config.WorktreeRoot, s.Getenv)
	if err != nil {
		return nil, err
	}
	effective, err := s.Config.JSON()
	if err != nil {
		return nil, err
	}

	id := o.ID
	if id == "" {
		id = gitstate.RunID(o.Contract.ID)
	}
	if id == "" {
		id = s.Ledger.NewID(o.Contract.Title)
	}
	if err := s.removeAbandoned(ctx, root); err != nil {
		return nil, err
	}
	phase, ctx, err := s.Ledger.Reserve(ctx, id, "prepare", s.Config.MaxConcurrentRuns)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, phase.Close()) }()

	spec := worktree.Spec{ID: id, Base: o.Base.Commit, Root: root}
	// A prepare of the same id that was killed before its first event leaves a folder that no ledger
	// knows; the reservation says that it is ours now.
	if err := worktree.Open(s.Repo, spec).Remove(); err != nil {
		return nil, err
	}
	var dirty []string
	var dirtyErr error
	var wg sync.WaitGroup
	wg.Go(func() { dirty, dirtyErr = worktree.DirtyPaths(ctx, s.Repo) })
	made, err := worktree.Create(ctx, s.Repo, spec)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && phase.Head == "" { // a run that there is has its worktree
			err = errors.Join(err, made.Remove())
		}
	}()
	if dirtyErr != nil {
		return nil, dirtyErr
	}

	now := s.Now()
	state := schemas.RunState{
		SchemaVersion: schemas.Version,
		ID:            string(id),
		State:         schemas.StatePrepared,
		Kind:          o.Contract.Kind,
		Title:         o.Contract.Title,
		CreatedAt:     now,
		UpdatedAt:     now,
		Caller:        caller,
		Thread:        thread,
		Profile:       profileRef(choice.Profile, choice.Source),
		Fallback:      choice.Fallback,
		Difficulty:    choice.Difficulty,
		Base:          schemas.Base{Commit: string(o.Base.Commit), Branch: string(o.Base.Branch)},
		SourceDirty:   bounded(dirty),
		Worktree:      made.Path(),
		Warnings:      bounded(prepareWarnings(made)),
	}
	if err := phase.Create(ctx, gitstate.NewRun{
		State: state,
		Files: map[string][]byte{"contract.json": o.Raw, "config.json": effective},
	}); err != nil {
		return nil, err
	}
	return &phase.Run, nil
}

// removeAbandoned removes the worktrees of prepares that were killed before their first event: nobody
// will ever ask for these runs. No worker has been in there.
func (s *Session) removeAbandoned(ctx context.Context, root string) error {
	ids, err := s.Ledger.Abandoned(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		phase, _, err := s.Ledger.Reserve(ctx, id, "prepare", s.Config.MaxConcurrentRuns)
		if err != nil {
			continue // somebody else has it by now
		}
		spec := worktree.Spec{ID: id, Root: root}
		if err := errors.Join(worktree.Open(s.Repo, spec).Remove(), phase.Close()); err != nil {
			return err
		}
	}
	return nil
}

func prepareWarnings(w *worktree.Worktree) []string {
	var warnings []string
	for _, path := range w.EmptySubmodules {
		warnings = append(warnings, fmt.Sprintf("submodule %q is empty: its objects are not in this repository", path))
	}
	for _, name := range w.DisabledFilters {
		warnings = append(warnings, fmt.Sprintf("filter %q was not run: its command is content of the repository", name))
	}
	return warnings
}

// KindError is a contract of a kind that this version does not run.
type KindError struct{ Kind schemas.Kind }

func (e *KindError) Error() string {
	return fmt.Sprintf("/kind: this version runs tasks of kind code, not %s", e.Kind)
}

// Code is CONTRACT_INVALID.
func (e *KindError) Code() schemas.Code { return schemas.CodeContractInvalid }

// UnbornError is a repository without a commit.
type UnbornError struct{ Head string }

func (e *UnbornError) Error() string { return fmt.Sprintf("%s has no commit yet", e.Head) }

// Code is HEAD_UNBORN.
func (e *UnbornError) Code() schemas.Code { return schemas.CodeHeadUnborn }

// RevisionError is a --base that names no commit, or an --onto that is no branch.
type RevisionError struct{ Revision string }

func (e *RevisionError) Error() string { return fmt.Sprintf("%q names no commit", e.Revision) }

// Code is USAGE.
func (e *RevisionError) Code() schemas.Code { return schemas.CodeUsage }

// Base is the commit that a run starts from and the branch that it lands on, "" when there is no source.
type Base struct {
	Commit gitstate.OID
	Branch gitstate.Ref
}

// ResolveBase finds the commit to start from and the branch to land on: HEAD and its branch for "", or
// the local branch that revision names. Any other revision, and a detached HEAD, has no source.
//
// Errors: *UnbornError (HEAD_UNBORN), *RevisionError.
func (s *Session) ResolveBase(ctx context.Context, revision string) (Base, error) {
	git := func(args ...string) (string, error) {
		out, err := s.Repo.Run(ctx, gitexec.Call{Args: args})
		return strings.TrimSuffix(string(out), "\n"), err
	}
	name := revision
	if name == "" {
		name = "HEAD"
	}
	commit, err := git("rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil {
		if !isStatus(err, 1, 128) {
			return Base{}, err
		}
		if revision != "" {
			return Base{}, &RevisionError{Revision: revision}
		}
		return Base{}, &UnbornError{Head: "HEAD"}
	}
	oid, err := gitstate.ParseOID(commit)
	if err != nil { // git has more to say of ^main
		return Base{}, &RevisionError{Revision: name}
	}
	base := Base{Commit: oid}
	var ref string
	if revision == "" {
		ref, err = git("symbolic-ref", "--quiet", "HEAD")
	} else {
		ref, err = git("rev-parse", "--verify", "--quiet", "--symbolic-full-name", "--end-of-options", revision)
	}
	if err != nil && !isStatus(err, 1, 128) {
		return Base{}, err
	}
	if err == nil && strings.HasPrefix(ref, "refs/heads/") {
		base.Branch = gitstate.Ref(ref)
	}
	return base, nil
}

// isStatus reports whether err is git ending with one of the given exit statuses.
func isStatus(err error, statuses ...int) bool {
	e, ok := errors.AsType[*gitexec.Error](err)
	if !ok {
		return false
	}
	for _, status := range statuses {
		if e.Status == status {
			return true
		}
	}
	return false
}
