package shim_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/proc/shim"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	rest := " S 11 12 13 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 987654 1 2 3"
	want := shim.Stat{PID: 42, Parent: 11, Session: 13, Threads: 9, State: 'S', Start: 987654}
	for _, name := range []string{"sh", "a b", "a) S 1 1 (b", ")", "(", "", "new\nline"} {
		if got, ok := shim.ParseStat([]byte("42 (" + name + ")" + rest)); !ok || got != want {
			t.Errorf("%q: got %+v, %t", name, got, ok)
		}
	}
	whole := "42 (sh)" + rest
	for _, text := range []string{"", "42", "42 (sh", "42 (sh)", ") 42 (", "x (sh)" + rest, strings.Replace(whole, "11", "x", 1), "42 (sh) S 1 2 3"} {
		if got, ok := shim.ParseStat([]byte(text)); ok {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	if data, err := os.ReadFile("/proc/self/stat"); err == nil {
		f.Add(data)
	}
	f.Add([]byte("1 (a) b) S 1 2 3"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if stat, ok := shim.ParseStat(data); !ok && stat != (shim.Stat{}) {
			t.Errorf("got %+v with an error", stat)
		}
	})
}

func TestReadStat(t *testing.T) {
	t.Parallel()
	stat, err := shim.ReadStat(os.Getpid())
	if err != nil || stat.PID != os.Getpid() || stat.Parent != os.Getppid() || stat.Threads < 1 || stat.Start <= 0 {
		t.Errorf("got %+v, %v", stat, err)
	}
	if !slices.ContainsFunc(shim.Processes(), func(p shim.Stat) bool { return p.PID == stat.PID && p.Start == stat.Start }) {
		t.Error("Processes does not list this process")
	}
	if _, err := shim.ReadStat(1 << 30); err == nil {
		t.Error("no such process: no error for " + strconv.Itoa(1<<30))
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	all := []shim.Stat{
		{PID: 1},
		{PID: 2, Parent: 1},
		{PID: 3, Parent: 2, State: 'Z'},
		{PID: 4, Parent: 3},
		{PID: 5, Parent: 4},
		{PID: 6, Parent: 1},
		{PID: 7, Parent: 8},
		{PID: 8, Parent: 7}, // cannot be; must end all the same
	}
	got := shim.Below(all, func(p shim.Stat) bool { return p.PID == 2 || p.PID == 4 || p.PID == 7 })
	var pids []int
	for _, p := range got {
		pids = append(pids, p.PID)
	}
	slices.Sort(pids)
	if want := []int{2, 4, 5, 7, 8}; !slices.Equal(pids, want) {
		t.Errorf("got %v, want %v", pids, want)
	}
}
