package verify_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
)

func TestManifest(t *testing.T) {
	t.Parallel()
	const base = `{"name":"x","scripts":{"test":"jest","build":"tsc"},"jest":{"bail":1},"dependencies":{"a":"1"}}`
	tests := []struct {
		name      string
		base      string // "" is absent
		candidate string
		red       bool
	}{
		{"dependency", base, `{"name":"x","scripts":{"test":"jest","build":"tsc"},"jest":{"bail":1},"dependencies":{"a":"2","b":"1"},"devDependencies":{}}`, false},
		{"order and layout", base, "{\n \"jest\" : {\"bail\":1.0e0},\"scripts\":{\"build\":\"tsc\",\"test\":\"je\\u0073t\"},\"name\":\"y\"}", false},
		{"script", base, strings.Replace(base, `"jest","build"`, `"true","build"`, 1), true},
		{"script added", base, strings.Replace(base, `"build"`, `"pretest":"x","build"`, 1), true},
		{"scripts gone", base, `{"name":"x","jest":{"bail":1}}`, true},
		{"scripts null", base, `{"name":"x","scripts":null,"jest":{"bail":1}}`, true},
		{"runner configuration", base, strings.Replace(base, `"bail":1`, `"bail":0`, 1), true},
		{"runner configuration added", base, strings.Replace(base, `"name"`, `"c8":{},"name"`, 1), true},
		{"compiler of the tests", base, strings.Replace(base, `"name"`, `"babel":{"plugins":["./x"]},"name"`, 1), true},
		{"number became text", base, strings.Replace(base, `"bail":1`, `"bail":"1"`, 1), true},
		{"escaped key", base, strings.Replace(base, `"name":"x"`, `"voc":{},"\u006docha":{}`, 1), true},
		{"key twice", base, strings.Replace(base, `"name":"x"`, `"name":"x","scripts":{"test":"true"}`, 1), true},
		{"script twice", base, strings.Replace(base, `"build"`, `"test":"true","build"`, 1), true},
		{"key twice, escaped", base, strings.Replace(base, `"name":"x"`, `"\u0073cripts":{"test":"jest","build":"tsc"}`, 1), true},
		{"other key twice", base, strings.Replace(base, `"a":"1"`, `"a":"1","a":"2"`, 1), true},
		{"other case", base, strings.Replace(base, `"name":"x"`, `"Scripts":{}`, 1), true},
		{"other case, not ASCII", base, strings.Replace(base, `"name":"x"`, `"ſcripts":{}`, 1), true},
		{"byte-order mark", base, "\xef\xbb\xbf" + base, true},
		{"comment", base, "// x\n" + base, true},
		{"trailing comma", base, strings.Replace(base, `"1"}}`, `"1"},}`, 1), true},
		{"something follows", base, base + "{}", true},
		{"empty", base, "", true},
		{"no object", base, `[]`, true},
		{"UTF-16", base, "{\x00}\x00", true},
		{"not UTF-8", base, strings.Replace(base, `"x"`, "\"\xff\"", 1), true},
		{"too deep", base, strings.Replace(base, `"x"`, strings.Repeat("[", 100)+strings.Repeat("]", 100), 1), true},
		{"much too deep", base, strings.Replace(base, `"x"`, strings.Repeat("[", 1_000_000), 1), true},
		{"a link", base, link("other.json"), true},
		{"executable", base, program(base), false},
		{"base cannot be read", "{", base, true},
		{"base was a link", link("other.json"), base, true},

		{"added without anything to run", "", `{"name":"y","version":"1"}`, false},
		{"added with scripts", "", `{"scripts":{}}`, true},
		{"added with workspaces", "", `{"workspaces":["a"]}`, true},
		{"added and cannot be read", "", `{`, true},
		{"deleted", base, "-", true},
		{"deleted without anything to run", `{"name":"y"}`, "-", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{"package.json", "packages/a/package.json"} {
				before, after := tree{"a": "1"}, tree{"a": "2"}
				if tt.base != "" {
					before[path] = tt.base
				}
				if tt.candidate != "-" {
					after[path] = tt.candidate
				}
				s := newSubject(t, before, after)
				got := row(t, s, schemas.CodeVerificationScriptChanged)
				if got.OK == tt.red {
					t.Errorf("%s: got %+v", path, got)
				}
				if tt.red && (len(got.Paths) != 1 || got.Paths[0] != path) {
					t.Errorf("%s: paths %q", path, got.Paths)
				}
				s.Contract.Unlock = []string{path}
				if got := row(t, s, schemas.CodeVerificationScriptChanged); !got.OK {
					t.Errorf("unlocked: got %+v", got)
				}
			}
		})
	}
}

func TestManifestUnderAnotherName(t *testing.T) {
	t.Parallel()
	base := tree{"package.json": `{}`, "old/Package.JSON": "{}"}
	for path, red := range map[string]bool{
		"Package.json": true, "sub/PACKAGE.JSON": true, "pac\u212aage.json": true,
		"package.json5": false, "my-package.json": false,
	} {
		s := newSubject(t, base, base.with(tree{path: `{}`}))
		if got := row(t, s, schemas.CodeVerificationScriptChanged); got.OK == red {
			t.Errorf("%q: got %+v", path, got)
		}
	}
	s := newSubject(t, base, base.with(tree{"old/Package.JSON": "-"}))
	if got := row(t, s, schemas.CodeVerificationScriptChanged); !got.OK {
		t.Errorf("taking it away: got %+v", got)
	}
}

// What is accepted is read as encoding/json reads it, which takes the last of two keys: so there were
// none.
func FuzzExecutionKeys(f *testing.F) {
	for _, s := range []string{
		`{"scripts":{"test":"x"}}`, `{"scripts":1,"scripts":2}`, `{"SCRIPTS":1}`, "\xef\xbb\xbf{}", `{"a":[{},[1e999,-0.0]]}`, `{"jest":{"a":1,"a":2}}`, `{} {}`, `{"\ud800":1}`, "{//\n}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := verify.ExecutionKeys(data)
		if err != nil {
			if keys != nil {
				t.Fatal("something beside the error")
			}
			return
		}
		var want map[string]any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("accepted what is not JSON: %v", err)
		}
		for key, got := range keys {
			if _, ok := want[key]; !ok {
				t.Fatalf("%q is not there", key)
			}
			// Numbers are compared in another form; without any the values must be the same.
			if encoded, _ := json.Marshal(want[key]); !bytes.ContainsAny(encoded, "0123456789") && !reflect.DeepEqual(got, want[key]) {
				t.Fatalf("%q: got %v, want %v", key, got, want[key])
			}
		}
		again, err := verify.ExecutionKeys(data)
		if err != nil || !reflect.DeepEqual(keys, again) {
			t.Fatalf("twice: %v, %v, %v", keys, again, err)
		}
	})
}
