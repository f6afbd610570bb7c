package verify_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
)

const systemPath = "/usr/local/bin:/usr/bin:/bin"

// newRoom is a room with files, for a user whose environment is user over a PATH and an empty home.
func newRoom(t *testing.T, files, user map[string]string) verify.Room {
	t.Helper()
	dir := t.TempDir()
	room := verify.Room{Dir: filepath.Join(dir, "room"), Home: filepath.Join(dir, "home"), Tmp: filepath.Join(dir, "tmp")}
	for _, d := range []string{room.Dir, room.Home, room.Tmp, filepath.Join(dir, "user")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		path := filepath.Join(room.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "120000 "); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(strings.TrimPrefix(content, "100755 ")), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"PATH": systemPath, "HOME": filepath.Join(dir, "user")}
	for name, value := range user {
		env[name] = strings.ReplaceAll(value, "$ROOM", room.Dir)
	}
	room.Getenv = func(name string) string { return env[name] }
	return room
}

func check(argv ...string) schemas.Check { return schemas.Check{ID: "c", Argv: argv} }

func runOne(t *testing.T, room verify.Room, c schemas.Check) schemas.CommandResult {
	t.Helper()
	results, err := verify.RunChecks(t.Context(), room, []schemas.Check{c})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 {
		t.Fatalf("%d results", len(results))
	}
	return results[0]
}

func TestOutputIsRedacted(t *testing.T) {
	t.Parallel()
	room := newRoom(t, nil, nil)
	room.Redact = func(s string) string { return strings.ReplaceAll(s, "key", "...") }
	c := check("sh", "-c", "echo the key; head -c 70000 /dev/zero; echo the key")
	if got := runOne(t, room, c); !strings.HasPrefix(got.OutputHead, "the ...\n") || !strings.HasSuffix(got.OutputTail, "the ...\n") {
		t.Errorf("head %.20q, %d bytes of tail", got.OutputHead, len(got.OutputTail))
	}
}

func TestRunChecks(t *testing.T) {
	t.Parallel()
	room := newRoom(t, map[string]string{"sub/check.sh": "#!/bin/sh\necho in $(basename $PWD) $1\n"}, nil)
	checks := []schemas.Check{
		{ID: "green", Argv: []string{"sh", "-c", "echo out; echo err >&2; echo out"}},
		{ID: "red", Argv: []string{"sh", "-c", "echo no; exit 7"}},
		{ID: "killed", Argv: []string{"sh", "-c", "kill -KILL $$"}},
		{ID: "missing", Argv: []string{"no-such-tool-of-ours"}},
		{ID: "own", Argv: []string{"./check.sh", "a b;$HOME"}, Cwd: "sub"},
	}
	results, err := verify.RunChecks(t.Context(), room, checks)
	if err != nil {
		t.Fatal(err)
	}
	type brief struct {
		ID, Output, Signal, Error string
		Exit                      int
		Passed                    bool
	}
	var got []brief
	for i, r := range results {
		b := brief{ID: r.ID, Output: r.OutputHead, Signal: r.Signal, Error: r.Error, Exit: -1, Passed: verify.Passed(r)}
		if r.Exit != nil {
			b.Exit = *r.Exit
		}
		got = append(got, b)
		if sum := sha256.Sum256([]byte(r.OutputHead)); r.OutputSHA256 != hex.EncodeToString(sum[:]) || r.OutputBytes != int64(len(r.OutputHead)) || r.OutputTail != "" {
			t.Errorf("%s: output %+v", r.ID, r)
		}
		if r.Error == "" && !filepath.IsAbs(r.Program) {
			t.Errorf("%s: program %q", r.ID, r.Program)
		}
		if !slices.Equal(r.Argv, checks[i].Argv) || r.Cwd != checks[i].Cwd {
			t.Errorf("%s: argv %q in %q", r.ID, r.Argv, r.Cwd)
		}
	}
	want := []brief{
		{ID: "green", Output: "out\nerr\nout\n", Passed: true},
		{ID: "red", Output: "no\n", Exit: 7},
		{ID: "killed", Signal: "SIGKILL", Exit: -1},
		{ID: "missing", Error: `program "no-such-tool-of-ours" not found`, Exit: -1},
		{ID: "own", Output: "in sub a b;$HOME\n", Passed: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRunSetupStops(t *testing.T) {
	t.Parallel()
	room := newRoom(t, nil, nil)
	results, err := verify.RunSetup(t.Context(), room, []schemas.Setup{
		{Argv: []string{"sh", "-c", "echo 1 >>log"}},
		{Argv: []string{"sh", "-c", "echo 2 >>log; exit 3"}},
		{Argv: []string{"sh", "-c", "echo 3 >>log"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 || !verify.Passed(results[0]) || verify.Passed(results[1]) || *results[1].Exit != 3 {
		t.Errorf("got %+v", results)
	}
	if log, err := os.ReadFile(filepath.Join(room.Dir, "log")); err != nil || string(log) != "1\n2\n" {
		t.Errorf("ran %q, %v", log, err)
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	room := newRoom(t, nil, nil)
	// Fails with 5, is killed, then passes.
	c := check("sh", "-c", `echo x >>n; case $(wc -l <n) in *1) exit 5;; *2) kill -KILL $$;; esac`)
	c.Retries = 3
	got := runOne(t, room, c)
	if !verify.Passed(got) || !slices.Equal(got.Retries, []int{5, -1}) {
		t.Errorf("got %+v", got)
	}
	c = check("false")
	c.Retries = 2
	if got = runOne(t, room, c); verify.Passed(got) || !slices.Equal(got.Retries, []int{1, 1}) {
		t.Errorf("got %+v", got)
	}
	c = check("no-such-tool-of-ours")
	c.Retries = 2
	if got = runOne(t, room, c); got.Error == "" || got.Retries != nil {
		t.Errorf("got %+v", got)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	room := newRoom(t, nil, nil)
	c := check("sh", "-c", "echo begun; sleep 600")
	c.TimeoutSeconds = 1
	got := runOne(t, room, c)
	if !got.TimedOut || got.Exit != nil || got.OutputHead != "begun\n" || verify.Passed(got) {
		t.Errorf("got %+v", got)
	}
}

// field-cases PS-01, PS-02, PS-03
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	room := newRoom(t, nil, nil)
	marker := "git-spot-verify-" + filepath.Base(filepath.Dir(room.Dir))
	for name, script := range map[string]string{
		"keeps standard output": "sleep 600 & echo ok",
		"own session":           "setsid sleep 600 >/dev/null 2>&1 & echo ok",
		"ignores TERM":          "(trap '' TERM; sleep 600; sleep 600) & echo ok",
	} {
		if _, err := os.Stat("/usr/bin/setsid"); err != nil && strings.HasPrefix(script, "setsid") {
			continue
		}
		c := check("sh", "-c", script)
		c.Env = map[string]string{"MARKER": marker}
		if got := runOne(t, room, c); !verify.Passed(got) || got.OutputHead != "ok\n" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got := runOne(t, room, check("sh", "-c", "read x || echo end; test ! -t 0")); !verify.Passed(got) || got.OutputHead != "end\n" {
		t.Errorf("standard input: %+v", got)
	}
	if runtime.GOOS != "linux" {
		return
	}
	procs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range procs {
		if env, err := os.ReadFile(file); err == nil && strings.Contains(string(env), "MARKER="+marker) {
			t.Errorf("left: %s", file)
		}
	}
}

func TestOutputIsBoundedAndText(t *testing.T) {
	t.Parallel()
	room := newRoom(t, nil, nil)
	got := runOne(t, room, check("sh", "-c", `printf 'a\377b\n'; head -c 1000000 /dev/zero | tr '\0' x; printf 'end\376'`))
	if !verify.Passed(got) || got.OutputBytes != 1_000_008 {
		t.Fatalf("%d bytes", got.OutputBytes)
	}
	sum := sha256.Sum256([]byte("a\xffb\n" + strings.Repeat("x", 1_000_000) + "end\xfe"))
	if got.OutputSHA256 != hex.EncodeToString(sum[:]) {
		t.Error("the hash is not of the whole output")
	}
	if !strings.HasPrefix(got.OutputHead, "a\uFFFDb\nxx") || !strings.HasSuffix(got.OutputTail, "xend\uFFFD") {
		t.Errorf("head %.9q, tail %q", got.OutputHead, got.OutputTail[len(got.OutputTail)-9:])
	}
	if !utf8.ValidString(got.OutputHead+got.OutputTail) || len(got.OutputHead) > 70_000 || len(got.OutputTail) > 70_000 {
		t.Errorf("head %d, tail %d bytes", len(got.OutputHead), len(got.OutputTail))
	}
}

// field-cases AC-17
func TestProgram(t *testing.T) {
	t.Parallel()
	yes := program("#!/bin/sh\necho planted\n")
	files := map[string]string{
		"sh": yes, "bin/sh": yes, "tool": yes, "sub/tool": yes, "sub/plain": "text", "out": link(".."), "venv/bin/sh": link("/bin/sh"), "dangling": link("no/where"),
		"loop": link("loop"),
	}
	tests := []struct {
		name, path, cwd string
		argv            []string
		output, err     string
	}{
		{"candidate's file in a relative entry", ".:bin:" + systemPath, "", []string{"sh", "-c", "echo real"}, "real\n", ""},
		{"in an empty entry", ":" + systemPath + "::", "", []string{"sh", "-c", "echo real"}, "real\n", ""},
		{"in an entry of the room", "$ROOM/bin:$ROOM:" + systemPath, "", []string{"sh", "-c", "echo real"}, "real\n", ""},
		{"in an entry that is not there yet", "$ROOM/later:" + systemPath, "", []string{"sh", "-c", "mkdir later; cp tool later/date; date | grep -v planted >/dev/null"}, "", ""},
		{"in an entry that leads there", "$ROOM/sub/../bin:" + systemPath, "", []string{"sh", "-c", "echo real"}, "real\n", ""},
		{"the command's own search", ".:$ROOM/bin:" + systemPath, "", []string{"sh", "-c", "exec env sh -c 'echo real'"}, "real\n", ""},
		{"only in the room", "$ROOM:.", "", []string{"tool"}, "", `"tool" not found`},
		{"no PATH", "", "", []string{"sh", "-c", "echo real"}, "real\n", ""},
		{"with a slash", systemPath, "", []string{"./tool"}, "planted\n", ""},
		{"relative to cwd", systemPath, "sub", []string{"./tool"}, "planted\n", ""},
		{"up within the room", systemPath, "sub", []string{"../tool"}, "planted\n", ""},
		{"absolute", systemPath, "", []string{"/bin/sh", "-c", "echo real"}, "real\n", ""},
		{"last component leads out, as in a Python environment", systemPath, "", []string{"venv/bin/sh", "-c", "echo real"}, "real\n", ""},
		{"out by dots", systemPath, "", []string{"../x"}, "", "outside"},
		{"out by a link", systemPath, "", []string{"out/x"}, "", "outside"},
		{"missing", systemPath, "", []string{"./none"}, "", "no such file"},
		{"missing folder", systemPath, "", []string{"none/none"}, "", "no such file"},
		{"dangling", systemPath, "", []string{"./dangling"}, "", "no such file"},
		{"no program", systemPath, "", []string{"./sub/plain"}, "", "exec format"},
		{"a folder", systemPath, "", []string{"./sub"}, "", "start"},
		{"absolute and missing", systemPath, "", []string{"/no/such/tool"}, "", "no such file"},
		{"empty", systemPath, "", nil, "", "no program"},
		{"empty name", systemPath, "", []string{""}, "", "no program"},

		{"cwd out by dots", systemPath, "../", []string{"true"}, "", "outside"},
		{"cwd out by a link", systemPath, "out", []string{"true"}, "", "outside"},
		{"cwd through a link and back", systemPath, "out/room", []string{"pwd", "-P"}, "$ROOM\n", ""},
		{"cwd missing", systemPath, "none", []string{"true"}, "", "no such file"},
		{"cwd is a file", systemPath, "tool", []string{"true"}, "", "not a folder"},
		{"cwd in circles", systemPath, "loop", []string{"true"}, "", "too many links"},
		{"cwd dot", systemPath, ".", []string{"./tool"}, "planted\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			room := newRoom(t, files, map[string]string{"PATH": tt.path})
			got := runOne(t, room, schemas.Check{Argv: tt.argv, Cwd: tt.cwd})
			real, err := filepath.EvalSymlinks(room.Dir)
			if err != nil {
				t.Fatal(err)
			}
			if tt.err != "" {
				if verify.Passed(got) || got.Exit != nil || !strings.Contains(got.Error, tt.err) {
					t.Errorf("got %+v, want an error with %q", got, tt.err)
				}
				return
			}
			if want := strings.ReplaceAll(tt.output, "$ROOM", real); got.OutputHead != want || !verify.Passed(got) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestRunEndsWithTheContext(t *testing.T) {
	t.Parallel()
	room := newRoom(t, nil, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	for _, run := range []func() ([]schemas.CommandResult, error){
		func() ([]schemas.CommandResult, error) {
			return verify.RunChecks(ctx, room, []schemas.Check{check("touch", "ran")})
		},
		func() ([]schemas.CommandResult, error) {
			return verify.RunSetup(ctx, room, []schemas.Setup{{Argv: []string{"touch", "ran"}}})
		},
	} {
		if results, err := run(); !errors.Is(err, why) || len(results) != 0 {
			t.Errorf("got %+v, %v", results, err)
		}
	}
	if _, err := os.Stat(filepath.Join(room.Dir, "ran")); err == nil {
		t.Error("it ran")
	}
}

// field-cases PS-10, PS-12, AC-04
func TestEnvironment(t *testing.T) {
	t.Parallel()
	user := map[string]string{
		"LANG": "de_DE.UTF-8", "LC_TIME": "C", "TZ": "UTC", "PATH": systemPath,
		"AWS_SECRET_ACCESS_KEY": "s", "DATABASE_URL": "postgres://u:p@h", "FOO": "bar", "SSH_AUTH_SOCK": "/x", "GIT_DIR": "/x", "GIT_ASKPASS": "/x", "GIT_CONFIG_COUNT": "1",
		"NODE_OPTIONS": "x", "NODE_PATH": "x", "PYTHONPATH": "x", "PYTHONSTARTUP": "x", "GOFLAGS": "-run=NONE", "GOPROXY": "off", "npm_config_script_shell": "x", "LD_PRELOAD": "x",
		"BASH_ENV": "x", "ENV": "x", "MAKEFLAGS": "-n", "PAGER": "less", "EDITOR": "vi", "TERM": "xterm", "HTTPS_PROXY": "x", "DISPLAY": ":0", "XDG_RUNTIME_DIR": "/run/user/0",
		"OPENAI_API_KEY": "sk", "CODEX_THREAD_ID": "x", "RUSTFLAGS": "x", "JAVA_TOOL_OPTIONS": "x", "PERL5OPT": "x", "RUBYOPT": "x", "CARGO_REGISTRY_TOKEN": "x",
	}
	room := newRoom(t, nil, user)
	want := []string{
		"A=from the contract", "CI=1", "EDITOR=true", "GIT_EDITOR=true", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "HOME=" + room.Home, "LANG=de_DE.UTF-8", "LC_TIME=C",
		"PAGER=cat", "PATH=" + systemPath, "TERM=dumb", "TMPDIR=" + room.Tmp, "TZ=Asia/Tokyo", "VISUAL=true",
	}
	extra := map[string]string{"A": "from the contract", "TZ": "Asia/Tokyo"}
	// The home of this user is empty: there are no caches.
	if diff := cmp.Diff(want, verify.Environment(room, extra)); diff != "" {
		t.Error(diff)
	}
	c := check("env")
	c.Env = extra
	got := runOne(t, room, c)
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(got.OutputHead), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "PWD=") || strings.HasPrefix(line, "_=") || strings.HasPrefix(line, "SHLVL=")
	})
	slices.Sort(lines)
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("a command sees: %s", diff)
	}
}

func TestCachesStayWarm(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, dir := range []string{".cache/go-build", "go/pkg/mod", ".npm", ".cargo", ".rustup", "elsewhere/mod", "gopath/pkg/mod", "xdg/pip", "a file is no cache"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, ".gradle"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	goenv := filepath.Join(home, ".config/go/env")
	if err := os.MkdirAll(filepath.Dir(goenv), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goenv, []byte("# x\nGOFLAGS=-run=NONE\nGOMODCACHE="+home+"/elsewhere/mod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		user map[string]string
		want []string
	}{
		{"by default and by go env -w", nil, []string{
			"CARGO_HOME=~/.cargo", "GOCACHE=~/.cache/go-build", "GOMODCACHE=~/elsewhere/mod", "RUSTUP_HOME=~/.rustup", "npm_config_cache=~/.npm",
		}},
		{"by the environment", map[string]string{
			"GOENV": "off", "GOPATH": home + "/gopath:/other", "XDG_CACHE_HOME": home + "/xdg", "CARGO_HOME": home + "/other", "NPM_CONFIG_CACHE": "relative", "GOCACHE": "off",
		}, []string{
			"CARGO_HOME=~/other", "GOMODCACHE=~/gopath/pkg/mod", "PIP_CACHE_DIR=~/xdg/pip", "RUSTUP_HOME=~/.rustup", "npm_config_cache=~/.npm",
		}},
	}
	if runtime.GOOS != "linux" {
		t.Skip("caches are elsewhere")
	}
	for _, tt := range tests {
		user := map[string]string{"HOME": home}
		for name, value := range tt.user {
			user[name] = value
		}
		var got []string
		for _, entry := range verify.Environment(newRoom(t, nil, user), nil) {
			if strings.Contains(entry, home) {
				got = append(got, strings.ReplaceAll(entry, home, "~"))
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}
