// Package flow holds the sequences over ledger, worktree, workers, verify and review that more than one
// command runs. It decides the order of things and nothing else: transitions and owners are the
// ledger's, git is the worktree's, processes are the workers' and the verification's.
//
// Every function here may be killed at any point. What it wrote until then is a ledger event, or
// something that the next event would have named; the same command run again goes on or says which
// command is due.
package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
	"github.com/git-spot/git-spot/worktree"
)

// recordingTimeout bounds what must still be recorded or undone after a command was told to stop. It is
// long because it also covers the snapshot of a large tree, and a step that is cut off here is lost.
const recordingTimeout = 10 * time.Minute

// Session is one repository with what a command needs to work on its runs. It is safe for use by one
// goroutine.
type Session struct {
	Repo   *gitexec.Repo
	Config *config.Config
	Ledger *gitstate.Ledger
	Getenv func(string) string
	Now    func() time.Time
}

// worktreeOf returns the worktree of a run. It may be lost.
func (s *Session) worktreeOf(run *gitstate.Run) *worktree.Worktree {
	return worktree.Open(s.Repo, worktree.Spec{
		ID: run.ID, Base: gitstate.OID(run.State.Base.Commit), Root: filepath.Dir(run.State.Worktree),
	})
}

// Contract reads the contract of a run from its ledger. It was sound when it was written: one that is not
// is a *gitstate.CorruptError.
func (s *Session) Contract(ctx context.Context, run *gitstate.Run) (*schemas.Contract, error) {
	const file = "contract.json"
	data, err := s.Ledger.File(ctx, run, file)
	if err != nil {
		return nil, err
	}
	contract, err := schemas.ParseContract(data)
	if err != nil {
		return nil, &gitstate.CorruptError{ID: run.ID, What: file, Err: err}
	}
	return contract, nil
}

// snapshot writes what the worktree of a run holds as a commit on base.
func (s *Session) snapshot(ctx context.Context, run *gitstate.Run, message string) (worktree.Snapshot, error) {
	return s.writeSnapshot(ctx, s.worktreeOf(run).Snapshot, message)
}

// rescue is snapshot for when base cannot be read.
func (s *Session) rescue(ctx context.Context, run *gitstate.Run, message string) (worktree.Snapshot, error) {
	return s.writeSnapshot(ctx, s.worktreeOf(run).Rescue, message)
}

func (s *Session) writeSnapshot(ctx context.Context, write func(context.Context, string, worktree.Identity) (worktree.Snapshot, error), message string) (worktree.Snapshot, error) {
	by, err := s.Ledger.Signature(ctx)
	if err != nil {
		return worktree.Snapshot{}, err
	}
	return write(gitstate.WithSync(ctx), message, worktree.Identity{Name: by.Name, Email: by.Email, When: by.When})
}

// liveFolder holds what grows while a turn runs.
func (s *Session) liveFolder(id gitstate.RunID) string { return gitstate.RunFolder(s.Repo, id) }

// LogPath is the live log of a run's turn for people.
func (s *Session) LogPath(id gitstate.RunID) string {
	return filepath.Join(s.liveFolder(id), "worker.log")
}

// EventsPath is the live log of a run's turn for programs.
func (s *Session) EventsPath(id gitstate.RunID) string {
	return filepath.Join(s.liveFolder(id), "events.jsonl")
}

// attemptFile is the path of a document of attempt n, or of its failed try "n.k", in the ledger.
func attemptFile(n, name string) string { return "attempts/" + n + "/" + name }

// checkBase makes sure that the base commit can still be read. If it is gone, nothing of the run can be
// judged any more: that is recorded, and the error has code LEDGER_CORRUPT.
func (s *Session) checkBase(ctx context.Context, phase *gitstate.Phase) error {
	_, err := s.Ledger.Store().Commit(ctx, gitstate.OID(phase.State.Base.Commit))
	if err == nil || !errors.Is(err, gitstate.ErrNotFound) {
		return err
	}
	gone := &gitstate.CorruptError{ID: phase.ID, What: "base " + phase.State.Base.Commit, Err: err}
	return errors.Join(gone, phase.Append(ctx, gitstate.Event{
		To: schemas.StateFailed, Subject: "failed: the base commit is gone", Code: gone.Code(),
	}))
}

// checkSandbox refuses to run anything untrusted if the user insists on a sandbox: this version has
// none, and says so in every receipt.
func (s *Session) checkSandbox() error {
	if s.Config.Sandbox != "require" {
		return nil
	}
	return &SandboxError{Missing: verify.Isolation().Missing}
}

// SandboxError is spot.sandbox=require where the sandbox cannot be had. Nothing was started.
type SandboxError struct{ Missing []string }

func (e *SandboxError) Error() string {
	return "spot.sandbox is require, and missing here: " + strings.Join(e.Missing, ", ")
}

// Code is SANDBOX_UNAVAILABLE.
func (e *SandboxError) Code() schemas.Code { return schemas.CodeSandboxUnavailable }

// surviving returns a context that outlives the cancellation of ctx, for the work that must still be
// recorded or undone.
func surviving(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordingTimeout)
}

// document reads one of git spot's own JSON documents from the ledger. gitstate.ErrNoFile if the event
// does not have it.
func document[T any](ctx context.Context, s *Session, run *gitstate.Run, path string) (*T, error) {
	data, err := s.Ledger.File(ctx, run, path)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, &gitstate.CorruptError{ID: run.ID, What: path, Err: err}
	}
	return v, nil
}

// Verification reads the verification of a run's latest attempt; gitstate.ErrNoFile if there is none.
func (s *Session) Verification(ctx context.Context, run *gitstate.Run) (*schemas.Verification, error) {
	return document[schemas.Verification](ctx, s, run, attemptFile(fmt.Sprint(run.State.Attempt), "verification.json"))
}

// Receipt reads the worker's receipt of a run's latest attempt; gitstate.ErrNoFile if there is none.
func (s *Session) Receipt(ctx context.Context, run *gitstate.Run) (*schemas.WorkerReceipt, error) {
	return document[schemas.WorkerReceipt](ctx, s, run, attemptFile(fmt.Sprint(run.State.Attempt), "worker.json"))
}
