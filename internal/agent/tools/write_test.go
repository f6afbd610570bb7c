package tools_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/git-spot/git-spot/internal/agent/tools"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	mode := func(dir, name string) fs.FileMode {
		t.Helper()
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	dir, s := tree(t, map[string]string{
		"crlf": "a\r\nb\r\n", "mixed": "a\r\nb\n", "bom": "\ufeffa\n", "script": "#!\n", "plain": "x\n", "sub/full/x": "x\n", "bin": "\x00\r\n",
	})
	if err := os.Chmod(filepath.Join(dir, "script"), 0o750); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ arguments, says, path, content string }{
		{`{"path":"new","content":"a\nb\n"}`, "created new (2 lines, 4 bytes)", "new", "a\nb\n"},
		{`{"path":"deep/er/new","content":"a"}`, "created deep/er/new (1 line, 1 byte, no newline at the end)", "deep/er/new", "a"},
		{`{"path":"void","content":""}`, "created void (0 lines, 0 bytes)", "void", ""},
		{`{"path":"plain","content":"y\n"}`, "replaced plain (1 line, 2 bytes)", "plain", "y\n"},
		{`{"path":"plain","content":"y\n"}`, "exactly this content already", "plain", "y\n"},
		{`{"path":"crlf","content":"c\nd\n"}`, "kept CRLF line endings", "crlf", "c\r\nd\r\n"},
		{`{"path":"crlf","content":"c\nd\n"}`, "exactly this content already", "crlf", "c\r\nd\r\n"},
		{`{"path":"crlf","content":"c\r\nd\n"}`, "replaced crlf (2 lines, 5 bytes)", "crlf", "c\r\nd\n"},
		{`{"path":"mixed","content":"c\nd\n"}`, "replaced mixed (2 lines, 4 bytes)", "mixed", "c\nd\n"},
		{`{"path":"bom","content":"b\n"}`, "kept the byte order mark", "bom", "\ufeffb\n"},
		{`{"path":"bom","content":"\ufeffc\n"}`, "replaced bom (1 line, 5 bytes)", "bom", "\ufeffc\n"},
		{`{"path":"script","content":"#!/bin/sh\n"}`, "replaced script", "script", "#!/bin/sh\n"},
		{`{"path":"new.sh","content":"#!/bin/sh\n","executable":true}`, "created new.sh", "new.sh", "#!/bin/sh\n"},
	} {
		want(t, call(t, s, "write", c.arguments), "ok", c.says)
		if got := content(t, dir, c.path); got != c.content {
			t.Errorf("%s: the file has %q", c.arguments, got)
		}
	}
	if got := mode(dir, "script"); got != 0o750 {
		t.Errorf("the mode of a script became %v", got)
	}
	if got := mode(dir, "new.sh"); got&0o111 == 0 {
		t.Errorf("the mode of a new script is %v", got)
	}
	if got := mode(dir, "new"); got&0o111 != 0 || got&0o200 == 0 {
		t.Errorf("the mode of a new file is %v", got)
	}
	want(t, call(t, s, "write", `{"path":"new.sh","content":"#!/bin/sh\n","executable":false}`), "ok", "replaced")
	if got := mode(dir, "new.sh"); got&0o111 != 0 {
		t.Errorf("the mode of what is no script any more is %v", got)
	}

	want(t, call(t, s, "write", `{"path":"sub","content":"x"}`), "error", "sub is a folder")
	want(t, call(t, s, "write", `{"path":".","content":"x"}`), "denied", "top folder itself")
	want(t, call(t, s, "write", `{"path":"plain/x","content":"x"}`), "error", "plain is not a folder")
	want(t, call(t, s, "write", `{"path":"sub","delete":true}`), "error", "sub is not empty")
	want(t, call(t, s, "write", `{"path":".","delete":true}`), "denied", "top folder itself")
	want(t, call(t, s, "write", `{"path":"sub/full/x","delete":true}`), "ok", "deleted sub/full/x")
	want(t, call(t, s, "write", `{"path":"sub/full","delete":true}`), "ok", "deleted the empty folder sub/full")
	want(t, call(t, s, "write", `{"path":"sub/","delete":true}`), "ok", "deleted the empty folder sub")
	want(t, call(t, s, "write", `{"path":"sub","delete":true}`), "error", "there is no sub")
	want(t, call(t, s, "write", `{"path":"bin","delete":true,"content":""}`), "ok", "deleted bin")
	for _, gone := range []string{"sub", "bin"} {
		if _, err := os.Lstat(filepath.Join(dir, gone)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", gone, err)
		}
	}
	if got := mode(dir, "plain/../plain"); !got.IsRegular() {
		t.Errorf("plain is %v", got)
	}
	nothingLeft(t, dir)
}

// TestOpenRemovesWhatWasLeft, and nothing else.
func TestOpenRemovesWhatWasLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, ".git-spot-tmp-ABC", "half\n")
	put(t, dir, "sub/.git-spot-tmp-ABC/x", "a folder\n")
	put(t, dir, ".git-spot-tmp/x", "another\n")
	s := open(t, dir)
	want(t, call(t, s, "find", `{"pattern":".git-spot*"}`), "ok", ".git-spot-tmp/\n")
	if _, err := os.Lstat(filepath.Join(dir, ".git-spot-tmp-ABC")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if content(t, dir, "sub/.git-spot-tmp-ABC/x") == "" {
		t.Error("too much was removed")
	}
}

func init() {
	children["write"] = func(dir string) error {
		s, err := tools.Open(dir, false)
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			text := strings.Repeat(string("ab"[i%2]), 1<<18)
			call := tools.Call{Name: "write", Arguments: fmt.Appendf(nil, `{"path":"f","content":%q}`, text)}
			if r := s.Run(context.Background(), []tools.Call{call})[0]; r.Status != tools.StatusOK {
				return errors.New(r.Text)
			}
			fmt.Println(i)
		}
	}
	children["full"] = func(dir string) error {
		s, err := tools.Open(dir, false)
		if err != nil {
			return err
		}
		signal.Ignore(syscall.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1000, Max: 1000}); err != nil {
			return err
		}
		for _, arguments := range []string{`{"path":"f","content":%q}`, `{"path":"new","content":%q}`, `{"path":"f","edits":[{"oldText":"old","newText":%q}]}`} {
			call := tools.Call{Name: "write", Arguments: fmt.Appendf(nil, arguments, strings.Repeat("x", 5000))}
			if strings.Contains(arguments, "edits") {
				call.Name = "edit"
			}
			r := s.Run(context.Background(), []tools.Call{call})[0]
			if r.Status != tools.StatusError || !strings.Contains(r.Text, "was not written and is as it was: file too large") {
				return fmt.Errorf("%s: %s", r.Status, r.Text)
			}
		}
		return nil
	}
}

// TestKilledWhileWriting: the file has the old or the new content, and the next Open removes the rest.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	for n := range 5 {
		dir := t.TempDir()
		put(t, dir, "f", strings.Repeat("a", 1<<18))
		c := child(t, "write", dir)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 3 + n { // the more lines, the longer it has run, the later in a write it is killed
			if !lines.Scan() {
				t.Fatal("the writer stopped")
			}
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // it was killed
		got := content(t, dir, "f")
		if len(got) != 1<<18 || strings.Trim(got, got[:1]) != "" {
			t.Errorf("the file has %d bytes, of more than one writing", len(got))
		}
		open(t, dir)
		nothingLeft(t, dir)
	}
}

// TestFullDisk: a write that fails changes nothing and leaves nothing.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "f", "old\n")
	if out, err := child(t, "full", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := content(t, dir, "f"); got != "old\n" {
		t.Errorf("the file has %q", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}
