package worktree_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/worktree"
)

func sum(data string) string {
	s := sha256.Sum256([]byte(data))
	return hex.EncodeToString(s[:])
}

func newRoom(t *testing.T, b *bench, commit gitstate.OID) *worktree.Room {
	t.Helper()
	room, err := worktree.NewRoom(t.Context(), b.repo, b.spec.Root, "run-1-1", commit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := room.Close(); err != nil {
			t.Error(err)
		}
	})
	return room
}

func TestRoom(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	write(t, b.path("src/a.txt"), "changed\n")
	write(t, b.path("ignored.o"), "o")
	snap := b.snapshot()
	room := newRoom(t, b, snap.Commit)
	if got := read(t, filepath.Join(room.Dir, "src/a.txt")); got != "changed\n" {
		t.Errorf("src/a.txt is %q", got)
	}
	if exists(filepath.Join(room.Dir, "ignored.o")) {
		t.Error("an ignored file is in the room")
	}
	for _, dir := range []string{room.Home, room.Tmp} {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 || len(names(t, dir)) > 0 {
			t.Errorf("%s: %v, %v, %q", dir, info.Mode(), err, names(t, dir))
		}
	}
	// AC-09: what tests do in it, with git or without, goes no further.
	b.unchanged(func() {
		sh(t, room.Dir, `
			test "$(git rev-parse HEAD)" = "$WANT"; git log -1 >/dev/null; test -z "$(git status --porcelain)"
			date > src/generated.txt; mkdir -p coverage/deep; touch coverage/deep/x; chmod 500 coverage/deep coverage
			git add -A; git commit -qm x; git tag t; git stash; git gc -q; d=$(mktemp -d); cd $d; git init -q; git commit -q --allow-empty -m x`,
			"WANT="+string(snap.Commit), "HOME="+room.Home, "TMPDIR="+room.Tmp, "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x")
	})
	if again := b.snapshot(); again.Commit != snap.Commit {
		t.Error("the worker's folder changed")
	}
	if err := room.Close(); err != nil {
		t.Error(err)
	}
	if exists(filepath.Join(b.spec.Root, ".rooms")) {
		t.Error("the room is left")
	}
}

func TestRoomReplacesLeftover(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	room := newRoom(t, b, b.spec.Base)
	sh(t, room.Dir, `echo x > left; mkdir ro; echo y > ro/y; chmod 500 ro`)
	room = newRoom(t, b, b.spec.Base)
	if exists(filepath.Join(room.Dir, "left")) {
		t.Error("the room is not clean")
	}
}

func TestRoomErrors(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	write(t, filepath.Join(dir, ".gitattributes"), "*.txt filter=bad\n")
	commit(t, dir, "filter")
	b := prepare(t, dir)
	git(t, dir, "config", "filter.bad.smudge", "false")
	git(t, dir, "config", "filter.bad.required", "true")
	roomError := func(commit gitstate.OID, name string, code schemas.Code) {
		t.Helper()
		_, err := worktree.NewRoom(t.Context(), b.repo, b.spec.Root, name, commit)
		e, ok := errors.AsType[*worktree.RoomError](err)
		if !ok || e.Code() != code {
			t.Errorf("got %v, want a *RoomError with %s", err, code)
		}
		if exists(filepath.Join(b.spec.Root, ".rooms")) {
			t.Error("something is left")
		}
	}
	roomError(b.spec.Base, "r", schemas.CodeWorkerSetup)
	roomError(b.spec.Base, "../r", schemas.CodeWorkerSetup)
	if !exists(b.w.Path()) {
		t.Fatal("a room with a path for a name removed the worker's folder")
	}
	if err := os.Rename(dir, dir+"-moved"); err != nil {
		t.Fatal(err)
	}
	roomError(b.spec.Base, "r", schemas.CodeNotARepository)
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	write(t, filepath.Join(dir, "tests/deep/t.txt"), "test\n")
	write(t, filepath.Join(dir, "swap"), "a file\n")
	commit(t, dir, "more")
	b := prepare(t, dir)
	outside := tempDir(t)
	write(t, filepath.Join(outside, "x"), "precious\n")
	sh(t, b.w.Path(), `
		echo weak > tests/check.sh; echo extra > tests/extra; rm -r tests/deep; echo file > tests/deep
		rm swap; mkdir swap; echo x > swap/x; ln -s "$OUTSIDE" out; rm link; echo y > added`, "OUTSIDE="+outside)
	room := newRoom(t, b, b.snapshot().Commit)
	paths := []string{"tests/extra", "tests/check.sh", "tests/deep/t.txt", "swap", "link", "out/x", "absent", "src/a.txt", "tests/check.sh"}
	overlays, err := room.Overlay(t.Context(), b.spec.Base, paths)
	if err != nil {
		t.Fatal(err)
	}
	want := []schemas.Overlay{
		{Path: "absent", Source: "base"},
		{Path: "link", Source: "base", SHA256: sum("src/a.txt")},
		{Path: "out/x", Source: "base"},
		{Path: "src/a.txt", Source: "base", SHA256: sum("one\ntwo\nthree\n")},
		{Path: "swap", Source: "base", SHA256: sum("a file\n")},
		{Path: "tests/check.sh", Source: "base", SHA256: sum("grep -q two src/a.txt\n")},
		{Path: "tests/deep/t.txt", Source: "base", SHA256: sum("test\n")},
		{Path: "tests/extra", Source: "base"},
	}
	if !slices.Equal(overlays, want) {
		t.Errorf("overlays\n%+v\nwant\n%+v", overlays, want)
	}
	if exists(filepath.Join(room.Dir, "tests/extra")) || !exists(filepath.Join(room.Dir, "added")) {
		t.Error("the wrong files were removed")
	}
	if info, err := os.Stat(filepath.Join(room.Dir, "tests/check.sh")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("tests/check.sh: %v, %v", info, err)
	}
	if got := read(t, filepath.Join(outside, "x")); got != "precious\n" {
		t.Errorf("the file outside is %q", got)
	}
	for _, path := range []string{"../x", "/etc/passwd", ".git", "a/.GIT/x"} {
		if _, err := room.Overlay(t.Context(), b.spec.Base, []string{path}); err == nil {
			t.Errorf("%q was taken", path)
		}
	}
}

// An overlay is what a checkout would give, filters and all.
func TestOverlayFilters(t *testing.T) {
	t.Parallel()
	b := prepare(t, kinds["required filter"](t))
	write(t, b.path("src/a.txt"), "mine\n")
	room := newRoom(t, b, b.snapshot().Commit)
	if _, err := room.Overlay(t.Context(), b.spec.Base, []string{"src/a.txt"}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(room.Dir, "src/a.txt")); got != "one\ntwo\nthree\n" {
		t.Errorf("src/a.txt is %q", got)
	}
}

func TestReuse(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	write(t, filepath.Join(dir, ".gitignore"), "node_modules/\n.venv\n*.cache\n")
	commit(t, dir, "ignore")
	sh(t, dir, `
		mkdir -p node_modules/.bin node_modules/a packages/p/node_modules .venv/lib; echo keep > node_modules/keep; echo x > node_modules/a/x
		ln -s ../a/x node_modules/.bin/x; ln node_modules/a/x node_modules/a/hard; echo p > packages/p/node_modules/p
		echo l > .venv/lib/l; echo b > .venv/b; echo c > src/c.cache; chmod 555 node_modules/a`)
	b := prepare(t, dir)
	room := newRoom(t, b, b.spec.Base)
	overlays, err := room.Reuse(t.Context(), dir, []string{"node_modules", "packages/*/node_modules/", ".venv/lib", "**/*.cache", "absent", "no/such/**"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range overlays {
		if o.Source != "reuse" || len(o.SHA256) != 64 {
			t.Errorf("overlay %+v", o)
		}
		got = append(got, o.Path)
	}
	if want := []string{".venv/lib", "node_modules", "packages/p/node_modules", "src/c.cache"}; !slices.Equal(got, want) {
		t.Errorf("reused %q, want %q", got, want)
	}
	if exists(filepath.Join(room.Dir, ".venv/b")) {
		t.Error("too much was copied")
	}
	// WT-27: whatever is done to the copy, the user's stays.
	before := files(t, dir)
	sh(t, room.Dir, `echo changed > node_modules/keep; chmod u+w node_modules/a; echo changed > node_modules/a/hard; cat node_modules/.bin/x; rm -rf node_modules`)
	if after := files(t, dir); after != before {
		t.Errorf("the checkout changed from\n%s\nto\n%s", before, after)
	}
	sh(t, dir, "chmod 755 node_modules/a")

	again := newRoom(t, b, b.spec.Base)
	same, err := again.Reuse(t.Context(), dir, []string{"**/node_modules", "src/*.cache"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(same, overlays[1:]) {
		t.Errorf("hashes %+v, then %+v", overlays, same)
	}
}

func TestReuseRefuses(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	write(t, filepath.Join(dir, ".gitignore"), "/ignored\n/deps\n/mixed/*.x\n")
	write(t, filepath.Join(dir, "mixed/t"), "tracked\n")
	commit(t, dir, "ignore")
	b := prepare(t, dir)
	// The candidate has its own file, and a link, where ignored files are to go.
	sh(t, b.w.Path(), `sed -i /ignored/d .gitignore; mkdir ignored; echo mine > ignored/x; rm -r mixed; ln -s /tmp mixed`)
	candidate := b.snapshot().Commit
	sh(t, dir, `mkdir ignored deps; echo x > ignored/x; echo y > mixed/y.x; ln -s "$PWD/src" deps/src`)
	for glob, says := range map[string]string{
		"src":         "tracks",
		"README":      "tracks",
		"src/**":      "tracks",
		"../other":    "pattern",
		"/etc":        "pattern",
		"[":           "pattern",
		"ignored":     "in its place",
		"mixed/*.x":   "behind a link",
		"deps":        "link into the checkout",
		".git":        "",
		".git/config": "",
	} {
		// What the glob alone says is known before there is a room.
		early := worktree.CheckReuse(t.Context(), open(t, dir), []string{glob})
		if refused := says == "tracks" || says == "pattern"; refused != (early != nil) || refused && !strings.Contains(early.Error(), says) {
			t.Errorf("%q: before there is a room: %v", glob, early)
		}
		room := newRoom(t, b, candidate)
		overlays, err := room.Reuse(t.Context(), dir, []string{glob})
		e, ok := errors.AsType[*worktree.ReuseError](err)
		if says == "" {
			if err != nil || len(overlays) > 0 {
				t.Errorf("%q: %v, %v", glob, overlays, err)
			}
			continue
		}
		if !ok || !strings.Contains(e.Error(), says) || e.Code() != schemas.CodeContractInvalid {
			t.Errorf("%q: %v, want an error with %q", glob, err, says)
		}
	}
	if exists("/tmp/y.x") {
		t.Error("copied through a link")
	}
}

func TestDirtyPaths(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	sh(t, dir, `echo x >> src/a.txt; git rm -q README; echo n > 'new
file'; mkdir u; echo 1 > u/1; echo 2 > u/2; git add -N u/1; echo o > x.o; git mv src/b.txt z; git config status.showUntrackedFiles no`)
	write(t, filepath.Join(dir, ".git/index.lock"), "") // somebody is busy: reading does not mind
	got, err := worktree.DirtyPaths(t.Context(), open(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"README", "new\nfile", "src/a.txt", "src/b.txt", "u/1", "u/2", "z"}; !slices.Equal(got, want) {
		t.Errorf("dirty %q, want %q", got, want)
	}
	bare := kinds["bare"](t)
	if got, err := worktree.DirtyPaths(t.Context(), open(t, bare)); err != nil || got != nil {
		t.Errorf("bare: %q, %v", got, err)
	}
}
