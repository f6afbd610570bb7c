package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/git-spot/git-spot/internal/durable"
)

// hostile makes a tree with everything that removers and copiers stumble over.
func hostile(t *testing.T, root string) (victim string) {
	t.Helper()
	outside := t.TempDir()
	victim = filepath.Join(outside, "victim")
	write(t, victim, "untouched", 0o400)
	write(t, filepath.Join(root, "plain"), "plain", 0o600)
	write(t, filepath.Join(root, "script"), "script", 0o755)
	write(t, filepath.Join(root, "in\xffvalid \n name"), "bytes", 0o444)
	write(t, filepath.Join(root, "readonly", "deeper", "file"), "kept", 0o400)
	write(t, filepath.Join(root, "closed", "file"), "kept", 0o600)
	for link, target := range map[string]string{
		"to-folder": outside, "to-file": victim, "dangling": "no such", "loop": "loop", "up": "..",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(root, "plain"), filepath.Join(root, "hard")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"readonly/deeper", "readonly"} {
		if err := os.Chmod(filepath.Join(root, dir), 0o555); err != nil {
			t.Fatal(err)
		}
	}
	return victim
}

func TestRemoveAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	victim := hostile(t, root)
	for _, name := range []string{"closed", "."} {
		if err := os.Chmod(filepath.Join(root, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := durable.RemoveAll(root); err != nil {
		t.Error(err)
	}
	missing(t, root)
	wantFile(t, victim, "untouched")
	if info, err := os.Stat(victim); err != nil || info.Mode() != 0o400 {
		t.Errorf("the mode of a file outside changed: %v, %v", info, err)
	}

	if err := durable.RemoveAll(root); err != nil {
		t.Errorf("nothing there: got %v", err)
	}
	if err := durable.RemoveAll(filepath.Join(root, "a", "b")); err != nil {
		t.Errorf("nothing above either: got %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Dir(victim), link); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the link, and nothing
		if err := durable.RemoveAll(link + "/"); err != nil {
			t.Error(err)
		}
	}
	missing(t, link)
	wantFile(t, victim, "untouched")
	for _, path := range []string{"", ".", "..", "/", "//", "a/.."} {
		if err := durable.RemoveAll(path); err == nil {
			t.Errorf("RemoveAll(%q) was not refused", path)
		}
	}
}

func TestRemoveAllReachesAnyDepth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	// Longer than any path may be, and deeper than a process may have files.
	name := strings.Repeat("d", 50)
	for range 3000 {
		if err := at.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := at.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := at.Close(); err != nil {
			t.Fatal(err)
		}
		at = next
	}
	if err := errors.Join(at.WriteFile("file", nil, 0o600), at.Close()); err != nil {
		t.Fatal(err)
	}
	if err := durable.RemoveAll(filepath.Join(dir, name)); err != nil {
		t.Error(err)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestRemoveAllGoesOn(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "root")
	mounted := filepath.Join(root, "b", "mounted")
	write(t, filepath.Join(root, "a"), "", 0o600)
	write(t, filepath.Join(root, "c", "file"), "", 0o600)
	mountTmpfs(t, mounted, "size=64k")
	write(t, filepath.Join(mounted, "file"), "kept", 0o600)
	err := durable.RemoveAll(root)
	if err == nil || !strings.Contains(err.Error(), "another file system") || strings.Contains(err.Error(), "not empty") {
		t.Errorf("got %v", err)
	}
	wantFile(t, filepath.Join(mounted, "file"), "kept")
	missing(t, filepath.Join(root, "a"))
	missing(t, filepath.Join(root, "c"))
}

func TestCopyTree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	hostile(t, src)
	t.Cleanup(func() { _ = errors.Join(durable.RemoveAll(src), durable.RemoveAll(dst)) })
	old := time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC)
	for _, name := range []string{"plain", "closed"} {
		if err := os.Chtimes(filepath.Join(src, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := durable.CopyTree(src, dst); err != nil {
		t.Fatal(err)
	}
	count := 0
	err := filepath.WalkDir(src, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		copied := filepath.Join(dst, name)
		if name == "fifo" {
			missing(t, copied)
			return nil
		}
		count++
		want, err := entry.Info()
		if err != nil {
			return err
		}
		got, err := os.Lstat(copied)
		if err != nil {
			return err
		}
		if got.Mode() != want.Mode() || got.Size() != want.Size() && !want.IsDir() {
			t.Errorf("%q: got %v, %d bytes, want %v, %d", name, got.Mode(), got.Size(), want.Mode(), want.Size())
		}
		if want.Mode().Type() != fs.ModeSymlink && !got.ModTime().Equal(want.ModTime()) {
			t.Errorf("%q: got time %v, want %v", name, got.ModTime(), want.ModTime())
		}
		if os.SameFile(got, want) || got.Mode().IsRegular() && got.Sys().(*syscall.Stat_t).Nlink != 1 {
			t.Errorf("%q is shared", name)
		}
		return nil
	})
	if err != nil || count != 15 {
		t.Errorf("looked at %d: %v", count, err)
	}
	wantFile(t, filepath.Join(dst, "in\xffvalid \n name"), "bytes")
	if target, err := os.Readlink(filepath.Join(dst, "up")); err != nil || target != ".." {
		t.Errorf("got %q, %v", target, err)
	}

	// A write to the copy does not reach what was copied.
	write(t, filepath.Join(dst, "plain"), "changed", 0o600)
	wantFile(t, filepath.Join(src, "plain"), "plain")

	if err := durable.CopyTree(src, dst); !errors.Is(err, fs.ErrExist) {
		t.Errorf("copied over something: %v", err)
	}
	if err := durable.CopyTree(src, filepath.Join(src, "closed", "inside")); err == nil {
		t.Error("copied into itself")
	}
	if err := durable.CopyTree(filepath.Join(dir, "missing"), filepath.Join(dir, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing to copy: got %v", err)
	}
	for _, name := range []string{"plain", "to-folder"} {
		if err := durable.CopyTree(filepath.Join(src, name), filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantFile(t, filepath.Join(dir, "plain"), "plain")
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "small")
	mountTmpfs(t, dir, "size=64k")
	path := filepath.Join(dir, "file")
	if err := durable.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := func(what string, err error) {
		t.Helper()
		disk, ok := errors.AsType[*durable.DiskError](err)
		if !ok || disk.Code() != "DISK_FULL" || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	full("WriteFile", durable.WriteFile(path, make([]byte, 1<<20), 0o600))
	wantFile(t, path, "old")
	if left := names(t, dir); len(left) != 1 {
		t.Errorf("left behind: %q", left)
	}
	src := filepath.Join(t.TempDir(), "src")
	write(t, filepath.Join(src, "big"), strings.Repeat("x", 1<<20), 0o600)
	full("CopyTree", durable.CopyTree(src, filepath.Join(dir, "copy")))
	if err := durable.RemoveAll(filepath.Join(dir, "copy")); err != nil {
		t.Error(err)
	}
	wantFile(t, path, "old")
}
