package agent

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress follows a stream: what is written, and when.
func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		o := &output{w: &w}
		expect := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			o.mu.Lock()
			defer o.mu.Unlock()
			if got := w.String(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			w.Reset()
		}
		o.progress("one\ntw")
		expect(time.Second, "")
		o.progress("o\nthr")
		expect(time.Second, "{\"type\":\"text\",\"text\":\"one\\ntwo\"}\n") // two seconds after the first line
		expect(time.Hour, "")                                               // half a line waits for its end
		o.progress("ee\n")
		expect(2*time.Second, "{\"type\":\"text\",\"text\":\"three\"}\n")

		o.progress("")
		o.progress("")
		expect(0, "\n")
		expect(9*time.Second, "")
		o.progress("")
		expect(time.Second, "")
		o.progress("")
		expect(0, "\n")

		o.progress("no end")
		o.event(event{Type: "tool", Name: "read", Status: "ok"})
		expect(0, "{\"type\":\"text\",\"text\":\"no end\"}\n{\"type\":\"tool\",\"name\":\"read\",\"status\":\"ok\"}\n")
		if err := o.close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLongText cuts text into events that the reader takes, between characters.
func TestLongText(t *testing.T) {
	t.Parallel()
	var w bytes.Buffer
	o := &output{w: &w, mask: masker{"a-long-secret"}}
	o.progress(strings.Repeat("é", maxEventText) + "a-long-secret")
	o.endText()
	if err := o.close(); err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsRune(w.Bytes(), '\uFFFD') || !bytes.Contains(w.Bytes(), []byte("[masked]")) {
		t.Error("a character was cut, or the secret is there")
	}
	lines := bytes.Split(bytes.TrimSpace(w.Bytes()), []byte("\n"))
	for _, line := range lines {
		if len(line) > maxEventText+100 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d events", len(lines))
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"0123456789", "0123456789"},
		{"0123456789a", "01234\n[...]\n6789a"},
		{"ééééééé", "éé\n[...]\néé"},
	} {
		if got := ends(c.text, 10); got != c.want {
			t.Errorf("ends(%q) is %q, want %q", c.text, got, c.want)
		}
	}
}
