package workers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/git-spot/git-spot/internal/proc"
)

// probeTime is how long a program may take to say its version. Shims that wait for a terminal, or leave
// their work to a background process, take for ever.
const probeTime = 3 * time.Second

// find returns the absolute path of p. Names that depend on the current folder are not looked up: the
// worktree, where the program will run, is not where the user meant.
func find(p Program, getenv func(string) string) (string, error) {
	name := p.Name
	if p.Companion {
		return proc.Companion(name)
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		name = filepath.Join(getenv("HOME"), rest)
	}
	if filepath.IsAbs(name) {
		// LookPath with this one folder is the check that it can be executed.
		return proc.LookPath(filepath.Base(name), filepath.Dir(name))
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return "", errors.New("neither a name to be found on PATH nor an absolute path")
	}
	path := searchPath(getenv)
	for _, place := range p.Places {
		if rest, ok := strings.CutPrefix(place, "~/"); ok {
			place = filepath.Join(getenv("HOME"), rest)
		}
		path += string(filepath.ListSeparator) + place
	}
	return proc.LookPath(name, path)
}

var versionNumber = regexp.MustCompile(`\d+\.\d+(?:\.\d+)?(?:-[0-9A-Za-z.-]+)?`)

// probe asks the program for its version and holds it against the constraint. It leaves no process
// behind.
func (p Program) probe(ctx context.Context, path string, t Turn) (string, error) {
	if p.VersionArgs == nil {
		return "", nil
	}
	if t.Home == "" {
		t.Home, t.Tmp = "/nonexistent", "/tmp"
	}
	out := proc.NewCapture(4096, 0)
	result, err := proc.Supervise(ctx, proc.Command{
		Argv: append([]string{path}, p.VersionArgs...), Dir: "/", Env: environment(t, Invocation{}),
		Stdout: out, Stderr: out, Wall: probeTime, Grace: time.Second,
	})
	if err != nil {
		return "", err
	}
	version := versionNumber.FindString(string(out.Head()))
	switch {
	case result.End == proc.EndTimedOut:
		return "", fmt.Errorf("%s does not say its version within %s", path, probeTime)
	case result.End != proc.EndExited || result.Exit != 0 || version == "":
		return "", fmt.Errorf("%s does not say its version (exit status %d)", path, result.Exit)
	case p.Constraint == "":
		return version, nil
	}
	constraint, err := semver.NewConstraint(p.Constraint)
	if err != nil {
		return "", err
	}
	number, err := semver.NewVersion(version)
	if err != nil || !constraint.Check(number) {
		return "", fmt.Errorf("%s has version %s, but %s is needed", path, version, p.Constraint)
	}
	return version, nil
}
