package worktree_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/worktree"
)

func TestMain(m *testing.M) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "GIT_") {
			_ = os.Unsetenv(name)
		}
	}
	_ = os.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	_ = os.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	_ = os.Unsetenv("LC_ALL")
	if plan := os.Getenv("WORKTREE_TEST_LAND"); plan != "" {
		landAndDie(plan)
	}
	os.Exit(m.Run())
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 2*60*60))

var worker = worktree.Identity{Name: "A Worker", Email: "worker@example.org", When: now}

// git runs git in dir as a user would and returns its output without the final newline.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %q in %s: %v\n%s", args, dir, err, errOut.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// sh runs a script in dir.
func sh(t *testing.T, dir, script string, env ...string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("sh -c %q: %v\n%s", script, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// newRepo makes a repository with a few files and one commit on main.
func newRepo(t *testing.T, initArgs ...string) string {
	t.Helper()
	dir := filepath.Join(tempDir(t), "repo")
	git(t, filepath.Dir(dir), append(append([]string{"init", "-q", "-b", "main"}, initArgs...), dir)...)
	configure(t, dir)
	write(t, filepath.Join(dir, "src/a.txt"), "one\ntwo\nthree\n")
	write(t, filepath.Join(dir, "src/b.txt"), "bee\n")
	write(t, filepath.Join(dir, "tests/check.sh"), "grep -q two src/a.txt\n")
	write(t, filepath.Join(dir, "README"), "read me\n")
	write(t, filepath.Join(dir, ".gitignore"), "*.o\n/build/\n")
	if err := os.Chmod(filepath.Join(dir, "tests/check.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("src/a.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	commit(t, dir, "base")
	return dir
}

// tempDir is t.TempDir with its links resolved, as git prints paths.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func configure(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "config", "user.name", "A User")
	git(t, dir, "config", "user.email", "user@example.org")
	git(t, dir, "config", "commit.gpgSign", "false")
}

func commit(t *testing.T, dir, message string) gitstate.OID {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", message)
	return gitstate.OID(git(t, dir, "rev-parse", "HEAD"))
}

func head(t *testing.T, dir string) gitstate.OID {
	t.Helper()
	return gitstate.OID(git(t, dir, "rev-parse", "HEAD"))
}

func open(t *testing.T, dir string) *gitexec.Repo {
	t.Helper()
	repo, err := gitexec.Discover(t.Context(), gitexec.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// bench is a repository with a worker's folder at HEAD.
type bench struct {
	t    *testing.T
	dir  string // the user's checkout, or the bare repository
	repo *gitexec.Repo
	spec worktree.Spec
	w    *worktree.Worktree
}

func prepare(t *testing.T, dir string) *bench {
	t.Helper()
	b := &bench{t: t, dir: dir, repo: open(t, dir)}
	b.spec = worktree.Spec{ID: "run-1", Base: head(t, dir), Root: filepath.Join(tempDir(t), "state", "root")}
	w, err := worktree.Create(t.Context(), b.repo, b.spec)
	if err != nil {
		t.Fatal(err)
	}
	b.w = w
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.w.Path(), name) }

func (b *bench) snapshot() worktree.Snapshot {
	b.t.Helper()
	// As a later process would.
	snap, err := worktree.Open(b.repo, b.spec).Snapshot(b.t.Context(), "a change\n\nwith a body\n", worker)
	if err != nil {
		b.t.Fatal(err)
	}
	return snap
}

// changes lists "A path" and the like between base and a commit, quoted as git quotes them.
func (b *bench) changes(commit gitstate.OID) string {
	b.t.Helper()
	out := git(b.t, b.dir, "diff-tree", "-r", "--no-renames", "--name-status", string(b.spec.Base), string(commit))
	return strings.ReplaceAll(out, "\t", " ")
}

// unchanged fails the test if fn changes anything in the repository but objects and git spot's own.
func (b *bench) unchanged(fn func()) {
	b.t.Helper()
	before := state(b.t, b.repo)
	fn()
	if after := state(b.t, b.repo); after != before {
		b.t.Errorf("the repository changed from\n%s\nto\n%s", before, after)
	}
}

// state is everything in a repository and its checkout that is the user's.
func state(t *testing.T, repo *gitexec.Repo) string {
	t.Helper()
	script := `cd "$0"; find . -path ./objects -prune -o -path ./spot -prune -o -type f -print | sort | xargs -d '\n' sha256sum`
	cmd := exec.Command("sh", "-c", script, repo.CommonDir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	if repo.WorkTree != "" {
		out, err := exec.Command("sh", "-c", `cd "$0"; find . -path ./.git -prune -o \( -type f -o -type l \) -print | sort | xargs -d '\n' sha256sum`, repo.WorkTree).Output()
		if err != nil && len(out) == 0 {
			t.Fatal(err)
		}
		text += string(out)
	}
	return text
}
