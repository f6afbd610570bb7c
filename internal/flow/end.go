package flow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
	"github.com/git-spot/git-spot/workers"
	"github.com/git-spot/git-spot/worktree"
)

// Recover brings a run whose owner is gone, or whose turn was interrupted, back to a state from which
// the next command works. Work that a lost turn left in the worktree becomes its candidate; a lost
// turn is never run again by itself.
func (s *Session) Recover(ctx context.Context, id gitstate.RunID) (run *gitstate.Run, err error) {
	phase, ctx, err := s.Ledger.Begin(ctx, id, "recover", gitstate.ByRecover)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, phase.Close()) }()
	switch phase.State.State {
	case schemas.StateRunning, schemas.StateRevising, schemas.StateInterrupted:
		err = s.recoverTurn(ctx, phase)
	case schemas.StateIntegrating:
		err = s.recoverLanding(ctx, phase)
	case schemas.StateBlocked:
		err = s.unblock(ctx, phase)
	case schemas.StateSelfReviewing:
		err = phase.Append(ctx, gitstate.Event{
			To: schemas.StateReviewing, Subject: "recover: go on without a self-review",
			Apply: func(st *schemas.RunState) { st.Recoveries++ },
		})
	default:
		err = s.stepBack(ctx, phase)
	}
	if err != nil {
		return nil, err
	}
	return &phase.Run, durable.RemoveAll(s.fingerprintPath(id))
}

// recoverTurn keeps what a lost or interrupted turn did, or forgets the turn if it did nothing.
func (s *Session) recoverTurn(ctx context.Context, phase *gitstate.Phase) error {
	if err := s.checkBase(ctx, phase); err != nil {
		return err
	}
	st := &phase.State
	n := strconv.Itoa(st.Attempt)
	start, err := document[schemas.AttemptStart](ctx, s, &phase.Run, attemptFile(n, "start.json"))
	if err != nil {
		return err
	}
	if st.State == schemas.StateInterrupted {
		// Before anything is written, as far as what the turn came to says where this will lead.
		to := schemas.StateImplemented
		if st.Tree == start.StartTree {
			if to, err = s.turnBeganIn(ctx, phase); err != nil {
				return err
			}
		}
		if err := s.claimSlot(ctx, phase, to); err != nil {
			return err
		}
	}
	change, err := s.undoLostTampering(ctx, phase)
	if err != nil {
		return err
	}
	tree, commit := gitstate.OID(start.StartTree), gitstate.OID(st.Candidate)
	var snap worktree.Snapshot
	if w := s.worktreeOf(&phase.Run); !w.Lost() {
		if snap, err = s.snapshot(ctx, &phase.Run, fmt.Sprintf("%s\n\nAttempt %s of run %s, recovered.", st.Title, n, phase.ID)); err != nil {
			return err
		}
		tree, commit = snap.Tree, snap.Commit
	} else if st.State == schemas.StateInterrupted {
		tree = gitstate.OID(st.Tree)
	}
	files, err := s.lostTurnFiles(ctx, phase, start, change, snap)
	if err != nil {
		return err
	}
	if err := errors.Join(s.keepSession(ctx, &phase.Run), s.removeScratch(phase.ID)); err != nil {
		return err
	}
	if string(tree) == start.StartTree {
		return s.forgetTurn(ctx, phase, files)
	}
	if err := s.claimSlot(ctx, phase, schemas.StateImplemented); err != nil {
		return err
	}
	diff, err := s.Ledger.Diff(ctx, gitstate.OID(st.Base.Commit), commit)
	if err != nil {
		return err
	}
	candidate, err := s.moveRef(ctx, gitstate.CandidateRef(phase.ID), commit)
	if err != nil {
		return err
	}
	attempt, err := s.moveRef(ctx, gitstate.AttemptRef(phase.ID, n), commit)
	if err != nil {
		return err
	}
	return phase.Append(ctx, gitstate.Event{
		To: schemas.StateImplemented, Subject: "recover the work of attempt " + n, Files: files,
		Refs: []gitstate.RefUpdate{candidate, attempt},
		Apply: func(st *schemas.RunState) {
			st.Candidate, st.Tree = string(commit), string(tree)
			st.DiffSHA256, st.Diff = diff.SHA256, &diff.Stat
			st.Verification, st.Review = nil, nil
			st.Recoveries++
		},
	})
}

// lostTurnFiles are the receipt and logs of a turn whose owner did not live to write them: of what it cost
// only what was counted until then is known. An interrupted turn has both already.
func (s *Session) lostTurnFiles(ctx context.Context, phase *gitstate.Phase, start *schemas.AttemptStart, change repositoryChange, snap worktree.Snapshot) (map[string][]byte, error) {
	if _, err := s.Receipt(ctx, &phase.Run); err == nil {
		return map[string][]byte{}, nil
	} else if !errors.Is(err, gitstate.ErrNoFile) {
		return nil, err
	}
	n := strconv.Itoa(phase.State.Attempt)
	events, err := readLog(s.EventsPath(phase.ID))
	if err != nil {
		return nil, err
	}
	log, err := readLog(s.LogPath(phase.ID))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, data := range map[string][]byte{"events.jsonl": events, "worker.log": log} {
		if data != nil {
			files[attemptFile(n, name)] = data
		}
	}
	message := "git spot ended before the turn did; what it cost is not known"
	usage := workers.Metered(events)
	if usage != (schemas.Usage{}) {
		message = "git spot ended before the turn did; what it cost beyond the usage that was counted is not known"
	}
	ended := s.Now()
	tampered := change.tampered
	if snap.PointerChanged {
		tampered = append(tampered, ".git")
	}
	receipt, err := schemas.MarshalIndent(schemas.WorkerReceipt{
		SchemaVersion: schemas.Version, Attempt: phase.State.Attempt,
		Outcome: schemas.OutcomeInterrupted, Message: message,
		Profile: start.Profile, Tries: []schemas.Try{}, Usage: usage, StartedAt: start.StartedAt, EndedAt: ended,
		DurationMS: ended.Sub(start.StartedAt).Milliseconds(),
		Isolation:  verify.Isolation(), Credential: "none",
		Warnings: change.warnings, Tampered: tampered, Nested: bounded(snap.Nested), Ignored: bounded(snap.Skipped),
	})
	if err != nil {
		return nil, err
	}
	files[attemptFile(n, "worker.json")] = receipt
	return files, keepUndone(files, n, change.replaced)
}

// keepSession saves the session that the last worker of a lost turn left in its private folder, so that
// resume goes on in it.
func (s *Session) keepSession(ctx context.Context, run *gitstate.Run) error {
	chain, err := s.chain(run)
	if err != nil {
		return nil //nolint:nilerr // a profile is gone, and nobody can go on with its session
	}
	folders, err := s.scratchFolders(run.ID)
	errs := []error{err}
	for _, folder := range folders {
		for i, p := range slices.Backward(chain) {
			home := homeOf(folder, i)
			if _, err := os.Lstat(home); err != nil {
				continue // it was not this one's turn yet
			}
			errs = append(errs, workers.KeepSession(ctx, workers.Turn{
				Profile: p, Home: home, Session: s.sessionPath(run.ID, p), Getenv: s.Getenv,
				Redact: s.Config.Redactor(s.Getenv), Credential: s.Repo.Credential,
			}))
			break // those before it were put aside
		}
	}
	return errors.Join(errs...)
}

// readLog reads a live log; nil if it is gone or was replaced by something else.
func readLog(path string) (data []byte, err error) {
	f, err := durable.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, logBytes))
}

// forgetTurn puts a turn that changed nothing aside as a failed try of its attempt, so that the next
// turn has the attempt's number and a revision is not counted.
func (s *Session) forgetTurn(ctx context.Context, phase *gitstate.Phase, files map[string][]byte) error {
	st := &phase.State
	n := strconv.Itoa(st.Attempt)
	k, err := s.nextTry(ctx, &phase.Run, n)
	if err != nil {
		return err
	}
	aside := n + "." + strconv.Itoa(k)
	moved := map[string][]byte{}
	for _, name := range []string{"start.json", "worker.json", "tampered.json", "events.jsonl", "worker.log"} {
		data, ok := files[attemptFile(n, name)]
		if !ok {
			data, err = s.Ledger.File(ctx, &phase.Run, attemptFile(n, name))
			if errors.Is(err, gitstate.ErrNoFile) {
				continue
			}
			if err != nil {
				return err
			}
			moved[attemptFile(n, name)] = nil
		}
		moved[attemptFile(aside, name)] = data
	}
	var refs []gitstate.RefUpdate
	old, err := s.refOrZero(ctx, gitstate.AttemptRef(phase.ID, n))
	if err != nil {
		return err
	}
	if !old.IsZero() {
		refs = []gitstate.RefUpdate{
			{Ref: gitstate.AttemptRef(phase.ID, n), New: gitstate.ZeroOID, Old: old},
			{Ref: gitstate.AttemptRef(phase.ID, aside), New: old, Old: gitstate.ZeroOID},
		}
	}
	to, err := s.turnBeganIn(ctx, phase)
	if err != nil {
		return err
	}
	if err := s.claimSlot(ctx, phase, to); err != nil {
		return err
	}
	var before *schemas.VerificationSummary
	if to == schemas.StateReviewing {
		if before, err = s.verificationSummary(ctx, phase, st.Attempt-1); err != nil {
			return err
		}
	}
	return phase.Append(ctx, gitstate.Event{
		To: to, Subject: fmt.Sprintf("recover: attempt %s changed nothing", n), Files: moved, Refs: refs,
		Apply: func(st *schemas.RunState) {
			st.Attempt--
			st.Outcome, st.FailureClass = "", ""
			st.Recoveries++
			if to == schemas.StateReviewing {
				st.Revisions--
				st.Verification = before
			}
		},
	})
}

// turnBeganIn is the state that the latest turn began in: prepared, or reviewing for a revision. The
// number of the attempt does not tell, because a first turn that its environment blocked is run again
// under the next.
func (s *Session) turnBeganIn(ctx context.Context, phase *gitstate.Phase) (schemas.State, error) {
	events, err := s.Ledger.History(ctx, phase.ID)
	if err != nil {
		return "", err
	}
	for _, event := range events {
		switch event.State {
		case schemas.StateRunning:
			return schemas.StatePrepared, nil
		case schemas.StateRevising:
			return schemas.StateReviewing, nil
		}
	}
	return "", &gitstate.CorruptError{ID: phase.ID, What: "history", Err: errors.New("no turn has begun")}
}

// verificationSummary is the summary of an earlier attempt's verification.
func (s *Session) verificationSummary(ctx context.Context, phase *gitstate.Phase, attempt int) (*schemas.VerificationSummary, error) {
	v, err := document[schemas.Verification](ctx, s, &phase.Run, attemptFile(strconv.Itoa(attempt), "verification.json"))
	if errors.Is(err, gitstate.ErrNoFile) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return summarize(v), nil
}

// nextTry is the number of the next failed try of attempt n: one that neither a ref nor the ledger has.
func (s *Session) nextTry(ctx context.Context, run *gitstate.Run, n string) (int, error) {
	prefix := string(gitstate.AttemptRef(run.ID, n)) + "."
	refs, err := s.Ledger.Store().Refs(ctx, prefix)
	if err != nil {
		return 0, err
	}
	var taken []string
	for _, ref := range refs {
		taken = append(taken, strings.TrimPrefix(string(ref.Ref), prefix))
	}
	folders, err := s.attemptFolders(ctx, run)
	if err != nil {
		return 0, err
	}
	for _, name := range folders {
		if k, ok := strings.CutPrefix(name, n+"."); ok {
			taken = append(taken, k)
		}
	}
	next := 1
	for _, word := range taken {
		if k, err := strconv.Atoi(word); err == nil && k >= next {
			next = k + 1
		}
	}
	return next, nil
}

// attemptFolders are the names below attempts/ in a run's ledger.
func (s *Session) attemptFolders(ctx context.Context, run *gitstate.Run) ([]string, error) {
	folder, err := s.Ledger.Store().Lookup(ctx, run.Head, "attempts")
	if errors.Is(err, gitstate.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := s.Ledger.Store().Tree(ctx, folder.OID)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name
	}
	return names, nil
}

// moveRef is the update that brings ref from wherever it is to commit. The run's own ref, which moves
// in the same transaction, is what excludes another writer; a candidate or attempt that a power cut
// left behind or ahead of it must not be in the way for ever.
func (s *Session) moveRef(ctx context.Context, ref gitstate.Ref, commit gitstate.OID) (gitstate.RefUpdate, error) {
	old, err := s.refOrZero(ctx, ref)
	return gitstate.RefUpdate{Ref: ref, New: commit, Old: old}, err
}

func (s *Session) refOrZero(ctx context.Context, ref gitstate.Ref) (gitstate.OID, error) {
	oid, err := s.Ledger.Store().Ref(ctx, ref)
	if errors.Is(err, gitstate.ErrNotFound) {
		return gitstate.ZeroOID, nil
	}
	return oid, err
}

// recoverLanding finishes a landing or takes it back; the branch says which.
func (s *Session) recoverLanding(ctx context.Context, phase *gitstate.Phase) error {
	landed, err := worktree.ResumeLanding(ctx, s.Repo, phase.State.Integration, phase.ID)
	if err != nil {
		return s.blockSource(ctx, phase, err, keptPlan(phase, landed))
	}
	if landed {
		return s.landed(ctx, phase)
	}
	return phase.Append(ctx, gitstate.Event{
		To: schemas.StateApproved, Subject: "recover: nothing had landed",
		Apply: func(st *schemas.RunState) { st.Integration = nil; st.Recoveries++ },
	})
}

// unblock goes back to the state before the environment got in the way.
func (s *Session) unblock(ctx context.Context, phase *gitstate.Phase) error {
	to := phase.State.Blocked.From
	if err := s.claimSlot(ctx, phase, to); err != nil {
		return err
	}
	return phase.Append(ctx, gitstate.Event{
		To: to, Subject: "recover: back to " + string(to),
		Apply: func(st *schemas.RunState) { st.Blocked = nil; st.Recoveries++ },
	})
}

// claimSlot claims the slot that a run needs in the state to; it gave up its own when it was interrupted or
// blocked.
func (s *Session) claimSlot(ctx context.Context, phase *gitstate.Phase, to schemas.State) error {
	if !gitstate.StandingOf(to).Slot {
		return nil
	}
	return s.Ledger.ClaimSlot(ctx, phase, s.Config.MaxConcurrentRuns)
}

// stepBack ends a phase without a worker whose owner is gone, in the state that it began in.
func (s *Session) stepBack(ctx context.Context, phase *gitstate.Phase) error {
	if err := s.checkBase(ctx, phase); err != nil {
		return err
	}
	if err := s.removeRooms(&phase.Run); err != nil {
		return err
	}
	events, err := s.Ledger.History(ctx, phase.ID)
	if err != nil {
		return err
	}
	change, err := s.undoLostTampering(ctx, phase)
	if err != nil {
		return err
	}
	for _, event := range events {
		if event.State != phase.State.State {
			return phase.Append(ctx, gitstate.Event{
				To: event.State, Subject: "recover: back to " + string(event.State),
				Apply: func(st *schemas.RunState) {
					warn(st, change.said()...)
					st.Recoveries++
				},
			})
		}
	}
	return &gitstate.CorruptError{ID: phase.ID, What: "history", Err: fmt.Errorf("no state before %s", phase.State.State)}
}

// Abort ends a run for good. A live owner on this machine is told to stop first. What the worktree
// holds is pinned.
func (s *Session) Abort(ctx context.Context, id gitstate.RunID) (run *gitstate.Run, err error) {
	phase, ctx, err := s.Ledger.TakeOver(ctx, id, "abort", gitstate.ByAbort)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, phase.Close()) }()
	if phase.State.State == schemas.StateIntegrating {
		if err := s.takeBackLanding(ctx, phase); err != nil {
			return nil, err
		}
	}
	change, err := s.undoLostTampering(ctx, phase)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	if err := keepUndone(files, strconv.Itoa(phase.State.Attempt), change.replaced); err != nil {
		return nil, err
	}
	refs, pinned, err := s.pin(ctx, phase)
	if err != nil {
		return nil, err
	}
	err = phase.Append(ctx, gitstate.Event{
		To: schemas.StateAborted, Subject: "abort", Files: files, Refs: refs,
		Apply: func(st *schemas.RunState) {
			warn(st, change.said()...)
			if pinned != "" {
				warn(st, "work that was in no candidate is pinned at "+string(pinned))
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return &phase.Run, errors.Join(durable.RemoveAll(s.fingerprintPath(id)), s.removeScratch(id), s.removeRooms(&phase.Run))
}

// takeBackLanding undoes a landing that was killed before the branch moved. What has landed is not
// aborted: *gitstate.WrongStateError, recover is due.
func (s *Session) takeBackLanding(ctx context.Context, phase *gitstate.Phase) error {
	landed, err := worktree.ResumeLanding(ctx, s.Repo, phase.State.Integration, phase.ID)
	if err != nil {
		return err
	}
	if landed {
		return &gitstate.WrongStateError{
			ID: phase.ID, State: phase.State.State, Interrupted: true, Command: "abort", Due: phase.Due(true),
		}
	}
	return nil
}

// pin keeps what a run's worktree holds beyond its candidate. The returned ref is "" if there is
// nothing to keep. What a lost turn did to the repository must have been undone before.
func (s *Session) pin(ctx context.Context, phase *gitstate.Phase) ([]gitstate.RefUpdate, gitstate.Ref, error) {
	st := &phase.State
	if st.Worktree == "" || s.worktreeOf(&phase.Run).Lost() {
		return nil, "", nil
	}
	message := fmt.Sprintf("what the worktree of run %s held", phase.ID)
	snap, err := s.snapshot(ctx, &phase.Run, message)
	if git, refused := errors.AsType[*gitexec.Error](err); refused && git.Code() != schemas.CodeDiskFull && ctx.Err() == nil {
		// Base cannot be read any more. The run must come to an end all the same.
		snap, err = s.rescue(ctx, &phase.Run, message)
	}
	if err != nil {
		return nil, "", err
	}
	if string(snap.Tree) == st.Tree || string(snap.Commit) == st.Base.Commit {
		return nil, "", nil
	}
	n := strconv.Itoa(st.Attempt)
	k, err := s.nextTry(ctx, &phase.Run, n)
	if err != nil {
		return nil, "", err
	}
	ref := gitstate.AttemptRef(phase.ID, n+"."+strconv.Itoa(k))
	return []gitstate.RefUpdate{{Ref: ref, New: snap.Commit, Old: gitstate.ZeroOID}}, ref, nil
}

// Report writes metrics.json and report.md into the ledger.
func (s *Session) Report(ctx context.Context, id gitstate.RunID) (run *gitstate.Run, metrics *schemas.Metrics, err error) {
	phase, ctx, err := s.Ledger.Begin(ctx, id, "report", gitstate.ByReport)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, phase.Close()) }()
	if metrics, err = s.metrics(ctx, &phase.Run); err != nil {
		return nil, nil, err
	}
	to := phase.State.State
	if to == schemas.StateIntegrated || to == schemas.StateDone {
		to = schemas.StateReported
	}
	metrics.State = to
	document, err := schemas.MarshalIndent(metrics)
	if err != nil {
		return nil, nil, err
	}
	text, err := s.reportText(ctx, &phase.Run, metrics)
	if err != nil {
		return nil, nil, err
	}
	err = phase.Append(ctx, gitstate.Event{
		To: to, Subject: "report", Code: phase.State.Code,
		Files: map[string][]byte{"metrics.json": document, "report.md": []byte(text)},
		Apply: func(st *schemas.RunState) { st.Reported = to != schemas.StateReported },
	})
	if err != nil {
		return nil, nil, err
	}
	return &phase.Run, metrics, nil
}

// metrics adds up what the ledger says of the run's cost.
func (s *Session) metrics(ctx context.Context, run *gitstate.Run) (*schemas.Metrics, error) {
	m := &schemas.Metrics{
		SchemaVersion: schemas.Version, ID: string(run.ID), State: run.State.State,
		Attempts: run.State.Attempt, Revisions: run.State.Revisions, Warnings: run.State.Warnings,
		PhasesMS: map[string]int64{},
	}
	receipts, err := s.receipts(ctx, run)
	if err != nil {
		return nil, err
	}
	latest := 0
	for _, r := range receipts {
		if r.Attempt >= latest {
			latest, m.Isolation = r.Attempt, &r.Isolation
		}
	}
	m.Worker = usageOf(receipts)
	events, err := s.Ledger.History(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	slices.Reverse(events) // oldest first
	for i := 1; i < len(events); i++ {
		switch phase := events[i-1].State; phase {
		case schemas.StateRunning, schemas.StateRevising, schemas.StateVerifying, schemas.StateIntegrating:
			m.PhasesMS[string(phase)] += events[i].Time.Sub(events[i-1].Time).Milliseconds()
		}
	}
	return m, nil
}

// Usage adds up what the workers of a run have used, nil if none has worked. A kind that one of their turns
// does not know is unknown in the sum.
func (s *Session) Usage(ctx context.Context, run *gitstate.Run) (*schemas.Usage, error) {
	receipts, err := s.receipts(ctx, run)
	if err != nil || len(receipts) == 0 {
		return nil, err
	}
	sum := usageOf(receipts)
	return &sum, nil
}

func usageOf(receipts []*schemas.WorkerReceipt) schemas.Usage {
	var tries []schemas.Try
	for _, r := range receipts {
		tries = append(tries, schemas.Try{Usage: r.Usage})
	}
	return sumUsage(tries)
}

// receipts reads the receipt of every attempt and of every turn that was put aside.
func (s *Session) receipts(ctx context.Context, run *gitstate.Run) ([]*schemas.WorkerReceipt, error) {
	names, err := s.attemptFolders(ctx, run)
	if err != nil {
		return nil, err
	}
	var receipts []*schemas.WorkerReceipt
	for _, name := range names {
		r, err := document[schemas.WorkerReceipt](ctx, s, run, attemptFile(name, "worker.json"))
		if errors.Is(err, gitstate.ErrNoFile) {
			continue
		}
		if err != nil {
			return nil, err
		}
		receipts = append(receipts, r)
	}
	return receipts, nil
}

// Cleanup removes a run's worktree and live files; ledger, candidate, attempts and notes stay. Discard
// allows it for runs that did not land, and pins what their worktree holds first.
func (s *Session) Cleanup(ctx context.Context, id gitstate.RunID, by gitstate.Trigger) (run *gitstate.Run, err error) {
	phase, ctx, err := s.Ledger.Begin(ctx, id, "cleanup", by)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, phase.Close()) }()
	refs, pinned, err := s.pin(ctx, phase)
	if err != nil {
		return nil, err
	}
	if pinned != "" && by != gitstate.ByDiscard {
		return nil, &UnlandedError{ID: id, Worktree: phase.State.Worktree}
	}
	if pinned != "" {
		// First the ref, then the folder: what is removed must be kept before.
		if err := s.Ledger.Store().Update(gitstate.WithSync(ctx), refs); err != nil {
			return nil, err
		}
	}
	if err := s.worktreeOf(&phase.Run).Remove(); err != nil {
		return nil, err
	}
	if err := errors.Join(s.removeRooms(&phase.Run), s.removeScratch(id), durable.RemoveAll(s.liveFolder(id))); err != nil {
		return nil, err
	}
	err = phase.Append(ctx, gitstate.Event{
		To: schemas.StateCleaned, Subject: "cleanup",
		Apply: func(st *schemas.RunState) {
			if pinned != "" {
				warn(st, "what the worktree held is pinned at "+string(pinned))
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return &phase.Run, nil
}

// UnlandedError is a worktree that holds work which did not land.
type UnlandedError struct {
	ID       gitstate.RunID
	Worktree string
}

func (e *UnlandedError) Error() string {
	return fmt.Sprintf("the worktree of run %s holds work that did not land: %q", e.ID, e.Worktree)
}

// Code is WRONG_STATE.
func (e *UnlandedError) Code() schemas.Code { return schemas.CodeWrongState }
