package tools_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// edits makes the arguments of edit from old and new texts.
func edits(t testing.TB, path string, oldAndNew ...string) string {
	t.Helper()
	var list []map[string]any
	for i := 0; i < len(oldAndNew); i += 2 {
		e := map[string]any{"oldText": oldAndNew[i], "newText": oldAndNew[i+1]}
		if old, all := strings.CutPrefix(oldAndNew[i], "ALL:"); all {
			e["oldText"], e["all"] = old, true
		}
		list = append(list, e)
	}
	arguments, err := json.Marshal(map[string]any{"path": path, "edits": list})
	if err != nil {
		t.Fatal(err)
	}
	return string(arguments)
}

func TestEdit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before string
		edits  []string
		after  string
	}{
		"one":                    {"a\nb\nc\n", []string{"b", "B"}, "a\nB\nc\n"},
		"several":                {"a\nb\nc\n", []string{"c", "C", "a", "A"}, "A\nb\nC\n"},
		"against the original":   {"a\nb\n", []string{"a", "b", "b", "a"}, "b\na\n"},
		"adjacent":               {"abc", []string{"a", "1", "b", "2", "c", "3"}, "123"},
		"all":                    {"x y x\nx", []string{"ALL:x", "xx"}, "xx y xx\nxx"},
		"all of what overlaps":   {"aaaaa", []string{"ALL:aa", "b"}, "bba"},
		"deleted":                {"a\nb\nc\n", []string{"b\n", ""}, "a\nc\n"},
		"to nothing":             {"a\n", []string{"a\n", ""}, ""},
		"literal":                {"a\n", []string{"a", `$1 \1 \n & ${a} %s`}, `$1 \1 \n & ${a} %s` + "\n"},
		"no newline":             {"a\nb", []string{"a", "A"}, "A\nb"},
		"no newline at the edit": {"a\nb", []string{"b", "c\nd"}, "a\nc\nd"},
		"CRLF":                   {"a\r\nb\r\nc\r\n", []string{"a\nb", "x\ny\nz"}, "x\r\ny\r\nz\r\nc\r\n"},
		"CRLF sent":              {"a\r\nb\r\nc\r\n", []string{"a\r\nb", "x\r\ny\r\nz"}, "x\r\ny\r\nz\r\nc\r\n"},
		"CRLF sent for LF":       {"a\nb\nc\n", []string{"a\r\nb", "x\r\ny"}, "x\ny\nc\n"},
		"CRLF without an end":    {"a\r\nb", []string{"b", "c\nd"}, "a\r\nc\r\nd"},
		"one CRLF line":          {"a\r\n", []string{"a", "a\nb"}, "a\r\nb\r\n"},
		"CRLF deleted":           {"a\r\nb\r\nc", []string{"\nb\n", "\n"}, "a\r\nc"},
		"CRLF joined":            {"a\r\nb\r\nc", []string{"a\nb", "ab"}, "ab\r\nc"},
		"mixed":                  {"a\r\nb\nc\r\nd\n", []string{"b\nc", "B\nC"}, "a\r\nB\nC\r\nd\n"},
		"mixed, a line removed":  {"a\r\nb\nc\r\nd\n", []string{"a\nb\nc\n", "a\nc\n"}, "a\r\nc\r\nd\n"},
		"mixed, a line added":    {"a\r\nb\nc\r\nd\n", []string{"b\nc\n", "b\nx\nc\n"}, "a\r\nb\nx\nc\r\nd\n"},
		"mixed, at the top":      {"a\r\nb\n", []string{"a", "x\na"}, "x\r\na\r\nb\n"},
		"a lone CR":              {"a\rb\nc\n", []string{"a\rb", "a\rB"}, "a\rB\nc\n"},
		"byte order mark":        {"\ufeffa\nb\n", []string{"a\nb", "c"}, "\ufeffc\n"},
		"byte order mark sent":   {"\ufeffa\nb\n", []string{"\ufeffa", "\ufeffc"}, "\ufeffc\nb\n"},
		"not UTF-8 elsewhere":    {"caf\xe9\nb\n\xff", []string{"b", "é"}, "caf\xe9\né\n\xff"},
		"half a character":       {"é\nb\n", []string{"é", "è"}, "è\nb\n"}, // they share their first byte
		"non-ASCII":              {"日本\n", []string{"日", "月"}, "月本\n"},
		"the same at both ends":  {"aXa\n", []string{"aXa", "aa"}, "aa\n"},
		"grows at both ends":     {"aa\n", []string{"aa", "aXa"}, "aXa\n"},
		"in a long line":         {strings.Repeat("x", 100_000) + "y" + strings.Repeat("x", 100_000), []string{"xyx", "xzx"}, strings.Repeat("x", 100_000) + "z" + strings.Repeat("x", 100_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, s := tree(t, map[string]string{"f": c.before})
			r := call(t, s, "edit", edits(t, "f", c.edits...))
			want(t, r, "ok", "edited f")
			if got := content(t, dir, "f"); got != c.after {
				t.Errorf("got %.300q, want %.300q", got, c.after)
			}
			if len(r.Text) > 4000 {
				t.Errorf("the answer has %d bytes", len(r.Text))
			}
		})
	}
}

func TestEditSaysWhatIsThere(t *testing.T) {
	t.Parallel()
	_, s := tree(t, map[string]string{"f": "1\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	got := call(t, s, "edit", edits(t, "f", "4", "four\nfour and a half", "8\n", ""))
	const text = `edited f
now at lines 4-5:
2	2
3	3
4	four
5	four and a half
6	5
7	6
now at line 9:
7	6
8	7
9	9`
	if got.Text != text {
		t.Errorf("got\n%s\nwant\n%s", got.Text, text)
	}
	want(t, call(t, s, "edit", edits(t, "f", "5\n", strings.Repeat("x\n", 500))), "ok", "now at lines 6-505:", "9\tx\n…\n502\tx", "507\t7")
	want(t, call(t, s, "edit", edits(t, "f", "ALL:x\n", "y\n")), "ok", "[and 492 more places, from line 14 on]")
}

func TestEditRefused(t *testing.T) {
	t.Parallel()
	const file = "package a\n\nfunc One() {\n\treturn  1 \n}\n\nfunc Two() {\n\treturn  2\n}\n// It’s “quoted”\nlast"
	for name, c := range map[string]struct {
		edits []string
		says  []string
	}{
		"ambiguous":         {[]string{"func ", "f"}, []string{"2 times, at lines 3, 7", "set all"}},
		"twice in a line":   {[]string{"n", "f"}, []string{"5 times, at lines 3, 3, 4, 7, 8."}},
		"empty":             {[]string{"", "x"}, []string{"oldText is empty", "use write"}},
		"the same":          {[]string{"One", "One"}, []string{"the same, so nothing would change"}},
		"spaces at the end": {[]string{"\treturn  1\n}", "x"}, []string{"only with other spaces at the ends of lines, at lines 4-5", "4\t\treturn  1 \n5\t}"}},
		"indentation":       {[]string{"    return  2\n}", "x"}, []string{"only with other indentation, at lines 8-9", "8\t\treturn  2\n9\t}"}},
		"white space":       {[]string{"func Two () {\n\treturn 2\n", "x"}, []string{"only with other white space, at lines 7-8"}},
		"quotation marks":   {[]string{`// it's "quoted"`, "x"}, []string{"only with other upper and lower case, quotation marks or dashes, at line 10", "10\t// It’s “quoted”"}},
		"line numbers":      {[]string{"3\tfunc One() {\n4\t\treturn  1 \n", "x"}, []string{"numbers that read prints"}},
		"newline at end":    {[]string{"last\n", "x"}, []string{"the file ends there without one"}},
		"made already":      {[]string{"func Three() {", "func Two() {"}, []string{"newText is, at line 7"}},
		"nearest":           {[]string{"func Two() {\n\treturn 7\n}", "x"}, []string{"nearest is at line 7", "7\tfunc Two() {\n8\t\treturn  2"}},
		"nearest line":      {[]string{"func Twoo() {", "x"}, []string{"nearest is at line 7"}},
		"nothing like it":   {[]string{"completely different text that is nowhere", "x"}, []string{"nor is anything like it"}},
		"overlap":           {[]string{"func One() {\n\treturn", "x", "return  1", "y"}, []string{"edits[0] and edits[1] overlap at line 4"}},
		"twice the same":    {[]string{"One", "x", "One", "y"}, []string{"edits[0] and edits[1] overlap at line 3"}},
		"all that is wrong": {[]string{"One", "x", "func ", "y", "nowhere to be found at all", "z"}, []string{"edits[1]: oldText is in the file 2 times", "edits[2]: oldText is not in the file", "f was not changed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, s := tree(t, map[string]string{"f": file})
			want(t, call(t, s, "edit", edits(t, "f", c.edits...)), "error", c.says...)
			if content(t, dir, "f") != file {
				t.Error("the file was changed")
			}
		})
	}
	dir, s := tree(t, map[string]string{"empty": "", "crlf": "a\r\n\tb\r\n", "a": strings.Repeat("a\n", 20_000), "sub/x": ""})
	want(t, call(t, s, "edit", edits(t, "empty", "x", "y")), "error", "the file is empty", "write")
	want(t, call(t, s, "edit", edits(t, "crlf", "a\nb\n", "y")), "error", "only with other indentation, at lines 1-2")
	want(t, call(t, s, "edit", edits(t, "a", "ALL:a\n", "y")), "error", "more than 10000 places")
	want(t, call(t, s, "edit", edits(t, "a", "a", "y")), "error", "more than 10000 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ….")
	want(t, call(t, s, "edit", edits(t, "sub", "a", "y")), "error", "sub is a folder")
	put(t, dir, "huge", strings.Repeat("a", 8<<20+1))
	want(t, call(t, s, "edit", edits(t, "huge", "a", "y")), "error", "at most 8388608")
	put(t, dir, "large", strings.Repeat("a\n", 5000))
	want(t, call(t, s, "edit", edits(t, "large", "ALL:a", strings.Repeat("x", 10_000))), "error", "would have", "was not changed")
}

// TestEditInALargeFile: five thousand lines, and what is searched when the text is not there.
func TestEditInALargeFile(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for n := range 5000 {
		fmt.Fprintf(&b, "\tif x%d == nil {\n", n)
	}
	dir, s := tree(t, map[string]string{"f": b.String(), "lf": strings.Repeat("\n", 8<<20), "a": strings.Repeat("a\n", 4<<20)})
	want(t, call(t, s, "edit", edits(t, "f", "if x4321 == nil", "if x4321 != nil")), "ok", "now at line 4322:")
	want(t, call(t, s, "edit", edits(t, "f", "if  x77 == nil {", "x")), "error", "at line 78:")
	want(t, call(t, s, "edit", edits(t, "f", "if y9999 == nil {", "x")), "error", "The nearest is at line")
	want(t, call(t, s, "edit", edits(t, "lf", "x", "y")), "error", "nor is anything like it")
	want(t, call(t, s, "edit", edits(t, "a", strings.Repeat("a\n", 10_000)+"b", "y")), "error", "oldText is not in the file")
	if got := content(t, dir, "f"); got != strings.Replace(b.String(), "x4321 ==", "x4321 !=", 1) {
		t.Error("something else was changed")
	}
}

func TestEditMoves(t *testing.T) {
	t.Parallel()
	dir, s := tree(t, map[string]string{"a.sh": "one\n", "dir/x": "x\n", "dir/deep/y": "y\n", "other": "other\n", "repo/.git": "gitdir: x\n", "repo/f": ""})
	if err := os.Chmod(filepath.Join(dir, "a.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, call(t, s, "edit", `{"path":"a.sh","edits":[{"oldText":"one","newText":"two"}],"moveTo":"new/b.sh"}`), "ok", "edited a.sh and moved a.sh to new/b.sh")
	if got := content(t, dir, "new/b.sh"); got != "two\n" {
		t.Errorf("it has %q", got)
	}
	if info, err := os.Stat(filepath.Join(dir, "new/b.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "a.sh")); err == nil {
		t.Error("the old file is there still")
	}
	want(t, call(t, s, "edit", `{"path":"new/b.sh","moveTo":"c.sh"}`), "ok", "moved new/b.sh to c.sh")
	want(t, call(t, s, "edit", `{"path":"dir","moveTo":"moved/dir"}`), "ok", "moved dir to moved/dir")
	if got := content(t, dir, "moved/dir/deep/y"); got != "y\n" {
		t.Errorf("it has %q", got)
	}
	want(t, call(t, s, "edit", `{"path":"c.sh","moveTo":"other"}`), "error", "something at other already")
	want(t, call(t, s, "edit", `{"path":"c.sh","moveTo":"moved"}`), "error", "such as moved/c.sh")
	want(t, call(t, s, "edit", `{"path":"c.sh","moveTo":"./c.sh"}`), "error", "is where it is already")
	want(t, call(t, s, "edit", `{"path":"moved","moveTo":"moved/again"}`), "error", "into itself")
	want(t, call(t, s, "edit", `{"path":"c.sh","moveTo":"other/x"}`), "error", "other is not a folder")
	want(t, call(t, s, "edit", `{"path":"repo","moveTo":"repo2"}`), "denied", "there is a repository in repo")
	want(t, call(t, s, "edit", `{"path":"c.sh","edits":[{"oldText":"nowhere","newText":"x"}],"moveTo":"d.sh"}`), "error")
	if content(t, dir, "c.sh") != "two\n" || content(t, dir, "other") != "other\n" {
		t.Error("a move that was refused was made")
	}
	nothingLeft(t, dir)
}

// TestEditAsStringsDo compares edit with the same replacements made on strings, on texts with LF alone
// and the same with CRLF.
func TestEditAsStringsDo(t *testing.T) {
	t.Parallel()
	dir, s := tree(t, nil)
	rapid.Check(t, func(r *rapid.T) {
		piece := rapid.StringOfN(rapid.SampledFrom([]rune("ab\n é")), 0, 6, -1)
		before := rapid.StringOfN(rapid.SampledFrom([]rune("ab\n é")), 0, 40, -1).Draw(r, "before")
		old, put := piece.Draw(r, "old"), piece.Draw(r, "new")
		all := rapid.Bool().Draw(r, "all")
		crlf := rapid.Bool().Draw(r, "crlf")
		// Overlapping occurrences count.
		n := 0
		for i := range before {
			if old != "" && strings.HasPrefix(before[i:], old) {
				n++
			}
		}
		wanted, works := before, old != "" && old != put && (n == 1 || n > 1 && all)
		if works {
			wanted = strings.ReplaceAll(before, old, put)
		}
		form := func(s string) string {
			if crlf {
				return strings.ReplaceAll(s, "\n", "\r\n")
			}
			return s
		}
		if crlf && !strings.Contains(before, "\n") {
			crlf = false // nothing tells that it is CRLF
		}
		put1 := form(before)
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(put1), 0o666); err != nil {
			r.Fatal(err)
		}
		mark := ""
		if all {
			mark = "ALL:"
		}
		got := call(t, s, "edit", edits(t, "f", mark+old, put))
		if (got.Status == "ok") != works {
			r.Fatalf("%s: %s", got.Status, got.Text)
		}
		if got := content(t, dir, "f"); got != form(wanted) {
			r.Fatalf("got %q, want %q", got, form(wanted))
		}
	})
}

// nothingLeft checks that no file is there that was only to be renamed.
func nothingLeft(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".git-spot-tmp-") {
			t.Errorf("%s was left", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
