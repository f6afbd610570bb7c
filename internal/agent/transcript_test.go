package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/git-spot/git-spot/internal/agent/model"
)

const (
	lineHeader    = `{"version":1,"session":"abc","api":"chat","model":"m"}` + "\n"
	lineUser      = `{"role":"user","text":"do it"}` + "\n"
	lineCall      = `{"role":"assistant","calls":[{"id":"1","name":"ls","arguments":{}}],"opaque":{"fields":{"reasoning":"hm"}}}` + "\n"
	lineResult    = `{"role":"tool","results":[{"id":"1","name":"ls","text":"","status":"ok"}]}` + "\n"
	lineAssistant = `{"role":"assistant","text":"done"}` + "\n"
	whole         = lineHeader + lineUser + lineCall + lineResult + lineAssistant
)

var transcripts = []struct {
	name, text string
	messages   int
	refused    string
}{
	{name: "whole", text: whole, messages: 4},
	{name: "two turns", text: whole + lineUser + lineAssistant, messages: 6},
	{name: "no answer yet", text: lineHeader + lineUser + lineUser, messages: 2},
	{name: "dangling", text: lineHeader + lineUser + lineCall, messages: 2},
	{name: "only a header", text: lineHeader, messages: 0},
	{name: "nothing", text: "", refused: "no header"},
	{name: "no JSON", text: "hello\n", refused: "no header"},
	{name: "no header", text: lineUser + lineAssistant, refused: "version is 0"},
	{name: "another version", text: strings.Replace(whole, `"version":1`, `"version":2`, 1), refused: "version is 2"},
	{name: "a session of another kind", text: strings.Replace(whole, `"abc"`, `"../abc"`, 1), refused: "no header"},
	{name: "an unknown key", text: whole + `{"role":"user","text":"a","mode":1}` + "\n", refused: "line 6"},
	{name: "an unknown role", text: whole + `{"role":"system","text":"a"}` + "\n", refused: `unknown role "system"`},
	{name: "two values", text: whole + `{"role":"user"}{"role":"user"}` + "\n", refused: "more than one"},
	{name: "an empty line", text: whole + "\n", refused: "line 6"},
	{name: "damaged", text: lineHeader + lineUser[:9] + "\n" + lineAssistant, refused: "line 2"},
	{name: "assistant first", text: lineHeader + lineAssistant, refused: "out of place"},
	{name: "assistant twice", text: whole + lineAssistant, refused: "out of place"},
	{name: "results first", text: lineHeader + lineUser + lineResult, refused: "out of place"},
	{name: "no results", text: lineHeader + lineUser + lineCall + lineUser, refused: "without results"},
	{name: "results of another call", text: lineHeader + lineUser + lineCall + strings.Replace(lineResult, `"1"`, `"2"`, 1), refused: "without a call"},
	{name: "calls of the user", text: lineHeader + strings.Replace(lineCall, "assistant", "user", 1), refused: "more than text"},
	{name: "no arguments", text: lineHeader + lineUser + strings.Replace(lineCall, `"arguments":{}`, `"arguments":[]`, 1), refused: "a call that is none"},
	{name: "the same id twice", text: lineHeader + lineUser +
		`{"role":"assistant","calls":[{"id":"1","name":"ls","arguments":{}},{"id":"1","name":"ls","arguments":{}}]}` + "\n", refused: "a call that is none"},
}

func TestDecodeTranscript(t *testing.T) {
	t.Parallel()
	for _, c := range transcripts {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, messages, err := decodeTranscript([]byte(c.text))
			switch {
			case c.refused == "":
				if err != nil || len(messages) != c.messages || h.Session != "abc" {
					t.Errorf("got %+v, %d messages, %v", h, len(messages), err)
				}
			case err == nil || !strings.Contains(err.Error(), c.refused) || messages != nil || h != header{}:
				t.Errorf("got %+v, %v, %v; want %q", h, messages, err, c.refused)
			}
		})
	}
}

// FuzzDecodeTranscript holds that what is taken is what would be written, so that it can go on.
func FuzzDecodeTranscript(f *testing.F) {
	for _, c := range transcripts {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, messages, err := decodeTranscript(data)
		if err != nil {
			if messages != nil || h != (header{}) {
				t.Error("something came with the error")
			}
			return
		}
		again := masker{}.line(h)
		for _, m := range messages {
			again = append(again, masker{}.line(m)...)
		}
		h2, messages2, err := decodeTranscript(again)
		if err != nil {
			t.Fatalf("%v: %s", err, again)
		}
		want, _ := json.Marshal(messages)
		got, _ := json.Marshal(messages2)
		if h2 != h || !bytes.Equal(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestResumeTranscript(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "session")
	if err := os.WriteFile(path, []byte(whole+`{"role":"user","te`), 0o600); err != nil {
		t.Fatal(err)
	}
	record, _, messages, err := resumeTranscript(path, masker{})
	if err != nil || len(messages) != 4 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	if err := errors.Join(record.add(model.Message{Role: model.RoleUser, Text: "on"}), record.close()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if want := whole + `{"role":"user","text":"on"}` + "\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestTranscriptFile refuses what is no file of its own.
func TestTranscriptFile(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"link":     func(path string) error { return os.Symlink("there", path) },
		"dangling": func(path string) error { return os.Symlink("nowhere", path) },
		"FIFO":     func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder":   func(path string) error { return os.Mkdir(path, 0o700) },
		"too large": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(whole), 0o600), os.Truncate(path, maxTranscript+100))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			there, path := filepath.Join(dir, "there"), filepath.Join(dir, "session")
			if err := errors.Join(os.WriteFile(there, []byte(whole), 0o600), put(path)); err != nil {
				t.Fatal(err)
			}
			record, _, _, err := resumeTranscript(path, masker{})
			if e, ok := errors.AsType[*model.Error](err); record != nil || !ok || e.Class != model.ClassSetup {
				t.Errorf("resumed: %v", err)
			}
			if record, err := createTranscript(path, header{}, masker{}); name != "too large" && err == nil {
				t.Errorf("created: %v", record.close())
			} else if err == nil {
				_ = record.close()
			}
			if got, err := os.ReadFile(there); err != nil || string(got) != whole {
				t.Errorf("the other file is %q, %v", got, err)
			}
		})
	}
}
