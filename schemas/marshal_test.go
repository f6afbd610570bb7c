package schemas_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/git-spot/git-spot/schemas"
)

type inner struct {
	List []string `json:"list"`
}

func TestMarshalIndent(t *testing.T) {
	t.Parallel()
	type outer struct {
		inner
		Text     string           `json:"text"`
		Nested   *inner           `json:"nested"`
		None     *inner           `json:"none"`
		Map      map[string]int   `json:"map"`
		Maps     map[string]inner `json:"maps"`
		Lists    [][]int          `json:"lists"`
		Any      any              `json:"any"`
		Raw      json.RawMessage  `json:"raw"`
		Bytes    []byte           `json:"bytes"`
		Time     time.Time        `json:"time"`
		Left     []string         `json:"left,omitempty"`
		LeftZero []string         `json:"leftZero,omitzero"`
		Zero     inner            `json:"zero,omitzero"`
		hidden   []string
	}
	v := &outer{
		Text: "<a> & \u2028b", Nested: &inner{}, Maps: map[string]inner{"b": {}, "a": {}}, Lists: [][]int{nil, {1}},
		Any: []any{inner{}, map[string]any{"k": []int(nil)}}, Raw: json.RawMessage(`{"x":null}`),
		Time: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
	}
	want := `{
  "list": [],
  "text": "<a> & \u2028b",
  "nested": {
    "list": []
  },
  "none": null,
  "map": {},
  "maps": {
    "a": {
      "list": []
    },
    "b": {
      "list": []
    }
  },
  "lists": [
    [],
    [
      1
    ]
  ],
  "any": [
    {
      "list": []
    },
    {
      "k": []
    }
  ],
  "raw": {
    "x": null
  },
  "bytes": null,
  "time": "2026-01-31T12:00:00Z"
}
`
	got, err := schemas.MarshalIndent(v)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if v.List != nil || v.Map != nil || v.Nested.List != nil || v.Maps["a"].List != nil || v.Lists[0] != nil || v.hidden != nil {
		t.Errorf("the value was changed: %+v", v)
	}
}

func TestMarshalIndentValues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		v    any
		want string
	}{
		{nil, "null\n"},
		{[]string(nil), "[]\n"},
		{[]*inner{nil}, "[\n  null\n]\n"},
		{[2][]int{}, "[\n  [],\n  []\n]\n"},
		{map[string]any(nil), "{}\n"},
		{(*inner)(nil), "null\n"},
		{1.5, "1.5\n"},
		{"a\xffb", `"a\ufffdb"` + "\n"}, // a path that is no UTF-8
	}
	for _, test := range tests {
		got, err := schemas.MarshalIndent(test.v)
		if err != nil || string(got) != test.want {
			t.Errorf("%#v: got %q, %v, want %q", test.v, got, err, test.want)
		}
	}
	if _, err := schemas.MarshalIndent(math.NaN()); err == nil {
		t.Error("NaN: no error")
	}
}

// TestZeroDocumentsHaveNoNullLists: whoever reads our documents never has to expect null for a list.
func TestZeroDocumentsHaveNoNullLists(t *testing.T) {
	t.Parallel()
	got, err := schemas.MarshalIndent(schemas.Verification{})
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(got, &v); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"gates", "overlays", "setup", "commands"} {
		if list, ok := v[key].([]any); !ok || len(list) != 0 {
			t.Errorf("%s is %v", key, v[key])
		}
	}
}
