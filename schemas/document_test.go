package schemas_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/git-spot/git-spot/schemas"
)

var update = flag.Bool("update", false, "write docs/errors.md and the samples anew")

func TestErrorsMarkdown(t *testing.T) {
	t.Parallel()
	const page = "../docs/errors.md"
	want := schemas.ErrorsMarkdown()
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/errors.md differs from schemas/code.go; mend it with: go test ./schemas -run TestErrorsMarkdown -update")
	}
}
