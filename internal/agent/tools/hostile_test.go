package tools_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/git-spot/git-spot/internal/agent/tools"
)

// harmless runs a call in a hostile tree and checks that it did no harm.
func harmless(t testing.TB, fail func(format string, args ...any), h hostile, s *tools.Set, before, name string, arguments []byte) {
	t.Helper()
	r := s.Run(context.WithoutCancel(t.Context()), []tools.Call{{ID: "1", Name: name, Arguments: arguments}})[0]
	switch {
	case r.Status != "ok" && r.Status != "error" && r.Status != "denied":
		fail("status %q", r.Status)
	case r.Text == "" || len(r.Text) > 64<<10 || !utf8.ValidString(r.Text) || strings.ContainsRune(r.Text, 0):
		fail("a text of %d bytes: %q", len(r.Text), r.Text)
	case strings.Contains(r.Text, canary) && !strings.Contains(string(arguments), canary):
		fail("shows what is closed: %s", r.Text)
	case h.state(t) != before:
		fail("changed what is closed, and says %s", r.Text)
	}
	nothingLeft(t, h.dir)
}

// FuzzArguments sends anything at all to each tool.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"path":"a.txt"}`, `{"path":"a.txt","offset":2,"limit":1}`, `{"path":".git/config"}`, `{"path":"../outside/secret","content":"x"}`,
		`{"pattern":"CANA.*","path":".","glob":"**","context":3,"filesOnly":false,"literal":false,"ignoreCase":true,"limit":9}`,
		`{"path":"a.txt","edits":[{"oldText":"one","newText":"two","all":true}],"moveTo":"git/x"}`, `{"path":"git-config","delete":true}`,
		`{"path":"x","content":"y","executable":true}`, `"{\"path\":\"a.txt\"}"`, `{"path":"\u0000"}`, `[`, `null`, `{"path":"sub","moveTo":"module/.git/x"}`,
		`{"path":"fifo"}`, `{"path":"out-dir/new","content":""}`, `{"path":"in","old_str":"one","new_str":"\ud800"}`,
	} {
		for tool := range byte(6) {
			f.Add(tool, []byte(seed))
		}
	}
	h := newHostile(f)
	s := open(f, h.dir)
	before := h.state(f)
	f.Fuzz(func(t *testing.T, tool byte, arguments []byte) {
		definitions := s.Definitions()
		harmless(t, t.Fatalf, h, s, before, definitions[int(tool)%len(definitions)].Name, arguments)
	})
}

// TestHostileSequences makes random calls that are well formed, one after the other in one tree, so that
// later ones meet what earlier ones have made.
func TestHostileSequences(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{
		"a.txt", "sub", "b.go", "new", "in", "in-dir", "in-abs", "out", "out-dir", "secret", "git", "git-config", ".git", ".GIT", "config", "hooks", "HEAD",
		"here", "up", "round", "module", "lnk", "fifo", "sock", "loop", "broken", "..", "..", ".", "", "git~1", ".g\u200dit", ".git ", ".git.", "é", "e\u0301", ".gitignore", `.git\x`, "a\nb",
	})
	text := rapid.SampledFrom([]string{"", "x", "one", "one\ntwo", "two\r\nthree\r\n", "package", "\ufeff", "*\n", "!a.txt\n", "\x00"})
	rapid.Check(t, func(r *rapid.T) {
		h := newHostile(t)
		s := open(t, h.dir)
		before := h.state(t)
		path := rapid.Custom(func(r *rapid.T) string {
			p := strings.Join(rapid.SliceOfN(part, 1, 4).Draw(r, "parts"), "/")
			return rapid.SampledFrom([]string{"", "", "", h.dir + "/", h.outside + "/", "/", "./"}).Draw(r, "top") + p
		})
		glob := rapid.SampledFrom([]string{"**", "*", ".*", "**/.*", ".git/**", "*.go", "!*.go", "{.git,a.txt}", "../**"})
		for range 12 {
			name := rapid.SampledFrom([]string{"read", "grep", "find", "ls", "edit", "write"}).Draw(r, "tool")
			in := map[string]any{"path": path.Draw(r, "path")}
			switch name {
			case "grep":
				in["pattern"], in["glob"], in["context"] = rapid.SampledFrom([]string{".", canary, "one", "^$"}).Draw(r, "pattern"), glob.Draw(r, "glob"), rapid.IntRange(0, 3).Draw(r, "context")
			case "find":
				in["pattern"] = glob.Draw(r, "pattern")
			case "edit":
				if rapid.Bool().Draw(r, "edits") {
					in["edits"] = []any{map[string]any{"oldText": text.Draw(r, "old"), "newText": text.Draw(r, "new"), "all": rapid.Bool().Draw(r, "all")}}
				}
				if rapid.Bool().Draw(r, "moves") {
					in["moveTo"] = path.Draw(r, "moveTo")
				}
			case "write":
				if rapid.Bool().Draw(r, "delete") {
					in["delete"] = true
				} else {
					in["content"], in["executable"] = text.Draw(r, "content"), rapid.Bool().Draw(r, "executable")
				}
			}
			arguments, err := json.Marshal(in)
			if err != nil {
				r.Fatal(err)
			}
			harmless(t, r.Fatalf, h, s, before, name, arguments)
		}
		if _, err := filepath.EvalSymlinks(filepath.Join(h.dir, ".git/config")); err != nil {
			r.Fatal(err)
		}
	})
}
