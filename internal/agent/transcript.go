package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/git-spot/git-spot/internal/agent/model"
)

// A transcript is a file of JSON lines: a header, then each message of the conversation as soon as it is
// complete. A turn that goes on with it takes it for what it is, a file that anybody may have written.

const (
	transcriptVersion = 1
	maxTranscript     = 64 << 20 // bytes that are read
)

// header is the first line of a transcript.
type header struct {
	Version int    `json:"version"`
	Session string `json:"session"`
	API     string `json:"api"`
	Model   string `json:"model"`
}

// transcript is open for appending. The nil transcript keeps nothing.
type transcript struct {
	f    *os.File
	mask masker
}

// createTranscript begins the transcript at path anew. The error is a *model.Error of class setup.
func createTranscript(path string, h header, m masker) (*transcript, error) {
	f, err := openTranscript(path, os.O_CREATE)
	if err != nil {
		return nil, refusedTranscript("kept", err)
	}
	t := &transcript{f: f, mask: m}
	if err := errors.Join(f.Truncate(0), t.write(h)); err != nil {
		return nil, refusedTranscript("kept", errors.Join(err, f.Close()))
	}
	return t, nil
}

// resumeTranscript opens the transcript at path for going on and returns what it has. A last line that
// was not written whole is cut off. The error is a *model.Error of class setup.
func resumeTranscript(path string, m masker) (*transcript, header, []model.Message, error) {
	f, err := openTranscript(path, 0)
	if err != nil {
		return nil, header{}, nil, refusedTranscript("resumed", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxTranscript+1))
	var h header
	var messages []model.Message
	if err == nil && len(data) > maxTranscript {
		err = fmt.Errorf("it is larger than %d MiB", maxTranscript>>20)
	}
	if err == nil {
		data = data[:bytes.LastIndexByte(data, '\n')+1]
		h, messages, err = decodeTranscript(data)
	}
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return nil, header{}, nil, refusedTranscript("resumed", errors.Join(err, f.Close()))
	}
	return &transcript{f: f, mask: m}, h, messages, nil
}

func refusedTranscript(use string, err error) error {
	return &model.Error{Class: model.ClassSetup, Message: fmt.Sprintf("the session cannot be %s: %v", use, err)}
}

// openTranscript opens path, which must be a regular file or, with os.O_CREATE, nothing.
func openTranscript(path string, flag int) (*os.File, error) {
	// O_NONBLOCK: opening a FIFO would wait for a writer.
	//nolint:forbidigo // internal/durable knows the schemas, which this program does without
	f, err := os.OpenFile(path, os.O_RDWR|flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is no regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// add appends a message.
func (t *transcript) add(m model.Message) error {
	if t == nil {
		return nil
	}
	return t.write(m)
}

func (t *transcript) write(v any) error {
	_, err := t.f.Write(t.mask.line(v))
	return err
}

func (t *transcript) close() error {
	if t == nil {
		return nil
	}
	return t.f.Close()
}

// decodeTranscript reads whole lines. It returns nothing unless all of it is a transcript that this
// version has written or might have.
func decodeTranscript(data []byte) (header, []model.Message, error) {
	var h header
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(first, &version); err != nil {
		return header{}, nil, errors.New("its first line is no header")
	}
	if version.Version != transcriptVersion {
		return header{}, nil, fmt.Errorf("its version is %d and this program knows %d", version.Version, transcriptVersion)
	}
	if err := decodeLine(first, &h); err != nil || !isSession(h.Session) {
		return header{}, nil, errors.New("its first line is no header")
	}
	var messages []model.Message
	for number := 2; len(rest) > 0; number++ {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		var m model.Message
		err := decodeLine(line, &m)
		if err == nil {
			err = follows(messages, m)
		}
		if err != nil {
			return header{}, nil, fmt.Errorf("line %d: %w", number, err)
		}
		messages = append(messages, m)
	}
	return h, messages, nil
}

// isSession says whether id is like those that Run makes.
func isSession(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

func decodeLine(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return errors.New("not what stands in a transcript")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

// follows says whether m can come after messages.
func follows(messages []model.Message, m model.Message) error {
	var before model.Message
	if len(messages) > 0 {
		before = messages[len(messages)-1]
	}
	if len(before.Calls) > 0 && m.Role != model.RoleTool {
		return errors.New("calls without results")
	}
	switch m.Role {
	case model.RoleUser:
		if m.Calls != nil || m.Results != nil || m.Opaque != nil {
			return errors.New("a user's message with more than text")
		}
	case model.RoleAssistant:
		if m.Results != nil || before.Role == "" || before.Role == model.RoleAssistant {
			return errors.New("an assistant's message out of place")
		}
		seen := map[string]bool{}
		for _, c := range m.Calls {
			if c.ID == "" || seen[c.ID] || c.Name == "" || !bytes.HasPrefix(c.Arguments, []byte("{")) {
				return errors.New("a call that is none")
			}
			seen[c.ID] = true
		}
	case model.RoleTool:
		if m.Text != "" || m.Calls != nil || m.Opaque != nil || len(m.Results) != len(before.Calls) || len(m.Results) == 0 {
			return errors.New("results out of place")
		}
		for i, r := range m.Results {
			if r.ID != before.Calls[i].ID {
				return errors.New("a result without a call")
			}
		}
	default:
		return fmt.Errorf("unknown role %q", m.Role)
	}
	return nil
}
