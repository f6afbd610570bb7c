package proc_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/git-spot/git-spot/internal/proc"
)

func TestCapture(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		head, tail := rapid.IntRange(0, 20).Draw(t, "head"), rapid.IntRange(0, 20).Draw(t, "tail")
		c := proc.NewCapture(head, tail)
		var all []byte
		for _, part := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 30)).Draw(t, "parts") {
			all = append(all, part...)
			if n, err := c.Write(part); n != len(part) || err != nil {
				t.Fatalf("Write: got %d, %v", n, err)
			}
		}
		wantHead := all[:min(head, len(all))]
		rest := all[len(wantHead):]
		wantTail := rest[max(0, len(rest)-tail):]
		if !bytes.Equal(c.Head(), wantHead) || !bytes.Equal(c.Tail(), wantTail) {
			t.Errorf("got %q and %q, want %q and %q", c.Head(), c.Tail(), wantHead, wantTail)
		}
		if sum := sha256.Sum256(all); c.SHA256() != hex.EncodeToString(sum[:]) || c.Bytes() != int64(len(all)) {
			t.Errorf("got %s of %d bytes", c.SHA256(), c.Bytes())
		}
	})
}

type line struct {
	text    string
	dropped int64
}

// framed is what NewLines must give for data, whatever the writes.
func framed(data []byte, limit int) (want []line) {
	for text := range strings.Lines(string(data)) {
		text = strings.TrimSuffix(text, "\n")
		kept := text[:min(limit, len(text))]
		want = append(want, line{kept, int64(len(text) - len(kept))})
	}
	return want
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbc\n\nlong line\nend"), []byte{1, 2, 3}, 4)
	f.Add([]byte("\n"), []byte{}, 1)
	f.Add([]byte("\xff\xfe\n\x00"), []byte{1}, 100)
	f.Add([]byte("exactly\nexactly"), []byte{0, 7, 1}, 7)
	f.Fuzz(func(t *testing.T, data, splits []byte, limit int) {
		limit = 1 + max(limit, -limit-1)%(1<<12)
		var got []line
		l := proc.NewLines(limit, func(text []byte, dropped int64) {
			if len(text) > limit {
				t.Errorf("%d bytes, more than %d", len(text), limit)
			}
			got = append(got, line{string(text), dropped})
		})
		rest := data
		for _, n := range splits {
			n := min(int(n), len(rest))
			if written, err := l.Write(rest[:n]); written != n || err != nil {
				t.Fatalf("Write: got %d, %v", written, err)
			}
			rest = rest[n:]
		}
		if _, err := l.Write(rest); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second has nothing to add
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if want := framed(data, limit); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestLinesAtOnce(t *testing.T) {
	t.Parallel()
	var got []string
	l := proc.NewLines(10, func(text []byte, _ int64) { got = append(got, string(text)) })
	for _, part := range []string{"one\ntw", "o\nthree"} {
		if _, err := l.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"one", "two"}; !slices.Equal(got, want) {
		t.Errorf("before the end: got %q, want %q", got, want)
	}
}
