package tools_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	numbered := func(from, to int) string {
		var b strings.Builder
		for n := from; n <= to; n++ {
			fmt.Fprintf(&b, "line %d\n", n)
		}
		return b.String()
	}
	for name, c := range map[string]struct{ content, arguments, want string }{
		"all":             {"a\nb\n", ``, "1\ta\n2\tb\n[lines 1-2 of 2]"},
		"empty":           {"", ``, "[the file is empty]"},
		"a line break":    {"\n", ``, "1\t\n[line 1 of 1]"},
		"no newline":      {"a\nb", ``, "1\ta\n2\tb\n[lines 1-2 of 2. no newline at the end of the file]"},
		"CRLF":            {"a\r\nb\r\n", ``, "1\ta\n2\tb\n[lines 1-2 of 2. line endings are CRLF; edit and write keep them, so send LF]"},
		"mixed":           {"a\r\nb\nc", ``, "1\ta\n2\tb\n3\tc\n[lines 1-3 of 3. line endings are mixed, 1 CRLF and 1 LF; edit keeps those of the lines it leaves. no newline at the end of the file]"},
		"a lone CR":       {"a\rb\n", ``, "1\ta\rb\n[line 1 of 1]"},
		"CR at the end":   {"a\r", ``, "1\ta\r\n[line 1 of 1. no newline at the end of the file]"},
		"byte order mark": {"\ufeffa\n", ``, "1\ta\n[line 1 of 1. the file begins with a byte order mark, which edit and write keep]"},
		"only the mark":   {"\ufeff", ``, "[the file is empty]"},
		"from":            {numbered(1, 9), `,"offset":8`, "8\tline 8\n9\tline 9\n[lines 8-9 of 9]"},
		"from to":         {numbered(1, 9), `,"offset":3,"limit":2`, "3\tline 3\n4\tline 4\n[lines 3-4 of 9; go on with offset 5]"},
		"offset 0":        {numbered(1, 2), `,"offset":0,"limit":0`, "1\tline 1\n2\tline 2\n[lines 1-2 of 2]"},
		"not UTF-8":       {"caf\xe9\n", ``, "1\tcaf\uFFFD\n[line 1 of 1. bytes that are not UTF-8 are shown as \uFFFD; edit cannot quote them, but keeps them]"},
		"a late NUL":      {strings.Repeat("x\n", 5000) + "a\x00b\n", `,"offset":5001`, "5001\ta\u2400b\n[line 5001 of 5001. there are NUL bytes, shown as \u2400: perhaps this is no text]"},
		"a long line":     {strings.Repeat("é", 2000) + "\nb\n", ``, "1\t" + strings.Repeat("é", 1000) + "…\n2\tb\n[lines 1-2 of 2. line 1 has 4000 bytes and is cut at …; offset and limit 1 show more of it]"},
		"a long CRLF":     {strings.Repeat("x", 2000) + "\r\n", ``, "1\t" + strings.Repeat("x", 2000) + "\n[line 1 of 1. line endings are CRLF; edit and write keep them, so send LF]"},
		"more of it":      {strings.Repeat("x", 30_000) + "\nb\n", `,"limit":1`, "1\t" + strings.Repeat("x", 30_000) + "\n[line 1 of 2; go on with offset 2]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := tree(t, map[string]string{"f": c.content})
			r := call(t, s, "read", `{"path":"f"`+c.arguments+`}`)
			if r.Status != "ok" || r.Text != c.want {
				t.Errorf("got %s\n%.300q\nwant\n%.300q", r.Status, r.Text, c.want)
			}
		})
	}
}

// TestReadOn reads a long file as the answers say, and gets all of it.
func TestReadOn(t *testing.T) {
	t.Parallel()
	for _, width := range []int{1, 70, 1900} {
		var text strings.Builder
		for n := range 2500 {
			fmt.Fprintf(&text, "%*d\n", width, n)
		}
		_, s := tree(t, map[string]string{"f": text.String()})
		var got strings.Builder
		offset, calls := 1, 0
		for offset > 0 {
			calls++
			r := call(t, s, "read", fmt.Sprintf(`{"path":"f","offset":%d}`, offset))
			want(t, r, "ok", " of 2500")
			if len(r.Text) > 64<<10 || strings.Count(r.Text, "\n") > 2001 {
				t.Fatalf("%d bytes, %d lines", len(r.Text), strings.Count(r.Text, "\n"))
			}
			listed, note, _ := strings.Cut(r.Text, "\n[")
			for l := range strings.SplitSeq(listed, "\n") {
				_, l, _ := strings.Cut(l, "\t")
				got.WriteString(l + "\n")
			}
			offset = 0
			if _, on, more := strings.Cut(note, "go on with offset "); more {
				if _, err := fmt.Sscanf(on, "%d", &offset); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got.String() != text.String() {
			t.Errorf("with lines of %d bytes, %d calls give %d bytes of %d", width, calls, got.Len(), text.Len())
		}
	}
}

func TestReadWhatIsNoText(t *testing.T) {
	t.Parallel()
	dir, s := tree(t, map[string]string{
		"p.png":   "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
		"u.txt":   "\xff\xfea\x00\n\x00",
		"x":       "\x7fELF\x00\x01",
		"sub/any": "",
	})
	want(t, call(t, s, "read", `{"path":"p.png"}`), "error", "image/png, 16 bytes", "moved, replaced and deleted")
	want(t, call(t, s, "read", `{"path":"u.txt"}`), "error", "text in UTF-16, 6 bytes")
	want(t, call(t, s, "read", `{"path":"x"}`), "error", "application/octet-stream, 6 bytes")
	want(t, call(t, s, "read", `{"path":"sub"}`), "error", "sub is a folder. Use ls")
	want(t, call(t, s, "edit", `{"path":"p.png","edits":[{"oldText":"PNG","newText":"JPG"}]}`), "error", "image/png")
	want(t, call(t, s, "edit", `{"path":"p.png","moveTo":"q.png"}`), "ok", "moved p.png to q.png")
	if err := os.Chmod(filepath.Join(dir, "x"), 0); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		want(t, call(t, s, "read", `{"path":"x"}`), "error", "does not permit")
	}
}
