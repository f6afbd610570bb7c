//go:build !linux

package worktree_test

import (
	"os"
	"testing"
)

// readOnlyFolder is a folder that this process cannot write to.
func readOnlyFolder(t *testing.T) string {
	t.Helper()
	dir := tempDir(t)
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		t.Skip("root can write to any folder")
	}
	return dir
}
