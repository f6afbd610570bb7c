package schemas

import (
	"bytes"
	"encoding/json"
)

// MarshalIndent encodes v as every document of git spot is written: two spaces, keys in the order of
// the type, "<", ">" and "&" as they are, a final newline. A nil slice comes out as [], a nil map as {};
// v itself is not changed. Equal values give equal bytes.
func MarshalIndent(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
