package schemas

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// The evaluator is a library, although its initialisation costs each start of git spot 3 to 4 ms: a
// second evaluator of our own would be one more judge of what a valid contract is. See
// docs/decisions/0004. Do not replace it.

//go:embed *.schema.json
var files embed.FS

// Documents that come from a caller or a worker are small; those that git spot writes can hold long
// lists of paths and the ends of outputs. Both in bytes.
const (
	maxGiven   = 1 << 20
	maxWritten = 8 << 20 // no blob of the ledger is longer, see docs/format.md section 17
)

// document ties a schema to the Go type of its documents.
type document struct {
	name     string
	limit    int // bytes
	new      func() any
	compiled func() (*compiled, error) // compiles at the first call: 10 schemas are too dear at start-up
}

func define[T any](name string, limit int) document {
	return document{
		name:     name,
		limit:    limit,
		new:      func() any { return new(T) },
		compiled: sync.OnceValues(func() (*compiled, error) { return compile(name) }),
	}
}

// documents is the one table of documents, sorted by name.
var documents = []document{
	define[AttemptStart]("attempt-start", maxWritten),
	define[ErrorDocument]("error", maxWritten),
	define[Metrics]("metrics", maxWritten),
	define[Review]("review-result", maxGiven),
	define[RunState]("run-state", maxWritten),
	define[SelfReview]("self-review", maxGiven),
	define[Contract]("task-contract", maxGiven),
	define[Verification]("verification", maxWritten),
	define[Event]("worker-event", maxWritten),
	define[WorkerReceipt]("worker-receipt", maxWritten),
}

// UnknownSchemaError says that no schema has this name.
type UnknownSchemaError struct {
	Name    string
	Nearest string // "" if nothing is near
}

func (e *UnknownSchemaError) Error() string { return fmt.Sprintf("no schema is called %q", e.Name) }

// Code returns USAGE: the name can only be from a command line.
func (e *UnknownSchemaError) Code() Code { return CodeUsage }

// Names returns the names of all schemas, sorted.
func Names() []string {
	names := make([]string, len(documents))
	for i, d := range documents {
		names[i] = d.name
	}
	return names
}

// Schema returns the bytes of the JSON Schema called name, or an *UnknownSchemaError. The caller may
// change them.
func Schema(name string) ([]byte, error) {
	if _, err := find(name); err != nil {
		return nil, err
	}
	return files.ReadFile(name + ".schema.json")
}

// Validate checks data against the schema called name, one of Names, and that it decodes into the Go
// type of that document. What is wrong with the document is a *DocumentError. It is safe for concurrent
// use.
func Validate(name string, data []byte) error {
	d, err := find(name)
	if err != nil {
		return err
	}
	problems, err := d.decode(data, d.new())
	if err != nil {
		return err
	}
	if problems != nil {
		return &DocumentError{Name: name, Problems: problems}
	}
	return nil
}

func find(name string) (*document, error) {
	for i := range documents {
		if documents[i].name == name {
			return &documents[i], nil
		}
	}
	return nil, &UnknownSchemaError{Name: name, Nearest: Nearest(name, Names())}
}

// decode reads data into the pointer into, or says what is wrong with data. The error is for defects of
// this program alone.
func (d *document) decode(data []byte, into any) ([]Problem, error) {
	value, problem := read(data, d.limit)
	if problem != nil {
		return []Problem{*problem}, nil
	}
	c, err := d.compiled()
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", d.name, err)
	}
	if problems := c.check(value); problems != nil {
		return problems, nil
	}
	// The text of such an error may repeat a value. It is a gap between schema and type, which the
	// tests of this package look for.
	if err := json.Unmarshal(data, into); err != nil {
		return []Problem{{Message: fmt.Sprintf("does not decode into %T", into)}}, nil
	}
	return nil, nil
}

// compiled is a schema ready to check values, and as plain JSON to explain what it wants.
type compiled struct {
	schema *jsonschema.Schema
	source map[string]any
}

func compile(name string) (*compiled, error) {
	data, err := files.ReadFile(name + ".schema.json")
	if err != nil {
		return nil, err
	}
	var source map[string]any
	if err := json.Unmarshal(data, &source); err != nil {
		return nil, err
	}
	id := "urn:git-spot:schema:" + name + ":1"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // a $ref never reads a file
	compiler.RegisterFormat(&jsonschema.Format{Name: "date-time", Validate: validTime})
	compiler.RegisterFormat(&jsonschema.Format{Name: "glob", Validate: validGlob})
	compiler.RegisterFormat(&jsonschema.Format{Name: "int64", Validate: validInteger})
	compiler.AssertFormat()
	if err := compiler.AddResource(id, source); err != nil {
		return nil, err
	}
	schema, err := compiler.Compile(id)
	if err != nil {
		return nil, err
	}
	return &compiled{schema: schema, source: source}, nil
}

var errFormat = errors.New("wrong format")

// validTime accepts what time.Time reads, which is stricter than the format of JSON Schema.
func validTime(v any) error {
	text, ok := v.(string)
	if ok && new(time.Time).UnmarshalText([]byte(text)) != nil {
		return errFormat
	}
	return nil
}

func validGlob(v any) error {
	glob, ok := v.(string)
	if ok && !doublestar.ValidatePattern(glob) {
		return errFormat
	}
	return nil
}

// validInteger refuses 1.0, which is an integer to JSON Schema and none to encoding/json.
func validInteger(v any) error {
	if _, fraction := v.(float64); fraction {
		return errFormat
	}
	return nil
}

// check returns what is wrong with value, ordered by pointer, nil if nothing is.
func (c *compiled) check(value any) []Problem {
	err := c.schema.Validate(value)
	if err == nil {
		return nil
	}
	failure, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []Problem{{Message: "cannot be checked"}}
	}
	var found []located
	c.explain(failure, value, &found)
	slices.SortFunc(found, func(a, b located) int { return a.compare(b) })
	problems := make([]Problem, len(found))
	for i, f := range found {
		problems[i] = Problem{Pointer: pointer(f.at), Message: f.message}
	}
	return slices.Compact(problems)
}

// located is a problem before its place becomes a pointer, which sorts /2 after /10.
type located struct {
	at      []string
	message string
}

func (l located) compare(m located) int {
	byNumber := func(a, b string) int {
		i, errI := strconv.Atoi(a)
		j, errJ := strconv.Atoi(b)
		if errI == nil && errJ == nil {
			return i - j
		}
		return strings.Compare(a, b)
	}
	if order := slices.CompareFunc(l.at, m.at, byNumber); order != 0 {
		return order
	}
	return strings.Compare(l.message, m.message)
}

// explain collects the innermost failures of err in our words.
func (c *compiled) explain(err *jsonschema.ValidationError, root any, found *[]located) {
	if len(err.Causes) > 0 {
		for _, cause := range err.Causes {
			c.explain(cause, root, found)
		}
		return
	}
	schema := c.at(err.SchemaURL)
	add := func(key, message string) {
		at := slices.Clone(err.InstanceLocation)
		if key != "" {
			at = append(at, key)
		}
		*found = append(*found, located{at: at, message: message})
	}
	switch failed := err.ErrorKind.(type) {
	case *kind.Required:
		for _, key := range failed.Missing {
			want := ""
			if property, ok := c.property(schema, key); ok {
				want = ", want " + c.want(property)
			}
			add(key, "missing"+want)
		}
	case *kind.AdditionalProperties:
		for _, key := range failed.Properties {
			add(key, c.unknown(schema, key))
		}
	default:
		add("", "got "+kindOf(lookup(root, err.InstanceLocation))+", want "+c.want(schema))
	}
}

// unknown explains a key that the object described by schema does not have.
func (c *compiled) unknown(schema map[string]any, key string) string {
	if _, free := schema["patternProperties"]; free {
		return "bad name, want " + c.want(schema)
	}
	properties, _ := schema["properties"].(map[string]any)
	known := make([]string, 0, len(properties))
	for name := range properties {
		known = append(known, name)
	}
	slices.Sort(known)
	if nearest := Nearest(key, known); nearest != "" {
		return fmt.Sprintf("unknown key, did you mean %q?", nearest)
	}
	return "unknown key"
}

// property returns the schema of a key. A branch of the schema may demand a key that only the top
// describes.
func (c *compiled) property(schema map[string]any, key string) (map[string]any, bool) {
	for _, s := range []map[string]any{schema, c.source} {
		if properties, ok := s["properties"].(map[string]any); ok {
			if property, ok := properties[key].(map[string]any); ok {
				return property, true
			}
		}
	}
	return nil, false
}

// want says what schema accepts; it completes "want ...". The titles in our schemas are written for it.
func (c *compiled) want(schema map[string]any) string {
	if ref, ok := schema["$ref"].(string); ok {
		schema = c.at(ref)
	}
	if values, ok := schema["enum"].([]any); ok {
		words := make([]string, len(values))
		for i, v := range values {
			words[i] = fmt.Sprintf("%q", v)
		}
		return "one of " + strings.Join(words, ", ")
	}
	title, titled := schema["title"].(string)
	types, _ := schema["type"].([]any)
	what, orNull := schema["type"], ""
	if len(types) > 0 {
		what, orNull = types[0], ", or null"
	}
	switch _, free := schema["patternProperties"]; {
	case what == "object" && !free:
		required, _ := schema["required"].([]any)
		if len(required) == 0 {
			return "an object" + orNull
		}
		keys := make([]string, len(required))
		for i, key := range required {
			keys[i] = fmt.Sprint(key)
		}
		return "an object with " + strings.Join(keys, ", ") + orNull
	case titled:
		return title
	case what == "array":
		if least, ok := schema["minItems"].(float64); ok {
			return fmt.Sprintf("an array of at least %v", least)
		}
		return "an array"
	}
	return fmt.Sprintf("a %v", what)
}

// at returns the part of the source that a location such as urn:...#/$defs/glob names.
func (c *compiled) at(location string) map[string]any {
	_, fragment, _ := strings.Cut(location, "#")
	if decoded, err := url.PathUnescape(fragment); err == nil {
		fragment = decoded
	}
	var steps []string
	for _, step := range strings.Split(strings.TrimPrefix(fragment, "/"), "/") {
		if step != "" {
			steps = append(steps, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
		}
	}
	schema, _ := lookup(c.source, steps).(map[string]any)
	return schema
}

func lookup(value any, at []string) any {
	for _, step := range at {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		}
	}
	return value
}

// kindOf names the kind of a value that read returned, and never the value.
func kindOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a number"
	case string:
		if v == "" {
			return "an empty string"
		}
		return "a string"
	case []any:
		if len(v) == 0 {
			return "an empty array"
		}
		return "an array"
	}
	return "an object"
}
