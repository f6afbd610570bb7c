package gitexec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
)

// caller is an environment: what is not in it comes from the process, but never git's variables.
type caller map[string]string

func (c caller) getenv(name string) string {
	if v, ok := c[name]; ok {
		return v
	}
	switch {
	case name == "GIT_CONFIG_GLOBAL":
		return os.DevNull
	case name == "GIT_CONFIG_NOSYSTEM":
		return "1"
	case strings.HasPrefix(name, "GIT_"):
		return ""
	}
	return os.Getenv(name)
}

func gitProgram(tb testing.TB) string {
	tb.Helper()
	path, err := proc.LookPath("git", os.Getenv("PATH"))
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// git runs the real git as a user would, with more environment if it begins with an assignment.
func git(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.DevNull, "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com",
	}
	for len(args) > 0 && strings.Contains(args[0], "=") {
		env, args = append(env, args[0]), args[1:]
	}
	var out bytes.Buffer
	res, err := proc.Exec(tb.Context(), proc.Command{
		Argv: append([]string{gitProgram(tb)}, args...), Dir: dir, Env: env, Stdout: &out, Stderr: &out,
	})
	if err != nil || res.Exit != 0 {
		tb.Fatalf("git %q: %v, exit %d\n%s", args, err, res.Exit, &out)
	}
	return strings.TrimSpace(out.String())
}

// folder is a temporary folder without symbolic links in its path, as git prints it.
func folder(tb testing.TB) string {
	tb.Helper()
	dir, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

func repository(tb testing.TB, dir string, initArgs ...string) string {
	tb.Helper()
	git(tb, filepath.Dir(dir), append([]string{"init", "-q", "-b", "main"}, append(initArgs, dir)...)...)
	write(tb, filepath.Join(dir, "sub", "file"), "one\n")
	git(tb, dir, "add", ".")
	git(tb, dir, "commit", "-q", "-m", "first")
	return dir
}

func write(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		tb.Fatal(err)
	}
}

// script is a program with that text after "#!/bin/sh", in which $GIT is the real git.
func script(tb testing.TB, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "git")
	write(tb, path, "#!/bin/sh\nGIT="+gitProgram(tb)+"\n"+text)
	return path
}

func discover(tb testing.TB, o gitexec.Options) *gitexec.Repo {
	tb.Helper()
	if o.Getenv == nil {
		o.Getenv = caller{}.getenv
	}
	r, err := gitexec.Discover(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func codeOf(err error) schemas.Code {
	if e, ok := errors.AsType[schemas.Coded](err); ok {
		return e.Code()
	}
	return ""
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	top := folder(t)
	main := repository(t, filepath.Join(top, "main"))
	linked := filepath.Join(top, "linked\nwith line feed")
	git(t, main, "worktree", "add", "-q", "--detach", linked)
	bare := filepath.Join(top, "bare.git")
	git(t, top, "clone", "-q", "--bare", main, bare)
	git(t, top, "init", "-q", "--separate-git-dir", filepath.Join(top, "elsewhere"), filepath.Join(top, "separate"))
	git(t, top, "init", "-q", "--object-format=sha256", filepath.Join(top, "sha256"))
	git(t, top, "clone", "-q", "--depth=1", "file://"+main, filepath.Join(top, "shallow"))

	dot := filepath.Join(main, ".git")
	linkedDir := filepath.Join(dot, "worktrees", "linked-with-line-feed")
	for _, tt := range []struct {
		name string
		opt  gitexec.Options
		env  caller
		want gitexec.Repo
	}{
		{"top", gitexec.Options{Dir: main}, nil, gitexec.Repo{GitDir: dot, CommonDir: dot, WorkTree: main}},
		{"subfolder", gitexec.Options{Dir: filepath.Join(main, "sub")}, nil, gitexec.Repo{GitDir: dot, CommonDir: dot, WorkTree: main}},
		{"inside .git", gitexec.Options{Dir: filepath.Join(dot, "refs")}, nil, gitexec.Repo{GitDir: dot, CommonDir: dot}},
		{"linked worktree", gitexec.Options{Dir: filepath.Join(linked, "sub")}, nil, gitexec.Repo{GitDir: linkedDir, CommonDir: dot, WorkTree: linked}},
		{"bare", gitexec.Options{Dir: bare}, nil, gitexec.Repo{GitDir: bare, CommonDir: bare, Bare: true}},
		{"separate", gitexec.Options{Dir: filepath.Join(top, "separate")}, nil, gitexec.Repo{GitDir: filepath.Join(top, "elsewhere"), CommonDir: filepath.Join(top, "elsewhere"), WorkTree: filepath.Join(top, "separate")}},
		{"shallow", gitexec.Options{Dir: filepath.Join(top, "shallow")}, nil, gitexec.Repo{GitDir: filepath.Join(top, "shallow", ".git"), CommonDir: filepath.Join(top, "shallow", ".git"), WorkTree: filepath.Join(top, "shallow"), Shallow: true}},
		{"--git-dir bare", gitexec.Options{Dir: top, GitDir: "bare.git"}, nil, gitexec.Repo{GitDir: bare, CommonDir: bare, Bare: true}},
		// Git would take the working directory for the work tree in the next two.
		{"--git-dir from elsewhere", gitexec.Options{Dir: top, GitDir: "main/.git"}, nil, gitexec.Repo{GitDir: dot, CommonDir: dot, WorkTree: main}},
		{"GIT_DIR in a subfolder", gitexec.Options{Dir: filepath.Join(main, "sub")}, caller{"GIT_DIR": dot}, gitexec.Repo{GitDir: dot, CommonDir: dot, WorkTree: main}},
		{"--git-dir wins over GIT_DIR", gitexec.Options{Dir: top, GitDir: bare}, caller{"GIT_DIR": dot}, gitexec.Repo{GitDir: bare, CommonDir: bare, Bare: true}},
		{"GIT_DIR of a linked worktree, elsewhere", gitexec.Options{Dir: top}, caller{"GIT_DIR": linkedDir}, gitexec.Repo{GitDir: linkedDir, CommonDir: dot}},
		{"GIT_WORK_TREE", gitexec.Options{Dir: top}, caller{"GIT_DIR": dot, "GIT_WORK_TREE": linked}, gitexec.Repo{GitDir: dot, CommonDir: dot, WorkTree: linked}},
		{"GIT_INDEX_FILE and GIT_OBJECT_DIRECTORY mean nothing", gitexec.Options{Dir: main}, caller{"GIT_INDEX_FILE": "/nonexistent", "GIT_OBJECT_DIRECTORY": "/nonexistent"}, gitexec.Repo{GitDir: dot, CommonDir: dot, WorkTree: main}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.opt.Getenv = tt.env.getenv
			got := discover(t, tt.opt)
			if got.GitDir != tt.want.GitDir || got.CommonDir != tt.want.CommonDir || got.WorkTree != tt.want.WorkTree ||
				got.Bare != tt.want.Bare || got.Shallow != tt.want.Shallow || got.ObjectFormat != "sha1" {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
			if got.Version == "" || got.Program == "" {
				t.Errorf("no version or program: %+v", got)
			}
		})
	}
	t.Run("sha256", func(t *testing.T) {
		t.Parallel()
		got := discover(t, gitexec.Options{Dir: filepath.Join(top, "sha256")})
		if got.ObjectFormat != "sha256" || got.Format != 1 || !slices.Equal(got.Extensions, []string{"objectformat"}) {
			t.Errorf("got %+v", got)
		}
	})
}

// TestHookHelper is the program of TestDiscoverFromHook.
func TestHookHelper(t *testing.T) {
	t.Parallel()
	out := os.Getenv("HOOK_OUTPUT")
	if out == "" {
		return
	}
	r := discover(t, gitexec.Options{Getenv: os.Getenv})
	head, err := r.Run(t.Context(), gitexec.Call{Args: []string{"rev-parse", "HEAD"}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal([]string{r.GitDir, r.CommonDir, r.WorkTree, strings.TrimSpace(string(head))})
	if err != nil {
		t.Fatal(err)
	}
	write(t, out, string(data))
}

func TestDiscoverFromHook(t *testing.T) {
	t.Parallel()
	top := folder(t)
	main := repository(t, filepath.Join(top, "main"))
	linked := filepath.Join(top, "linked")
	git(t, main, "worktree", "add", "-q", "-b", "side", linked)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hook := "#!/bin/sh\nenv | grep ^GIT_ >&2\ncd sub && exec '" + self + "' -test.run='^TestHookHelper$'\n"
	write(t, filepath.Join(main, ".git", "hooks", "pre-commit"), hook)

	dot := filepath.Join(main, ".git")
	for _, tt := range []struct{ name, dir, gitDir string }{
		{"main worktree", main, dot},
		{"linked worktree", linked, filepath.Join(dot, "worktrees", "linked")},
	} {
		for _, option := range []string{"--quiet", "--all", "--only"} {
			out := filepath.Join(t.TempDir(), "out")
			head := git(t, tt.dir, "rev-parse", "HEAD")
			write(t, filepath.Join(tt.dir, "sub", "file"), tt.name+option+"\n")
			args := []string{"HOOK_OUTPUT=" + out, "commit", "-m", "x", option}
			if option == "--quiet" {
				git(t, tt.dir, "add", ".")
			} else if option == "--only" {
				args = append(args, "sub/file")
			}
			git(t, tt.dir, args...)
			data, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal([]string{tt.gitDir, dot, tt.dir, head})
			if err != nil {
				t.Fatal(err)
			}
			if string(data) != string(want) {
				t.Errorf("%s, commit %s: got %s, want %s", tt.name, option, data, want)
			}
		}
	}
}

func TestDiscoverRefuses(t *testing.T) {
	t.Parallel()
	top := folder(t)
	repo := repository(t, filepath.Join(top, "repo"))
	broken := func(name string, config ...string) string {
		dir := repository(t, filepath.Join(top, name))
		git(t, dir, append([]string{"config"}, config...)...)
		return dir
	}
	unknown := broken("unknown", "extensions.frobnicate", "true")
	git(t, unknown, "config", "--file", filepath.Join(unknown, ".git", "config"), "core.repositoryFormatVersion", "1")
	reftable := broken("reftable", "extensions.refStorage", "reftable")
	git(t, reftable, "config", "--file", filepath.Join(reftable, ".git", "config"), "core.repositoryFormatVersion", "1")
	future := broken("future", "core.repositoryFormatVersion", "99")
	syntax := broken("syntax", "a.b", "c")
	write(t, filepath.Join(syntax, ".git", "config"), "[core\n")
	write(t, filepath.Join(top, "pointer", ".git"), "gitdir: /nonexistent\n")
	write(t, filepath.Join(top, "a file"), "")
	write(t, filepath.Join(top, "no path"), "gitdir: \n")
	write(t, filepath.Join(top, "large"), strings.Repeat("gitdir: x\n", 1<<18))
	foreign := script(t, `GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec "$GIT" "$@"`)

	for _, tt := range []struct {
		name string
		opt  gitexec.Options
		want schemas.Code
		text string
	}{
		{"no repository", gitexec.Options{Dir: top}, schemas.CodeNotARepository, "not a git repository"},
		{"no folder", gitexec.Options{Dir: filepath.Join(top, "gone")}, schemas.CodeNotARepository, "no such folder"},
		{"a file", gitexec.Options{Dir: filepath.Join(top, "a file")}, schemas.CodeNotARepository, "no such folder"},
		{"--git-dir that is none", gitexec.Options{Dir: repo, GitDir: "sub"}, schemas.CodeNotARepository, "not a git repository"},
		{"--git-dir that is a file", gitexec.Options{Dir: repo, GitDir: "../a file"}, schemas.CodeNotARepository, fmt.Sprintf("%q:", filepath.Join(top, "a file"))},
		{"GIT_DIR that is a file", gitexec.Options{Dir: repo, Getenv: caller{"GIT_DIR": filepath.Join(top, "a file")}.getenv}, schemas.CodeNotARepository, fmt.Sprintf("%q:", filepath.Join(top, "a file"))},
		{"--git-dir without a path in it", gitexec.Options{Dir: repo, GitDir: "../no path"}, schemas.CodeNotARepository, "no path in gitfile"},
		{"--git-dir that is a large file", gitexec.Options{Dir: repo, GitDir: "../large"}, schemas.CodeNotARepository, "large"},
		{"dangling .git file", gitexec.Options{Dir: filepath.Join(top, "pointer")}, schemas.CodeNotARepository, "not a git repository"},
		{"another owner", gitexec.Options{Dir: repo, Program: foreign}, schemas.CodeRepoOwner, "dubious ownership"},
		{"another owner, from below", gitexec.Options{Dir: filepath.Join(repo, "sub"), Program: foreign}, schemas.CodeRepoOwner, fmt.Sprintf("%q:", repo)},
		{"unknown extension", gitexec.Options{Dir: unknown}, schemas.CodeRepoUnsupported, "frobnicate"},
		{"newer format", gitexec.Options{Dir: future}, schemas.CodeRepoUnsupported, "99"},
		{"configuration that is none", gitexec.Options{Dir: syntax}, schemas.CodeRepoUnsupported, "bad config line 1"},
		{"no git", gitexec.Options{Dir: repo, Getenv: caller{"PATH": "/nonexistent"}.getenv}, schemas.CodeRepoUnsupported, "no git program in PATH"},
		{"git that does not start", gitexec.Options{Dir: repo, Program: filepath.Join(top, "nothing")}, schemas.CodeRepoUnsupported, "does not say its version"},
		{"not git", gitexec.Options{Dir: repo, Program: script(t, "echo hello")}, schemas.CodeRepoUnsupported, `it printed "hello`},
		{"old git", gitexec.Options{Dir: repo, Program: script(t, `echo git version 2.35.8`)}, schemas.CodeRepoUnsupported, "is git 2.35.8; 2.36.0 or newer is needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.opt.Getenv == nil {
				tt.opt.Getenv = caller{}.getenv
			}
			_, err := gitexec.Discover(t.Context(), tt.opt)
			if codeOf(err) != tt.want || !strings.Contains(fmt.Sprint(err), tt.text) {
				t.Errorf("got %v (%s), want %s and %q", err, codeOf(err), tt.want, tt.text)
			}
		})
	}
	t.Run("reftable", func(t *testing.T) {
		t.Parallel()
		// Git before 2.45 cannot read it, and later ones find that the tables are missing.
		_, err := gitexec.Discover(t.Context(), gitexec.Options{Dir: reftable, Getenv: caller{}.getenv})
		if codeOf(err) != schemas.CodeRepoUnsupported && codeOf(err) != schemas.CodeNotARepository {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		cancel(cause)
		if _, err := gitexec.Discover(ctx, gitexec.Options{Dir: repo, Getenv: caller{}.getenv}); !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
	})
}

// TestDeletedWorkingDirectoryHelper is the program of TestDiscoverInDeletedFolder.
func TestDeletedWorkingDirectoryHelper(t *testing.T) {
	dir := os.Getenv("DELETED_FOLDER")
	if dir == "" {
		return
	}
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for _, o := range []gitexec.Options{{}, {Dir: "."}, {Dir: dir}} {
		o.Getenv = caller{}.getenv
		if _, err := gitexec.Discover(t.Context(), o); codeOf(err) != schemas.CodeNotARepository {
			t.Errorf("%+v: got %v", o.Dir, err)
		}
	}
	t.Chdir("/")
}

func TestDiscoverInDeletedFolder(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(folder(t), "gone")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	res, err := proc.Exec(t.Context(), proc.Command{
		Argv: []string{self, "-test.run=^TestDeletedWorkingDirectoryHelper$"}, Dir: "/",
		Env: append(os.Environ(), "DELETED_FOLDER="+dir), Stdout: &out, Stderr: &out,
	})
	if err != nil || res.Exit != 0 {
		t.Errorf("%v, exit %d\n%s", err, res.Exit, &out)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	dir := repository(t, filepath.Join(folder(t), "repo"))
	dump := script(t, `case "$*" in *dump*) env; echo "ARGV $*";; *) exec "$GIT" "$@";; esac`)
	hostile := caller{
		"GIT_TRACE": "/nonexistent/x", "GIT_EXTERNAL_DIFF": "/bin/false", "GIT_SSH_COMMAND": "/bin/false", "GIT_PREFIX": "sub/",
		"GIT_INDEX_FILE": "/nonexistent", "GIT_OBJECT_DIRECTORY": "/nonexistent", "GIT_EXEC_PATH": "/nonexistent", "GIT_NAMESPACE": "x",
		"GIT_CONFIG_PARAMETERS": "'core.pager'='/bin/false' 'user.name'='Who'", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "A",
		"GIT_AUTHOR_DATE": "1 +0000",
	}
	// What the process has in its environment is dropped too, not only what getenv knows.
	for name := range hostile {
		if v, ok := os.LookupEnv(name); ok {
			t.Logf("%s=%s is in the environment", name, v)
		}
	}
	r := discover(t, gitexec.Options{Dir: dir, Program: dump, Getenv: hostile.getenv})
	out, err := r.Run(t.Context(), gitexec.Call{Args: []string{"dump"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "GIT_") && !strings.HasPrefix(line, "GIT_SSL_") || strings.HasPrefix(line, "LC_ALL=") {
			got = append(got, line)
		}
		if strings.HasPrefix(line, "ARGV ") && (!strings.HasPrefix(line, "ARGV -c user.name=Who -c core.fsmonitor=false -c core.hooksPath=/dev/null ") || strings.Contains(line, "core.pager")) {
			t.Error(line)
		}
	}
	slices.Sort(got)
	want := []string{
		"GIT_ASKPASS=", "GIT_AUTHOR_NAME=A", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=" + filepath.Join(dir, ".git"),
		"GIT_EDITOR=:", "GIT_GRAFT_FILE=/dev/null/none", "GIT_IMPLICIT_WORK_TREE=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat",
		"GIT_SEQUENCE_EDITOR=:", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}

	out, err = r.Run(t.Context(), gitexec.Call{Args: []string{"dump"}, WorkTree: dir, Index: "/i", Env: []string{"GIT_AUTHOR_NAME=B"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"GIT_WORK_TREE=" + dir, "GIT_INDEX_FILE=/i", "GIT_AUTHOR_NAME=B", "PWD=" + dir} {
		if !slices.Contains(strings.Split(string(out), "\n"), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

func TestHostileConfiguration(t *testing.T) {
	t.Parallel()
	top := folder(t)
	dir := repository(t, filepath.Join(top, "repo"))
	marker := filepath.Join(top, "ran")
	evil := filepath.Join(top, "evil")
	write(t, evil, "#!/bin/sh\necho \"$0 $*\" >>"+marker+"\ncat\n")
	for _, kv := range []string{
		"core.fsmonitor", "core.hooksPath", "diff.external", "diff.x.command", "diff.x.textconv", "core.pager", "core.editor",
		"core.askPass", "gpg.program", "core.sshCommand",
	} {
		value := evil
		if kv == "core.hooksPath" {
			value = filepath.Join(top, "hooks")
		}
		git(t, dir, "config", kv, value)
	}
	git(t, dir, "config", "commit.gpgSign", "true")
	git(t, dir, "config", "log.showSignature", "true")
	git(t, dir, "config", "color.ui", "always")
	git(t, dir, "config", "pager.log", "true")
	for _, hook := range []string{"reference-transaction", "post-checkout", "pre-commit", "post-index-change"} {
		for _, folder := range []string{filepath.Join(top, "hooks"), filepath.Join(dir, ".git", "hooks")} {
			write(t, filepath.Join(folder, hook), "#!/bin/sh\necho hook >>"+marker+"\n")
		}
	}
	write(t, filepath.Join(dir, ".gitattributes"), "* diff=x\n")
	write(t, filepath.Join(dir, "sub", "file"), "two\n")

	r := discover(t, gitexec.Options{Dir: dir})
	index := filepath.Join(top, "index")
	tree := git(t, dir, "rev-parse", "HEAD^{tree}")
	for _, c := range []gitexec.Call{
		{Args: []string{"read-tree", "HEAD"}, Index: index},
		{Args: []string{"status", "--porcelain"}, WorkTree: dir},
		{Args: []string{"diff", "-p", "HEAD"}, WorkTree: dir},
		{Args: []string{"diff-index", "-p", "HEAD"}, WorkTree: dir},
		{Args: []string{"diff-tree", "-p", "--root", "HEAD"}},
		{Args: []string{"log", "-p"}},
		{Args: []string{"show", "HEAD"}},
		{Args: []string{"update-index", "--add", "sub/file"}, WorkTree: dir, Index: index},
		{Args: []string{"checkout-index", "-f", "-a"}, WorkTree: dir, Index: index},
		{Args: []string{"update-ref", "refs/x/y", "HEAD"}},
		{Args: []string{"commit-tree", "-m", "x", tree}, Env: []string{"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@b"}},
	} {
		out, err := r.Run(t.Context(), c)
		if err != nil {
			t.Errorf("%q: %v", c.Args, err)
		}
		if bytes.Contains(out, []byte("\x1b[")) {
			t.Errorf("%q printed colours: %q", c.Args, out)
		}
	}
	if ran, err := os.ReadFile(marker); err == nil {
		t.Errorf("git ran what the configuration names:\n%s", ran)
	}
	// The fixture is hostile at all.
	git(t, dir, "diff", "HEAD")
	if _, err := os.Stat(marker); err != nil {
		t.Error("plain git ran nothing either")
	}
}

func TestReplaceRefsAreIgnored(t *testing.T) {
	t.Parallel()
	dir := repository(t, filepath.Join(folder(t), "repo"))
	old := git(t, dir, "rev-parse", "HEAD")
	write(t, filepath.Join(dir, "sub", "file"), "two\n")
	git(t, dir, "commit", "-q", "-a", "-m", "second")
	git(t, dir, "replace", "HEAD", old)
	if got := git(t, dir, "log", "-1", "--format=%s"); got != "first" {
		t.Fatalf("the replace ref does nothing: %q", got)
	}
	out, err := discover(t, gitexec.Options{Dir: dir}).Run(t.Context(), gitexec.Call{Args: []string{"log", "-1", "--format=%s"}})
	if err != nil || string(out) != "second\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestGraftsAreIgnored(t *testing.T) {
	t.Parallel()
	dir := repository(t, filepath.Join(folder(t), "repo"))
	write(t, filepath.Join(dir, "sub", "file"), "two\n")
	git(t, dir, "commit", "-q", "-a", "-m", "second")
	write(t, filepath.Join(dir, ".git", "info", "grafts"), git(t, dir, "rev-parse", "HEAD")+"\n") // no parents
	if got := git(t, dir, "-c", "advice.graftFileDeprecated=false", "log", "--format=%s"); got != "second" {
		t.Fatalf("the graft does nothing: %q", got)
	}
	out, err := discover(t, gitexec.Options{Dir: dir}).Run(t.Context(), gitexec.Call{Args: []string{"log", "--format=%s"}})
	if err != nil || string(out) != "second\nfirst\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestCallWithoutWorkTreeCannotTouchOne(t *testing.T) {
	t.Parallel()
	dir := repository(t, filepath.Join(folder(t), "repo"))
	write(t, filepath.Join(dir, "sub", "file"), "precious\n")
	r := discover(t, gitexec.Options{Dir: dir})
	for _, args := range [][]string{{"checkout-index", "-f", "-a"}, {"reset", "--hard"}, {"read-tree", "-u", "--reset", "HEAD"}, {"status"}, {"clean", "-fdx"}} {
		_, err := r.Run(t.Context(), gitexec.Call{Args: args})
		if e, ok := errors.AsType[*gitexec.Error](err); !ok || e.Status != 128 {
			t.Errorf("%q: got %v", args, err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "sub", "file")); err != nil || string(data) != "precious\n" {
		t.Errorf("got %q, %v", data, err)
	}
}

func TestConfigFiles(t *testing.T) {
	t.Parallel()
	top := folder(t)
	r := discover(t, gitexec.Options{Dir: repository(t, filepath.Join(top, "repo")), Getenv: caller{}.getenv})
	odd := filepath.Join(top, "the \"odd\\\n#file")
	write(t, odd, "[core]\n\teditor = vi\n[include]\n\tpath = more\n")
	write(t, filepath.Join(top, "more"), "[user]\n\tname\n")
	write(t, filepath.Join(top, "broken"), "[core\n")
	got, err := r.ConfigFiles(t.Context(), []string{filepath.Join(top, "gone"), odd, filepath.Join(top, "more")})
	if err != nil {
		t.Fatal(err)
	}
	name := gitexec.ConfigEntry{Key: "user.name", Value: "true", Scope: "command", Origin: "file:" + filepath.Join(top, "more")}
	want := [][]gitexec.ConfigEntry{nil, {
		{Key: "core.editor", Value: "vi", Scope: "command", Origin: "file:" + odd},
		{Key: "include.path", Value: "more", Scope: "command", Origin: "file:" + odd},
		name,
	}, {name}}
	if !slices.EqualFunc(got, want, slices.Equal[[]gitexec.ConfigEntry]) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	_, err = r.ConfigFiles(t.Context(), []string{odd, filepath.Join(top, "broken")})
	if e, ok := errors.AsType[*gitexec.Error](err); !ok || e.Status <= 0 {
		t.Errorf("got %v", err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	dir := repository(t, filepath.Join(folder(t), "repo"))
	git(t, dir, "config", "spot.profile.Deep.Seek.model", "line one\nline two")
	write(t, filepath.Join(dir, ".git", "config"), readFile(t, filepath.Join(dir, ".git", "config"))+"[spot]\n\trunHooks\n")
	r := discover(t, gitexec.Options{Dir: dir, Getenv: caller{
		"GIT_CONFIG_PARAMETERS": "'spot.maxConcurrentRuns'='2' 'core.pager'='less' 'user.email'='who@example.com'",
		"GIT_CONFIG_COUNT":      "2",
		"GIT_CONFIG_KEY_0":      "spot.notify", "GIT_CONFIG_VALUE_0": "it's",
		"GIT_CONFIG_KEY_1": "alias.x", "GIT_CONFIG_VALUE_1": "!false",
	}.getenv})
	entries, err := r.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]gitexec.ConfigEntry{}
	for _, e := range entries {
		got[e.Key] = e
	}
	for _, want := range []gitexec.ConfigEntry{
		{Key: "spot.profile.Deep.Seek.model", Value: "line one\nline two", Scope: "local", Origin: "file:" + filepath.Join(dir, ".git", "config")},
		{Key: "spot.runhooks", Value: "true", Scope: "local", Origin: "file:" + filepath.Join(dir, ".git", "config")},
		{Key: "spot.maxconcurrentruns", Value: "2", Scope: "command", Origin: "command line:"},
		{Key: "spot.notify", Value: "it's", Scope: "command", Origin: "command line:"},
		{Key: "user.email", Value: "who@example.com", Scope: "command", Origin: "command line:"},
	} {
		if got[want.Key] != want {
			t.Errorf("got  %+v\nwant %+v", got[want.Key], want)
		}
	}
	for _, key := range []string{"core.pager", "alias.x", "core.hookspath"} {
		if e, ok := got[key]; ok {
			t.Errorf("got %+v", e)
		}
	}
	out, err := r.Run(t.Context(), gitexec.Call{Args: []string{"var", "GIT_COMMITTER_IDENT"}, Env: []string{"GIT_COMMITTER_NAME=N"}})
	if err != nil || !strings.HasPrefix(string(out), "N <who@example.com>") {
		t.Errorf("got %q, %v", out, err)
	}
}

func readFile(tb testing.TB, path string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

func TestError(t *testing.T) {
	t.Parallel()
	dir := repository(t, filepath.Join(folder(t), "repo"))
	fake := script(t, `case "$*" in
*say-full*) echo "error: unable to write file x: No space left on device" >&2; echo "fatal: no" >&2; exit 128;;
*say-lock*) echo "fatal: prepare: cannot lock ref 'refs/x': Unable to create '/a b/it's.lock': File exists." >&2; exit 128;;
*say-much*) i=0; while [ $i -lt 3000 ]; do echo "warning: $i" >&2; i=$((i+1)); done; echo "fatal: at last" >&2; exit 1;;
*be-slow*) exec sleep 60;;
*die*) kill -KILL $$;;
esac
exec "$GIT" "$@"`)
	r := discover(t, gitexec.Options{Dir: dir, Program: fake})
	run := func(c gitexec.Call) *gitexec.Error {
		t.Helper()
		_, err := r.Run(t.Context(), c)
		e, ok := errors.AsType[*gitexec.Error](err)
		if !ok {
			t.Fatalf("%q: got %v", c.Args, err)
		}
		return e
	}
	if e := run(gitexec.Call{Args: []string{"say-full"}}); e.Code() != schemas.CodeDiskFull || e.Status != 128 ||
		e.Error() != "git say-full: unable to write file x: No space left on device; no" {
		t.Errorf("got %v %s", e, e.Code())
	}
	if e := run(gitexec.Call{Args: []string{"say-lock"}}); e.Lock() != "/a b/it's.lock" || e.Code() != schemas.CodeInternal {
		t.Errorf("got %q", e.Lock())
	}
	if e := run(gitexec.Call{Args: []string{"say-much"}}); len(e.Stderr) > 9<<10 || e.Error() != "git say-much: at last" {
		t.Errorf("got %d bytes, %v", len(e.Stderr), e)
	}
	if e := run(gitexec.Call{Args: []string{"be-slow"}, Timeout: 50 * time.Millisecond}); e.Status != -1 || e.Err == nil {
		t.Errorf("got %+v", e)
	}
	if e := run(gitexec.Call{Args: []string{"die"}}); e.Status != -1 || !strings.Contains(e.Error(), "SIGKILL") {
		t.Errorf("got %+v", e)
	}
	if e := run(gitexec.Call{Args: []string{"version"}, WorkTree: filepath.Join(dir, "gone")}); e.Status != -1 || !errors.Is(e, os.ErrNotExist) {
		t.Errorf("got %+v", e)
	}
	if e := run(gitexec.Call{Args: []string{"rev-parse", "--verify", "--end-of-options", "nothing"}}); e.Status != 128 || e.Lock() != "" {
		t.Errorf("got %+v", e)
	}
	for _, u := range []string{
		"refs/heads/main " + git(t, dir, "rev-parse", "HEAD:sub") + " " + git(t, dir, "rev-parse", "HEAD^{tree}"),
		"refs/heads/main HEAD 0000000000000000000000000000000000000000", "refs/heads/none HEAD " + git(t, dir, "rev-parse", "HEAD"),
	} {
		e := run(gitexec.Call{Args: []string{"update-ref", "--stdin"}, Stdin: strings.NewReader("update " + u + "\n")})
		if e.Elsewhere() != strings.Fields(u)[0] || e.Lock() != "" {
			t.Errorf("%s: got %q of %s", u, e.Elsewhere(), e.Stderr)
		}
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	if _, err := r.Run(ctx, gitexec.Call{Args: []string{"be-slow"}}); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestInputThatGitDoesNotRead(t *testing.T) {
	t.Parallel()
	r := discover(t, gitexec.Options{Dir: repository(t, filepath.Join(folder(t), "repo"))})
	_, err := r.Run(t.Context(), gitexec.Call{Args: []string{"version"}, Stdin: bytes.NewReader(make([]byte, 4<<20))})
	if err != nil {
		t.Error(err)
	}
	if err := r.Stream(t.Context(), gitexec.Call{Args: []string{"version"}}, failing{}); err == nil {
		t.Error("an output that cannot be written is no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestPipe(t *testing.T) {
	t.Parallel()
	dir := repository(t, filepath.Join(folder(t), "repo"))
	r := discover(t, gitexec.Options{Dir: dir})
	head := git(t, dir, "rev-parse", "HEAD")

	p := r.Start(t.Context(), gitexec.Call{Args: []string{"cat-file", "--batch-check"}})
	for range 3 {
		if _, err := io.WriteString(p.In, head+"\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := p.Out.ReadString('\n'); err != nil || !strings.HasPrefix(line, head+" commit ") {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}

	t.Run("unread output", func(t *testing.T) {
		t.Parallel()
		p := r.Start(t.Context(), gitexec.Call{Args: []string{"cat-file", "--batch"}})
		for range 1000 {
			if _, err := io.WriteString(p.In, head+"\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Out.Discard(100); err != nil { // less than is there
				t.Fatal(err)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("git that refuses", func(t *testing.T) {
		t.Parallel()
		p := r.Start(t.Context(), gitexec.Call{Args: []string{"update-ref", "--stdin", "-z"}})
		if _, err := io.WriteString(p.In, "nonsense\x00"); err != nil {
			t.Fatal(err)
		}
		if line, err := p.Out.ReadString('\n'); err != io.EOF {
			t.Errorf("got %q, %v", line, err)
		}
		if e, ok := errors.AsType[*gitexec.Error](p.Close()); !ok || !strings.Contains(e.Error(), "nonsense") {
			t.Errorf("got %v", e)
		}
		if _, err := io.WriteString(p.In, "more"); err == nil {
			t.Error("a write after the end succeeds")
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		p := r.Start(ctx, gitexec.Call{Args: []string{"cat-file", "--batch-check"}})
		cancel()
		if _, err := p.Out.ReadByte(); err != io.EOF {
			t.Errorf("got %v", err)
		}
		if err := p.Close(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestLinked(t *testing.T) {
	t.Parallel()
	top := folder(t)
	main := repository(t, filepath.Join(top, "main"))
	linked := filepath.Join(top, "linked")
	git(t, main, "worktree", "add", "-q", "-b", "side", linked)
	r := discover(t, gitexec.Options{Dir: main}).Linked(filepath.Join(main, ".git", "worktrees", "linked"), linked)
	out, err := r.Run(t.Context(), gitexec.Call{Args: []string{"symbolic-ref", "HEAD"}})
	if err != nil || string(out) != "refs/heads/side\n" || r.WorkTree != linked {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestSync(t *testing.T) {
	t.Parallel()
	dump := script(t, `case "$*" in *dump*) echo "$*";; *) exec "$GIT" "$@";; esac`)
	r := discover(t, gitexec.Options{Dir: repository(t, filepath.Join(folder(t), "repo")), Program: dump})
	ctx := gitexec.WithSync(t.Context())
	out, err := r.Run(ctx, gitexec.Call{Args: []string{"dump"}})
	if err != nil || !gitexec.Synced(ctx) || gitexec.Synced(t.Context()) || !strings.Contains(string(out), "core.fsync=all") {
		t.Errorf("got %q, %v", out, err)
	}
}
