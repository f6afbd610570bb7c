package schemas_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/git-spot/git-spot/schemas"
)

// fuzz holds a decoder to three rules: nothing is returned with an error, what is returned encodes to a
// document that decodes to the same value, and nothing panics.
func fuzz[T any](f *testing.F, name string, parse func([]byte) (*T, error)) {
	f.Helper()
	for _, s := range samples(f) {
		f.Add(s.data)
	}
	if code, err := schemas.Template(schemas.KindCode); err == nil {
		f.Add(code)
	}
	for _, seed := range []string{
		"", "null", "{}", "[]", minimal, explore, minimal + minimal, "\ufeff{}", `{"a":1,"a":2}`, `{"title":"\ud800"}`,
		`{"schemaVersion":1.0}`, `{"schemaVersion":-0}`, `{"limits":{"maxCostUSD":1e-400}}`, `{"limits":{"maxTokens":1e400}}`,
		`{"":{"/":{"~":[[[]]]}}}`, `{"TITLE":"x","title":"y"}`, "{\"\u017fchemaVersion\":1}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parse(data)
		if err != nil {
			if v != nil {
				t.Fatal("an error and a value")
			}
			if len(err.Error()) > 1<<14 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		encoded, err := schemas.MarshalIndent(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := schemas.Validate(name, encoded); err != nil {
			t.Fatal(err)
		}
		again, err := parse(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v, again, same); diff != "" {
			t.Errorf("-first +second:\n%s", diff)
		}
	})
}

func FuzzParseContract(f *testing.F) { fuzz(f, "task-contract", schemas.ParseContract) }

func FuzzParseReview(f *testing.F) { fuzz(f, "review-result", schemas.ParseReview) }

func FuzzParseState(f *testing.F) { fuzz(f, "run-state", schemas.ParseState) }
