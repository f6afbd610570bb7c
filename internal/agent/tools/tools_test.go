package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/git-spot/git-spot/internal/agent/tools"
)

func TestMain(m *testing.M) {
	if childToo() {
		return
	}
	goleak.VerifyTestMain(m)
}

// tree makes files below a new folder, and the tools for it.
func tree(t testing.TB, files map[string]string) (string, *tools.Set) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		put(t, dir, name, content)
	}
	return dir, open(t, dir)
}

func open(t testing.TB, dir string) *tools.Set {
	t.Helper()
	s, err := tools.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(t testing.TB, dir, name, content string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func content(t testing.TB, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// call runs one call.
func call(t testing.TB, s *tools.Set, name, arguments string) tools.Result {
	t.Helper()
	return s.Run(t.Context(), []tools.Call{{ID: "1", Name: name, Arguments: json.RawMessage(arguments)}})[0]
}

// want checks a result's status and that its text has the parts.
func want(t testing.TB, r tools.Result, status string, parts ...string) {
	t.Helper()
	if r.Status != status {
		t.Errorf("%s: status is %s, want %s: %s", r.Name, r.Status, status, r.Text)
	}
	for _, part := range parts {
		if !strings.Contains(r.Text, part) {
			t.Errorf("%s: %q is not in:\n%s", r.Name, part, r.Text)
		}
	}
}

func TestEachTool(t *testing.T) {
	t.Parallel()
	dir, s := tree(t, map[string]string{"a.go": "package a\n\nfunc A() {}\n", "sub/b.txt": "one\ntwo\nthree\n"})
	want(t, call(t, s, "read", `{"path":"sub/b.txt","offset":2,"limit":1}`), "ok", "2\ttwo\n[line 2 of 3; go on with offset 3]")
	want(t, call(t, s, "grep", `{"pattern":"^func","context":1}`), "ok", "a.go-2- \na.go:3: func A() {}\n")
	want(t, call(t, s, "find", `{"pattern":"*.txt"}`), "ok", "sub/b.txt\n")
	want(t, call(t, s, "ls", `{}`), "ok", "a.go", "sub/")
	want(t, call(t, s, "edit", `{"path":"a.go","edits":[{"oldText":"A()","newText":"B()"}],"moveTo":"c/d.go"}`), "ok", "moved a.go to c/d.go", "3\tfunc B() {}")
	want(t, call(t, s, "write", `{"path":"x/y","content":"z\n"}`), "ok", "created x/y")
	want(t, call(t, s, "write", `{"path":"sub/b.txt","delete":true}`), "ok", "deleted sub/b.txt")
	if got := content(t, dir, "c/d.go") + content(t, dir, "x/y"); got != "package a\n\nfunc B() {}\nz\n" {
		t.Errorf("the files have %q", got)
	}
	want(t, call(t, s, "bash", `{}`), "error", "read, grep, find, ls, edit and write")
	want(t, call(t, s, "read", `{"path":"../x"}`), "denied", "outside")
	want(t, call(t, s, "read", `{"path":".GIT/config"}`), "denied", ".git")
}

func TestOneResultForEachCallInOrder(t *testing.T) {
	t.Parallel()
	dir, s := tree(t, map[string]string{"n": "0\n"})
	// Each read must see what the edit before it has written, and nothing of the one after it.
	var calls []tools.Call
	for i := range 16 {
		calls = append(calls,
			tools.Call{ID: "same", Name: "edit", Arguments: fmt.Appendf(nil, `{"path":"n","edits":[{"oldText":"%d\n","newText":"%d\n"}]}`, i, i+1)},
			tools.Call{ID: "same", Name: "read", Arguments: json.RawMessage(`{"path":"n"}`)},
			tools.Call{ID: "same", Name: "grep", Arguments: json.RawMessage(`{"pattern":"[0-9]+"}`)},
			tools.Call{ID: fmt.Sprint(i), Name: "nothing"})
	}
	results := s.Run(t.Context(), calls)
	if len(results) != len(calls) {
		t.Fatalf("%d results for %d calls", len(results), len(calls))
	}
	for i, r := range results {
		if r.ID != calls[i].ID || r.Name != calls[i].Name {
			t.Errorf("result %d is of %s %s", i, r.ID, r.Name)
		}
		switch n := i/4 + 1; r.Name {
		case "edit":
			want(t, r, "ok")
		case "read":
			want(t, r, "ok", fmt.Sprintf("1\t%d\n", n))
		case "grep":
			want(t, r, "ok", fmt.Sprintf("n:1: %d\n", n))
		default:
			want(t, r, "error")
		}
	}
	if got := content(t, dir, "n"); got != "16\n" {
		t.Errorf("the file has %q", got)
	}
}

func TestMoreCallsThanAreCarriedOut(t *testing.T) {
	t.Parallel()
	dir, s := tree(t, map[string]string{"big": strings.Repeat(strings.Repeat("x", 99)+"\n", 5000)})
	var calls []tools.Call
	for i := range 500 {
		calls = append(calls, tools.Call{Name: "write", Arguments: fmt.Appendf(nil, `{"path":"f%d","content":""}`, i)})
		if i%2 == 0 {
			calls[i] = tools.Call{Name: "read", Arguments: json.RawMessage(`{"path":"big"}`)}
		}
	}
	results := s.Run(t.Context(), calls)
	sum := 0
	for i, r := range results {
		if i < 64 {
			want(t, r, "ok")
		} else {
			want(t, r, "error", "only the first 64", "next step")
		}
		sum += len(r.Text)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1+32 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	if sum > 1<<20+64<<10 {
		t.Errorf("the answers have %d bytes", sum)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "a", "x\n")
	put(t, dir, ".git-spot-tmp-OLD", "is somebody else's\n")
	s, err := tools.Open(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // the folder goes away anyway
	var names []string
	for _, d := range s.Definitions() {
		names = append(names, d.Name)
	}
	if diff := cmp.Diff([]string{"read", "grep", "find", "ls"}, names); diff != "" {
		t.Error(diff)
	}
	want(t, call(t, s, "read", `{"path":"a"}`), "ok", "1\tx")
	want(t, call(t, s, "write", `{"path":"a","content":""}`), "denied", "only reads", "read, grep, find and ls")
	want(t, call(t, s, "edit", `{"path":"a","moveTo":"b"}`), "denied")
	if content(t, dir, "a") != "x\n" || content(t, dir, ".git-spot-tmp-OLD") == "" {
		t.Error("something was changed")
	}
}

func TestStopped(t *testing.T) {
	t.Parallel()
	dir, s := tree(t, map[string]string{"a": "x\n"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, r := range s.Run(ctx, []tools.Call{
		{Name: "read", Arguments: json.RawMessage(`{"path":"a"}`)},
		{Name: "write", Arguments: json.RawMessage(`{"path":"a","content":""}`)},
	}) {
		want(t, r, "error", "stopped")
	}
	if content(t, dir, "a") != "x\n" {
		t.Error("something was changed")
	}
}

// What would change nothing leaves the file as it is, with its times.
func TestNothingIsWrittenAgain(t *testing.T) {
	t.Parallel()
	for arguments, changes := range map[string]bool{
		`write {"path":"a","content":"x\n"}`:                        false, // it has that already
		`write {"path":"a","content":"x\n","executable":true}`:      true,
		`write {"path":"a","content":"y"}`:                          true,
		`edit {"path":"a","edits":[{"oldText":"x","newText":"y"}]}`: true,
		`edit {"path":"a","edits":[{"oldText":"z","newText":"y"}]}`: false,
		`edit {"path":"a","moveTo":".git/b"}`:                       false,
	} {
		t.Run(arguments, func(t *testing.T) {
			t.Parallel()
			dir, s := tree(t, map[string]string{"a": "x\n"})
			before, err := os.Stat(filepath.Join(dir, "a"))
			if err != nil {
				t.Fatal(err)
			}
			name, arguments, _ := strings.Cut(arguments, " ")
			r := call(t, s, name, arguments)
			after, err := os.Stat(filepath.Join(dir, "a"))
			if err != nil {
				t.Fatal(err)
			}
			if os.SameFile(before, after) == changes {
				t.Errorf("written: %v, want %v, after %s", !changes, changes, r.Text)
			}
		})
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	s, err := tools.Open(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, d := range s.Definitions() {
		want(t, call(t, s, d.Name, `{"path":"a","pattern":"a","content":"","moveTo":"b"}`), "error")
		want(t, call(t, s, d.Name, map[string]string{
			"read": `{"path":"a"}`, "grep": `{"pattern":"a"}`, "find": `{"pattern":"a"}`, "ls": `{}`,
			"edit": `{"path":"a","moveTo":"b"}`, "write": `{"path":"a","content":""}`,
		}[d.Name]), "error")
	}
	if _, err := tools.Open(filepath.Join(t.TempDir(), "none"), false); err == nil {
		t.Error("a folder that does not exist was opened")
	}
}

// TestDefinitions holds the schemas to what all providers take. OpenAI's, Anthropic's and Gemini's
// compatible endpoints agree on these keywords; additionalProperties, for one, Gemini has refused.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	_, s := tree(t, nil)
	names := 0
	var check func(t *testing.T, where string, v any)
	check = func(t *testing.T, where string, v any) {
		schema, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("%s is %T", where, v)
		}
		if where != "" && where != "edits.items" && schema["description"] == nil {
			t.Errorf("%s has no description", where)
		}
		for key, value := range schema {
			switch key {
			case "type":
				if !slices.Contains([]any{"object", "array", "string", "integer", "boolean"}, value) {
					t.Errorf("%s has type %v", where, value)
				}
			case "description":
				if text := value.(string); len(text) > 200 || !strings.HasSuffix(text, ".") {
					t.Errorf("%s is described by %q", where, text)
				}
			case "required":
				for _, name := range value.([]any) {
					if schema["properties"].(map[string]any)[name.(string)] == nil {
						t.Errorf("%s requires %v", where, name)
					}
				}
			case "properties":
				for name, property := range value.(map[string]any) {
					check(t, name, property)
				}
			case "items":
				check(t, where+".items", value)
			default:
				t.Errorf("%s has the keyword %s", where, key)
			}
		}
	}
	for _, d := range s.Definitions() {
		names++
		if len(d.Description) > 800 || strings.Contains(d.Description, "\n") || !strings.HasSuffix(d.Description, ".") {
			t.Errorf("%s is described by %q", d.Name, d.Description)
		}
		var v any
		if err := json.Unmarshal(d.Parameters, &v); err != nil {
			t.Fatal(err)
		}
		check(t, "", v)
	}
	if names != 6 {
		t.Errorf("%d tools", names)
	}
}
