package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
)

type writeArguments struct {
	Path       string  `json:"path"`
	Content    *string `json:"content"`
	Executable *bool   `json:"executable"`
	Delete     bool    `json:"delete"`
}

func (s *Set) write(_ context.Context, in writeArguments, _ int) (string, error) {
	switch {
	case in.Delete && (in.Content != nil && *in.Content != "" || in.Executable != nil):
		return "", failed("delete and content exclude each other. Give content to write the file, or delete alone to delete it.")
	case in.Delete:
		return s.delete(in.Path)
	case in.Content == nil:
		return "", failed("the arguments lack \"content\". Give the whole new text of the file, or delete: true to delete it. To change a part of a file use edit.")
	case len(*in.Content) > maxFile:
		return "", failed("content has %d bytes and at most %d can be written.", len(*in.Content), maxFile)
	}
	p, err := s.target(in.Path)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(in.Path, "/") {
		return "", failed("%s ends in / and so names a folder. Folders are made when a file is written in them.", show(in.Path))
	}
	data := []byte(*in.Content)
	if p.info == nil {
		var perm *fs.FileMode
		if err := s.save(p.path, data, perm); err != nil {
			return "", err
		}
		if in.Executable != nil && *in.Executable {
			if err := s.chmod(p.path, true); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("created %s (%s)", show(p.path), size(data)), nil
	}
	if p.info.Mode().Type() == fs.ModeSymlink {
		return "", s.throughLink(in.Path, p.path, "")
	}
	if p.info.IsDir() {
		return "", failed("%s is a folder and is not replaced by a file. Give the path of a file.", show(p.path))
	}
	old, err := s.load(p)
	if err != nil {
		return "", err
	}
	var kept []string
	if old != nil {
		if n := bytes.Count(old, []byte("\n")); n > 0 && n == bytes.Count(old, []byte("\r\n")) && !bytes.Contains(data, []byte("\r")) {
			data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
			kept = append(kept, "CRLF line endings")
		}
		if bytes.HasPrefix(old, []byte(bom)) && !bytes.HasPrefix(data, []byte(bom)) {
			data = append([]byte(bom), data...)
			kept = append(kept, "the byte order mark")
		}
	}
	perm := p.info.Mode().Perm()
	if in.Executable != nil {
		perm = executable(perm, *in.Executable)
	}
	if old != nil && bytes.Equal(old, data) && perm == p.info.Mode().Perm() {
		return fmt.Sprintf("%s has exactly this content already; nothing was changed", show(p.path)), nil
	}
	if err := s.save(p.path, data, &perm); err != nil {
		return "", err
	}
	text := fmt.Sprintf("replaced %s (%s)", show(p.path), size(data))
	if len(kept) > 0 {
		text += "; kept " + strings.Join(kept, " and ")
	}
	return text, nil
}

// chmod makes a file that save has made executable for those who may read it, or not.
func (s *Set) chmod(path string, on bool) error {
	info, err := s.root.Lstat(path)
	if err != nil {
		return err
	}
	return s.root.Chmod(path, executable(info.Mode().Perm(), on))
}

// executable gives the right to execute to whoever may read, or takes it from all.
func executable(perm fs.FileMode, on bool) fs.FileMode {
	if on {
		return perm | perm&0o444>>2
	}
	return perm &^ 0o111
}

func size(data []byte) string {
	lines := bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return plural(lines+1, "line") + ", " + plural(len(data), "byte") + ", no newline at the end"
	}
	return plural(lines, "line") + ", " + plural(len(data), "byte")
}

// load reads the file at p, or returns nil if it is longer than maxFile.
func (s *Set) load(p place) ([]byte, error) {
	f, err := s.open(p)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, nil
	}
	return data, nil
}

// delete removes a file, a symbolic link or an empty folder.
func (s *Set) delete(name string) (string, error) {
	p, err := s.target(name)
	if err != nil {
		return "", err
	}
	if p.info == nil {
		_, err := s.lookup(name)
		if err == nil {
			err = failed("there is no %s.", show(name))
		}
		return "", err
	}
	err = s.root.Remove(p.path)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
		return "", failed("the folder %s is not empty and was not deleted. Delete what is in it first; ls shows it.", show(p.path))
	}
	if err != nil {
		return "", err
	}
	if p.info.IsDir() {
		return fmt.Sprintf("deleted the empty folder %s", show(p.path)), nil
	}
	return "deleted " + show(p.path), nil
}
