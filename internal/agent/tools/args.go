package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// schema is the part of JSON Schema that the definitions use.
type schema struct {
	Type       string            `json:"type"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	Required   []string          `json:"required"`
}

// aliases lists other names that models have learnt for our parameters, in lower case without _ and -.
// They are taken where the tool has the parameter and the call does not give it by its own name.
var aliases = map[string][]string{
	"path":       {"filepath", "file", "filename", "dir", "directory", "folder", "targetfile"},
	"oldText":    {"oldstring", "oldstr", "old", "search"},
	"newText":    {"newstring", "newstr", "new", "replace", "replacement"},
	"all":        {"replaceall"},
	"moveTo":     {"newpath", "renameto", "destination", "movepath"},
	"content":    {"contents", "text", "filetext", "newcontent"},
	"pattern":    {"regex", "regexp", "query"},
	"glob":       {"include", "includepattern"},
	"ignoreCase": {"caseinsensitive", "i"},
	"literal":    {"fixedstrings"},
	"context":    {"contextlines", "c"},
	"filesOnly":  {"fileswithmatches"},
	"limit":      {"maxresults", "headlimit", "maxcount", "maxlines"},
	"offset":     {"startline", "line"},
}

// decode reads a model's arguments into v. It takes what models send in place of what they were told,
// where only one thing can be meant; the rest it refuses with an error that says how to say it.
func (s schema) decode(arguments json.RawMessage, v any) error {
	if len(arguments) > maxArguments {
		return failed("the arguments are %d bytes long and at most %d can be taken. Do it in smaller steps.", len(arguments), maxArguments)
	}
	if !utf8.Valid(arguments) {
		return failed("the arguments are not UTF-8. Send them again as UTF-8.")
	}
	arguments = bytes.TrimSpace(arguments)
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = json.RawMessage("{}")
	}
	if err := valid(arguments); err != nil {
		return err
	}
	plain, err := s.plain("the arguments", arguments)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, v)
}

// valid says where arguments stop being JSON.
func valid(arguments json.RawMessage) error {
	err := json.Unmarshal(arguments, &struct{}{}) // looks at the syntax of all of it first
	e, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return nil
	}
	at := int(min(e.Offset, int64(len(arguments))))
	if at == len(arguments) && strings.Contains(e.Error(), "unexpected end") {
		return failed("the arguments are cut off: they end in the middle of the JSON, after %d bytes. Send the call again; if it was too long for one answer, do it in several smaller calls.", at)
	}
	before := arguments[max(0, at-1-40):max(0, at-1)]
	after := arguments[max(0, at-1):min(len(arguments), at+20)]
	return failed("the arguments are not JSON: %v, at byte %d, between %s and %s. Send one JSON object.", e, at, show(string(before)), show(string(after)))
}

// plain returns value, which where names, as s demands it.
func (s schema) plain(where string, value json.RawMessage) (json.RawMessage, error) {
	value = bytes.TrimSpace(value)
	kind := kindOf(value)
	if kind == "string" && s.Type != "string" {
		// Numbers in quotes, objects as text.
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return nil, err
		}
		inner := bytes.TrimSpace([]byte(text))
		if s.Type == "boolean" {
			inner = bytes.ToLower(inner)
		}
		if json.Valid(inner) && kindOf(inner) != "string" {
			value, kind = inner, kindOf(inner)
		}
	}
	switch {
	case s.Type == "object" && kind == "object":
		return s.plainObject(where, value)
	case s.Type == "array" && (kind == "array" || kind == "object"):
		if kind == "object" { // one, for a list of one
			value = slices.Concat([]byte("["), value, []byte("]"))
		}
		var items []json.RawMessage
		if err := json.Unmarshal(value, &items); err != nil {
			return nil, err
		}
		for i := range items {
			var err error
			if items[i], err = s.Items.plain(fmt.Sprintf("%s[%d]", where, i), items[i]); err != nil {
				return nil, err
			}
		}
		return json.Marshal(items)
	case s.Type == "integer" && kind == "number":
		f, err := strconv.ParseFloat(string(value), 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return nil, failed("%s must be a whole number, not %s.", where, show(string(value)))
		}
		return strconv.AppendInt(nil, int64(f), 10), nil
	case s.Type == "string" && kind == "number":
		return json.Marshal(string(value))
	case s.Type == kind:
		return value, nil
	case s.Type == "string":
		return nil, failed("%s must be a string, not %s. Put the text into one JSON string.", where, article(kind))
	}
	return nil, failed("%s must be %s, not %s.", where, article(s.Type), article(kind))
}

func (s schema) plainObject(where string, value json.RawMessage) (json.RawMessage, error) {
	given := make(map[string]json.RawMessage)
	gather := make(map[string]json.RawMessage) // members of the only element of a list, given without it
	list := s.list()
	d := json.NewDecoder(bytes.NewReader(value))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		var member json.RawMessage
		if err := d.Decode(&member); err != nil {
			return nil, err
		}
		into := given
		known := s.known(name)
		if known == "" && list != "" {
			if known = s.Properties[list].Items.known(name); known != "" {
				into = gather
			}
		}
		if known == "" {
			return nil, s.unknown(where, name)
		}
		if kind := kindOf(member); kind == "null" || string(member) == `""` && s.property(known).Type != "string" {
			continue // as good as absent
		}
		if _, twice := into[known]; twice {
			return nil, failed("%s give %q twice. Give it once.", where, known)
		}
		into[known] = member
	}
	if len(gather) > 0 {
		if given[list] != nil {
			return nil, failed("%s have %q and, beside it, what belongs into its elements. Put all of it into %q.", where, list, list)
		}
		element, err := json.Marshal(gather)
		if err != nil {
			return nil, err
		}
		given[list] = element
	}
	for _, name := range s.Required {
		if given[name] == nil {
			return nil, failed("%s lack %q. %s", where, name, s.takes())
		}
	}
	for name, member := range given {
		inside := name
		if where != "the arguments" {
			inside = where + "." + name
		}
		plain, err := s.Properties[name].plain(inside, member)
		if err != nil {
			return nil, err
		}
		given[name] = plain
	}
	return json.Marshal(given)
}

// property is the schema of a parameter, or of one of the elements of the list.
func (s schema) property(name string) schema {
	if p, ok := s.Properties[name]; ok {
		return p
	}
	return s.Properties[s.list()].Items.Properties[name]
}

// list names the parameter that is a list of objects, if there is one.
func (s schema) list() string {
	for name, p := range s.Properties {
		if p.Type == "array" && p.Items.Type == "object" {
			return name
		}
	}
	return ""
}

// known returns the parameter that a model means by name, or "".
func (s schema) known(name string) string {
	if _, ok := s.Properties[name]; ok {
		return name
	}
	folded := strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
	for p := range s.Properties {
		if strings.ToLower(p) == folded || slices.Contains(aliases[p], folded) {
			return p
		}
	}
	return ""
}

func (s schema) unknown(where, name string) error {
	near, least := "", 4
	for _, p := range slices.Sorted(maps.Keys(s.Properties)) {
		if d := levenshtein.ComputeDistance(strings.ToLower(cut(name, 40)), strings.ToLower(p)); d < least {
			near, least = p, d
		}
	}
	if near != "" {
		near = fmt.Sprintf(" Did you mean %q?", near)
	}
	return failed("%s have no %s.%s %s", where, show(name), near, s.takes())
}

// takes names the parameters.
func (s schema) takes() string {
	var required, optional []string
	for _, p := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, p) {
			required = append(required, p)
		} else {
			optional = append(optional, p)
		}
	}
	switch {
	case len(required) == 0:
		return "It takes " + strings.Join(optional, ", ") + ", all optional."
	case len(optional) == 0:
		return "It takes " + strings.Join(required, ", ") + "."
	}
	return "It takes " + strings.Join(required, ", ") + " and, optionally, " + strings.Join(optional, ", ") + "."
}

// kindOf names the kind of a JSON value as JSON Schema does.
func kindOf(value json.RawMessage) string {
	if len(value) == 0 {
		return "null"
	}
	switch value[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

func article(kind string) string {
	switch kind {
	case "integer":
		return "a whole number"
	case "object", "array":
		return "an " + kind
	case "null":
		return "null"
	}
	return "a " + kind
}
