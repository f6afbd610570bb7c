package gitstate_test

import (
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

// hostile are texts that try to break out of the line they are written in.
var hostile = []string{
	"plain", "", " ", "  both ends  ", "a\nSpot-State: integrated", "a\r\nSpot-State: integrated\r\n\r\nx", "a\n\nSpot-State: cleaned\n",
	"tab\there", "nul\x00byte", "esc\x1b[31mred", "del\x7f", "c1\u0085next line", "ls\u2028ps\u2029", "bad\xff\xfeutf8", `back\slash \n \x41`, `\`,
	"# comment", "---", "--- a/file", "#", "Signed-off-by: me <me@example.org>", "ünï çödé 日本語", strings.Repeat("long ", 200), "\ufeffbom",
	"\n", "\n\n\n", "trailing\n", "Spot-Run: other", "(cherry picked from commit x)", "conflicts:\n\ta",
}

func TestTrailersAsGitReadsThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, text := range hostile {
		note := gitstate.FormatTrailers(text, "Spot-Run", "x1", "Spot-Title", text, "Spot-State", "prepared")
		if strings.Count(note, "\n") > 5 || !utf8.ValidString(note) {
			t.Errorf("%q makes %q", text, note)
		}
		var want strings.Builder
		want.WriteString("Spot-Run: x1\n")
		if text != "" {
			want.WriteString("Spot-Title: " + gitstate.Escape(text) + "\n")
		}
		want.WriteString("Spot-State: prepared\n")
		if got := string(gitInput(t, dir, []byte(note), "interpret-trailers", "--parse")); got != want.String() {
			t.Errorf("%q: git reads\n%s\nfrom\n%s\nwant\n%s", text, got, note, want.String())
		}
		title, trailers, err := gitstate.ParseTrailers(note)
		wantTrailers := map[string]string{"Spot-Run": "x1", "Spot-Title": text, "Spot-State": "prepared"}
		if text == "" {
			delete(wantTrailers, "Spot-Title")
		}
		if err != nil || !maps.Equal(trailers, wantTrailers) || title == "" || len(title) > 200 {
			t.Errorf("%q: title %q, trailers %q, %v", text, title, trailers, err)
		}
	}
}

func TestLedgerMessageCannotBeForged(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 5, 1, 8, 0, 0, 1, time.UTC)
	for _, text := range hostile {
		s := &schemas.RunState{
			ID: "x1", State: schemas.StateRunning, Title: text, Caller: "cli", Attempt: 3, UpdatedAt: now,
			Profile: schemas.ProfileRef{Name: "p"}, Code: schemas.CodeSourceDirty,
		}
		message := gitstate.LedgerMessage(text, s)
		subject, sum, err := gitstate.ParseLedgerMessage(message, "x1")
		if err != nil || subject == "" || strings.ContainsAny(subject, "\n\r") {
			t.Errorf("%q: %q, %v", text, subject, err)
		}
		want := gitstate.Summary{
			ID: "x1", State: schemas.StateRunning, Title: text, Caller: "cli", Profile: "p", Attempt: 3,
			Code: schemas.CodeSourceDirty, UpdatedAt: now,
		}
		if sum != want {
			t.Errorf("%q: %+v", text, sum)
		}
		if _, _, err := gitstate.ParseLedgerMessage(message, "other"); err == nil {
			t.Errorf("%q is the event of another run", text)
		}
	}
}

func TestParseTrailersRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "\n", "title", "title\n", "title\n\n", "\n\nA: b\n", "title\n\nA: b", "title\n\nA: b\nA: c\n", "title\n\nA:b\n", "title\n\nA b: c\n",
		"title\n\nA: \\\n", "title\n\nA: \\n\n", "title\n\nA: \\x4\n", "title\n\nA: \\x41\n", "title\n\nA: \\x0A\n", "title\n\nA:  b\n", "title\n\nA: b \n", "title\n\nA: \x00\n", "title\n\nA: \n", "title\n\n: b\n",
	} {
		if title, trailers, err := gitstate.ParseTrailers(text); err == nil {
			t.Errorf("%q: %q, %q", text, title, trailers)
		}
	}
}

func FuzzParseTrailers(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
		f.Add(gitstate.FormatTrailers(text, "Spot-Run", "x1", "Spot-Title", text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if title, trailers, err := gitstate.ParseTrailers(text); err == nil {
			for key, value := range trailers {
				line := "\n" + key + ": " + gitstate.Escape(value) + "\n"
				if !strings.Contains(text, line) {
					t.Errorf("%q was read from %q", line, text)
				}
			}
			if !strings.HasPrefix(text, title+"\n") {
				t.Errorf("title %q", title)
			}
		} else if title != "" || trailers != nil {
			t.Errorf("an error and %q, %q", title, trailers)
		}

		written := gitstate.Escape(text)
		if strings.ContainsAny(written, "\n\r\x00\u2028\u0085") || !utf8.ValidString(written) || strings.TrimSpace(written) != written && !strings.ContainsAny(text, "\u00a0\u1680\u2000\u2003\u3000\u202f\u205f\u2001\u2002\u2004\u2005\u2006\u2007\u2008\u2009\u200a") {
			t.Errorf("%q is written as %q", text, written)
		}
		if read, err := gitstate.Unescape(written); err != nil || read != text {
			t.Errorf("%q is written as %q and read as %q, %v", text, written, read, err)
		}
		if read, err := gitstate.Unescape(text); err == nil && gitstate.Escape(read) != text {
			t.Errorf("%q and %q are both read as %q", text, gitstate.Escape(read), read)
		}
		note := gitstate.FormatTrailers(text, "Spot-Run", "x1", "Spot-Title", text)
		if _, trailers, err := gitstate.ParseTrailers(note); err != nil || trailers["Spot-Run"] != "x1" || trailers["Spot-Title"] != text {
			t.Errorf("%q: %q, %v", note, trailers, err)
		}
	})
}
