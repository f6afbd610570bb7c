package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/shlex"
	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/schemas"
)

// contractFlags are a contract as a file, or the parts of one.
type contractFlags struct {
	task                  string
	title, objective      string
	allow, lock, accept   []string
	verify, setup, forbid []string
	risk                  string
}

func (f *contractFlags) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "task", Usage: "read the contract from `FILE`, - is standard input", Destination: &f.task},
		&cli.StringFlag{Name: "title", Usage: "without --task: call the task `TEXT`", Destination: &f.title},
		&cli.StringFlag{Name: "objective", Usage: "`TEXT` is what is to be done; default: the title", Destination: &f.objective},
		&cli.StringSliceFlag{Name: "allow", Usage: "paths that match `GLOB` may change", Destination: &f.allow},
		&cli.StringSliceFlag{Name: "forbid", Usage: "paths that match `GLOB` must not change, even if they are allowed", Destination: &f.forbid},
		&cli.StringSliceFlag{Name: "lock", Usage: "paths that match `GLOB` decide whether the work is right: a worker that touches one is blocked", Destination: &f.lock},
		&cli.StringSliceFlag{Name: "accept", Usage: "`TEXT` must be true of the result; numbered A1, A2 and so on", Destination: &f.accept},
		&cli.StringSliceFlag{Name: "verify", Usage: "`CMD` proves it by exit status 0; split like a shell's words but never given to a shell", Destination: &f.verify},
		&cli.StringSliceFlag{Name: "setup", Usage: "`CMD` prepares the clean room", Destination: &f.setup},
		&cli.StringFlag{Name: "risk", Usage: "`low|medium|high`; default: low; high is refused", Destination: &f.risk},
	}
}

// check refuses a command line that gives a contract twice or not at all.
func (f *contractFlags) check() error {
	parts := f.title != "" || f.objective != "" || len(f.allow)+len(f.lock)+len(f.forbid)+len(f.accept)+len(f.verify)+len(f.setup) > 0 || f.risk != ""
	switch {
	case f.task != "" && parts:
		return usagef("--task and the parts of a contract exclude each other")
	case f.task == "" && !parts:
		return usagef("--task FILE is required, or --title and the other parts of a contract")
	}
	if f.task == "" {
		var missing []string
		for _, part := range []struct {
			flag  string
			given bool
		}{
			{"--title", f.title != ""},
			{"--allow", len(f.allow) > 0},
			{"--accept", len(f.accept) > 0},
			{"--verify", len(f.verify) > 0},
		} {
			if !part.given {
				missing = append(missing, part.flag)
			}
		}
		if len(missing) > 0 {
			return usagef("a contract in parts also needs %s", strings.Join(missing, ", "))
		}
	}
	for name, commands := range map[string][]string{"--verify": f.verify, "--setup": f.setup} {
		for _, command := range commands {
			if _, err := argv(command); err != nil {
				return usagef("%s %q: %v", name, command, err)
			}
		}
	}
	return nil
}

// read returns the contract and the bytes that the ledger keeps of it.
func (f *contractFlags) read(ctx context.Context, e *env) (*schemas.Contract, []byte, error) {
	raw, err := f.bytes(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	contract, err := schemas.ParseContract(raw)
	return contract, raw, err
}

func (f *contractFlags) bytes(ctx context.Context, e *env) ([]byte, error) {
	if f.task != "" {
		raw, err := e.readInput(ctx, f.task)
		return raw, missingFile(err, "git spot template code > FILE writes a contract to fill in")
	}
	c := schemas.Contract{
		SchemaVersion: schemas.Version, Title: f.title, Objective: f.objective, Domain: "general", Risk: schemas.Level(f.risk),
		AllowedPaths: f.allow, ForbiddenPaths: f.forbid, LockedPaths: f.lock,
	}
	if c.Objective == "" {
		c.Objective = f.title
	}
	if c.Risk == "" {
		c.Risk = schemas.LevelLow
	}
	for i, text := range f.accept {
		c.Acceptance = append(c.Acceptance, schemas.Criterion{ID: fmt.Sprintf("A%d", i+1), Text: text})
	}
	for i, command := range f.verify {
		words, err := argv(command)
		if err != nil {
			return nil, err
		}
		c.Verification = append(c.Verification, schemas.Check{ID: fmt.Sprintf("V%d", i+1), Argv: words})
	}
	for _, command := range f.setup {
		words, err := argv(command)
		if err != nil {
			return nil, err
		}
		c.Setup = append(c.Setup, schemas.Setup{Argv: words})
	}
	return schemas.MarshalIndent(c)
}

// argv splits a command by the quoting rules of a shell.
func argv(command string) ([]string, error) {
	words, err := shlex.Split(command)
	if err != nil {
		return nil, fmt.Errorf("unbalanced quotes") //nolint:err113 // shown, never compared
	}
	if len(words) == 0 || strings.TrimSpace(words[0]) == "" {
		return nil, fmt.Errorf("no command in it") //nolint:err113 // shown, never compared
	}
	return words, nil
}
