package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var tourBlock = regexp.MustCompile("(?ms)^```sh tour\n(.*?)^```$")

// TestReadmeTour runs the README's tour as a reader would: all of its blocks, one after the other, in
// one shell. What is asked of the result is asked in the folder where the tour ends.
func TestReadmeTour(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var tour strings.Builder
	blocks := tourBlock.FindAllSubmatch(readme, -1)
	for _, block := range blocks {
		tour.Write(block[1])
	}
	if len(blocks) < 5 {
		t.Fatalf("the tour has %d blocks; was its fence renamed?", len(blocks))
	}
	script := `[!exec:jq] skip 'no jq'
exec sh -eux tour.sh
cp stdout said
grep '"verdict": ?"pass"' said
grep 'Greet with an exclamation mark' said
grep 'Spot-Verification: 1/1' said
! grep '^ M ' said
json list .0.id greet
-- tour.sh --
` + tour.String() + `
sh tests/check.sh
git spot fsck
git spot list --state cleaned >"$WORK/list"
`
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/readme_tour.txtar", []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Dir: dir, RequireExplicitExec: true, Setup: setupScript, Cmds: scriptCmds})
}
