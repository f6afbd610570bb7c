package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	skips := filepath.Join(t.TempDir(), "skips.txt")
	if err := os.WriteFile(skips, []byte("# comment\np TestOld/*  needs a newer git\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, events string
		status       int
		want         string
		ok           bool
	}{
		{"all pass", `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA/sub"}
{"Action":"pass","Package":"p"}`, 0, "2 passed, 0 failed, 0 skipped", true},
		{"one fails", `{"Action":"output","Package":"p","Test":"TestB","Output":"because\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`, 1, "1 passed, 1 failed, 0 skipped", false},
		{"allowed skip", `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"skip","Package":"p","Test":"TestOld/x"}`, 0, "1 passed, 0 failed, 1 skipped", true},
		{"other skip", `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"skip","Package":"q","Test":"TestOld/x"}`, 0, "1 passed, 0 failed, 1 skipped", false},
		{"does not build", `{"Action":"build-output","ImportPath":"p","Output":"syntax error\n"}
{"Action":"pass","Package":"q","Test":"TestA"}
{"Action":"fail","Package":"p","FailedBuild":"p"}`, 1, "1 passed, 1 failed, 0 skipped", false},
		{"go itself fails", "go: no such module", 1, "0 passed, 0 failed, 0 skipped", false},
		{"nothing ran", "", 0, "0 passed, 0 failed, 0 skipped", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			events := filepath.Join(t.TempDir(), "events")
			if err := os.WriteFile(events, []byte(tt.events), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			exit := "exit " + string(rune('0'+tt.status))
			err := run(&out, skips, []string{"EVENTS=" + events, "sh", "-c", `cat "$EVENTS"; ` + exit})
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if got := lines[len(lines)-1]; got != tt.want || (err == nil) != tt.ok {
				t.Errorf("got %q, %v; want %q, ok %v\n%s", got, err, tt.want, tt.ok, out.String())
			}
		})
	}
}
