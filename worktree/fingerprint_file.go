package worktree

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io/fs"

	"github.com/git-spot/git-spot/internal/durable"
)

// storedFingerprint is a Fingerprint as Save writes it: gob, because names and contents are bytes.
type storedFingerprint struct {
	Common  string
	Config  map[string][]storedSetting
	Sources map[string]storedFile
	Broken  string
	Files   map[string]storedFile
	Other   map[string]string
}

type storedSetting struct{ Value, File string }

type storedFile struct {
	Mode fs.FileMode
	Data string
}

// Save writes the fingerprint to a file that only this user can read: configuration may hold secrets.
// It is for a process that goes on after this one was killed, and belongs to no ledger. A worker
// without a sandbox can write to it as it can to everything of this user's.
func (f *Fingerprint) Save(path string) error {
	s := storedFingerprint{
		Common: f.common, Config: map[string][]storedSetting{}, Sources: storeFiles(f.sources),
		Broken: f.broken, Files: storeFiles(f.files), Other: f.other,
	}
	for key, values := range f.config {
		for _, v := range values {
			s.Config[key] = append(s.Config[key], storedSetting{v.value, v.file})
		}
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s); err != nil {
		return err
	}
	return durable.Replace(path, b.Bytes(), 0o600)
}

// LoadFingerprint reads what Save wrote. The error is fs.ErrNotExist if there is nothing.
func LoadFingerprint(path string) (*Fingerprint, error) {
	file, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	var s storedFingerprint
	if err := gob.NewDecoder(file).Decode(&s); err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	f := &Fingerprint{
		common: s.Common, config: map[string][]setting{}, sources: loadFiles(s.Sources),
		broken: s.Broken, files: loadFiles(s.Files), other: s.Other,
	}
	if f.other == nil {
		f.other = map[string]string{}
	}
	for key, values := range s.Config {
		for _, v := range values {
			f.config[key] = append(f.config[key], setting{v.Value, v.File})
		}
	}
	return f, nil
}

func storeFiles(files map[string]file) map[string]storedFile {
	stored := make(map[string]storedFile, len(files))
	for name, f := range files {
		stored[name] = storedFile{f.mode, f.data}
	}
	return stored
}

func loadFiles(stored map[string]storedFile) map[string]file {
	files := make(map[string]file, len(stored))
	for name, f := range stored {
		files[name] = file{f.Mode, f.Data}
	}
	return files
}
