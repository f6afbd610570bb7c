package shim

import (
	"os"
	"strconv"
	"syscall"
)

// sealListed sets close-on-exec on the descriptors from 3 up that the folder lists.
func sealListed(folder string) error {
	list, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range list {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
