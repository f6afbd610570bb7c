package schemas_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/schemas"
)

func TestTemplateOfCodeIsAContract(t *testing.T) {
	t.Parallel()
	data, err := schemas.Template(schemas.KindCode)
	if err != nil {
		t.Fatal(err)
	}
	c, err := schemas.ParseContract(data)
	if err != nil {
		t.Fatal(err)
	}
	if c.Kind != schemas.KindCode || len(c.Acceptance) == 0 || len(c.Verification) == 0 {
		t.Errorf("got %+v", c)
	}
	if bytes.Contains(data, []byte("placeholder")) {
		t.Error("the example has placeholders")
	}
}

func TestTemplatesOfReadOnlyKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range []schemas.Kind{schemas.KindExplore, schemas.KindTest, schemas.KindReview, schemas.KindDiscuss} {
		data, err := schemas.Template(kind)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		for _, want := range []string{"# <!-- placeholder: ", "\n## Task\n\n<!-- placeholder: ", "\n## Scope\n\n<!-- placeholder: "} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q", kind, want)
			}
		}
		if strings.Count(text, "<!--") != strings.Count(text, "<!-- placeholder: ") || !strings.HasSuffix(text, "\n") {
			t.Errorf("%s: a comment that is no placeholder, or no final newline", kind)
		}
		if (kind == schemas.KindTest) != strings.Contains(text, "\n## Command\n") {
			t.Errorf("%s: command", kind)
		}
	}
}

func TestTemplateOfUnknownKind(t *testing.T) {
	t.Parallel()
	for _, kind := range []schemas.Kind{"", "cod", "../code"} {
		_, err := schemas.Template(kind)
		if unknown, ok := errors.AsType[*schemas.UnknownKindError](err); !ok || unknown.Code() != schemas.CodeUsage {
			t.Errorf("%q: %v", kind, err)
		}
	}
}
