//go:build fault

package worktree_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/worktree"
)

// task is what a process is to do that will be killed at one of its fault points.
type task struct {
	Do   string
	Dir  string
	Spec worktree.Spec
	Tree gitstate.OID
	Plan *schemas.Integration
}

func init() {
	text := os.Getenv("WORKTREE_TEST_FAULT")
	if text == "" {
		return
	}
	var k task
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		panic(err)
	}
	if err := k.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (k task) run() error {
	ctx := context.Background()
	repo, err := gitexec.Discover(ctx, gitexec.Options{Dir: k.Dir})
	if err != nil {
		return err
	}
	w := worktree.Open(repo, k.Spec)
	switch k.Do {
	case "create":
		_, err = worktree.Create(ctx, repo, k.Spec)
	case "snapshot":
		_, err = w.Snapshot(ctx, "m", worker)
	case "reset":
		err = w.Reset(ctx, k.Tree)
	case "remove":
		err = w.Remove()
	case "land":
		err = worktree.Land(ctx, repo, k.Plan, "run-1")
	}
	return err
}

// killAt runs k in a process that is killed at its nth fault point, and reports whether there was one.
func killAt(t *testing.T, k task, n int) bool {
	t.Helper()
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WORKTREE_TEST_FAULT="+string(text), fmt.Sprintf("GIT_SPOT_FAULT=kill@%d", n))
	out, err := cmd.CombinedOutput()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return true
	}
	if err != nil {
		t.Fatalf("%s, point %d: %v\n%s", k.Do, n, err, out)
	}
	return false
}

func TestFaultCreate(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	for n := 1; ; n++ {
		if err := b.w.Remove(); err != nil {
			t.Fatal(err)
		}
		if !killAt(t, task{Do: "create", Dir: b.dir, Spec: b.spec}, n) {
			break
		}
		if err := b.w.Remove(); err != nil {
			t.Fatalf("point %d: %v", n, err)
		}
		if left := sh(t, b.dir, `find .git/spot "$ROOT" -type f`, "ROOT="+b.spec.Root); left != "" {
			t.Errorf("point %d: left behind: %s", n, left)
		}
		if _, err := worktree.Create(t.Context(), b.repo, b.spec); err != nil {
			t.Fatalf("point %d: %v", n, err)
		}
	}
	if snap := b.snapshot(); snap.Commit != b.spec.Base {
		t.Errorf("snapshot %+v", snap)
	}
}

func TestFaultSnapshot(t *testing.T) {
	t.Parallel()
	for _, script := range []string{everything, everything + "; echo x > .gitattributes"} {
		b := prepare(t, newRepo(t))
		sh(t, b.w.Path(), script)
		want := b.snapshot()
		for n := 1; killAt(t, task{Do: "snapshot", Dir: b.dir, Spec: b.spec}, n); n++ {
			if got := b.snapshot(); got.Tree != want.Tree {
				t.Fatalf("point %d: tree %s, want %s", n, got.Tree, want.Tree)
			}
		}
	}
}

func TestFaultReset(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	sh(t, b.w.Path(), everything)
	start := b.snapshot()
	for n, killed := 1, true; killed; n++ {
		sh(t, b.w.Path(), `rm -rf src; echo x > partial; echo y >> new.txt`)
		dirty := b.snapshot()
		killed = killAt(t, task{Do: "reset", Dir: b.dir, Spec: b.spec, Tree: start.Tree}, n)
		got := b.snapshot()
		// Before its first write, Reset has not begun.
		if got.Tree != start.Tree && (!killed || got.Tree != dirty.Tree) {
			t.Fatalf("point %d: tree %s, want %s", n, got.Tree, start.Tree)
		}
	}
}

func TestFaultRemove(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	for n := 1; killAt(t, task{Do: "remove", Dir: b.dir, Spec: b.spec}, n); n++ {
		if err := b.w.Remove(); err != nil {
			t.Fatalf("point %d: %v", n, err)
		}
		if left := sh(t, b.dir, `find .git/spot "$ROOT" -type f`, "ROOT="+b.spec.Root); left != "" {
			t.Errorf("point %d: left behind: %s", n, left)
		}
		if _, err := worktree.Create(t.Context(), b.repo, b.spec); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFaultLand(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "bare", "sparse cone"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := ready(t, kinds[name](t), strings.Replace(everything, "chmod -x tests/check.sh; rm README;", "rm -f README;", 1))
			plan, err := worktree.PlanLanding(t.Context(), b.repo, gitstate.Ref(p.Branch), b.spec.Base, gitstate.OID(p.New))
			if err != nil {
				t.Fatal(err)
			}
			for n, killed := 1, true; killed; n++ {
				killed = killAt(t, task{Do: "land", Dir: b.dir, Plan: plan}, n)
				moved := git(t, b.dir, "rev-parse", p.Branch) == p.New
				landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1")
				if err != nil || landed != moved || !killed && !landed {
					t.Fatalf("point %d: %v, %v; the branch moved: %v", n, landed, err, moved)
				}
				checkNoLocks(t, b)
				if b.repo.WorkTree != "" {
					if got := git(t, b.dir, "status", "--porcelain"); got != "" {
						t.Fatalf("point %d: git status prints %q", n, got)
					}
				}
				git(t, b.dir, "update-ref", p.Branch, p.Old)
				if moved && b.repo.WorkTree != "" {
					git(t, b.dir, "reset", "-q", "--hard")
				}
			}
		})
	}
}
