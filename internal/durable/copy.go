package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/git-spot/git-spot/internal/fault"
)

// CopyTree copies the file, symbolic link or folder src to dst, which must not exist and whose parent
// must. Nothing is shared that a write could reach: files share blocks by reflink where the file
// system can, else are copied; hard links become separate files; symbolic links are copied as links,
// whatever they point to. Permission bits and modification times of files and folders are kept,
// owners are not; sockets, FIFOs and devices are left out. It is not synced. On an error dst holds
// what was copied so far, for the caller to remove.
func CopyTree(src, dst string) error {
	if err := fault.At(fault.FileWrite, dst); err != nil {
		return err
	}
	return disk(dst, (&copier{}).copy(src, dst))
}

type copier struct{ root fs.FileInfo }

func (c *copier) copy(src, dst string) error {
	info, err := os.Lstat(src)
	if err != nil {
		return err
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		return c.folder(src, dst, info)
	case fs.ModeSymlink:
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		return os.Symlink(target, dst)
	case 0:
		return copyFile(src, dst)
	}
	return nil
}

func (c *copier) folder(src, dst string, info fs.FileInfo) error {
	// Writable for us until its content is there.
	if err := os.Mkdir(dst, 0o700); err != nil {
		return err
	}
	made, err := os.Lstat(dst)
	if err != nil {
		return err
	}
	if c.root == nil {
		c.root = made
	}
	entries, err := os.ReadDir(src)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		from := filepath.Join(src, entry.Name())
		if child, err := entry.Info(); err == nil && os.SameFile(child, c.root) {
			return fmt.Errorf("copy to %q: it is inside what is copied", from)
		}
		if err := c.copy(from, filepath.Join(dst, entry.Name())); err != nil {
			return err
		}
	}
	if err := os.Chmod(dst, info.Mode().Perm()); err != nil {
		return err
	}
	return os.Chtimes(dst, info.ModTime(), info.ModTime())
}

func copyFile(src, dst string) (err error) {
	from, err := Open(src) // it may have become a FIFO since it was looked at
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if !reflink(from, to) {
		if _, err := io.Copy(to, from); err != nil {
			return err
		}
	}
	if err := to.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	return os.Chtimes(dst, info.ModTime(), info.ModTime())
}
