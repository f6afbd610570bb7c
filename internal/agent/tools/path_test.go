package tools_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// hostile is a tree with everything in it that must stay closed, beside canaries outside.
type hostile struct {
	outside string // a folder with a file "secret" in it
	dir     string
}

const canary = "CANARY"

func newHostile(t testing.TB) hostile {
	t.Helper()
	top := t.TempDir()
	h := hostile{outside: filepath.Join(top, "outside"), dir: filepath.Join(top, "tree")}
	put(t, h.outside, "secret", canary+"\n")
	put(t, h.dir, "a.txt", "one\ntwo\nthree\n")
	put(t, h.dir, "sub/b.go", "package b\n")
	put(t, h.dir, ".git/config", canary+"\n")
	put(t, h.dir, ".git/hooks/pre-commit", canary+"\n")
	put(t, h.dir, "module/.git", "gitdir: "+canary+"\n")
	put(t, h.dir, "module/c.go", "package c\n")
	for name, target := range map[string]string{
		"in":         "a.txt",
		"in-dir":     "sub",
		"here":       ".",
		"sub/here":   "./../sub/.",
		"in-abs":     filepath.Join(h.dir, "a.txt"),
		"out":        "../outside/secret",
		"out-dir":    "../outside",
		"out-abs":    filepath.Join(h.outside, "secret"),
		"git":        ".git",
		"git-config": "sub/../.git/config",
		"git-twice":  "git/config",
		"loop":       "loop",
		"broken":     "nowhere",
		"sub/up":     "../../outside",
		"sub/round":  "../../tree/a.txt",
		"module/lnk": ".git",
	} {
		if err := os.Symlink(target, filepath.Join(h.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(h.dir, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	// The path of a socket may have no more than 107 bytes.
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(h.dir, "sock")}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	return h
}

// state is all that must not change: what is outside, and what is git's.
func (h hostile) state(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{h.outside, filepath.Join(h.dir, ".git"), filepath.Join(h.dir, "module/.git")} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(h.outside))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&b, len(entries))
	return b.String()
}

// TestPathsRefused asks every tool for every path that leads outside, into git's or to what is no file.
func TestPathsRefused(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	s := open(t, h.dir)
	before := h.state(t)
	long := strings.Repeat("x", 1_000_000)
	for _, c := range []struct{ path, status, says string }{
		{"../outside/secret", "denied", "outside the top folder"},
		{"../../.ssh/id", "denied", "outside"},
		{"sub/../../outside/secret", "denied", "outside"},
		{"..", "denied", "outside"},
		{"/etc/passwd", "denied", "outside"},
		{"/", "denied", "outside"},
		{"//etc//passwd", "denied", "outside"},
		{h.dir + "/../outside/secret", "denied", "outside"},
		{h.dir + "x/secret", "denied", "outside"},
		{h.outside + "/secret", "denied", "outside"},
		{"/proc/self/environ", "denied", "outside"},
		{"~/.ssh/id", "denied", "outside"},
		{"~", "denied", "outside"},
		{"out", "denied", "symbolic link to ../outside/secret"},
		{"out-dir/secret", "denied", "symbolic link to ../outside"},
		{"out-abs", "denied", "symbolic link to"},
		{"sub/up/secret", "denied", "symbolic link to ../../outside"},
		{"sub/round", "denied", "symbolic link"},
		{".git", "denied", "git's own"},
		{".git/config", "denied", "git's own"},
		{h.dir + "/.git/config", "denied", "git's own"},
		{"./sub/../.git/config", "denied", "git's own"},
		{".git/../a.txt", "denied", "git's own"},
		{"module/.git", "denied", "git's own"},
		{".GIT/hooks/pre-commit", "denied", "git's own"},
		{".Git", "denied", "git's own"},
		{"sub/.gIt/x", "denied", "git's own"},
		{".g\u200cit/config", "denied", "git's own"},
		{"\ufeff.git/config", "denied", "git's own"},
		{".gi\u00adt", "denied", "git's own"},
		{".git\ufe0f", "denied", "git's own"},
		{".\u2060GIT", "denied", "git's own"},
		{"．ｇｉｔ/config", "denied", "git's own"},
		{"git~1/config", "denied", "git's own"},
		{"GIT~1", "denied", "git's own"},
		{".git.", "denied", "git's own"},
		{".git . ./config", "denied", "git's own"},
		{".git ", "denied", "git's own"},
		{".git::$INDEX_ALLOCATION/config", "denied", "git's own"},
		{".git:config", "denied", "git's own"},
		{`.git\config`, "denied", "git's own"},
		{`sub\.GIT\config`, "denied", "git's own"},
		{"git", "denied", ""},
		{"git/config", "denied", ""},
		{"git-config", "denied", ""},
		{"git-twice", "denied", ""},
		{"module/lnk", "denied", ""},
		{"fifo", "denied", "a FIFO"},
		{"sock", "denied", "a socket"},
		{"", "error", "empty"},
		{"a\x00b", "error", "NUL"},
		{long, "error", "1000000 bytes long"},
		{strings.Repeat("x/", 2000) + "x", "error", "folders"},
		{strings.Repeat("x", 300), "error", "300 bytes long"},
		{strings.Repeat("../", 1000) + "etc/passwd", "denied", "outside"},
		{"a.txt/b", "error", "not a folder"},
	} {
		path, err := json.Marshal(c.path)
		if err != nil {
			t.Fatal(err)
		}
		link := strings.HasPrefix(c.says, "symbolic link") || c.says == ""
		special := strings.HasPrefix(c.says, "a ")
		for name, arguments := range map[string]string{
			"read":        `{"path":%s}`,
			"ls":          `{"path":%s}`,
			"find":        `{"pattern":"**","path":%s}`,
			"grep":        `{"pattern":".","path":%s}`,
			"write":       `{"path":%s,"content":"x"}`,
			"edit":        `{"path":%s,"edits":[{"oldText":"one","newText":"x"}]}`,
			"edit move":   `{"path":%s,"moveTo":"moved"}`,
			"edit to":     `{"path":"a.txt","moveTo":%s}`,
			"write below": `{"path":%s,"content":"x","executable":true}`,
			"write gone":  `{"path":%s,"delete":true}`,
		} {
			tool, how, _ := strings.Cut(name, " ")
			status, says := c.status, c.says
			switch {
			case how == "gone" && (special || link && c.path != "out-dir/secret" && c.path != "sub/up/secret" && c.path != "git/config"):
				continue // a link, a FIFO or a socket may be deleted; not what a link leads to
			case tool == "ls" && special:
				status, says = "ok", strings.TrimPrefix(c.says, "a ")
			case tool == "find" && special:
				status, says = "error", "not a folder"
			case c.path == "" && (tool == "ls" || tool == "find" || tool == "grep"):
				continue // the top folder
			case c.path == "" && how == "to":
				says = "nothing to do"
			case how == "to" && (link || special):
				status, says = "", "" // there is something already, or it is denied
			}
			r := call(t, s, tool, fmt.Sprintf(arguments, path))
			if status == "" && r.Status != "ok" {
				status = r.Status
			}
			want(t, r, status, says)
			if len(r.Text) > 1500 {
				t.Errorf("%s %.40q: the answer has %d bytes", name, c.path, len(r.Text))
			}
			if strings.Contains(r.Text, canary) {
				t.Errorf("%s %.40q shows what is closed: %s", name, c.path, r.Text)
			}
			if t.Failed() {
				t.Fatalf("that was %s %.60q", name, c.path)
			}
		}
	}
	if after := h.state(t); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if got := content(t, h.dir, "a.txt"); got != "one\ntwo\nthree\n" {
		t.Errorf("a.txt has %q", got)
	}
}

func TestPathsTaken(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	alias := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(h.dir, alias); err != nil {
		t.Fatal(err)
	}
	s := open(t, alias)
	for _, path := range []string{
		"a.txt", "./a.txt", "sub/../a.txt", "sub//..//a.txt", "in", "in-abs", "in-dir/../a.txt", "here/a.txt", "here/here/in", "sub/here/../../a.txt",
		h.dir + "/a.txt", h.dir + "/sub/../a.txt", alias + "/a.txt",
	} {
		want(t, call(t, s, "read", fmt.Sprintf(`{"path":%q}`, path)), "ok", "1\tone")
	}
	want(t, call(t, s, "read", `{"path":"in-dir/b.go"}`), "ok", "1\tpackage b")
	want(t, call(t, s, "ls", `{"path":"in-dir"}`), "ok", "b.go")
	want(t, call(t, s, "ls", `{"path":"sub/here"}`), "ok", "b.go")
	want(t, call(t, s, "ls", `{"path":"here"}`), "ok", "a.txt", "link           - in -> a.txt", "fifo", "socket", "sub/")
	want(t, call(t, s, "grep", `{"pattern":"package","path":"in-dir"}`), "ok", "sub/b.go:1: package b")
	want(t, call(t, s, "write", fmt.Sprintf(`{"path":%q,"content":"x\n"}`, alias+"/new/x")), "ok", "created new/x")
	// Names that only look a little like .git are nobody's but the user's.
	for _, path := range []string{".gitignore", ".github/x", "git", "sub/.git-blame", "git~2", ".gitx/y", "x.git"} {
		if path == "git" {
			continue // a link in this tree
		}
		want(t, call(t, s, "write", fmt.Sprintf(`{"path":%q,"content":"x\n"}`, path)), "ok")
	}
}

// TestWritingThroughLinks names the path to use instead.
func TestWritingThroughLinks(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	s := open(t, h.dir)
	want(t, call(t, s, "write", `{"path":"in","content":"x"}`), "denied", "in is a symbolic link to a.txt", "Use the path a.txt instead")
	want(t, call(t, s, "edit", `{"path":"in-dir/b.go","edits":[{"oldText":"b","newText":"x"}]}`), "denied", "in-dir is a symbolic link to sub", "Use the path sub/b.go instead")
	want(t, call(t, s, "write", `{"path":"in-dir/new","content":"x"}`), "denied", "in-dir is a symbolic link to sub")
	want(t, call(t, s, "edit", `{"path":"a.txt","moveTo":"in-dir/new"}`), "denied", "in-dir is a symbolic link to sub")
	want(t, call(t, s, "read", `{"path":"loop"}`), "error", "too many symbolic links")
	want(t, call(t, s, "read", `{"path":"broken"}`), "error", "there is no broken: nowhere does not exist")
	want(t, call(t, s, "write", `{"path":"broken","content":"x"}`), "denied", "broken is a symbolic link to nowhere")
	want(t, call(t, s, "write", `{"path":"in","delete":true}`), "ok")
	if content(t, h.dir, "a.txt") != "one\ntwo\nthree\n" {
		t.Error("the file was deleted and not the link")
	}
}

func TestWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, s := tree(t, map[string]string{"src/main.go": "x\n", "README.md": "x\n", "cafe\u0301.txt": "nfd\n", "a/b/c.txt": "x\n"})
	want(t, call(t, s, "read", `{"path":"src/mian.go"}`), "error", "there is no src/mian.go", "Did you mean src/main.go?")
	want(t, call(t, s, "read", `{"path":"readme.MD"}`), "error", "Did you mean README.md?")
	want(t, call(t, s, "read", `{"path":"a/d/c.txt"}`), "error", "a/d does not exist", "Did you mean a/b?")
	want(t, call(t, s, "edit", `{"path":"zzzzzz","edits":[{"oldText":"a","newText":"b"}]}`), "error", "there is no zzzzzz", "use write")
	want(t, call(t, s, "write", `{"path":"src/mian.go","delete":true}`), "error", "Did you mean src/main.go?")
	// The same letters in another normal form: never taken for each other, and never made beside each other.
	want(t, call(t, s, "read", `{"path":"caf\u00e9.txt"}`), "error", `"cafe\u0301.txt"`, "NFD")
	want(t, call(t, s, "read", `{"path":"cafe\u0301.txt"}`), "ok", "nfd")
	want(t, call(t, s, "write", `{"path":"caf\u00e9.txt","content":"x"}`), "error", "looks the same")
	want(t, call(t, s, "write", `{"path":"caf\u00e9/x.txt","content":"x"}`), "ok")
	want(t, call(t, s, "write", `{"path":"日本/語.txt","content":"x\n"}`), "ok", "created 日本/語.txt")
	want(t, call(t, s, "read", `{"path":"日本/語.txt"}`), "ok", "1\tx")
}

func TestNamesThatAreNotMade(t *testing.T) {
	t.Parallel()
	dir, s := tree(t, map[string]string{"a\nb": "x\n", `c\d`: "y\n", "e ": "z\n"})
	for _, path := range []string{`x\ny`, `x\\y`, `x\u001b[31m`, ` x`, `x `, `d /x`, `sub/ x`} {
		want(t, call(t, s, "write", `{"path":"`+path+`","content":"x"}`), "error", "no name for a new file")
		want(t, call(t, s, "edit", `{"path":"e ","moveTo":"`+path+`"}`), "error", "no name for a new file")
	}
	want(t, call(t, s, "write", `{"path":".git-spot-tmp-x","content":"x"}`), "denied", "reserved")
	want(t, call(t, s, "edit", `{"path":"e ","moveTo":"new/.git-spot-tmp-x/y"}`), "denied", "reserved")
	want(t, call(t, s, "write", `{"path":"sub/","content":"x"}`), "error", "names a folder")
	// Where they exist they can be used.
	want(t, call(t, s, "ls", `{}`), "ok", `"a\nb"`, `c\d`, `"e "`)
	want(t, call(t, s, "read", `{"path":"a\nb"}`), "ok", "1\tx")
	want(t, call(t, s, "write", `{"path":"c\\d","content":"new\n"}`), "ok")
	if got := content(t, dir, `c\d`); got != "new\n" {
		t.Errorf("the file has %q", got)
	}
}

// TestNamesThatAreNotUTF8 are shown so that it is clear why they cannot be asked for.
func TestNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	dir, s := tree(t, nil)
	if err := os.WriteFile(filepath.Join(dir, "caf\xe9"), []byte("x\n"), 0o666); err != nil {
		t.Logf("this file system takes no names that are not UTF-8: %v", err)
		return
	}
	want(t, call(t, s, "ls", `{}`), "ok", `"caf\xe9" (not UTF-8`)
	want(t, call(t, s, "grep", `{"pattern":"x"}`), "ok", `"caf\xe9":1: x`)
	want(t, call(t, s, "find", `{"pattern":"caf*"}`), "ok", `"caf\xe9"`)
}

// TestNothingWaits: a FIFO without a writer would hold whoever opens it for reading, and a device might
// do anything.
func TestNothingWaits(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	s := open(t, h.dir)
	want(t, call(t, s, "grep", `{"pattern":"two"}`), "ok", "a.txt:2: two")
	want(t, call(t, s, "grep", `{"pattern":"two","path":"fifo"}`), "denied", "never opened")
	if os.Getuid() == 0 {
		err := unix.Mknod(filepath.Join(h.dir, "zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))
		if err == nil {
			want(t, call(t, s, "read", `{"path":"zero"}`), "denied", "a device")
			want(t, call(t, s, "write", `{"path":"zero","content":""}`), "denied", "a device")
			want(t, call(t, s, "grep", `{"pattern":"two"}`), "ok", "a.txt:2: two")
		}
	}
}
