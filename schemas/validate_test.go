package schemas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/git-spot/git-spot/schemas"
)

// sample is a document of testdata/documents; its file is NAME.json or NAME.VARIANT.json.
type sample struct {
	file, name string
	data       []byte
}

func samples(tb testing.TB) []sample {
	tb.Helper()
	paths, err := filepath.Glob("testdata/documents/*.json")
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no samples: %v", err)
	}
	var all []sample
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		all = append(all, sample{file: path, name: name, data: data})
	}
	return all
}

// TestSamplesRoundTrip: every sample is valid, and decoding and encoding it gives the same bytes.
func TestSamplesRoundTrip(t *testing.T) {
	t.Parallel()
	for _, s := range samples(t) {
		t.Run(filepath.Base(s.file), func(t *testing.T) {
			t.Parallel()
			if err := schemas.Validate(s.name, s.data); err != nil {
				t.Fatal(err)
			}
			v := reflect.New(types[s.name])
			if err := json.Unmarshal(s.data, v.Interface()); err != nil {
				t.Fatal(err)
			}
			got, err := schemas.MarshalIndent(v.Interface())
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(s.file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(s.data), string(got)); diff != "" {
				t.Errorf("-sample +encoded:\n%s", diff)
			}
		})
	}
}

// TestSamplesAreComplete: the samples of a schema have each of its keys, so that the tests here see it.
func TestSamplesAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]map[string]bool{}
	for _, s := range samples(t) {
		if seen[s.name] == nil {
			seen[s.name] = map[string]bool{}
		}
		walk(decoded(t, s.data), nil, func(at []string, _ any) {
			seen[s.name][general(at)] = true
		})
	}
	for _, name := range schemas.Names() {
		root := parsed(t, name)
		a := agreement{root: root}
		var check func(at []string, schema map[string]any)
		check = func(at []string, schema map[string]any) {
			schema = a.resolve(schema)
			if items, ok := schema["items"].(map[string]any); ok {
				check(append(at, "0"), items)
			}
			properties, _ := schema["properties"].(map[string]any)
			for key, property := range properties {
				here := append(slices.Clone(at), key)
				if !seen[name][general(here)] {
					t.Errorf("no sample of %s has %s", name, general(here))
				}
				check(here, property.(map[string]any))
			}
		}
		check(nil, root)
	}
}

// TestMutatedSamples spoils every value of every sample in turn: the error names the very place, and
// does not repeat the value.
func TestMutatedSamples(t *testing.T) {
	t.Parallel()
	const secret = "sk-0123456789"
	for _, s := range samples(t) {
		t.Run(filepath.Base(s.file), func(t *testing.T) {
			t.Parallel()
			a := agreement{root: parsed(t, s.name)}
			refused := func(what string, document any, pointer, message string) {
				t.Helper()
				data, err := json.Marshal(document)
				if err != nil {
					t.Fatal(err)
				}
				err = schemas.Validate(s.name, data)
				invalid, ok := errors.AsType[*schemas.DocumentError](err)
				if !ok {
					t.Errorf("%s at %q: got %v, want a DocumentError", what, pointer, err)
					return
				}
				if !slices.ContainsFunc(invalid.Problems, func(p schemas.Problem) bool {
					return p.Pointer == pointer && strings.Contains(p.Message, message)
				}) {
					t.Errorf("%s: got %v, want %q at %q", what, invalid.Problems, message, pointer)
				}
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%s at %q: the error repeats the value: %v", what, pointer, err)
				}
			}
			walk(decoded(t, s.data), nil, func(at []string, value any) {
				schema := a.find(at)
				pointer := ""
				for _, step := range at {
					pointer += "/" + step
				}
				// An array is never right where a sample has none.
				wrong := any([]any{secret})
				if _, array := value.([]any); array {
					wrong = map[string]any{secret: secret}
				}
				refused("wrong kind", replaced(decoded(t, s.data), at, wrong), pointer, "got a")
				object, ok := value.(map[string]any)
				if !ok || schema["additionalProperties"] != false || schema["patternProperties"] != nil {
					return
				}
				spoilt := replaced(decoded(t, s.data), append(slices.Clone(at), "zzzzzzzz"), secret)
				refused("unknown key", spoilt, pointer+"/zzzzzzzz", "unknown key")
				for key := range object {
					typo := replaced(decoded(t, s.data), append(slices.Clone(at), strings.ToUpper(key)), secret)
					refused("key in another case", typo, pointer+"/"+strings.ToUpper(key), fmt.Sprintf("did you mean %q?", key))
				}
				required, _ := schema["required"].([]any)
				for _, key := range required {
					refused("without a required key", removed(decoded(t, s.data), at, key.(string)), pointer+"/"+key.(string), "missing")
				}
			})
		})
	}
}

func TestValidateUnknownSchema(t *testing.T) {
	t.Parallel()
	err := schemas.Validate("task-contrakt", []byte("{}"))
	unknown, ok := errors.AsType[*schemas.UnknownSchemaError](err)
	if !ok || unknown.Nearest != "task-contract" || unknown.Code() != schemas.CodeUsage {
		t.Errorf("got %#v", err)
	}
	if _, err := schemas.Schema(""); err == nil {
		t.Error("Schema of no name: no error")
	}
}

// TestSchemaIsACopy: a caller who writes into the bytes spoils nothing.
func TestSchemaIsACopy(t *testing.T) {
	t.Parallel()
	first, err := schemas.Schema("error")
	if err != nil {
		t.Fatal(err)
	}
	clear(first)
	if second, _ := schemas.Schema("error"); !bytes.HasPrefix(second, []byte("{")) {
		t.Error("the second call sees what was written into the first")
	}
}

func TestValidateConcurrently(t *testing.T) {
	t.Parallel()
	all := samples(t)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for _, s := range all {
				if err := schemas.Validate(s.name, s.data); err != nil {
					t.Errorf("%s: %v", s.file, err)
				}
			}
		})
	}
	wait.Wait()
}

// find returns the schema of the value at a place.
func (a *agreement) find(at []string) map[string]any {
	schema := a.root
	for _, step := range at {
		schema = a.resolve(schema)
		if properties, ok := schema["properties"].(map[string]any); ok {
			schema, _ = properties[step].(map[string]any)
			continue
		}
		schema, _ = schema["items"].(map[string]any)
	}
	return a.resolve(schema)
}

func decoded(tb testing.TB, data []byte) any {
	tb.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		tb.Fatal(err)
	}
	return v
}

// walk calls visit for value and for every value in it.
func walk(value any, at []string, visit func(at []string, value any)) {
	visit(at, value)
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			walk(inner, append(slices.Clone(at), key), visit)
		}
	case []any:
		for i, inner := range v {
			walk(inner, append(slices.Clone(at), strconv.Itoa(i)), visit)
		}
	}
}

// general is a place without array indexes.
func general(at []string) string {
	var steps []string
	for _, step := range at {
		if _, err := strconv.Atoi(step); err == nil {
			step = "0"
		}
		steps = append(steps, step)
	}
	return strings.Join(steps, "/")
}

// replaced returns document with another value at a place. It may change document.
func replaced(document any, at []string, value any) any {
	if len(at) == 0 {
		return value
	}
	switch v := document.(type) {
	case map[string]any:
		v[at[0]] = replaced(v[at[0]], at[1:], value)
	case []any:
		i, _ := strconv.Atoi(at[0])
		v[i] = replaced(v[i], at[1:], value)
	}
	return document
}

// removed returns document without a key of the object at a place. It may change document.
func removed(document any, at []string, key string) any {
	inner := document
	for _, step := range at {
		switch v := inner.(type) {
		case map[string]any:
			inner = v[step]
		case []any:
			i, _ := strconv.Atoi(step)
			inner = v[i]
		}
	}
	delete(inner.(map[string]any), key)
	return document
}
