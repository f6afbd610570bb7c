package tools_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/agent/tools"
)

const gigabyte = 1 << 30

// hugeFiles makes files that are long by holes: 2 GB of NUL, a text and then NUL, and 1 GB whose only
// lines are at both ends.
func hugeFiles(t *testing.T, dir string) {
	t.Helper()
	put(t, dir, "holes", "")
	put(t, dir, "head", strings.Repeat("a line of text\n", 10_000))
	put(t, dir, "tail", strings.Repeat("a line of text\n", 10_000))
	put(t, dir, "lines", strings.Repeat(strings.Repeat("x", 1_000_000)+"\n", 10))
	for name, size := range map[string]int64{"holes": 2 * gigabyte, "head": 2 * gigabyte, "tail": gigabyte} {
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, "tail"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\nthe last line\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func init() {
	children["huge"] = func(dir string) error {
		s, err := tools.Open(dir, false)
		if err != nil {
			return err
		}
		var calls []tools.Call
		var says []string
		for _, c := range []struct{ tool, arguments, says string }{
			{"read", `{"path":"holes"}`, "holes is not text that these tools can show or edit: application/octet-stream, 2147483648 bytes"},
			{"read", `{"path":"head","limit":3}`, "[lines 1-3 of at least "},
			{"read", `{"path":"head","offset":9999}`, "line 10001 has 2147333648 bytes and is cut"},
			{"read", `{"path":"tail","offset":10001}`, "10002\tthe last line\n[lines 10001-10002 of 10002. line 10001 has "},
			{"read", `{"path":"lines"}`, "[lines 1-10 of 10. line 10 has 1000000 bytes and is cut at …"},
			{"grep", `{"pattern":"last|text$","limit":2000}`, "the first "},
			{"grep", `{"pattern":"last"}`, "no match in 3 files. skipped 3 binary files"},
			{"grep", `{"pattern":"x$","path":"lines","filesOnly":true}`, "lines\n"},
			{"grep", `{"pattern":"x","path":"holes"}`, "skipped 1 binary file"},
			{"grep", `{"pattern":"y"}`, "no match in 3 files"},
			{"find", `{"pattern":"**"}`, "holes\nlines\ntail\n"},
			{"ls", `{}`, "2147483648 holes"},
			{"edit", `{"path":"head","edits":[{"oldText":"a","newText":"b"}]}`, "has 2147483648 bytes, and edit takes files of at most 8388608"},
			{"edit", `{"path":"holes","moveTo":"moved"}`, "moved holes to moved"},
			{"write", `{"path":"moved","content":"x\n"}`, "replaced moved"},
			{"write", `{"path":"full","content":"` + strings.Repeat(`a\n`, 4<<20) + `"}`, "created full"},
			{"edit", `{"path":"full","edits":[{"oldText":"b","newText":"c"}]}`, "nor is anything like it"},
			{"edit", `{"path":"full","edits":[{"oldText":"a\n","newText":"c","all":true}]}`, "more than 10000 places"},
		} {
			calls = append(calls, tools.Call{Name: c.tool, Arguments: []byte(c.arguments)})
			says = append(says, c.says)
		}
		for i, r := range s.Run(context.Background(), calls) {
			// Two gigabytes take longer than a call may on a busy machine; that they end is as good an answer.
			slow := strings.Contains(r.Text, "took too long") || strings.Contains(r.Text, "stopped after ")
			if !strings.Contains(r.Text, says[i]) && !slow {
				err = errors.Join(err, fmt.Errorf("%s %.80s: %q is not in %.300q … %q", r.Name, calls[i].Arguments, says[i], r.Text, r.Text[max(0, len(r.Text)-300):]))
			}
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Println(m.Sys >> 20) // what was ever taken, and not what the race detector takes beside it
		return err
	}
}

// TestMemory: files of 2 GB and answers of the largest size, all at the same time.
func TestMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hugeFiles(t, dir)
	c := child(t, "huge", dir)
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, complaints.String())
	}
	var mebibytes int
	if _, err := fmt.Sscan(string(out), &mebibytes); err != nil {
		t.Fatal(err)
	}
	t.Logf("peak: %d MiB", mebibytes)
	if mebibytes > 256 {
		t.Errorf("the process has taken %d MiB", mebibytes)
	}
}
