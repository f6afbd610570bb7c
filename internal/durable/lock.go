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
type Lock struct {
	f        *os.File
	handedOn bool
}

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
		err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
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
func (l *Lock) File() *os.File {
	l.handedOn = true
	return l.f
}

// Unlock closes this process's descriptor. The lock is free once the children that inherited it by File have
// ended as well; at once if nobody asked for File. A second call returns os.ErrClosed.
func (l *Lock) Unlock() error {
	var err error
	if !l.handedOn {
		// A child that this process is starting at this moment has a copy until it executes its program. With
		// File it may be meant to.
		err = flock(l.f, syscall.LOCK_UN)
	}
	return errors.Join(err, l.f.Close())
}

func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = conn.Control(func(fd uintptr) {
		for {
			if locked = syscall.Flock(int(fd), how); !errors.Is(locked, syscall.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, locked)
}
