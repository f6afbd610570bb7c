// Package docscheck_test holds the documents to the source.
package docscheck_test

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
)

var update = flag.Bool("update", false, "rewrite the generated parts of documents")

const (
	root       = "../.."
	format     = root + "/docs/format.md"
	guarantees = root + "/docs/guarantees.md"
)

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The tables of states and transitions in docs/format.md are those of package gitstate.
func TestGeneratedStates(t *testing.T) {
	t.Parallel()
	page := read(t, format)
	want := page
	for name, table := range map[string]string{"states": states(), "transitions": transitions()} {
		before, rest, ok := strings.Cut(want, "<!-- begin "+name)
		comment, rest, ok2 := strings.Cut(rest, "-->\n")
		_, after, ok3 := strings.Cut(rest, "<!-- end "+name+" -->\n")
		if !ok || !ok2 || !ok3 {
			t.Fatalf("docs/format.md has no place for the table of %s", name)
		}
		want = before + "<!-- begin " + name + comment + "-->\n" + table + "<!-- end " + name + " -->\n" + after
	}
	if *update {
		if err := os.WriteFile(format, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != want {
		t.Error("docs/format.md differs from gitstate/machine.go; mend it with: go test ./internal/docscheck -run Generated -update")
	}
}

func mark(b bool) string {
	if b {
		return "x"
	}
	return ""
}

func states() string {
	var b strings.Builder
	b.WriteString("| state | owned | parked | holds a slot |\n| --- | --- | --- | --- |\n")
	for _, s := range gitstate.Standings {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.State, mark(s.Owned), mark(s.Parked), mark(s.Slot))
	}
	return b.String()
}

func transitions() string {
	// Rows that differ in From alone are one line, and then those that differ in By alone.
	type line struct{ from, by, rest string }
	var lines []line
	for _, t := range gitstate.Transitions {
		from := "`" + string(t.From) + "`"
		if t.From == "" {
			from = "no run"
		}
		var only []string
		if t.Kinds != gitstate.AnyKind {
			only = append(only, string(t.Kinds))
		}
		if t.Cause != "" {
			only = append(only, "cause "+string(t.Cause))
		}
		if t.Gone {
			only = append(only, "owner gone")
		}
		if t.Unproven {
			only = append(only, "not passed")
		}
		rest := fmt.Sprintf("`%s` | %s | %s | %s |", t.To, t.When, strings.Join(only, ", "), mark(t.Note))
		if i := slices.IndexFunc(lines, func(l line) bool { return l.by == string(t.By) && l.rest == rest }); i >= 0 {
			lines[i].from += ", " + from
		} else {
			lines = append(lines, line{from, string(t.By), rest})
		}
	}
	var merged []line
	for _, l := range lines {
		if i := slices.IndexFunc(merged, func(m line) bool { return m.from == l.from && m.rest == l.rest }); i >= 0 {
			merged[i].by += ", " + l.by
		} else {
			merged = append(merged, l)
		}
	}
	var b strings.Builder
	b.WriteString("| from | by | to | when | only | noted |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, l := range merged {
		fmt.Fprintf(&b, "| %s | %s | %s\n", l.from, l.by, l.rest)
	}
	return b.String()
}

var example = regexp.MustCompile("(?s)<!-- example: (commit|blob|diff) ([0-9a-f]+) -->\n```\n(.*?)```\n")

// The examples of docs/format.md are objects of the ids that the page gives them.
func TestFormatExamples(t *testing.T) {
	t.Parallel()
	found := example.FindAllStringSubmatch(read(t, format), -1)
	if len(found) != 3 {
		t.Errorf("%d examples, want a commit, a diff and a note", len(found))
	}
	for _, e := range found {
		kind, want, text := e[1], e[2], e[3]
		var got string
		if kind == "diff" {
			raw := strings.ReplaceAll(strings.TrimSuffix(text, "\n"), `\0`, "\x00")
			got = fmt.Sprintf("%x", sha256.Sum256([]byte(raw)))
		} else {
			got = fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", kind, len(text), text)))
		}
		if got != want {
			t.Errorf("the %s is %s, not %s", kind, got, want)
		}
	}
}

var (
	testName   = regexp.MustCompile(`^((?:[a-z0-9-]+/)*[a-z0-9-]+)\.((?:Test|Fuzz|Example)\w*)$`)
	scriptName = regexp.MustCompile(`^script/([a-z0-9_]+)$`)
	quoted     = regexp.MustCompile("`([^`]+)`")
)

// A row of docs/guarantees.md is a promise and the tests that fail if it breaks, as package.TestName
// or script/name. All of them exist.
func TestGuaranteesNameRealTests(t *testing.T) {
	t.Parallel()
	rows := 0
	seen := map[string]bool{}
	for line := range strings.Lines(read(t, guarantees)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| promise |") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		promise := strings.TrimSpace(cells[0])
		if len(cells) != 2 || promise == "" {
			t.Errorf("%q is not a promise and its tests", line)
			continue
		}
		if seen[promise] {
			t.Errorf("twice: %q", promise)
		}
		seen[promise] = true
		rows++
		names := quoted.FindAllStringSubmatch(cells[1], -1)
		if len(names) == 0 {
			t.Errorf("no test for %q", promise)
		}
		for _, name := range names {
			if err := exists(name[1]); err != nil {
				t.Errorf("%q: %v", promise, err)
			}
		}
	}
	if rows == 0 {
		t.Error("docs/guarantees.md has no rows")
	}
}

// Every test that docs/threat-model.md names exists.
func TestThreatModelNamesRealTests(t *testing.T) {
	t.Parallel()
	for _, name := range quoted.FindAllStringSubmatch(read(t, root+"/docs/threat-model.md"), -1) {
		if testName.MatchString(name[1]) || scriptName.MatchString(name[1]) {
			if err := exists(name[1]); err != nil {
				t.Error(err)
			}
		}
	}
}

// exists says why there is no test called name.
func exists(name string) error {
	if m := scriptName.FindStringSubmatch(name); m != nil {
		found, err := filepath.Glob(root + "/cmd/git-spot/testdata/*/" + m[1] + ".txtar")
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("no script %s", name)
		}
		return err
	}
	m := testName.FindStringSubmatch(name)
	if m == nil {
		return fmt.Errorf("%q is neither package.TestName nor script/name", name)
	}
	files, err := filepath.Glob(filepath.Join(root, m[1], "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if bytes.Contains(data, []byte("\nfunc "+m[2]+"(")) {
			return nil
		}
	}
	return fmt.Errorf("no test %s", name)
}

func TestNamesOfTests(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"internal/docscheck.TestNamesOfTests": true,
		"script/version_schema_template":      true,
		"schemas.TestCode":                    false, // another one begins so
		"schemas.TestGone":                    false,
		"script/gone":                         false,
		"script/../script/help":               false,
		"TestCodes":                           false,
		"../main/schemas.TestCodes":           false,
		"schemas.define":                      false,
	} {
		if err := exists(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

// Links between documents lead somewhere.
func TestLinks(t *testing.T) {
	t.Parallel()
	var pages []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}
