// Package gitexec is the only caller of the git program. It finds the repository once, through git
// itself, and from then on names it explicitly in every call, so that no call ever discovers a
// repository from the folder it happens to run in.
package gitexec

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"

	"github.com/git-spot/git-spot/schemas"
)

// Options says where to look for the repository.
type Options struct {
	// Dir is where the search starts: an absolute path, the working directory of the command.
	Dir string
	// GitDir is the value of --git-dir. Empty means the caller's GIT_DIR, else a search upwards from Dir.
	GitDir string
	// Program is the absolute path of git. Empty means the first git in PATH.
	Program string
	// Getenv reads the caller's environment.
	Getenv func(string) string
}

// Repo is one repository, seen from one checkout or from none. It is immutable and safe for concurrent use.
type Repo struct {
	Program      string // absolute path of git
	Version      string // of that program, for example 2.39.5
	GitDir       string // absolute; of a linked worktree its own
	CommonDir    string // absolute; what all worktrees share: objects, refs, config
	WorkTree     string // absolute path of the checkout's top folder, empty if there is none
	Bare         bool
	Shallow      bool
	ObjectFormat string   // sha1 or sha256
	Format       int      // core.repositoryFormatVersion
	Extensions   []string // extensions.* of the repository's configuration, lower case, without the prefix, sorted
}

// Call is one run of git.
type Call struct {
	Args     []string // subcommand and its arguments; foreign values after -- or --end-of-options
	Stdin    io.Reader
	Index    string        // GIT_INDEX_FILE; empty is the index of GitDir
	WorkTree string        // GIT_WORK_TREE and working directory; empty: the call has no work tree and cannot touch one
	Dir      string        // working directory; empty is WorkTree, else /
	Config   []string      // k=v, as by git -c, after our own
	Env      []string      // k=v, after our own
	Signing  bool          // the call may sign, as the user's configuration says
	Timeout  time.Duration // wall time; zero is no limit but ctx
}

// Error says that git ended with another status than 0.
type Error struct {
	Args   []string // as in Call
	Status int      // exit status, -1 if a signal or the time limit ended it
	Stderr string   // the last 8 KiB
}

func (e *Error) Error() string { return "git" }

// Code returns DISK_FULL if that is what git said, else INTERNAL.
func (e *Error) Code() schemas.Code { return schemas.CodeInternal }

// ConfigEntry is one line of configuration.
type ConfigEntry struct {
	Key    string // section and variable in lower case, the subsection as written
	Value  string // "true" for a key without a value, as git reads it
	Scope  string // system, global, local, worktree or command
	Origin string // for example file:/home/u/.gitconfig
}

var errStub = errors.New("not written yet")

// Discover finds the repository that the caller means.
func Discover(ctx context.Context, o Options) (*Repo, error) { return nil, errStub }

// Run runs git and returns its standard output. The error is *Error if git refused.
func (r *Repo) Run(ctx context.Context, c Call) ([]byte, error) { return nil, errStub }

// Stream runs git with its standard output going to w.
func (r *Repo) Stream(ctx context.Context, c Call, w io.Writer) error { return errStub }

// Start starts a long-lived git that answers requests. c.Stdin must be nil.
func (r *Repo) Start(ctx context.Context, c Call) (*Pipe, error) { return nil, errStub }

// Pipe is a running git. It is not safe for concurrent use.
type Pipe struct {
	In  io.Writer
	Out *bufio.Reader
}

// Close ends standard input, waits for git and returns *Error if it ended badly.
func (p *Pipe) Close() error { return nil }

// Config returns the configuration as it is now, in git's order: a later entry wins.
func (r *Repo) Config(ctx context.Context) ([]ConfigEntry, error) { return nil, errStub }

// Linked returns the same repository seen from another checkout of it.
func (r *Repo) Linked(gitDir, workTree string) *Repo {
	l := *r
	l.GitDir, l.WorkTree = gitDir, workTree
	return &l
}

// WithSync makes git calls under the returned context flush what they write to the disk.
func WithSync(ctx context.Context) context.Context { return ctx }
