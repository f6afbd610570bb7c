package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is the deepest nesting of arrays and objects that is read.
const maxDepth = 64

// read decodes data into nil, bool, int64, float64, string, []any and map[string]any, and refuses what
// encoding/json lets through although two readers could understand it differently: keys given twice,
// invalid UTF-8, numbers that do not fit. Keys that differ in case alone are left to the schema, which
// knows no such pairs; they are fine where keys are free, as in an environment.
func read(data []byte, limit int) (any, *Problem) {
	switch {
	case len(data) > limit:
		return nil, &Problem{Message: fmt.Sprintf("got %d bytes, want at most %d", len(data), limit)}
	case bytes.HasPrefix(data, []byte("\ufeff")):
		return nil, &Problem{Message: "begins with a byte-order mark, want plain UTF-8"}
	case !utf8.Valid(data):
		return nil, &Problem{Message: "invalid UTF-8 at " + position(data, invalidAt(data))}
	case len(bytes.TrimSpace(data)) == 0:
		return nil, &Problem{Message: "empty, want a JSON object"}
	}
	// Decoder.Token alone accepts some malformed input and any trailing data.
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, &Problem{Message: fmt.Sprintf("not JSON at %s: %s", position(data, int(syntax.Offset)-1), syntax)}
		}
		return nil, &Problem{Message: "not JSON"}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return readValue(dec, nil)
}

func readValue(dec *json.Decoder, at []string) (any, *Problem) {
	token, err := dec.Token()
	if err != nil {
		return nil, &Problem{Pointer: pointer(at), Message: "not JSON"}
	}
	if len(at) >= maxDepth && token == json.Delim('{') || len(at) >= maxDepth && token == json.Delim('[') {
		return nil, &Problem{Message: fmt.Sprintf("nested more than %d deep", maxDepth)}
	}
	switch token := token.(type) {
	case json.Number:
		return readNumber(string(token), at)
	case json.Delim:
		if token == '[' {
			return readArray(dec, at)
		}
		return readObject(dec, at)
	}
	return token, nil
}

func readArray(dec *json.Decoder, at []string) (any, *Problem) {
	items := []any{}
	for dec.More() {
		item, problem := readValue(dec, append(at, strconv.Itoa(len(items))))
		if problem != nil {
			return nil, problem
		}
		items = append(items, item)
	}
	_, _ = dec.Token() // the bracket that More saw
	return items, nil
}

func readObject(dec *json.Decoder, at []string) (any, *Problem) {
	object := map[string]any{}
	for dec.More() {
		token, _ := dec.Token()
		key, ok := token.(string)
		if !ok {
			return nil, &Problem{Pointer: pointer(at), Message: "not JSON"}
		}
		here := append(at, key)
		if _, twice := object[key]; twice {
			return nil, &Problem{Pointer: pointer(here), Message: "key given twice"}
		}
		value, problem := readValue(dec, here)
		if problem != nil {
			return nil, problem
		}
		object[key] = value
	}
	_, _ = dec.Token() // the brace that More saw
	return object, nil
}

// readNumber keeps a literal without fraction and exponent apart from all others: only the former is an
// integer to encoding/json, whatever its value.
func readNumber(literal string, at []string) (any, *Problem) {
	if !strings.ContainsAny(literal, ".eE") {
		n, err := strconv.ParseInt(literal, 10, 64)
		if err != nil {
			return nil, &Problem{Pointer: pointer(at), Message: "integer out of range"}
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return nil, &Problem{Pointer: pointer(at), Message: "number out of range"}
	}
	return f, nil
}

// position names the byte at offset as an editor does.
func position(data []byte, offset int) string {
	before := data[:max(0, min(offset, len(data)))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}
