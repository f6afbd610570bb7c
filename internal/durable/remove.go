package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/git-spot/git-spot/internal/fault"
)

const (
	// hoistDepth is how deep removal recurses, holding one descriptor a level, before it moves what is
	// deeper to the top. A worker can nest folders further than descriptors or paths reach.
	hoistDepth = 64
	// unlinkSpares says that unlink never takes a folder, so that nobody need look first whether it is one. On
	// macOS it may, for root.
	unlinkSpares = runtime.GOOS == "linux"
	// maxProblems is how many failures of one removal are reported.
	maxProblems = 8
)

// RemoveAll removes path and everything under it. It never follows a symbolic link (only the last
// component of path and what is under it count; links above are the caller's), opens read-only
// folders up, reaches any depth, and does not enter another file system: a mount point is left and
// reported. It goes on after a failure, so that one bad file does not keep the rest, and joins the first failures.
// It is no error if nothing is there.
func RemoveAll(path string) error {
	if err := fault.At(fault.FileRemove, path); err != nil {
		return err
	}
	path = filepath.Clean(path)
	if path == "." || path == ".." || path == "/" {
		return fmt.Errorf("remove %q: refused", path)
	}
	parent, name := filepath.Split(path)
	if parent == "" {
		parent = "."
	}
	if info, err := os.Stat(parent); nothingThere(err) || err == nil && !info.IsDir() {
		return nil
	}
	top, err := os.Open(parent)
	if nothingThere(err) {
		return nil
	}
	if err != nil {
		return err
	}
	r := remover{path: path}
	r.remove(top, name, 0)
	return disk(path, errors.Join(append(r.problems, top.Close())...))
}

type remover struct {
	path     string
	device   uint64
	root     *os.File // the folder at path
	hoisted  bool     // deep folders were moved into root since it was read
	problems []error
	failed   int
}

func (r *remover) fail(op, name string, err error) {
	if r.failed++; r.failed <= maxProblems {
		r.problems = append(r.problems, fmt.Errorf("remove %q: %s %q: %w", r.path, op, name, err))
	}
}

// remove removes name in dir. Names, not paths: nothing that is renamed or replaced meanwhile can lead
// out of the tree.
func (r *remover) remove(dir *os.File, name string, depth int) {
	fd := int(dir.Fd())
	if unlinkSpares {
		if err := ignoreEINTR(func() error { return unix.Unlinkat(fd, name, 0) }); err == nil || errors.Is(err, unix.ENOENT) {
			return
		}
	}
	var stat unix.Stat_t
	err := ignoreEINTR(func() error { return unix.Fstatat(fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW) })
	if errors.Is(err, unix.ENOENT) {
		return
	}
	if err != nil {
		r.fail("stat", name, err)
		return
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		r.unlink(fd, name, 0)
		return
	}
	if depth == 0 {
		r.device = uint64(stat.Dev) //nolint:unconvert // int32 on macOS
	} else if uint64(stat.Dev) != r.device { //nolint:unconvert // int32 on macOS
		r.fail("enter", name, errors.New("another file system is mounted here"))
		return
	}
	if stat.Mode&unix.S_IRWXU != unix.S_IRWXU {
		err := unix.Fchmodat(fd, name, unix.S_IRWXU, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
			err = unix.Fchmodat(fd, name, unix.S_IRWXU, 0) // before Linux 6.6
		}
		if err != nil {
			r.fail("open up", name, err)
		}
	}
	if depth > hoistDepth {
		// A name that the tree cannot hold already.
		if err := unix.Renameat(fd, name, int(r.root.Fd()), ".git-spot-removed-"+rand.Text()); err == nil {
			r.hoisted = true
			return
		}
	}
	var child int
	err = ignoreEINTR(func() (err error) {
		child, err = unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		r.fail("open", name, err)
		return
	}
	f := os.NewFile(uintptr(child), name)
	if depth == 0 {
		r.root = f
	}
	r.removeEntries(f, depth)
	for depth == 0 && r.hoisted && r.failed == 0 {
		r.hoisted = false
		r.removeEntries(f, depth)
	}
	if err := f.Close(); err != nil {
		r.fail("close", name, err)
	}
	r.unlink(fd, name, unix.AT_REMOVEDIR)
}

func (r *remover) removeEntries(f *os.File, depth int) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		r.fail("read", f.Name(), err)
		return
	}
	// All names first: removing while reading may skip some.
	names, err := f.Readdirnames(-1)
	if err != nil {
		r.fail("read", f.Name(), err)
	}
	for i, name := range names {
		if depth == 0 && i > 0 && i == len(names)/2 {
			if err := fault.At(fault.FileRemove, filepath.Join(r.path, name)); err != nil {
				r.fail("unlink", name, err)
				return
			}
		}
		r.remove(f, name, depth+1)
	}
}

func (r *remover) unlink(fd int, name string, flags int) {
	err := ignoreEINTR(func() error { return unix.Unlinkat(fd, name, flags) })
	// A folder that is not empty holds what has been reported already.
	if err != nil && !errors.Is(err, unix.ENOENT) && (!errors.Is(err, unix.ENOTEMPTY) || r.failed == 0) {
		r.fail("unlink", name, err)
	}
}

func ignoreEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
