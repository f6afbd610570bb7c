package worktree_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/worktree"
)

// everything is a change of every kind that a landing has to write.
const everything = `
	echo changed >> src/a.txt; rm src/b.txt; echo new > new.txt; mkdir -p deep/er; echo d > deep/er/d
	chmod -x tests/check.sh; rm README; mkdir README; echo r > README/r; rm link; ln -s src link
	printf 'big\n%.0s' $(seq 5000) > big.txt`

func sourceError(t *testing.T, err error, reason schemas.Code, paths ...string) *worktree.SourceError {
	t.Helper()
	e, ok := errors.AsType[*worktree.SourceError](err)
	if !ok || e.Code() != reason || !slices.Equal(e.Paths, paths) {
		t.Fatalf("got %v (%+v), want %s with paths %q", err, e, reason, paths)
	}
	return e
}

func TestLandEverything(t *testing.T) {
	t.Parallel()
	b, p := ready(t, newRepo(t), everything)
	write(t, filepath.Join(b.dir, "untracked.txt"), "mine\n")
	write(t, filepath.Join(b.dir, "build/x.o"), "ignored\n")
	plan, err := worktree.PlanLanding(t.Context(), b.repo, gitstate.Ref(p.Branch), b.spec.Base, gitstate.OID(p.New))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"README", "README/r", "big.txt", "deep/er/d", "link", "new.txt", "src/a.txt", "src/b.txt", "tests/check.sh"}
	slices.Sort(plan.Paths)
	if !slices.Equal(plan.Paths, want) {
		t.Errorf("paths %q, want %q", plan.Paths, want)
	}
	if err := worktree.Land(t.Context(), b.repo, plan, "run-1"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"untracked.txt": "mine\n", "build/x.o": "ignored\n"} {
		if got := read(t, filepath.Join(b.dir, path)); got != want {
			t.Errorf("%s is %q", path, got)
		}
		if err := os.Remove(filepath.Join(b.dir, path)); err != nil {
			t.Fatal(err)
		}
	}
	checkLanded(t, b, gitstate.Ref(p.Branch), gitstate.OID(p.New))
	if got := git(t, b.dir, "stash", "list"); got != "" {
		t.Errorf("stashed: %q", got)
	}
}

// The branch is not checked out: only the ref moves.
func TestLandWithoutCheckout(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	b, p := ready(t, dir, everything)
	git(t, dir, "checkout", "-q", "-b", "other")
	write(t, filepath.Join(dir, "src/a.txt"), "the user is busy here\n")
	before := userFiles(t, dir)
	plan, err := worktree.PlanLanding(t.Context(), b.repo, gitstate.Ref(p.Branch), b.spec.Base, gitstate.OID(p.New))
	if err != nil {
		t.Fatal(err)
	}
	if plan.Checkout != "" || plan.GitDir != "" || len(plan.Paths) > 0 {
		t.Errorf("plan %+v", plan)
	}
	if err := worktree.Land(t.Context(), b.repo, plan, "run-1"); err != nil {
		t.Fatal(err)
	}
	if got := git(t, dir, "rev-parse", p.Branch); got != p.New {
		t.Errorf("the branch is at %s", got)
	}
	if after := userFiles(t, dir); after != before {
		t.Errorf("the checkout changed from\n%s\nto\n%s", before, after)
	}
	// It is checked out between plan and landing.
	git(t, dir, "update-ref", p.Branch, p.Old)
	linked := filepath.Join(tempDir(t), "linked")
	git(t, dir, "worktree", "add", "-q", linked, "main")
	err = worktree.Land(t.Context(), b.repo, plan, "run-1")
	if e := sourceError(t, err, schemas.CodeSourceDirty); e.Checkout != linked {
		t.Errorf("checkout %q, want %q", e.Checkout, linked)
	}
	if got := git(t, dir, "rev-parse", p.Branch); got != p.Old {
		t.Errorf("the branch is at %s", got)
	}
}

// Started in one checkout, landing in another.
func TestLandInLinkedWorktree(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	linked := filepath.Join(tempDir(t), "a linked one\n")
	git(t, dir, "worktree", "add", "-q", "-b", "dev", linked)
	b, p := ready(t, dir, everything)
	p.Branch = "refs/heads/dev"
	plan, err := worktree.PlanLanding(t.Context(), b.repo, "refs/heads/dev", b.spec.Base, gitstate.OID(p.New))
	if err != nil {
		t.Fatal(err)
	}
	if plan.Checkout != linked || plan.GitDir != gitDirOf(t, linked) {
		t.Fatalf("plan %+v", plan)
	}
	before := userFiles(t, dir)
	if err := worktree.Land(t.Context(), b.repo, plan, "run-1"); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, linked), files(t, b.w.Path()); got != want {
		t.Errorf("the linked worktree holds\n%s\nwant\n%s", got, want)
	}
	if got := git(t, linked, "status", "--porcelain"); got != "" {
		t.Errorf("git status prints %q", got)
	}
	if after := userFiles(t, dir); after != before {
		t.Error("the main checkout changed")
	}
	// And the other way round: main is landed in from the linked one.
	b.repo = open(t, linked)
	p.Branch = "refs/heads/main"
	plan, err = worktree.PlanLanding(t.Context(), b.repo, "refs/heads/main", b.spec.Base, gitstate.OID(p.New))
	if err != nil {
		t.Fatal(err)
	}
	if plan.Checkout != dir {
		t.Errorf("checkout %q, want %q", plan.Checkout, dir)
	}
	if err := worktree.Land(t.Context(), b.repo, plan, "run-1"); err != nil {
		t.Fatal(err)
	}
	if got := git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("git status in main prints %q", got)
	}
}

func TestPlanLandingRefuses(t *testing.T) {
	t.Parallel()
	const change = `echo x >> src/a.txt; echo n > n.txt; mkdir -p dir/sub; echo f > dir/sub/f; echo o > new.o; sed -i /o/d .gitignore; rm README; mkdir README; echo x > README/x; rm -r tests; echo t > tests`
	for name, tc := range map[string]struct {
		script string
		reason schemas.Code
		paths  []string
		detail string
	}{
		"edited":              {`echo y >> src/b.txt`, schemas.CodeSourceDirty, []string{"src/b.txt"}, "tracked"},
		"staged":              {`echo y >> src/b.txt; git add src/b.txt`, schemas.CodeSourceDirty, []string{"src/b.txt"}, "tracked"},
		"staged and undone":   {`echo y >> src/b.txt; git add src/b.txt; git show HEAD:src/b.txt > src/b.txt`, schemas.CodeSourceDirty, []string{"src/b.txt"}, "tracked"},
		"new and staged":      {`echo y > z; git add z`, schemas.CodeSourceDirty, []string{"z"}, "tracked"},
		"intent to add":       {`echo y > z; git add -N z`, schemas.CodeSourceDirty, []string{"z"}, "tracked"},
		"removed":             {`rm src/a.txt src/b.txt`, schemas.CodeSourceDirty, []string{"src/a.txt", "src/b.txt"}, "tracked"},
		"mode":                {`chmod +x src/b.txt`, schemas.CodeSourceDirty, []string{"src/b.txt"}, "tracked"},
		"untracked":           {`echo mine > n.txt`, schemas.CodeSourceDirty, []string{"n.txt"}, "in the way"},
		"untracked, same":     {`echo n > n.txt`, schemas.CodeSourceDirty, []string{"n.txt"}, "in the way"},
		"ignored":             {`echo mine > new.o`, schemas.CodeSourceDirty, []string{"new.o"}, "in the way"},
		"file for folder":     {`echo mine > dir`, schemas.CodeSourceDirty, []string{"dir"}, "in the way"},
		"link for folder":     {`mkdir elsewhere; ln -s elsewhere dir`, schemas.CodeSourceDirty, []string{"dir"}, "in the way"},
		"folder for file":     {`mkdir n.txt; echo mine > n.txt/x`, schemas.CodeSourceDirty, []string{"n.txt/x"}, "in the way"},
		"in a leaving folder": {`echo mine > tests/other`, schemas.CodeSourceDirty, []string{"tests/other"}, "in the way"},
		"dangling link":       {`ln -s /nowhere n.txt`, schemas.CodeSourceDirty, []string{"n.txt"}, "in the way"},
		"merge":               {`git checkout -q -b o HEAD~0; git commit -q --allow-empty -m o; git checkout -q main; git merge -q --no-ff --no-commit o`, schemas.CodeSourceDirty, nil, "MERGE_HEAD"},
		"cherry-pick":         {`git rev-parse HEAD > .git/CHERRY_PICK_HEAD`, schemas.CodeSourceDirty, nil, "CHERRY_PICK_HEAD"},
		"revert":              {`git rev-parse HEAD > .git/REVERT_HEAD`, schemas.CodeSourceDirty, nil, "REVERT_HEAD"},
		"bisect":              {`git bisect start -q`, schemas.CodeSourceDirty, nil, "bisect"},
		"rebase": {
			`git config sequence.editor "sed -i 1s/pick/edit/"; git commit -q --allow-empty -m o; git rebase -q -i --root 2>/dev/null; git update-ref refs/heads/main HEAD~0 || true`,
			schemas.CodeSourceDirty, nil, "rebase",
		},
		"moved":    {`git commit -q --allow-empty -m o`, schemas.CodeSourceMoved, nil, ""},
		"gone":     {`git checkout -q -b o; git branch -q -D main`, schemas.CodeSourceMoved, nil, ""},
		"symbolic": {`git checkout -q -b o; git branch -q -D main; git symbolic-ref refs/heads/main refs/heads/o`, schemas.CodeSourceDirty, nil, "symbolic"},
		"two checkouts": {
			`git worktree add -q -f ../second main`, schemas.CodeSourceDirty, nil, "as well",
		},
		"lost checkout": {`git checkout -q -b o; git worktree add -q ../second main; rm -r ../second`, schemas.CodeSourceDirty, nil, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := ready(t, newRepo(t), change)
			sh(t, b.dir, tc.script)
			before := userFiles(t, b.dir)
			_, err := worktree.PlanLanding(t.Context(), b.repo, "refs/heads/main", b.spec.Base, gitstate.OID(p.New))
			e := sourceError(t, err, tc.reason, tc.paths...)
			if !strings.Contains(e.Error(), tc.detail) {
				t.Errorf("error %q does not say %q", e, tc.detail)
			}
			if e.Branch != "refs/heads/main" {
				t.Errorf("branch %q", e.Branch)
			}
			if after := userFiles(t, b.dir); after != before {
				t.Errorf("changed from\n%s\nto\n%s", before, after)
			}
			if got := git(t, b.dir, "stash", "list"); got != "" {
				t.Errorf("stashed: %q", got)
			}
		})
	}
}

func TestPlanLandingAllows(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"untracked elsewhere":     `echo mine > u; mkdir v; echo mine > v/w`,
		"touched":                 `sleep 0.01; touch src/a.txt README`,
		"empty folder":            `mkdir -p deep/er`,
		"ignored elsewhere":       `mkdir build; echo o > build/o; echo o > src/x.o`,
		"sequencer of another":    `true`,
		"stash":                   `echo y >> src/b.txt; git stash -q`,
		"file folder of the same": `rm -rf none`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := ready(t, newRepo(t), everything)
			sh(t, b.dir, script)
			plan, err := worktree.PlanLanding(t.Context(), b.repo, "refs/heads/main", b.spec.Base, gitstate.OID(p.New))
			if err != nil {
				t.Fatal(err)
			}
			status := git(t, b.dir, "status", "--porcelain", "--ignored")
			if err := worktree.Land(t.Context(), b.repo, plan, "run-1"); err != nil {
				t.Fatal(err)
			}
			if got := git(t, b.dir, "status", "--porcelain", "--ignored"); got != status {
				t.Errorf("git status printed %q before, %q after", status, got)
			}
			checkNoLocks(t, b)
		})
	}
}

// Somebody makes the checkout dirty, or moves the branch, between plan and landing.
func TestLandLooksAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		reason schemas.Code
		paths  []string
	}{
		"edited":        {`echo y >> src/b.txt`, schemas.CodeSourceDirty, []string{"src/b.txt"}},
		"in the way":    {`echo mine > new.txt`, schemas.CodeSourceDirty, []string{"new.txt"}},
		"moved":         {`git commit -q --allow-empty -m o`, schemas.CodeSourceMoved, nil},
		"switched away": {`git checkout -q -b o`, schemas.CodeSourceDirty, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := ready(t, newRepo(t), everything)
			plan, err := worktree.PlanLanding(t.Context(), b.repo, "refs/heads/main", b.spec.Base, gitstate.OID(p.New))
			if err != nil {
				t.Fatal(err)
			}
			sh(t, b.dir, tc.script)
			before := userFiles(t, b.dir)
			_ = sourceError(t, worktree.Land(t.Context(), b.repo, plan, "run-1"), tc.reason, tc.paths...)
			if after := userFiles(t, b.dir); after != before {
				t.Errorf("changed from\n%s\nto\n%s", before, after)
			}
			checkNoLocks(t, b)
			if landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1"); err != nil || landed {
				t.Errorf("ResumeLanding: %v, %v", landed, err)
			}
		})
	}
}

// WT-07: a lock is waited for, and never broken.
func TestLandWaitsForLocks(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"index.lock", "refs/heads/main.lock", "HEAD.lock"} {
		t.Run(filepath.Base(lock), func(t *testing.T) {
			t.Parallel()
			b, p := ready(t, newRepo(t), everything)
			plan, err := worktree.PlanLanding(t.Context(), b.repo, "refs/heads/main", b.spec.Base, gitstate.OID(p.New))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(b.repo.GitDir, lock)
			write(t, path, "")
			err = worktree.Land(t.Context(), b.repo, plan, "run-1")
			e := sourceError(t, err, schemas.CodeSourceDirty)
			if e.Lock != path || e.LockTime.IsZero() {
				t.Errorf("lock %q of %v, want %q", e.Lock, e.LockTime, path)
			}
			if landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1"); err != nil || landed {
				t.Errorf("ResumeLanding: %v, %v", landed, err)
			}
			if got := read(t, path); got != "" {
				t.Errorf("the lock holds %q", got)
			}
			if got := git(t, b.dir, "rev-parse", "HEAD"); got != p.Old {
				t.Errorf("the branch is at %s", got)
			}
			// Its holder ends while a second landing waits.
			go func() {
				time.Sleep(200 * time.Millisecond)
				_ = os.Remove(path)
			}()
			if err := worktree.Land(t.Context(), b.repo, plan, "run-1"); err != nil {
				t.Fatal(err)
			}
			checkLanded(t, b, "refs/heads/main", gitstate.OID(p.New))
		})
	}
}

// The user's git is kept out while a landing is under way.
func TestLandKeepsOthersOut(t *testing.T) {
	t.Parallel()
	b, p := ready(t, newRepo(t), everything)
	plan, err := worktree.PlanLanding(t.Context(), b.repo, "refs/heads/main", b.spec.Base, gitstate.OID(p.New))
	if err != nil {
		t.Fatal(err)
	}
	if err := worktree.LandUpTo(t.Context(), b.repo, plan, "run-1", 2); err != nil {
		t.Fatal(err)
	}
	sh(t, b.dir, `echo x > u; ! git add u 2>/dev/null; ! git commit -q --allow-empty -m x 2>/dev/null; rm u; git status >/dev/null`)
	// A second run waits for the first and is refused.
	_ = sourceError(t, worktree.Land(t.Context(), b.repo, plan, "run-2"), schemas.CodeSourceDirty)
	if landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-2"); err != nil || landed {
		t.Errorf("ResumeLanding of another run: %v, %v", landed, err)
	}
	if !exists(filepath.Join(b.repo.GitDir, "index.lock")) {
		t.Error("the first run's lock is gone")
	}
	if landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1"); err != nil || landed {
		t.Errorf("ResumeLanding: %v, %v", landed, err)
	}
	checkNoLocks(t, b)
}

// The whole of a landing, killed after every step, in several kinds of checkout.
func TestResumeAfterKill(t *testing.T) {
	t.Parallel()
	for name, newKind := range map[string]func(*testing.T) string{
		"plain":       kinds["plain"],
		"linked":      kinds["linked worktree"],
		"sparse":      kinds["sparse cone"],
		"split index": kinds["split index"],
		"filter":      kinds["required filter"],
		"bare":        kinds["bare"],
		"elsewhere": func(t *testing.T) string {
			dir := newRepo(t)
			git(t, dir, "branch", "other")
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := strings.Replace(everything, "chmod -x tests/check.sh; rm README;", "chmod -x src/a.txt; rm -f README;", 1)
			b, p := ready(t, newKind(t), change)
			branch := gitstate.Ref(p.Branch)
			if name == "elsewhere" {
				branch = "refs/heads/other"
			}
			plan, err := worktree.PlanLanding(t.Context(), b.repo, branch, b.spec.Base, gitstate.OID(p.New))
			if err != nil {
				t.Fatal(err)
			}
			steps := worktree.LandSteps(b.repo, plan, "run-1")
			var before, want string
			if b.repo.WorkTree != "" {
				git(t, b.dir, "reset", "-q", "--hard", p.New)
				want = files(t, b.dir)
				git(t, b.dir, "reset", "-q", "--hard", p.Old)
				before = userFiles(t, b.dir)
			}
			for n := 0; n <= len(steps); n++ {
				after := "nothing"
				if n > 0 {
					after = steps[n-1]
				}
				kill(t, b, plan, n)
				moved := git(t, b.dir, "rev-parse", string(branch)) == p.New
				// Twice: a resumed landing is not begun again.
				for range 2 {
					landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1")
					if err != nil || landed != moved {
						t.Fatalf("killed after %q: ResumeLanding %v, %v; want %v", after, landed, err, moved)
					}
				}
				checkNoLocks(t, b)
				switch {
				case moved && branch == gitstate.Ref(p.Branch):
					checkStatus(t, b, want)
				case b.repo.WorkTree != "":
					if now := userFiles(t, b.dir); now != before {
						t.Fatalf("killed after %q: changed from\n%s\nto\n%s", after, before, now)
					}
				}
				if t.Failed() {
					t.Fatalf("killed after %q", after)
				}
				git(t, b.dir, "update-ref", string(branch), p.Old)
				if moved && b.repo.WorkTree != "" && branch == gitstate.Ref(p.Branch) {
					git(t, b.dir, "reset", "-q", "--hard")
				}
			}
		})
	}
}

// Killed while git writes the files: what it leaves is built by hand, for every single file.
func TestResumeTornUpdate(t *testing.T) {
	t.Parallel()
	for name, tear := range map[string]string{
		"nothing written":   `true`,
		"half of the files": `cd "$DIR"; rm src/b.txt README; cp "$NEW/new.txt" .; cp "$NEW/big.txt" .`,
		"a torn file":       `cd "$DIR"; head -c 7777 "$NEW/big.txt" > big.txt; rm src/a.txt; : > src/a.txt`,
		"folder made":       `cd "$DIR"; mkdir -p deep/er; rm README; mkdir README`,
		"link removed":      `cd "$DIR"; rm link`,
		"all but the index": `cd "$DIR"; rm -r src README link; cp -a "$NEW"/* .`,
		"git's own lock":    `cd "$DIR"; touch "$GIT/spot/run-1/landing/index.lock"; cp "$NEW/new.txt" .`,
		"spot folder gone":  `cd "$DIR"; rm -r "$GIT/spot"; cp "$NEW/new.txt" .`,
		"lock removed":      `cd "$DIR"; rm "$GIT/index.lock"; cp "$NEW/new.txt" .`,
		"both gone":         `cd "$DIR"; rm -r "$GIT/index.lock" "$GIT/spot"; cp "$NEW/new.txt" .`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := ready(t, newRepo(t), everything)
			plan, err := worktree.PlanLanding(t.Context(), b.repo, "refs/heads/main", b.spec.Base, gitstate.OID(p.New))
			if err != nil {
				t.Fatal(err)
			}
			steps := worktree.LandSteps(b.repo, plan, "run-1")
			kill(t, b, plan, slices.Index(steps, "move the branch")+1)
			sh(t, b.dir, tear, "DIR="+b.dir, "NEW="+b.w.Path(), "GIT="+b.repo.GitDir)
			landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1")
			if err != nil || !landed {
				t.Fatalf("ResumeLanding: %v, %v", landed, err)
			}
			checkLanded(t, b, "refs/heads/main", gitstate.OID(p.New))
		})
	}
}

// What is neither the old nor the new content is the user's.
func TestResumeStopsAtForeignChanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, path, undo string }{
		"edited":           {`echo mine > src/a.txt`, "src/a.txt", "src/a.txt"},
		"longer":           {`cp "$NEW/big.txt" .; echo mine >> big.txt`, "big.txt", "big.txt"},
		"new file":         {`echo mine > new.txt`, "new.txt", "new.txt"},
		"link":             {`rm link; ln -s mine link`, "link", "link"},
		"folder":           {`mkdir new.txt; echo mine > new.txt/x`, "new.txt", "new.txt"},
		"parent is a link": {`mkdir mine; ln -s mine deep`, "deep/er/d", "deep"},
		"removed one":      {`echo mine > src/b.txt`, "src/b.txt", "src/b.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := ready(t, newRepo(t), everything)
			plan, err := worktree.PlanLanding(t.Context(), b.repo, "refs/heads/main", b.spec.Base, gitstate.OID(p.New))
			if err != nil {
				t.Fatal(err)
			}
			steps := worktree.LandSteps(b.repo, plan, "run-1")
			kill(t, b, plan, slices.Index(steps, "move the branch")+1)
			sh(t, b.dir, tc.script, "NEW="+b.w.Path())
			before := userFiles(t, b.dir)
			landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1")
			_ = sourceError(t, err, schemas.CodeSourceDirty, tc.path)
			if !landed {
				t.Error("not reported as landed")
			}
			if after := userFiles(t, b.dir); after != before {
				t.Errorf("changed from\n%s\nto\n%s", before, after)
			}
			// The user takes the change away, and it goes on.
			sh(t, b.dir, `rm -r "$UNDO"`, "UNDO="+tc.undo)
			if landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1"); err != nil || !landed {
				t.Fatalf("ResumeLanding: %v, %v", landed, err)
			}
			sh(t, b.dir, `rm -rf mine`)
			checkLanded(t, b, "refs/heads/main", gitstate.OID(p.New))
		})
	}
}

// update-ref killed between its renames.
func TestResumeRemovesOwnRefLocks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string // after the given number of steps
		steps  string
		kept   string
	}{
		"before the rename":     {`echo "$NEW" > .git/refs/heads/main.lock; : > .git/HEAD.lock`, "try", ""},
		"after the rename":      {`: > .git/HEAD.lock`, "move the branch", ""},
		"foreign branch lock":   {`: > .git/refs/heads/main.lock; : > .git/HEAD.lock`, "try", "HEAD.lock main.lock"},
		"foreign HEAD lock":     {`echo x > .git/HEAD.lock`, "move the branch", "HEAD.lock"},
		"another commit's lock": {`echo "$OLD" > .git/refs/heads/main.lock`, "try", "main.lock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := ready(t, newRepo(t), everything)
			plan, err := worktree.PlanLanding(t.Context(), b.repo, "refs/heads/main", b.spec.Base, gitstate.OID(p.New))
			if err != nil {
				t.Fatal(err)
			}
			kill(t, b, plan, slices.Index(worktree.LandSteps(b.repo, plan, "run-1"), tc.steps)+1)
			sh(t, b.dir, tc.script, "NEW="+p.New, "OLD="+p.Old)
			landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1")
			if err != nil || landed != (tc.steps == "move the branch") {
				t.Fatalf("ResumeLanding: %v, %v", landed, err)
			}
			if got := sh(t, b.repo.GitDir, `find . -name '*.lock' -printf '%f\n' | sort | paste -sd' '`, "LC_ALL=C"); got != tc.kept {
				t.Errorf("locks %q, want %q", got, tc.kept)
			}
			if got := git(t, b.dir, "status", "--porcelain"); got != "" {
				t.Errorf("git status prints %q", got)
			}
		})
	}
}

// The user went on before the ledger heard of the landing.
func TestResumeAfterTheUserWentOn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		landed bool
	}{
		"committed":  {`echo more >> src/a.txt; git commit -qam more`, true},
		"edited":     {`echo more >> src/a.txt; echo x > new.txt; git add new.txt`, true},
		"reset":      {`git reset -q --hard HEAD~`, false},
		"elsewhere":  {`git checkout -q --orphan o; git commit -q -m o; git branch -f main o`, false},
		"reset soft": {`git reset -q --soft HEAD~`, false},
		"locked":     {`: > .git/index.lock`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := ready(t, newRepo(t), everything)
			plan, err := worktree.PlanLanding(t.Context(), b.repo, "refs/heads/main", b.spec.Base, gitstate.OID(p.New))
			if err != nil {
				t.Fatal(err)
			}
			if err := worktree.Land(t.Context(), b.repo, plan, "run-1"); err != nil {
				t.Fatal(err)
			}
			sh(t, b.dir, tc.script)
			before := userFiles(t, b.dir)
			if landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1"); err != nil || landed != tc.landed {
				t.Errorf("ResumeLanding: %v, %v; want %v", landed, err, tc.landed)
			}
			if after := userFiles(t, b.dir); after != before {
				t.Errorf("changed from\n%s\nto\n%s", before, after)
			}
		})
	}
}

// Two landings at once on one branch: one of them lands.
func TestLandRace(t *testing.T) {
	t.Parallel()
	b, p := ready(t, newRepo(t), everything)
	other, err := worktree.ApprovedCommit(t.Context(), b.repo, gitstate.OID(git(t, b.dir, "rev-parse", p.New+"^{tree}")), b.spec.Base, "Another change\n")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[gitstate.RunID]gitstate.OID{"run-1": gitstate.OID(p.New), "run-2": other}
	plans := map[gitstate.RunID]*schemas.Integration{}
	for id, oid := range ids {
		if plans[id], err = worktree.PlanLanding(t.Context(), b.repo, "refs/heads/main", b.spec.Base, oid); err != nil {
			t.Fatal(err)
		}
	}
	results := make(chan error, len(ids))
	for id, plan := range plans {
		go func() { results <- worktree.Land(t.Context(), b.repo, plan, id) }()
	}
	failed := 0
	for range ids {
		if err := <-results; err != nil {
			failed++
			if _, ok := errors.AsType[*worktree.SourceError](err); !ok {
				t.Error(err)
			}
		}
	}
	if failed != 1 {
		t.Errorf("%d of 2 landings failed", failed)
	}
	if got := git(t, b.dir, "rev-list", "--count", p.Old+"..main"); got != "1" {
		t.Errorf("%s commits landed", got)
	}
	if got := git(t, b.dir, "status", "--porcelain"); got != "" {
		t.Errorf("git status prints %q", got)
	}
	checkNoLocks(t, b)
}

func TestLandIsNotCutOff(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	// The smudge filter fails after the branch has moved.
	git(t, dir, "config", "filter.slow.smudge", "cat")
	git(t, dir, "config", "filter.slow.clean", "cat")
	git(t, dir, "config", "filter.slow.required", "true")
	write(t, filepath.Join(dir, ".gitattributes"), "*.slow filter=slow\n")
	commit(t, dir, "filter")
	b, p := ready(t, dir, `echo x > a.slow; echo y > z`)
	plan, err := worktree.PlanLanding(t.Context(), b.repo, "refs/heads/main", b.spec.Base, gitstate.OID(p.New))
	if err != nil {
		t.Fatal(err)
	}
	git(t, dir, "config", "filter.slow.smudge", "false")
	err = worktree.Land(t.Context(), b.repo, plan, "run-1")
	if _, ok := errors.AsType[*worktree.SourceError](err); err == nil || ok {
		t.Fatalf("Land with a filter that fails: %v", err)
	}
	if landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1"); err == nil || !landed {
		t.Errorf("ResumeLanding with a filter that fails: %v, %v", landed, err)
	}
	git(t, dir, "config", "filter.slow.smudge", "cat")
	if landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1"); err != nil || !landed {
		t.Errorf("ResumeLanding: %v, %v", landed, err)
	}
	checkLanded(t, b, "refs/heads/main", gitstate.OID(p.New))
}
