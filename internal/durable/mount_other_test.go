//go:build !linux

package durable_test

import "testing"

func mountTmpfs(t *testing.T, _, _ string) {
	t.Helper()
	t.Skip("needs a tmpfs")
}
