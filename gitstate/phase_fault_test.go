//go:build fault

package gitstate_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

// A writer that is killed before any one of its side effects leaves a ledger that can be read and that
// somebody can go on with.
func TestWriterKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			template := repository(t, format)
			base := git(t, template, "rev-parse", "main")
			killed := 0
			for point := 1; ; point++ {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.count=1")
				cmd.Env = append(os.Environ(), "GITSTATE_CHILD="+strings.Join([]string{"write", dir, "x", base, "once"}, "\n"), fmt.Sprintf("GIT_SPOT_FAULT=kill@%d", point))
				out, err := cmd.CombinedOutput()
				if err == nil {
					break
				}
				if cmd.ProcessState.String() != "signal: killed" {
					t.Fatalf("point %d: %v\n%s", point, err, out)
				}
				killed++
				afterKill(t, dir, base, point)
			}
			t.Logf("%d points", killed)
			if killed < 30 {
				t.Errorf("only %d points", killed)
			}
		})
	}
}

func afterKill(t *testing.T, dir, base string, point int) {
	t.Helper()
	l := open(t, dir)
	rows, err := l.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Err != nil {
			t.Errorf("point %d: %v", point, row.Err)
			continue
		}
		run := load(t, l, row.ID)
		if due := run.Due(l.Interrupted(t.Context(), run)); due == "" {
			t.Errorf("point %d: nothing is due in %s", point, run.State.State)
		}
		if run.State.State == schemas.StateIntegrated {
			continue
		}
		p, _, err := l.TakeOver(t.Context(), row.ID, "abort", gitstate.ByAbort)
		if err != nil {
			t.Errorf("point %d: abort: %v", point, err)
			continue
		}
		appendEvent(t, p, gitstate.Event{To: schemas.StateAborted})
		finish(t, p)
	}
	clean(t, l)
	// The slot is free again, whether the run exists or not.
	if err := prepareRun(t.Context(), l, "next", base, 1); err != nil {
		t.Errorf("point %d: %v", point, err)
	}
	if t.Failed() {
		t.FailNow()
	}
}
