package worktree_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/worktree"
)

// order is what a killed process was told to do.
type order struct {
	Dir   string
	Plan  *schemas.Integration
	Steps int
}

// landAndDie runs the first steps of a landing and then dies as from a power button: this is what a
// test process started by kill does.
func landAndDie(text string) {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	ctx := context.Background()
	repo, err := gitexec.Discover(ctx, gitexec.Options{Dir: o.Dir})
	if err == nil {
		err = worktree.LandUpTo(ctx, repo, o.Plan, "run-1", o.Steps)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// kill lands in another process, which is killed after so many steps.
func kill(t *testing.T, b *bench, plan *schemas.Integration, steps int) {
	t.Helper()
	text, err := json.Marshal(order{Dir: b.dir, Plan: plan, Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WORKTREE_TEST_LAND="+string(text))
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		t.Fatalf("the landing was not killed: %v\n%s", err, out)
	}
}

// ready is a bench with an approved commit: its worker made the change.
func ready(t *testing.T, dir, change string) (*bench, *schemas.Integration) {
	t.Helper()
	b := prepare(t, dir)
	sh(t, b.w.Path(), change)
	snap := b.snapshot()
	approved, err := worktree.ApprovedCommit(t.Context(), b.repo, snap.Tree, b.spec.Base, "A change\n")
	if err != nil {
		t.Fatal(err)
	}
	return b, &schemas.Integration{Branch: git(t, dir, "symbolic-ref", "HEAD"), Old: string(b.spec.Base), New: string(approved)}
}

// userFiles is the checkout with everything in it, and the index.
func userFiles(t *testing.T, dir string) string {
	t.Helper()
	gitDir := git(t, dir, "rev-parse", "--absolute-git-dir")
	return files(t, dir) + "\n" + git(t, dir, "ls-files", "-s") + "\n" + git(t, dir, "status", "--porcelain", "--ignored") +
		"\n" + strings.Join(names(t, gitDir), " ")
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if e.Name() != "spot" {
			list = append(list, e.Name())
		}
	}
	return list
}

func gitDirOf(t *testing.T, dir string) string {
	t.Helper()
	return filepath.Clean(git(t, dir, "rev-parse", "--absolute-git-dir"))
}
