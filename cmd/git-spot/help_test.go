package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/schemas"
)

var negative = regexp.MustCompile(`(?m)^(?:refused|fails) ([A-Z_]+) git(?: -c \S+)* spot ([a-z-]+)`)

// TestHelpNamesTheCodes: help names every code that a script sees a command end with.
func TestHelpNamesTheCodes(t *testing.T) {
	t.Parallel()
	e, _, _ := testEnv(t)
	e.root = newRoot(e)
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	seen := 0
	for _, script := range scripts {
		data, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range negative.FindAllStringSubmatch(string(data), -1) {
			code, c := schemas.Code(match[1]), e.root.Command(match[2])
			if c == nil { // a typing error is what that line is about
				continue
			}
			seen++
			m, _ := c.Metadata[manualKey].(manual)
			if !slices.Contains(append(commonCodes(), m.codes...), code) {
				t.Errorf("%s: help does not say that %s may end with %s: %s", filepath.Base(script), c.Name, code, strings.TrimSpace(match[0]))
			}
		}
	}
	if seen < 100 {
		t.Errorf("found %d refusals; were the commands of the scripts renamed?", seen)
	}
}
