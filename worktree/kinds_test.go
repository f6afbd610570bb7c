package worktree_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/worktree"
)

// kinds are the kinds of repositories that everything has to work in. Each function makes one and
// returns a folder to start from.
var kinds = map[string]func(*testing.T) string{
	"plain":  func(t *testing.T) string { return newRepo(t) },
	"sha256": func(t *testing.T) string { return newRepo(t, "--object-format=sha256") },
	"linked worktree": func(t *testing.T) string {
		linked := filepath.Join(tempDir(t), "linked")
		git(t, newRepo(t), "worktree", "add", "-q", "-b", "side", linked)
		return linked
	},
	"bare": func(t *testing.T) string {
		bare := filepath.Join(tempDir(t), "bare.git")
		git(t, newRepo(t), "clone", "-q", "--bare", ".", bare)
		configure(t, bare)
		return bare
	},
	"separate git dir": func(t *testing.T) string { return newRepo(t, "--separate-git-dir", filepath.Join(tempDir(t), "git")) },
	"sparse cone":      func(t *testing.T) string { return sparse(t, newRepo(t), "--cone", "src") },
	"sparse patterns":  func(t *testing.T) string { return sparse(t, newRepo(t), "--no-cone", "/src/", "/*.x") },
	"sparse index":     func(t *testing.T) string { return sparse(t, newRepo(t), "--cone", "--sparse-index", "src") },
	"split index": func(t *testing.T) string {
		dir := newRepo(t)
		git(t, dir, "update-index", "--split-index")
		return dir
	},
	"index version 4": func(t *testing.T) string {
		dir := newRepo(t)
		git(t, dir, "config", "feature.manyFiles", "true")
		git(t, dir, "update-index", "--index-version=4", "--untracked-cache")
		return dir
	},
	"worktreeConfig": func(t *testing.T) string {
		dir := newRepo(t)
		git(t, dir, "config", "core.repositoryFormatVersion", "1")
		git(t, dir, "config", "extensions.worktreeConfig", "true")
		git(t, dir, "config", "--worktree", "core.autocrlf", "input")
		return dir
	},
	"partial clone": func(t *testing.T) string { return clone(t, "--filter=blob:none") },
	"partial clone without checkout": func(t *testing.T) string {
		// The user has no files; the worker gets them all, fetched.
		dir := clone(t, "--filter=blob:none", "--no-checkout")
		git(t, dir, "read-tree", "HEAD")
		git(t, dir, "checkout", "-q", ".")
		return dir
	},
	"partial and sparse": func(t *testing.T) string {
		dir := clone(t, "--filter=blob:none", "--sparse")
		git(t, dir, "sparse-checkout", "set", "src")
		return dir
	},
	"shallow": func(t *testing.T) string { return clone(t, "--depth=1") },
	"shared": func(t *testing.T) string {
		first := filepath.Join(tempDir(t), "first")
		git(t, newRepo(t), "clone", "-q", "--shared", ".", first)
		second := filepath.Join(tempDir(t), "second")
		git(t, first, "clone", "-q", "--shared", ".", second)
		configure(t, second)
		return second
	},
	"packed": func(t *testing.T) string {
		dir := newRepo(t)
		git(t, dir, "gc", "-q")
		return dir
	},
	"required filter": func(t *testing.T) string {
		dir := newRepo(t)
		git(t, dir, "config", "filter.up.clean", "tr a-z A-Z")
		git(t, dir, "config", "filter.up.smudge", "tr A-Z a-z")
		git(t, dir, "config", "filter.up.required", "true")
		return withAttributes(t, dir, "*.txt filter=up\n")
	},
	"eol": func(t *testing.T) string {
		return withAttributes(t, newRepo(t), "*.txt text eol=crlf\n*.sh text eol=lf\n")
	},
	"autocrlf": func(t *testing.T) string {
		dir := newRepo(t)
		git(t, dir, "config", "core.autocrlf", "true")
		withAttributes(t, dir, "*.bin -text\n")
		git(t, dir, "config", "core.safecrlf", "true")
		return dir
	},
	"encoding": func(t *testing.T) string {
		return withAttributes(t, newRepo(t), "*.txt working-tree-encoding=UTF-16LE\n")
	},
	"ident": func(t *testing.T) string {
		dir := newRepo(t)
		write(t, filepath.Join(dir, "src/b.txt"), "$Id$\n")
		return withAttributes(t, dir, "*.txt ident\n")
	},
	"submodule": func(t *testing.T) string { return withSubmodule(t, newRepo(t)) },
	"submodule not cloned": func(t *testing.T) string {
		dir := withSubmodule(t, newRepo(t))
		git(t, dir, "submodule", "deinit", "-q", "-f", "lib")
		if err := os.RemoveAll(filepath.Join(dir, ".git/modules")); err != nil {
			t.Fatal(err)
		}
		return dir
	},
	"ignorecase": func(t *testing.T) string {
		dir := newRepo(t)
		git(t, dir, "config", "core.ignoreCase", "true")
		return dir
	},
	"no file mode": func(t *testing.T) string {
		dir := newRepo(t)
		git(t, dir, "config", "core.fileMode", "false")
		return dir
	},
	"user configuration": func(t *testing.T) string {
		dir := newRepo(t)
		for _, kv := range []string{
			"core.quotePath false", "status.showUntrackedFiles no", "diff.noprefix true", "status.relativePaths true", "core.preloadIndex false",
			"submodule.recurse true", "index.threads 1", "core.trustctime false", "core.checkStat minimal", "color.ui always", "core.abbrev 5",
			"diff.renames copies", "status.renames true", "i18n.commitEncoding latin1", "core.untrackedCache true", "core.splitIndex true",
		} {
			key, value, _ := strings.Cut(kv, " ")
			git(t, dir, "config", key, value)
		}
		return dir
	},
}

func sparse(t *testing.T, dir string, args ...string) string {
	t.Helper()
	git(t, dir, append([]string{"sparse-checkout", "set"}, args...)...)
	return dir
}

// clone makes a clone over the file protocol, so that filters and depth count.
func clone(t *testing.T, args ...string) string {
	t.Helper()
	origin := newRepo(t)
	git(t, origin, "config", "uploadpack.allowFilter", "true")
	git(t, origin, "config", "uploadpack.allowAnySHA1InWant", "true")
	write(t, filepath.Join(origin, "src/a.txt"), "one\ntwo\nthree\nfour\n")
	commit(t, origin, "more")
	dir := filepath.Join(tempDir(t), "clone")
	git(t, origin, append(append([]string{"clone", "-q"}, args...), "file://"+origin, dir)...)
	configure(t, dir)
	return dir
}

// withAttributes commits attributes and checks everything out by them.
func withAttributes(t *testing.T, dir, attributes string) string {
	t.Helper()
	write(t, filepath.Join(dir, ".gitattributes"), attributes)
	if strings.Contains(attributes, "UTF-16") {
		for _, name := range []string{"src/a.txt", "src/b.txt"} {
			sh(t, dir, "iconv -f UTF-8 -t UTF-16LE "+name+" > x; mv x "+name)
		}
	}
	git(t, dir, "-c", "core.safecrlf=false", "add", "--renormalize", ".")
	commit(t, dir, "attributes")
	sh(t, dir, "git ls-files -z | xargs -0 rm; git checkout -q .")
	return dir
}

func withSubmodule(t *testing.T, dir string) string {
	t.Helper()
	inner := newRepo(t)
	lib := newRepo(t)
	write(t, filepath.Join(lib, "lib.txt"), "library\n")
	git(t, lib, "-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "inner")
	commit(t, lib, "library")
	git(t, dir, "-c", "protocol.file.allow=always", "submodule", "add", "-q", "--name", "the lib", lib, "lib")
	git(t, dir, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init", "--recursive")
	commit(t, dir, "submodule")
	return dir
}

// TestKinds goes the whole way of a change through this package in every kind of repository.
func TestKinds(t *testing.T) {
	t.Parallel()
	for name, newKind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newKind(t)
			b := prepare(t, dir)
			if b.repo.WorkTree != "" {
				if paths, err := worktree.DirtyPaths(t.Context(), b.repo); err != nil || len(paths) > 0 {
					t.Errorf("dirty paths of a clean checkout: %q, %v", paths, err)
				}
				// The worker sees what the user has.
				if user, theirs := files(t, dir), files(t, b.w.Path()); user != theirs {
					t.Errorf("the worker's folder holds\n%s\nthe user's\n%s", theirs, user)
				}
			}
			if got := git(t, b.w.Path(), "status", "--porcelain"); got != "" {
				t.Errorf("git status in the folder prints %q", got)
			}
			if snap := b.snapshot(); snap.Commit != b.spec.Base {
				t.Errorf("an untouched folder has changes %q", b.changes(snap.Commit))
			}

			sh(t, b.w.Path(), `head -c 2 src/b.txt > x.o; cat x.o > src/b.txt; rm x.o; cp src/a.txt src/new.txt; mkdir -p far; printf far > far/file; rm -f README`)
			snap := b.snapshot()
			want := "D README\nA far/file\nM src/b.txt\nA src/new.txt"
			if name == "sparse patterns" {
				want = "A far/file\nM src/b.txt\nA src/new.txt" // README was not there
			}
			if got := b.changes(snap.Commit); got != want {
				t.Errorf("changes\n%s\nwant\n%s", got, want)
			}
			if len(snap.Skipped)+len(snap.Nested)+len(snap.Attributes) > 0 || snap.PointerChanged {
				t.Errorf("snapshot %+v", snap)
			}
			// A copy of a file is stored as the file is.
			tree := string(snap.Tree)
			if a, n := git(t, dir, "rev-parse", tree+":src/a.txt"), git(t, dir, "rev-parse", tree+":src/new.txt"); a != n {
				t.Errorf("src/a.txt is stored as %s, its copy as %s", a, n)
			}

			// The worker's own commit works, and changes nothing of that.
			b.unchanged(func() {
				git(t, b.w.Path(), "add", "-A", "--sparse")
				git(t, b.w.Path(), "commit", "-qm", "own")
				git(t, b.w.Path(), "log", "-1", "--stat")
			})
			if again := b.snapshot(); again.Commit != snap.Commit {
				t.Errorf("after the worker's commit the snapshot is %+v", again)
			}

			room, err := worktree.NewRoom(t.Context(), b.repo, b.spec.Root, "room", snap.Commit)
			if err != nil {
				t.Fatal(err)
			}
			if inRoom, theirs := files(t, room.Dir), files(t, b.w.Path()); inRoom != theirs {
				t.Errorf("the room holds\n%s\nthe worker's folder\n%s", inRoom, theirs)
			}
			if got := git(t, room.Dir, "status", "--porcelain"); got != "" {
				t.Errorf("git status in the room prints %q", got)
			}
			if err := room.Close(); err != nil {
				t.Error(err)
			}

			approved, err := worktree.ApprovedCommit(t.Context(), b.repo, snap.Tree, b.spec.Base, "A change\n")
			if err != nil {
				t.Fatal(err)
			}
			land(t, b, approved)

			if err := b.w.Remove(); err != nil {
				t.Error(err)
			}
			git(t, dir, "fsck", "--no-dangling", "--connectivity-only")
		})
	}
}

// land lands a commit on the branch of b's repository and checks that nothing is left to do.
func land(t *testing.T, b *bench, approved gitstate.OID) {
	t.Helper()
	branch := gitstate.Ref(git(t, b.dir, "symbolic-ref", "HEAD"))
	plan, err := worktree.PlanLanding(t.Context(), b.repo, branch, b.spec.Base, approved)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Checkout != b.repo.WorkTree {
		t.Errorf("the plan has checkout %q, want %q", plan.Checkout, b.repo.WorkTree)
	}
	if err := worktree.Land(t.Context(), b.repo, plan, "run-1"); err != nil {
		t.Fatal(err)
	}
	checkLanded(t, b, branch, approved)
	if landed, err := worktree.ResumeLanding(t.Context(), b.repo, plan, "run-1"); err != nil || !landed {
		t.Errorf("ResumeLanding after Land: %v, %v", landed, err)
	}
	checkLanded(t, b, branch, approved)
}

func checkLanded(t *testing.T, b *bench, branch gitstate.Ref, commit gitstate.OID) {
	t.Helper()
	if got := git(t, b.dir, "rev-parse", string(branch)); got != string(commit) {
		t.Errorf("%s is at %s, want %s", branch, got, commit)
	}
	checkNoLocks(t, b)
	if b.repo.WorkTree == "" {
		return
	}
	want := files(t, b.w.Path())
	if git(t, b.dir, "config", "--default=false", "core.sparseCheckout") == "true" {
		// What lies outside the user's patterns stays out of the checkout.
		want = strings.Join(slices.DeleteFunc(strings.Split(want, "\n"), func(l string) bool { return strings.HasPrefix(l, "./far/") }), "\n")
	}
	checkStatus(t, b, want)
	if got := git(t, b.dir, "reflog", "-1", "--format=%gs", string(branch)); got != "git spot: integrate run-1" {
		t.Errorf("the reflog says %q", got)
	}
}

// checkStatus checks that the checkout is clean and holds what files gives.
func checkStatus(t *testing.T, b *bench, want string) {
	t.Helper()
	if b.repo.WorkTree == "" {
		return
	}
	if got := git(t, b.dir, "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none"); got != "" {
		t.Errorf("git status prints %q", got)
	}
	if got := files(t, b.dir); got != want {
		t.Errorf("the checkout holds\n%s\nwant\n%s", got, want)
	}
}

func checkNoLocks(t *testing.T, b *bench) {
	t.Helper()
	if got := sh(t, b.repo.CommonDir, `find . -name '*.lock' -o -name landing`); got != "" {
		t.Errorf("left behind:\n%s", got)
	}
}

// files lists path, mode and content of everything in a checkout; no ignored files are expected.
func files(t *testing.T, dir string) string {
	t.Helper()
	return sh(t, dir, `find . -name .git -prune -o -type f -printf '%p %m ' -exec sh -c 'sha256sum < "$0"' {} \; -o -type l -printf '%p -> %l\n' | sort`, "LC_ALL=C")
}
