package flow

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
	"github.com/git-spot/git-spot/worktree"
)

// VerifyResult is a verification and where it left the run.
type VerifyResult struct {
	Run          *gitstate.Run
	Verification *schemas.Verification
}

// Err is the first red gate or command, or nil if the verdict is a pass.
func (r *VerifyResult) Err() error {
	if r.Verification.Verdict == schemas.VerdictPass {
		return nil
	}
	e := &VerificationError{ID: r.Run.ID, Reason: r.Verification.Code, Blocked: r.Run.State.State == schemas.StateBlocked}
	for _, gate := range r.Verification.Gates {
		if !gate.OK && gate.Code == r.Verification.Code {
			e.Message, e.Paths = gate.Message, gate.Paths
			return e
		}
	}
	for _, command := range append(r.Verification.Setup, r.Verification.Commands...) {
		if !verify.Passed(command) {
			e.Message = DescribeCommand(command)
			return e
		}
	}
	return e
}

// VerificationError is a candidate that was not proven. The verification is recorded.
type VerificationError struct {
	ID      gitstate.RunID
	Reason  schemas.Code
	Message string
	Paths   []string
	Blocked bool // the worker touched its grader: final
}

func (e *VerificationError) Error() string { return e.Message }

// Code is the code of the first red gate or command.
func (e *VerificationError) Code() schemas.Code { return e.Reason }

// Verify proves the candidate of a run: gates on the diff, then the contract's commands in a clean
// room that holds exactly the candidate's tree, with locked paths from base.
//
// A clean room that cannot be made leaves the run implemented and is an error; a red verification is
// a result. A run that is verified again claims a slot again: CONCURRENCY_LIMIT.
func (s *Session) Verify(ctx context.Context, id gitstate.RunID) (result *VerifyResult, err error) {
	phase, ctx, err := s.Ledger.Begin(ctx, id, "verify", gitstate.ByVerify)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, phase.Close()) }()
	if err := s.checkBase(ctx, phase); err != nil {
		return nil, err
	}
	if err := s.checkSandbox(); err != nil {
		return nil, err
	}
	contract, err := s.Contract(ctx, &phase.Run)
	if err != nil {
		return nil, err
	}
	if err := s.Ledger.ClaimSlot(ctx, phase, s.Config.MaxConcurrentRuns); err != nil { // reviewing has none
		return nil, err
	}
	// What a killed command had no time to remove is older than what the user did since.
	if err := durable.RemoveAll(s.fingerprintPath(id)); err != nil {
		return nil, err
	}
	from := phase.State.State
	if err := phase.Append(ctx, gitstate.Event{To: schemas.StateVerifying, Subject: fmt.Sprintf("verify attempt %d", phase.State.Attempt)}); err != nil {
		return nil, err
	}
	p, err := s.newProof(ctx, phase, contract)
	if err == nil {
		err = p.prove(ctx)
	}
	recording, cancel := surviving(ctx)
	defer cancel()
	if err != nil {
		// Nothing was proven either way: back to where verify can be run again.
		err = errors.Join(err, phase.Append(recording, gitstate.Event{
			To: from, Subject: "verification could not be made",
			Apply: func(st *schemas.RunState) { warn(st, p.change.said()...) },
		}))
		return nil, errors.Join(err, durable.RemoveAll(s.fingerprintPath(id)))
	}
	if err := p.record(recording); err != nil {
		return nil, err
	}
	return &VerifyResult{Run: &phase.Run, Verification: p.v}, durable.RemoveAll(s.fingerprintPath(id))
}

// proof is one verification in progress.
type proof struct {
	s       *Session
	phase   *gitstate.Phase
	subject verify.Subject
	v       *schemas.Verification
	change  repositoryChange // while the commands ran
}

// newProof computes what is judged. The proof is never nil.
func (s *Session) newProof(ctx context.Context, phase *gitstate.Phase, contract *schemas.Contract) (*proof, error) {
	p := &proof{s: s, phase: phase}
	st := &phase.State
	started := s.Now()
	diff, err := s.Ledger.Diff(ctx, gitstate.OID(st.Base.Commit), gitstate.OID(st.Candidate))
	if err != nil {
		return p, err
	}
	receipt, err := s.Receipt(ctx, &phase.Run)
	if err != nil {
		return p, err
	}
	locked, err := s.alwaysLocked(ctx, &phase.Run)
	if err != nil {
		return p, err
	}
	p.subject = verify.Subject{
		Contract: contract, Diff: diff, Recorded: st.DiffSHA256, Objects: s.Ledger.Store(),
		AlwaysLocked: locked, Nested: receipt.Nested, Tampered: receipt.Tampered,
	}
	p.v = &schemas.Verification{
		SchemaVersion: schemas.Version, Attempt: st.Attempt,
		Base: st.Base.Commit, Candidate: st.Candidate, Tree: string(diff.Tree), DiffSHA256: diff.SHA256, Diff: diff.Stat,
		Isolation: verify.Isolation(), StartedAt: started, Warnings: notEnforced(contract),
	}
	return p, nil
}

// alwaysLocked is what spot.alwaysLockedPath says now and what it said at prepare: a worker can take a
// line out of the repository's configuration, and taking a lock away is not for the run that it locks.
func (s *Session) alwaysLocked(ctx context.Context, run *gitstate.Run) ([]string, error) {
	const file = "config.json"
	data, err := s.Ledger.File(ctx, run, file)
	if err != nil {
		return nil, err
	}
	recorded, err := config.Recorded(data, "spot.alwaysLockedPath")
	if err != nil {
		return nil, &gitstate.CorruptError{ID: run.ID, What: file, Err: err}
	}
	return slices.Concat(recorded, s.Config.AlwaysLockedPath), nil
}

// prove runs gates and commands. It writes nothing to the ledger.
func (p *proof) prove(ctx context.Context) (err error) {
	v := p.v
	if v.Gates, err = verify.Gates(ctx, p.subject); err != nil {
		return err
	}
	if _, final := verify.Final(v.Gates); !final {
		if err := p.runInRoom(ctx); err != nil {
			return err
		}
	}
	v.Verdict, v.Code = verify.Judge(v.Gates, v.Setup, v.Commands)
	v.DurationMS = p.s.Now().Sub(v.StartedAt).Milliseconds()
	return nil
}

// notEnforced names what a contract asks for and this version does not check, so that nobody takes a
// pass for more than it is.
func notEnforced(contract *schemas.Contract) []string {
	var warnings []string
	for _, c := range contract.Verification {
		if c.MinTests > 0 {
			warnings = append(warnings, fmt.Sprintf("check %s: minTests is not enforced yet", c.ID))
		}
		if c.Baseline == schemas.BaselineFail || c.Baseline == schemas.BaselinePass {
			warnings = append(warnings, fmt.Sprintf("check %s: baseline %s is not enforced yet", c.ID, c.Baseline))
		}
		if c.Network == schemas.NetworkNone {
			warnings = append(warnings, fmt.Sprintf("check %s: network none is not enforced yet", c.ID))
		}
	}
	return warnings
}

// runInRoom makes the clean room, runs set-up and checks in it, and compares the repository before
// and after: what a worker wrote may also do its mischief when it is tested.
func (p *proof) runInRoom(ctx context.Context) (err error) {
	s := p.s
	var before *worktree.Fingerprint
	var beforeErr error
	var wg sync.WaitGroup
	wg.Go(func() { before, beforeErr = s.keepFingerprint(ctx, p.phase.ID) })
	root, name := filepath.Dir(p.phase.State.Worktree), roomName(p.phase.ID, p.v.Attempt)
	room, err := worktree.NewRoom(ctx, s.Repo, root, name, p.subject.Diff.Candidate)
	wg.Wait()
	if err != nil {
		return errors.Join(err, beforeErr)
	}
	if beforeErr != nil {
		return errors.Join(beforeErr, room.Close())
	}
	ledgers, err := s.ledgers(ctx)
	if err == nil {
		err = p.furnish(ctx, room)
	}
	if err == nil {
		err = p.runCommands(ctx, room)
	}
	settling, cancel := surviving(ctx)
	defer cancel()
	var undoErr, closeErr error
	wg.Go(func() { closeErr = room.Close() })
	p.change, undoErr = s.undoTampering(settling, before)
	restored, restoreErr := s.restoreLedgers(settling, ledgers, p.phase)
	p.change.tampered = bounded(append(p.change.tampered, restored...))
	wg.Wait()
	p.v.Warnings = append(p.v.Warnings, p.change.warnings...)
	if len(p.change.tampered) > 0 {
		p.v.Gates = verify.Tampered(p.v.Gates, p.change.tampered)
	}
	return errors.Join(err, undoErr, restoreErr, closeErr)
}

// furnish puts into the room what is not from the candidate's tree.
func (p *proof) furnish(ctx context.Context, room *worktree.Room) error {
	locked, err := verify.Overlays(ctx, p.subject)
	if err != nil {
		return err
	}
	if p.v.Overlays, err = room.Overlay(ctx, p.subject.Diff.Base, locked); err != nil {
		return err
	}
	reuse := p.subject.Contract.Reuse
	if len(reuse) == 0 {
		return nil
	}
	if p.s.Repo.WorkTree == "" {
		p.v.Warnings = append(p.v.Warnings, "reuse: there is no checkout to copy from")
		return nil
	}
	reused, err := room.Reuse(ctx, p.s.Repo.WorkTree, reuse)
	p.v.Overlays = append(p.v.Overlays, reused...)
	return err
}

func (p *proof) runCommands(ctx context.Context, room *worktree.Room) (err error) {
	v, contract := p.v, p.subject.Contract
	place := verify.Room{
		Dir: room.Dir, Home: room.Home, Tmp: room.Tmp,
		Getenv: p.s.Getenv, Redact: p.s.Config.Redactor(p.s.Getenv).Redact,
	}
	if v.Setup, err = verify.RunSetup(ctx, place, contract.Setup); err != nil {
		return err
	}
	if slices.ContainsFunc(v.Setup, func(c schemas.CommandResult) bool { return !verify.Passed(c) }) {
		return nil
	}
	v.Commands, err = verify.RunChecks(ctx, place, contract.Verification)
	return err
}

// roomName is the name of the clean room of an attempt.
func roomName(id gitstate.RunID, attempt int) string { return fmt.Sprintf("%s-%d", id, attempt) }

// removeRooms removes what killed verifications of the run left.
func (s *Session) removeRooms(run *gitstate.Run) error {
	var errs []error
	for n := 1; n <= run.State.Attempt; n++ {
		errs = append(errs, worktree.RemoveRoom(filepath.Dir(run.State.Worktree), roomName(run.ID, n)))
	}
	return errors.Join(errs...)
}

// record writes the verdict and the state that it leads to.
func (p *proof) record(ctx context.Context) error {
	v := p.v
	document, err := schemas.MarshalIndent(v)
	if err != nil {
		return err
	}
	files := map[string][]byte{attemptFile(strconv.Itoa(v.Attempt), "verification.json"): document}
	if err := keepUndone(files, strconv.Itoa(v.Attempt), p.change.replaced); err != nil {
		return err
	}
	gate, final := verify.Final(v.Gates)
	to := schemas.StateReviewing
	switch {
	case final:
		to = schemas.StateBlocked
	case v.Verdict == schemas.VerdictPass:
		skip, err := p.s.selfReviewSkip(ctx, &p.phase.Run, p.subject.Diff)
		if err != nil {
			return err
		}
		if skip == "" {
			to = schemas.StateSelfReviewing
			break
		}
		skipped, err := schemas.MarshalIndent(schemas.SelfReview{SchemaVersion: schemas.Version, Skipped: true, Reason: skip})
		if err != nil {
			return err
		}
		files[attemptFile(strconv.Itoa(v.Attempt), "self-review.json")] = skipped
	}
	summary := summarize(v)
	subject := fmt.Sprintf("verification passed: %d of %d", summary.Passed, summary.Total)
	if v.Verdict == schemas.VerdictFail {
		subject = fmt.Sprintf("verification failed: %s", v.Code)
	}
	return p.phase.Append(ctx, gitstate.Event{
		To: to, Subject: subject, Code: v.Code,
		Files: files,
		Apply: func(st *schemas.RunState) {
			st.Verification = summary
			warn(st, v.Warnings...)
			if final {
				st.Blocked = &schemas.Blocked{Cause: schemas.BlockedGate, Code: gate.Code, Message: gate.Message, Paths: gate.Paths, From: schemas.StateImplemented}
			}
		},
	})
}

// summarize is the short form of a verification.
func summarize(v *schemas.Verification) *schemas.VerificationSummary {
	passed := 0
	for _, command := range v.Commands {
		if verify.Passed(command) {
			passed++
		}
	}
	return &schemas.VerificationSummary{
		Verdict: v.Verdict, Passed: passed, Total: len(v.Commands), DurationMS: v.DurationMS, DiffSHA256: v.DiffSHA256,
	}
}

// selfReviewSkip is the reason for which a change gets no self-review, or "".
func (s *Session) selfReviewSkip(ctx context.Context, run *gitstate.Run, diff *gitstate.Diff) (string, error) {
	want := s.Config.SelfReview
	if p := s.Config.Profiles[run.State.Profile.Name]; p != nil {
		want = p.SelfReview
	}
	if !want.Enabled {
		return "disabled", nil
	}
	if diff.Bytes < want.MinDiffBytes {
		return "diff-too-small", nil
	}
	surface := diff.Bytes
	for _, c := range diff.Changes {
		if c.NewID.IsZero() || c.NewMode == modeGitlink {
			continue
		}
		blob, err := s.Ledger.Store().Blob(ctx, c.NewID)
		if err != nil {
			if _, large := errors.AsType[*gitstate.TooLargeError](err); large {
				return "", nil
			}
			return "", err
		}
		if surface += int64(len(blob)); surface >= want.MinSurfaceBytes {
			return "", nil
		}
	}
	if surface < want.MinSurfaceBytes {
		return "review-surface-too-small", nil
	}
	return "", nil
}

const modeGitlink = "160000"

// DescribeCommand says in a line how a command failed.
func DescribeCommand(c schemas.CommandResult) string {
	how := ""
	switch {
	case c.Error != "":
		how = c.Error
	case c.TimedOut:
		how = fmt.Sprintf("timed out after %d s", c.DurationMS/1000)
	case c.Signal != "":
		how = "ended by " + c.Signal
	case c.Exit != nil:
		how = fmt.Sprintf("exit status %d", *c.Exit)
	}
	return fmt.Sprintf("%q: %s", c.Argv, how)
}
