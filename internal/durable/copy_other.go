//go:build !linux

package durable

import "os"

// reflink is left to io.Copy: APFS clones only by path, to a name that must not exist yet.
func reflink(_, _ *os.File) bool { return false }
