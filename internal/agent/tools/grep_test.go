package tools_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestGrep(t *testing.T) {
	t.Parallel()
	_, s := tree(t, map[string]string{
		"a.go":            "package a\n\nfunc One() {}\nfunc Two() {}\n// the end\n",
		"b/b.go":          "package b\r\nfunc Three() {}\r\n",
		"b/b_test.go":     "package b\nfunc TestThree() {}\n",
		"b/c.md":          "# func\n",
		"bin":             "func \x00",
		"late":            "x\n" + strings.Repeat("y\n", 9000) + "func \x00\nfunc\n",
		".hidden.go":      "func hidden() {}\n",
		".github/w.yml":   "on: push # func\n",
		"vendor/v.go":     "func vendored() {}\n",
		"b/gen/x.go":      "func generated() {}\n",
		"b/gen/keep.go":   "func kept() {}\n",
		".gitignore":      "/vendor/\n",
		"b/.gitignore":    "gen/*\n!keep.go\n",
		".ignore":         "c.md\n",
		"mark.go":         "\ufefffunc marked() {}\n",
		"z/é日本.go":        "func 日本() {}\n",
		"long.js":         strings.Repeat("a", 1000) + "func" + strings.Repeat("b", 1000) + "\n",
		"literal.txt":     "a.b(c)\naxb(c)\n",
		"z/ends":          "no newline func",
		"context/many.go": "1\n2\nfunc\n4\n5\n6\n7\nfunc\nfunc\n10\n",
	})
	long := strings.Repeat("a", 100) + "func" + strings.Repeat("b", 296)
	for name, c := range map[string]struct{ arguments, want string }{
		"all": {`{"pattern":"^func","glob":"*.go"}`, "a.go:3: func One() {}\na.go:4: func Two() {}\nb/b.go:2: func Three() {}\nb/b_test.go:2: func TestThree() {}\n" +
			"b/gen/keep.go:1: func kept() {}\ncontext/many.go:3: func\ncontext/many.go:8: func\ncontext/many.go:9: func\nmark.go:1: func marked() {}\nz/é日本.go:1: func 日本() {}\n"},
		"an anchor at CRLF":    {`{"pattern":"\\{\\}$","path":"b/b.go"}`, "b/b.go:2: func Three() {}\n"},
		"files":                {`{"pattern":"func","filesOnly":true,"path":"b"}`, "b/b.go\nb/b_test.go\nb/gen/keep.go\n"},
		"not these":            {`{"pattern":"func","filesOnly":true,"path":"b","glob":"!*_test.go"}`, "b/b.go\nb/gen/keep.go\n"},
		"glob from the top":    {`{"pattern":"Three","glob":"b/*.go","path":"b"}`, "b/b.go:2: func Three() {}\nb/b_test.go:2: func TestThree() {}\n"},
		"glob from the folder": {`{"pattern":"Three","glob":"*_test.{go,ts}","path":"b"}`, "b/b_test.go:2: func TestThree() {}\n"},
		"glob over folders":    {`{"pattern":"Three","glob":"**/*_test.go"}`, "b/b_test.go:2: func TestThree() {}\n"},
		"case":                 {`{"pattern":"THREE","ignoreCase":true,"path":"b/b.go"}`, "b/b.go:2: func Three() {}\n"},
		"literal":              {`{"pattern":"a.b(c)","literal":true}`, "literal.txt:1: a.b(c)\n"},
		"case and literal":     {`{"pattern":"A.B(","literal":true,"ignoreCase":true}`, "literal.txt:1: a.b(c)\n"},
		"a hidden file":        {`{"pattern":"func","path":".hidden.go"}`, ".hidden.go:1: func hidden() {}\n"},
		"a hidden folder":      {`{"pattern":"func","path":".github"}`, ".github/w.yml:1: on: push # func\n"},
		"hidden by glob":       {`{"pattern":"func","glob":".*.go"}`, ".hidden.go:1: func hidden() {}\n"},
		"hidden by path glob":  {`{"pattern":"func","glob":".github/**"}`, ".github/w.yml:1: on: push # func\n"},
		"an ignored folder":    {`{"pattern":"func","path":"vendor"}`, "vendor/v.go:1: func vendored() {}\n"},
		"an ignored file":      {`{"pattern":"func","path":"b/gen/x.go"}`, "b/gen/x.go:1: func generated() {}\n"},
		"a long line":          {`{"pattern":"func","path":"long.js"}`, "long.js:1: …" + long + "…\n"},
		"limit":                {`{"pattern":"func","limit":1,"path":"a.go"}`, "a.go:3: func One() {}\n[the first 1 line; there are more: use a narrower pattern, path or glob, or a higher limit]"},
		"limit reached":        {`{"pattern":"func","limit":2,"path":"a.go"}`, "a.go:3: func One() {}\na.go:4: func Two() {}\n"},
		"context":              {`{"pattern":"One","context":1,"path":"a.go"}`, "a.go-2- \na.go:3: func One() {}\na.go-4- func Two() {}\n"},
		"context that touches": {`{"pattern":"func","context":2,"path":"context"}`, "context/many.go-1- 1\ncontext/many.go-2- 2\ncontext/many.go:3: func\ncontext/many.go-4- 4\ncontext/many.go-5- 5\ncontext/many.go-6- 6\ncontext/many.go-7- 7\ncontext/many.go:8: func\ncontext/many.go:9: func\ncontext/many.go-10- 10\n"},
		"context with a gap":   {`{"pattern":"func","context":1,"path":"context"}`, "context/many.go-2- 2\ncontext/many.go:3: func\ncontext/many.go-4- 4\n--\ncontext/many.go-7- 7\ncontext/many.go:8: func\ncontext/many.go:9: func\ncontext/many.go-10- 10\n"},
		"context of two files": {`{"pattern":"package","context":1,"path":"b"}`, "b/b.go:1: package b\nb/b.go-2- func Three() {}\n--\nb/b_test.go:1: package b\nb/b_test.go-2- func TestThree() {}\n"},
		"no newline":           {`{"pattern":"func$","path":"z"}`, "z/ends:1: no newline func\n"},
		"nothing":              {`{"pattern":"nothing","path":"b"}`, "[no match in 3 files; 3 hidden or ignored ones were skipped: name them in path or glob to search them]"},
		"nothing in a binary":  {`{"pattern":"func","path":"bin"}`, "[no match in 0 files. skipped 1 binary file]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := call(t, s, "grep", c.arguments)
			if r.Status != "ok" || r.Text != c.want {
				t.Errorf("got %s\n%s\nwant\n%s", r.Status, r.Text, c.want)
			}
		})
	}
	want(t, call(t, s, "grep", `{"pattern":"("}`), "error", "not a regular expression", "missing closing )", "literal")
	want(t, call(t, s, "grep", `{"pattern":"(?=x)"}`), "error", "not a regular expression", "RE2: no lookaround")
	want(t, call(t, s, "grep", `{"pattern":"a\nb"}`), "error", "line break")
	want(t, call(t, s, "grep", `{"pattern":""}`), "error", "use find")
	want(t, call(t, s, "grep", `{"pattern":"x","glob":"[a"}`), "error", "not a glob")
	want(t, call(t, s, "grep", `{"pattern":"x","path":"nowhere"}`), "error", "there is no nowhere")
	want(t, call(t, s, "grep", fmt.Sprintf(`{"pattern":%q}`, strings.Repeat("x", 5000))), "error", "at most 1000")
}

// TestGrepIsBounded: an expression of the largest size and a line of the largest size together would take
// minutes.
func TestGrepIsBounded(t *testing.T) {
	t.Parallel()
	_, s := tree(t, map[string]string{"f": strings.Repeat("a", 1_000_000) + "x\nx\n", "g": strings.Repeat(strings.Repeat("b", 100)+"\n", 5000)})
	want(t, call(t, s, "grep", `{"pattern":"(a?){1000}b","path":"f"}`), "ok", "no match", "of 1 long line only the first")
	want(t, call(t, s, "grep", `{"pattern":"x","path":"f"}`), "ok", "f:1: …aaa", "f:2: x")
	r := call(t, s, "grep", `{"pattern":"b","path":"g","limit":2000}`)
	want(t, r, "ok", "there are more")
	if len(r.Text) > 64<<10 {
		t.Errorf("%d bytes", len(r.Text))
	}
	want(t, call(t, s, "find", fmt.Sprintf(`{"pattern":%q}`, strings.Repeat("{a,b}", 20))), "error", "too many alternatives")
	want(t, call(t, s, "find", fmt.Sprintf(`{"pattern":%q}`, strings.Repeat("**/*a", 150))), "ok", "no match")
}

func TestFind(t *testing.T) {
	t.Parallel()
	_, s := tree(t, map[string]string{
		"main.go": "", "src/a.ts": "", "src/deep/b.ts": "", "src/deep/testdata/x": "", ".env": "", ".github/ci.yml": "",
		"node_modules/m/index.js": "", ".gitignore": "node_modules\n*.log\n!keep.log\n", "a.log": "", "keep.log": "", "src/{x}.ts": "",
	})
	for name, c := range map[string]struct{ arguments, want string }{
		"by name":          {`{"pattern":"*.ts"}`, "src/a.ts\nsrc/deep/b.ts\nsrc/{x}.ts\n"},
		"by path":          {`{"pattern":"src/*.ts"}`, "src/a.ts\nsrc/{x}.ts\n"},
		"over folders":     {`{"pattern":"src/**/*.ts"}`, "src/a.ts\nsrc/deep/b.ts\nsrc/{x}.ts\n"},
		"below a path":     {`{"pattern":"deep/*","path":"src"}`, "src/deep/b.ts\nsrc/deep/testdata/\n"},
		"from the root":    {`{"pattern":"/main.go"}`, "main.go\n"},
		"from here":        {`{"pattern":"./main.go"}`, "main.go\n"},
		"folders":          {`{"pattern":"**/testdata/"}`, "src/deep/testdata/\n"},
		"folders too":      {`{"pattern":"test*"}`, "src/deep/testdata/\n"},
		"alternatives":     {`{"pattern":"*.{go,log}"}`, "keep.log\nmain.go\n"},
		"everything":       {`{"pattern":"**"}`, "keep.log\nmain.go\nsrc/\nsrc/a.ts\nsrc/deep/\nsrc/deep/b.ts\nsrc/deep/testdata/\nsrc/deep/testdata/x\nsrc/{x}.ts\n"},
		"hidden":           {`{"pattern":".*"}`, ".env\n.github/\n.gitignore\n"},
		"a hidden path":    {`{"pattern":"*","path":".github"}`, ".github/ci.yml\n"},
		"ignored":          {`{"pattern":"*.js"}`, "[no match among 9 entries; 5 hidden or ignored ones were skipped: name them in path or pattern to search them]"},
		"an ignored path":  {`{"pattern":"*.js","path":"node_modules"}`, "node_modules/m/index.js\n"},
		"below an ignored": {`{"pattern":"*.js","path":"node_modules/m"}`, "node_modules/m/index.js\n"},
		"limit":            {`{"pattern":"**","limit":2}`, "keep.log\nmain.go\n[the first 2; there are more: use a narrower pattern or path, or a higher limit]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := call(t, s, "find", c.arguments)
			if r.Status != "ok" || r.Text != c.want {
				t.Errorf("got %s\n%s\nwant\n%s", r.Status, r.Text, c.want)
			}
		})
	}
	want(t, call(t, s, "find", `{"pattern":"[a"}`), "error", "not a glob")
	want(t, call(t, s, "find", `{"pattern":"/"}`), "error", "empty")
	want(t, call(t, s, "find", `{"pattern":"x","path":"main.go"}`), "error", "not a folder")
}

func TestLs(t *testing.T) {
	t.Parallel()
	_, s := tree(t, map[string]string{"b.txt": "12345", "a/x": "", ".hidden": "1", ".gitignore": "ignored\n", "ignored": "", ".git/HEAD": ""})
	want(t, call(t, s, "write", `{"path":"run.sh","content":"#!/bin/sh\n","executable":true}`), "ok")
	const all = `file           8 .gitignore
file           1 .hidden
dir            - a/
file           5 b.txt
file           0 ignored
exec          10 run.sh
`
	for arguments, text := range map[string]string{
		`{}`:                all,
		`{"path":"."}`:      all,
		`{"path":"./a/.."}`: all,
		`{"path":"a/"}`:     "file           0 x\n",
		`{"path":"b.txt"}`:  "file           5 b.txt\n",
		`{"limit":2}`:       "file           8 .gitignore\nfile           1 .hidden\n[2 of 6 entries; find with path and a pattern shows others]",
		`{"directory":"a"}`: "file           0 x\n",
	} {
		if r := call(t, s, "ls", arguments); r.Status != "ok" || r.Text != text {
			t.Errorf("%s: got %s\n%s\nwant\n%s", arguments, r.Status, r.Text, text)
		}
	}
	want(t, call(t, s, "write", `{"path":"a/x","delete":true}`), "ok")
	want(t, call(t, s, "ls", `{"path":"a"}`), "ok", "[the folder is empty]")
}
