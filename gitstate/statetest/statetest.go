// Package statetest is the conformance suite of gitstate.Store. A backend passes if Suite.Run passes for
// it; Matrix runs the part that depends on the repository over every kind of repository.
package statetest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/internal/proc"
)

// Open opens a store on the repository that o names, and closes it when the test ends.
type Open func(tb testing.TB, o gitexec.Options) gitstate.Store

// Options names the repository at dir, whatever the environment of the tests says.
func Options(dir string) gitexec.Options {
	return gitexec.Options{Dir: dir, Getenv: func(name string) string {
		switch {
		case name == "GIT_CONFIG_GLOBAL":
			return os.DevNull
		case name == "GIT_CONFIG_NOSYSTEM":
			return "1"
		case strings.HasPrefix(name, "GIT_"):
			return ""
		}
		return os.Getenv(name)
	}}
}

// Discover finds the repository at dir.
func Discover(tb testing.TB, o gitexec.Options) *gitexec.Repo {
	tb.Helper()
	repo, err := gitexec.Discover(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	return repo
}

// Git runs git in dir as a user would, without configuration but with an identity, and returns what it
// prints without the last line feed. Words before the subcommand that have a = are environment.
func Git(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	out, exit := tryGit(tb, dir, nil, args...)
	if exit != 0 {
		tb.Fatalf("git %q: exit %d\n%s", args, exit, out)
	}
	return strings.TrimSuffix(out, "\n")
}

func tryGit(tb testing.TB, dir string, stdin []byte, args ...string) (output string, exit int) {
	tb.Helper()
	program, err := proc.LookPath("git", os.Getenv("PATH"))
	if err != nil {
		tb.Fatal(err)
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.DevNull, "LC_ALL=C", "GIT_NO_REPLACE_OBJECTS=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A U Thor", "GIT_AUTHOR_EMAIL=author@example.com", "GIT_AUTHOR_DATE=1700000000 +0130",
		"GIT_COMMITTER_NAME=C O Mitter", "GIT_COMMITTER_EMAIL=committer@example.com", "GIT_COMMITTER_DATE=1700000001 -0330",
	}
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && strings.Contains(args[0], "=") {
		env, args = append(env, args[0]), args[1:]
	}
	var out, said bytes.Buffer
	cmd := proc.Command{Argv: append([]string{program}, args...), Dir: dir, Env: env, Stdout: &out, Stderr: &said}
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	// Cleanups run git too, when the test's own context has ended.
	res, err := proc.Exec(context.WithoutCancel(tb.Context()), cmd)
	if err != nil {
		tb.Fatalf("git %q: %v", args, err)
	}
	if res.Exit != 0 {
		return said.String(), res.Exit
	}
	return out.String(), 0
}

// Folder returns a temporary folder without symbolic links in its path.
func Folder(tb testing.TB) string {
	tb.Helper()
	dir, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Repository makes a repository at dir with two commits on main, a few files and a tag, and returns dir.
// More are the options of git init.
func Repository(tb testing.TB, dir string, more ...string) string {
	tb.Helper()
	Git(tb, filepath.Dir(dir), append(append([]string{"init", "-q", "-b", "main"}, more...), dir)...)
	for name, content := range map[string]string{
		"README": "first\n", "src/a.txt": "a\n", "src/deep/b.txt": "b\n", "src/with\nline feed": "c\n", "docs/\xff\xfe": "not UTF-8\n", "empty": "",
	} {
		Write(tb, filepath.Join(dir, name), content)
	}
	Git(tb, dir, "add", ".")
	Git(tb, dir, "commit", "-q", "-m", "first")
	Write(tb, filepath.Join(dir, "README"), "second\n")
	Git(tb, dir, "commit", "-q", "-a", "-m", "second\n\nwith a body")
	Git(tb, dir, "tag", "-m", "annotated", "v1")
	return dir
}

// Write writes a file and the folders above it.
func Write(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// script makes a program in place of git with that shell text, in which $GIT is the real one.
func script(tb testing.TB, text string) string {
	tb.Helper()
	real, err := proc.LookPath("git", os.Getenv("PATH"))
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "git")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nGIT="+real+"\n"+text+"\n"), 0o700); err != nil {
		tb.Fatal(err)
	}
	return path
}

// must fails the test on an error, and hands the value on.
func must[T any](tb testing.TB) func(T, error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

func oid(tb testing.TB, s string) gitstate.OID {
	tb.Helper()
	return must[gitstate.OID](tb)(gitstate.ParseOID(s))
}
