package durable

import (
	"errors"
	"io"
)

// ReadFile reads the first limit bytes of what Open opens.
func ReadFile(path string, limit int64) (data []byte, err error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, limit))
}
