package gitexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/Masterminds/semver/v3"

	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
)

// minVersion is the oldest git with all that is used: core.fsync, cat-file --batch-command and
// worktree list -z came with 2.36.
var minVersion = semver.New(2, 36, 0, "", "")

// Options says where to look for the repository.
type Options struct {
	// Dir is where the search starts: the working directory of the command. Empty is that of the process.
	Dir string
	// GitDir is the value of --git-dir, relative to Dir. Empty means the caller's GIT_DIR, else a search
	// upwards from Dir.
	GitDir string
	// Program is the absolute path of git. Empty means the first git in the caller's PATH.
	Program string
	// Getenv reads the caller's environment. Nil is os.Getenv.
	Getenv func(string) string
}

// RepoError says that there is no repository here that can be used. Nothing was written.
type RepoError struct {
	Dir  string // where the search started, or what git found there
	Said string // git's words
	code schemas.Code
}

func (e *RepoError) Error() string {
	switch e.code {
	case schemas.CodeRepoOwner:
		return fmt.Sprintf("git does not trust the repository at %q: %s", e.Dir, e.Said)
	case schemas.CodeRepoUnsupported:
		return fmt.Sprintf("git cannot read the repository at %q: %s", e.Dir, e.Said)
	}
	return fmt.Sprintf("no git repository at %q: %s", e.Dir, e.Said)
}

// Code returns NOT_A_REPOSITORY, REPO_OWNER or REPO_UNSUPPORTED.
func (e *RepoError) Code() schemas.Code { return e.code }

// ProgramError says that there is no git program, or one that cannot be used.
type ProgramError struct {
	Program string // empty if none was found
	Version string // empty if it did not say
	Err     error  // why it was not found or did not start, or nil
}

func (e *ProgramError) Error() string {
	switch {
	case e.Program == "":
		return "there is no git program in PATH"
	case e.Version == "":
		return fmt.Sprintf("%s does not say its version: %v", e.Program, e.Err)
	}
	return fmt.Sprintf("%s is git %s; %s or newer is needed", e.Program, e.Version, minVersion)
}

// Unwrap returns the cause.
func (e *ProgramError) Unwrap() error { return e.Err }

// Code returns REPO_UNSUPPORTED: the git on PATH cannot serve.
func (e *ProgramError) Code() schemas.Code { return schemas.CodeRepoUnsupported }

// Discover finds the repository that the caller means, as git would: --git-dir, then GIT_DIR, then a
// search upwards from Dir. This is the only place that looks at the caller's GIT_DIR and its like, so
// that it does the same from a hook (where git sets them) as from a shell. The error is *RepoError,
// *ProgramError or the cause of ctx's end; nothing is written in any case.
func Discover(ctx context.Context, o Options) (*Repo, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return nil, &RepoError{Dir: ".", Said: err.Error(), code: schemas.CodeNotARepository}
		}
		o.Dir = wd
	}
	if info, err := os.Stat(o.Dir); err != nil || !info.IsDir() {
		return nil, &RepoError{Dir: o.Dir, Said: "no such folder", code: schemas.CodeNotARepository}
	}
	if o.Program == "" {
		program, err := proc.LookPath("git", o.Getenv("PATH"))
		if err != nil {
			return nil, &ProgramError{Err: err}
		}
		o.Program = program
	}
	r := &Repo{Program: o.Program, env: environment(o.Getenv), caller: callerConfig(o.Getenv)}

	look := &lookup{repo: r, dir: o.Dir, named: o.GitDir, env: slices.Concat(r.caller, callerPlaces(o.Getenv))}
	if o.GitDir != "" {
		look.env = append(look.env, "GIT_DIR="+o.GitDir)
	} else {
		look.named = o.Getenv("GIT_DIR")
	}
	var version, config []byte
	var place *place
	var versionErr, configErr, placeErr error
	var wg sync.WaitGroup
	wg.Go(func() { version, versionErr = look.git(ctx, "version") })
	wg.Go(func() { config, configErr = look.git(ctx, configArgs...) })
	wg.Go(func() { place, placeErr = look.place(ctx) })
	wg.Wait()

	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := r.setVersion(version, versionErr); err != nil {
		return nil, err
	}
	if err := errors.Join(placeErr, configErr); err != nil {
		return nil, look.classify(err)
	}
	entries, err := parseConfig(config)
	if err != nil {
		return nil, err
	}
	r.config = slices.DeleteFunc(slices.Clone(entries), notInForce)
	r.setConfig(entries)
	r.GitDir, r.CommonDir, r.WorkTree = place.gitDir, place.commonDir, place.workTree
	r.Bare, r.Shallow, r.ObjectFormat = place.bare, place.shallow, place.objectFormat
	if look.named != "" {
		if o.Getenv("GIT_WORK_TREE") == "" && r.WorkTree != "" {
			r.WorkTree = look.checkout(ctx, place)
		}
	}
	return r, nil
}

var versionText = regexp.MustCompile(`^git version (\d+\.\d+(?:\.\d+)?)`)

func (r *Repo) setVersion(out []byte, err error) error {
	m := versionText.FindSubmatch(out)
	if m == nil {
		if err == nil {
			err = fmt.Errorf("it printed %q", out[:min(len(out), 80)])
		}
		return &ProgramError{Program: r.Program, Err: err}
	}
	r.Version = string(m[1])
	if v, err := semver.NewVersion(r.Version); err != nil || v.LessThan(minVersion) {
		return &ProgramError{Program: r.Program, Version: r.Version, Err: err}
	}
	return nil
}

func (r *Repo) setConfig(entries []ConfigEntry) {
	for _, e := range entries {
		name, isExtension := strings.CutPrefix(e.Key, "extensions.")
		switch {
		case e.Scope == "command" && isIdentity(e.Key):
			r.identity = append(r.identity, e.Key+"="+e.Value)
		case e.Scope == "command":
		case e.Key == "core.sharedrepository":
			r.Shared = e.Value
		case e.Scope != "local":
		case e.Key == "core.repositoryformatversion":
			r.Format, _ = strconv.Atoi(e.Value) // git has read it already
		case isExtension:
			r.Extensions = append(r.Extensions, name)
		}
	}
	slices.Sort(r.Extensions)
	r.Extensions = slices.Compact(r.Extensions)
}

// lookup is a search for the repository, with the caller's own idea of where it is.
type lookup struct {
	repo  *Repo
	dir   string
	named string // by --git-dir or GIT_DIR, seen from dir; empty if git is to search
	env   []string
}

func (l *lookup) git(ctx context.Context, args ...string) ([]byte, error) {
	var out bytes.Buffer
	_, err := l.repo.exec(ctx, args, proc.Command{
		Argv: append([]string{l.repo.Program}, args...), Dir: l.dir, Env: slices.Concat(l.repo.env, l.env), Stdout: &out,
	})
	return out.Bytes(), err
}

// place is where git says that the repository is.
type place struct {
	gitDir, commonDir, workTree string
	bare, shallow               bool
	objectFormat                string
}

// mark is an unknown option, which rev-parse repeats. It ends a path, which may have a line feed in it.
const mark = "--="

// place asks git where the repository is. The top folder comes last, because git ends with an error
// where there is none.
func (l *lookup) place(ctx context.Context) (*place, error) {
	out, err := l.git(ctx, "rev-parse", "--path-format=absolute", "--git-dir", mark, "--git-common-dir", mark,
		"--is-bare-repository", "--is-inside-work-tree", "--is-shallow-repository", "--show-object-format", mark, "--show-toplevel")
	parts := strings.Split(string(out), "\n"+mark+"\n")
	if len(parts) != 4 {
		if err == nil {
			err = fmt.Errorf("git rev-parse printed %q", out)
		}
		return nil, err
	}
	flags := strings.Split(parts[2], "\n")
	if len(flags) != 4 {
		return nil, fmt.Errorf("git rev-parse printed %q", out)
	}
	p := &place{
		gitDir: parts[0], commonDir: parts[1], workTree: strings.TrimSuffix(parts[3], "\n"),
		bare: flags[0] == "true", shallow: flags[2] == "true", objectFormat: flags[3],
	}
	if err != nil && (flags[1] == "true" || ctx.Err() != nil) {
		return nil, err
	}
	return p, nil
}

// checkout returns the top folder of the checkout that belongs to p. With GIT_DIR and without
// GIT_WORK_TREE git takes the working directory for it, which is right at the top of a checkout (where
// hooks run) and wrong anywhere else.
func (l *lookup) checkout(ctx context.Context, p *place) string {
	dirs := []string{l.dir}
	if filepath.Base(p.gitDir) == ".git" {
		dirs = append(dirs, filepath.Dir(p.gitDir))
	}
	for _, dir := range dirs {
		search := &lookup{repo: l.repo, dir: dir, env: l.repo.caller}
		if found, err := search.place(ctx); err == nil && found.gitDir == p.gitDir {
			return found.workTree
		}
	}
	if real, err := filepath.EvalSymlinks(l.dir); err == nil && p.workTree != real {
		return p.workTree // core.worktree
	}
	return ""
}

// classify turns git's refusal to find a repository into *RepoError.
func (l *lookup) classify(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	if _, ok := errors.AsType[*proc.StartError](err); ok {
		return &ProgramError{Program: l.repo.Program, Err: err}
	}
	said := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(e.Stderr, t) })
	}
	code, dir := schemas.CodeRepoUnsupported, l.dir
	switch {
	case said("detected dubious ownership", "unsafe repository", "cannot use bare repository"):
		code = schemas.CodeRepoOwner
	case said("not a git repository", "Unable to read current working directory",
		"invalid gitfile format", "no path in gitfile", "too large to be a .git file"):
		code = schemas.CodeNotARepository
		if l.named != "" {
			dir = l.named
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(l.dir, dir)
			}
		}
	}
	text := strings.TrimPrefix(strings.TrimSpace(e.Stderr), "fatal: ")
	if first, rest, ok := strings.Cut(text, "\n"); ok {
		text = first
		if strings.HasSuffix(first, ":") { // the names of extensions are on lines of their own
			text += " " + strings.Join(strings.Fields(rest), " ")
		}
	}
	if _, rest, ok := strings.Cut(text, "dubious ownership in repository at '"); ok && strings.HasSuffix(rest, "'") {
		dir = strings.TrimSuffix(rest, "'") // what git can be told to trust is its top, not a folder in it
	}
	return &RepoError{Dir: dir, Said: text, code: code}
}

// passed are the GIT_* variables of the caller that every call gets: where the user's configuration
// is, who the user is and whom to trust on the network. Every other one is dropped.
var passed = []string{
	"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
	"GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
}

// environment is what every call gets: the caller's, without GIT_*, and our own.
func environment(getenv func(string) string) []string {
	var env []string
	seen := map[string]bool{}
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "GIT_") && !slices.Contains(passed, name) {
			continue
		}
		if v := getenv(name); v != "" || value == "" {
			env = append(env, name+"="+v)
		}
		seen[name] = true
	}
	for _, name := range passed {
		if v := getenv(name); v != "" && !seen[name] {
			env = append(env, name+"="+v)
		}
	}
	return append(env,
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C",
		"GIT_GRAFT_FILE=/dev/null/none", // of a file that is there, git says that it is deprecated
		// Nobody is there to answer. An empty GIT_ASKPASS also stands before core.askPass and SSH_ASKPASS.
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS_REQUIRE=never", "GCM_INTERACTIVE=never",
		"GIT_EDITOR=:", "GIT_SEQUENCE_EDITOR=:", "GIT_PAGER=cat",
	)
}

// callerPlaces are the variables by which the caller, or the git that runs us as a hook, says where
// the repository is.
func callerPlaces(getenv func(string) string) []string {
	return present(getenv, "GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE",
		"GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
}

// callerConfig are the variables by which git -c k=v spot, and GIT_CONFIG_COUNT, hand configuration on.
// Only the calls that look for the repository (safe.directory) and read configuration (spot.*) get them.
func callerConfig(getenv func(string) string) []string {
	env := present(getenv, "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT")
	count, _ := strconv.Atoi(getenv("GIT_CONFIG_COUNT"))
	for i := range min(count, 1000) {
		key, value := fmt.Sprintf("GIT_CONFIG_KEY_%d", i), fmt.Sprintf("GIT_CONFIG_VALUE_%d", i)
		env = append(env, key+"="+getenv(key), value+"="+getenv(value))
	}
	return env
}

func present(getenv func(string) string, names ...string) []string {
	var env []string
	for _, name := range names {
		if v := getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}
