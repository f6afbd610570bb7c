package main

import (
	"context"
	"errors"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/flow"
	"github.com/git-spot/git-spot/schemas"
)

// startedLine is the first line that dispatch prints.
type startedLine struct {
	Type string `json:"type"` // git-spot.started
	prepareDocument
	Kind   schemas.Kind   `json:"kind"`
	Log    string         `json:"log"`
	Events string         `json:"events"`
	Limits schemas.Limits `json:"limits"`
}

// verdictLine is the last line that dispatch prints, whatever happened after the first.
type verdictLine struct {
	Type string `json:"type"` // git-spot.verdict
	stepDocument
	Kind         schemas.Kind                 `json:"kind"`
	Outcome      schemas.Outcome              `json:"outcome,omitempty"`
	FailureClass schemas.FailureClass         `json:"failureClass,omitempty"`
	Candidate    string                       `json:"candidate,omitempty"`
	DiffSHA256   string                       `json:"diffSha256,omitempty"`
	Diff         *schemas.DiffStat            `json:"diff,omitempty"`
	Usage        *schemas.Usage               `json:"usage,omitempty"`
	DurationMS   int64                        `json:"durationMs,omitempty"`
	Verification *schemas.VerificationSummary `json:"verification,omitempty"`
	Code         schemas.Code                 `json:"code,omitempty"`
	Message      string                       `json:"message,omitempty"`
	Final        string                       `json:"finalText,omitempty"`
	StderrTail   string                       `json:"stderrTail,omitempty"`
	Question     string                       `json:"question,omitempty"`
	Warnings     []string                     `json:"warnings,omitempty"`
}

func newDispatchCmd(e *env) *cli.Command {
	var opts prepareOptions
	return &cli.Command{
		Name:  "dispatch",
		Usage: "prepare, run, verify and self-review in one call",
		Description: `The mechanical half of the loop. Prints two JSON lines: git-spot.started when the run exists, and
git-spot.verdict at the end, whatever happens between them. Then read what "next" says, and land. If
no run could be created nothing is printed. On a terminal standard error says in short where the log
is and what is due. The exit status is that of the worst step.`,
		Flags:    opts.flags(),
		Metadata: help("git spot dispatch --task task.json", slices.Concat(prepareCodes(), turnCodes(), verifyCodes())...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := opts.check(c); err != nil {
				return err
			}
			return runDispatch(ctx, e, opts)
		},
	}
}

func runDispatch(ctx context.Context, e *env, opts prepareOptions) error {
	s, closeFlow, err := e.openFlow(ctx)
	if err != nil {
		return err
	}
	defer closeFlow()
	run, err := opts.prepare(ctx, e, s)
	if err != nil {
		return err
	}
	contract, err := s.Contract(ctx, run)
	if err != nil {
		return err
	}
	started := startedLine{
		Type: "git-spot.started", prepareDocument: prepareOf(run),
		Kind: run.State.Kind, Log: s.LogPath(run.ID), Events: s.EventsPath(run.ID), Limits: contract.Limits,
	}
	if err := e.jsonLine(started); err != nil {
		return err
	}
	e.announceLog(s, run.ID)
	verdict := verdictLine{Type: "git-spot.verdict", Kind: run.State.Kind}
	err = dispatch(ctx, s, run.ID, &verdict)
	verdict.stepDocument = stepDocument{ID: string(run.ID), State: run.State.State}
	// The run is read once more although its steps returned it: after an error nobody did, and what
	// the ledger says is what the caller has to act on. A signal must not keep it from being said.
	now, loadErr := s.Ledger.Load(context.WithoutCancel(ctx), run.ID)
	if loadErr == nil {
		verdict.stepDocument = stepOf(now)
		verdict.Next = answering(verdict.Next, verdict.Question)
		verdict.Candidate, verdict.DiffSHA256, verdict.Diff = now.State.Candidate, now.State.DiffSHA256, now.State.Diff
		verdict.Verification = now.State.Verification
	}
	if err != nil {
		wire, _ := describe(ctx, err)
		verdict.Code, verdict.Message = wire.Code, wire.Message
	}
	printErr := e.jsonLine(verdict)
	e.announceVerdict(&verdict)
	return errors.Join(err, loadErr, printErr)
}

// announceVerdict tells a person in short what the long line before it says.
func (e *env) announceVerdict(d *verdictLine) {
	if e.jsonMode() {
		return
	}
	if v := d.Verification; v != nil {
		e.warn("%s: %s, verification: %s", d.ID, d.State, v.Verdict)
	} else {
		e.warn("%s: %s", d.ID, d.State)
	}
	if d.Question != "" {
		e.warn("question: %s", d.Question)
	}
	if d.Next != "" {
		e.warn("next: %s", d.Next)
	}
}

// dispatch runs the steps after prepare until one of them has a negative outcome.
func dispatch(ctx context.Context, s *flow.Session, id gitstate.RunID, verdict *verdictLine) error {
	turn, err := s.Run(ctx, id)
	if turn != nil {
		r := turn.Receipt
		verdict.Outcome, verdict.FailureClass, verdict.Usage = r.Outcome, r.FailureClass, &r.Usage
		verdict.DurationMS, verdict.Final, verdict.StderrTail, verdict.Warnings = r.DurationMS, r.FinalText, r.StderrTail, r.Warnings
		verdict.Question = r.Question
		err = errors.Join(err, turn.Err())
	}
	if err != nil {
		return err
	}
	verified, err := s.Verify(ctx, id)
	if err != nil {
		return err
	}
	verdict.Warnings = append(verdict.Warnings, verified.Verification.Warnings...)
	if err := verified.Err(); err != nil {
		return err
	}
	if verified.Run.State.State == schemas.StateSelfReviewing {
		_, _, err = s.SelfReview(ctx, id)
	}
	return err
}
