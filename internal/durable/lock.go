package durable

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/git-spot/git-spot/internal/fault"
)

// ErrLocked is returned by TryLock when another process, or another Lock of this one, holds the lock.
var ErrLocked = errors.New("locked by another process")

// Lock is an exclusive flock. The kernel drops it when the last copy of its descriptor is closed, in
// this process and in those that inherited it, however they end.
type Lock struct{ f *os.File }

// TryLock takes the lock on the file path, which it creates if needed and never removes, without
// waiting. It returns ErrLocked if the lock is held. The file's content means nothing. What is at path
// and no regular file can be nobody's lock, and is removed.
func TryLock(path string) (*Lock, error) {
	if err := fault.At(fault.LockTake, path); err != nil {
		return nil, err
	}
	for {
		if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
			if err := RemoveAll(path); err != nil {
				return nil, err
			}
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, disk(path, err)
		}
		err = flock(f)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %q: %w", path, err), f.Close())
		}
		// Somebody may have replaced the file between open and flock; a lock on it would exclude nobody.
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if now, err := os.Lstat(path); err == nil && os.SameFile(mine, now) {
			return &Lock{f: f}, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// File is the descriptor that holds the lock, for proc.WithLock. It stays the Lock's.
func (l *Lock) File() *os.File { return l.f }

// Unlock closes this process's descriptor. The lock is free once the children that inherited it have
// ended as well. A second call returns os.ErrClosed.
func (l *Lock) Unlock() error {
	// Not LOCK_UN: that would free it under the children.
	return l.f.Close()
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
