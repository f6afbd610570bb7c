package proc_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/internal/proc/shim"
)

func TestAlive(t *testing.T) {
	t.Parallel()
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	if self.PID != os.Getpid() || self.Start == 0 || self.BootID == "" || self.PIDNamespace == "" || self.Host == "" {
		t.Fatalf("incomplete: %+v", self)
	}
	gone := ended(t)
	for _, test := range []struct {
		name string
		edit func(*proc.Identity)
		want bool
	}{
		{"myself", func(*proc.Identity) {}, true},
		{"pid is used again", func(id *proc.Identity) { id.Start-- }, false},
		{"no such pid", func(id *proc.Identity) { id.PID = gone }, false},
		{"earlier boot", func(id *proc.Identity) { id.BootID = "old" }, false},
		{"earlier boot of a container", func(id *proc.Identity) { id.BootID, id.PIDNamespace = "old", "pid:[1]" }, false},
		{"other host", func(id *proc.Identity) { id.Host, id.PID = "elsewhere", gone }, true},
		{"other host, other boot", func(id *proc.Identity) { id.Host, id.BootID = "elsewhere", "old" }, true},
		{"other container", func(id *proc.Identity) { id.PIDNamespace, id.PID = "pid:[1]", gone }, true},
		{"start unknown", func(id *proc.Identity) { id.Start = 0 }, true},
		{"start unknown, no such pid", func(id *proc.Identity) { id.Start, id.PID = 0, gone }, false},
		{"host unknown", func(id *proc.Identity) { id.Host, id.PID = "", gone }, true},
		{"boot unknown", func(id *proc.Identity) { id.BootID, id.PID = "", gone }, true},
		{"namespace unknown", func(id *proc.Identity) { id.PIDNamespace, id.PID = "", gone }, true},
		{"pid unknown", func(id *proc.Identity) { id.PID = 0 }, true},
		{"zero", func(id *proc.Identity) { *id = proc.Identity{} }, true},
	} {
		id := self
		test.edit(&id)
		if got := id.Alive(); got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
	}
}

// ended is the pid of a process that was just here and is gone.
func ended(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "exit 0")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// A process that nobody has reaped is gone, though it has its pid and start still.
func TestZombieIsGone(t *testing.T) {
	t.Parallel()
	id, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "read x")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stat, err := shim.ReadStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	id.PID, id.Start = stat.PID, stat.Start
	if !id.Alive() {
		t.Error("running: got false")
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return !id.Alive() })
	if _, err := shim.ReadStat(stat.PID); err != nil {
		t.Errorf("it was reaped: %v", err)
	}
	_ = cmd.Wait()
}
