package tools_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/agent/tools"
)

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
	want(t, call(t, s, "read", `{"path":"sub/b.txt","offset":2,"limit":1}`), "ok", "2\ttwo\n[lines 2-2 of 3; go on with offset 3]")
	want(t, call(t, s, "grep", `{"pattern":"^func","context":1}`), "ok", "a.go-2- \na.go:3: func A() {}\n")
	want(t, call(t, s, "find", `{"pattern":"*.txt"}`), "ok", "sub/b.txt\n")
	want(t, call(t, s, "ls", `{}`), "ok", "a.go", "sub/")
	want(t, call(t, s, "edit", `{"path":"a.go","edits":[{"oldText":"A()","newText":"B()"}],"moveTo":"c/d.go"}`), "ok", "moved it to c/d.go", "3\tfunc B() {}")
	want(t, call(t, s, "write", `{"path":"x/y","content":"z\n"}`), "ok", "created x/y")
	want(t, call(t, s, "write", `{"path":"sub/b.txt","delete":true}`), "ok", "deleted sub/b.txt")
	if got := content(t, dir, "c/d.go") + content(t, dir, "x/y"); got != "package a\n\nfunc B() {}\nz\n" {
		t.Errorf("the files have %q", got)
	}
	if !s.Changed() {
		t.Error("nothing is said to have changed")
	}
	want(t, call(t, s, "bash", `{}`), "error", "read, grep, find, ls, edit and write")
	want(t, call(t, s, "read", `{"path":"../x"}`), "denied", "outside")
	want(t, call(t, s, "read", `{"path":".GIT/config"}`), "denied", ".git")
}
