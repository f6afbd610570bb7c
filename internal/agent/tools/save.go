package tools

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// save makes path a file with exactly data. perm nil is what the umask leaves of a new file. Whenever
// the process stops, path holds the old or the new content. What is written meanwhile has a name that
// begins with tempPrefix, in the top folder, where the next Open finds it if this process is killed.
func (s *Set) save(name string, data []byte, perm *fs.FileMode) error {
	if err := s.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return folders(name, err)
	}
	temp := tempPrefix + rand.Text()
	err := s.saveBy(temp, name, data, perm)
	if errors.Is(err, syscall.EXDEV) { // a mount in the folder
		err = s.saveBy(join(path.Dir(name), temp), name, data, perm)
	}
	return err
}

func (s *Set) saveBy(temp, name string, data []byte, perm *fs.FileMode) error {
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return full(name, err)
	}
	_, err = f.Write(data)
	if err == nil && perm != nil {
		err = f.Chmod(*perm)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(full(name, err), s.root.Remove(temp))
	}
	return nil
}

// full says what kept a file from being written.
func full(name string, err error) error {
	if e, ok := errors.AsType[syscall.Errno](err); ok && !errors.Is(err, syscall.EXDEV) {
		return failed("%s was not written and is as it was: %v.", show(name), e)
	}
	return err
}

func folders(name string, err error) error {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return failed("the folder of %s could not be made: %v.", show(name), e)
	}
	return err
}

// sweep removes what save left in the top folder when it was killed.
func (s *Set) sweep() error {
	d, err := s.root.Open(".")
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(-1)
	err = errors.Join(err, d.Close())
	for _, e := range entries {
		if isTemp(e.Name()) && e.Type().IsRegular() {
			err = errors.Join(err, s.root.Remove(e.Name()))
		}
	}
	return err
}
