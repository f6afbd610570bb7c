package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/flow"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// session is the repository of one command, opened once.
type session struct {
	repo   *gitexec.Repo
	ledger *gitstate.Ledger

	// config reads the effective configuration. It is *config.Error if any spot.* key is wrong; commands
	// that only read runs do not ask for it, so that a typing error never hides a run.
	config func() (*config.Config, error)
}

// open opens the repository that -C, --git-dir, the environment or the working directory names.
// The caller closes the session.
func (e *env) open(ctx context.Context) (*session, error) {
	repo, err := e.discover(ctx)
	if err != nil {
		return nil, err
	}
	ledger, err := gitstate.Open(ctx, repo, e.now)
	if err != nil {
		return nil, err
	}
	s := &session{repo: repo, ledger: ledger}
	s.config = sync.OnceValues(func() (*config.Config, error) { return config.Parse(repo.Discovered()) })
	ledger.MaxRevisions = func() (int, bool) {
		cfg, err := s.config()
		if err != nil {
			return 0, false
		}
		return cfg.MaxRevisions, true
	}
	return s, nil
}

func (e *env) discover(ctx context.Context) (*gitexec.Repo, error) {
	dir, err := filepath.Abs(e.global.dir)
	if err != nil {
		return nil, &codedError{
			code: schemas.CodeNotARepository, message: "the working directory has gone: " + err.Error(),
			hints: []string{"run it in a repository, or name one with -C DIR"}, err: err,
		}
	}
	return gitexec.Discover(ctx, gitexec.Options{Dir: dir, GitDir: e.global.gitDir, Getenv: e.getenv})
}

func (s *session) close() { _ = s.ledger.Close() }

// flow is for what package flow reads of a run without a configuration.
func (s *session) flow() *flow.Session { return &flow.Session{Repo: s.repo, Ledger: s.ledger} }

// load resolves word (see runWord) and reads the run.
func (s *session) load(ctx context.Context, word string) (*gitstate.Run, error) {
	id, err := s.ledger.Resolve(ctx, word)
	if err != nil {
		return nil, err
	}
	return s.ledger.Load(ctx, id)
}

// next is the command that is due for a run, ready to be run; "" if none is.
func (s *session) next(ctx context.Context, run *gitstate.Run) string {
	return run.Due(s.ledger.Interrupted(ctx, run))
}

// lost says that the worktree of a run should be there and is not. Only a new turn needs it.
func lost(run *gitstate.Run) bool {
	if run.State.Worktree == "" || run.State.State == schemas.StateCleaned {
		return false
	}
	_, err := os.Lstat(run.State.Worktree)
	return errors.Is(err, os.ErrNotExist)
}

// idFlag is --id of a command whose ArgsUsage is "[ID]".
func idFlag(word *string) cli.Flag {
	return &cli.StringFlag{Name: "id", Usage: "the run, by `ID` or a unique prefix of it", Destination: word}
}

// runWord returns the id or prefix that a command line names, by --id or as the argument. Nothing has
// been opened yet: a word that no id can begin with is a usage error wherever the command is run.
func runWord(c *cli.Command, flag string) (string, error) {
	word := flag
	if argument := c.Args().First(); c.Args().Present() {
		if c.IsSet("id") && flag != argument {
			return "", usagef("two run ids: %q and %q", flag, argument)
		}
		word = argument
	}
	if word == "" {
		return "", usagef("%s needs a run: --id ID", c.Name)
	}
	if _, err := gitstate.ParseRunID(word); err == nil {
		return word, nil
	}
	// A prefix may end where an id may not, in "." or ".lock".
	if _, err := gitstate.ParseRunID(word + "0"); err != nil {
		return "", usagef("%q is not a run id", word)
	}
	return word, nil
}

// maxInput is the largest contract or review in bytes. They are written by hand or by a model; what
// is longer is another file.
const maxInput = 1 << 20

// readInput reads the file that a flag names, "-" being standard input. A relative name is relative
// to -C, as it is for git. The error has code FILE_NOT_FOUND.
//
// Where it has to be waited for, it is waited for only until ctx ends.
func (e *env) readInput(ctx context.Context, name string) ([]byte, error) {
	type input struct {
		data []byte
		err  error
	}
	read := make(chan input, 1)
	go func() { // may wait for a writer for ever; then it ends with the process
		data, err := e.readNow(name)
		read <- input{data, err}
	}()
	select {
	case in := <-read:
		return in.data, in.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (e *env) readNow(name string) ([]byte, error) {
	if name == "-" {
		return readCapped(e.in, "standard input")
	}
	path := name
	if e.global.dir != "" && !filepath.IsAbs(name) {
		path = filepath.Join(e.global.dir, name)
	}
	f, err := os.Open(path) // may be a pipe: --task <(jq ...)
	if err != nil {
		return nil, fileError(name, err)
	}
	defer f.Close() //nolint:errcheck // read only
	return readCapped(f, name)
}

func readCapped(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return nil, fileError(name, err)
	}
	if len(data) > maxInput {
		return nil, fileError(name, fmt.Errorf("larger than %d bytes", maxInput))
	}
	return data, nil
}

func fileError(name string, err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	return &codedError{code: schemas.CodeFileNotFound, message: fmt.Sprintf("cannot read %q: %v", name, err), paths: []string{name}, err: err}
}
