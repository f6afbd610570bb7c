package worktree_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/worktree"
)

func fingerprint(t *testing.T, dir string) *worktree.Fingerprint {
	t.Helper()
	f, err := worktree.TakeFingerprint(t.Context(), open(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script     string
		executable string // joined with a space
		changed    string
	}{
		"nothing":             {`true`, "", ""},
		"reading":             {`git status; git log; git diff; git fsck`, "", ""},
		"our own":             {`git update-ref refs/spot/runs/x HEAD; git update-ref refs/notes/spot HEAD; mkdir -p .git/spot/x; touch .git/spot/x/y`, "", ""},
		"objects":             {`echo x | git hash-object -w --stdin; git repack -q`, "", ""},
		"fsmonitor":           {`git config core.fsmonitor "touch $MARK; false"`, "core.fsmonitor", ""},
		"hooksPath":           {`git config core.hooksPath "$MARK"`, "core.hookspath", ""},
		"filter":              {`git config filter.x.clean "touch $MARK"; git config filter.x.required true`, "filter.x.clean", "configuration filter.x.required"},
		"existing filter":     {`git config filter.lfs.clean "touch $MARK"`, "filter.lfs.clean", ""},
		"second value":        {`git config --add filter.lfs.clean "touch $MARK"`, "filter.lfs.clean", ""},
		"driver":              {`git config diff.x.textconv "touch $MARK"; git config merge.x.driver y; git config diff.external z`, "diff.external diff.x.textconv merge.x.driver", ""},
		"alias":               {`git config alias.st "!touch $MARK"`, "alias.st", ""},
		"include":             {`printf '[core]\n\tfsmonitor = touch %s\n' "$MARK" > .git/evil; git config include.path evil`, "core.fsmonitor include.path", "configuration user.signingkey"},
		"included file":       {`printf '[core]\n\tfsmonitor = touch %s\n' "$MARK" > .git/included`, "core.fsmonitor", "configuration user.signingkey"},
		"includeIf":           {`git config includeIf.gitdir:/x.path /y`, "includeif.gitdir:/x.path", ""},
		"worktree config":     {`git config core.repositoryFormatVersion 1; git config extensions.worktreeConfig true; git config --worktree core.sshCommand "touch $MARK"`, "core.sshcommand", "configuration core.repositoryformatversion configuration extensions.worktreeconfig"},
		"ext url":             {`git config remote.o.url "ext::sh -c touch% $MARK"; git config url."ext::x".insteadOf y`, "remote.o.url url.ext::x.insteadof", ""},
		"submodule update":    {`git config submodule.lib.update "!touch $MARK"`, "submodule.lib.update", ""},
		"spot program":        {`git config spot.profile.x.program /bin/evil; git config --add spot.profile.x.argv y; git config spot.maxRevisions 3`, "spot.profile.x.argv spot.profile.x.program", "configuration spot.maxrevisions"},
		"locks taken back":    {`git config spot.alwaysLockedPath ""; git config --add spot.protectedBranch ""`, "spot.alwayslockedpath spot.protectedbranch", ""},
		"gc":                  {`git config gc.recentObjectsHook "touch $MARK"`, "gc.recentobjectshook", ""},
		"plain keys":          {`git config user.name other; git config --unset user.email; git config remote.o.url https://example.org`, "", "configuration remote.o.url configuration user.email configuration user.name"},
		"removed executable":  {`git config --unset filter.lfs.clean; rm .git/hooks/post-commit`, "", "configuration filter.lfs.clean hooks/post-commit"},
		"hook":                {`printf '#!/bin/sh\ntouch %s\n' "$MARK" > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit`, "hooks/pre-commit", ""},
		"sample":              {`echo x >> .git/hooks/pre-commit.sample`, "", ""},
		"changed hook":        {`echo "touch $MARK" >> .git/hooks/post-commit`, "hooks/post-commit", ""},
		"armed hook":          {`chmod +x .git/hooks/dormant`, "hooks/dormant", ""},
		"hook link":           {`ln -s /bin/true .git/hooks/pre-push; ln -sf /bin/true .git/hooks/post-commit`, "hooks/post-commit hooks/pre-push", ""},
		"hook folder":         {`mkdir .git/hooks/pre-commit.d; echo x > .git/hooks/pre-commit.d/x`, "hooks/pre-commit.d/x", ""},
		"hooks are a link":    {`mv .git/hooks .git/old; mkdir "$MARK"; echo x > "$MARK/pre-commit"; ln -s "$MARK" .git/hooks`, "hooks", "hooks/dormant hooks/post-commit"},
		"attributes":          {`echo '* filter=lfs' > .git/info/attributes`, "info/attributes", ""},
		"info":                {`echo x >> .git/info/exclude; mkdir -p .git/objects/info; echo /x > .git/objects/info/alternates`, "", "info/exclude objects/info/alternates"},
		"unreadable":          {`echo '[core' >> .git/config`, "unreadable configuration", ""},
		"unreadable included": {`echo '[core' >> .git/included`, "unreadable configuration", ""},
		"endless include":     {`git config include.path config`, "unreadable configuration", ""},
		"branch":              {`git commit -q --allow-empty -m x; git branch new; git tag t; git replace HEAD HEAD~ 2>/dev/null`, "", "refs/heads/main refs/heads/new refs/replace/ refs/tags/t"},
		"branch deleted":      {`git branch -D old`, "", "refs/heads/old"},
		"HEAD":                {`git checkout -q old`, "", "HEAD"},
		"checkout":            {`echo hacked >> src/a.txt; echo x > new; rm README`, "", "README new src/a.txt"},
		"dirty again":         {`echo more >> dirty`, "", "dirty"},
		"clean again":         {`rm dirty`, "", "dirty"},
		"staged":              {`echo x > staged; git add staged`, "", "staged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newRepo(t)
			mark := filepath.Join(tempDir(t), "ran")
			sh(t, dir, `
				git branch old; echo x > dirty
				git config filter.lfs.clean cat; git config filter.lfs.smudge cat; echo '*.txt filter=lfs' > .git/info/x
				printf '#!/bin/sh\n' > .git/hooks/post-commit; chmod 755 .git/hooks/post-commit; echo x > .git/hooks/dormant; chmod 644 .git/hooks/dormant
				printf '[user]\n\tsigningKey = k\n' > .git/included; git config include.path included`)
			repo := open(t, dir)
			before := fingerprint(t, dir)
			sh(t, dir, tc.script, "MARK="+mark)
			after := func() *worktree.Fingerprint {
				f, err := worktree.TakeFingerprint(t.Context(), repo)
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
			now := after()
			change := before.Compare(now)
			if got := strings.Join(change.ExecutableConfig, " "); got != tc.executable {
				t.Errorf("executable %q, want %q", got, tc.executable)
			}
			got := strings.Join(change.Changed, " ")
			if name == "branch" { // the name of a replace ref is that of a commit
				got = got[:strings.Index(got, "refs/replace/")+len("refs/replace/")] + got[strings.Index(got, " refs/tags"):]
			}
			if got != tc.changed {
				t.Errorf("changed %q, want %q", got, tc.changed)
			}

			replaced, err := before.Undo(t.Context(), repo, now)
			if err != nil {
				t.Fatal(err)
			}
			if (len(replaced) > 0) != (tc.executable != "") {
				t.Errorf("replaced %q", replaced)
			}
			if name != "unreadable" && name != "unreadable included" && name != "endless include" {
				for _, what := range change.ExecutableConfig {
					if _, ok := replaced[what]; !ok {
						t.Errorf("%q was not kept", what)
					}
				}
			}
			if again := before.Compare(after()); len(again.ExecutableConfig) > 0 {
				t.Errorf("after Undo: %+v", again)
			}
			// Nothing that was planted runs, and nothing that was there is gone.
			sh(t, dir, `git status >/dev/null; git add -A; git -c user.email=x commit -q --allow-empty -m "the user goes on"`)
			if exists(mark) && name != "hooks are a link" {
				t.Error("it ran")
			}
			if tc.executable != "" {
				if git(t, dir, "config", "filter.lfs.clean") != "cat" || !exists(filepath.Join(dir, ".git/hooks/post-commit")) {
					t.Error("something of the user's is gone")
				}
			}
		})
	}
}

// What git runs in a submodule is undone as in the repository itself.
func TestFingerprintOfSubmodules(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, executable, changed string }{
		"nothing":        {`git -C lib status; git -C lib fetch; git submodule update --recursive`, "", ""},
		"fsmonitor":      {`git -C lib config core.fsmonitor "touch $MARK; false"`, "modules/the lib/config: core.fsmonitor", ""},
		"plain key":      {`git -C lib config branch.x.remote origin`, "", "configuration modules/the lib/config: branch.x.remote"},
		"nested":         {`git -C lib/inner config filter.x.smudge "touch $MARK"`, "modules/the lib/modules/inner/config: filter.x.smudge", ""},
		"hook":           {`printf '#!/bin/sh\ntouch %s\n' "$MARK" > "$LIB/hooks/pre-commit"; chmod +x "$LIB/hooks/pre-commit"`, "modules/the lib/hooks/pre-commit", ""},
		"changed hook":   {`echo "touch $MARK" >> "$LIB/hooks/post-commit"`, "modules/the lib/hooks/post-commit", ""},
		"hooks a link":   {`mv "$LIB/hooks" "$LIB/old"; mkdir "$MARK"; ln -s "$MARK" "$LIB/hooks"`, "modules/the lib/hooks", "modules/the lib/hooks/post-commit"},
		"attributes":     {`echo '* filter=x' > "$LIB/info/attributes"`, "modules/the lib/info/attributes", ""},
		"include":        {`printf '[core]\n\tfsmonitor = touch %s\n' "$MARK" > "$LIB/evil"; git -C lib config include.path evil`, "modules/the lib/config: core.fsmonitor modules/the lib/config: include.path", ""},
		"unreadable":     {`echo '[core' >> "$LIB/config"`, "modules/the lib/config: unreadable configuration", ""},
		"config a link":  {`printf '[core]\n\tfsmonitor = touch %s\n' "$MARK" > "$MARK.config"; cat "$LIB/config" >> "$MARK.config"; ln -sf "$MARK.config" "$LIB/config"`, "modules/the lib/config: core.fsmonitor", ""},
		"new submodule":  {`cp -r "$LIB" .git/modules/new; git config --file .git/modules/new/config core.sshCommand "touch $MARK"`, "*", "*"},
		"another folder": {`mv .git/modules "$MARK"; ln -s "$MARK" .git/modules`, "modules", "*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := withSubmodule(t, newRepo(t))
			lib := filepath.Join(dir, ".git/modules/the lib")
			sh(t, dir, `printf '#!/bin/sh\n' > "$LIB/hooks/post-commit"; chmod 755 "$LIB/hooks/post-commit"`, "LIB="+lib)
			before := fingerprint(t, dir)
			ours := read(t, filepath.Join(lib, "config"))
			mark := filepath.Join(tempDir(t), "ran")
			sh(t, dir, tc.script, "MARK="+mark, "LIB="+lib)
			now := fingerprint(t, dir)
			change := before.Compare(now)
			if got := strings.Join(change.ExecutableConfig, " "); got != tc.executable && (tc.executable != "*" || got == "") {
				t.Errorf("executable %q, want %q", got, tc.executable)
			}
			if got := strings.Join(change.Changed, " "); got != tc.changed && tc.changed != "*" {
				t.Errorf("changed %q, want %q", got, tc.changed)
			}
			replaced, err := before.Undo(t.Context(), open(t, dir), now)
			if err != nil {
				t.Fatal(err)
			}
			if (len(replaced) > 0) != (tc.executable != "") {
				t.Errorf("replaced %q", replaced)
			}
			if change := before.Compare(fingerprint(t, dir)); len(change.ExecutableConfig) > 0 {
				t.Errorf("after Undo: %q", change.ExecutableConfig)
			}
			if name == "another folder" {
				return
			}
			sh(t, dir, `git -C lib -c user.email=x -c user.name=y commit -q --allow-empty -m x; git status >/dev/null; git submodule foreach -q --recursive 'git status >/dev/null'`)
			if exists(mark) && name != "hooks a link" {
				t.Error("it ran")
			}
			if got := read(t, filepath.Join(lib, "config")); tc.executable != "" && got != ours {
				t.Errorf("the submodule's configuration is now\n%s\nit was\n%s", got, ours)
			}
			if !exists(filepath.Join(lib, "hooks/post-commit")) {
				t.Error("the user's hook is gone")
			}
		})
	}
}

// The configuration of a worktree is compared from every other one.
func TestFingerprintOfOtherWorktrees(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]string{"from the main one": ".", "from a linked one": "../here"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			main := newRepo(t)
			sh(t, main, `git config core.repositoryFormatVersion 1; git config extensions.worktreeConfig true
				git worktree add -q --detach ../here; git worktree add -q --detach ../there; git -C ../there config --worktree user.name there`)
			dir := filepath.Join(main, from)
			before := fingerprint(t, dir)
			sh(t, main, `git -C ../there config --worktree core.fsmonitor evil; git -C ../there config --worktree user.name other; git config --worktree alias.st '!evil'`)
			now := fingerprint(t, dir)
			change := before.Compare(now)
			want := "worktrees/there/config.worktree: core.fsmonitor config.worktree: alias.st"
			if from == "." {
				want = "alias.st worktrees/there/config.worktree: core.fsmonitor"
			}
			got := strings.Fields(strings.Join(change.ExecutableConfig, " "))
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(strings.Fields(want)))) {
				t.Errorf("executable %q, want %q", change.ExecutableConfig, want)
			}
			if got := strings.Join(change.Changed, " "); got != "configuration worktrees/there/config.worktree: user.name" {
				t.Errorf("changed %q", got)
			}
			if _, err := before.Undo(t.Context(), open(t, dir), now); err != nil {
				t.Fatal(err)
			}
			if change := before.Compare(fingerprint(t, dir)); len(change.ExecutableConfig) > 0 {
				t.Errorf("after Undo: %q", change.ExecutableConfig)
			}
			if got := git(t, filepath.Join(main, "../there"), "config", "user.name"); got != "other" {
				t.Errorf("what runs nothing is %q", got)
			}
		})
	}
}

// A file outside of the repository is not written, whatever leads to it.
func TestUndoSparesOtherFiles(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"included":             `git config include.path "$THEIRS"`,
		"included on demand":   `git config includeIf.gitdir:/.path "$THEIRS"`,
		"through a link":       `ln -s "$THEIRS" .git/more; git config include.path more`,
		"by what is included":  `git config --file .git/included include.path "$THEIRS"`,
		"in place of ours":     `ln -sf "$THEIRS" .git/config`,
		"in place of included": `ln -sf "$THEIRS" .git/included`,
		"and unreadable":       `git config include.path "$THEIRS"; echo '[core' >> .git/config`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newRepo(t)
			sh(t, dir, `printf '[user]\n\tsigningKey = k\n' > .git/included; git config include.path included`)
			theirs := filepath.Join(tempDir(t), "gitconfig")
			const content = "[alias]\n\tco = checkout\n[core]\n\teditor = vim\n\trepositoryFormatVersion = 0\n"
			write(t, theirs, content)
			repo := open(t, dir)
			before := fingerprint(t, dir)
			ours := read(t, filepath.Join(dir, ".git/config"))
			sh(t, dir, script, "THEIRS="+theirs)
			now, err := worktree.TakeFingerprint(t.Context(), repo)
			if err != nil {
				t.Fatal(err)
			}
			if len(before.Compare(now).ExecutableConfig) == 0 {
				t.Fatal("nothing was found")
			}
			if _, err := before.Undo(t.Context(), repo, now); err != nil {
				t.Fatal(err)
			}
			if got := read(t, theirs); got != content {
				t.Errorf("the other file is now\n%s", got)
			}
			if change := before.Compare(fingerprint(t, dir)); len(change.ExecutableConfig) > 0 {
				t.Errorf("not undone: %q", change.ExecutableConfig)
			}
			if got := read(t, filepath.Join(dir, ".git/config")); got != ours && !strings.Contains(script, "includeIf") {
				t.Errorf("the repository's configuration is now\n%s\nit was\n%s", got, ours)
			}
		})
	}
}

func TestFingerprintOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	git(t, dir, "config", "user.name", "\xff")
	path := filepath.Join(t.TempDir(), "fingerprint")
	before := fingerprint(t, dir)
	if err := before.Save(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, error %v", info.Mode(), err)
	}
	loaded, err := worktree.LoadFingerprint(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := loaded.Compare(fingerprint(t, dir)); len(got.ExecutableConfig)+len(got.Changed) > 0 {
		t.Errorf("nothing changed, got %+v", got)
	}
	git(t, dir, "config", "core.fsmonitor", "touch evil")
	now := fingerprint(t, dir)
	if got := loaded.Compare(now).ExecutableConfig; !slices.Equal(got, []string{"core.fsmonitor"}) {
		t.Errorf("got %q", got)
	}
	if _, err := loaded.Undo(t.Context(), open(t, dir), now); err != nil {
		t.Fatal(err)
	}
	if got := before.Compare(fingerprint(t, dir)); len(got.ExecutableConfig) > 0 {
		t.Errorf("not undone: %+v", got)
	}
	if _, err := worktree.LoadFingerprint(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TakeFingerprint itself runs nothing that a worker planted.
// What lies in the place of a stored fingerprint may be anything that a worker put there.
func TestSaveFingerprintReplaces(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"garbage": `echo x > fingerprint`, "folder": `mkdir fingerprint; touch fingerprint/x`, "FIFO": `mkfifo fingerprint`,
		"link": `ln -s /etc/passwd fingerprint`, "link to nowhere": `ln -s /nowhere fingerprint`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newRepo(t)
			sh(t, dir, script)
			path := filepath.Join(dir, "fingerprint")
			if _, err := worktree.LoadFingerprint(path); err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error %v", err)
			}
			if err := fingerprint(t, dir).Save(path); err != nil {
				t.Fatal(err)
			}
			if _, err := worktree.LoadFingerprint(path); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFingerprintRunsNothing(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	write(t, filepath.Join(dir, ".gitattributes"), "* filter=x diff=x\n")
	commit(t, dir, "attributes")
	mark := filepath.Join(tempDir(t), "ran")
	repo := open(t, dir)
	before := fingerprint(t, dir)
	f, err := os.OpenFile(filepath.Join(dir, ".git/config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(evil(mark)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "src/a.txt"), "one\ntwo\nTHREE\n") // the same size: only its content tells
	now, err := worktree.TakeFingerprint(t.Context(), repo)
	if err != nil {
		t.Fatal(err)
	}
	change := before.Compare(now)
	if !slices.Contains(change.ExecutableConfig, "filter.x.clean") || !slices.Contains(change.Changed, "src/a.txt") {
		t.Errorf("change %+v", change)
	}
	if _, err := before.Undo(t.Context(), repo, now); err != nil {
		t.Fatal(err)
	}
	if ran := glob(t, mark+"*"); len(ran) > 0 {
		t.Errorf("git ran %q", ran)
	}
}

// A worker in a linked worktree's repository, and a bare one.
func TestFingerprintKinds(t *testing.T) {
	t.Parallel()
	for name, newKind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newKind(t)
			before := fingerprint(t, dir)
			if change := before.Compare(fingerprint(t, dir)); len(change.ExecutableConfig)+len(change.Changed) > 0 {
				t.Errorf("nothing happened, and it says %+v", change)
			}
			git(t, dir, "config", "alias.x", "!evil")
			now := fingerprint(t, dir)
			if change := before.Compare(now); !slices.Equal(change.ExecutableConfig, []string{"alias.x"}) || len(change.Changed) > 0 {
				t.Errorf("change %+v", change)
			}
			if _, err := before.Undo(t.Context(), open(t, dir), now); err != nil {
				t.Fatal(err)
			}
			if change := before.Compare(fingerprint(t, dir)); len(change.ExecutableConfig)+len(change.Changed) > 0 {
				t.Errorf("after Undo: %+v", change)
			}
		})
	}
}
