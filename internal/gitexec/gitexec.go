// Package gitexec is the only caller of the git program. It finds the repository once, through git
// itself, and from then on names it explicitly in every call, so that no call ever discovers a
// repository from the folder it happens to run in.
//
// Every call is hardened in one place, Repo.command: no hooks, fsmonitor, external diff, textconv,
// pager, editor, prompt, replace refs, optional locks or background maintenance. The user's other
// configuration stays in force (line endings, filters, identity, credentials).
package gitexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/git-spot/git-spot/internal/fault"
	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
)

// Repo is one repository, seen from one checkout or from none. It does not change after Discover and
// is safe for concurrent use.
type Repo struct {
	Program      string   // absolute path of git
	Version      string   // of that program, for example 2.39.5
	GitDir       string   // absolute; that of a linked worktree is its own
	CommonDir    string   // absolute; what all worktrees share: objects, refs, config
	WorkTree     string   // absolute path of the checkout's top folder, empty if there is none
	Bare         bool     // no checkout belongs to GitDir
	Shallow      bool     // history is cut off
	ObjectFormat string   // sha1 or sha256
	Format       int      // core.repositoryFormatVersion
	Extensions   []string // extensions.* of the repository's configuration, lower case, without the prefix, sorted
	Shared       string   // core.sharedRepository as written, empty if it is not set

	env      []string // of every call, before what the call adds
	caller   []string // configuration that the caller gave by git -c or GIT_CONFIG_COUNT, as environment
	identity []string // the part of it that every call gets, k=v
	config   []ConfigEntry
}

// Call is one run of git.
type Call struct {
	// Args is the subcommand and its arguments. Values that others chose come after -- or --end-of-options.
	Args []string
	// Stdin is what git reads; nil is empty.
	Stdin io.Reader
	// Index is the index file to use; empty is the one of GitDir.
	Index string
	// WorkTree is the top folder of the work tree and the working directory. Empty: the call has no work
	// tree, and git refuses a subcommand that needs one, rather than touch the user's checkout.
	WorkTree string
	// Dir is the working directory. Empty is WorkTree, or / if that is empty too.
	Dir string
	// Config is configuration for this call, k=v. It wins over the user's and over the hardening.
	Config []string
	// Env is added to the environment, k=v, and wins over what is there.
	Env []string
	// Signing lets the call sign if the user's configuration says so. Otherwise it does not.
	Signing bool
	// Timeout is the longest time the call may take; zero leaves it to ctx.
	Timeout time.Duration
}

// Error says that git ran and refused, or that it could not be run at all. Whether it wrote anything
// depends on the subcommand.
type Error struct {
	Args   []string // as in Call
	Status int      // exit status; -1 if a signal or the time limit ended git, or if it did not start
	Stderr string   // what git said there, head and tail if it said much
	Err    error    // why git did not start or was ended; nil if it exited by itself
}

// Error returns git's own lines that begin with "fatal:" or "error:", on one line.
func (e *Error) Error() string {
	text := "git"
	if len(e.Args) > 0 {
		text += " " + e.Args[0]
	}
	var said []string
	for line := range strings.Lines(e.Stderr) {
		line = strings.TrimSpace(line)
		for _, prefix := range []string{"fatal: ", "error: "} {
			if rest, ok := strings.CutPrefix(line, prefix); ok && len(said) < 3 {
				said = append(said, rest)
			}
		}
	}
	switch {
	case e.Err != nil:
		return text + ": " + e.Err.Error()
	case len(said) > 0:
		return text + ": " + strings.Join(said, "; ")
	}
	return fmt.Sprintf("%s: exit status %d", text, e.Status)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Code returns DISK_FULL if git could not write for lack of space, else INTERNAL: the callers know
// which refusals they expect.
func (e *Error) Code() schemas.Code {
	if strings.Contains(e.Stderr, "No space left on device") || strings.Contains(e.Stderr, "Disk quota exceeded") {
		return schemas.CodeDiskFull
	}
	return schemas.CodeInternal
}

var lockLine = regexp.MustCompile(`Unable to create '(.+\.lock)': File exists`)

// Lock is the path of the lock file that was in git's way, or empty. The file may be gone by now.
func (e *Error) Lock() string {
	if m := lockLine.FindStringSubmatch(e.Stderr); m != nil {
		return filepath.Clean(m[1])
	}
	return ""
}

var elsewhereLine = regexp.MustCompile(`cannot lock ref '(.+)': (?:is at |reference already exists|unable to resolve reference )`)

// Elsewhere is the ref that was not where a compare-and-swap expected it, or empty. By now it may be there.
func (e *Error) Elsewhere() string {
	if m := elsewhereLine.FindStringSubmatch(e.Stderr); m != nil {
		return m[1]
	}
	return ""
}

// Run runs git and returns its standard output. The error is *Error, or the cause of ctx's end.
func (r *Repo) Run(ctx context.Context, c Call) ([]byte, error) {
	var out bytes.Buffer
	err := r.Stream(ctx, c, &out)
	return out.Bytes(), err
}

// Stream is Run with git's standard output going to w while git runs. An error may come after part of
// the output.
func (r *Repo) Stream(ctx context.Context, c Call, w io.Writer) error {
	cmd := r.command(ctx, c)
	cmd.Stdout = w
	_, err := r.exec(ctx, c.Args, cmd)
	return err
}

// exec runs one git and returns its standard error.
func (r *Repo) exec(ctx context.Context, args []string, cmd proc.Command) (stderr string, err error) {
	if err := fault.At(fault.GitCall, args[0]); err != nil {
		return "", err
	}
	said := proc.NewCapture(4<<10, 4<<10)
	cmd.Stderr = said
	res, err := proc.Exec(ctx, cmd)
	stderr = string(said.Head()) + string(said.Tail())
	switch {
	case err == nil && res.End == proc.EndExited && res.Exit == 0:
		return stderr, nil
	case ctx.Err() != nil:
		return stderr, fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	case err != nil:
		res.Exit = -1 // whatever it was: not all input or output has passed
	case res.End == proc.EndTimedOut:
		res.Exit, err = -1, fmt.Errorf("not done after %v", cmd.Wall)
	case res.Signal != "":
		err = fmt.Errorf("ended by %s", res.Signal)
	}
	return stderr, &Error{Args: args, Status: res.Exit, Stderr: stderr, Err: err}
}

// hardening is configuration of every call. It is a second wall: the first is that no call runs in
// a repository that a worker can configure.
var hardening = []string{
	"core.fsmonitor=false",
	"core.hooksPath=/dev/null", // never empty: that is the working directory
	"gc.auto=0",
	"maintenance.auto=false",
	"submodule.recurse=false",
	"log.showSignature=false",
	"color.ui=false",
	"protocol.ext.allow=never",
}

// command is where every call gets its hardening.
func (r *Repo) command(ctx context.Context, c Call) proc.Command {
	argv := []string{r.Program}
	add := func(config ...string) {
		for _, kv := range config {
			argv = append(argv, "-c", kv)
		}
	}
	add(r.identity...)
	add(hardening...)
	if !c.Signing {
		add("commit.gpgSign=false", "tag.gpgSign=false")
	}
	if Synced(ctx) {
		add("core.fsync=all", "core.fsyncMethod=fsync")
	}
	add(c.Config...)
	argv = append(argv, c.Args[0])
	switch c.Args[0] {
	case "diff", "diff-tree", "diff-index", "diff-files", "log", "show":
		argv = append(argv, "--no-ext-diff", "--no-textconv")
	}
	argv = append(argv, c.Args[1:]...)

	env := append(slices.Clip(r.env), "GIT_DIR="+r.GitDir)
	if c.WorkTree != "" {
		env = append(env, "GIT_WORK_TREE="+c.WorkTree)
	} else {
		env = append(env, "GIT_IMPLICIT_WORK_TREE=0")
	}
	if c.Index != "" {
		env = append(env, "GIT_INDEX_FILE="+c.Index)
	}
	dir := c.Dir
	if dir == "" {
		dir = c.WorkTree
	}
	if dir == "" {
		// A working directory inside the work tree would become a prefix of paths; / never is one.
		dir = "/"
	}
	return proc.Command{Argv: argv, Dir: dir, Env: append(env, c.Env...), Stdin: c.Stdin, Wall: c.Timeout}
}

// Linked returns the same repository seen from another checkout of it.
func (r *Repo) Linked(gitDir, workTree string) *Repo {
	l := *r
	l.GitDir, l.WorkTree, l.Bare = gitDir, workTree, false
	return &l
}

// ConfigEntry is one line of configuration.
type ConfigEntry struct {
	Key    string // section and variable in lower case, the subsection as written
	Value  string // "true" for a key without a value, as git reads it
	Scope  string // system, global, local, worktree or command
	Origin string // for example file:/home/u/.gitconfig
}

// Config returns the configuration as it is now, in git's order: of two values for one key the later
// wins. Of what the caller gave on the command line (git -c k=v spot, GIT_CONFIG_COUNT) it has the
// spot.* keys and the identity; the rest is not in force in git spot's calls either.
func (r *Repo) Config(ctx context.Context) ([]ConfigEntry, error) {
	out, err := r.Run(ctx, Call{Args: configArgs, Env: r.caller})
	if err != nil {
		return nil, err
	}
	entries, err := parseConfig(out)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(entries, notInForce), nil
}

// ConfigFiles returns what each of files, absolute paths, holds, with what it includes; nothing for one that is
// not there. If git cannot read one of them, the error is *Error and nothing is known of any.
func (r *Repo) ConfigFiles(ctx context.Context, files []string) ([][]ConfigEntry, error) {
	// One git reads them all: each is an include of what it is given on standard input, in this order.
	const top = "standard input:"
	var all strings.Builder
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	for _, file := range files {
		all.WriteString("[include]\n\tpath = \"" + quote.Replace(file) + "\"\n")
	}
	out, err := r.Run(ctx, Call{Args: append(slices.Clip(configArgs), "--includes", "--file", "-"), Stdin: strings.NewReader(all.String())})
	if err != nil {
		return nil, err
	}
	entries, err := parseConfig(out)
	if err != nil {
		return nil, err
	}
	found, at := make([][]ConfigEntry, len(files)), -1
	for _, e := range entries {
		if e.Origin == top {
			at++
			continue
		}
		if at < 0 || at >= len(files) {
			return nil, errors.New("git config: an entry of no file")
		}
		found[at] = append(found[at], e)
	}
	return found, nil
}

// Discovered is what Config would have returned when the repository was found. It does not start git, and
// is not to be changed.
func (r *Repo) Discovered() []ConfigEntry { return r.config }

func notInForce(e ConfigEntry) bool {
	return e.Scope == "command" && !strings.HasPrefix(e.Key, "spot.") && !isIdentity(e.Key)
}

var configArgs = []string{"config", "--null", "--list", "--show-origin", "--show-scope"}

// parseConfig reads scope NUL origin NUL key [LF value] NUL.
func parseConfig(out []byte) ([]ConfigEntry, error) {
	if len(out) == 0 {
		return nil, nil
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(fields)%3 != 0 {
		return nil, errors.New("git config: output is not a list of scope, origin and entry")
	}
	var entries []ConfigEntry
	for f := range slices.Chunk(fields, 3) {
		key, value, ok := strings.Cut(f[2], "\n")
		if !ok {
			value = "true"
		}
		entries = append(entries, ConfigEntry{Key: key, Value: value, Scope: f[0], Origin: f[1]})
	}
	return entries, nil
}

// isIdentity says which configuration from the command line every call gets: who the user is. It
// names nothing that git would run.
func isIdentity(key string) bool {
	switch key {
	case "commit.gpgsign", "gpg.format":
		return true
	}
	for _, section := range []string{"user.", "author.", "committer."} {
		if strings.HasPrefix(key, section) {
			return true
		}
	}
	return false
}

type syncKey struct{}

// WithSync returns a context under which git flushes everything it writes to the disk before it ends.
func WithSync(ctx context.Context) context.Context { return context.WithValue(ctx, syncKey{}, true) }

// Synced reports whether ctx comes from WithSync.
func Synced(ctx context.Context) bool { return ctx.Value(syncKey{}) != nil }
