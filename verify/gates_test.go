package verify_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
)

// lines is n lines, each with its number and a word.
func lines(n int, word string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s %d\n", word, i)
	}
	return b.String()
}

func TestEveryGateHasItsRow(t *testing.T) {
	t.Parallel()
	for name, candidate := range map[string]tree{"changed": {"a": "2"}, "empty": {"a": "1"}} {
		rows, err := verify.Gates(t.Context(), newSubject(t, tree{"a": "1"}, candidate))
		if err != nil {
			t.Fatal(err)
		}
		var got []schemas.Code
		for _, row := range rows {
			got = append(got, row.Code)
		}
		want := []schemas.Code{
			schemas.CodeGitStateTampered, schemas.CodeLockedPathChanged, schemas.CodeVerificationScriptChanged, schemas.CodeSymlinkEscape,
			schemas.CodeDiffHashChanged, schemas.CodeEmptyDiff, schemas.CodePathForbidden, schemas.CodePathNotAllowed,
			schemas.CodeNestedRepository, schemas.CodeSubmoduleChanged, schemas.CodeExcessiveDeletion, schemas.CodeDiffTooLarge,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	base := tree{
		"src/a.txt": "one\n", "src/b.txt": "two\n", "tests/check.sh": "exit 0\n", "secret/k": "k\n",
		"lib": link("src"), "docs/naïve file.txt": "x\n",
	}
	tests := []struct {
		name   string
		change tree
		set    func(*verify.Subject)
		want   []schemas.Code
	}{
		{"ordinary", tree{"src/a.txt": "1\n", "src/new/c.txt": "n\n", "src/b.txt": "-"}, nil, nil},
		{"nothing", tree{}, nil, []schemas.Code{schemas.CodeEmptyDiff}},
		{"mode only", tree{"src/a.txt": program("one\n")}, nil, nil},

		{"hash moved", tree{"src/a.txt": "1\n"}, func(s *verify.Subject) { s.Recorded = strings.Repeat("0", 64) }, []schemas.Code{schemas.CodeDiffHashChanged}},
		{"no hash recorded", tree{"src/a.txt": "1\n"}, func(s *verify.Subject) { s.Recorded = "" }, []schemas.Code{schemas.CodeDiffHashChanged}},
		{"no hash at all", tree{"src/a.txt": "1\n"}, func(s *verify.Subject) { s.Recorded, s.Diff.SHA256 = "", "" }, []schemas.Code{schemas.CodeDiffHashChanged}},

		{"allowed", tree{"src/a.txt": "1\n"}, allowed("src/**"), nil},
		{"allowed deletion", tree{"src/a.txt": "-"}, allowed("src/**"), nil},
		{"outside of allowed", tree{"src/a.txt": "1\n", "x": "x"}, allowed("src/**"), []schemas.Code{schemas.CodePathNotAllowed}},
		{"deletion outside of allowed", tree{"docs/naïve file.txt": "-"}, allowed("src/**"), []schemas.Code{schemas.CodePathNotAllowed}},
		{"prefix is not containment", tree{"src2/a": "1\n"}, allowed("src/**"), []schemas.Code{schemas.CodePathNotAllowed}},
		{"star stays in a folder", tree{"src/x/y": "1\n"}, allowed("src/*"), []schemas.Code{schemas.CodePathNotAllowed}},
		{"dotfile", tree{"src/.hidden": "1\n"}, allowed("src/*"), nil},
		{"allowed in another case", tree{"SRC/a.txt": "1\n"}, allowed("src/**"), []schemas.Code{schemas.CodePathNotAllowed}},
		{"allowed in another composition", tree{"docs/nai\u0308ve file.txt": "1\n"}, allowed("docs/naïve*"), []schemas.Code{schemas.CodePathNotAllowed}},
		{"name with a newline, allowed", tree{"src/nl\nname": "1\n"}, allowed("src/**"), nil},
		{"name with a newline, not allowed", tree{"nl\nsrc/name": "1\n"}, allowed("src/**"), []schemas.Code{schemas.CodePathNotAllowed}},
		{"name that is not UTF-8, allowed", tree{"src/\xff\xfe": "1\n"}, allowed("src/*"), nil},
		{"name that is not UTF-8, not allowed", tree{"x\xff": "1\n"}, allowed("src/*"), []schemas.Code{schemas.CodePathNotAllowed}},
		{"pattern that does not parse", tree{"src/a.txt": "1\n"}, allowed("src/[a"), []schemas.Code{schemas.CodePathNotAllowed}},
		{"nothing allowed", tree{"src/a.txt": "1\n"}, allowed(), []schemas.Code{schemas.CodePathNotAllowed}},

		{"forbidden beats allowed", tree{"secret/k": "1\n"}, forbidden("secret/**"), []schemas.Code{schemas.CodePathForbidden}},
		{"forbidden folder by its name", tree{"secret/x/y": "1\n"}, forbidden("secret"), []schemas.Code{schemas.CodePathForbidden}},
		{"forbidden name is no prefix", tree{"secrets": "1\n"}, forbidden("secret"), nil},
		{"forbidden in another case", tree{"SeCrEt/K": "1\n"}, forbidden("secret/**"), []schemas.Code{schemas.CodePathForbidden}},
		{"pattern in another case", tree{"secret/k": "1\n"}, forbidden("SECRET/[J-L]"), []schemas.Code{schemas.CodePathForbidden}},
		{"forbidden with a long s", tree{"\u017fecret/k": "1\n"}, forbidden("secret/**"), []schemas.Code{schemas.CodePathForbidden}},
		{"forbidden in another composition", tree{"docs/NAI\u0308VE FILE.txt": "1\n"}, forbidden("docs/naïve*"), []schemas.Code{schemas.CodePathForbidden}},
		{"forbidden with an ignorable", tree{"sec\u200cret/k": "1\n"}, forbidden("secret/**"), []schemas.Code{schemas.CodePathForbidden}},
		{"forbidden with a trailing dot", tree{"secret./k": "1\n"}, forbidden("secret/**"), []schemas.Code{schemas.CodePathForbidden}},
		{"forbidden, not UTF-8 elsewhere", tree{"SECRET/\xff": "1\n"}, forbidden("secret/**"), []schemas.Code{schemas.CodePathForbidden}},
		{"forbidden pattern that does not parse", tree{"src/a.txt": "1\n"}, forbidden("x[a"), []schemas.Code{schemas.CodePathForbidden}},

		{".GIT", tree{"src/.GIT/config": "1\n"}, nil, []schemas.Code{schemas.CodePathForbidden}},
		{"git~1", tree{"GIT~1/config": "1\n"}, nil, []schemas.Code{schemas.CodePathForbidden}},
		{".git with an ignorable", tree{".g\u200dit/config": "1\n"}, nil, []schemas.Code{schemas.CodePathForbidden}},
		{".git with dots and blanks", tree{".git . /config": "1\n"}, nil, []schemas.Code{schemas.CodePathForbidden}},
		{".git with a stream", tree{".git::$INDEX_ALLOCATION/config": "1\n"}, nil, []schemas.Code{schemas.CodePathForbidden}},
		{".git behind a backslash", tree{"src\\.Git \\config": "1\n"}, nil, []schemas.Code{schemas.CodePathForbidden}},
		{"bare repository", tree{"src/r/HEAD": "ref: x\n", "src/r/objects/x": "", "src/r/refs/x": "", "src/r/config": "\n"}, nil, []schemas.Code{schemas.CodeNestedRepository}},
		{"bare repository in another case", tree{"src/r/Head": "ref: x\n", "src/r/OBJECTS": link("."), "src/r/Refs/x": ""}, nil, []schemas.Code{schemas.CodeNestedRepository}},
		{"repository that borrows another", tree{"src/HEAD": "ref: x\n", "src/commondir": "../r\n"}, nil, []schemas.Code{schemas.CodeNestedRepository}},
		{"all of it is a repository", tree{"HEAD": "ref: x\n", "objects/x": "", "refs/x": ""}, nil, []schemas.Code{schemas.CodeNestedRepository}},
		{"half a repository", tree{"src/r/HEAD": "ref: x\n", "src/r/objects/x": "", "src/config": "", "src/hooks/x": ""}, nil, nil},
		{"unlocked repository", tree{"src/HEAD": "ref: x\n", "src/commondir": "../r\n"}, func(s *verify.Subject) {
			s.Contract.Unlock = []string{"src/HEAD", "src/commondir"}
		}, nil},

		{"names that only begin so", tree{".github/x": "1\n", ".gitkeep": "", "src/.gitignore": "x\n", "git~2": "", "a.git/x": ""}, nil, nil},

		{"locked", tree{"tests/check.sh": "1\n"}, lock("tests/**"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked, deleted", tree{"tests/check.sh": "-"}, lock("tests/**"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked, added", tree{"tests/new.sh": "1\n"}, lock("tests/**"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked, mode", tree{"tests/check.sh": program("exit 0\n")}, lock("tests/**"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked, moved away", tree{"tests/check.sh": "-", "old/check.sh": "exit 0\n"}, lock("tests/check.sh"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked, its folder became a link", tree{"tests/check.sh": "-", "tests": link("src")}, lock("tests/check.sh"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked folder by its name", tree{"tests/deep/x": "1\n"}, lock("tests"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked folder with a slash", tree{"tests/deep/x": "1\n"}, lock("tests/"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked in another case", tree{"Tests/CHECK.sh": "1\n"}, lock("tests/check.sh"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked, not ASCII", tree{"docs/naïve file.txt": "1\n"}, lock("docs/naïve file.txt"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked through a link", tree{"src/a.txt": "1\n"}, lock("lib/**"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked through a link, by name", tree{"src/a.txt": "1\n"}, lock("lib/a.txt"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked through a link, all of it", tree{"src/new": "1\n"}, lock("lib"), []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked through a link, another file", tree{"src/a.txt": "1\n"}, lock("lib/b*"), nil},
		{"always locked through a link", tree{"src/a.txt": "1\n"}, func(s *verify.Subject) { s.AlwaysLocked = []string{"lib/[a]*"} }, []schemas.Code{schemas.CodeLockedPathChanged}},
		{"forbidden through a link", tree{"src/a.txt": "1\n"}, forbidden("lib/a.*"), []schemas.Code{schemas.CodePathForbidden}},
		{"always locked", tree{"src/a.txt": "1\n"}, func(s *verify.Subject) { s.AlwaysLocked = []string{"src/A*"} }, []schemas.Code{schemas.CodeLockedPathChanged}},
		{"unlock does not open what the contract locks", tree{"src/a.txt": "1\n"}, func(s *verify.Subject) {
			s.Contract.LockedPaths, s.Contract.Unlock = []string{"src/a.txt"}, []string{"src/a.txt"}
		}, []schemas.Code{schemas.CodeLockedPathChanged}},
		{"unlock does not open what the user locks", tree{"src/a.txt": "1\n"}, func(s *verify.Subject) {
			s.AlwaysLocked, s.Contract.Unlock = []string{"src/a.txt"}, []string{"src/a.txt"}
		}, []schemas.Code{schemas.CodeLockedPathChanged}},
		{"locked by default, not in allowed", tree{"conftest.py": "1\n"}, allowed("src/**"), []schemas.Code{schemas.CodeLockedPathChanged, schemas.CodePathNotAllowed}},

		{"submodule added", tree{"sub": gitlink}, nil, []schemas.Code{schemas.CodeSubmoduleChanged}},
		{"file became a submodule", tree{"src/a.txt": gitlink}, nil, []schemas.Code{schemas.CodeSubmoduleChanged}},
		{"nested repository", tree{"src/a.txt": "1\n"}, func(s *verify.Subject) { s.Nested = []string{"src/x"} }, []schemas.Code{schemas.CodeNestedRepository}},
		{"tampered", tree{"src/a.txt": "1\n"}, func(s *verify.Subject) { s.Tampered = []string{"core.fsmonitor"} }, []schemas.Code{schemas.CodeGitStateTampered}},

		{"too many files", tree{"src/a.txt": "1\n", "src/b.txt": "1\n"}, func(s *verify.Subject) { s.Contract.Limits.MaxChangedFiles = 1 }, []schemas.Code{schemas.CodeDiffTooLarge}},
		{"just enough files", tree{"src/a.txt": "1\n", "src/b.txt": "1\n"}, func(s *verify.Subject) { s.Contract.Limits.MaxChangedFiles = 2 }, nil},
		{"too many bytes", tree{"src/a.txt": lines(1000, "x")}, func(s *verify.Subject) { s.Contract.Limits.MaxDiffBytes = 100 }, []schemas.Code{schemas.CodeDiffTooLarge}},
		{"binary too large", tree{"src/a.bin": strings.Repeat("\x00", 2<<20)}, nil, []schemas.Code{schemas.CodeDiffTooLarge}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, base, base.with(tt.change))
			if tt.set != nil {
				tt.set(&s)
			}
			if diff := cmp.Diff(tt.want, red(t, s)); diff != "" {
				rows, _ := verify.Gates(t.Context(), s)
				t.Errorf("%s\n%+v", diff, rows)
			}
		})
	}
}

func allowed(patterns ...string) func(*verify.Subject) {
	return func(s *verify.Subject) { s.Contract.AllowedPaths = patterns }
}

func forbidden(patterns ...string) func(*verify.Subject) {
	return func(s *verify.Subject) { s.Contract.ForbiddenPaths = patterns }
}

func lock(patterns ...string) func(*verify.Subject) {
	return func(s *verify.Subject) { s.Contract.LockedPaths = patterns }
}

// A bare repository that is content of base stays, and what git executes in it does not change.
func TestGitDirOfBase(t *testing.T) {
	t.Parallel()
	base := tree{"r.git/HEAD": "ref: x\n", "r.git/objects/x": "", "r.git/refs/x": "", "r.git/config": "", "r.git/description": "x\n", "a": "x\n"}
	for path, red := range map[string]bool{"a": false, "r.git/description": false, "r.git/config": true, "r.git/hooks/pre-commit": true} {
		got := row(t, newSubject(t, base, base.with(tree{path: "1\n"})), schemas.CodeNestedRepository)
		if got.OK == red {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

func TestSymlinks(t *testing.T) {
	t.Parallel()
	base := tree{
		"a/b/c.txt": "x\n", "top.txt": "x\n",
		"up": link("a/b"), "there": link("up/../../top.txt"), "abs": link("/usr/share/dict"), "dangling": link("nowhere/yet"),
	}
	tests := []struct {
		name   string
		change tree
		red    []string
	}{
		{"into the tree", tree{"l": link("a/b/c.txt")}, nil},
		{"to a folder", tree{"l": link("a")}, nil},
		{"up and down", tree{"a/l": link("../top.txt")}, nil},
		{"to itself", tree{"l": link("l")}, nil},
		{"round in circles", tree{"l": link("m"), "m": link("l/x")}, nil},
		{"to nothing", tree{"l": link("no/such/file")}, nil},
		{"to the top", tree{"a/l": link("..")}, nil},
		{"name that begins like .git", tree{"l": link(".github/x")}, nil},
		{"absolute", tree{"l": link("/etc/passwd")}, []string{"l"}},
		{"absolute, deep", tree{"a/b/l": link("/")}, []string{"a/b/l"}},
		{"relative", tree{"l": link("../x")}, []string{"l"}},
		{"relative by one too many", tree{"a/b/l": link("../../../x")}, []string{"a/b/l"}},
		{"down and out", tree{"l": link("a/../../x")}, []string{"l"}},
		{"through nothing and out", tree{"l": link("no/such/../../../x")}, []string{"l"}},
		{"into .git", tree{"l": link(".git/config")}, []string{"l"}},
		{"into .GIT of a folder", tree{"l": link("a/.GIT/config")}, []string{"l"}},
		{"through a link of the tree, in", tree{"l": link("up/../b/c.txt")}, nil},
		{"through a link of the tree, out", tree{"l": link("up/../../../x")}, []string{"l"}},
		{"through a chain", tree{"l": link("m/c.txt"), "m": link("n"), "n": link("up")}, nil},
		{"through a chain, out", tree{"l": link("m/x"), "m": link("n"), "n": link("..")}, []string{"l", "m", "n"}},
		{"a link that is not touched leads out now", tree{"up": link("a")}, []string{"there"}},
		{"a folder in place of a link", tree{"up": "-", "up/f": "x"}, []string{"there"}},
		{"file became a link", tree{"top.txt": link("../x")}, []string{"there", "top.txt"}},
		{"link became a file", tree{"abs": "x\n"}, nil},
		{"link out was deleted", tree{"abs": "-"}, nil},
		{"link out of base is not the worker's", tree{"dangling": link("a")}, nil},
		{"link out of base was moved elsewhere", tree{"abs": link("/etc")}, []string{"abs"}},
		{"through base's link out", tree{"l": link("abs/x")}, []string{"l"}},
		{"empty target", tree{"l": link("")}, []string{"l"}},
		{"target with a NUL", tree{"l": link("a\x00b")}, []string{"l"}},
		{"target that is too long", tree{"l": link(strings.Repeat("a", 5000))}, []string{"l"}},
		{"Windows path", tree{"l": link(`..\x`)}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, base, base.with(tt.change))
			got := row(t, s, schemas.CodeSymlinkEscape)
			if diff := cmp.Diff(tt.red, got.Paths); diff != "" || got.OK != (tt.red == nil) {
				t.Errorf("%+v %s", got, diff)
			}
		})
	}
}

func TestDeletions(t *testing.T) {
	t.Parallel()
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	bin := "\x00" + lines(500, "b")
	base := tree{
		"small.txt": lines(40, "s"), "mid.txt": lines(100, "m"), "big.txt": lines(400, "g"), "other.txt": lines(400, "o"),
		"crlf.txt": crlf(lines(400, "c")), "bin": bin, "one.txt": strings.Repeat("x", 10_000), "tail.txt": lines(41, "t") + "no newline",
	}
	for i := range 301 {
		base[fmt.Sprintf("bins/%d", i)] = fmt.Sprintf("\x00%d", i)
	}
	manyBins := tree{}
	for i := range 301 {
		manyBins[fmt.Sprintf("bins/%d", i)] = "-"
	}
	renamedBins := tree{}
	for i := range 301 {
		renamedBins[fmt.Sprintf("bins/%d", i)], renamedBins[fmt.Sprintf("moved/%d", i)] = "-", fmt.Sprintf("\x00%d", i)
	}
	tests := []struct {
		name   string
		change tree
		max    int
		red    bool
		paths  []string
		says   string
	}{
		{"one line", tree{"big.txt": strings.Replace(base["big.txt"], "g 7\n", "", 1)}, 0, false, nil, ""},
		{"one line of one", tree{"one.txt": "y"}, 0, false, nil, ""},
		{"half of a file", tree{"mid.txt": lines(50, "m")}, 0, false, nil, ""},
		{"more than half of a file", tree{"mid.txt": lines(49, "m")}, 0, true, []string{"mid.txt"}, "51 of 100"},
		{"more than half of a small file", tree{"small.txt": "s\n"}, 0, false, nil, ""},
		{"last line without a newline", tree{"tail.txt": lines(20, "t")}, 0, true, []string{"tail.txt"}, "22 of 42"},
		{"emptied", tree{"mid.txt": ""}, 0, true, []string{"mid.txt"}, "100 of 100"},
		{"became a link", tree{"mid.txt": link("small.txt")}, 0, true, []string{"mid.txt"}, "100 of 100"},
		{"became binary", tree{"mid.txt": "\x00"}, 0, false, nil, ""},
		{"deleted", tree{"mid.txt": "-"}, 0, false, nil, ""},
		{"deleted above the limit", tree{"big.txt": "-"}, 0, true, nil, "400 lines deleted, maxDeletedLines is 300"},
		{"deleted at the limit", tree{"big.txt": "-"}, 400, false, nil, ""},
		{"several together", tree{"mid.txt": "-", "other.txt": lines(199, "x") + base["other.txt"][strings.Index(base["other.txt"], "o 201\n"):]}, 0, true, []string{"other.txt"}, "301 lines"},
		{"renamed", tree{"big.txt": "-", "moved/big.txt": base["big.txt"]}, 0, false, nil, ""},
		{"renamed twice is one rename", tree{"big.txt": "-", "other.txt": "-", "moved.txt": base["big.txt"]}, 0, true, nil, "400 lines"},
		{"renamed and changed", tree{"big.txt": "-", "moved.txt": "new\n" + lines(390, "g")}, 0, false, nil, ""},
		{"renamed and gutted", tree{"big.txt": "-", "moved.txt": lines(90, "g")}, 0, true, nil, "400 lines"},
		{"renamed to something else", tree{"big.txt": "-", "moved.txt": lines(400, "z")}, 0, true, nil, "400 lines"},
		{"renamed with other line endings", tree{"big.txt": "-", "moved.txt": crlf(base["big.txt"])}, 0, false, nil, ""},
		{"content moved over another file", tree{"big.txt": "-", "mid.txt": base["big.txt"]}, 0, true, []string{"mid.txt"}, "500 lines"},
		{"line endings", tree{"crlf.txt": lines(400, "c")}, 0, false, []string{"crlf.txt"}, "line endings"},
		{"line endings the other way", tree{"big.txt": crlf(base["big.txt"])}, 0, false, []string{"big.txt"}, "line endings"},
		{"line endings and one more line", tree{"crlf.txt": lines(400, "c") + "d\n"}, 0, false, []string{"crlf.txt"}, "line endings"},
		{"line endings and a real loss", tree{"crlf.txt": lines(100, "c")}, 0, true, []string{"crlf.txt"}, "300 of 400"},
		{"binary file", tree{"bin": "-"}, 0, false, nil, ""},
		{"many binary files", manyBins, 0, true, nil, "301 lines"},
		{"many binary files renamed", renamedBins, 0, false, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, base, base.with(tt.change))
			s.Contract.Limits.MaxDeletedLines = tt.max
			got := row(t, s, schemas.CodeExcessiveDeletion)
			if got.OK == tt.red || !slices.Equal(got.Paths, tt.paths) || !strings.Contains(got.Message, tt.says) || (tt.says == "" && got.Message != "") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// What cannot be read is red, all rows are there all the same, and it does not end the run.
func TestGatesFailClosed(t *testing.T) {
	t.Parallel()
	errRead := errors.New("disk on fire")
	base := tree{"package.json": `{"scripts":{"test":"x"}}`, "l": link("a"), "a": lines(100, "a"), "check.sh": "exit 0\n"}
	change := tree{"package.json": `{"scripts":{"test":"x"},"dependencies":{}}`, "l": link("package.json"), "a": lines(70, "a")}
	contract := func(s *verify.Subject) {
		s.Contract.Verification = []schemas.Check{{ID: "v", Argv: []string{"sh", "check.sh"}}}
	}
	for name, tt := range map[string]struct {
		objects broken
		want    []schemas.Code
	}{
		"nothing":   {broken{}, nil},
		"no blob":   {broken{blobs: errRead}, []schemas.Code{schemas.CodeVerificationScriptChanged, schemas.CodeSymlinkEscape, schemas.CodeExcessiveDeletion}},
		"no tree":   {broken{trees: errRead}, []schemas.Code{schemas.CodeVerificationScriptChanged, schemas.CodeSymlinkEscape}},
		"no commit": {broken{commits: errRead}, []schemas.Code{schemas.CodeVerificationScriptChanged, schemas.CodeSymlinkEscape}},
	} {
		s := newSubject(t, base, base.with(change))
		contract(&s)
		tt.objects.Objects = s.Objects
		s.Objects = tt.objects
		if diff := cmp.Diff(tt.want, red(t, s)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		rows, err := verify.Gates(t.Context(), s)
		if err != nil || len(rows) != 12 {
			t.Errorf("%s: %d rows, %v", name, len(rows), err)
		}
		if row, final := verify.Final(rows); final {
			t.Errorf("%s: %+v ends the run", name, row)
		}
		if verdict, code := verify.Judge(rows, nil, passing()); (code == "") != (tt.want == nil) || (verdict == schemas.VerdictPass) != (tt.want == nil) {
			t.Errorf("%s: %s %s", name, verdict, code)
		}
	}
}

// The worker chooses the names of files, and with them the words of a message.
func TestNoNameKeepsARunFromItsEnd(t *testing.T) {
	t.Parallel()
	s := newSubject(t, tree{"a": "1"}, tree{"a": "1", "cannot be checked: a/conftest.py": "x", "conftest.py": "x"})
	rows, err := verify.Gates(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if row, final := verify.Final(rows); !final || row.Code != schemas.CodeLockedPathChanged {
		t.Errorf("got %+v", rows)
	}
}

func TestManifestTooLargeEndsTheRun(t *testing.T) {
	t.Parallel()
	s := newSubject(t, tree{"package.json": "{}"}, tree{"package.json": "{ }"})
	s.Objects = broken{Objects: s.Objects, blobs: fmt.Errorf("blob: %w", &gitstate.TooLargeError{Size: 1 << 30, Limit: 64 << 20})}
	rows, err := verify.Gates(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if row, final := verify.Final(rows); !final || row.Code != schemas.CodeVerificationScriptChanged {
		t.Errorf("got %+v", rows)
	}
}

func TestGatesEndWithTheContext(t *testing.T) {
	t.Parallel()
	s := newSubject(t, tree{"a": "1"}, tree{"a": "2"})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if rows, err := verify.Gates(ctx, s); !errors.Is(err, why) || rows != nil {
		t.Errorf("got %v, %v", rows, err)
	}
}

func TestPathsAreShownAndBounded(t *testing.T) {
	t.Parallel()
	change := tree{"z\xffq\"": "x"}
	for i := range 150 {
		change[fmt.Sprintf("f%03d", i)] = "x"
	}
	s := newSubject(t, tree{"a": "1"}, tree{"a": "1"}.with(change))
	s.Contract.AllowedPaths = []string{"src/**"}
	got := row(t, s, schemas.CodePathNotAllowed)
	if len(got.Paths) != 100 || !strings.Contains(got.Message, "151 paths") || got.Paths[0] != "f000" {
		t.Errorf("%d paths, %q", len(got.Paths), got.Message)
	}
	s = newSubject(t, tree{"a": "1"}, tree{"a": "1", "z\xffq\"": "x", "ü\n": "x"})
	s.Contract.AllowedPaths = []string{"src/**"}
	if diff := cmp.Diff([]string{`"z\377q\""`, "ü\n"}, row(t, s, schemas.CodePathNotAllowed).Paths); diff != "" {
		t.Error(diff)
	}
}

func passing() []schemas.CommandResult {
	zero := 0
	return []schemas.CommandResult{{Argv: []string{"true"}, Exit: &zero}}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	one := 1
	green := schemas.GateResult{Code: schemas.CodeEmptyDiff, OK: true}
	redGate := func(code schemas.Code) schemas.GateResult { return schemas.GateResult{Code: code, Message: "m"} }
	failed := schemas.CommandResult{Exit: &one}
	timedOut := schemas.CommandResult{TimedOut: true}
	missing := schemas.CommandResult{Error: "program not found"}
	tests := []struct {
		name            string
		rows            []schemas.GateResult
		setup, commands []schemas.CommandResult
		want            schemas.Code
	}{
		{"all green", []schemas.GateResult{green}, nil, passing(), ""},
		{"set-up too", []schemas.GateResult{green}, passing(), passing(), ""},
		{"first red gate", []schemas.GateResult{green, redGate(schemas.CodePathForbidden), redGate(schemas.CodePathNotAllowed)}, nil, passing(), schemas.CodePathForbidden},
		{"final before first", []schemas.GateResult{redGate(schemas.CodeEmptyDiff), redGate(schemas.CodeLockedPathChanged)}, nil, nil, schemas.CodeLockedPathChanged},
		{"gate before command", []schemas.GateResult{redGate(schemas.CodeEmptyDiff)}, nil, []schemas.CommandResult{timedOut}, schemas.CodeEmptyDiff},
		{"set-up failed", []schemas.GateResult{green}, []schemas.CommandResult{failed}, nil, schemas.CodeVerificationFailed},
		{"command failed", []schemas.GateResult{green}, nil, append(passing(), failed, timedOut), schemas.CodeVerificationFailed},
		{"command timed out", []schemas.GateResult{green}, nil, append(passing(), timedOut, failed), schemas.CodeVerificationTimeout},
		{"program missing", []schemas.GateResult{green}, nil, []schemas.CommandResult{missing}, schemas.CodeVerificationFailed},
		{"ended by a signal", []schemas.GateResult{green}, nil, []schemas.CommandResult{{Signal: "SIGKILL"}}, schemas.CodeVerificationFailed},
		{"no command", []schemas.GateResult{green}, nil, nil, schemas.CodeVerificationFailed},
		{"no gate", nil, nil, passing(), schemas.CodeVerificationFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			verdict, code := verify.Judge(tt.rows, tt.setup, tt.commands)
			want := schemas.VerdictFail
			if tt.want == "" {
				want = schemas.VerdictPass
			}
			if verdict != want || code != tt.want {
				t.Errorf("got %s %s, want %s %s", verdict, code, want, tt.want)
			}
		})
	}
}

func TestTampered(t *testing.T) {
	t.Parallel()
	rows, err := verify.Gates(t.Context(), newSubject(t, tree{"a": "1"}, tree{"a": "2"}))
	if err != nil {
		t.Fatal(err)
	}
	after := verify.Tampered(rows, []string{"core.fsmonitor"})
	if row, final := verify.Final(after); !final || row.Code != schemas.CodeGitStateTampered || !slices.Equal(row.Paths, []string{"core.fsmonitor"}) {
		t.Errorf("got %+v", after)
	}
	if _, final := verify.Final(rows); final || len(after) != len(rows) {
		t.Error("the rows that were given are changed")
	}
}
