package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The format is what docs/format.md says, and not what this program happens to do: two programs made
// of git, sh and jq read what it writes.
func TestScriptFormat(t *testing.T) {
	t.Parallel()
	format, err := filepath.Abs("../../contrib/format")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/format",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("FORMAT", format)
			return setupScript(e)
		},
	})
}
