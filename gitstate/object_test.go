package gitstate_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
)

func FuzzTree(f *testing.F) {
	id := bytes.Repeat([]byte{0x12}, 20)
	f.Add([]byte(nil))
	f.Add(append([]byte("100644 a\x00"), id...))
	f.Add(slices.Concat([]byte("100755 a-\x00"), id, []byte("40000 a\x00"), id, []byte("100644 a0\x00"), id))
	f.Add([]byte("40000 \xff\x00short"))
	f.Add([]byte("1000000000000 x\x00" + string(id)))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := gitstate.DecodeTree(data, 20)
		if err != nil {
			if entries != nil {
				t.Errorf("entries beside an error: %v", entries)
			}
			return
		}
		again, err := gitstate.EncodeTree(entries)
		if err != nil {
			return // git reads trees that it would not write
		}
		back, err := gitstate.DecodeTree(again, 20)
		if err != nil || len(back) != len(entries) {
			t.Errorf("%q became %q: %v", data, again, err)
		}
		if twice, err := gitstate.EncodeTree(back); err != nil || !bytes.Equal(again, twice) {
			t.Errorf("%q became %q and then %q: %v", data, again, twice, err)
		}
	})
}

func FuzzCommit(f *testing.F) {
	const tree = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
	f.Add([]byte(tree + "author A <a@b> 1700000000 +0130\ncommitter C <c> 0 -0330\n\nsubject\n"))
	f.Add([]byte(tree + "parent " + "4b825dc642cb6eb9a060e54bf8d69288fbee4904" + "\nauthor A <a@b> 1 +0000\ncommitter C <c> 2 +0000\ngpgsig -----BEGIN\n \n x\nencoding x\n\n"))
	f.Add([]byte(tree + "author <> 99999999999999999999 +9999\ncommitter a>b\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := gitstate.DecodeCommit(data)
		if err != nil {
			return
		}
		again, err := gitstate.EncodeCommit(*c)
		if err != nil {
			return
		}
		back, err := gitstate.DecodeCommit(again)
		if err != nil {
			t.Fatalf("%q became %q: %v", data, again, err)
		}
		c.Author.When, back.Author.When = c.Author.When.UTC(), back.Author.When.UTC()
		c.Committer.When, back.Committer.When = c.Committer.When.UTC(), back.Committer.When.UTC()
		if !reflect.DeepEqual(c, back) {
			t.Errorf("%q became %q:\n%+v\n%+v", data, again, c, back)
		}
	})
}
