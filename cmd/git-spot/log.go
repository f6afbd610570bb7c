package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/schemas"
)

// followEvery is how often log -f looks for news: often enough to feel live, seldom enough to cost nothing.
const followEvery = 300 * time.Millisecond

func newLogCmd(e *env) *cli.Command {
	var word string
	var follow bool
	return &cli.Command{
		Name:      "log",
		Usage:     "tell the story of a run",
		ArgsUsage: "[ID]",
		Description: `Prints the events of a run, the first one first. "git log refs/spot/runs/ID" tells the same.

With -f it goes on while a process is advancing the run, and shows what its worker does. Where
standard output is not a terminal -f prints JSON lines: the run's events with "type" "git-spot.event",
the worker's as they are (git spot schema worker-event).`,
		Flags: []cli.Flag{
			idFlag(&word),
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until the run's phase ends", Destination: &follow},
		},
		Metadata: help("git spot log --id fix-login", runCodes()...),
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			if word, err = runWord(c, word); err != nil {
				return err
			}
			if follow {
				return followLog(ctx, e, word)
			}
			return runLog(ctx, e, word)
		},
	}
}

// logEvent is one event of a run in what log prints.
type logEvent struct {
	Type       string         `json:"type"` // git-spot.event
	ID         gitstate.RunID `json:"id"`
	Commit     gitstate.OID   `json:"commit"`
	Time       time.Time      `json:"time"`
	State      schemas.State  `json:"state"`
	Attempt    int            `json:"attempt"`
	Subject    string         `json:"subject"`
	Candidate  gitstate.OID   `json:"candidate,omitempty"`
	DiffSHA256 string         `json:"diffSha256,omitempty"`
	Code       schemas.Code   `json:"code,omitempty"`
}

func (l logEvent) text() string {
	line := fmt.Sprintf("%s  %-13s  %s", l.Time.Local().Format(time.DateTime), l.State, oneLine(l.Subject))
	if l.Code != "" {
		line += "  " + string(l.Code)
	}
	return line
}

func runLog(ctx context.Context, e *env, word string) error {
	s, err := e.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	id, err := s.ledger.Resolve(ctx, word)
	if err != nil {
		return err
	}
	// What can be read of a broken ledger is shown before the error.
	events, corrupt := s.events(ctx, id)
	if corrupt != nil && len(events) == 0 {
		return corrupt
	}
	err = e.textResult(events, func(w io.Writer) {
		for _, event := range events {
			fmt.Fprintln(w, event.text())
		}
	})
	return errors.Join(err, corrupt)
}

// events returns the events of a run, the first one first.
func (s *session) events(ctx context.Context, id gitstate.RunID) ([]logEvent, error) {
	entries, err := s.ledger.History(ctx, id)
	events := make([]logEvent, 0, len(entries))
	for _, entry := range slices.Backward(entries) {
		events = append(events, logEvent{
			Type: "git-spot.event", ID: id, Commit: entry.Commit, Time: entry.Time, State: entry.State, Attempt: entry.Attempt,
			Subject: entry.Subject, Candidate: entry.Candidate, DiffSHA256: entry.DiffSHA256, Code: entry.Code,
		})
	}
	return events, err
}

// follower prints a run's news as they come.
type follower struct {
	e    *env
	s    *session
	id   gitstate.RunID
	head gitstate.OID // the newest event that was printed

	attempt int    // whose worker events are being read
	read    int64  // bytes of its events.jsonl that were printed
	part    []byte // a line whose end is still to come
}

func followLog(ctx context.Context, e *env, word string) error {
	s, err := e.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	id, err := s.ledger.Resolve(ctx, word)
	if err != nil {
		return err
	}
	f := &follower{e: e, s: s, id: id}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		going, err := f.step(ctx)
		if err != nil || !going {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// step prints what is new and says whether more can come: whether a live process owns the run.
func (f *follower) step(ctx context.Context) (going bool, err error) {
	run, err := f.s.ledger.Load(ctx, f.id)
	if err != nil {
		return false, err
	}
	going = run.State.Owner != nil && !f.s.ledger.Interrupted(ctx, run)
	// The worker's events come before the ledger event that ends their turn.
	if f.attempt > 0 && (run.State.Attempt != f.attempt || !going) {
		if err := f.workerEvents(f.recorded(ctx, run)); err != nil {
			return false, err
		}
		f.attempt = 0
	}
	if run.Head != f.head {
		if err := f.runEvents(ctx); err != nil {
			return false, err
		}
		f.head = run.Head
	}
	if going && isTurn(run.State.State) {
		if f.attempt != run.State.Attempt {
			f.attempt, f.read, f.part = run.State.Attempt, 0, nil
		}
		return true, f.workerEvents(f.live())
	}
	return going, nil
}

func isTurn(s schemas.State) bool { return s == schemas.StateRunning || s == schemas.StateRevising }

func (f *follower) runEvents(ctx context.Context) error {
	events, err := f.s.events(ctx, f.id)
	if err != nil {
		return err
	}
	printed := slices.IndexFunc(events, func(l logEvent) bool { return l.Commit == f.head })
	for _, event := range events[printed+1:] {
		if f.asJSON() {
			err = f.e.jsonLine(event)
		} else {
			err = f.line(event.text())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) asJSON() bool { return f.e.jsonMode() }

func (f *follower) line(text string) error {
	return f.e.text(func(w io.Writer) { fmt.Fprintln(w, text) })
}

// live reads on in the file that grows while the turn runs; nil if there is nothing.
func (f *follower) live() []byte {
	file, err := durable.Open(f.s.flow().EventsPath(f.id))
	if err != nil {
		return nil // not there yet, or not any more, or not ours
	}
	defer file.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.NewSectionReader(file, f.read, maxInput))
	if err != nil {
		return nil
	}
	return data
}

// recorded reads on in the ledger, where the file is when its turn has ended.
func (f *follower) recorded(ctx context.Context, run *gitstate.Run) []byte {
	data, err := f.s.ledgerFile(ctx, run, fmt.Sprintf("attempts/%d/events.jsonl", f.attempt))
	if err != nil || int64(len(data)) <= f.read {
		return nil
	}
	return data[f.read:]
}

// workerEvents prints the whole lines of data and keeps the rest for the next time.
func (f *follower) workerEvents(data []byte) error {
	f.read += int64(len(data))
	f.part = append(f.part, data...)
	for {
		line, rest, found := bytes.Cut(f.part, []byte("\n"))
		if !found {
			return nil
		}
		f.part = rest
		if err := f.workerEvent(line); err != nil {
			return err
		}
	}
}

func (f *follower) workerEvent(line []byte) error {
	var event schemas.Event
	if json.Unmarshal(line, &event) != nil {
		return nil // the middle of a stream that was cut
	}
	if f.asJSON() {
		return f.e.jsonLine(event)
	}
	what := event.Text
	switch event.Type {
	case schemas.EventTool:
		what = strings.TrimSpace(event.Name + " " + event.Status)
	case schemas.EventUsage:
		if event.Usage != nil {
			what = usageLine(event.Usage)
		}
	case schemas.EventSession:
		what = event.Session
	case schemas.EventDropped:
		what = fmt.Sprintf("%d bytes of a long line", event.Bytes)
	}
	return f.line(fmt.Sprintf("%s  %-13s  %s", event.Time.Local().Format(time.DateTime), event.Type, oneLine(what)))
}
