package tools_test

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestIgnoreAsGit compares what find leaves out with what git does, for many random ignore files over a
// tree of awkward names. Not among the patterns is a text directly before ** and a slash (a**/b), which
// git takes for more than gitignore(5) says.
func TestIgnoreAsGit(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "ab", "ba", "abc", "é", "a b", "{a}", "A", "a.go", "!a", "#b", "a\\", "c-d", "[a]", "x*", "日本"}
	parts := []string{
		"a", "b", "ab", "*", "?", "**", "[ab]", "[!a]", "[^b]", "a*", "*b", `\a`, "{a}", "{a,b}", "[[:alpha:]]", "[[:upper:][:digit:]]", "[[:no:]]",
		"é", "?b", "**a", "*.go", `\*`, `\!a`, `\#b`, "a ", `a\ `, "[a-c]", `x\*`, "[]a]", "[a", "c[-]d", "c?d", "??", "[é]", "***", `[\]a]`, `\[a\]`, `a\`, `a\\`, "[z-a]", "[!-~]", "*a*b*", "??*", "日*", "[a-]", "[/]", "#b", "!a",
	}
	r := rand.New(rand.NewPCG(1, 2))
	files := map[string]string{}
	var grow func(folder string, depth int)
	grow = func(folder string, depth int) {
		for _, i := range r.Perm(len(names))[:6] {
			if name := folder + names[i]; depth < 3 && r.IntN(2) == 0 {
				grow(name+"/", depth+1)
			} else {
				files[name] = ""
			}
		}
	}
	grow("", 0)
	files["a/sub/x"] = ""
	dir, s := tree(t, files)
	git := func(arguments ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "git", arguments...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", arguments, err, out)
		}
		return string(out)
	}
	git("init", "-q")

	pattern := func() string {
		var b strings.Builder
		for range 1 + r.IntN(3) {
			if r.IntN(4) == 0 {
				b.WriteString("!")
			}
			if r.IntN(4) == 0 {
				b.WriteString("/")
			}
			for i := range 1 + r.IntN(3) {
				if i > 0 {
					b.WriteString("/")
				}
				b.WriteString(parts[r.IntN(len(parts))])
			}
			b.WriteString([]string{"", "", "/", " ", "/ ", "\r"}[r.IntN(6)] + "\n")
		}
		return b.String()
	}
	different := 0
	for range 100 {
		top, sub := pattern(), ""
		if r.IntN(3) == 0 {
			sub = pattern()
		}
		put(t, dir, ".gitignore", top)
		put(t, dir, "a/.gitignore", sub)
		want := slices.DeleteFunc(strings.Split(git("ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"), "\x00"), func(name string) bool {
			return name == "" || strings.HasSuffix(name, ".gitignore")
		})
		slices.SortFunc(want, byFolder)
		var got []string
		answer := call(t, s, "find", `{"pattern":"**","limit":5000}`)
		for l := range strings.Lines(answer.Text) {
			if l = strings.TrimSuffix(l, "\n"); !strings.HasSuffix(l, "/") && !strings.HasPrefix(l, "[no match") {
				got = append(got, l)
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf(".gitignore %q, a/.gitignore %q (-git +find):\n%.1000s", top, sub, diff)
			if different++; different > 5 {
				t.FailNow()
			}
		}
	}
}

// byFolder compares paths as a walk meets them: component by component.
func byFolder(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

// TestIgnoreBeyondGit is about .ignore, which git does not know, and about ignore files that are odd.
func TestIgnoreBeyondGit(t *testing.T) {
	t.Parallel()
	dir, s := tree(t, map[string]string{
		".gitignore": "*.log\n", ".ignore": "!b.log\nsecret*\n", "a.log": "", "b.log": "", "c.txt": "", "secret.txt": "",
		"sub/.ignore": "*\n!x\n", "sub/x": "", "sub/y": "", "sub/b.log": "",
		"odd/.gitignore/file": "", "odd/z": "",
		"bom/.gitignore": "\ufeffz\n", "bom/z": "", "bom/y": "",
	})
	want := "b.log\nbom/\nbom/y\nc.txt\nodd/\nodd/z\nsub/\nsub/x\n"
	if r := call(t, s, "find", `{"pattern":"**"}`); r.Text != want {
		t.Errorf("got\n%s\nwant\n%s", r.Text, want)
	}
	// An ignore file of any size and any pattern ends.
	put(t, dir, ".ignore", strings.Repeat("*a*a*a*a*a*a*a*b\n", 100_000))
	put(t, dir, strings.Repeat("a", 200), "")
	r := call(t, s, "find", `{"pattern":"aaa*"}`)
	if r.Status != "ok" || !strings.HasPrefix(r.Text, strings.Repeat("a", 197)) {
		t.Errorf("%s: %.100s", r.Status, r.Text)
	}
}
