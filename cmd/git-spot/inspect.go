package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
)

func newInspectCmd(e *env) *cli.Command {
	var word string
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show all that is known of a run",
		ArgsUsage: "[ID]",
		Description: `Shows the state of a run, what its worker used, what verification and review said, and the command
that is due. "interrupted" means that the process that was advancing the run is gone, "lost" that the
worktree is; everything but a new turn still works without it.`,
		Flags:    []cli.Flag{idFlag(&word)},
		Metadata: help("git spot inspect --id fix-login", runCodes()...),
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			if word, err = runWord(c, word); err != nil {
				return err
			}
			return runInspect(ctx, e, word)
		},
	}
}

// inspectDocument is what inspect prints: state.json, and beside it what other files of the ledger and
// this machine say. Where it has the name of a key of state.json, the longer document stands.
type inspectDocument struct {
	schemas.RunState
	Ref          gitstate.Ref          `json:"ref"`
	Head         gitstate.OID          `json:"head"` // the newest ledger commit
	Interrupted  bool                  `json:"interrupted"`
	Lost         bool                  `json:"lost"`
	Log          string                `json:"log,omitempty"` // grows while a turn runs
	Usage        *schemas.Usage        `json:"usage"`         // summed over all attempts
	Worker       json.RawMessage       `json:"worker"`        // receipt of the latest attempt
	Verification *schemas.Verification `json:"verification"`
	SelfReview   json.RawMessage       `json:"selfReview"`
	Review       json.RawMessage       `json:"review"`
	Metrics      json.RawMessage       `json:"metrics"`
	Surface      *struct{}             `json:"surface"` // what the caller must read; not computed yet
	Next         string                `json:"next"`
}

// receipt is what is shown of Worker; a receipt of another kind has none of it.
func (doc *inspectDocument) receipt() (r struct{ Message, Question string }) {
	_ = json.Unmarshal(doc.Worker, &r)
	return r
}

func runInspect(ctx context.Context, e *env, word string) error {
	s, err := e.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	run, err := s.load(ctx, word)
	if err != nil {
		return err
	}
	doc, err := s.inspect(ctx, run)
	if err != nil {
		return err
	}
	return e.result(doc, func(w io.Writer) { writeInspect(w, doc, e.now()) })
}

func (s *session) inspect(ctx context.Context, run *gitstate.Run) (*inspectDocument, error) {
	doc := &inspectDocument{
		RunState: run.State, Ref: gitstate.RunRef(run.ID), Head: run.Head,
		Interrupted: s.ledger.Interrupted(ctx, run), Lost: lost(run),
	}
	doc.Next = run.Due(doc.Interrupted)
	if run.State.Owner != nil {
		doc.Log = s.flow().LogPath(run.ID)
	}
	var err error
	if doc.Usage, err = s.flow().Usage(ctx, run); err != nil {
		return nil, err
	}
	latest := fmt.Sprintf("attempts/%d/", run.State.Attempt)
	for path, into := range map[string]*json.RawMessage{
		latest + "worker.json":      &doc.Worker,
		latest + "self-review.json": &doc.SelfReview,
		latest + "review.json":      &doc.Review,
		"metrics.json":              &doc.Metrics,
	} {
		if *into, err = s.ledgerFile(ctx, run, path); err != nil {
			return nil, err
		}
	}
	doc.Next = answering(doc.Next, doc.receipt().Question)
	verification, err := s.ledgerFile(ctx, run, latest+"verification.json")
	if err != nil {
		return nil, err
	}
	if verification != nil {
		if err := json.Unmarshal(verification, &doc.Verification); err != nil {
			return nil, &gitstate.CorruptError{ID: run.ID, What: latest + "verification.json", Err: err}
		}
	}
	return doc, nil
}

// ledgerFile reads a file of the ledger; nil if there is none.
func (s *session) ledgerFile(ctx context.Context, run *gitstate.Run, path string) ([]byte, error) {
	data, err := s.ledger.File(ctx, run, path)
	if errors.Is(err, gitstate.ErrNoFile) {
		return nil, nil
	}
	return data, err
}

func writeInspect(w io.Writer, doc *inspectDocument, now time.Time) {
	fmt.Fprintf(w, "%s  %s\n", doc.ID, oneLine(doc.Title))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "  %s\t%s\n", name, strings.TrimSpace(oneLine(fmt.Sprintf(format, args...))))
	}
	state := string(doc.State)
	if doc.Interrupted {
		state += ", interrupted: its owner is gone"
	}
	row("state", "%s, %s", state, ago(now, doc.UpdatedAt))
	if doc.Blocked != nil {
		row("blocked", "%s: %s: %s", doc.Blocked.Cause, doc.Blocked.Code, doc.Blocked.Message)
		for _, path := range doc.Blocked.Paths {
			row("", "%s", path)
		}
	} else if doc.Code != "" {
		row("code", "%s", doc.Code)
	}
	if doc.Owner != nil && !doc.Interrupted {
		row("owner", "process %d on %s: %s", doc.Owner.PID, doc.Owner.Host, doc.Owner.Command)
	}
	row("kind", "%s, difficulty %s (%s)", doc.Kind, doc.Difficulty.Level, doc.Difficulty.Source)
	row("caller", "%s", strings.TrimSpace(doc.Caller+" "+doc.Thread))
	row("profile", "%s (%s), %s", doc.Profile.Name, doc.Profile.Source, strings.Trim(doc.Profile.Adapter+"/"+doc.Profile.Model, "/"))
	if len(doc.Fallback) > 0 {
		row("fallback", "%s", strings.Join(doc.Fallback, " "))
	}
	row("base", "%s %s", doc.Base.Commit, strings.TrimPrefix(doc.Base.Branch, "refs/heads/"))
	row("worktree", "%s", doc.Worktree+map[bool]string{true: " (lost)"}[doc.Lost])
	if doc.Log != "" {
		row("log", "%s", doc.Log)
	}
	if doc.Attempt > 0 {
		row("attempt", "%d, %d revisions, outcome %s %s", doc.Attempt, doc.Revisions, doc.Outcome, doc.FailureClass)
	}
	receipt := doc.receipt()
	if receipt.Message != "" {
		row("", "%s", receipt.Message)
	}
	if receipt.Question != "" {
		row("question", "%s", receipt.Question)
	}
	if doc.Usage != nil {
		row("usage", "%s", usageLine(doc.Usage))
	}
	if doc.Candidate != "" {
		row("candidate", "%s", doc.Candidate)
	}
	if doc.Diff != nil {
		row("diff", "%d files, +%d -%d, %s", doc.Diff.Files, doc.Diff.Added, doc.Diff.Deleted, doc.DiffSHA256)
	}
	writeVerification(row, doc.Verification)
	if review := doc.RunState.Review; review != nil {
		row("review", "%s, %d findings open", review.Verdict, review.Open)
	}
	if doc.Approved != "" {
		row("approved", "%s", doc.Approved)
	}
	if doc.Integration != nil {
		row("branch", "%s", doc.Integration.Branch)
	}
	for _, warning := range doc.Warnings {
		row("warning", "%s", warning)
	}
	if doc.Next != "" {
		row("next", "%s", doc.Next)
	}
	_ = table.Flush()
}

func writeVerification(row func(name, format string, args ...any), v *schemas.Verification) {
	if v == nil {
		return
	}
	row("verification", "%s %s", v.Verdict, v.Code)
	for _, gate := range v.Gates {
		if !gate.OK {
			row("", "red gate %s: %s %s", gate.Gate, gate.Message, strings.Join(gate.Paths, " "))
		}
	}
	for _, c := range slices.Concat(v.Setup, v.Commands) {
		how := "ok"
		switch {
		case c.TimedOut:
			how = "timed out"
		case c.Error != "":
			how = c.Error
		case c.Exit == nil:
			how = "ended by " + c.Signal
		case *c.Exit != 0:
			how = fmt.Sprintf("exit status %d", *c.Exit)
		}
		row("", "%s: %s, %s", strings.Join(c.Argv, " "), how, time.Duration(c.DurationMS)*time.Millisecond)
		if end := outputEnd(c); end != "" && !verify.Passed(c) {
			const most = 10
			lines := strings.Split(end, "\n")
			for _, line := range lines[max(0, len(lines)-most):] {
				row("", "  | %s", line)
			}
		}
	}
}

func usageLine(u *schemas.Usage) string {
	count := func(n *int64) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	line := fmt.Sprintf("input %s, cached %s, output %s tokens", count(u.UncachedInput), count(u.CacheRead), count(u.Output))
	if u.CostUSD != nil {
		line += fmt.Sprintf(", %.4f USD", *u.CostUSD)
	}
	return line
}
