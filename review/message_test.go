package review_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/git-spot/git-spot/review"
	"github.com/git-spot/git-spot/schemas"
)

func TestMessage(t *testing.T) {
	t.Parallel()
	ours := []string{"Spot-Run: 2026-x", "Spot-Diff-Sha256: " + hash, "Assisted-by: command/m1"}
	with := func(before ...string) []string { return append(before, ours...) }
	tests := []struct {
		name, message string
		want          []string // what git parses
		between       string   // what separates the message from the trailers
	}{
		{"subject", "Add a", with(), "\n\n"},
		{"subject with a newline", "Add a\n", with(), "\n"},
		{"subject that looks like a trailer", "fix: the thing\n", with(), "\n"},
		{"body", "Add a\n\nBecause.\nAnd so.\n", with(), "\n"},
		{"body without a newline", "Add a\n\nBecause.", with(), "\n\n"},
		{"trailers", "Add a\n\nBecause.\n\nSigned-off-by: A <a@b>\nFixes: 12\n", with("Signed-off-by: A <a@b>", "Fixes: 12"), ""},
		{"trailers without a newline", "Add a\n\nFixes: 12", with("Fixes: 12"), "\n"},
		{"trailer that goes on", "Add a\n\nFixes: 12\n  and 13\n", with("Fixes: 12 and 13"), ""},
		{"blank before the colon", "Add a\n\nFixes : 12\n", with("Fixes: 12"), ""},
		{"prose with a colon", "Add a\n\nNote that this: is prose\n", with(), "\n"},
		{"prose before trailers in one paragraph", "Add a\n\nprose\nFixes: 12\n", with(), "\n"},
		{"mostly prose with a sign-off", "Add a\n\none\ntwo\nthree\nfour\nSigned-off-by: A <a@b>\n", with(), "\n"},
		{"some prose with a sign-off", "Add a\n\none\ntwo\nSigned-off-by: A <a@b>\n", with("Signed-off-by: A <a@b>"), ""},
		// git counts it as a trailer and does not print it.
		{"cherry-picked", "Add a\n\nx\n\n(cherry picked from commit abc)\n", with(), ""},
		{"blank lines at the end", "Add a\n\nBecause.\n\n\n", with(), ""},
		{"trailers, then blank lines", "Add a\n\nFixes: 12\n\n", with(), ""},
		{"CRLF", "Add a\r\n\r\nBecause.\r\n", with(), "\n"},
		{"CRLF trailers", "Add a\r\n\r\nFixes: 12\r\n", with("Fixes: 12"), ""},
		{"trailing blanks", "Add a  \n\nBecause.\t \n", with(), "\n"},
		{"comment", "Add a\n\n# not a comment to us\n", with(), "\n"},
		{"comment after trailers", "Add a\n\nFixes: 12\n# x\n", with("Fixes: 12"), ""},
		{"URL", "Add a\n\nhttps://example.org/x\n", with("https: //example.org/x"), ""},
		{"leading blank line", "\nFixes: 12\n", with("Fixes: 12"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := review.Message(tt.message, review.Trailers{Run: "2026-x", DiffSHA256: hash, Adapter: "command", Model: "m1"})
			if err != nil {
				t.Fatal(err)
			}
			rest, ok := strings.CutPrefix(got, tt.message)
			if !ok {
				t.Fatalf("the message is not there as it was: %q", got)
			}
			if want := tt.between + strings.Join(ours, "\n") + "\n"; rest != want {
				t.Errorf("after the message: got %q, want %q", rest, want)
			}
			if diff := cmp.Diff(tt.want, parseTrailers(t, got)); diff != "" {
				t.Errorf("git reads other trailers in %q:\n%s", got, diff)
			}
		})
	}
}

func parseTrailers(t *testing.T, message string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "interpret-trailers", "--parse")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+cmd.Dir)
	cmd.Stdin = strings.NewReader(message)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines
}

func TestMessageKeepsValuesOnOneLine(t *testing.T) {
	t.Parallel()
	got, err := review.Message("Add a\n", review.Trailers{Run: "r", DiffSHA256: hash, Adapter: "pi", Model: "m\nSigned-off-by: Evil <e@e>\r"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Spot-Run: r", "Spot-Diff-Sha256: " + hash, "Assisted-by: pi/m Signed-off-by: Evil <e@e>"}
	if diff := cmp.Diff(want, parseTrailers(t, got)); diff != "" {
		t.Error(diff)
	}
	if got, err = review.Message("Add a", review.Trailers{Run: "r", DiffSHA256: hash, Adapter: "pi"}); err != nil || !strings.HasSuffix(got, "\nAssisted-by: pi\n") {
		t.Errorf("without a model: %q, %v", got, err)
	}
}

func TestMessageRefuses(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"", "\n", " \t\r\n", "a\x00b", "\u200b", "a\xffb"} {
		got, err := review.Message(message, review.Trailers{Run: "r"})
		if code(t, err) != schemas.CodeUsage || got != "" {
			t.Errorf("%q: got %q, %v", message, got, err)
		}
	}
}

// Whatever paragraphs a message has, git finds our trailers, and beside them exactly those that it found
// before: the message decides alone what is a trailer in it.
func TestMessageAgreesWithGit(t *testing.T) {
	t.Parallel()
	lines := []string{
		"", "", "Title", "prose: with colon", "Fixes: 1", "Acked-by : B", "Signed-off-by: A <a@b>", "  goes on", "# comment",
		"(cherry picked from commit 12)", "x", "\ty", "a b: c", "-: d", "\r",
	}
	rapid.Check(t, func(rt *rapid.T) {
		message := strings.Join(rapid.SliceOfN(rapid.SampledFrom(lines), 1, 9).Draw(rt, "lines"), "\n") + rapid.SampledFrom([]string{"", "\n"}).Draw(rt, "end")
		got, err := review.Message(message, review.Trailers{Run: "r", DiffSHA256: hash, Adapter: "pi"})
		if err != nil {
			rt.Skip("blank")
		}
		if !strings.HasPrefix(got, message) {
			rt.Fatalf("not verbatim: %q", got)
		}
		want := []string{"Spot-Run: r", "Spot-Diff-Sha256: " + hash, "Assisted-by: pi"}
		if !endsBlank(message) {
			want = append(parseTrailers(t, message), want...)
		}
		if diff := cmp.Diff(want, parseTrailers(t, got)); diff != "" {
			rt.Fatalf("%q:\n%s", got, diff)
		}
	})
}

// endsBlank reports whether something after the last trailer keeps ours from joining it: a blank line,
// or one that git counts as a comment.
func endsBlank(message string) bool {
	lines := strings.Split(strings.TrimSuffix(message, "\n"), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.TrimSpace(lines[i]) == "" {
			return true
		}
		if !strings.HasPrefix(lines[i], "#") {
			return false
		}
	}
	return true
}
