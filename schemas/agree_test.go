package schemas_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/git-spot/git-spot/schemas"
)

// types are the Go types of the documents.
var types = map[string]reflect.Type{
	"attempt-start":  reflect.TypeFor[schemas.AttemptStart](),
	"error":          reflect.TypeFor[schemas.ErrorDocument](),
	"metrics":        reflect.TypeFor[schemas.Metrics](),
	"review-result":  reflect.TypeFor[schemas.Review](),
	"run-state":      reflect.TypeFor[schemas.RunState](),
	"self-review":    reflect.TypeFor[schemas.SelfReview](),
	"task-contract":  reflect.TypeFor[schemas.Contract](),
	"verification":   reflect.TypeFor[schemas.Verification](),
	"worker-event":   reflect.TypeFor[schemas.Event](),
	"worker-receipt": reflect.TypeFor[schemas.WorkerReceipt](),
}

// TestTypesAndSchemasAgree fails if a field, a kind of value or a constant is on one side alone.
func TestTypesAndSchemasAgree(t *testing.T) {
	t.Parallel()
	if got, want := schemas.Names(), slices.Sorted(maps.Keys(types)); !slices.Equal(got, want) {
		t.Fatalf("Names() = %q, want %q", got, want)
	}
	constants := constantsOf(t)
	for name, typ := range types {
		root := parsed(t, name)
		a := agreement{root: root, constants: constants}
		a.compare(name, root, typ, false)
		for _, difference := range a.differences {
			t.Error(difference)
		}
	}
}

// TestAgreementNotices makes sure that the test above can fail.
func TestAgreementNotices(t *testing.T) {
	t.Parallel()
	type Level string
	schema := `{"type": "object", "additionalProperties": false, "required": ["a"], "properties": {
		"a": {"description": "d", "type": "string"},
		"b": {"description": "d", "type": "integer", "format": "int64"}}}`
	tests := []struct {
		name   string
		typ    reflect.Type
		schema string
		want   string
	}{
		{"field without property", reflect.TypeFor[struct {
			A string `json:"a"`
			B int    `json:"b,omitempty"`
			C int    `json:"c,omitempty"`
		}](), schema, "x/c: no property"},
		{"property without field", reflect.TypeFor[struct {
			A string `json:"a"`
		}](), schema, "x/b: no field"},
		{"kind", reflect.TypeFor[struct {
			A string `json:"a"`
			B string `json:"b,omitempty"`
		}](), schema, "x/b: type integer, want string"},
		{"required", reflect.TypeFor[struct {
			A string `json:"a"`
			B int    `json:"b"`
		}](), schema, "x: required [a], want [a b]"},
		{"null", reflect.TypeFor[struct {
			A *string `json:"a"`
			B int     `json:"b,omitempty"`
		}](), schema, "x/a: null false, want true"},
		{"enum", reflect.TypeFor[struct {
			A Level `json:"a"`
		}](), `{"type": "object", "additionalProperties": false, "required": ["a"], "properties": {
			"a": {"description": "d", "type": "string", "enum": ["low", "high"]}}}`, "x/a: enum [high low], want [high low medium]"},
		{"open object", reflect.TypeFor[struct{}](), `{"type": "object", "properties": {}}`, "x: additionalProperties <nil>, want false"},
		{"integer without format", reflect.TypeFor[struct {
			A int `json:"a,omitempty"`
		}](), `{"type": "object", "additionalProperties": false, "properties": {
			"a": {"description": "d", "type": "integer"}}}`, "x/a: format <nil>, want int64"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var root map[string]any
			if err := json.Unmarshal([]byte(test.schema), &root); err != nil {
				t.Fatal(err)
			}
			a := agreement{root: root, constants: map[string][]string{"Level": {"high", "low", "medium"}}}
			a.compare("x", root, test.typ, false)
			if !slices.Contains(a.differences, test.want) {
				t.Errorf("differences %q, want %q among them", a.differences, test.want)
			}
		})
	}
}

// TestSameNameSameMeaning keeps the definitions that schemas share equal: every file stands alone, so
// that it can be handed to any validator.
func TestSameNameSameMeaning(t *testing.T) {
	t.Parallel()
	local := map[string]bool{"criterion": true, "setup": true} // different things in different documents
	seen := map[string]any{}
	for _, name := range schemas.Names() {
		defs, _ := parsed(t, name)["$defs"].(map[string]any)
		for key, def := range defs {
			if first, ok := seen[key]; ok && !local[key] && !reflect.DeepEqual(first, def) {
				t.Errorf("%s: $defs/%s differs from that of another schema", name, key)
			}
			seen[key] = def
		}
	}
}

// TestSchemaHeaders checks what a reader and a foreign validator need, and that all definitions are used.
func TestSchemaHeaders(t *testing.T) {
	t.Parallel()
	for _, name := range schemas.Names() {
		schema := parsed(t, name)
		want := map[string]any{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"$id":     "urn:git-spot:schema:" + name + ":1",
		}
		for key, value := range want {
			if schema[key] != value {
				t.Errorf("%s: %s is %v, want %v", name, key, schema[key], value)
			}
		}
		for _, key := range []string{"title", "description"} {
			if schema[key] == nil {
				t.Errorf("%s: no %s", name, key)
			}
		}
		data, err := schemas.Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		defs, _ := schema["$defs"].(map[string]any)
		for key := range defs {
			if !strings.Contains(string(data), `"#/$defs/`+key+`"`) {
				t.Errorf("%s: $defs/%s is not used", name, key)
			}
		}
	}
}

type agreement struct {
	root        map[string]any
	constants   map[string][]string // values of the constants of a named string type, sorted
	differences []string
}

func (a *agreement) add(format string, args ...any) {
	a.differences = append(a.differences, fmt.Sprintf(format, args...))
}

// resolve follows $ref within the file; keywords beside it are annotations.
func (a *agreement) resolve(schema map[string]any) map[string]any {
	for {
		ref, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		schema = a.root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
}

func (a *agreement) compare(at string, schema map[string]any, typ reflect.Type, null bool) {
	schema = a.resolve(schema)
	kinds := []string{}
	switch k := schema["type"].(type) {
	case string:
		kinds = append(kinds, k)
	case []any:
		for _, word := range k {
			kinds = append(kinds, word.(string))
		}
	}
	if nullable := slices.Contains(kinds, "null"); nullable != null {
		a.add("%s: null %v, want %v", at, nullable, null)
	}
	kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == "null" })
	if want := kindOf(typ); !slices.Equal(kinds, []string{want}) {
		a.add("%s: type %s, want %s", at, strings.Join(kinds, " "), want)
		return
	}
	switch {
	case typ == reflect.TypeFor[time.Time]():
		if schema["format"] != "date-time" {
			a.add("%s: format %v, want date-time", at, schema["format"])
		}
	case typ.Kind() == reflect.Struct:
		a.compareStruct(at, schema, typ)
	case typ.Kind() == reflect.Slice:
		items, ok := schema["items"].(map[string]any)
		if !ok {
			a.add("%s: no items", at)
			return
		}
		a.compare(at+"/0", items, typ.Elem(), false)
		prefix, _ := schema["prefixItems"].([]any)
		for _, item := range prefix {
			a.compare(at+"/0", item.(map[string]any), typ.Elem(), false)
		}
	case typ.Kind() == reflect.Map:
		values, ok := schema["additionalProperties"].(map[string]any)
		if patterns, free := schema["patternProperties"].(map[string]any); free {
			for _, v := range patterns {
				values, ok = v.(map[string]any)
			}
		}
		if !ok {
			a.add("%s: no schema of the values", at)
			return
		}
		a.compare(at+"/*", values, typ.Elem(), false)
	case typ.Kind() == reflect.Int || typ.Kind() == reflect.Int64:
		if schema["format"] != "int64" {
			a.add("%s: format %v, want int64", at, schema["format"])
		}
	case typ.Kind() == reflect.String:
		a.compareEnum(at, schema, typ)
	}
}

func (a *agreement) compareStruct(at string, schema map[string]any, typ reflect.Type) {
	if schema["additionalProperties"] != false {
		a.add("%s: additionalProperties %v, want false", at, schema["additionalProperties"])
	}
	properties, _ := schema["properties"].(map[string]any)
	fields := map[string]bool{}
	required := []string{}
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || !field.IsExported() {
			a.add("%s: field %s has no json name", at, field.Name)
			continue
		}
		here := at + "/" + name
		fields[name] = true
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		if !optional {
			required = append(required, name)
		}
		property, ok := properties[name].(map[string]any)
		if !ok {
			a.add("%s: no property", here)
			continue
		}
		if property["description"] == nil {
			a.add("%s: no description", here)
		}
		inner, null := field.Type, false
		if inner.Kind() == reflect.Pointer {
			inner, null = inner.Elem(), !optional
		}
		a.compare(here, property, inner, null)
	}
	for name := range properties {
		if !fields[name] {
			a.add("%s/%s: no field", at, name)
		}
	}
	got := []string{}
	if words, ok := schema["required"].([]any); ok {
		for _, word := range words {
			got = append(got, word.(string))
		}
	}
	slices.Sort(got)
	slices.Sort(required)
	if !slices.Equal(got, required) {
		a.add("%s: required %v, want %v", at, got, required)
	}
}

// compareEnum holds the named string types to their constants. A string without a type of its own may
// have an enum or none.
func (a *agreement) compareEnum(at string, schema map[string]any, typ reflect.Type) {
	got := []string{}
	if values, ok := schema["enum"].([]any); ok {
		for _, v := range values {
			got = append(got, v.(string))
		}
	}
	slices.Sort(got)
	want := a.constants[typ.Name()]
	switch {
	case typ.Name() == "string":
		return
	case typ == reflect.TypeFor[schemas.Code]():
		// A later version may store a code that this one does not know; only the error document,
		// which no ledger holds, lists them.
		if schema["pattern"] != nil && len(got) == 0 && !strings.HasPrefix(at, "error/") {
			return
		}
		want = nil
		for _, info := range schemas.Codes {
			if info.Exit != 0 {
				want = append(want, string(info.Code))
			}
		}
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		a.add("%s: enum %v, want %v", at, got, want)
	}
}

func kindOf(typ reflect.Type) string {
	if typ == reflect.TypeFor[time.Time]() {
		return "string"
	}
	switch typ.Kind() {
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	}
	return "unknown kind " + typ.String()
}

// constantsOf reads the string constants of the package by their type.
func constantsOf(t *testing.T) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string][]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		collect(t, file, constants)
	}
	for _, values := range constants {
		slices.Sort(values)
	}
	return constants
}

func collect(t *testing.T, file *ast.File, constants map[string][]string) {
	t.Helper()
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		typ, typed := spec.Type.(*ast.Ident)
		literal, isLiteral := spec.Values[0].(*ast.BasicLit)
		if typed && isLiteral && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			constants[typ.Name] = append(constants[typ.Name], value)
		}
		return true
	})
}

func parsed(t *testing.T, name string) map[string]any {
	t.Helper()
	data, err := schemas.Schema(name)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}
