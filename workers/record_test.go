package workers_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/workers"
)

// Whatever a program prints: every line of events.jsonl fits its schema, every line of worker.log is a
// record of ours or the indented rest of one, nothing acts on a terminal, and no key is in either.
func FuzzRecord(f *testing.F) {
	const key = "plain-looking-key-1"
	f.Add([]byte(`{"type":"text","text":"x\n2026-01-31T12:00:00Z [warn] y"}`+"\n"), []byte("\x1b[31mred"), true)
	f.Add([]byte("\xff\xfe\r\n\x1b]0;t\x07"+key), []byte(key+"\n"+key), false)
	f.Add([]byte(`{"type":"tool","name":"`+key+`","status":"\u0000"}`), []byte{}, true)
	f.Add([]byte(`{"type":"usage","uncachedInput":9223372036854775807,"costUSD":1e300}`+"\n"), []byte{}, true)
	f.Add([]byte(`{"type":"error","class":"auth"}`+"\n"+`{"type":"final","text":"ok"}`), []byte{}, true)
	f.Add([]byte(strings.Repeat("[", 20000)), []byte{}, true)
	f.Fuzz(func(t *testing.T, stdout, stderr []byte, jsonl bool) {
		s := newScene(t, "sh")
		s.turn.Redact = config.Redactor{}.With(key)
		if jsonl {
			s.turn.Profile.Output = "jsonl"
		}
		try, final, err := workers.Record(s.turn, stdout, stderr)
		if err != nil {
			t.Fatal(err)
		}
		s.parsed(t)
		for line := range bytes.Lines(s.log.Bytes()) {
			record := bytes.HasPrefix(line, []byte("2026-01-31T12:00:00Z ["))
			if !record && !bytes.HasPrefix(line, []byte(strings.Repeat(" ", 21))) {
				t.Errorf("a line that is no record: %q", line)
			}
			if !utf8.Valid(line) || bytes.ContainsFunc(bytes.TrimSuffix(line, []byte("\n")), func(r rune) bool {
				return unicode.IsControl(r) && r != '\t'
			}) {
				t.Errorf("a line that acts on a terminal: %q", line)
			}
		}
		returned, err := schemas.MarshalIndent([]any{try, final})
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"events": s.events.Bytes(), "log": s.log.Bytes(), "result": returned} {
			if bytes.Contains(text, []byte(key)) {
				t.Errorf("the key is in the %s: %q", name, text)
			}
		}
	})
}

// A program's line is an event of the protocol or text, and never an event that is ours to write.
func FuzzCommandParser(f *testing.F) {
	f.Add([]byte(`{"type":"dropped","bytes":1}`))
	f.Add([]byte(`{"TYPE":"stderr","text":"x"}`))
	f.Add([]byte(`{"type":"error","class":"budget","message":null}`))
	f.Add([]byte(`{"type":"usage","reasoning":1,"credits":0.5}` + "\r"))
	f.Fuzz(func(t *testing.T, line []byte) {
		p := &config.Profile{Name: "w", Adapter: "command", Argv: []string{"x"}, Output: "jsonl"}
		adapter, err := workers.For(p)
		if err != nil {
			t.Fatal(err)
		}
		parser := adapter.Parser(p)
		events := parser.Stdout(line)
		theirs := []schemas.EventType{"text", "tool", "usage", "session", "error", "final"}
		if len(events) != 1 || !slices.Contains(theirs, events[0].Type) {
			t.Errorf("got %+v", events)
		}
		if v := parser.Verdict(1); v.Class == "" || v.Class == schemas.FailureBudget {
			t.Errorf("got %+v for exit status 1", v)
		}
	})
}
