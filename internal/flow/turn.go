package flow

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/review"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
	"github.com/git-spot/git-spot/workers"
	"github.com/git-spot/git-spot/worktree"
)

// TurnResult is what a worker turn came to.
type TurnResult struct {
	Run     *gitstate.Run
	Receipt *schemas.WorkerReceipt
	Diff    *gitstate.Diff
	Log     string // where the live log was
}

// Err is the coded error of the turn's outcome, or nil if the outcome is not a failure.
func (r *TurnResult) Err() error {
	code := workers.Code(r.Receipt.Outcome, r.Receipt.FailureClass)
	if code == "" {
		return nil
	}
	return &TurnError{
		ID: r.Run.ID, Profile: r.Receipt.Profile.Name, Reason: code, Outcome: r.Receipt.Outcome, Message: r.Receipt.Message,
	}
}

// TurnError is a worker turn that failed. What the worker did until then is kept: the run stands in
// interrupted or blocked with its candidate.
type TurnError struct {
	ID      gitstate.RunID
	Profile string // name; of several the last
	Reason  schemas.Code
	Outcome schemas.Outcome
	Message string
}

func (e *TurnError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("worker turn ended: %s", e.Outcome)
	}
	return fmt.Sprintf("worker turn ended: %s: %s", e.Outcome, e.Message)
}

// Code is the code that package workers gives the outcome.
func (e *TurnError) Code() schemas.Code { return e.Reason }

// Run runs the first worker turn of a run.
func (s *Session) Run(ctx context.Context, id gitstate.RunID) (*TurnResult, error) {
	return s.turn(ctx, id, turnRequest{by: gitstate.ByRun, command: "run", to: schemas.StateRunning})
}

// Resume lets the worker go on with a text of the caller: in its own session if its program keeps one
// and it is still there, else as a new turn that is told the text. It counts as a revision.
func (s *Session) Resume(ctx context.Context, id gitstate.RunID, text string) (*TurnResult, error) {
	return s.turn(ctx, id, turnRequest{by: gitstate.ByResume, command: "resume", to: schemas.StateRevising, text: text})
}

// Revise records the caller's verdict and runs the next turn with it.
func (s *Session) Revise(ctx context.Context, id gitstate.RunID, verdict *schemas.Review) (*TurnResult, error) {
	return s.turn(ctx, id, turnRequest{by: gitstate.ByRevise, command: "revise", to: schemas.StateRevising, verdict: verdict})
}

type turnRequest struct {
	by      gitstate.Trigger
	command string
	to      schemas.State
	verdict *schemas.Review // of revise
	text    string          // of resume
}

func (s *Session) turn(ctx context.Context, id gitstate.RunID, req turnRequest) (result *TurnResult, err error) {
	phase, ctx, err := s.Ledger.Begin(ctx, id, req.command, req.by)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, phase.Close()) }()
	if err := s.checkBase(ctx, phase); err != nil {
		return nil, err
	}
	contract, err := s.Contract(ctx, &phase.Run)
	if err != nil {
		return nil, err
	}
	chain, err := s.chain(&phase.Run)
	if err != nil {
		return nil, err
	}
	t, err := s.newTurn(ctx, phase, contract, chain, req)
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := surviving(ctx)
		defer cancel()
		err = errors.Join(err, t.close(ctx))
	}()
	if err := t.start(ctx, req); err != nil {
		return nil, err
	}
	t.runChain(ctx)
	// The turn is paid for: what it came to is recorded even if the caller has given up meanwhile.
	recording, cancel := surviving(ctx)
	defer cancel()
	return t.finish(recording)
}

// chain is the run's profile and its fallbacks as they are configured now; what they were at prepare
// is in config.json.
func (s *Session) chain(run *gitstate.Run) ([]*config.Profile, error) {
	names := append([]string{run.State.Profile.Name}, run.State.Fallback...)
	chain := make([]*config.Profile, 0, len(names))
	for i, name := range names {
		p, known := s.Config.Profiles[name]
		if !known {
			return nil, &ProfileGoneError{ID: run.ID, Profile: name}
		}
		if i == 0 && run.State.Profile.Model != p.Model {
			chosen := *p
			chosen.Model = run.State.Profile.Model
			p = &chosen
		}
		chain = append(chain, p)
	}
	return chain, nil
}

// turn is one worker turn in progress.
type turn struct {
	s        *Session
	phase    *gitstate.Phase
	contract *schemas.Contract
	chain    []*config.Profile
	worktree *worktree.Worktree
	number   int
	prompt   string
	resume   string            // the prompt for a worker that goes on in its own session, "" in a first turn
	base     worktree.Snapshot // what the worktree held before the turn
	before   *worktree.Fingerprint
	ledgers  []gitstate.RefValue
	scratch  string
	events   *os.File
	log      *os.File
	receipt  schemas.WorkerReceipt
	partial  []gitstate.RefUpdate
	replaced map[string][]byte // configuration that was undone, as it was found
	logErr   error
}

// newTurn makes everything ready that may still refuse, before anything is recorded or paid for.
func (s *Session) newTurn(ctx context.Context, phase *gitstate.Phase, contract *schemas.Contract, chain []*config.Profile, req turnRequest) (*turn, error) {
	t := &turn{s: s, phase: phase, contract: contract, chain: chain, worktree: s.worktreeOf(&phase.Run), number: phase.State.Attempt + 1}
	if t.worktree.Lost() {
		return nil, &LostWorktreeError{ID: phase.ID, Path: phase.State.Worktree}
	}
	if err := s.checkSandbox(); err != nil {
		return nil, err
	}
	feedback, err := s.feedback(ctx, phase, req)
	if err != nil {
		return nil, err
	}
	base := gitstate.OID(phase.State.Base.Commit)
	always, err := s.alwaysLocked(ctx, &phase.Run)
	if err != nil {
		return nil, err
	}
	locked, err := verify.Overlays(ctx, verify.Subject{
		Contract: contract, Objects: s.Ledger.Store(), AlwaysLocked: always,
		Diff: &gitstate.Diff{Base: base, Candidate: base},
	})
	if err != nil {
		return nil, err
	}
	input := workers.PromptInput{Contract: contract, Kind: contract.Kind, Locked: locked, Feedback: feedback}
	t.prompt = workers.Prompt(input)
	if feedback != nil {
		t.resume = workers.ResumePrompt(input)
	}
	if err := s.checkWorker(ctx, chain[0], contract.Kind, t.prompt); err != nil {
		return nil, err
	}
	if req.to == schemas.StateRevising {
		if err := s.Ledger.ClaimSlot(ctx, phase, s.Config.MaxConcurrentRuns); err != nil {
			return nil, err
		}
	}
	var beforeErr error
	var wg sync.WaitGroup
	wg.Go(func() { t.before, beforeErr = worktree.TakeFingerprint(ctx, s.Repo) })
	t.base, err = s.snapshot(ctx, &phase.Run, "start of an attempt")
	wg.Wait()
	if err := errors.Join(err, beforeErr); err != nil {
		return nil, err
	}
	if t.ledgers, err = s.ledgers(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// feedback is what the worker is told of its last attempt, nil in a first turn. The errors are those of
// review.CheckRevision and review.CheckResume.
func (s *Session) feedback(ctx context.Context, phase *gitstate.Phase, req turnRequest) (*workers.Feedback, error) {
	switch {
	case req.text != "":
		return &workers.Feedback{Text: req.text}, review.CheckResume(&phase.State, s.Config.MaxRevisions)
	case req.verdict == nil:
		return nil, nil
	}
	verification, err := s.Verification(ctx, &phase.Run)
	if err != nil && !errors.Is(err, gitstate.ErrNoFile) {
		return nil, err
	}
	if err := review.CheckRevision(&phase.State, s.Config.MaxRevisions, req.verdict, verification); err != nil {
		return nil, err
	}
	return feedbackOf(req.verdict, verification), nil
}

// checkWorker says whether a worker could start: the error is that of workers.Check.
func (s *Session) checkWorker(ctx context.Context, p *config.Profile, kind schemas.Kind, prompt string) error {
	return workers.Check(ctx, workers.Turn{
		Profile: p, Kind: kind, Prompt: prompt, Getenv: s.Getenv, Now: s.Now, Credential: s.Repo.Credential,
	})
}

// sessionPath is the file in which the session of a profile's worker outlives a turn. It is another one if the
// profile has got another adapter, API or model meanwhile, which could not go on with it.
func (s *Session) sessionPath(id gitstate.RunID, p *config.Profile) string {
	sum := sha256.Sum256([]byte(p.Adapter + "\x00" + p.API + "\x00" + p.Model))
	return filepath.Join(s.liveFolder(id), fmt.Sprintf("session-%s-%x", p.Name, sum[:4]))
}

// start records that a turn begins, before the worker can cost anything.
func (t *turn) start(ctx context.Context, req turnRequest) error {
	argv, err := workers.Argv(t.workerTurn(t.chain[0], "", ""))
	if err != nil {
		return err
	}
	start, err := schemas.MarshalIndent(schemas.AttemptStart{
		SchemaVersion: schemas.Version, Attempt: t.number, Profile: profileRef(t.chain[0], t.phase.State.Profile.Source),
		Argv: argv, StartTree: string(t.base.Tree), StartedAt: t.s.Now(),
		Text: t.s.Config.Redactor(t.s.Getenv).Redact(req.text),
	})
	if err != nil {
		return err
	}
	files := map[string][]byte{attemptFile(strconv.Itoa(t.number), "start.json"): start}
	var summary *schemas.ReviewSummary
	if req.verdict != nil {
		verdict, err := schemas.MarshalIndent(req.verdict)
		if err != nil {
			return err
		}
		files[attemptFile(strconv.Itoa(t.phase.State.Attempt), "review.json")] = verdict
		sum := review.Summary(req.verdict)
		summary = &sum
	}
	if err := t.openLogs(); err != nil {
		return err
	}
	if err := t.before.Save(t.s.fingerprintPath(t.phase.ID)); err != nil {
		return err
	}
	err = t.phase.Append(ctx, gitstate.Event{
		To:      req.to,
		Subject: fmt.Sprintf("start attempt %d with %s", t.number, t.chain[0].Name),
		Files:   files,
		Apply: func(st *schemas.RunState) {
			st.Attempt = t.number
			st.Outcome, st.FailureClass, st.Code = "", "", ""
			if req.to == schemas.StateRevising {
				st.Revisions++
			}
			if summary != nil {
				st.Review = summary
			}
		},
	})
	if err != nil {
		// Nothing ran that it would be the measure of.
		return errors.Join(err, durable.RemoveAll(t.s.fingerprintPath(t.phase.ID)))
	}
	return nil
}

// openLogs starts the live logs of the attempt and the private folders of the worker.
func (t *turn) openLogs() error {
	live := t.s.liveFolder(t.phase.ID)
	if err := gitstate.MakeRunFolder(t.s.Repo, t.phase.ID); err != nil {
		return err
	}
	for name, f := range map[string]**os.File{"events.jsonl": &t.events, "worker.log": &t.log} {
		path := filepath.Join(live, name)
		if err := durable.RemoveAll(path); err != nil {
			return err
		}
		var err error
		if *f, err = durable.Append(path, 0o600); err != nil {
			return err
		}
	}
	if err := t.s.removeScratch(t.phase.ID); err != nil {
		return err
	}
	var err error
	t.scratch, err = durable.MkdirTemp(t.s.tempDir(), t.s.scratchPrefix(t.phase.ID))
	return err
}

// tempDir is where workers get their private folders: not below the worktrees, whose paths can be too
// long for the sockets that programs make there. A TMPDIR that is relative is another folder for the
// worker, and one that does not exist is none.
func (s *Session) tempDir() string {
	dir := s.Getenv("TMPDIR")
	if info, err := os.Stat(dir); err == nil && info.IsDir() && filepath.IsAbs(dir) {
		return dir
	}
	return "/tmp"
}

// scratchPrefix begins the names of the private folders of a run's workers, and no others.
func (s *Session) scratchPrefix(id gitstate.RunID) string {
	sum := sha256.Sum256([]byte(s.Repo.CommonDir + "\x00" + string(id)))
	return fmt.Sprintf("git-spot-%x-", sum[:6])
}

// scratchFolders are the private folders that killed turns of a run left. The caller holds the run's lock.
// In a shared folder others may have made something of that name; it is not ours.
func (s *Session) scratchFolders(id gitstate.RunID) ([]string, error) {
	entries, err := os.ReadDir(s.tempDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), s.scratchPrefix(id)) {
			continue
		}
		info, err := e.Info()
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
			continue
		}
		folders = append(folders, filepath.Join(s.tempDir(), e.Name()))
	}
	return folders, nil
}

// removeScratch removes the scratchFolders of a run.
func (s *Session) removeScratch(id gitstate.RunID) error {
	folders, err := s.scratchFolders(id)
	errs := []error{err}
	for _, folder := range folders {
		errs = append(errs, durable.RemoveAll(folder))
	}
	return errors.Join(errs...)
}

// homeOf is the private home of the worker of try i, counted from 0.
func homeOf(scratch string, i int) string { return filepath.Join(scratch, "home"+strconv.Itoa(i)) }

func (t *turn) close(ctx context.Context) error {
	var errs []error
	for _, f := range []*os.File{t.events, t.log} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	if t.scratch != "" {
		errs = append(errs, durable.RemoveAll(t.scratch))
	}
	return errors.Join(errs...)
}

// workerTurn is the turn as package workers sees it.
func (t *turn) workerTurn(p *config.Profile, home, tmp string) workers.Turn {
	turn := workers.Turn{
		Profile: p, Kind: t.contract.Kind, Prompt: t.prompt, Dir: t.worktree.Path(), Home: home, Tmp: tmp,
		RunID: string(t.phase.ID), Attempt: t.number, Limits: t.contract.Limits,
		Getenv: t.s.Getenv, Now: t.s.Now, Redact: t.s.Config.Redactor(t.s.Getenv),
		Rate: t.s.Config.Rates[p.Model], Credential: t.s.Repo.Credential,
		Session: t.s.sessionPath(t.phase.ID, p), Resume: t.resume,
	}
	if t.events != nil {
		turn.Events, turn.Log = io.Writer(t.events), io.Writer(t.log)
	}
	return turn
}

// runChain starts the profiles of the chain one after the other until one ends in a way that the next
// would not mend. The receipt holds every try.
func (t *turn) runChain(ctx context.Context) {
	t.receipt = schemas.WorkerReceipt{SchemaVersion: schemas.Version, Attempt: t.number, StartedAt: t.s.Now()}
	for i, p := range t.chain {
		try, final, err := t.try(ctx, i, p)
		if err != nil {
			t.logErr = errors.Join(t.logErr, err)
		}
		t.receipt.Tries = append(t.receipt.Tries, try)
		t.receipt.Profile = try.Profile
		t.receipt.Outcome, t.receipt.FailureClass, t.receipt.Message = try.Outcome, try.FailureClass, try.Message
		t.receipt.SessionID = try.SessionID
		t.receipt.Isolation, t.receipt.Credential = final.Isolation, final.Credential
		t.receipt.FinalText, t.receipt.StderrTail, t.receipt.Question = final.Text, final.StderrTail, try.Question
		t.receipt.Warnings = append(t.receipt.Warnings, final.Warnings...)
		last := i == len(t.chain)-1
		if try.Outcome != schemas.OutcomeError || !workers.MayFallBack(try.FailureClass) || last || ctx.Err() != nil {
			break
		}
		if err := t.setAside(ctx, i); err != nil {
			if !t.worktree.Lost() {
				t.logErr = errors.Join(t.logErr, err)
			}
			break
		}
	}
	t.receipt.Usage = sumUsage(t.receipt.Tries)
	t.receipt.EndedAt = t.s.Now()
	t.receipt.DurationMS = t.receipt.EndedAt.Sub(t.receipt.StartedAt).Milliseconds()
}

func (t *turn) try(ctx context.Context, i int, p *config.Profile) (schemas.Try, workers.Final, error) {
	home := homeOf(t.scratch, i)
	tmp := filepath.Join(t.scratch, "tmp"+strconv.Itoa(i))
	turn := t.workerTurn(p, home, tmp)
	var try schemas.Try
	var final workers.Final
	err := errors.Join(durable.Mkdir(home, 0o700), durable.Mkdir(tmp, 0o700))
	if err != nil {
		try, final = workers.Unstarted(turn, err)
		err = nil
	} else {
		try, final, err = workers.Run(ctx, turn)
	}
	try.Profile = profileRef(p, t.phase.State.Profile.Source)
	return try, final, err
}

// setAside pins what a failed try left and brings the worktree back to the attempt's start.
func (t *turn) setAside(ctx context.Context, i int) error {
	if err := t.settleRepository(ctx); err != nil {
		return err
	}
	snap, err := t.s.snapshot(ctx, &t.phase.Run, fmt.Sprintf("partial work of attempt %d, try %d", t.number, i+1))
	if err != nil {
		return err
	}
	if snap.Tree != t.base.Tree {
		n := strconv.Itoa(t.number)
		k, err := t.s.nextTry(ctx, &t.phase.Run, n)
		if err != nil {
			return err
		}
		t.receipt.Tries[i].Partial = string(snap.Commit)
		t.partial = append(t.partial, gitstate.RefUpdate{
			Ref: gitstate.AttemptRef(t.phase.ID, n+"."+strconv.Itoa(k+len(t.partial))), New: snap.Commit, Old: gitstate.ZeroOID,
		})
	}
	if err := t.worktree.Reset(ctx, t.base.Tree); err != nil {
		return err
	}
	// It speaks of changes that are not there any more.
	return durable.RemoveAll(t.s.sessionPath(t.phase.ID, t.chain[i]))
}

// finish takes the snapshot, judges the outcome by it and records both.
func (t *turn) finish(ctx context.Context) (*TurnResult, error) {
	if err := t.settleRepository(ctx); err != nil {
		return nil, err
	}
	snap, err := t.s.snapshot(ctx, &t.phase.Run, fmt.Sprintf("%s\n\nAttempt %d of run %s.", t.contract.Title, t.number, t.phase.ID))
	if errors.Is(err, fs.ErrNotExist) && t.worktree.Lost() {
		// Its cost is known all the same, and what was there before is the candidate.
		snap, err = t.base, nil
		t.receipt.Outcome, t.receipt.FailureClass = schemas.OutcomeError, schemas.FailurePermanent
		t.receipt.Message = "the worker's folder is gone"
	}
	if err != nil {
		return nil, err
	}
	if snap.PointerChanged {
		t.receipt.Tampered = append(t.receipt.Tampered, ".git")
	}
	t.receipt.Nested, t.receipt.Ignored = bounded(snap.Nested), bounded(snap.Skipped)
	if t.receipt.Outcome == schemas.OutcomeCompleted && snap.Tree == t.base.Tree {
		t.receipt.Outcome = schemas.OutcomeEmpty
	}
	base := gitstate.OID(t.phase.State.Base.Commit)
	diff, err := t.s.Ledger.Diff(ctx, base, snap.Commit)
	if err != nil {
		return nil, err
	}
	files, err := t.files()
	if err != nil {
		return nil, err
	}
	candidate, err := t.s.moveRef(ctx, gitstate.CandidateRef(t.phase.ID), snap.Commit)
	if err != nil {
		return nil, err
	}
	attempt, err := t.s.moveRef(ctx, gitstate.AttemptRef(t.phase.ID, strconv.Itoa(t.number)), snap.Commit)
	if err != nil {
		return nil, err
	}
	refs := append(t.partial, candidate, attempt)
	to := stateAfter(t.receipt.Outcome, t.receipt.FailureClass)
	code := workers.Code(t.receipt.Outcome, t.receipt.FailureClass)
	from := schemas.StatePrepared
	if t.phase.State.State == schemas.StateRevising {
		from = schemas.StateReviewing
	}
	if err := t.phase.Append(ctx, gitstate.Event{
		To:      to,
		Subject: fmt.Sprintf("end attempt %d: %s", t.number, t.receipt.Outcome),
		Files:   files,
		Refs:    refs,
		Code:    code,
		Apply: func(st *schemas.RunState) {
			st.Candidate, st.Tree = string(snap.Commit), string(snap.Tree)
			st.DiffSHA256, st.Diff = diff.SHA256, &diff.Stat
			st.Outcome, st.FailureClass = t.receipt.Outcome, t.receipt.FailureClass
			st.Verification, st.Review = nil, nil
			warn(st, t.receipt.Warnings...)
			if to == schemas.StateBlocked {
				st.Blocked = &schemas.Blocked{Cause: schemas.BlockedEnvironment, Code: code, Message: t.receipt.Message, From: from}
			}
		},
	}); err != nil {
		return nil, err
	}
	if err := durable.RemoveAll(t.s.fingerprintPath(t.phase.ID)); err != nil {
		return nil, err
	}
	return &TurnResult{Run: &t.phase.Run, Receipt: &t.receipt, Diff: diff, Log: t.s.LogPath(t.phase.ID)}, t.logErr
}

// settleRepository undoes what the turn did to the repository's executable configuration. It comes
// before any snapshot: git runs the filters that are configured.
func (t *turn) settleRepository(ctx context.Context) error {
	change, err := t.s.undoTampering(ctx, t.before)
	for _, warning := range change.warnings {
		if !slices.Contains(t.receipt.Warnings, warning) {
			t.receipt.Warnings = append(t.receipt.Warnings, warning)
		}
	}
	t.receipt.Tampered = append(t.receipt.Tampered, change.tampered...)
	if t.replaced == nil {
		t.replaced = map[string][]byte{}
	}
	maps.Copy(t.replaced, change.replaced)
	if err != nil {
		return err
	}
	restored, err := t.s.restoreLedgers(ctx, t.ledgers, t.phase)
	t.receipt.Tampered = append(t.receipt.Tampered, restored...)
	return err
}

// files are the documents of the attempt's end.
func (t *turn) files() (map[string][]byte, error) {
	t.receipt.Warnings, t.receipt.Tampered = bounded(t.receipt.Warnings), bounded(t.receipt.Tampered)
	receipt, err := schemas.MarshalIndent(t.receipt)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{attemptFile(strconv.Itoa(t.number), "worker.json"): receipt}
	if err := keepUndone(files, strconv.Itoa(t.number), t.replaced); err != nil {
		return nil, err
	}
	// Not by their names: the files may be deleted at any time, or replaced by the worker.
	for name, f := range map[string]*os.File{"events.jsonl": t.events, "worker.log": t.log} {
		data, err := io.ReadAll(io.NewSectionReader(f, 0, logBytes))
		if err != nil {
			return nil, err
		}
		files[attemptFile(strconv.Itoa(t.number), name)] = data
	}
	return files, nil
}

// logBytes bounds what is read of a live log. What is written to one is far less, but others can write
// there too.
const logBytes = 64 << 20

// stateAfter is the state that an outcome leads to.
func stateAfter(o schemas.Outcome, c schemas.FailureClass) schemas.State {
	switch o {
	case schemas.OutcomeCompleted, schemas.OutcomeStepCapped, schemas.OutcomeEmpty:
		return schemas.StateImplemented
	case schemas.OutcomeError:
		switch c {
		case schemas.FailureAuth, schemas.FailureCapability, schemas.FailureSetup, schemas.FailurePermission:
			return schemas.StateBlocked
		}
	}
	return schemas.StateInterrupted
}

// sumUsage adds what every try consumed. A kind that one try does not know is unknown in the sum.
func sumUsage(tries []schemas.Try) schemas.Usage {
	var sum schemas.Usage
	for i, try := range tries {
		if i == 0 {
			sum = try.Usage
			continue
		}
		sum = schemas.Usage{
			UncachedInput: add(sum.UncachedInput, try.Usage.UncachedInput),
			CacheRead:     add(sum.CacheRead, try.Usage.CacheRead),
			CacheWrite:    add(sum.CacheWrite, try.Usage.CacheWrite),
			Output:        add(sum.Output, try.Usage.Output),
			Reasoning:     add(sum.Reasoning, try.Usage.Reasoning),
			Credits:       add(sum.Credits, try.Usage.Credits),
			CostUSD:       add(sum.CostUSD, try.Usage.CostUSD),
		}
	}
	return sum
}

func add[T int64 | float64](a, b *T) *T {
	if a == nil || b == nil {
		return nil
	}
	sum := *a + *b
	return &sum
}

func profileRef(p *config.Profile, source string) schemas.ProfileRef {
	return schemas.ProfileRef{Name: p.Name, Source: source, Adapter: p.Adapter, Provider: p.Provider, Model: p.Model}
}

// feedbackOf is what the worker of the next turn is told.
func feedbackOf(verdict *schemas.Review, verification *schemas.Verification) *workers.Feedback {
	findings, gates, tails := review.Feedback(verdict, verification)
	feedback := &workers.Feedback{Findings: findings, Gates: gates}
	for _, tail := range tails {
		feedback.Tails = append(feedback.Tails, workers.Tail(tail))
	}
	return feedback
}

// ProfileGoneError is a run whose profile is not configured any more.
type ProfileGoneError struct {
	ID      gitstate.RunID
	Profile string
}

func (e *ProfileGoneError) Error() string {
	return fmt.Sprintf("run %s was prepared for profile %q, which is not configured any more", e.ID, e.Profile)
}

// Code is CONFIG_INVALID.
func (e *ProfileGoneError) Code() schemas.Code { return schemas.CodeConfigInvalid }

// LostWorktreeError is a run whose worktree is gone. Everything but a new turn still works.
type LostWorktreeError struct {
	ID   gitstate.RunID
	Path string
}

func (e *LostWorktreeError) Error() string {
	return fmt.Sprintf("the worktree of run %s is gone: %q", e.ID, e.Path)
}

// Code is FILE_NOT_FOUND.
func (e *LostWorktreeError) Code() schemas.Code { return schemas.CodeFileNotFound }
