package worktree_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/worktree"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	git(t, dir, "tag", "-a", "-m", "v", "v1")
	repo := open(t, dir)
	before := state(t, repo)
	b := prepare(t, dir)
	if got := state(t, repo); got != before {
		t.Errorf("Create changed the repository:\n%s\nbefore:\n%s", got, before)
	}
	if got, want := b.w.Path(), filepath.Join(b.spec.Root, "run-1"); got != want {
		t.Errorf("path is %q, want %q", got, want)
	}
	if b.w.Lost() {
		t.Error("the new folder is lost")
	}
	// All that a worker does with git works, and stays where it is.
	b.unchanged(func() {
		if got := git(t, b.w.Path(), "status", "--porcelain"); got != "" {
			t.Errorf("git status in the folder prints %q", got)
		}
		if got := git(t, b.w.Path(), "rev-parse", "HEAD"); got != string(b.spec.Base) {
			t.Errorf("HEAD in the folder is %s, want %s", got, b.spec.Base)
		}
		if got := git(t, b.w.Path(), "describe"); got != "v1" {
			t.Errorf("git describe in the folder prints %q", got)
		}
		if got := git(t, b.w.Path(), "remote"); got != "" {
			t.Errorf("the folder has remotes %q", got)
		}
		write(t, b.path("src/a.txt"), "changed\n")
		git(t, b.w.Path(), "diff", "--exit-code", "--quiet", "HEAD", "--", "README")
		git(t, b.w.Path(), "blame", "README")
		git(t, b.w.Path(), "add", "-A")
		git(t, b.w.Path(), "commit", "-qm", "mine")
		write(t, b.path("src/a.txt"), "stashed\n")
		git(t, b.w.Path(), "stash")
		git(t, b.w.Path(), "config", "alias.x", "!false")
		git(t, b.w.Path(), "update-ref", "refs/heads/main", "HEAD")
	})
	if err := b.w.Remove(); err != nil {
		t.Fatal(err)
	}
	if !b.w.Lost() {
		t.Error("the removed folder is not lost")
	}
	for _, path := range []string{b.w.Path(), filepath.Join(b.spec.Root, ".git-dirs", "run-1"), filepath.Join(b.repo.CommonDir, "spot", "run-1")} {
		if exists(path) {
			t.Errorf("%s is left after Remove", path)
		}
	}
	if err := b.w.Remove(); err != nil {
		t.Errorf("Remove of nothing: %v", err)
	}
}

func TestCreateRunsNoHook(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	mark := filepath.Join(tempDir(t), "ran")
	for _, hook := range []string{"post-checkout", "post-index-change", "reference-transaction"} {
		path := filepath.Join(dir, ".git/hooks", hook)
		write(t, path, "#!/bin/sh\necho "+hook+" >> "+mark+"\nexit 2\n")
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b := prepare(t, dir)
	write(t, b.path("new"), "n")
	b.snapshot()
	if exists(mark) {
		t.Errorf("hooks ran: %s", read(t, mark))
	}
}

func TestCreateFailureLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	repo := open(t, dir)
	// A required filter that fails ends the checkout half-way.
	write(t, filepath.Join(dir, ".gitattributes"), "*.txt filter=bad\n")
	base := commit(t, dir, "filter")
	git(t, dir, "config", "filter.bad.smudge", "false")
	git(t, dir, "config", "filter.bad.required", "true")
	root := filepath.Join(tempDir(t), "root")
	spec := worktree.Spec{ID: "run-1", Base: base, Root: root}
	before := state(t, repo)
	if _, err := worktree.Create(t.Context(), repo, spec); err == nil {
		t.Fatal("Create succeeded")
	}
	left := sh(t, root, "find . -type f")
	if left != "" || exists(filepath.Join(root, "run-1")) || exists(filepath.Join(dir, ".git/spot/run-1")) {
		t.Errorf("left behind: %s", left)
	}
	if state(t, repo) != before {
		t.Error("the repository changed")
	}

	spec.Base = gitstate.OID(strings.Repeat("1", 40))
	_, err := worktree.Create(t.Context(), repo, spec)
	if _, ok := errors.AsType[*gitexec.Error](err); !ok {
		t.Errorf("Create at a missing commit: %v", err)
	}
}

func TestCreateCancelled(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	git(t, dir, "config", "filter.slow.smudge", "sleep 20; cat")
	write(t, filepath.Join(dir, ".gitattributes"), "*.txt filter=slow\n")
	spec := worktree.Spec{ID: "run-1", Base: commit(t, dir, "filter"), Root: filepath.Join(tempDir(t), "root")}
	repo := open(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := worktree.Create(ctx, repo, spec); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the end of the context", err)
	}
	if _, err := worktree.NewRoom(ctx, repo, spec.Root, "r", spec.Base); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("NewRoom: got %v, want the end of the context", err)
	}
	if left := sh(t, spec.Root, "find . -type f -o -name 'r*'"); left != "" || exists(filepath.Join(dir, ".git/spot/run-1")) {
		t.Errorf("left behind: %s", left)
	}
}

func TestCreateTwice(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	write(t, b.path("mine"), "precious")
	if _, err := worktree.Create(t.Context(), b.repo, b.spec); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second Create: %v, want fs.ErrExist", err)
	}
	if got := read(t, b.path("mine")); got != "precious" {
		t.Errorf("the second Create left %q", got)
	}
}

func TestCreateInParallel(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	repo := open(t, dir)
	root := filepath.Join(tempDir(t), "root")
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() {
			spec := worktree.Spec{ID: gitstate.RunID(fmt.Sprintf("run-%d", i)), Base: head(t, dir), Root: root}
			w, err := worktree.Create(t.Context(), repo, spec)
			if err == nil {
				_, err = w.Snapshot(t.Context(), "m", worker)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if got := git(t, dir, "worktree", "list"); strings.Count(got, "\n") != 0 {
		t.Errorf("worktrees were registered:\n%s", got)
	}
	if got := git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("git status prints %q", got)
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	repo := open(t, dir)
	home := tempDir(t)
	env := func(kv ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(kv); i += 2 {
				if kv[i] == name {
					return kv[i+1]
				}
			}
			return ""
		}
	}
	link := filepath.Join(home, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		configured string
		getenv     func(string) string
		want       string // parent, or "" for an error
	}{
		"xdg":            {"", env("XDG_STATE_HOME", home+"/x/state", "HOME", home), home + "/x/state/git-spot/worktrees"},
		"relative xdg":   {"", env("XDG_STATE_HOME", "state", "HOME", home), home + "/.local/state/git-spot/worktrees"},
		"home":           {"", env("HOME", home), home + "/.local/state/git-spot/worktrees"},
		"configured":     {home + "/some/where/", env(), home + "/some/where"},
		"tilde":          {"~/wt", env("HOME", home), home + "/wt"},
		"relative":       {"wt", env("HOME", home), ""},
		"nothing":        {"", env(), ""},
		"in checkout":    {dir + "/wt", env(), ""},
		"in git dir":     {dir + "/.git/wt", env(), ""},
		"through a link": {link + "/wt/deeper", env(), ""},
		"dots":           {home + "/../" + filepath.Base(home) + "/link/wt", env(), ""},
		"beside":         {dir + "-wt", env(), dir + "-wt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := worktree.Root(repo, tc.configured, tc.getenv)
			if tc.want == "" {
				e, ok := errors.AsType[*worktree.RootError](err)
				if !ok || e.Code() != schemas.CodeConfigInvalid {
					t.Errorf("got %q, %v; want a *RootError", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			parent, base := filepath.Split(got)
			if filepath.Clean(parent) != tc.want || len(base) != len("repo-12345678") || !strings.HasPrefix(base, "repo-") {
				t.Errorf("got %q, want a folder in %q", got, tc.want)
			}
		})
	}
	if exists(filepath.Join(home, ".local")) {
		t.Error("Root created something")
	}
	other := newRepo(t)
	parent := home + "/r"
	a, _ := worktree.Root(repo, parent, env())
	b, _ := worktree.Root(open(t, other), parent, env())
	if a == b {
		t.Errorf("two repositories share %q", a)
	}
	// A linked worktree is the same repository.
	linked := filepath.Join(tempDir(t), "linked")
	git(t, dir, "worktree", "add", "-q", "--detach", linked)
	if c, err := worktree.Root(open(t, linked), parent, env()); err != nil || c != a {
		t.Errorf("from a linked worktree: %q, %v; want %q", c, err, a)
	}
}

// Where Create could not make the folder, Root says so: doctor asks nothing else.
func TestRootThatCannotBeMade(t *testing.T) {
	t.Parallel()
	dangling := filepath.Join(tempDir(t), "dangling")
	if err := os.Symlink(dangling+"-target", dangling); err != nil {
		t.Fatal(err)
	}
	refusesRoot(t, dangling)
	refusesRoot(t, filepath.Join(dangling, "deeper"))
}

func TestRootThatIsReadOnly(t *testing.T) {
	t.Parallel()
	dir := readOnlyFolder(t)
	refusesRoot(t, dir)
	refusesRoot(t, filepath.Join(dir, "deeper"))
}

func refusesRoot(t *testing.T, parent string) {
	t.Helper()
	got, err := worktree.Root(open(t, newRepo(t)), parent, func(string) string { return "" })
	if _, ok := errors.AsType[*worktree.RootError](err); !ok {
		t.Errorf("%s: got %q, %v; want a *RootError", parent, got, err)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	write(t, b.path("src/a.txt"), "first attempt\n")
	write(t, b.path("new.txt"), "new\n")
	first := b.snapshot()
	sh(t, b.w.Path(), `rm -r tests; echo x > src/a.txt; mkdir build; echo o > build/x; echo y > y.o; echo z > z; chmod 500 src; rm .git; git init -q`)
	if err := b.w.Reset(t.Context(), first.Tree); err != nil {
		t.Fatal(err)
	}
	want := ".gitignore README link new.txt src/a.txt src/b.txt tests/check.sh"
	if got := sh(t, b.w.Path(), `find . -path ./.git -prune -o \( -type f -o -type l \) -printf '%P\n' | sort | paste -sd' '`, "LC_ALL=C"); got != want {
		t.Errorf("after Reset the folder holds %q, want %q", got, want)
	}
	if again := b.snapshot(); again.Tree != first.Tree || again.PointerChanged {
		t.Errorf("snapshot after Reset is %+v, want tree %s", again, first.Tree)
	}
	if got := git(t, b.w.Path(), "rev-parse", "HEAD"); got != string(b.spec.Base) {
		t.Errorf("HEAD after Reset is %s", got)
	}
}

func TestResetIsFinishedBySnapshot(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	tree := gitstate.OID(git(t, b.dir, "rev-parse", "HEAD^{tree}"))
	// What a kill in the middle of Reset leaves: the mark, and part of the files.
	write(t, filepath.Join(b.repo.CommonDir, "spot/run-1/reset"), string(tree))
	sh(t, b.w.Path(), `rm -r src .git; echo half > tests/check.sh`)
	if snap := b.snapshot(); snap.Tree != tree || snap.Commit != b.spec.Base {
		t.Errorf("snapshot is %+v, want the tree %s", snap, tree)
	}
	if exists(filepath.Join(b.repo.CommonDir, "spot/run-1/reset")) {
		t.Error("the mark is left")
	}
}
