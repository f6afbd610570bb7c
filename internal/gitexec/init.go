package gitexec

import (
	"bytes"
	"context"
	"os"
	"strings"

	"github.com/git-spot/git-spot/internal/proc"
)

// Init makes a repository with an unborn branch main in the folder o.Dir and opens it. Template hooks
// are left out, and whatever repository the caller's environment names is ignored. On failure the
// folder may hold a part of a git directory.
func Init(ctx context.Context, o Options) (*Repo, error) {
	getenv := o.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	o.GitDir = ""
	o.Getenv = func(name string) string {
		if strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "GIT_CONFIG_") {
			return ""
		}
		return getenv(name)
	}
	if o.Program == "" {
		program, err := proc.LookPath("git", getenv("PATH"))
		if err != nil {
			return nil, &ProgramError{Err: err}
		}
		o.Program = program
	}
	r := &Repo{Program: o.Program, env: environment(o.Getenv)}
	args := []string{"init", "--quiet", "--template=", "--initial-branch=main", "--", o.Dir}
	if _, err := r.exec(ctx, args, proc.Command{
		Argv: append([]string{o.Program}, args...), Dir: o.Dir, Env: r.env, Stdout: &bytes.Buffer{},
	}); err != nil {
		return nil, err
	}
	return Discover(ctx, o)
}
