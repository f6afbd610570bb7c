package tools_test

import (
	"strings"
	"testing"
)

// TestArgumentsAsModelsSendThem: where only one thing can be meant, it is done.
func TestArgumentsAsModelsSendThem(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{
		`read {"path":"a","offset":"2","limit":"1"}`,
		`read {"path":"a","offset":2.0,"limit":1e0}`,
		`read {"file_path":"a","offset":2}`,
		`read {"filePath":"a","offset":2,"limit":null}`,
		`read "{\"path\":\"a\",\"offset\":2}"`,
		`read  {"Path":"a","OFFSET":2} `,
		`grep {"pattern":"TWO","-i":true}`,
		`grep {"query":"TWO","ignore_case":"True","include":"a"}`,
		`edit {"path":"a","edits":[{"oldText":"two","newText":"new two"}]}`,
		`edit {"path":"a","edits":"[{\"oldText\":\"two\",\"newText\":\"new two\"}]"}`,
		`edit {"path":"a","edits":["{\"oldText\":\"two\",\"newText\":\"new two\"}"]}`,
		`edit {"path":"a","edits":{"oldText":"two","newText":"new two"}}`,
		`edit {"file_path":"a","old_string":"two","new_string":"new two","replace_all":false}`,
		`edit {"path":"a","edits":[{"old_str":"two","new_str":"new two"}],"moveTo":null}`,
		`write {"path":"a","contents":"new two"}`,
		`write {"path":"a","content":"new two","executable":"","delete":null}`,
		`write {"path":"a","content":"new two","delete":"false"}`,
	} {
		t.Run(arguments, func(t *testing.T) {
			t.Parallel()
			dir, s := tree(t, map[string]string{"a": "one\ntwo\n"})
			name, arguments, _ := strings.Cut(arguments, " ")
			r := call(t, s, name, arguments)
			want(t, r, "ok")
			if text := r.Text + content(t, dir, "a"); !strings.Contains(text, "2\ttwo") && !strings.Contains(text, "a:2: two") && !strings.Contains(text, "new two") {
				t.Errorf("not done: %s", r.Text)
			}
		})
	}
	_, s := tree(t, map[string]string{"5": "five\n"})
	want(t, call(t, s, "read", `{"path":5}`), "ok", "five")
	want(t, call(t, s, "ls", ``), "ok", "5")
	want(t, call(t, s, "ls", `null`), "ok", "5")
}

func TestArgumentsRefused(t *testing.T) {
	t.Parallel()
	dir, s := tree(t, map[string]string{"a": "x\n"})
	for _, c := range []struct{ tool, arguments, says string }{
		{"read", `{"path":"a"`, "cut off"},
		{"write", `{"path":"a","content":"long te`, "cut off: they end in the middle of the JSON, after 30 bytes"},
		{"read", `{"path":"a",}`, `at byte 13, between "{\"path\":\"a\"," and }`},
		{"read", `{path:"a"}`, "not JSON"},
		{"read", `path=a`, "not JSON"},
		{"read", `{"path":"a"}{"path":"b"}`, "not JSON"},
		{"read", strings.Repeat("[", 20_000), "not JSON"},
		{"read", "{\"path\":\"\xff\"}", "not UTF-8"},
		{"read", `[]`, "must be an object, not an array"},
		{"read", `"a"`, "must be an object, not a string"},
		{"read", `{}`, `lack "path". It takes path and, optionally, limit, offset.`},
		{"read", `{"path":null}`, `lack "path"`},
		{"read", `{"pathh":"a"}`, `Did you mean "path"?`},
		{"read", `{"path":"a","zzzzzzzzz":1}`, `have no zzzzzzzzz. It takes`},
		{"read", `{"path":"a","path":"b"}`, `"path" twice`},
		{"read", `{"path":"a","file":"b"}`, `"path" twice`},
		{"read", `{"path":["a"]}`, "path must be a string, not an array"},
		{"read", `{"path":true}`, "path must be a string, not a boolean"},
		{"read", `{"path":"a","offset":"x"}`, "offset must be a whole number, not a string"},
		{"read", `{"path":"a","offset":1.5}`, "offset must be a whole number, not 1.5"},
		{"read", `{"path":"a","offset":1e300}`, "offset must be a whole number"},
		{"read", `{"path":"a","offset":1e3000}`, "offset must be a whole number"},
		{"read", `{"path":"a","offset":-3}`, "count from 1"},
		{"read", `{"path":"a","offset":9}`, "has 1 line, so there is no line 9"},
		{"grep", `{"pattern":"x","context":-1}`, "context must not be negative"},
		{"grep", `{"pattern":"x","ignoreCase":1}`, "ignoreCase must be a boolean, not a number"},
		{"write", `{"path":"a"}`, `lack "content"`},
		{"write", `{"path":"a","content":{"a":1}}`, "content must be a string, not an object"},
		{"write", `{"path":"a","content":"x","delete":true}`, "exclude each other"},
		{"edit", `{"path":"a"}`, "nothing to do"},
		{"edit", `{"path":"a","edits":[]}`, "nothing to do"},
		{"edit", `{"path":"a","edits":[1]}`, "edits[0] must be an object, not a number"},
		{"edit", `{"path":"a","edits":[{"oldText":"x"}]}`, `edits[0] lack "newText"`},
		{"edit", `{"path":"a","edits":[{"oldText":"x","newText":1.5e3,"al":1}]}`, `edits[0] have no al. Did you mean "all"?`},
		{"edit", `{"path":"a","edits":[{"oldText":"x","newText":"y"}],"oldText":"x"}`, "beside it"},
		{"edit", `{"path":"a","oldText":"x"}`, `lack "newText"`},
		{"edit", `{"path":"a","edits":[` + strings.Repeat(`{"oldText":"x","newText":"y"},`, 100) + `{"oldText":"x","newText":"y"}]}`, "at most 100"},
		{"Read", `{"path":"a"}`, "The tools are read, grep, find, ls, edit and write"},
		{strings.Repeat("x", 1_000_000), `{}`, "The tools are"},
		{"", ``, "The tools are"},
		{"read", `{"` + strings.Repeat("x", 1_000_000) + `":1}`, "have no xxx"},
		{"write", `{"path":"a","content":"` + strings.Repeat("x", 21<<20) + `"}`, "smaller steps"},
		{"write", `{"path":"a","content":"` + strings.Repeat("x", 8<<20+1) + `"}`, "at most 8388608"},
	} {
		r := call(t, s, c.tool, c.arguments)
		want(t, r, "error", c.says)
		if len(r.Text) > 2000 {
			t.Errorf("the answer to %.40q has %d bytes", c.arguments, len(r.Text))
		}
	}
	if content(t, dir, "a") != "x\n" {
		t.Error("something was changed")
	}
}
