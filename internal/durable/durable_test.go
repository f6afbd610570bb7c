package durable_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/git-spot/git-spot/internal/durable"
)

// helperArg makes the test binary write files or hold a lock until it is killed.
const helperArg = "__helper"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == helperArg {
		os.Exit(helpers[os.Args[2]](os.Args[3]))
	}
	os.Exit(m.Run())
}

var helpers = map[string]func(path string) int{
	"write": func(path string) int {
		for i := 0; ; i++ {
			if err := durable.WriteFile(path, content(i), 0o644); err != nil {
				fmt.Println(err)
				return 1
			}
			if i == 0 {
				fmt.Println("ready")
			}
		}
	},
	"lock": func(path string) int {
		lock, err := durable.TryLock(path)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("ready")
		time.Sleep(time.Hour) // until killed; a blocked main alone is a deadlock to Go's runtime
		runtime.KeepAlive(lock)
		return 0
	},
}

// content number i; no two are the same length.
func content(i int) []byte {
	return bytes.Repeat([]byte{'a' + byte(i%20)}, 10_000+i%20*5_000)
}

// started runs a helper until it says that it is ready.
func started(t *testing.T, helper, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, helperArg, helper, path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil || string(line) != "ready\n" {
		t.Fatalf("helper: got %q, %v", line, err)
	}
	return cmd
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func write(t *testing.T, path, text string, perm fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), perm); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, path, text string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("%s: got %q, %v, want %q", path, got, err, text)
	}
}

func missing(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there: %v", path, err)
	}
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("n", 255))
	for _, test := range []struct {
		text string
		perm fs.FileMode
	}{{"one", 0o644}, {"", 0o600}, {"three", 0o666}} {
		if err := durable.WriteFile(path, []byte(test.text), test.perm); err != nil {
			t.Fatal(err)
		}
		wantFile(t, path, test.text)
		if info, err := os.Stat(path); err != nil || info.Mode() != test.perm {
			t.Errorf("got %v, %v, want %v", info.Mode(), err, test.perm)
		}
	}

	victim := filepath.Join(dir, "victim")
	write(t, victim, "untouched", 0o600)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFile(t, victim, "untouched")
	if info, err := os.Lstat(link); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the link was not replaced: %v, %v", info, err)
	}

	folder := filepath.Join(dir, "folder")
	write(t, filepath.Join(folder, "file"), "", 0o600)
	if err := durable.WriteFile(folder, nil, 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if err := durable.WriteFile(filepath.Join(dir, "no", "such"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder missing: got %v", err)
	}
	if got := names(t, dir); len(got) != 4 {
		t.Errorf("left behind: %q", got)
	}
}

func TestWriteFileIsKilled(t *testing.T) {
	t.Parallel()
	for i := range 15 {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		cmd := started(t, "write", path)
		time.Sleep(time.Duration(i) * time.Millisecond) // another instant each time
		kill(t, cmd)
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole := false
		for k := range 20 {
			whole = whole || bytes.Equal(got, content(k))
		}
		if !whole {
			t.Errorf("torn: %d bytes, %.10q...", len(got), got)
		}
		for _, name := range names(t, dir) {
			if name != "file" && !strings.HasPrefix(name, ".git-spot-tmp-") {
				t.Errorf("left behind: %q", name)
			}
		}
		if n := len(names(t, dir)); n > 2 {
			t.Errorf("left behind: %q", names(t, dir))
		}
	}
}

func TestCreateAndAppend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "target"), dangling); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}

	f, err := durable.Create(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("created\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, there := range []string{path, dangling, fifo, dir} {
		if _, err := durable.Create(there, 0o600); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Create(%s): got %v", there, err)
		}
	}
	for range 2 {
		f, err := durable.Append(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("more\n"); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantFile(t, path, "created\nmore\nmore\n")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{dangling, link, fifo, dir} {
		if f, err := durable.Append(bad, 0o600); err == nil {
			t.Errorf("Append(%s): got %v", bad, f.Name())
		}
		if f, err := durable.Open(bad); f != nil || !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Open(%s): got %v", bad, err)
		}
	}
	missing(t, filepath.Join(dir, "target"))
	if _, err := durable.Open(filepath.Join(dir, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of nothing: got %v", err)
	}
	if f, err = durable.Open(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Files of ours lie where a worker can put something in their place.
func TestInHostilePlaces(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"nothing": func(string) error { return nil },
		"file":    func(path string) error { return os.WriteFile(path, []byte("old"), 0o600) },
		"folder": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "x"), nil, 0o600))
		},
		"FIFO":            func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link to nowhere": func(path string) error { return os.Symlink("/nowhere/at/all", path) },
		"link to a file":  func(path string) error { return os.Symlink("other", path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			other := filepath.Join(dir, "other")
			if err := os.WriteFile(other, []byte("other"), 0o600); err != nil {
				t.Fatal(err)
			}
			at := func(name string) string {
				path := filepath.Join(dir, name)
				if err := put(path); err != nil {
					t.Fatal(err)
				}
				return path
			}
			var want error = fs.ErrInvalid
			switch name {
			case "nothing":
				want = fs.ErrNotExist
			case "file":
				want = nil
			}
			data, err := durable.ReadFile(at("read"), 2)
			if !errors.Is(err, want) || want == nil && string(data) != "ol" {
				t.Errorf("ReadFile: %q, %v, want %v", data, err, want)
			}
			path := at("write")
			if err := durable.Replace(path, []byte("new"), 0o600); err != nil {
				t.Error(err)
			}
			if data, err := durable.ReadFile(path, 100); string(data) != "new" {
				t.Errorf("after Replace: %q, %v", data, err)
			}
			path = at("lock")
			if lock, err := durable.TryLock(path); err != nil {
				t.Error(err)
			} else if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
			path = at("folder")
			if err := durable.Folder(path, 0o700); err != nil {
				t.Error(err)
			}
			if info, err := os.Lstat(path); err != nil || !info.IsDir() {
				t.Errorf("after Folder: %v, %v", info, err)
			}
			if data, err := os.ReadFile(other); string(data) != "other" {
				t.Errorf("another file is %q, %v", data, err)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(file, "x")
	if _, err := durable.Open(below); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open below a file: %v", err)
	}
	if err := errors.Join(durable.Remove(below), durable.RemoveAll(below)); err != nil {
		t.Errorf("removal below a file: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(file), link); err != nil {
		t.Fatal(err)
	}
	if err := durable.Folder(link, 0o700); err != nil {
		t.Error(err)
	}
	if _, err := os.Readlink(link); err != nil {
		t.Errorf("Folder replaced a link to a folder: %v", err)
	}
}

func TestRenameAndRemove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "sub", "b")
	write(t, a, "new", 0o600)
	write(t, b, "old", 0o600)
	if err := durable.Rename(a, b); err != nil {
		t.Fatal(err)
	}
	missing(t, a)
	wantFile(t, b, "new")
	if err := durable.Rename(a, b); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing to rename: got %v", err)
	}
	if err := durable.Remove(filepath.Dir(b)); err == nil {
		t.Error("a folder with a file in it was removed")
	}
	for range 2 {
		if err := durable.Remove(b); err != nil {
			t.Error(err)
		}
	}
	missing(t, b)
}

func TestFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b")
	if err := durable.Mkdir(path, 0o700); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Mkdir without parent: got %v", err)
	}
	for range 2 {
		if err := durable.MkdirAll(path, 0o700); err != nil {
			t.Error(err)
		}
	}
	if err := durable.Mkdir(path, 0o700); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Mkdir again: got %v", err)
	}
	made, err := durable.MkdirTemp(path, "room-*")
	if err != nil || filepath.Dir(made) != path {
		t.Errorf("got %q, %v", made, err)
	}
}

func TestTryLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	cmd := started(t, "lock", path)
	if _, err := durable.TryLock(path); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("held by another process: got %v", err)
	}
	kill(t, cmd)
	lock, err := durable.TryLock(path)
	if err != nil {
		t.Fatalf("its holder was killed: %v", err)
	}
	if _, err := durable.TryLock(path); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("held by this process: got %v", err)
	}

	// A child that has the descriptor holds the lock alone.
	child := exec.CommandContext(t.Context(), "/bin/sh", "-c", "read x")
	child.ExtraFiles = []*os.File{lock.File()}
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.TryLock(path); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("inherited: got %v", err)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	lock, err = durable.TryLock(path)
	if err != nil {
		t.Fatalf("the last holder ended: %v", err)
	}

	// Who removes the file frees its name, not the lock on the old file.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	again, err := durable.TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Unlock(), again.Unlock()); err != nil {
		t.Fatal(err)
	}
	if err := again.Unlock(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second Unlock: got %v", err)
	}

	link := path + "-link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	lock, err = durable.TryLock(link)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock() //nolint:errcheck // the test ends
	if info, err := os.Lstat(link); err != nil || !info.Mode().IsRegular() {
		t.Errorf("a symbolic link was followed: %v, %v", info, err)
	}
}
