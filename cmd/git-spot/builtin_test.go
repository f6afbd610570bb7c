package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/git-spot/git-spot/internal/scriptedmodel"
	"github.com/git-spot/git-spot/schemas"
)

// assignment is a task for the builtin agent, with the words of its model.
type assignment struct {
	name    string
	base    map[string]string // file to content, beside tests/check.sh
	check   string            // tests/check.sh, in the clean room
	steps   []scriptedmodel.Step
	want    map[string]string // the files that differ from base afterwards; "" is gone
	limits  schemas.Limits
	outcome schemas.Outcome // "" is completed
}

func call(tool string, args any) scriptedmodel.Call {
	data, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return scriptedmodel.Call{Tool: tool, Args: data}
}

type args = map[string]any

func replace(path, before, after string) scriptedmodel.Call {
	return call("edit", args{"path": path, "edits": []args{{"oldText": before, "newText": after, "all": true}}})
}

func says(text string, calls ...scriptedmodel.Call) scriptedmodel.Step {
	return scriptedmodel.Step{Text: text, Calls: calls}
}

func assignments() []assignment {
	many, renamed := map[string]string{}, map[string]string{}
	var renames []scriptedmodel.Call
	for i := range 30 {
		path := fmt.Sprintf("src/m%02d/file.txt", i)
		many[path] = fmt.Sprintf("call oldName(%d)\nand oldName again\n", i)
		renamed[path] = strings.ReplaceAll(many[path], "oldName", "newName")
		renames = append(renames, replace(path, "oldName", "newName"))
	}
	var long strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&long, "line %d: nothing to see\n", i+1)
		if i == 3210 {
			long.WriteString("limit = 10 # off by one\n")
		}
	}
	var reads []scriptedmodel.Step
	for i := range 250 {
		reads = append(reads, says("", call("read", args{"path": "src/a.txt", "offset": i%7 + 1, "limit": i + 1})))
	}
	return []assignment{
		{
			name: "rename over 30 files", base: many, want: renamed,
			check: "! grep -r oldName src && test $(grep -rl newName src | wc -l) = 30",
			steps: []scriptedmodel.Step{
				says("I look where the name is.", call("grep", args{"pattern": "oldName", "filesOnly": true})),
				says("", renames[:20]...), says("", renames[20:]...), says("Renamed in 30 files."),
			},
		},
		{
			name: "new module with tests", base: map[string]string{"src/main.sh": "echo main\n"},
			check: "sh src/sum_test.sh",
			steps: []scriptedmodel.Step{
				says("", call("find", args{"pattern": "**/*.sh"}), call("ls", args{"path": "src"})),
				says("", call("write", args{"path": "src/sum.sh", "content": "sum() { echo $(($1 + $2)); }\n"}),
					call("write", args{"path": "src/sum_test.sh", "content": ". ./src/sum.sh\ntest \"$(sum 2 3)\" = 5\n"})),
				says("There is a module, and its test."),
			},
			want: map[string]string{
				"src/sum.sh":      "sum() { echo $(($1 + $2)); }\n",
				"src/sum_test.sh": ". ./src/sum.sh\ntest \"$(sum 2 3)\" = 5\n",
			},
		},
		{
			name: "bug fix in a file of 5000 lines", base: map[string]string{"src/long.txt": long.String()},
			check: "grep -q '^limit = 9$' src/long.txt && test $(wc -l <src/long.txt) = 5001",
			steps: []scriptedmodel.Step{
				says("", call("grep", args{"pattern": "^limit", "path": "src"})),
				says("", call("read", args{"path": "src/long.txt", "offset": 3205, "limit": 15})),
				says("", replace("src/long.txt", "limit = 10 # off by one\n", "limit = 9\n")),
				says("Mended."),
			},
			want: map[string]string{"src/long.txt": strings.Replace(long.String(), "limit = 10 # off by one\n", "limit = 9\n", 1)},
		},
		{
			name: "JSON", base: map[string]string{"src/data.json": "{\n  \"name\": \"a\",\n  \"ports\": [1, 2]\n}\n"},
			check: `grep -q '"ports": \[1, 2, 3\]' src/data.json`,
			steps: []scriptedmodel.Step{
				says("", call("read", args{"path": "src/data.json"})),
				says("", replace("src/data.json", `"ports": [1, 2]`, `"ports": [1, 2, 3]`)),
				says("One port more."),
			},
			want: map[string]string{"src/data.json": "{\n  \"name\": \"a\",\n  \"ports\": [1, 2, 3]\n}\n"},
		},
		{
			name: "CRLF", base: map[string]string{"src/dos.txt": "one\r\ntwo\r\nthree\r\n"},
			check: `grep -q 'TWO' src/dos.txt`,
			steps: []scriptedmodel.Step{
				says("", call("read", args{"path": "src/dos.txt"})),
				says("", replace("src/dos.txt", "one\ntwo\n", "one\nTWO\nand a half\n")),
				says("Its line ends stay as they are."),
			},
			want: map[string]string{"src/dos.txt": "one\r\nTWO\r\nand a half\r\nthree\r\n"},
		},
		{
			name: "no final newline", base: map[string]string{"src/open.txt": "first\nlast"},
			check: `grep -q 'LAST' src/open.txt`,
			steps: []scriptedmodel.Step{
				says("", call("read", args{"path": "src/open.txt"})),
				says("", replace("src/open.txt", "last", "LAST")),
				says("Still without."),
			},
			want: map[string]string{"src/open.txt": "first\nLAST"},
		},
		{
			name: "names that are not ASCII", base: map[string]string{"src/größe/文件 1.md": "alt\n"},
			check: `grep -q 'neu' "src/größe/文件 1.md" && test -e "src/größe/naïve \"x\".md"`,
			steps: []scriptedmodel.Step{
				says("", call("find", args{"pattern": "**/*.md"})),
				says("", replace("src/größe/文件 1.md", "alt", "neu"), call("write", args{"path": `src/größe/naïve "x".md`, "content": "é\n"})),
				says("Fertig."),
			},
			want: map[string]string{"src/größe/文件 1.md": "neu\n", `src/größe/naïve "x".md`: "é\n"},
		},
		{
			name: "delete", base: map[string]string{"src/old/dead.txt": "dead\n", "src/alive.txt": "alive\n"},
			check: `test ! -e src/old/dead.txt && test -e src/alive.txt`,
			steps: []scriptedmodel.Step{
				says("", call("write", args{"path": "src/old/dead.txt", "delete": true})),
				says("Gone."),
			},
			want: map[string]string{"src/old/dead.txt": ""},
		},
		{
			name: "move", base: map[string]string{"src/a/thing.txt": "a thing\nof two lines\n"},
			check: `test ! -e src/a/thing.txt && grep -q 'a moved thing' src/b/c/thing.txt`,
			steps: []scriptedmodel.Step{
				says("", call("edit", args{
					"path": "src/a/thing.txt", "moveTo": "src/b/c/thing.txt",
					"edits": []args{{"oldText": "a thing", "newText": "a moved thing"}},
				})),
				says("Moved."),
			},
			want: map[string]string{"src/a/thing.txt": "", "src/b/c/thing.txt": "a moved thing\nof two lines\n"},
		},
		{
			name: "limit of 200 steps", base: map[string]string{"src/a.txt": "1\n2\n3\n"},
			check: `grep -q 'four' src/a.txt`,
			steps: slices.Concat([]scriptedmodel.Step{says("", replace("src/a.txt", "3\n", "3\nfour\n"))}, reads),
			want:  map[string]string{"src/a.txt": "1\n2\n3\nfour\n"}, limits: schemas.Limits{MaxSteps: 200}, outcome: schemas.OutcomeStepCapped,
		},
	}
}

// workbench is a repository whose worker is the builtin agent with a scripted model.
type workbench struct {
	dir, repo string
	env       []string
	server    *scriptedmodel.Server
}

// scriptedKey has no shape of a key: only who knows it can mask it.
const scriptedKey = "Nothing-gives-this+one/away"

func newWorkbench(t *testing.T, api string, a *assignment) *workbench {
	t.Helper()
	dir := t.TempDir()
	w := &workbench{dir: dir, repo: filepath.Join(dir, "repo")}
	w.env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GIT_") }),
		"HOME="+filepath.Join(dir, "home"), "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.com", "GORACE=atexit_sleep_ms=0", "TMPDIR="+filepath.Join(dir, "tmp"))
	var err error
	w.server, err = scriptedmodel.Start(t.Context(), scriptedmodel.Options{Script: scriptedmodel.Script{Steps: a.steps}, Key: scriptedKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.server.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"home", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	files := maps.Clone(a.base)
	files["tests/check.sh"] = a.check + "\n"
	for path, content := range files {
		w.write(t, filepath.Join("repo", path), content)
	}
	w.git(t, "init", "-q", "-b", "main")
	for _, kv := range [][]string{
		{"adapter", "builtin"}, {"model", "m-1"}, {"api", api}, {"baseURL", w.server.BaseURL(api)}, {"apiKeyEnv", "SCRIPTED_KEY"}, {"provider", "script"},
	} {
		w.git(t, "config", "spot.profile.scripted."+kv[0], kv[1])
	}
	w.git(t, "config", "spot.defaultProfile", "scripted")
	w.git(t, "config", "core.autocrlf", "false")
	w.git(t, "add", "-A")
	w.git(t, "commit", "-q", "-m", "base")
	task, err := json.Marshal(map[string]any{
		"schemaVersion": 1, "title": a.name, "objective": "Do it: " + a.name + ".", "domain": "tooling", "risk": "low",
		"allowedPaths": []string{"src/**"}, "lockedPaths": []string{"tests/**"}, "limits": a.limits,
		"acceptance":   []args{{"id": "A1", "text": "The check passes."}},
		"verification": []args{{"id": "check", "argv": []string{"sh", "tests/check.sh"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "task.json", string(task))
	return w
}

func (w *workbench) write(t *testing.T, path, content string) {
	t.Helper()
	path = filepath.Join(w.dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// spot runs git spot with the key in its environment.
func (w *workbench) spot(t *testing.T, args ...string) (stdout []byte, stderr string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"spot"}, args...)...)
	cmd.Dir, cmd.Env = w.repo, append(slices.Clone(w.env), "SCRIPTED_KEY="+scriptedKey)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return out.Bytes(), errs.String(), cmd.ProcessState.ExitCode()
}

// ok runs git spot, which must succeed.
func (w *workbench) ok(t *testing.T, args ...string) []byte {
	t.Helper()
	out, stderr, status := w.spot(t, args...)
	if status != 0 {
		t.Fatalf("git spot %q: exit status %d\n%s%s", args, status, out, stderr)
	}
	return out
}

func (w *workbench) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = w.repo, w.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// inspected is what the tests read of inspect.
type inspected struct {
	State      schemas.State   `json:"state"`
	DiffSHA256 string          `json:"diffSha256"`
	Outcome    schemas.Outcome `json:"outcome"`
	Usage      schemas.Usage   `json:"usage"`
	Question   string          `json:"question"`
}

func (w *workbench) inspect(t *testing.T, id string) inspected {
	t.Helper()
	var i inspected
	if err := json.Unmarshal(w.ok(t, "inspect", "--json", id), &i); err != nil {
		t.Fatal(err)
	}
	return i
}

// land gives the caller's verdict on what is there, and lands it.
func (w *workbench) land(t *testing.T, id string) {
	t.Helper()
	w.ok(t, "land", id, "--diff-sha256", w.inspect(t, id).DiffSHA256, "--evidence", "A1=read it", "--message", "Do what "+id+" says")
}

// spent compares what the receipt says with what the server has sent.
func (w *workbench) spent(t *testing.T, got schemas.Usage) {
	t.Helper()
	sent := w.server.Usage()
	for _, kind := range []struct {
		name string
		got  *int64
		want int64
	}{
		{"uncached input", got.UncachedInput, sent.Input},
		{"cache read", got.CacheRead, sent.CacheRead},
		{"cache write", got.CacheWrite, sent.CacheWrite},
		{"output", got.Output, sent.Output},
	} {
		if value := kind.got; value == nil && kind.want != 0 || value != nil && *value != kind.want {
			t.Errorf("%s: the receipt says %v, the server sent %d", kind.name, shown(value), kind.want)
		}
	}
	if sent.Input == 0 || sent.Output == 0 {
		t.Errorf("the server sent %+v", sent)
	}
}

func shown(n *int64) string {
	if n == nil {
		return "null"
	}
	return fmt.Sprint(*n)
}

// Ten tasks of growing size land over all three wire formats: what lands is what the model wrote, to the
// byte, and the usage in the receipt is what the server sent, to the token.
func TestBuiltinLandsTasks(t *testing.T) {
	t.Parallel()
	for i, api := range []string{"chat", "responses", "messages"} {
		for j, a := range assignments() {
			if raceEnabled && (i+j)%3 != 0 {
				continue // each task over one format: the agent, where they differ, is not built for the race detector
			}
			t.Run(api+"/"+a.name, func(t *testing.T) {
				t.Parallel()
				w := newWorkbench(t, api, &a)
				w.ok(t, "dispatch", "--task", "../task.json", "--id", "it")
				i := w.inspect(t, "it")
				want := a.outcome
				if want == "" {
					want = schemas.OutcomeCompleted
				}
				if i.Outcome != want {
					t.Errorf("got outcome %s, want %s", i.Outcome, want)
				}
				w.spent(t, i.Usage)
				w.land(t, "it")
				if got := w.changed(t); !cmp.Equal(got, a.want) {
					t.Errorf("what landed differs:\n%s", cmp.Diff(a.want, got))
				}
				if status := w.git(t, "status", "--short"); status != "" {
					t.Errorf("the checkout is not clean:\n%s", status)
				}
			})
		}
	}
}

// changed are the files that the landed commit changed, with their content; "" is gone.
func (w *workbench) changed(t *testing.T) map[string]string {
	t.Helper()
	changed := map[string]string{}
	for line := range strings.SplitSeq(strings.Trim(w.git(t, "diff-tree", "-r", "-z", "--no-renames", "--name-status", "HEAD~1", "HEAD"), "\x00"), "\x00") {
		if len(line) == 1 {
			continue // the letter
		}
		changed[line] = ""
		if _, err := os.Lstat(filepath.Join(w.repo, line)); err == nil {
			changed[line] = w.git(t, "cat-file", "blob", "HEAD:"+line)
		}
	}
	return changed
}

// cmdModel is "model DIR NAME FILE [API]": the profile NAME of the repository DIR is the builtin agent
// whose model says what the script FILE says.
func cmdModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: model DIR NAME FILE [API]")
	}
	api := "chat"
	if len(args) == 4 {
		api = args[3]
	}
	script, err := scriptedmodel.Decode(strings.NewReader(ts.ReadFile(args[2])))
	ts.Check(err)
	server, err := scriptedmodel.Start(context.Background(), scriptedmodel.Options{Script: script, Key: scriptedKey})
	ts.Check(err)
	ts.Defer(func() { ts.Check(server.Close()) })
	for _, kv := range [][]string{
		{"adapter", "builtin"}, {"model", "m-" + args[1]}, {"api", api}, {"baseURL", server.BaseURL(api)}, {"apiKeyEnv", "SCRIPTED_KEY"},
	} {
		ts.Check(ts.Exec("git", "-C", ts.MkAbs(args[0]), "config", "spot.profile."+args[1]+"."+kv[0], kv[1]))
	}
	ts.Setenv("SCRIPTED_KEY", scriptedKey)
}

// The key is in the environment of git spot and nowhere else: not with any process that it starts, in no
// argument, file, git object, log, record or output, even when the provider says it.
func TestKeyStaysInTheGateway(t *testing.T) {
	t.Parallel()
	for _, api := range []string{"chat", "responses", "messages"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			w := newWorkbench(t, api, &assignment{
				name: "keep the key", base: map[string]string{"src/a.txt": "a\n"}, check: "grep -q b src/a.txt",
				steps: []scriptedmodel.Step{
					says("The key is "+scriptedKey+".", call("read", args{"path": "src/a.txt"})),
					{Fault: scriptedmodel.FaultHang},
					says("", call("write", args{"path": "src/a.txt", "content": "b\n"})),
					says("Done with " + scriptedKey),
				},
			})
			record := filepath.Join(w.dir, "record.jsonl")
			w.env = append(w.env, "GIT_SPOT_RECORD="+record, "GIT_SPOT_TRACE="+filepath.Join(w.dir, "trace"))
			var said bytes.Buffer

			cmd := exec.CommandContext(t.Context(), "git-spot", "dispatch", "--task", "../task.json", "--id", "it")
			cmd.Dir, cmd.Env = w.repo, append(slices.Clone(w.env), "SCRIPTED_KEY="+scriptedKey)
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); len(w.server.Requests()) < 2; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("the model was not asked twice:\n%s", said.String())
				}
			}
			holders(t)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // its state is looked at
			if cmd.ProcessState.ExitCode() != 143 {
				t.Fatalf("got %v\n%s", cmd.ProcessState, said.String())
			}
			for _, command := range [][]string{
				{"recover", "it"}, {"run", "it"}, {"verify", "it"}, {"inspect", "it"}, {"log", "it"}, {"diff", "it"}, {"doctor"}, {"list"},
			} {
				out, stderr, status := w.spot(t, command...)
				if status != 0 {
					t.Errorf("git spot %q: exit status %d\n%s", command, status, stderr)
				}
				said.Write(out)
				said.WriteString(stderr)
			}
			w.land(t, "it")
			said.WriteString(w.git(t, "log", "--notes=spot", "-p", "--all"))
			said.WriteString(w.git(t, "cat-file", "--batch-all-objects", "--batch", "--unordered"))
			if strings.Contains(said.String(), scriptedKey) {
				t.Error("the key is in what git spot printed, or in an object of the repository")
			}
			if !strings.Contains(said.String(), "[redacted]") {
				t.Error("what the provider said is not there at all")
			}
			err := filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || !entry.Type().IsRegular() {
					return err
				}
				data, err := os.ReadFile(path)
				if bytes.Contains(data, []byte(scriptedKey)) {
					t.Errorf("the key is in %s", path)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(record); err != nil || info.Size() == 0 {
				t.Errorf("nothing was recorded: %v", err)
			}
		})
	}
}

// holders fails for every process of this machine, beside git and git-spot, that has the key in its
// environment, and for every one that has it in its arguments.
func holders(t *testing.T) {
	t.Helper()
	agents := 0
	processes, _ := filepath.Glob("/proc/[0-9]*") // empty where there is no such thing
	for _, dir := range processes {
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // any process may be gone by now
		name, _, _ := bytes.Cut(argv, []byte{0})
		if bytes.Contains(argv, []byte(scriptedKey)) {
			t.Errorf("the key is in the arguments of %s", name)
		}
		program := filepath.Base(string(name))
		if program == agentName {
			agents++
		}
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if bytes.Contains(environ, []byte(scriptedKey)) && program != "git" && program != "git-spot" {
			t.Errorf("the key is in the environment of %s", name)
		}
	}
	if runtime.GOOS == "linux" && agents == 0 {
		t.Error("no agent was there to look at")
	}
}

const agentName = "git-spot-agent"

// A model that wants out gets answers and nothing else: each refusal is a result that it can act on, and
// nothing outside of the worktree, nothing of git and no locked file is touched.
func TestBuiltinWithstandsItsModel(t *testing.T) {
	t.Parallel()
	for _, api := range []string{"chat", "responses", "messages"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			var flood []scriptedmodel.Call
			for i := range 500 {
				flood = append(flood, call("write", args{"path": fmt.Sprintf("../flood-%d", i), "content": "x"}))
			}
			asks := []scriptedmodel.Call{
				call("read", args{"path": "../../.ssh/id"}),
				call("read", args{"path": ".git/config"}),
				call("write", args{"path": ".GIT/hooks/pre-commit", "content": "#!/bin/sh\ntouch /tmp/owned\n"}),
				call("edit", args{"path": ".git", "edits": []args{{"oldText": "gitdir", "newText": "x"}}}),
				call("read", args{"path": "src/out"}),
				call("write", args{"path": "src/out", "content": "owned"}),
				call("write", args{"path": "src/folder/x", "content": "owned"}),
				call("grep", args{"pattern": "secret", "path": "src/folder"}),
				call("edit", args{"path": "src/a.txt", "moveTo": "../stolen"}),
				call("bash", args{"command": "touch ../owned"}),
				call("read", args{"path": strings.Repeat("a/", 500_000)}),
				{Tool: "read", Raw: `{"path": `},
				{Tool: "write", Raw: `[]`},
				call("read", args{}),
			}
			w := newWorkbench(t, api, &assignment{
				name: "stay inside", base: map[string]string{"src/a.txt": "a\n"}, check: "grep -q b src/a.txt",
				steps: []scriptedmodel.Step{
					says("", asks...), says("", flood...), says("", replace("src/a.txt", "a", "b")), says("Done."),
				},
				limits: schemas.Limits{MaxSteps: 1000},
			})
			w.write(t, "secret/id", "secret\n")
			for _, link := range [][2]string{{"secret/id", "src/out"}, {"secret", "src/folder"}} {
				if err := os.Symlink(filepath.Join(w.dir, link[0]), filepath.Join(w.repo, link[1])); err != nil {
					t.Fatal(err)
				}
			}
			w.git(t, "add", "-A")
			w.git(t, "commit", "-q", "-m", "links")
			w.ok(t, "dispatch", "--task", "../task.json", "--id", "it")
			if i := w.inspect(t, "it"); i.Outcome != schemas.OutcomeCompleted {
				t.Errorf("got %s", i.Outcome)
			}
			w.land(t, "it")
			if got, want := w.changed(t), map[string]string{"src/a.txt": "b\n"}; !cmp.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if data, err := os.ReadFile(filepath.Join(w.dir, "secret", "id")); err != nil || string(data) != "secret\n" {
				t.Errorf("the file outside is %q, %v", data, err)
			}
			if entries, err := os.ReadDir(filepath.Join(w.dir, "secret")); err != nil || len(entries) != 1 {
				t.Errorf("the folder outside has %v, %v", entries, err)
			}
			for _, pattern := range []string{"owned", "stolen", "flood-*", "*/*/flood-*", "*/*/*/flood-*", "*/*/owned"} {
				if found, _ := filepath.Glob(filepath.Join(w.dir, pattern)); len(found) > 0 {
					t.Errorf("found %q", found)
				}
			}
			done := map[string]int{} // calls by status
			for line := range strings.Lines(w.git(t, "cat-file", "blob", "refs/spot/runs/it:attempts/1/events.jsonl")) {
				var e schemas.Event
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				if e.Type == schemas.EventTool {
					done[e.Status]++
				}
			}
			if done["ok"] != 1 || done["denied"]+done["error"] != len(asks)+len(flood) {
				t.Errorf("got %v, and only the last call is to be done", done)
			}
			requests := w.server.Requests()
			answers := string(requests[1].Body)
			if strings.Contains(answers, `secret\n`) {
				t.Error("the model got to read what is outside")
			}
			for _, hint := range []string{"there is no shell", "src/out"} {
				if !strings.Contains(answers, hint) {
					t.Errorf("no answer says %q", hint)
				}
			}
			if len(requests) != 4 {
				t.Errorf("the model was asked %d times", len(requests))
			}
		})
	}
}
