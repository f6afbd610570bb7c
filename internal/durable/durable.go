// Package durable is the only writer of files outside git's object store: live logs, locks, the
// folders of worktrees and clean rooms, and copies for them. Every function that changes the disk
// calls fault.At first and returns its error unchanged.
//
// Errors are those of package os, except that a file system which takes no more writes (full, over
// quota, read-only) is a *DiskError. Writes to a returned *os.File give package os's errors. All
// functions may be called concurrently; two calls on one path have the outcome of one of them.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/git-spot/git-spot/internal/fault"
	"github.com/git-spot/git-spot/schemas"
)

// DiskError says that a file system takes no more writes: it is full, over quota or read-only.
// Freeing space and trying again can help. What was there before the call still is, unless the
// function says otherwise.
type DiskError struct {
	Path string
	Err  error // wraps ENOSPC, EDQUOT or EROFS
}

func (e *DiskError) Error() string { return fmt.Sprintf("write %q: %v", e.Path, errno(e.Err)) }

// Unwrap returns the cause.
func (e *DiskError) Unwrap() error { return e.Err }

// Code returns DISK_FULL.
func (e *DiskError) Code() schemas.Code { return schemas.CodeDiskFull }

func errno(err error) error {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return err
}

func disk(path string, err error) error {
	if _, already := errors.AsType[*DiskError](err); already {
		return err
	}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		if errors.Is(err, full) {
			return &DiskError{Path: path, Err: err}
		}
	}
	return err
}

// WriteFile makes path a regular file with exactly data and perm, whatever the umask. It writes a
// file ".git-spot-tmp-*" beside it, syncs it, renames it and syncs the folder: whenever the process
// or the machine stops, path holds the old or the new content, never a mix, and at most the other
// file is left behind. A symbolic link at path is replaced, not followed.
func WriteFile(path string, data []byte, perm fs.FileMode) (err error) {
	if err := fault.At(fault.FileWrite, path); err != nil {
		return err
	}
	defer func() { err = disk(path, err) }()
	f, err := os.CreateTemp(filepath.Dir(path), ".git-spot-tmp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(perm)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(filepath.Dir(path))
}

// Replace is WriteFile for a path where somebody may have put a folder: that is removed.
func Replace(path string, data []byte, perm fs.FileMode) error {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		if err := RemoveAll(path); err != nil {
			return err
		}
	}
	return WriteFile(path, data, perm)
}

// Create creates path for reading and writing. It fails with fs.ErrExist if anything is there, also
// a dangling symbolic link.
func Create(path string, perm fs.FileMode) (*os.File, error) {
	if err := fault.At(fault.FileWrite, path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, perm)
	return f, disk(path, err)
}

// Append opens path for appending and for reading what it has, and creates it if nothing is there. It
// refuses what is not a regular file: a symbolic link, a FIFO.
func Append(path string, perm fs.FileMode) (*os.File, error) {
	if err := fault.At(fault.FileWrite, path); err != nil {
		return nil, err
	}
	// O_NONBLOCK: opening a FIFO would wait for a reader.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, disk(path, err)
	}
	return regular(f)
}

// Open opens the file path for reading, where others may have put something else in its place: what is
// not a regular file, also a symbolic link to one, is fs.ErrInvalid.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO): // a link, a socket
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	case nothingThere(err):
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	case err != nil:
		return nil, err
	}
	return regular(f)
}

// regular returns f, or closes it if it is not a regular file.
func regular(f *os.File) (*os.File, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: fs.ErrInvalid}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Mkdir creates the folder path. It fails with fs.ErrExist if anything is there.
func Mkdir(path string, perm fs.FileMode) error {
	if err := fault.At(fault.FolderMake, path); err != nil {
		return err
	}
	return disk(path, os.Mkdir(path, perm))
}

// MkdirAll creates the folder path and those above it that are missing. It is not synced.
func MkdirAll(path string, perm fs.FileMode) error {
	if err := fault.At(fault.FolderMake, path); err != nil {
		return err
	}
	return disk(path, os.MkdirAll(path, perm))
}

// Folder is MkdirAll for a path where somebody may have put something else: that is removed. A symbolic
// link to a folder is one.
func Folder(path string, perm fs.FileMode) error {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		if _, err := os.Lstat(path); err == nil {
			if err := RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return MkdirAll(path, perm)
}

// MkdirTemp creates a folder with a new name in dir, with mode 0700, and returns its path. Pattern is
// that of os.MkdirTemp. The caller removes it.
func MkdirTemp(dir, pattern string) (string, error) {
	if err := fault.At(fault.FolderMake, filepath.Join(dir, pattern)); err != nil {
		return "", err
	}
	path, err := os.MkdirTemp(dir, pattern)
	return path, disk(dir, err)
}

// Rename moves oldPath to newPath on the same file system, replaces a file there, and syncs the
// folders of both. If only the sync fails, the file has moved.
func Rename(oldPath, newPath string) error {
	if err := fault.At(fault.FileRename, newPath); err != nil {
		return err
	}
	if err := os.Rename(oldPath, newPath); err != nil {
		return disk(newPath, err)
	}
	err := syncFolder(filepath.Dir(newPath))
	if filepath.Dir(oldPath) != filepath.Dir(newPath) {
		err = errors.Join(err, syncFolder(filepath.Dir(oldPath)))
	}
	return disk(newPath, err)
}

// Symlink creates path as a symbolic link to target. It fails with fs.ErrExist if anything is there.
func Symlink(target, path string) error {
	if err := fault.At(fault.FileWrite, path); err != nil {
		return err
	}
	return disk(path, os.Symlink(target, path))
}

// Remove removes the file or empty folder path; a symbolic link itself. It is no error if nothing is
// there.
func Remove(path string) error {
	if err := fault.At(fault.FileRemove, path); err != nil {
		return err
	}
	if err := os.Remove(path); !nothingThere(err) {
		return disk(path, err)
	}
	return nil
}

// nothingThere reports whether err says that there is nothing at a path, also because something above it is
// no folder.
func nothingThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // Some network file systems cannot sync a folder; they are durable or not by themselves.
	}
	return errors.Join(err, f.Close())
}
