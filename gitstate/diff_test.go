package gitstate_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

// shellHash is diffSha256 as anyone can compute it.
func shellHash(t *testing.T, dir, base, candidate string, env ...string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", `git --no-replace-objects diff-tree -r -z --full-index --no-renames --ignore-submodules=none "$1" "$2" | sha256sum`, "sh", base, candidate)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"}, env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))[0]
}

// hostileTree makes base and candidate with every kind of change, and names that break parsers.
func hostileTree(t *testing.T, dir string) (base, candidate string) {
	t.Helper()
	lines := func(n int) string { return strings.Repeat("line\n", n) }
	write(t, dir, "changed.txt", "a\nb\nc\n\nd\n")
	write(t, dir, "deleted.txt", lines(7))
	write(t, dir, "mode.sh", "#!/bin/sh\n")
	write(t, dir, "becomes-link", "text\ntext\n")
	write(t, dir, "moved-from.txt", lines(50))
	write(t, dir, "binary", "\x00\x01\x02"+lines(100))
	write(t, dir, "text-becomes-binary", lines(10))
	write(t, dir, "no-newline", "x")
	git(t, dir, "add", ".")
	git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+git(t, dir, "rev-parse", "HEAD")+",sub")
	git(t, dir, "commit", "-q", "-m", "base")
	base = git(t, dir, "rev-parse", "HEAD")

	write(t, dir, "changed.txt", "a\nB\nc\n\nd\ne\n--- not a header\n+++ neither\n@@ -1 +1 @@\ndiff --git a/x b/x\n")
	remove := func(name string) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	remove("deleted.txt")
	if err := os.Chmod(filepath.Join(dir, "mode.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	remove("becomes-link")
	if err := os.Symlink("changed.txt", filepath.Join(dir, "becomes-link")); err != nil {
		t.Fatal(err)
	}
	remove("moved-from.txt")
	write(t, dir, "moved-to.txt", lines(50))
	write(t, dir, "binary", "\x00\x01\x03"+lines(200))
	write(t, dir, "text-becomes-binary", lines(9)+"\x00")
	write(t, dir, "no-newline", "y")
	write(t, dir, "empty", "")
	for _, name := range []string{"new\nline", "tab\there", `quo"te`, " lead", "naïve", "bad\xff\xfe", `back\slash`, "-dash", "a\nb/c\nd"} {
		write(t, dir, name, "new\n")
	}
	git(t, dir, "add", ".")
	head := git(t, dir, "rev-parse", "HEAD")
	git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+head+",sub")
	git(t, dir, "commit", "-q", "-m", "candidate")
	return base, git(t, dir, "rev-parse", "HEAD")
}

func TestDiff(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		base, cand := hostileTree(t, dir)
		d, err := l.Diff(t.Context(), gitstate.OID(base), gitstate.OID(cand))
		if err != nil {
			t.Fatal(err)
		}
		if want := shellHash(t, dir, base, cand); d.SHA256 != want {
			t.Errorf("SHA256 %s, want %s", d.SHA256, want)
		}
		if want := git(t, dir, "rev-parse", cand+"^{tree}"); string(d.Tree) != want {
			t.Errorf("Tree %s, want %s", d.Tree, want)
		}
		if h, err := l.DiffHash(t.Context(), d.Base, d.Candidate); err != nil || h.SHA256 != d.SHA256 || h.Tree != d.Tree || h.Base != d.Base || h.Candidate != d.Candidate {
			t.Errorf("DiffHash = %+v, %v", h, err)
		}
		want := map[string]string{ // status, added, deleted, binary
			"changed.txt": "M 6 1 false", "deleted.txt": "D 0 7 false", "mode.sh": "M 0 0 false", "becomes-link": "T 1 2 false",
			"moved-from.txt": "D 0 50 false", "moved-to.txt": "A 50 0 false", "binary": "M 0 0 true", "text-becomes-binary": "M 0 0 true",
			"no-newline": "M 1 1 false", "empty": "A 0 0 false", "sub": "M 1 1 false",
		}
		for _, name := range []string{"new\nline", "tab\there", `quo"te`, " lead", "naïve", "bad\xff\xfe", `back\slash`, "-dash", "a\nb/c\nd"} {
			want[name] = "A 1 0 false"
		}
		stat := schemas.DiffStat{Files: len(want)}
		for _, c := range d.Changes {
			if got := fmt.Sprintf("%c %d %d %v", c.Status, c.Added, c.Deleted, c.Binary); got != want[c.Path] {
				t.Errorf("%q: %s, want %s", c.Path, got, want[c.Path])
			}
			delete(want, c.Path)
			stat.Added += c.Added
			stat.Deleted += c.Deleted
		}
		if len(want) > 0 || d.Stat != stat {
			t.Errorf("missing %v, stat %+v, want %+v", want, d.Stat, stat)
		}

		// Bytes is the patch of the text files and the new blobs of the binary ones.
		text := gitInput(t, dir, nil, "diff-tree", "-p", "-r", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", base, cand, "--",
			".", ":(exclude)binary", ":(exclude)text-becomes-binary")
		if want := int64(len(text) + 3 + 5*200 + 5*9 + 1); d.Bytes != want {
			t.Errorf("Bytes %d, want %d", d.Bytes, want)
		}
	})
}

func TestDiffOfNothing(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		base := git(t, dir, "rev-parse", "main")
		d, err := l.Diff(t.Context(), gitstate.OID(base), gitstate.OID(base))
		if err != nil {
			t.Fatal(err)
		}
		empty := sha256.Sum256(nil)
		if d.SHA256 != hex.EncodeToString(empty[:]) || len(d.Changes) != 0 || d.Bytes != 0 {
			t.Errorf("%+v", d)
		}
		missing := gitstate.OID(strings.Repeat("1", len(base)))
		if _, err := l.Diff(t.Context(), gitstate.OID(base), missing); err == nil {
			t.Error("no error for a candidate that is not there")
		}
		if _, err := l.Diff(t.Context(), missing, gitstate.OID(base)); err == nil {
			t.Error("no error for a base that is not there")
		}
	})
}

// The whole Diff, not only the hash, is the same whatever user, worker and environment configure.
func TestDiffDependsOnNothingElse(t *testing.T) {
	t.Parallel()
	eachFormat(t, func(t *testing.T, dir string, l *gitstate.Ledger) {
		base, cand := hostileTree(t, dir)
		diff := func(l *gitstate.Ledger) string {
			t.Helper()
			d, err := l.Diff(t.Context(), gitstate.OID(base), gitstate.OID(cand))
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%+v", d)
		}
		want := diff(l)

		marker := filepath.Join(t.TempDir(), "ran")
		script := filepath.Join(t.TempDir(), "evil")
		write(t, filepath.Dir(script), "evil", "#!/bin/sh\necho \"$0 $*\" >>"+marker+"\n")
		if err := os.Chmod(script, 0o755); err != nil {
			t.Fatal(err)
		}
		global := filepath.Join(t.TempDir(), "attributes")
		if err := os.WriteFile(global, []byte("* -diff\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, kv := range [][2]string{
			{"diff.external", script},
			{"diff.mnemonicPrefix", "true"},
			{"diff.noprefix", "true"},
			{"diff.renames", "copies"},
			{"color.ui", "always"},
			{"color.diff", "always"},
			{"core.abbrev", "7"},
			{"core.quotePath", "false"},
			{"diff.algorithm", "patience"},
			{"diff.context", "0"},
			{"diff.interHunkContext", "9"},
			{"diff.ignoreSubmodules", "all"},
			{"diff.submodule", "log"},
			{"diff.suppressBlankEmpty", "true"},
			{"diff.indentHeuristic", "false"},
			{"diff.orderFile", global},
			{"diff.wsErrorHighlight", "all"},
			{"diff.evil.command", script},
			{"diff.evil.textconv", script},
			{"diff.evil.binary", "true"},
			{"core.attributesFile", global},
			{"diff.relative", "true"},
			{"diff.srcPrefix", "x/"},
			{"core.pager", script},
			{"core.fsmonitor", script},
			{"core.bigFileThreshold", "1"},
		} {
			git(t, dir, "config", kv[0], kv[1])
		}
		hostileAttributes := "* diff=evil\n*.txt -diff\nbinary diff text\n* filter=evil\n"
		write(t, dir, ".gitattributes", hostileAttributes)
		git(t, dir, "add", ".gitattributes")
		write(t, dir, ".git/info/attributes", hostileAttributes)
		before := git(t, dir, "rev-parse", base+"^")
		for _, object := range []string{base, cand, git(t, dir, "rev-parse", cand+"^{tree}"), git(t, dir, "rev-parse", cand+":changed.txt")} {
			other := before
			switch git(t, dir, "cat-file", "-t", object) {
			case "tree":
				other += "^{tree}"
			case "blob":
				other = before + ":src/a.txt"
			}
			git(t, dir, "replace", "-f", object, other)
		}
		_ = os.Remove(marker) // the git of this test has run the file system monitor
		if got := diff(open(t, dir)); got != want {
			t.Errorf("under hostile configuration:\n%s\nwant:\n%s", got, want)
		}
		if ran, err := os.ReadFile(marker); err == nil {
			t.Errorf("something ran: %s", ran)
		}
		if got := shellHash(t, dir, base, cand, "GIT_EXTERNAL_DIFF="+script); !strings.Contains(want, got) {
			t.Errorf("the shell command says %s", got)
		}
	})
}

func TestDiffInABareRepositoryAndAWorktree(t *testing.T) {
	t.Parallel()
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			dir := repository(t, format)
			base, cand := hostileTree(t, dir)
			want := shellHash(t, dir, base, cand)
			bare, linked := t.TempDir(), filepath.Join(t.TempDir(), "linked")
			git(t, dir, "clone", "-q", "--bare", dir, bare)
			git(t, dir, "worktree", "add", "-q", "--detach", linked, base)
			for _, at := range []string{bare, linked, filepath.Join(linked, "src")} {
				d, err := open(t, at).Diff(t.Context(), gitstate.OID(base), gitstate.OID(cand))
				if err != nil {
					t.Fatal(err)
				}
				if d.SHA256 != want {
					t.Errorf("in %s: %s, want %s", at, d.SHA256, want)
				}
			}
		})
	}
}

func FuzzParseRaw(f *testing.F) {
	zero, one := strings.Repeat("0", 40), strings.Repeat("1", 40)
	f.Add([]byte(":100644 100644 " + one + " " + one + " M\x00a\nb\x00:000000 100644 " + zero + " " + one + " A\x00bad\xff\x00"))
	f.Add([]byte(":100644 000000 " + strings.Repeat("a", 64) + " " + strings.Repeat("0", 64) + " D\x00x\x00"))
	f.Add([]byte(":100644 100644 " + one + " " + one + " R100\x00a\x00b\x00"))
	f.Add([]byte(":"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		changes, err := gitstate.ParseRaw(raw)
		if err != nil {
			if changes != nil {
				t.Errorf("an error and %v", changes)
			}
			return
		}
		var again bytes.Buffer
		for _, c := range changes {
			fmt.Fprintf(&again, ":%s %s %s %s %c\x00%s\x00", c.OldMode, c.NewMode, c.OldID, c.NewID, c.Status, c.Path)
		}
		if !bytes.EqualFold(again.Bytes(), raw) {
			t.Errorf("%q is read as %q", raw, again.Bytes())
		}
	})
}

func FuzzMeasurePatch(f *testing.F) {
	f.Add([]byte("diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"))
	f.Add([]byte("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"))
	f.Add([]byte("garbage"))
	f.Add([]byte("diff --git " + strings.Repeat("x", 70000) + "\n+"))
	f.Fuzz(func(t *testing.T, patch []byte) {
		files, err := gitstate.MeasurePatch(bytes.NewReader(patch))
		total := int64(0)
		for _, f := range files {
			total += f[0]
			if f[1] < 0 || f[2] < 0 || f[1]+f[2] > f[0] {
				t.Errorf("counts %v", f)
			}
		}
		if err == nil && total != int64(len(patch)) {
			t.Errorf("%d bytes of %d", total, len(patch))
		}
	})
}
