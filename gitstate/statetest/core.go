package statetest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
)

// core is what every store must do in every kind of repository. Dir is what Repository made, in some form. Another
// core with another name may have run there.
func core(t *testing.T, open Open, dir, name string) {
	repo := Discover(t, Options(dir))
	s := open(t, Options(dir))
	coreReading(t, s, dir)
	coreObjects(t, s, dir, name)
	coreRefs(t, s, dir, name)
	coreSync(t, s, dir, name)

	again := open(t, Options(dir))
	if _, err := again.Ref(t.Context(), folder(name)+"kept"); err != nil {
		t.Errorf("reopened: %v", err)
	}
	if out, exit := tryGit(t, repo.GitDir, nil, "GIT_DIR="+repo.GitDir, "fsck", "--no-dangling"); exit != 0 {
		t.Errorf("git fsck: exit %d\n%s", exit, out)
	}
}

// folder is where the refs of a core are.
func folder(name string) gitstate.Ref { return gitstate.Ref("refs/spot/" + name + "/") }

// coreReading compares what the store reads with what git reads.
func coreReading(t *testing.T, s gitstate.Store, dir string) {
	t.Helper()
	ctx := t.Context()
	var want []gitstate.RefValue
	for line := range strings.Lines(Git(t, dir, "for-each-ref", "--format=%(objectname) %(refname)") + "\n") {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		want = append(want, gitstate.RefValue{Ref: gitstate.Ref(name), OID: gitstate.OID(id)})
	}
	got, err := s.Refs(ctx, "refs/")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("refs: got %v, %v\nwant %v", got, err, want)
	}
	for _, w := range want {
		if got, err := s.Ref(ctx, w.Ref); err != nil || got != w.OID {
			t.Errorf("%s: got %s, %v, want %s", w.Ref, got, err, w.OID)
		}
	}

	head := oid(t, Git(t, dir, "rev-parse", "HEAD"))
	c, err := s.Commit(ctx, head)
	if err != nil {
		t.Fatal(err)
	}
	if c.Tree != gitstate.OID(Git(t, dir, "rev-parse", "HEAD^{tree}")) || c.Message != "second\n\nwith a body\n" || c.Author.Name != "A U Thor" ||
		c.Author.Email != "author@example.com" || c.Author.When.Format(time.RFC3339) != "2023-11-14T23:43:20+01:30" || c.Committer.When.Unix() != 1700000001 {
		t.Errorf("HEAD: got %+v", c)
	}
	// Of a shallow repository, too: parents are what the commit says.
	if len(c.Parents) != 1 {
		t.Errorf("HEAD has parents %v", c.Parents)
	}
	blob := oid(t, Git(t, dir, "rev-parse", "HEAD:README"))
	none := gitstate.OID(strings.Repeat("1", len(head)))
	many := slices.Repeat([]gitstate.OID{head, head, blob}, 1000) // more than a pipe takes
	for i := 1; i < len(many); i += 500 {
		many[i] = none // a partial clone asks its remote for each of these
	}
	commits := make([]*gitstate.Commit, len(many))
	if err := s.Commits(ctx, many, func(i int, c *gitstate.Commit) { commits[i] = c }); err != nil {
		t.Fatalf("many commits: %v", err)
	}
	for i, got := range commits {
		if many[i] != head && got != nil || many[i] == head && (got == nil || got.Message != c.Message) {
			t.Fatalf("many commits: got %+v for %s", got, many[i])
		}
	}
	if _, err := s.Blob(ctx, head); err == nil || errors.Is(err, gitstate.ErrNotFound) {
		t.Errorf("a commit as a blob: got %v", err)
	}

	// The whole tree, as ls-tree shows it.
	var list func(tree gitstate.OID, prefix string) []string
	list = func(tree gitstate.OID, prefix string) (rows []string) {
		entries, err := s.Tree(ctx, tree)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			rows = append(rows, e.Mode+" "+e.Kind+" "+string(e.OID)+"\t"+prefix+e.Name)
			switch e.Kind {
			case "tree":
				rows = append(rows, list(e.OID, prefix+e.Name+"/")...)
			case "blob":
				data, err := s.Blob(ctx, e.OID)
				if err != nil {
					t.Errorf("%s%s: %v", prefix, e.Name, err)
				}
				if text, _ := tryGit(t, dir, nil, "cat-file", "blob", string(e.OID)); text != string(data) {
					t.Errorf("%s%s: got %q, want %q", prefix, e.Name, data, text)
				}
			}
		}
		return rows
	}
	ls, _ := tryGit(t, dir, nil, "ls-tree", "-r", "-t", "-z", "--full-tree", "HEAD")
	if got, want := list(c.Tree, ""), strings.Split(strings.TrimSuffix(ls, "\x00"), "\x00"); !slices.Equal(got, want) {
		t.Errorf("tree: got %q\nwant %q", got, want)
	}
	for path, want := range map[string]string{"src/deep/b.txt": "b\n", "docs/\xff\xfe": "not UTF-8\n", "src/with\nline feed": "c\n", "empty": ""} {
		e, err := s.Lookup(ctx, head, path)
		if err != nil {
			t.Errorf("%q: %v", path, err)
			continue
		}
		if data, err := s.Blob(ctx, e.OID); err != nil || string(data) != want {
			t.Errorf("%q: got %q, %v", path, data, err)
		}
	}
	for _, path := range []string{"nothing", "src/nothing", "README/x", "src/a.txt/", "/src", "src//a.txt", "../x"} {
		if e, err := s.Lookup(ctx, c.Tree, path); !errors.Is(err, gitstate.ErrNotFound) {
			t.Errorf("%q: got %+v, %v", path, e, err)
		}
	}
	if e, err := s.Lookup(ctx, head, ""); err != nil || e.OID != c.Tree || e.Kind != "tree" {
		t.Errorf("the empty path: got %+v, %v", e, err)
	}
}

// coreObjects writes objects and compares their ids with those that git gives.
func coreObjects(t *testing.T, s gitstate.Store, dir, name string) {
	t.Helper()
	ctx := t.Context()
	ask := func(stdin []byte, args ...string) gitstate.OID {
		t.Helper()
		out, exit := tryGit(t, dir, stdin, args...)
		if exit != 0 {
			t.Fatalf("git %q: exit %d\n%s", args, exit, out)
		}
		return oid(t, strings.TrimSpace(out))
	}

	contents := [][]byte{{}, []byte("text of " + name + "\n"), []byte("crlf\r\n\x00\xff"), bytes.Repeat([]byte("0123456789abcdef"), 20_000)}
	var blobs []gitstate.OID
	for _, data := range contents {
		want := ask(data, "hash-object", "--stdin")
		for range 2 { // what exists may be written again
			got, err := s.WriteBlob(ctx, data)
			if err != nil || got != want {
				t.Fatalf("blob of %d bytes: got %s, %v, want %s", len(data), got, err, want)
			}
			blobs = append(blobs, got)
		}
		if back, err := s.Blob(ctx, blobs[len(blobs)-1]); err != nil || !bytes.Equal(back, data) {
			t.Errorf("blob of %d bytes: %d came back, %v", len(data), len(back), err)
		}
		if size, err := s.Size(ctx, blobs[len(blobs)-1]); err != nil || size != int64(len(data)) {
			t.Errorf("blob of %d bytes: its size is %d, %v", len(data), size, err)
		}
	}

	// A file sorts as its name, a folder as if it ended in a slash: "a-" < "a/" < "a0".
	empty := must[gitstate.OID](t)(s.WriteTree(ctx, nil))
	head := oid(t, Git(t, dir, "rev-parse", "HEAD"))
	entries := []gitstate.TreeEntry{
		{Mode: "100644", OID: blobs[0], Name: "a0"},
		{Mode: "040000", OID: empty, Name: "a"},
		{Mode: "100755", OID: blobs[2], Name: "a-"},
		{Mode: "120000", OID: blobs[2], Name: "link"},
		{Mode: "160000", OID: head, Name: "module"},
		{Mode: "100644", OID: blobs[4], Name: "line\nfeed"},
		{Mode: "100644", OID: blobs[4], Name: " tab\tand \"quotes\" \\"},
		{Mode: "100644", OID: blobs[4], Name: "-\xff\xc0"},
		{Mode: "100644", OID: blobs[6], Name: "é"},
	}
	var table strings.Builder
	for _, e := range entries {
		kind := map[string]string{"040000": "tree", "160000": "commit"}[e.Mode]
		if kind == "" {
			kind = "blob"
		}
		table.WriteString(e.Mode + " " + kind + " " + string(e.OID) + "\t" + e.Name + "\x00")
	}
	tree, err := s.WriteTree(ctx, entries)
	if want := ask([]byte(table.String()), "mktree", "-z", "--missing"); err != nil || tree != want {
		t.Fatalf("tree: got %s, %v, want %s", tree, err, want)
	}
	if back, err := s.Tree(ctx, tree); err != nil || len(back) != len(entries) || back[1].Name != "-\xff\xc0" || back[3].Name != "a" || back[3].Mode != "040000" {
		t.Errorf("tree: got %+v, %v", back, err)
	}
	if want := ask(nil, "hash-object", "-t", "tree", os.DevNull); empty != want {
		t.Errorf("empty tree: got %s, want %s", empty, want)
	}
	for _, bad := range [][]gitstate.TreeEntry{
		{{Mode: "100644", OID: blobs[0], Name: ""}},
		{{Mode: "100644", OID: blobs[0], Name: "a/b"}},
		{{Mode: "100644", OID: blobs[0], Name: ".."}},
		{{Mode: "100644", OID: blobs[0], Name: ".Git"}},
		{{Mode: "100644", OID: blobs[0], Name: "nul\x00"}},
		{{Mode: "100600", OID: blobs[0], Name: "x"}},
		{{Mode: "100644", OID: gitstate.ZeroOID, Name: "x"}},
		{{Mode: "100644", OID: "", Name: "x"}},
		{{Mode: "100644", OID: "HEAD", Name: "x"}},
		{{Mode: "100644", OID: blobs[0], Name: "x"}, {Mode: "040000", OID: empty, Name: "x"}},
	} {
		if got, err := s.WriteTree(ctx, bad); err == nil {
			t.Errorf("tree %+v: got %s", bad, got)
		}
	}

	east := time.FixedZone("", 5*3600+45*60)
	c := gitstate.Commit{
		Tree: tree, Parents: []gitstate.OID{head, head},
		Author:    gitstate.Signature{Name: "Jürgen \xff", Email: "", When: time.Unix(1_700_000_000, 999).In(east)},
		Committer: gitstate.Signature{Name: "git-spot", Email: "git-spot@localhost", When: time.Unix(0, 0).In(time.FixedZone("", -3600))},
		Encoding:  "ISO-8859-1", Message: name + "\n\n\n  body without a line feed at its end",
	}
	raw := "tree " + string(tree) + "\nparent " + string(head) + "\nparent " + string(head) + "\nauthor Jürgen \xff <> 1700000000 +0545\n" +
		"committer git-spot <git-spot@localhost> 0 -0100\nencoding ISO-8859-1\n\n" + c.Message
	commit, err := s.WriteCommit(ctx, c)
	if want := ask([]byte(raw), "hash-object", "-t", "commit", "--stdin"); err != nil || commit != want {
		t.Fatalf("commit: got %s, %v, want %s", commit, err, want)
	}
	back, err := s.Commit(ctx, commit)
	if err != nil || back.Tree != c.Tree || !slices.Equal(back.Parents, c.Parents) || back.Message != c.Message || back.Encoding != c.Encoding ||
		back.Author.Name != c.Author.Name || back.Author.Email != "" || back.Author.When.Format(time.RFC3339) != "2023-11-15T03:58:20+05:45" || back.Committer.Name != "git-spot" {
		t.Errorf("commit: got %+v, %v", back, err)
	}
	// commit-tree strips and completes; for an ordinary message it must agree.
	who := gitstate.Signature{Name: "A U Thor", Email: "author@example.com", When: time.Unix(1_700_000_000, 0).In(time.FixedZone("", 5400))}
	plain := gitstate.Commit{Tree: empty, Author: who, Committer: who, Message: name + "\n\nSpot-Run: x\n"}
	plain.Committer.Name, plain.Committer.Email, plain.Committer.When = "C O Mitter", "committer@example.com", time.Unix(1_700_000_001, 0).In(time.FixedZone("", -3*3600-1800))
	if got, err := s.WriteCommit(ctx, plain); err != nil || got != ask([]byte(plain.Message), "commit-tree", string(empty)) {
		t.Errorf("plain commit: got %s, %v", got, err)
	}
	for _, spoil := range []func(*gitstate.Commit){
		func(c *gitstate.Commit) { c.Author.Name = "a <b" }, func(c *gitstate.Commit) { c.Committer.Email = "a\nb" }, func(c *gitstate.Commit) { c.Message = "\x00" },
		func(c *gitstate.Commit) { c.Author.When = time.Time{} }, func(c *gitstate.Commit) { c.Tree = "" }, func(c *gitstate.Commit) { c.Parents = []gitstate.OID{"HEAD"} },
		func(c *gitstate.Commit) { c.Encoding = "x\ny" }, func(c *gitstate.Commit) { c.Author.Name = "" },
	} {
		bad := plain
		spoil(&bad)
		if got, err := s.WriteCommit(ctx, bad); err == nil {
			t.Errorf("commit %+v: got %s", bad, got)
		}
	}

	files, err := gitstate.WriteFiles(ctx, s, gitstate.ZeroOID, map[string][]byte{"state.json": []byte("{}\n"), "attempts/1/worker.log": {}, "attempts/2/x": []byte("x"), "gone/x/y": []byte("y"), "swap": []byte("s"), "pot/lid": []byte("l")})
	if err != nil {
		t.Fatal(err)
	}
	files, err = gitstate.WriteFiles(ctx, s, files, map[string][]byte{"attempts/2/x": []byte("z"), "gone/x/y": nil, "never/there": nil, "swap/inside": []byte("i"), "pot": []byte("p")})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Git(t, dir, "ls-tree", "-r", "--name-only", "--full-tree", string(files)), "attempts/1/worker.log\nattempts/2/x\npot\nstate.json\nswap/inside"; got != want {
		t.Errorf("files: got %q, want %q", got, want)
	}
	if got := Git(t, dir, "cat-file", "blob", string(files)+":attempts/2/x"); got != "z" {
		t.Errorf("attempts/2/x is %q", got)
	}
	for _, bad := range []map[string][]byte{{"a": {}, "a/b": {}}, {"": {}}, {"a//b": {}}, {"a/../b": {}}, {".git/config": {}}} {
		if got, err := gitstate.WriteFiles(ctx, s, gitstate.ZeroOID, bad); err == nil {
			t.Errorf("files %q: got %s", bad, got)
		}
	}

	absent := gitstate.OID(strings.Repeat("1", len(head)))
	_, blobErr := s.Blob(ctx, absent)
	_, sizeErr := s.Size(ctx, absent)
	_, treeErr := s.Tree(ctx, absent)
	_, commitErr := s.Commit(ctx, absent)
	_, lookupErr := s.Lookup(ctx, absent, "x")
	for _, err := range []error{blobErr, sizeErr, treeErr, commitErr, lookupErr} {
		if !errors.Is(err, gitstate.ErrNotFound) {
			t.Errorf("absent object: got %v", err)
		}
	}
	for _, bad := range []gitstate.OID{"", "HEAD", head[:20], head + "0", gitstate.OID(strings.ToUpper(string(head))), head[:39] + "\n", head + head[:24], head[:32] + "../../../x"} {
		if bad == head {
			continue // no letters in it
		}
		if _, err := s.Blob(ctx, bad); err == nil || errors.Is(err, gitstate.ErrNotFound) {
			t.Errorf("object id %q: got %v", bad, err)
		}
	}
}

// coreRefs moves refs.
func coreRefs(t *testing.T, s gitstate.Store, dir, name string) {
	t.Helper()
	ctx := t.Context()
	var ids []gitstate.OID
	for _, text := range []string{"one", "two", "three"} {
		ids = append(ids, must[gitstate.OID](t)(s.WriteBlob(ctx, []byte(name+text))))
	}
	const zero = gitstate.ZeroOID
	row := func(ref gitstate.Ref, to, from gitstate.OID) gitstate.RefUpdate {
		return gitstate.RefUpdate{Ref: ref, New: to, Old: from}
	}
	update := func(rows ...gitstate.RefUpdate) error { return s.Update(ctx, rows) }
	expect := func(ref gitstate.Ref, want gitstate.OID) {
		t.Helper()
		got, err := s.Ref(ctx, ref)
		if want == zero {
			if !errors.Is(err, gitstate.ErrNotFound) {
				t.Errorf("%s: got %s, %v, want none", ref, got, err)
			}
		} else if err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", ref, got, err, want)
		}
	}
	agree := func() {
		t.Helper()
		values, err := s.Refs(ctx, string(folder(name)))
		var got []string
		for _, v := range values {
			got = append(got, string(v.OID)+" "+string(v.Ref))
		}
		want := Git(t, dir, "for-each-ref", "--format=%(objectname) %(refname)", string(folder(name)))
		if err != nil || strings.Join(got, "\n") != want {
			t.Errorf("got %q, %v\ngit has %q", got, err, want)
		}
	}
	conflict := func(err error, ref gitstate.Ref, want, got gitstate.OID) {
		t.Helper()
		e, ok := errors.AsType[*gitstate.ConflictError](err)
		if !ok || e.Ref != ref || e.Want != want || e.Got != got && !(e.Got.IsZero() && got.IsZero()) {
			t.Errorf("%s: got %v, want a conflict of %s with %s", ref, err, want, got)
		}
	}
	good := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}

	top := folder(name)
	a, b, c := top+"a", top+"b", top+"sub/c"
	good(update())
	expect(a, zero)
	conflict(update(row(a, ids[1], ids[0])), a, ids[0], zero)
	expect(a, zero)
	good(update(row(a, ids[0], zero)))
	expect(a, ids[0])
	conflict(update(row(a, ids[1], zero)), a, zero, ids[0])
	conflict(update(row(a, ids[0], zero)), a, zero, ids[0]) // also if it is there already
	conflict(update(row(a, ids[2], ids[1])), a, ids[1], ids[0])
	expect(a, ids[0])
	good(update(row(a, ids[1], ids[0])))
	good(update(row(a, ids[1], ids[1]))) // a check alone
	conflict(update(row(a, ids[0], ids[0])), a, ids[0], ids[1])
	expect(a, ids[1])
	conflict(update(row(a, zero, ids[0])), a, ids[0], ids[1])
	good(update(row(a, zero, ids[1])))
	expect(a, zero)
	conflict(update(row(a, zero, ids[1])), a, ids[1], zero)
	good(update(row(a, ids[0], zero))) // and again

	agree()

	// Packed, and packed with a newer loose value.
	Git(t, dir, "pack-refs", "--all", "--prune")
	expect(a, ids[0])
	conflict(update(row(a, ids[2], ids[1])), a, ids[1], ids[0])
	good(update(row(a, ids[1], ids[0])))
	expect(a, ids[1])
	agree()
	good(update(row(a, zero, ids[1])))
	expect(a, zero)
	agree()

	// All or nothing.
	good(update(row(a, ids[0], zero), row(b, ids[1], zero)))
	conflict(update(row(a, ids[1], ids[0]), row(b, ids[2], ids[0])), b, ids[0], ids[1])
	conflict(update(row(c, ids[1], zero), row(a, ids[1], ids[2])), a, ids[2], ids[0])
	expect(a, ids[0])
	expect(b, ids[1])
	expect(c, zero)
	good(update(row(a, ids[1], ids[0]), row(b, zero, ids[1]), row(c, ids[2], zero), row(top+"kept", ids[0], zero)))
	expect(a, ids[1])
	expect(b, zero)
	expect(c, ids[2])
	agree()

	// Prefixes are text, not folders.
	for prefix, want := range map[gitstate.Ref]int{top: 3, top + "k": 1, c: 1, top + "sub": 1, top + "x": 0, "refs/spot/none/": 0} {
		if got, err := s.Refs(ctx, string(prefix)); err != nil || len(got) != want {
			t.Errorf("refs %q: got %v, %v", prefix, got, err)
		}
	}

	// Names.
	for _, ref := range []gitstate.Ref{c + "/below", top + "sub"} {
		e, ok := errors.AsType[*gitstate.RefNameError](update(row(ref, ids[0], zero)))
		if !ok || e.Other != c {
			t.Errorf("%s beside %s: got %v", ref, c, e)
		}
	}
	for _, bad := range []gitstate.Ref{"", "HEAD", "refs/", "refs//x", "refs/x/", "refs/x y", "refs/x..y", "refs/x.lock", "refs/.x", "refs/x\n", "refs/x\x00y", "refs/*", "refs/x@{1}", "refs/x.", "../refs/x", "refs/../HEAD"} {
		_, err := s.Ref(ctx, bad)
		if _, ok := errors.AsType[*gitstate.RefNameError](err); !ok {
			t.Errorf("%q: got %v", bad, err)
		}
		if _, ok := errors.AsType[*gitstate.RefNameError](update(row(bad, ids[0], zero))); !ok {
			t.Errorf("%q can be a ref", bad)
		}
	}
	for _, odd := range []gitstate.Ref{"refs/spot/odd/é", "refs/spot/odd/$(x)'\"{", "refs/spot/odd/-x"} {
		good(update(row(odd, ids[0], zero)))
		good(update(row(odd, ids[1], ids[0])))
		expect(odd, ids[1])
		good(update(row(odd, zero, ids[1])))
	}
	// Nothing is written for what can only be a mistake.
	absent := gitstate.OID(strings.Repeat("1", len(ids[0])))
	for _, rows := range [][]gitstate.RefUpdate{
		{row(b, "", zero)}, {row(b, ids[0], "")}, {row(b, ids[0], zero), row(b, ids[0], zero)}, {row(b, "HEAD", zero)}, {row(b, absent, zero)}, {row(a, absent, ids[1])},
	} {
		if err := update(rows...); err == nil {
			t.Errorf("update %v succeeds", rows)
		}
	}
	expect(a, ids[1])
	expect(b, zero)

	// A symbolic ref is read through and never written through.
	main := must[gitstate.OID](t)(s.Ref(ctx, "refs/heads/main"))
	Git(t, dir, "symbolic-ref", string(top+"link"), "refs/heads/main")
	expect(top+"link", main)
	conflict(update(row(top+"link", ids[1], ids[0])), top+"link", ids[0], main)
	good(update(row(top+"link", ids[0], main)))
	expect(top+"link", ids[0])
	expect("refs/heads/main", main)

	good(update(row(a, zero, ids[1]), row(c, zero, ids[2])))
}

// coreSync makes the same writes durable. That the disk has them cannot be seen here; durability watches
// the system calls.
func coreSync(t *testing.T, s gitstate.Store, dir, name string) {
	t.Helper()
	ctx := gitstate.WithSync(t.Context())
	if !gitexec.Synced(ctx) {
		t.Error("WithSync does not reach git")
	}
	ref := folder(name) + "new-folder/durable"
	one := must[gitstate.OID](t)(s.WriteBlob(ctx, []byte(name+" durable one")))
	two := must[gitstate.OID](t)(s.WriteBlob(ctx, []byte(name+" durable two")))
	for _, u := range []gitstate.RefUpdate{{Ref: ref, New: one, Old: gitstate.ZeroOID}, {Ref: ref, New: two, Old: one}, {Ref: ref, New: gitstate.ZeroOID, Old: two}} {
		if err := s.Update(ctx, []gitstate.RefUpdate{u}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Ref(ctx, ref); !errors.Is(err, gitstate.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if leftover, _ := filepath.Glob(filepath.Join(dir, "*.lock")); leftover != nil {
		t.Errorf("left behind: %q", leftover)
	}
}
