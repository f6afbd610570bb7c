// Package durable is the only writer of files outside git's object store: live logs, locks, the
// folders of worktrees and clean rooms, copies for them. Every function that changes the disk calls
// fault.At first and returns its error unchanged.
//
// Errors are those of package os, except that a file system which takes no more writes (full, over
// quota, read-only) is a *DiskError.
package durable

import (
	"errors"
	"io/fs"
	"os"
)

var errStub = errors.New("not written yet")

// WriteFile replaces path with data.
func WriteFile(path string, data []byte, perm fs.FileMode) error { return errStub }

// Create creates path, which must not exist, for reading and writing.
func Create(path string, perm fs.FileMode) (*os.File, error) { return nil, errStub }

// Append opens path for appending and creates it if it is not there.
func Append(path string, perm fs.FileMode) (*os.File, error) { return nil, errStub }

// Mkdir creates the folder path.
func Mkdir(path string, perm fs.FileMode) error { return errStub }

// MkdirAll creates the folder path and those above it.
func MkdirAll(path string, perm fs.FileMode) error { return errStub }

// MkdirTemp creates a new folder in dir.
func MkdirTemp(dir, pattern string) (string, error) { return "", errStub }

// Rename moves oldPath to newPath.
func Rename(oldPath, newPath string) error { return errStub }

// Remove removes one file or empty folder; it is no error if nothing is there.
func Remove(path string) error { return errStub }

// RemoveAll removes a tree.
func RemoveAll(path string) error { return errStub }

// CopyTree copies a tree.
func CopyTree(src, dst string) error { return errStub }

// ErrLocked is returned by TryLock when somebody else holds the lock.
var ErrLocked = errors.New("locked by another process")

// Lock is a held flock.
type Lock struct{ f *os.File }

// TryLock takes the lock on path.
func TryLock(path string) (*Lock, error) { return nil, errStub }

// File is the descriptor that holds the lock, for proc.WithLock.
func (l *Lock) File() *os.File { return l.f }

// Unlock closes this process's descriptor of the lock.
func (l *Lock) Unlock() error { return errStub }
