package schemas_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/git-spot/git-spot/schemas"
)

// minimal is a contract with nothing that could be left out.
const minimal = `{
	"schemaVersion": 1, "title": "t", "objective": "o", "domain": "general", "risk": "low",
	"allowedPaths": ["**"], "acceptance": [{"id": "A1", "text": "x"}],
	"verification": [{"id": "unit", "argv": ["go", "test"]}]}`

const explore = `{"schemaVersion": 1, "kind": "explore", "title": "t", "task": "x"}`

// with returns base with one key replaced, or removed if value is "". The key is a path of keys and
// indexes with "/" between them.
func with(t *testing.T, base, key, value string) []byte {
	t.Helper()
	var document any
	if err := json.Unmarshal([]byte(base), &document); err != nil {
		t.Fatal(err)
	}
	at := strings.Split(key, "/")
	if value == "" {
		document = removed(document, at[:len(at)-1], at[len(at)-1])
	} else {
		document = replaced(document, at, json.RawMessage(value))
	}
	data, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestParseContractDefaults(t *testing.T) {
	t.Parallel()
	got, err := schemas.ParseContract([]byte(strings.Replace(minimal, `"argv"`, `"cwd": "./sub/", "argv"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	want := &schemas.Contract{
		SchemaVersion: 1, Kind: schemas.KindCode, Title: "t", Objective: "o", Domain: "general", Risk: schemas.LevelLow,
		AllowedPaths: []string{"**"}, Acceptance: []schemas.Criterion{{ID: "A1", Text: "x"}},
		Verification: []schemas.Check{{
			ID: "unit", Argv: []string{"go", "test"}, Cwd: "sub", TimeoutSeconds: 600,
			Network: schemas.NetworkLoopback, Baseline: schemas.BaselineAuto,
		}},
		Limits: schemas.Limits{
			TimeoutSeconds: 3600, IdleSeconds: 900, MaxSteps: 120, MaxChangedFiles: 200,
			MaxDiffBytes: 1 << 20, MaxDeletedLines: 300,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	got, err = schemas.ParseContract(with(t, minimal, "setup", `[{"argv": ["make"], "cwd": "."}]`))
	if err != nil {
		t.Fatal(err)
	}
	setup := []schemas.Setup{{Argv: []string{"make"}, TimeoutSeconds: 600, Network: schemas.NetworkFull}}
	if diff := cmp.Diff(setup, got.Setup); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	for kind, steps := range map[string]int{"explore": 80, "review": 120, "discuss": 120} {
		got, err = schemas.ParseContract(with(t, explore, "kind", `"`+kind+`"`))
		if err != nil {
			t.Fatal(err)
		}
		if got.Limits.MaxSteps != steps {
			t.Errorf("%s: maxSteps %d, want %d", kind, got.Limits.MaxSteps, steps)
		}
	}
}

// TestParseContractKeepsWhatIsSaid: a default never replaces a value of the contract.
func TestParseContractKeepsWhatIsSaid(t *testing.T) {
	t.Parallel()
	for _, s := range samples(t) {
		if s.name != "task-contract" {
			continue
		}
		got, err := schemas.ParseContract(s.data)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := schemas.MarshalIndent(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(s.data), string(encoded)); diff != "" {
			t.Errorf("%s: -given +parsed:\n%s", s.file, diff)
		}
	}
}

func TestParseContractRefuses(t *testing.T) {
	t.Parallel()
	const glob = `want a glob relative to the top of the repository: "/" between parts, no part empty, "." or "..", no backslash, no NUL`
	tests := []struct {
		name, base, key, value string
		want                   string // a problem, or the whole text of the error if it begins with "task contract"
	}{
		{"version", minimal, "schemaVersion", `2`, "/schemaVersion: got an integer, want schema version 1"},
		{"version as a fraction", minimal, "schemaVersion", `1.0`, "/schemaVersion: got a number, want schema version 1"},
		{"version with an exponent", minimal, "schemaVersion", `1e0`, "/schemaVersion: got a number, want schema version 1"},
		{"version as a text", minimal, "schemaVersion", `"1"`, "/schemaVersion: got a string, want schema version 1"},
		{"no version", minimal, "schemaVersion", ``, "task contract: /schemaVersion: missing, want schema version 1"},
		{"no title", minimal, "title", ``, "task contract: /title: missing, want one line of at most 200 characters, not blank and without control characters"},
		{"title of two lines", minimal, "title", `"a\nb"`, "/title: got a string, want one line of at most 200 characters, not blank and without control characters"},
		{"blank title", minimal, "title", `"  "`, "/title: got a string, want one line of at most 200 characters, not blank and without control characters"},
		{"empty title", minimal, "title", `""`, "/title: got an empty string, want one line of at most 200 characters, not blank and without control characters"},
		{"long title", minimal, "title", `"` + strings.Repeat("ü", 201) + `"`, "/title: got a string, want one line of at most 200 characters, not blank and without control characters"},
		{"no objective", minimal, "objective", ``, "/objective: missing, want a text that is not blank and has no NUL"},
		{"no risk", minimal, "risk", ``, `/risk: missing, want one of "low", "medium", "high"`},
		{"other risk", minimal, "risk", `"none"`, `/risk: got a string, want one of "low", "medium", "high"`},
		{"null", minimal, "risk", `null`, `/risk: got null, want one of "low", "medium", "high"`},
		{"boolean", minimal, "title", `true`, "/title: got a boolean, want one line of at most 200 characters, not blank and without control characters"},
		{"other kind", minimal, "kind", `"cod"`, `task contract: /kind: got a string, want one of "code", "explore", "test", "review", "discuss"`},
		{"no allowed path", minimal, "allowedPaths", `[]`, "/allowedPaths: got an empty array, want an array of at least 1"},
		{"one allowed path", minimal, "allowedPaths", `"**"`, "/allowedPaths: got a string, want an array of at least 1"},
		{"no criterion", minimal, "acceptance", `[]`, "/acceptance: got an empty array, want an array of at least 1"},
		{"criterion as a text", minimal, "acceptance", `["x"]`, "/acceptance/0: got a string, want an object with id, text"},
		{"criterion id", minimal, "acceptance", `[{"id": "A=1", "text": "x"}]`, `/acceptance/0/id: got a string, want an id: at most 64 letters, digits, ".", "_" or "-" that start with a letter or digit`},
		{"criterion twice", minimal, "acceptance", `[{"id": "A", "text": "x"}, {"id": "B", "text": "x"}, {"id": "A", "text": "y"}]`, "task contract: /acceptance/2/id: same id as /acceptance/0"},
		{"check twice", minimal, "verification", `[{"id": "a", "argv": ["x"]}, {"id": "a", "argv": ["y"]}]`, "task contract: /verification/1/id: same id as /verification/0"},
		{"no check", minimal, "verification", `[]`, "/verification: got an empty array, want an array of at least 1"},
		{"shell string", minimal, "verification/0/argv", `"go test"`, "/verification/0/argv: got a string, want a command as a list of strings, program first; never a shell string"},
		{"empty argv", minimal, "verification/0/argv", `[]`, "/verification/0/argv: got an empty array, want a command as a list of strings, program first; never a shell string"},
		{"empty program", minimal, "verification/0/argv", `[""]`, "/verification/0/argv/0: got an empty string, want a program: not blank and without NUL"},
		{"NUL in an argument", minimal, "verification/0/argv", `["go", "a\u0000"]`, "/verification/0/argv/1: got a string, want an argument without NUL"},
		{"number in argv", minimal, "verification/0/argv", `["go", 1]`, "/verification/0/argv/1: got an integer, want an argument without NUL"},
		{"absolute cwd", minimal, "verification/0/cwd", `"/tmp"`, `/verification/0/cwd: got a string, want a folder relative to the top of the repository, without "..", backslash and NUL; "" or "." is the top`},
		{"cwd above", minimal, "verification/0/cwd", `"a/../.."`, `/verification/0/cwd: got a string, want a folder relative to the top of the repository, without "..", backslash and NUL; "" or "." is the top`},
		{"time limit", minimal, "verification/0/timeoutSeconds", `0`, "/verification/0/timeoutSeconds: got an integer, want whole seconds from 1 to 86400"},
		{"time limit as a fraction", minimal, "verification/0/timeoutSeconds", `60.0`, "/verification/0/timeoutSeconds: got a number, want whole seconds from 1 to 86400"},
		{"retries", minimal, "verification/0/retries", `11`, "/verification/0/retries: got an integer, want an integer from 0 to 10"},
		{"network", minimal, "verification/0/network", `"lan"`, `/verification/0/network: got a string, want one of "none", "loopback", "full"`},
		{"baseline", minimal, "verification/0/baseline", `""`, `/verification/0/baseline: got an empty string, want one of "auto", "fail", "pass", "skip"`},
		{"name in env", minimal, "verification/0/env", `{"A-B": "x"}`, `/verification/0/env/A-B: bad name, want an environment: names of letters, digits and "_" that do not start with a digit, with values that are strings without NUL`},
		{"number in env", minimal, "verification/0/env", `{"A": 1}`, "/verification/0/env/A: got an integer, want an argument without NUL"},
		{"limits", minimal, "limits", `[]`, "/limits: got an empty array, want an object"},
		{"no deletions", minimal, "limits", `{"maxDeletedLines": 0}`, "/limits/maxDeletedLines: got an integer, want an integer from 1 to 10000000"},
		{"nothing to spend", minimal, "limits", `{"maxCostUSD": 0}`, "/limits/maxCostUSD: got an integer, want a number above 0, at most 1000000"},
		{"unknown limit", minimal, "limits", `{"timeoutSecond": 1}`, `task contract: /limits/timeoutSecond: unknown key, did you mean "timeoutSeconds"?`},
		{"unknown key", minimal, "lockedPath", `[]`, `task contract: /lockedPath: unknown key, did you mean "lockedPaths"?`},
		{"key in another case", minimal, "Title", `"x"`, `task contract: /Title: unknown key, did you mean "title"?`},
		{"key like no other", minimal, "zzzzzzzz", `1`, `task contract: /zzzzzzzz: unknown key`},
		{"key of another tool", minimal, "acceptanceCriteria", `[]`, `task contract: /acceptanceCriteria: unknown key, did you mean "acceptance"?`},
		{"strange key", minimal, "a\x1b[31m~b", `1`, `task contract: /a\x1b[31m~0b: unknown key`},
		{"long key", minimal, strings.Repeat("k", 1000), `1`, `task contract: /` + strings.Repeat("k", 63) + `…: unknown key`},
		{"id", minimal, "id", `"a..b"`, `/id: got a string, want a run id: at most 64 of a-z 0-9 . _ - that start with a letter or digit, without ".." and not ending in "." or ".lock"`},
		{"capability", minimal, "capabilities", `["shell"]`, `/capabilities/0: got a string, want one of "tool-use", "vision-input", "image-output", "long-context"`},
		{"bad glob", minimal, "allowedPaths", `["ok", "src/[a-"]`, "/allowedPaths/1: got a string, " + glob},
		{"open brace", minimal, "lockedPaths", `["src/{a,b"]`, "/lockedPaths/0: got a string, " + glob},
		{"unlocked path above", minimal, "unlock", `["../x"]`, `/unlock/0: got a string, want a path relative to the top of the repository: "/" between parts, no part empty, "." or "..", no backslash, no NUL`},
		{"task of kind code", minimal, "task", `"x"`, "task contract: /task: got a string, want no such key in a contract of kind code"},
		{"no task", explore, "task", ``, "task contract: /task: missing, want a text that is not blank and has no NUL"},
		{"paths of kind explore", explore, "allowedPaths", `["**"]`, "task contract: /allowedPaths: got an array, want no such key in a contract of a kind other than code"},
		{"argv of kind explore", explore, "argv", `["x"]`, "task contract: /argv: got an array, want no such key in a contract of a kind other than test"},
		{"no argv of kind test", explore, "kind", `"test"`, "task contract: /argv: missing, want a command as a list of strings, program first; never a shell string"},
		{"integer too large", minimal, "limits", `{"maxTokens": 9223372036854775808}`, "task contract: /limits/maxTokens: integer out of range"},
		{"number too large", minimal, "limits", `{"maxCostUSD": 1e999}`, "task contract: /limits/maxCostUSD: number out of range"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			refused(t, with(t, test.base, test.key, test.value), test.want)
		})
	}
}

func refused(t *testing.T, data []byte, want string) {
	t.Helper()
	c, err := schemas.ParseContract(data)
	if c != nil {
		t.Error("an error and a contract")
	}
	invalid, ok := errors.AsType[*schemas.ContractError](err)
	if !ok {
		t.Fatalf("got %v, want a ContractError", err)
	}
	if invalid.Code() != schemas.CodeContractInvalid {
		t.Errorf("code %s", invalid.Code())
	}
	if whole := strings.HasPrefix(want, "task contract"); whole && err.Error() == want {
		return
	} else if !whole {
		for _, p := range invalid.Problems {
			if p.String() == want {
				return
			}
		}
	}
	t.Errorf("got  %v\nwant %s", err, want)
}

// TestParseContractRefusesBytes: what is wrong with the bytes is said before anything else.
func TestParseContractRefusesBytes(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := []struct{ name, data, want string }{
		{"nothing", "", "task contract: empty, want a JSON object"},
		{"blanks", " \n\t", "task contract: empty, want a JSON object"},
		{"byte-order mark", "\ufeff" + minimal, "task contract: begins with a byte-order mark, want plain UTF-8"},
		{"invalid UTF-8", "{\n  \"title\": \"ü\xff\"}", "task contract: invalid UTF-8 at line 2, column 14"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "task contract: invalid UTF-8 at line 1, column 1"},
		{"too large", minimal + strings.Repeat(" ", 1<<20), fmt.Sprintf("task contract: got %d bytes, want at most 1048576", len(minimal)+1<<20)},
		{"trailing comma", "{\n\t\"title\": \"t\",\n}", "task contract: not JSON at line 3, column 1: invalid character '}' looking for beginning of object key string"},
		{"trailing document", minimal + "{}", "task contract: not JSON at line 4, column 59: invalid character '{' after top-level value"},
		{"cut", `{"title": "t"`, "task contract: not JSON at line 1, column 13: unexpected end of JSON input"},
		{"comment", "// contract\n{}", "task contract: not JSON at line 1, column 1: invalid character '/' looking for beginning of value"},
		{"NaN", `{"limits": {"maxCostUSD": NaN}}`, "task contract: not JSON at line 1, column 27: invalid character 'N' looking for beginning of value"},
		{"fenced", "```json\n" + minimal + "\n```", "task contract: not JSON at line 1, column 1: invalid character '`' looking for beginning of value"},
		{"key twice", `{"title": "a", "title": "a"}`, "task contract: /title: key given twice"},
		{"key twice inside", `{"verification": [{"argv": [1], "\u0061rgv": []}]}`, "task contract: /verification/0/argv: key given twice"},
		{"too deep", `{"title": ` + deep(64) + `}`, "task contract: nested more than 64 deep"},
		{"far too deep", `{"title": ` + deep(100000) + `}`, "task contract: not JSON at line 1, column 10010: invalid character '[' exceeded max depth"},
		{"array", `[]`, "task contract: got an empty array, want an object with schemaVersion, title"},
		{"null", `null`, "task contract: got null, want an object with schemaVersion, title"},
		{"text", `"x"`, "task contract: got a string, want an object with schemaVersion, title"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			refused(t, []byte(test.data), test.want)
		})
	}
	// As deep as can be, the shape is at fault and not the depth.
	_, err := schemas.ParseContract([]byte(`{"title": ` + deep(63) + `}`))
	if err == nil || strings.Contains(err.Error(), "deep") {
		t.Errorf("63 arrays in an object: %v", err)
	}
}

func TestContractPaths(t *testing.T) {
	t.Parallel()
	tests := []struct {
		path string
		ok   bool
	}{
		{"src/**", true},
		{"**", true},
		{".github/workflows/*.yml", true},
		{"a b/ü/[abc]?.{go,mod}", true},
		{"...", true},
		{"a..b/..c", true},
		{"", false},
		{"/etc/passwd", false},
		{"..", false},
		{"../x", false},
		{"a/../b", false},
		{"a/..", false},
		{".", false},
		{"./a", false},
		{"a/./b", false},
		{"a//b", false},
		{"src/", false},
		{`a\b`, false},
		{`..\x`, false},
		{"a\x00b", false},
	}
	for _, test := range tests {
		quoted, err := json.Marshal([]string{test.path})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"allowedPaths", "forbiddenPaths", "lockedPaths", "unlock", "context", "reuse"} {
			_, err := schemas.ParseContract(with(t, minimal, key, string(quoted)))
			if (err == nil) != test.ok {
				t.Errorf("%s %q: %v, want ok %v", key, test.path, err, test.ok)
			}
		}
		if _, err := schemas.ParseContract(with(t, explore, "scope", string(quoted))); (err == nil) != test.ok {
			t.Errorf("scope %q: %v, want ok %v", test.path, err, test.ok)
		}
	}
}

func TestRunIDs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		id string
		ok bool
	}{
		{"a", true},
		{"0", true},
		{"20260131-fix-parser-x7k2q9", true},
		{"a.b_c-d", true},
		{"a.lock.b", true},
		{"alock", true},
		{strings.Repeat("a", 64), true},
		{strings.Repeat("a", 65), false},
		{"", false},
		{"A", false},
		{"-a", false},
		{".a", false},
		{"_a", false},
		{"a.", false},
		{"a..b", false},
		{"a.lock", false},
		{"a/b", false},
		{"a b", false},
		{"a\n", false},
		{"ä", false},
	}
	for _, test := range tests {
		quoted, err := json.Marshal(test.id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := schemas.ParseContract(with(t, minimal, "id", string(quoted))); (err == nil) != test.ok {
			t.Errorf("%q: %v, want ok %v", test.id, err, test.ok)
		}
	}
}

// TestProblemsInOrder: by pointer, where 2 is before 10, and only the first few are in the text.
func TestProblemsInOrder(t *testing.T) {
	t.Parallel()
	paths := `["a","a","/2","a","a","a","a","a","a","a","/10"]`
	_, err := schemas.ParseContract(with(t, minimal, "allowedPaths", paths))
	invalid, ok := errors.AsType[*schemas.ContractError](err)
	if !ok || len(invalid.Problems) != 2 || invalid.Problems[0].Pointer != "/allowedPaths/2" || invalid.Problems[1].Pointer != "/allowedPaths/10" {
		t.Errorf("got %v", err)
	}
	_, err = schemas.ParseContract([]byte(`{}`))
	invalid, ok = errors.AsType[*schemas.ContractError](err)
	if !ok || len(invalid.Problems) != 8 {
		t.Fatalf("got %v", err)
	}
	if text := err.Error(); strings.Count(text, "missing") != 5 || !strings.HasSuffix(text, "; and 3 more") {
		t.Errorf("got %s", text)
	}
}

func TestParseReview(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("0a", 32)
	review := `{"schemaVersion": 1, "verdict": "revise", "diffSha256": "` + hash + `", "findings": [{"severity": "P1", "summary": "x"}]}`
	got, err := schemas.ParseReview([]byte(review))
	if err != nil {
		t.Fatal(err)
	}
	want := &schemas.Review{
		SchemaVersion: 1, Verdict: schemas.ReviewRevise, DiffSHA256: hash,
		Findings: []schemas.Finding{{Severity: schemas.P1, Summary: "x"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	tests := []struct{ key, value, want string }{
		{"verdict", `"lgtm"`, `review result: /verdict: got a string, want one of "approve", "revise"`},
		{"diffSha256", `"` + strings.ToUpper(hash) + `"`, "review result: /diffSha256: got a string, want a SHA-256 of 64 lower-case hexadecimal digits"},
		{"findings/0/severity", `"p1"`, `review result: /findings/0/severity: got a string, want one of "P0", "P1", "P2", "P3"`},
		{"findings/0/line", `0`, "review result: /findings/0/line: got an integer, want a number from 1 on"},
		{"findings/0/path", `"/etc/passwd"`, `review result: /findings/0/path: got a string, want a path relative to the top of the repository, without ".." and NUL`},
		{"findings/0/message", `"x"`, "review result: /findings/0/message: unknown key"},
		{"findings/0/summary", `" "`, "review result: /findings/0/summary: got a string, want a text that is not blank and has no NUL"},
		{"evidence", `[{"criterion": "A1"}]`, "review result: /evidence/0/text: missing, want a text that is not blank and has no NUL"},
		{"approved", `true`, "review result: /approved: unknown key"},
	}
	for _, test := range tests {
		r, err := schemas.ParseReview(with(t, review, test.key, test.value))
		invalid, ok := errors.AsType[*schemas.DocumentError](err)
		if r != nil || !ok || invalid.Code() != schemas.CodeReviewInvalid || err.Error() != test.want {
			t.Errorf("%s\ngot  %v\nwant %s", test.key, err, test.want)
		}
	}
	twice := strings.Replace(review, `"verdict": "revise"`, `"verdict": "revise", "verdict": "approve"`, 1)
	if _, err := schemas.ParseReview([]byte(twice)); err == nil || err.Error() != "review result: /verdict: key given twice" {
		t.Errorf("two verdicts: %v", err)
	}
}

func TestParseState(t *testing.T) {
	t.Parallel()
	for _, s := range samples(t) {
		if s.name != "run-state" {
			continue
		}
		state, err := schemas.ParseState(s.data)
		if err != nil {
			t.Fatal(err)
		}
		if state.State != schemas.StateBlocked || state.Owner.PID != 4711 || state.Base.Branch != "refs/heads/main" {
			t.Errorf("got %+v", state)
		}
		for key, value := range map[string]string{
			"state": `"asleep"`, "candidate": `"abc"`, "createdAt": `"2026-01-31 12:00"`, "attempt": `-1`, "slot": `17`,
			"caller": `"me"`, "owner/pid": `0`, "base/branch": `"main"`, "blocked/cause": `"weather"`, "code": `"lock held"`,
			"future": `1`, "sourceDirty": `null`, "diff/files": `1.5`,
		} {
			state, err := schemas.ParseState(with(t, string(s.data), key, value))
			invalid, ok := errors.AsType[*schemas.DocumentError](err)
			if state != nil || !ok || invalid.Code() != schemas.CodeLedgerCorrupt || len(invalid.Problems) != 1 || invalid.Problems[0].Pointer != "/"+key {
				t.Errorf("%s: got %v", key, err)
			}
		}
	}
}

// TestStateMayBeLong: a checkout with very many changed paths is no corrupt ledger.
func TestStateMayBeLong(t *testing.T) {
	t.Parallel()
	for _, s := range samples(t) {
		if s.name != "run-state" {
			continue
		}
		var paths []string
		for i := range 60000 {
			paths = append(paths, fmt.Sprintf("some/folder/of/the/tree/file-%d", i))
		}
		list, err := json.Marshal(paths)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := schemas.ParseState(with(t, string(s.data), "sourceDirty", string(list))); err != nil {
			t.Error(err)
		}
	}
}

// same compares what survives encoding: an empty list and none are one, and so are equal times.
var same = cmp.Options{cmpopts.EquateEmpty()}
