package verify_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
)

func TestNamedScripts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		argv string // words separated by " | "
		cwd  string
		want string // separated by blanks
	}{
		{"sh | tests/check.sh", "", "tests/check.sh"},
		{"sh | -eu | ./tests/check.sh | src/a", "", "tests/check.sh"},
		{"bash | -o | pipefail | check.sh", "tests", "tests/check.sh"},
		{"bash | ../check.sh", "tests", "check.sh"},
		{"bash | ../../check.sh", "tests", ""},
		{"/bin/bash | check.sh", "", "check.sh"},
		{"./run.sh | src/a.txt", "", "run.sh"},
		{"tools/run", "a", "a/tools/run"},
		{"sh | -c | ./run.sh && grep -q x src/a.txt", "", "run.sh"},
		{"sh | -ec | cd tests; sh check.sh | tee log", "", "tests/check.sh"},
		{"sh | -c | . ./lib.sh; FOO=1 python3 'a b.py' \"$X\"", "", "a b.py lib.sh"},
		{"sh | -c | if test -f src/a; then bash x.sh; fi", "", "x.sh"},
		{"sh | -c | exec timeout 5 ./a.sh >out 2>&1", "", "a.sh"},
		{"sh | -c | 'unclosed", "", ""},
		{"sh | -c", "", ""},
		{"sh", "", ""},

		{"grep | -q | x | src/a.txt", "", ""},
		{"test | -f | src/a.txt", "", ""},
		{"cat | src/a.txt", "", ""},
		{"go | test | ./...", "", "..."},
		{"go | vet | main.go", "", ""},
		{"gofmt | -l | main.go", "", ""},
		{"go | run | ./check/main.go", "", "check/main.go"},

		{"python3 | tests/t.py | src/a.py", "", "tests/t.py"},
		{"python3.12 | -W | error | t.py", "", "t.py"},
		{"python3 | -c | import a", "", ""},
		{"python3 | -m | pytest | -k | a.py | tests/test_a.py::test_x", "", "tests/test_a.py tests/test_a.py::test_x"},
		{"python | -m | unittest | tests/test_a.py", "", "tests/test_a.py"},
		{"pytest | -c | ci.ini | tests/a.py", "", "ci.ini tests/a.py"},
		{"node | --test | test/a.js | test/b.js", "", "test/a.js test/b.js"},
		{"node | -r | ./setup.js | a.js | b.js", "", "a.js setup.js"},
		{"node | -e | 1 | a.js", "", ""},
		{"node | --import=./hook.mjs | a.js", "", "a.js hook.mjs"},
		{"npx | vitest | run | --config | ci.ts | src/a.test.ts", "", "ci.ts run src/a.test.ts"},
		{"npm | test", "", ""},
		{"npm | run | check.js", "", ""},
		{"npm | exec | -- | jest | a.test.js", "", "a.test.js"},
		{"bundle | exec | rspec | spec/a_spec.rb:12", "", "spec/a_spec.rb spec/a_spec.rb:12"},
		{"uv | run | --with | x | python | t.py", "", "t.py"},
		{"env | -u | X | A=1 | sh | check.sh", "", "check.sh"},
		{"timeout | -k | 5 | 60s | ./check", "", "check"},
		{"env | timeout | 9 | nice | -n | 3 | bash | x.sh", "", "x.sh"},
		{"make | -f | ci/x.make | src/a", "", "ci/x.make"},
		{"awk | -f | check.awk | src/a", "", "check.awk"},
		{"cmake | -P | check.cmake", "", "check.cmake"},
		{"eslint | --config | ci.js | src/a.js", "", "ci.js"},
		{"bats | test/a.bats", "", "test/a.bats"},
		{"sh | /etc/x.sh", "", ""},
		{"", "", ""},
	}
	for _, tt := range tests {
		var argv []string
		if tt.argv != "" {
			argv = strings.Split(tt.argv, " | ")
		}
		if tt.argv == "sh | -ec | cd tests; sh check.sh | tee log" {
			argv = []string{"sh", "-ec", "cd tests; sh check.sh | tee log"}
		}
		got := strings.Join(verify.NamedScripts(argv, tt.cwd), " ")
		if got != tt.want {
			t.Errorf("%q in %q: got %q, want %q", argv, tt.cwd, got, tt.want)
		}
	}
	// Shells in shells end.
	argv := []string{"x.sh"}
	for range 100 {
		argv = append([]string{"env"}, argv...)
	}
	if got := verify.NamedScripts(argv, ""); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestVerificationScripts(t *testing.T) {
	t.Parallel()
	base := tree{
		"tests/check.sh": "exit 1\n", "tests/lib.sh": "\n", "run.sh": program("#!/bin/sh\n"), "scripts": link("tools"), "tools/a.sh": "x\n", "entry.sh": link("tools/b.sh"),
		"tools/b.sh": "x\n", "setup.sh": "x\n", "src/a.txt": "x\n", "tests/dir/x": "x\n",
	}
	contract := schemas.Contract{
		AllowedPaths: []string{"**"},
		Setup:        []schemas.Setup{{Argv: []string{"sh", "setup.sh"}}},
		Verification: []schemas.Check{
			{Argv: []string{"sh", "check.sh"}, Cwd: "tests"},
			{Argv: []string{"./run.sh"}},
			{Argv: []string{"sh", "-c", "scripts/a.sh && ./entry.sh && sh new.sh"}},
			{Argv: []string{"grep", "-q", "y", "src/a.txt"}},
			{Argv: []string{"pytest", "tests/dir"}},
		},
	}
	tests := []struct {
		name   string
		change tree
		want   []string
	}{
		{"the work itself", tree{"src/a.txt": "y\n", "tests/lib.sh": "y\n", "tests/dir/x": "y\n"}, nil},
		{"changed", tree{"tests/check.sh": "exit 0\n"}, []string{"tests/check.sh"}},
		{"deleted", tree{"run.sh": "-"}, []string{"run.sh"}},
		{"not executable any more", tree{"run.sh": "#!/bin/sh\n"}, []string{"run.sh"}},
		{"became a link", tree{"run.sh": link("src/a.txt")}, []string{"run.sh"}},
		{"shadow in another case", tree{"Tests/Check.sh": "exit 0\n"}, []string{"Tests/Check.sh"}},
		{"behind a linked folder", tree{"tools/a.sh": "y\n"}, []string{"tools/a.sh"}},
		{"the linked folder", tree{"scripts": link("src")}, []string{"scripts"}},
		{"behind a link", tree{"tools/b.sh": "y\n"}, []string{"tools/b.sh"}},
		{"the link", tree{"entry.sh": "y\n"}, []string{"entry.sh"}},
		{"of set-up", tree{"setup.sh": "y\n"}, []string{"setup.sh"}},
		{"not there on base", tree{"new.sh": "y\n"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, base, base.with(tt.change))
			c := contract
			s.Contract = &c
			got := row(t, s, schemas.CodeVerificationScriptChanged)
			if diff := cmp.Diff(tt.want, got.Paths); diff != "" || got.OK != (tt.want == nil) {
				t.Errorf("%+v %s", got, diff)
			}
			c.Unlock = tt.want
			if got := row(t, s, schemas.CodeVerificationScriptChanged); !got.OK && tt.name != "shadow in another case" {
				t.Errorf("unlocked: %+v", got)
			}
		})
	}
}

func FuzzNamedScripts(f *testing.F) {
	f.Add("sh\x00-c\x00a && 'b' | \"c\\\"\" `d` (e) <f", "x")
	f.Add("env\x00-u\x00A\x00timeout\x005\x00python3\x00-m\x00pytest\x00a::b", "")
	f.Fuzz(func(t *testing.T, argv, cwd string) {
		if strings.HasPrefix(cwd, "/") || strings.Contains(cwd, "..") {
			t.Skip("the schema refuses it")
		}
		for _, p := range verify.NamedScripts(strings.Split(argv, "\x00"), cwd) {
			if p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/") {
				t.Errorf("%q leads out", p)
			}
		}
	})
}
