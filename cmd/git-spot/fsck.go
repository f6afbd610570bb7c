package main

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

func newFsckCmd(e *env) *cli.Command {
	var rebuild bool
	return &cli.Command{
		Name:  "fsck",
		Usage: "check every ledger",
		Description: `Checks that the ledger of every run is a chain of events, that its documents fit their schemas, that
hashes and commits are what they should be, and that the notes agree. It changes nothing, but for the
notes with --rebuild-notes: they are copies, and are written anew from the ledgers.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "rebuild-notes", Usage: "write refs/notes/spot anew from the ledgers", Destination: &rebuild},
		},
		Metadata: help("git spot fsck", append(repositoryCodes(), schemas.CodeLedgerCorrupt)...),
		Action:   func(ctx context.Context, _ *cli.Command) error { return runFsck(ctx, e, rebuild) },
	}
}

// fsckDocument is what fsck prints.
type fsckDocument struct {
	Runs         int           `json:"runs"`
	Problems     []fsckProblem `json:"problems"`
	RebuiltNotes *int          `json:"rebuiltNotes,omitempty"`
}

type fsckProblem struct {
	Run     gitstate.RunID       `json:"run,omitempty"`
	Code    gitstate.ProblemCode `json:"code"`
	What    string               `json:"what"`
	Remains string               `json:"remains,omitempty"`
}

func runFsck(ctx context.Context, e *env, rebuild bool) error {
	s, err := e.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	doc := fsckDocument{Problems: []fsckProblem{}}
	if rebuild {
		n, err := s.ledger.RebuildNotes(ctx)
		if err != nil {
			return err
		}
		doc.RebuiltNotes = &n
	}
	runs, err := s.ledger.List(ctx)
	if err != nil {
		return err
	}
	doc.Runs = len(runs)
	problems, err := s.ledger.Fsck(ctx)
	if err != nil {
		return err
	}
	for _, p := range problems {
		doc.Problems = append(doc.Problems, fsckProblem{Run: p.Run, Code: p.Code, What: p.What, Remains: p.Remains})
	}
	if err := e.result(doc, func(w io.Writer) { writeFsck(w, doc) }); err != nil {
		return err
	}
	return fsckError(doc)
}

func writeFsck(w io.Writer, doc fsckDocument) {
	for _, p := range doc.Problems {
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.Run, p.Code, oneLine(p.What))
		if p.Remains != "" {
			fmt.Fprintf(w, "\t%s\n", oneLine(p.Remains))
		}
	}
	if doc.RebuiltNotes != nil {
		fmt.Fprintf(w, "%d notes written anew\n", *doc.RebuiltNotes)
	}
	fmt.Fprintf(w, "%d runs checked, %d problems\n", doc.Runs, len(doc.Problems))
}

// fsckError is the outcome as an error. Notes that differ are mended by one command; anything else is not.
func fsckError(doc fsckDocument) error {
	if len(doc.Problems) == 0 {
		return nil
	}
	e := &codedError{code: schemas.CodeLedgerCorrupt, message: fmt.Sprintf("%d problems found", len(doc.Problems))}
	for _, p := range doc.Problems {
		if p.Code == gitstate.ProblemNote {
			e.hints = []string{"git spot fsck --rebuild-notes"}
		}
	}
	return e
}
