package worktree_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/git-spot/git-spot/worktree"
)

func TestSnapshotOfNothing(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	sh(t, b.w.Path(), "touch src/a.txt; mkdir empty; echo x > ignored.o; mkdir build; echo y > build/y")
	snap := b.snapshot()
	if snap.Commit != b.spec.Base || len(snap.Nested)+len(snap.Skipped)+len(snap.Attributes) > 0 || snap.PointerChanged {
		t.Errorf("got %+v, want base", snap)
	}
}

func TestSnapshotCommit(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	write(t, b.path("src/new.txt"), "new\n")
	var snap worktree.Snapshot
	b.unchanged(func() { snap = b.snapshot() })
	if got, want := b.changes(snap.Commit), "A src/new.txt"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
	want := "tree " + string(snap.Tree) + "\nparent " + string(b.spec.Base) +
		"\nauthor A Worker <worker@example.org> 1767315845 +0200\ncommitter A Worker <worker@example.org> 1767315845 +0200\n\na change\n\nwith a body"
	if got := git(t, b.dir, "cat-file", "commit", string(snap.Commit)); got != want {
		t.Errorf("commit is\n%s\nwant\n%s", got, want)
	}
	if again := b.snapshot(); again.Commit != snap.Commit {
		t.Errorf("the same folder gives %s, then %s", snap.Commit, again.Commit)
	}
}

func TestSnapshotChanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, want string }{
		"edit":                   {`echo x >> src/a.txt`, "M src/a.txt"},
		"delete":                 {`rm src/a.txt`, "D src/a.txt"},
		"delete a folder":        {`rm -r src`, "D src/a.txt\nD src/b.txt"},
		"mode":                   {`chmod +x src/a.txt`, "M src/a.txt"},
		"rename":                 {`mv src/a.txt z.txt`, "D src/a.txt\nA z.txt"},
		"new in new folder":      {`mkdir -p a/b/c; echo x > a/b/c/d`, "A a/b/c/d"},
		"file to link":           {`rm src/a.txt; ln -s b.txt src/a.txt`, "T src/a.txt"},
		"link to file":           {`rm link; echo x > link`, "T link"},
		"dangling link":          {`ln -s /nowhere dangling`, "A dangling"},
		"file to folder":         {`rm README; mkdir README; echo x > README/x`, "D README\nA README/x"},
		"folder to file":         {`rm -r src; echo x > src`, "A src\nD src/a.txt\nD src/b.txt"},
		"folder to link":         {`mv src other; ln -s other src`, "A other/a.txt\nA other/b.txt\nA src\nD src/a.txt\nD src/b.txt"},
		"folders swapped":        {`mkdir src2; cp src/b.txt src2/a.txt; cp src/a.txt src2/b.txt; mv src old; mv src2 src; rm -r old`, "M src/a.txt\nM src/b.txt"},
		"ignored":                {`echo x > y.o; mkdir -p build/z; echo x > build/z/q`, ""},
		"no longer ignored":      {`echo '!y.o' >> .gitignore; echo x > y.o; echo x > z.o`, "M .gitignore\nA y.o"},
		"newly ignored, tracked": {`echo 'src/' >> .gitignore; echo x > src/a.txt; echo x > src/n.txt`, "M .gitignore\nM src/a.txt"},
		"nested ignore":          {`mkdir d; echo '*' > d/.gitignore; echo x > d/y`, ""},
		"own excludes":           {`echo hidden >> .git-excluded; echo x > hidden`, "A .git-excluded\nA hidden"},
		"worker commits":         {`echo x > src/new; git add -A; git commit -qm own; echo y > src/other; git rm -q README; git commit -qm more`, "D README\nA src/new\nA src/other"},
		"worker's index":         {`echo x > src/new; rm -f "$(git rev-parse --git-dir)/index"; git update-index --assume-unchanged README || true`, "A src/new"},
		"worker's branch":        {`git checkout -q -b mine; echo x >> README; git commit -qam own; git checkout -q HEAD~; echo z > z`, "A z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := prepare(t, newRepo(t))
			sh(t, b.w.Path(), tc.script)
			snap := b.snapshot()
			if got := b.changes(snap.Commit); got != tc.want {
				t.Errorf("changes\n%s\nwant\n%s", got, tc.want)
			}
			if len(snap.Nested)+len(snap.Skipped) > 0 {
				t.Errorf("nested %q, skipped %q", snap.Nested, snap.Skipped)
			}
			// The folder comes back the same from the tree.
			if err := b.w.Reset(t.Context(), snap.Tree); err != nil {
				t.Fatal(err)
			}
			if again := b.snapshot(); again.Tree != snap.Tree {
				t.Errorf("tree %s after Reset to %s: %s", again.Tree, snap.Tree, git(t, b.dir, "diff-tree", "-r", string(snap.Tree), string(again.Tree)))
			}
		})
	}
}

func TestSnapshotIgnoresUserExcludes(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	write(t, filepath.Join(dir, ".git/info/exclude"), "by-info\n")
	excludes := filepath.Join(tempDir(t), "excludes")
	write(t, excludes, "by-user\n")
	git(t, dir, "config", "core.excludesFile", excludes)
	b := prepare(t, dir)
	write(t, b.path("by-info"), "x")
	write(t, b.path("by-user"), "x")
	if got, want := b.changes(b.snapshot().Commit), "A by-info\nA by-user"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
}

func TestSnapshotNames(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	names := []string{
		"naïve file.txt", "nl\nname", `q"q`, " lead", "trail ", "-x", "--force", "*", "?", ":(glob)x", ":x", "!x", "#x", "tab\there",
		"bad\xff\xfename", "\x01", `back\slash`, "a/-x", "a/:y", "a\nb/c\nd", strings.Repeat("n", 250),
	}
	for _, name := range names {
		write(t, b.path(name), name)
	}
	deep := strings.Repeat("d/", 60) + "f"
	write(t, b.path(deep), "deep")
	names = append(names, deep)
	snap := b.snapshot()
	if len(snap.Skipped) > 0 {
		t.Errorf("skipped %q", snap.Skipped)
	}
	got := strings.Split(strings.TrimSuffix(git(t, b.dir, "diff-tree", "-r", "-z", "--name-only", string(b.spec.Base), string(snap.Commit)), "\x00"), "\x00")
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("got %q\nwant %q", got, names)
	}
	// A name in the ignore rules is asked for as it is.
	write(t, b.path(".gitignore"), "\\:x\n\\!x\n")
	after := git(t, b.dir, "diff-tree", "-r", "--name-status", string(snap.Commit), string(b.snapshot().Commit))
	if want := "D\t!x\nM\t.gitignore\nD\t:x"; after != want {
		t.Errorf("ignoring gives %q, want %q", after, want)
	}
}

func TestSnapshotSkips(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	sh(t, b.w.Path(), `
		mkfifo fifo src/fifo sub.o
		rm README; mkfifo README
		mkdir dir; mkfifo dir/.gitignore; echo x > dir/x; mkfifo .gitattributes src/.gitignore
		mkdir .GIT new; echo y > .GIT/config; mkdir new/.Git; echo z > new/.Git/z; echo n > new/n
		mkdir build; mkfifo build/fifo`)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: shortPath(t, b.path("sock"))}); err != nil {
		t.Fatal(err)
	}
	snap := b.snapshot()
	want := []string{".GIT", ".gitattributes", "README", "dir/.gitignore", "fifo", "new/.Git", "sock", "src/.gitignore", "src/fifo"}
	if !slices.Equal(snap.Skipped, want) {
		t.Errorf("skipped %q\nwant    %q", snap.Skipped, want)
	}
	if got, want := b.changes(snap.Commit), "A dir/x\nA new/n"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
	if len(snap.Attributes) > 0 {
		t.Errorf("attributes %q", snap.Attributes)
	}
}

// shortPath names a path by way of a link, because the address of a socket has 107 bytes.
func shortPath(t *testing.T, path string) string {
	t.Helper()
	link, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(link) })
	if err := os.Symlink(filepath.Dir(path), filepath.Join(link, "l")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(link, "l", filepath.Base(path))
}

func TestSnapshotInvalidNames(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	sh(t, b.w.Path(), `mkdir 'git~1'; echo x > 'git~1/x'; echo y > fine; echo z > '.git .'; mkdir sub; ln -s /etc/passwd sub/.gitmodules; ln -s x .gitmodules`)
	snap := b.snapshot()
	if got, want := b.changes(snap.Commit), "A fine"; got != want && got != "A fine\nA sub/.gitmodules" {
		t.Errorf("changes %q, want %q", got, want)
	}
	for _, name := range []string{"git~1/x", ".gitmodules"} {
		if !slices.Contains(snap.Skipped, name) {
			t.Errorf("%q is not among the skipped %q", name, snap.Skipped)
		}
	}
}

func TestSnapshotPointer(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"removed":   `rm .git`,
		"rewritten": `echo "gitdir: $PWD/evil" > .git`,
		"link":      `mv .git x.o; ln -s x.o .git`,
		"folder":    `rm .git; git init -q; git commit -q --allow-empty -m x`,
		"fifo":      `rm .git; mkfifo .git`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := prepare(t, newRepo(t))
			sh(t, b.w.Path(), `export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x; `+script+`; echo x > new`)
			snap := b.snapshot()
			if !snap.PointerChanged {
				t.Error("not noticed")
			}
			if got, want := b.changes(snap.Commit), "A new"; got != want {
				t.Errorf("changes %q, want %q", got, want)
			}
		})
	}
}

func TestSnapshotNested(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	sh(t, b.w.Path(), `
		export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x
		git init -q inner; cd inner; echo x > x; git add x; git commit -qm x; cd ..
		git init -q unborn; echo x > unborn/x
		mkdir -p junk/.git deep/er; echo x > junk/x; git init -q deep/er/repo; echo y > deep/y
		mkdir pointed; echo "gitdir: /nowhere" > pointed/.git; echo x > pointed/x
		mkdir linked; ln -s /tmp linked/.git
		git init -q src; echo x > src/new
		mkdir build; git init -q build/cache`)
	snap := b.snapshot()
	if want := []string{"deep/er/repo", "inner", "junk", "linked", "pointed", "src", "unborn"}; !slices.Equal(snap.Nested, want) {
		t.Errorf("nested %q, want %q", snap.Nested, want)
	}
	if got, want := b.changes(snap.Commit), "A deep/y\nA src/new"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
	if len(snap.Skipped) > 0 {
		t.Errorf("skipped %q", snap.Skipped)
	}
}

// Git opens .git/HEAD of whatever looks like a repository, and would wait for a writer.
func TestSnapshotNestedTraps(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	sh(t, b.w.Path(), `
		mkdir -p a/.git/objects a/.git/refs; mkfifo a/.git/HEAD; echo x > a/x
		mkdir trap b; cp -r a/.git trap/g; rm trap/g/HEAD; mkfifo trap/g/HEAD; echo "gitdir: $PWD/trap/g" > b/.git`)
	snap := b.snapshot()
	if want := []string{"a", "b"}; !slices.Equal(snap.Nested, want) {
		t.Errorf("nested %q, want %q", snap.Nested, want)
	}
	if snap.Commit != b.spec.Base {
		t.Errorf("changes %q", b.changes(snap.Commit))
	}
}

// evil is configuration that leaves a mark when git runs any of it.
func evil(mark string) string {
	return `[core]
	fsmonitor = "touch ` + mark + `-fsmonitor; false"
	hooksPath = ` + mark + `-hooks
	sshCommand = touch ` + mark + `-ssh
	pager = "touch ` + mark + `-pager; cat"
[filter "x"]
	clean = "touch ` + mark + `-clean; cat"
	smudge = "touch ` + mark + `-smudge; cat"
	process = "touch ` + mark + `-process"
[diff]
	external = touch ` + mark + `-external
[diff "x"]
	textconv = touch ` + mark + `-textconv
	command = touch ` + mark + `-command
[merge "x"]
	driver = touch ` + mark + `-merge
`
}

// Nothing in a worker's folder makes our git run it.
func TestSnapshotRunsNothing(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"private git directory": `cat "$EVIL" >> "$(git rev-parse --git-dir)/config"; echo x > src/a.txt`,
		"rewritten pointer":     `rm .git; git init -q; cat "$EVIL" >> .git/config; mkdir -p "$MARK-hooks"; echo x > src/a.txt`,
		"nested repository":     `git init -q inner; cat "$EVIL" >> inner/.git/config; echo '* filter=x diff=x' > inner/.gitattributes; echo x > inner/x; git -C inner add . || true; echo y > inner/x`,
		"repository in tracked": `git init -q src; cat "$EVIL" >> src/.git/config; echo x > src/a.txt`,
		"attributes":            `echo '* filter=x diff=x merge=x' > .gitattributes; cat "$EVIL" >> "$(git rev-parse --git-dir)/config"; echo x > src/a.txt`,
		"gitlink":               `rm -r lib; git init -q lib; cd lib; echo '* filter=x' > .gitattributes; echo x > x; git add .; git commit -qm x; cat "$EVIL" >> .git/config; echo y > x`,
		"links":                 `rm -r src; ln -s / src; ln -s /dev/zero zero; ln -s /proc/self/mem mem`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newRepo(t)
			lib := newRepo(t)
			git(t, dir, "-c", "protocol.file.allow=always", "submodule", "add", "-q", lib, "lib")
			commit(t, dir, "with a submodule")
			b := prepare(t, dir)
			mark := filepath.Join(tempDir(t), "ran")
			config := filepath.Join(tempDir(t), "evil")
			write(t, config, evil(mark))
			sh(t, b.w.Path(), script, "EVIL="+config, "MARK="+mark,
				"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x")
			for _, ran := range glob(t, mark+"-*") { // the worker's own git may have
				if err := os.RemoveAll(ran); err != nil {
					t.Fatal(err)
				}
			}
			b.unchanged(func() {
				b.snapshot()
				if err := b.w.Reset(t.Context(), b.snapshot().Tree); err != nil {
					t.Error(err)
				}
				if err := b.w.Remove(); err != nil {
					t.Error(err)
				}
			})
			if ran := glob(t, mark+"-*"); len(ran) > 0 {
				t.Errorf("git ran %q", ran)
			}
		})
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestSnapshotSubmodules(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, changes, nested, skipped string }{
		"untouched":    {`touch src/a.txt`, "", "", ""},
		"edited":       {`echo x >> lib/lib.txt`, "", "", "lib"},
		"added":        {`echo x > lib/new`, "", "", "lib"},
		"edited below": {`echo x >> lib/inner/README`, "", "", "lib"},
		"repository":   {`git init -q lib`, "", "lib", "lib"},
		"removed":      {`rm -r lib`, "D lib", "", ""},
		"file":         {`rm -r lib; echo x > lib`, "T lib", "", ""},
		"link":         {`rm -r lib; ln -s src lib`, "T lib", "", ""},
		"moved":        {`mv lib other`, "D lib\nA other/.gitignore\nA other/.gitmodules\nA other/README\nA other/inner/.gitignore\nA other/inner/README\nA other/inner/link\nA other/inner/src/a.txt\nA other/inner/src/b.txt\nA other/inner/tests/check.sh\nA other/lib.txt\nA other/link\nA other/src/a.txt\nA other/src/b.txt\nA other/tests/check.sh", "", ""},
		"attributes":   {`echo '* -text' > .gitattributes; echo x >> lib/lib.txt; rm README`, "A .gitattributes\nD README", "", "lib"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := prepare(t, withSubmodule(t, newRepo(t)))
			if got := read(t, b.path("lib/lib.txt")); got != "library\n" {
				t.Fatalf("lib/lib.txt is %q", got)
			}
			sh(t, b.w.Path(), tc.script)
			snap := b.snapshot()
			if got := b.changes(snap.Commit); got != tc.changes {
				t.Errorf("changes\n%s\nwant\n%s", got, tc.changes)
			}
			if n, s := strings.Join(snap.Nested, " "), strings.Join(snap.Skipped, " "); n != tc.nested || s != tc.skipped {
				t.Errorf("nested %q, skipped %q", n, s)
			}
		})
	}
}

// A worker can set the times and keep the size of a file, but not its change time.
func TestSnapshotForgedTimes(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	forge := func(content string) {
		sh(t, b.w.Path(), `touch -r src/a.txt ref.o; printf '`+content+`' > src/a.txt; touch -r ref.o src/a.txt`)
	}
	forge(`ONE\ntwo\nthree\n`)
	first := b.snapshot()
	if got := b.changes(first.Commit); got != "M src/a.txt" {
		t.Errorf("changes %q", got)
	}
	// And again right after a snapshot, within the granularity of git's clock.
	forge(`TWO\ntwo\nthree\n`)
	second := b.snapshot()
	if second.Tree == first.Tree {
		t.Error("the second change was missed")
	}
	// A file with an old time that is put in the place of another.
	sh(t, b.w.Path(), `printf 'THE\n' > x.o; touch -r src/b.txt x.o; mv x.o src/b.txt`)
	if got := b.changes(b.snapshot().Commit); got != "M src/a.txt\nM src/b.txt" {
		t.Errorf("changes %q", got)
	}
}

func TestSnapshotWithoutKeptIndex(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"gone":         `rm -r spot`,
		"empty":        `: > spot/run-1/index`,
		"corrupt":      `echo DIRC-garbage > spot/run-1/index`,
		"stale copies": `mkdir spot/run-1/snapshot-1; touch spot/run-1/snapshot-1/index.lock spot/run-1/index.lock`,
		// What a worker can put in its place.
		"names an object that is not there": `
			export GIT_DIR=$PWD GIT_WORK_TREE=.. GIT_INDEX_FILE=$PWD/spot/run-1/index
			git update-index --add --cacheinfo 100644,1234567890123456789012345678901234567890,z
			git update-index --skip-worktree z`,
		"folder":         `rm spot/run-1/index; mkdir spot/run-1/index; touch spot/run-1/index/x`,
		"FIFO":           `rm spot/run-1/index; mkfifo spot/run-1/index`,
		"link":           `mv spot/run-1/index elsewhere; ln -s $PWD/elsewhere spot/run-1/index`,
		"in no folder":   `rm -r spot/run-1; echo x > spot/run-1`,
		"foreign mark":   `echo x > spot/run-1/reset`,
		"mark is a FIFO": `mkfifo spot/run-1/reset`,
		"mark is a file": `mkdir spot/run-1/reset; touch spot/run-1/reset/x`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := prepare(t, newRepo(t))
			sh(t, b.repo.CommonDir, spoil)
			write(t, b.path("src/a.txt"), "x\n")
			write(t, b.path("y.o"), "ignored\n")
			if got, want := b.changes(b.snapshot().Commit), "M src/a.txt"; got != want {
				t.Errorf("changes %q, want %q", got, want)
			}
		})
	}
}

// The tree of a Reset that was killed may be gone by the time it is finished.
func TestResetToATreeThatIsGone(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	write(t, b.path("src/a.txt"), "x\n")
	write(t, filepath.Join(b.repo.CommonDir, "spot/run-1/reset"), strings.Repeat("1234567890", 4))
	if snap := b.snapshot(); snap.Commit != b.spec.Base {
		t.Errorf("changes %q, want none", b.changes(snap.Commit))
	}
}

// When objects of base are gone, what the folder holds can still be kept.
func TestRescue(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"nothing is gone":             `true`,
		"a blob":                      `o=$(git rev-parse HEAD:README); rm objects/${o%??????????????????????????????????????}/${o#??}`,
		"all":                         `rm -r objects/??`,
		"all, and the kept index too": `rm -r objects/?? spot/run-1/index`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := prepare(t, newRepo(t))
			sh(t, b.w.Path(), `echo x > src/new; echo '* text eol=crlf' > .gitattributes; printf 'a\r\nb\n' > src/a.txt; rm src/b.txt; echo y > y.o`)
			sh(t, b.repo.CommonDir, spoil)
			by := worktree.Identity{Name: "A", Email: "a@example.org", When: time.Unix(1767315845, 0)}
			snap, err := b.w.Rescue(t.Context(), "kept", by)
			if err != nil {
				t.Fatal(err)
			}
			got := git(t, b.dir, "ls-tree", "-r", "--name-only", string(snap.Commit))
			want := ".gitattributes\n.gitignore\nREADME\nlink\nsrc/a.txt\nsrc/new\ntests/check.sh"
			if got != want {
				t.Errorf("kept\n%s\nwant\n%s", got, want)
			}
			if got := sh(t, b.dir, "git cat-file blob "+string(snap.Commit)+":src/a.txt | od -An -c | tr -d ' '"); got != `a\r\nb\n` {
				t.Errorf("src/a.txt is kept as %s", got)
			}
		})
	}
}

func TestSnapshotPermissions(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	sh(t, b.w.Path(), `
		mkdir -p closed/in; echo x > closed/in/x; echo y > src/secret
		chmod 000 src/secret README closed/in; chmod 000 closed src; chmod 555 tests`)
	if got, want := b.changes(b.snapshot().Commit), "A closed/in/x\nA src/secret"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
	sh(t, b.w.Path(), `chmod 000 closed src; chmod 500 tests`)
	if err := b.w.Remove(); err != nil {
		t.Error(err)
	}
	if !b.w.Lost() {
		t.Error("the folder is left")
	}
}

func TestSnapshotOfLost(t *testing.T) {
	t.Parallel()
	b := prepare(t, newRepo(t))
	if err := os.RemoveAll(b.w.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.w.Snapshot(t.Context(), "m", worker); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	if err := b.w.Reset(t.Context(), b.spec.Base); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Reset: %v, want fs.ErrNotExist", err)
	}
	if exists(b.w.Path()) {
		t.Error("the folder was made anew")
	}
}

func TestSnapshotAttributes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, attributes, changes string }{
		"added": {
			`echo '*.txt text eol=crlf' > .gitattributes; printf 'a\r\nb\r\n' > src/crlf.txt; echo x >> src/a.txt`,
			".gitattributes", "A .gitattributes\nM src/a.txt\nA src/crlf.txt",
		},
		"changed below":     {`echo '*.up -filter' > up/.gitattributes; echo new > up/b.up`, "up/.gitattributes", "M up/.gitattributes\nA up/b.up"},
		"removed":           {`rm up/.gitattributes; echo new > up/b.up`, "up/.gitattributes", "D up/.gitattributes\nA up/b.up"},
		"link":              {`rm up/.gitattributes; echo x > attr; ln -s ../attr up/.gitattributes; echo new > up/b.up`, "up/.gitattributes", "A attr\nT up/.gitattributes\nA up/b.up"},
		"folder":            {`rm up/.gitattributes; mkdir up/.gitattributes; echo x > up/.gitattributes/x; echo new > up/b.up`, "up/.gitattributes", "D up/.gitattributes\nA up/.gitattributes/x\nA up/b.up"},
		"ignored":           {`echo .gitattributes >> .gitignore; echo '*.up -filter' > up/sub/.gitattributes; echo new > up/sub/b.up`, "up/sub/.gitattributes", "M .gitignore\nA up/sub/b.up"},
		"other case":        {`echo '*.up -filter' > up/.GitAttributes; echo new > up/b.up`, "up/.GitAttributes", "A up/.GitAttributes\nA up/b.up"},
		"folder gone":       {`rm -r up; echo x >> src/a.txt`, "up/.gitattributes", "M src/a.txt\nD up/.gitattributes\nD up/a.up\nD up/sub/c.up"},
		"with file changes": {`echo '*.up -filter' >> up/.gitattributes; rm up/a.up src/b.txt; chmod +x README; ln -s x y`, "up/.gitattributes", "M README\nD src/b.txt\nM up/.gitattributes\nD up/a.up\nA y"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newRepo(t)
			git(t, dir, "config", "filter.up.clean", "tr a-z A-Z")
			git(t, dir, "config", "filter.up.smudge", "tr A-Z a-z")
			git(t, dir, "config", "filter.up.required", "true")
			write(t, filepath.Join(dir, "up/.gitattributes"), "*.up filter=up\n")
			write(t, filepath.Join(dir, "up/a.up"), "lower\n")
			write(t, filepath.Join(dir, "up/sub/c.up"), "lower\n")
			commit(t, dir, "attributes")
			b := prepare(t, dir)
			if got := read(t, b.path("up/a.up")); got != "lower\n" {
				t.Fatalf("checked out as %q", got)
			}
			sh(t, b.w.Path(), tc.script)
			snap := b.snapshot()
			if got := strings.Join(snap.Attributes, " "); got != tc.attributes {
				t.Errorf("attributes %q, want %q", got, tc.attributes)
			}
			if got := b.changes(snap.Commit); got != tc.changes {
				t.Errorf("changes\n%s\nwant\n%s", got, tc.changes)
			}
			// Base's attributes governed: what they filter is filtered, and nothing else.
			for path, want := range map[string]string{"up/b.up": "NEW", "up/sub/b.up": "NEW", "src/crlf.txt": "a\r\nb\r"} {
				if strings.Contains(tc.changes, path) {
					if got := git(t, dir, "cat-file", "blob", string(snap.Commit)+":"+path); got != want {
						t.Errorf("%s is stored as %q, want %q", path, got, want)
					}
				}
			}
			if exists(filepath.Join(b.spec.Root, ".mirrors", "run-1")) {
				t.Error("the mirror is left")
			}
		})
	}
}

// Attributes that only have other line endings are not changed: the checkout may have converted them.
func TestSnapshotAttributesLineEndings(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	git(t, dir, "config", "core.autocrlf", "true")
	write(t, filepath.Join(dir, ".gitattributes"), "*.bin -text\n")
	commit(t, dir, "attributes")
	b := prepare(t, dir)
	if got := read(t, b.path(".gitattributes")); got != "*.bin -text\r\n" {
		t.Fatalf("checked out as %q", got)
	}
	write(t, b.path("new.txt"), "a\r\n")
	snap := b.snapshot()
	if len(snap.Attributes) > 0 {
		t.Errorf("attributes %q", snap.Attributes)
	}
	if got := git(t, dir, "cat-file", "blob", string(snap.Commit)+":new.txt"); got != "a" {
		t.Errorf("stored as %q", got)
	}
}

// What a filter or encoding of base refuses must not wedge the run.
func TestSnapshotRefusedContent(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	git(t, dir, "config", "filter.strict.clean", "grep good")
	git(t, dir, "config", "filter.strict.smudge", "cat")
	git(t, dir, "config", "filter.strict.required", "true")
	write(t, filepath.Join(dir, ".gitattributes"), "*.strict filter=strict\n*.u16 working-tree-encoding=UTF-16\n")
	write(t, filepath.Join(dir, "a.strict"), "good\n")
	commit(t, dir, "attributes")
	b := prepare(t, dir)
	write(t, b.path("a.strict"), "evil, and longer\n")
	write(t, b.path("b.strict"), "evil\n")
	write(t, b.path("c.strict"), "good\n")
	write(t, b.path("d.u16"), "not UTF-16\n")
	write(t, b.path("e.txt"), "fine\n")
	snap := b.snapshot()
	if want := []string{"a.strict", "b.strict", "d.u16"}; !slices.Equal(snap.Skipped, want) {
		t.Errorf("skipped %q, want %q", snap.Skipped, want)
	}
	if got, want := b.changes(snap.Commit), "A c.strict\nA e.txt"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
}

func TestContentFilters(t *testing.T) {
	t.Parallel()
	top := map[string]string{"tools": "tree", "clean": "blob", "scripts": "tree", "fix.py": "blob", "s": "blob"}
	for command, want := range map[string]bool{
		"git-lfs clean -- %f":               false,
		"git lfs smudge":                    false,
		"/usr/bin/clang-format":             false,
		"sed -e 's/foo/bar/'":               true, // there is an entry "s": rather once too often
		"sed -e 's!foo!bar!'":               false,
		"tr a-z A-Z":                        false,
		"./tools/f":                         true,
		"tools/f":                           true,
		"absent/f":                          true,
		"../f":                              true,
		"python3 fix.py":                    true,
		"python fix.py --in %f":             true,
		"python -m json.tool":               false,
		"sh -c 'tools/f'":                   true,
		`bash -c "cat | scripts/x"`:         true,
		"env X=1 tools/f":                   true,
		"/opt/tool --config other/conf.ini": false,
		"~/bin/f":                           false,
		"$HOME/bin/f":                       true, // taken apart at "$"; again rather once too often
	} {
		if got := worktree.RunsContent(command, top); got != want {
			t.Errorf("%q: %v, want %v", command, got, want)
		}
	}
}

// WT-05: a filter that is content of the repository never runs; all others do.
func TestFilterInTree(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	mark := filepath.Join(tempDir(t), "ran")
	write(t, filepath.Join(dir, "tools/f"), "#!/bin/sh\ntouch "+mark+"\ncat\n")
	if err := os.Chmod(filepath.Join(dir, "tools/f"), 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "config", "filter.x=y.smudge", "./tools/f")
	git(t, dir, "config", "filter.x=y.clean", "./tools/f")
	git(t, dir, "config", "filter.x=y.required", "true")
	git(t, dir, "config", "filter.up.clean", "tr a-z A-Z")
	git(t, dir, "config", "filter.up.smudge", "tr A-Z a-z")
	write(t, filepath.Join(dir, ".gitattributes"), "*.txt filter=x=y\n*.up filter=up\n")
	write(t, filepath.Join(dir, "a.up"), "low\n")
	git(t, dir, "-c", "filter.x=y.required=false", "add", "-A")
	commit(t, dir, "filters")
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	b := prepare(t, dir)
	if want := []string{"x=y"}; !slices.Equal(b.w.DisabledFilters, want) {
		t.Errorf("disabled %q, want %q", b.w.DisabledFilters, want)
	}
	write(t, b.path("src/a.txt"), "changed\n")
	write(t, b.path("b.up"), "new\n")
	write(t, b.path("tools/f"), "#!/bin/sh\ntouch "+mark+"\ncat\n")
	snap := b.snapshot()
	if got, want := b.changes(snap.Commit), "A b.up\nM src/a.txt"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
	if got := git(t, dir, "cat-file", "blob", string(snap.Commit)+":b.up"); got != "NEW" {
		t.Errorf("b.up is stored as %q", got)
	}
	room, err := worktree.NewRoom(t.Context(), b.repo, b.spec.Root, "r", snap.Commit)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(room.Dir, "b.up")); got != "new\n" {
		t.Errorf("b.up is checked out as %q", got)
	}
	if err := room.Close(); err != nil {
		t.Error(err)
	}
	if exists(mark) {
		t.Error("the filter ran")
	}
}

// TestSnapshotWithinASecond: git compares times in whole seconds. A worker needs less to change every
// file in place, without changing its size.
func TestSnapshotWithinASecond(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	git(t, dir, "config", "core.fileMode", "false")
	var all []string
	for i := range 300 {
		name := fmt.Sprintf("many/%d/f", i)
		write(t, filepath.Join(dir, name), "one\n")
		all = append(all, "M "+name)
	}
	git(t, dir, "add", "many")
	git(t, dir, "update-index", "--chmod=+x", "many/7/f")
	git(t, dir, "commit", "-q", "-m", "many")
	b := prepare(t, dir)
	for i := range 300 {
		path := b.path(fmt.Sprintf("many/%d/f", i))
		was, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, "two\n")
		if err := os.Chtimes(path, was.ModTime(), was.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(all)
	snap := b.snapshot()
	if got := b.changes(snap.Commit); got != strings.Join(all, "\n") {
		t.Errorf("%d of %d changes were seen", strings.Count(got, "M "), len(all))
	}
	if got := git(t, dir, "ls-tree", string(snap.Commit), "many/7/f"); !strings.HasPrefix(got, "100755 ") {
		t.Errorf("the mode of an executable: %s", got)
	}
}

// TestSnapshotSwappedFolders: a folder that is moved takes its files along, and their change times too.
func TestSnapshotSwappedFolders(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	write(t, filepath.Join(dir, "x/f"), "one\n")
	write(t, filepath.Join(dir, "y/f"), "two\n")
	git(t, dir, "add", "x", "y")
	git(t, dir, "commit", "-q", "-m", "two folders")
	b := prepare(t, dir)
	sh(t, b.w.Path(), "mv x z; mv y x; mv z y")
	if got := b.changes(b.snapshot().Commit); got != "M x/f\nM y/f" {
		t.Errorf("changes %q", got)
	}
}
