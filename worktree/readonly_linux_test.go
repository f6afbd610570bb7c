package worktree_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// readOnlyFolder is a folder that this process cannot write to, root or not.
func readOnlyFolder(t *testing.T) string {
	t.Helper()
	dir := tempDir(t)
	if os.Geteuid() != 0 {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "size=64k"); err != nil {
		t.Skipf("root may not mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
