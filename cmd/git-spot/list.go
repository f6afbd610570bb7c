package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

type listOptions struct {
	states    []string
	caller    string
	running   bool
	worktrees bool
}

func newListCmd(e *env) *cli.Command {
	var opts listOptions
	return &cli.Command{
		Name:  "list",
		Usage: "list the runs, the latest first",
		Description: `Lists the runs of this repository. It reads one commit a run; "git spot inspect" knows the rest.
A run that cannot be read is listed with its error and hides no other.

--running lists the runs that hold a slot of spot.maxConcurrentRuns, and since when.`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "state", Aliases: []string{"status"}, Usage: "only runs in `STATE`", Destination: &opts.states},
			&cli.StringFlag{Name: "caller", Usage: "only runs that `CALLER` asked for", Destination: &opts.caller},
			&cli.BoolFlag{Name: "running", Usage: "only runs that hold a slot", Destination: &opts.running},
			&cli.BoolFlag{Name: "worktrees", Usage: "say where the worktrees are", Destination: &opts.worktrees},
		},
		Metadata: help("git spot list --state reviewing", repositoryCodes()...),
		Action: func(ctx context.Context, _ *cli.Command) error {
			for _, state := range opts.states {
				if !slices.Contains(allStates(), state) {
					message := fmt.Sprintf("unknown state %q", state)
					if near := schemas.Nearest(state, allStates()); near != "" {
						message += "; did you mean " + near + "?"
					}
					return usagef("%s", message)
				}
			}
			return runList(ctx, e, opts)
		},
	}
}

func allStates() []string {
	var names []string
	for _, s := range []schemas.State{
		schemas.StatePrepared, schemas.StateRunning, schemas.StateImplemented, schemas.StateVerifying,
		schemas.StateSelfReviewing, schemas.StateReviewing, schemas.StateRevising, schemas.StateApproved,
		schemas.StateIntegrating, schemas.StateIntegrated, schemas.StateReported, schemas.StateCleaned,
		schemas.StateInterrupted, schemas.StateBlocked, schemas.StateFailed, schemas.StateAborted, schemas.StateDone,
	} {
		names = append(names, string(s))
	}
	return names
}

// listRow is one run in what list prints.
type listRow struct {
	ID          gitstate.RunID `json:"id"`
	State       schemas.State  `json:"state"` // "" if the run cannot be read, or has a slot and no event yet
	Interrupted bool           `json:"interrupted"`
	Title       string         `json:"title"`
	Caller      string         `json:"caller"`
	Profile     string         `json:"profile"`
	Attempt     int            `json:"attempt"`
	UpdatedAt   time.Time      `json:"updatedAt,omitzero"`
	Candidate   gitstate.OID   `json:"candidate,omitempty"`
	DiffSHA256  string         `json:"diffSha256,omitempty"`
	Code        schemas.Code   `json:"code,omitempty"`

	Slot     int       `json:"slot,omitempty"` // --running
	Since    time.Time `json:"since,omitzero"`
	Worktree string    `json:"worktree,omitempty"` // --worktrees
	Lost     bool      `json:"lost,omitempty"`

	Error *schemas.Error `json:"error,omitempty"`
}

func runList(ctx context.Context, e *env, opts listOptions) error {
	s, err := e.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	summaries, err := s.ledger.List(ctx)
	if err != nil {
		return err
	}
	rows := make([]listRow, 0, len(summaries))
	for _, summary := range summaries {
		rows = append(rows, newListRow(ctx, summary))
	}
	if opts.running {
		holders, err := s.ledger.Slots(ctx)
		if err != nil {
			return err
		}
		rows = onlyRunning(rows, holders)
	}
	rows = slices.DeleteFunc(rows, func(r listRow) bool {
		return len(opts.states) > 0 && !slices.Contains(opts.states, string(r.State)) ||
			opts.caller != "" && opts.caller != r.Caller
	})
	if opts.worktrees {
		for i := range rows {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.addWorktree(ctx, &rows[i])
		}
	}
	slices.SortStableFunc(rows, func(a, b listRow) int {
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), cmp.Compare(a.ID, b.ID))
	})
	return e.result(rows, func(w io.Writer) { writeList(w, rows, opts, e.now()) })
}

func newListRow(ctx context.Context, s gitstate.Summary) listRow {
	if s.Err != nil {
		wire, _ := describe(ctx, s.Err)
		return listRow{ID: s.ID, Error: &wire}
	}
	return listRow{
		ID: s.ID, State: s.State, Interrupted: s.Interrupted, Title: s.Title, Caller: s.Caller, Profile: s.Profile,
		Attempt: s.Attempt, UpdatedAt: s.UpdatedAt, Candidate: s.Candidate, DiffSHA256: s.DiffSHA256, Code: s.Code,
	}
}

// onlyRunning returns a row for each slot that is held, also for one whose run has no event yet.
func onlyRunning(rows []listRow, holders []gitstate.SlotHolder) []listRow {
	held := make([]listRow, 0, len(holders))
	for _, h := range holders {
		row := listRow{ID: h.Run, State: h.State}
		if i := slices.IndexFunc(rows, func(r listRow) bool { return r.ID == h.Run }); i >= 0 {
			row = rows[i]
		}
		row.Slot, row.Since = h.Slot, h.Since
		held = append(held, row)
	}
	return held
}

// addWorktree says where the run's worktree is, or in its row why that cannot be said.
func (s *session) addWorktree(ctx context.Context, row *listRow) {
	if row.Error != nil || row.State == "" {
		return
	}
	run, err := s.ledger.Load(ctx, row.ID)
	if err != nil {
		wire, _ := describe(ctx, err)
		row.Error = &wire
		return
	}
	row.Worktree = run.State.Worktree
	row.Lost = lost(run)
}

func writeList(w io.Writer, rows []listRow, opts listOptions, now time.Time) {
	if len(rows) == 0 {
		fmt.Fprintln(w, "no runs")
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		if r.Error != nil {
			fmt.Fprintf(table, "%s\t%s\t\t\t\t%s\n", r.ID, r.Error.Code, oneLine(r.Error.Message))
			continue
		}
		state := string(r.State)
		switch {
		case r.State == "":
			state = "preparing"
		case r.Interrupted:
			state += " (owner gone)"
		case r.State == schemas.StateBlocked, r.State == schemas.StateInterrupted && r.Code != "":
			state += " " + string(r.Code)
		}
		when := r.UpdatedAt
		if opts.running {
			when = r.Since
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s", r.ID, state, r.Attempt, oneLine(r.Profile), ago(now, when), oneLine(r.Title))
		if r.Worktree != "" {
			fmt.Fprintf(table, "\t%s", oneLine(r.Worktree))
			if r.Lost {
				fmt.Fprint(table, " (lost)")
			}
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
}

// ago says how long ago t was in the unit that a person would use.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "-"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	default:
		return t.Local().Format(time.DateOnly)
	}
}
