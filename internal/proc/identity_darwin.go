package proc

import "golang.org/x/sys/unix"

func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// pidNamespace is constant: macOS has one.
func pidNamespace() (string, error) { return "darwin", nil }
