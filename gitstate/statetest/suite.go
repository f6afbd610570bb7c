package statetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
)

// Suite is the conformance suite for one backend.
type Suite struct {
	Open Open
	// Process is the name of a test function that calls Helper with Open. The suite runs it in other
	// processes, to have writers there.
	Process string
	// Init are options of git init for the repositories of the suite.
	Init []string
	// Only are the names of the cases to run; nil is all.
	Only []string
}

// Run runs the suite.
func (s Suite) Run(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Suite)
	}{
		{"core", func(t *testing.T, s Suite) { core(t, s.Open, s.repository(t), "core") }},
		{"cancellation", cancellation},
		{"broken refs", brokenRefs},
		{"large blob", largeBlob},
		{"foreign locks", foreignLocks},
		{"locks that come and go", passingLocks},
		{"goroutines", goroutines},
		{"processes", processes},
		{"create if absent", createIfAbsent},
		{"beside pack-refs and gc", besideGC},
		{"durable", durability},
		{"killed writers", killedWriters},
		{"killed git", killedGit},
		{"lost answer", lostAnswer},
		{"elsewhere for a moment", elsewhereForAMoment},
		{"stuck git", stuckGit},
	} {
		if s.Only != nil && !slices.Contains(s.Only, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, s)
		})
	}
}

func (s Suite) repository(tb testing.TB) string {
	tb.Helper()
	return Repository(tb, filepath.Join(Folder(tb), "repo"), s.Init...)
}

const counter gitstate.Ref = "refs/spot/counter"

var clerk = gitstate.Signature{Name: "clerk", Email: "clerk@example.com", When: time.Unix(1_700_000_000, 0)}

// retryable says which errors a writer may meet in a crowd.
func retryable(err error) bool {
	e, ok := errors.AsType[schemas.Coded](err)
	return ok && (e.Code() == schemas.CodeConflict || e.Code() == schemas.CodeLockHeld)
}

// increment adds one commit to ref, whatever others do meanwhile.
func increment(ctx context.Context, s gitstate.Store, ref gitstate.Ref, message string) error {
	for {
		old, err := s.Ref(ctx, ref)
		c := gitstate.Commit{Author: clerk, Committer: clerk, Message: message + "\n"}
		switch {
		case errors.Is(err, gitstate.ErrNotFound):
			old = gitstate.ZeroOID
			c.Tree, err = s.WriteTree(ctx, nil)
		case err == nil:
			c.Parents = []gitstate.OID{old}
			var last *gitstate.Commit
			if last, err = s.Commit(ctx, old); err == nil {
				c.Tree = last.Tree
			}
		}
		if err != nil {
			return err
		}
		commit, err := s.WriteCommit(ctx, c)
		if err == nil {
			err = s.Update(ctx, []gitstate.RefUpdate{{Ref: ref, New: commit, Old: old}})
		}
		if err == nil || !retryable(err) {
			return err
		}
		if lock, ok := errors.AsType[*gitstate.LockError](err); ok && ctx.Value(strictKey{}) != nil {
			return lock
		}
	}
}

type strictKey struct{}

// chain returns the messages of the commits of ref, oldest first, by git.
func chain(tb testing.TB, dir string, ref gitstate.Ref) []string {
	tb.Helper()
	return strings.Split(Git(tb, dir, "log", "--reverse", "--format=%s", string(ref)), "\n")
}

func fsck(tb testing.TB, dir string) {
	tb.Helper()
	if out, exit := tryGit(tb, dir, nil, "fsck", "--no-dangling", "--strict"); exit != 0 {
		tb.Errorf("git fsck: exit %d\n%s", exit, out)
	}
}

// job is what a helper process does.
type job struct {
	Dir, Role, Word string
	Count           int
}

const jobVariable = "GIT_SPOT_STATETEST_JOB"

// Helper is the body of the test function named by Suite.Process. It does nothing except in the processes
// that the suite starts.
func Helper(t *testing.T, open Open) {
	text := os.Getenv(jobVariable)
	if text == "" {
		return
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options(j.Dir))
	fmt.Println("\nsay", os.Getpid()) // go test leaves its own line unfinished
	switch j.Role {
	case "increment":
		for i := range j.Count {
			if err := increment(t.Context(), s, counter, j.Word+strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
			fmt.Println("say", j.Word+strconv.Itoa(i))
		}
	case "durable":
		durable(t, s)
	case "create":
		for i := range j.Count {
			blob, err := s.WriteBlob(t.Context(), []byte(j.Word))
			if err != nil {
				t.Fatal(err)
			}
			ref := gitstate.Ref("refs/spot/slots/" + strconv.Itoa(i))
			err = s.Update(t.Context(), []gitstate.RefUpdate{{Ref: ref, New: blob, Old: gitstate.ZeroOID}})
			if err == nil {
				fmt.Println("say", ref)
			} else if !retryable(err) {
				t.Fatal(err)
			}
		}
	}
}

// start runs a helper process until it ends, and calls said with each word that it says; the first is
// its process id.
func (s Suite) start(t *testing.T, j job, said func(word string)) (proc.Result, string) {
	t.Helper()
	return s.startUnder(t, nil, j, said)
}

// startUnder is start with a command before the process.
func (s Suite) startUnder(t *testing.T, before []string, j job, said func(word string)) (proc.Result, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	var rest strings.Builder
	read, write := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		for lines := bufio.NewScanner(read); lines.Scan(); {
			if word, ok := strings.CutPrefix(lines.Text(), "say "); ok {
				said(word)
			} else {
				rest.WriteString(lines.Text() + "\n")
			}
		}
	})
	res, err := proc.Exec(t.Context(), proc.Command{
		Argv: append(slices.Clip(before), self, "-test.run=^"+s.Process+"$", "-test.count=1"), Dir: "/",
		Env: append(os.Environ(), jobVariable+"="+string(text)), Stdout: write, Stderr: write,
	})
	_ = write.Close()
	wg.Wait()
	if err != nil {
		t.Error(err)
	}
	return res, rest.String()
}

func goroutines(t *testing.T, s Suite) {
	dir := s.repository(t)
	store := s.open(t, dir)
	head := must[gitstate.OID](t)(store.Ref(t.Context(), "refs/heads/main"))
	const writers, each = 8, 6
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := increment(t.Context(), store, counter, fmt.Sprintf("%d.%d", w, i)); err != nil {
					t.Error(err)
					return
				}
				// Readers of all kinds beside them.
				if _, err := store.Refs(t.Context(), "refs/"); err != nil {
					t.Error(err)
				}
				if _, err := store.Lookup(t.Context(), head, "src/deep/b.txt"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := chain(t, dir, counter); len(got) != writers*each {
		t.Errorf("%d commits, want %d", len(got), writers*each)
	}
}

func (s Suite) open(t *testing.T, dir string) gitstate.Store {
	t.Helper()
	return s.Open(t, Options(dir))
}

func processes(t *testing.T, s Suite) {
	dir := s.repository(t)
	const writers, each = 4, 12
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			res, out := s.start(t, job{Dir: dir, Role: "increment", Word: fmt.Sprintf("%d.", w), Count: each}, func(string) {})
			if res.Exit != 0 {
				t.Errorf("writer %d: exit %d\n%s", w, res.Exit, out)
			}
		})
	}
	wg.Wait()
	got := chain(t, dir, counter)
	slices.Sort(got)
	if len(got) != writers*each || len(slices.Compact(got)) != writers*each {
		t.Errorf("%d commits, want %d: %q", len(got), writers*each, got)
	}
	fsck(t, dir)
}

func createIfAbsent(t *testing.T, s Suite) {
	dir := s.repository(t)
	const writers, names = 6, 25
	var mu sync.Mutex
	winners := map[string][]string{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			word := fmt.Sprint("writer ", w)
			first := true
			res, out := s.start(t, job{Dir: dir, Role: "create", Word: word, Count: names}, func(said string) {
				mu.Lock()
				defer mu.Unlock()
				if !first {
					winners[said] = append(winners[said], word)
				}
				first = false
			})
			if res.Exit != 0 {
				t.Errorf("%s: exit %d\n%s", word, res.Exit, out)
			}
		})
	}
	wg.Wait()
	for i := range names {
		ref := "refs/spot/slots/" + strconv.Itoa(i)
		if len(winners[ref]) != 1 {
			t.Errorf("%s was won by %q", ref, winners[ref])
		} else if got := Git(t, dir, "cat-file", "blob", ref); got != winners[ref][0] {
			t.Errorf("%s was won by %q and belongs to %q", ref, winners[ref][0], got)
		}
	}
}

func besideGC(t *testing.T, s Suite) {
	dir := s.repository(t)
	store := s.open(t, dir)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			// Git says that it could not lock a ref and exits 1, which is none of ours.
			if i%3 == 2 {
				tryGit(t, dir, nil, "gc", "--quiet")
			} else {
				tryGit(t, dir, nil, "pack-refs", "--all", "--prune")
			}
		}
	})
	end := sync.OnceFunc(func() {
		close(stop)
		wg.Wait()
	})
	defer end()
	const count = 60
	for i := range count {
		if err := increment(t.Context(), store, counter, strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
		slot := gitstate.RefUpdate{Ref: "refs/spot/slots/1", New: must[gitstate.OID](t)(store.Ref(t.Context(), counter)), Old: gitstate.ZeroOID}
		if err := store.Update(t.Context(), []gitstate.RefUpdate{slot}); err != nil {
			t.Fatal(err)
		}
		slot.Old, slot.New = slot.New, gitstate.ZeroOID
		if err := store.Update(t.Context(), []gitstate.RefUpdate{slot}); err != nil {
			t.Fatal(err)
		}
	}
	end()
	if got := chain(t, dir, counter); len(got) != count {
		t.Errorf("%d commits, want %d", len(got), count)
	}
	fsck(t, dir)
}

// killedWriters kills a process that writes all the time, again and again. A lock that it leaves is named,
// not waited for without end, and not removed.
func killedWriters(t *testing.T, s Suite) {
	dir := s.repository(t)
	store := s.open(t, dir)
	acknowledged, left := 0, 0
	for round := range 12 {
		said := 0
		var pid int
		res, out := s.start(t, job{Dir: dir, Role: "increment", Word: fmt.Sprintf("%d.", round), Count: 1_000_000}, func(word string) {
			if said++; said == 1 {
				pid, _ = strconv.Atoi(word)
			}
			if said == 3+round {
				// The instant is spread over the next increments by the time that the round takes.
				time.AfterFunc(time.Duration(round*1300)*time.Microsecond, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			}
		})
		if res.Signal != "SIGKILL" {
			t.Fatalf("the writer ended with %+v\n%s", res, out)
		}
		acknowledged += said - 1

		if _, err := store.Ref(t.Context(), counter); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		err := increment(context.WithValue(t.Context(), strictKey{}, true), store, counter, "next")
		if lock, ok := errors.AsType[*gitstate.LockError](err); ok {
			left++
			if err := os.Remove(lock.Path); err != nil {
				t.Fatalf("the lock that is in the way: %v", err)
			}
			err = increment(t.Context(), store, counter, "next")
		}
		if err != nil {
			t.Fatalf("round %d: the next writer: %v", round, err)
		}
		acknowledged++
	}
	got := chain(t, dir, counter)
	if len(got) < acknowledged {
		t.Errorf("%d commits, but %d were acknowledged", len(got), acknowledged)
	}
	t.Logf("%d commits, %d acknowledged, %d locks left", len(got), acknowledged, left)
	fsck(t, dir)
}

// killedGit lets the git that moves refs be killed at some instant of its life.
func killedGit(t *testing.T, s Suite) {
	dir := s.repository(t)
	o := Options(dir)
	o.Program = script(t, `case "$*" in
*update-ref*)
	exec 3<&0
	"$GIT" "$@" <&3 &
	exec 3<&-
	n=$(cat `+dir+`/delay 2>/dev/null || echo 0)
	sleep 0.0$(( n / 10 ))$(( n % 10 ))
	kill -KILL $! 2>/dev/null
	wait $!;;
*) exec "$GIT" "$@";;
esac`)
	healthy := s.open(t, dir)
	if err := increment(t.Context(), healthy, counter, "first"); err != nil {
		t.Fatal(err)
	}
	acknowledged, locks := 1, 0
	for round := range 15 {
		Write(t, filepath.Join(dir, "delay"), strconv.Itoa(round))
		store := s.Open(t, o)
		head := must[gitstate.OID](t)(healthy.Ref(t.Context(), counter))
		blob := must[gitstate.OID](t)(healthy.WriteBlob(t.Context(), []byte(strconv.Itoa(round))))
		// Two refs, so that every backend leaves it to git.
		err := store.Update(t.Context(), []gitstate.RefUpdate{
			{Ref: "refs/spot/killed/" + gitstate.Ref(strconv.Itoa(round)), New: blob, Old: gitstate.ZeroOID}, {Ref: counter, New: head, Old: head},
		})
		if err == nil {
			acknowledged++
		}
		if _, err := healthy.Ref(t.Context(), counter); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		err = increment(context.WithValue(t.Context(), strictKey{}, true), healthy, counter, "next")
		for range 3 {
			lock, ok := errors.AsType[*gitstate.LockError](err)
			if !ok {
				break
			}
			locks++
			if err := os.Remove(lock.Path); err != nil {
				t.Fatal(err)
			}
			err = increment(t.Context(), healthy, counter, "next")
		}
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	refs, err := healthy.Refs(t.Context(), "refs/spot/killed/")
	if err != nil || len(refs) < acknowledged-1 {
		t.Errorf("%d refs, %v; %d were acknowledged", len(refs), err, acknowledged-1)
	}
	t.Logf("%d acknowledged, %d locks left", acknowledged, locks)
	fsck(t, dir)
}

// lostAnswer lets git die after it committed and before it said so.
func lostAnswer(t *testing.T, s Suite) {
	dir := s.repository(t)
	for _, exit := range []string{"exit 0", "exit 1"} {
		o := Options(dir)
		o.Program = script(t, `case "$*" in
*update-ref*)
	pipe=$(mktemp -u) && mkfifo "$pipe" || exit 99
	exec 3<&0
	"$GIT" "$@" <&3 >"$pipe" &
	exec 3<&-
	{ rm "$pipe"; read a; echo "$a"; read a; echo "$a"; read a; } <"$pipe"
	kill -KILL $!
	`+exit+`;;
*) exec "$GIT" "$@";;
esac`)
		store := s.Open(t, o)
		blob := must[gitstate.OID](t)(store.WriteBlob(t.Context(), []byte(exit)))
		ref := gitstate.Ref("refs/spot/" + strings.ReplaceAll(exit, " ", "-"))
		for range 2 {
			if err := store.Update(t.Context(), []gitstate.RefUpdate{{Ref: ref, New: blob, Old: gitstate.ZeroOID}}); err != nil {
				t.Errorf("%s: create: %v", exit, err)
			}
			if err := store.Update(t.Context(), []gitstate.RefUpdate{{Ref: ref, New: gitstate.ZeroOID, Old: blob}}); err != nil {
				t.Errorf("%s: delete: %v", exit, err)
			}
		}
	}
}

// elsewhereForAMoment lets git find a ref elsewhere that is back when anybody looks.
func elsewhereForAMoment(t *testing.T, s Suite) {
	dir := s.repository(t)
	once := filepath.Join(dir, "once")
	o := Options(dir)
	o.Program = script(t, `case "$*" in
*update-ref*)
	[ -e '`+once+`' ] && exec "$GIT" "$@"
	[ -e '`+once+`ever' ] || : >'`+once+`'
	echo "fatal: prepare: cannot lock ref 'refs/spot/x': reference already exists" >&2
	exit 128;;
*) exec "$GIT" "$@";;
esac`)
	store := s.Open(t, o)
	blob := must[gitstate.OID](t)(store.WriteBlob(t.Context(), []byte("x")))
	create := []gitstate.RefUpdate{{Ref: "refs/spot/x", New: blob, Old: gitstate.ZeroOID}}
	if err := store.Update(t.Context(), create); err != nil {
		t.Errorf("once: %v", err)
	}
	if err := s.open(t, dir).Update(t.Context(), []gitstate.RefUpdate{{Ref: "refs/spot/x", New: gitstate.ZeroOID, Old: blob}}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(once, once+"ever"); err != nil {
		t.Fatal(err)
	}
	err := store.Update(t.Context(), create)
	if e, ok := errors.AsType[*gitstate.ConflictError](err); !ok || e.Ref != "refs/spot/x" || e.Got != "" {
		t.Errorf("again and again: %v", err)
	}
}

// stuckGit lets git answer nothing.
func stuckGit(t *testing.T, s Suite) {
	dir := s.repository(t)
	o := Options(dir)
	o.Program = script(t, `case "$*" in *cat-file*|*update-ref*) exec sleep 600;; *) exec "$GIT" "$@";; esac`)
	store := s.Open(t, o)
	absent := gitstate.OID(strings.Repeat("1", len(must[gitstate.OID](t)(store.Ref(t.Context(), "refs/heads/main")))))
	cause := errors.New("enough")
	soon := func() context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
		return ctx
	}
	if _, err := store.Blob(soon(), absent); !errors.Is(err, cause) {
		t.Errorf("read: got %v", err)
	}
	if err := store.Update(soon(), []gitstate.RefUpdate{{Ref: counter, New: absent, Old: gitstate.ZeroOID}}); !errors.Is(err, cause) {
		t.Errorf("update: got %v", err)
	}
}

func cancellation(t *testing.T, s Suite) {
	dir := s.repository(t)
	store := s.open(t, dir)
	blob := must[gitstate.OID](t)(store.WriteBlob(t.Context(), []byte("x")))
	head := must[gitstate.OID](t)(store.Ref(t.Context(), "refs/heads/main"))
	tree := must[*gitstate.Commit](t)(store.Commit(t.Context(), head)).Tree
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for name, call := range map[string]func() error{
		"Ref":       func() error { _, err := store.Ref(ctx, "refs/heads/main"); return err },
		"Refs":      func() error { _, err := store.Refs(ctx, "refs/"); return err },
		"Commit":    func() error { _, err := store.Commit(ctx, head); return err },
		"Blob":      func() error { _, err := store.Blob(ctx, blob); return err },
		"Size":      func() error { _, err := store.Size(ctx, blob); return err },
		"Tree":      func() error { _, err := store.Tree(ctx, tree); return err },
		"Lookup":    func() error { _, err := store.Lookup(ctx, head, "README"); return err },
		"WriteBlob": func() error { _, err := store.WriteBlob(ctx, []byte("never written")); return err },
		"WriteTree": func() error { _, err := store.WriteTree(ctx, nil); return err },
		"WriteCommit": func() error {
			_, err := store.WriteCommit(ctx, gitstate.Commit{Tree: tree, Author: clerk, Committer: clerk})
			return err
		},
		"Update": func() error {
			return store.Update(ctx, []gitstate.RefUpdate{{Ref: counter, New: blob, Old: gitstate.ZeroOID}})
		},
	} {
		if err := call(); !errors.Is(err, cause) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := store.Ref(t.Context(), counter); !errors.Is(err, gitstate.ErrNotFound) {
		t.Errorf("after the update that was cancelled: %v", err)
	}
	never, _ := tryGit(t, dir, []byte("never written"), "hash-object", "--stdin")
	if _, err := store.Blob(t.Context(), oid(t, strings.TrimSpace(never))); !errors.Is(err, gitstate.ErrNotFound) {
		t.Errorf("the blob of the write that was cancelled: %v", err)
	}
}

func brokenRefs(t *testing.T, s Suite) {
	dir := s.repository(t)
	store := s.open(t, dir)
	head := must[gitstate.OID](t)(store.Ref(t.Context(), "refs/heads/main"))
	folder := filepath.Join(dir, ".git", "refs", "spot", "runs")
	broken := map[string]string{
		"empty": "", "garbage": "hello\n", "short": string(head[:20]), "zeros": strings.Repeat("0", len(head)) + "\n",
		"dangling": "ref: refs/spot/none\n", "loop": "ref: refs/spot/runs/loop\n", "binary": "\x00\xff\x00",
		"nul": "\x00\x00\x00\n", "nul-in-symbolic": "ref: \x00\n", "no-target": "ref: \n", "blank": "\n", "trailing": string(head) + "x\n",
	}
	for name, content := range broken {
		Write(t, filepath.Join(folder, name), content)
	}
	Write(t, filepath.Join(folder, "x.lock"), "") // is no ref
	missing := strings.Repeat("1", len(head))
	Write(t, filepath.Join(folder, "no-object"), missing+"\n") // is a good ref to nothing
	for _, name := range []string{"a", "z", "below/it"} {
		if err := store.Update(t.Context(), []gitstate.RefUpdate{{Ref: gitstate.Ref("refs/spot/runs/" + name), New: head, Old: gitstate.ZeroOID}}); err != nil {
			t.Fatal(err)
		}
	}

	values, err := store.Refs(t.Context(), "refs/spot/")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range values {
		name := strings.TrimPrefix(string(v.Ref), "refs/spot/runs/")
		if v.Err != nil {
			if e, ok := errors.AsType[*gitstate.BrokenRefError](v.Err); !ok || e.Ref != v.Ref || v.OID != "" {
				t.Errorf("%s: got %+v", v.Ref, v)
			}
			name += "!"
		}
		got = append(got, name)
	}
	if want := []string{"a", "below/it", "binary!", "blank!", "dangling!", "empty!", "garbage!", "loop!", "no-object", "no-target!", "nul!", "nul-in-symbolic!", "short!", "trailing!", "z", "zeros!"}; !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	// Each alone: one that is seen must not be what makes the others seen.
	for name, content := range broken {
		Write(t, filepath.Join(dir, ".git", "refs", "spot", "alone", name), content)
		values, err := store.Refs(t.Context(), "refs/spot/alone/")
		if err != nil || len(values) != 1 || values[0].Err == nil {
			t.Errorf("%s alone: got %v, %v", name, values, err)
		}
		if err := os.Remove(filepath.Join(dir, ".git", "refs", "spot", "alone", name)); err != nil {
			t.Fatal(err)
		}
	}
	for name := range broken {
		ref := gitstate.Ref("refs/spot/runs/" + name)
		_, err := store.Ref(t.Context(), ref)
		if e, ok := errors.AsType[*gitstate.BrokenRefError](err); !ok || e.Ref != ref {
			t.Errorf("%s: got %v", ref, err)
		}
		for _, u := range []gitstate.RefUpdate{{Ref: ref, New: head, Old: head}, {Ref: ref, New: gitstate.ZeroOID, Old: head}} {
			err := store.Update(t.Context(), []gitstate.RefUpdate{u})
			if _, ok := errors.AsType[*gitstate.BrokenRefError](err); !ok {
				t.Errorf("update of %s: got %v", ref, err)
			}
		}
	}
	if got, err := store.Ref(t.Context(), "refs/spot/runs/no-object"); err != nil || string(got) != missing {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := store.Ref(t.Context(), "refs/spot/runs/below"); !errors.Is(err, gitstate.ErrNotFound) {
		t.Errorf("a folder: got %v", err)
	}
}

func largeBlob(t *testing.T, s Suite) {
	dir := s.repository(t)
	store := s.open(t, dir)
	const limit = 64 << 20
	path := filepath.Join(dir, "large")
	Write(t, path, "")
	if err := os.Truncate(path, limit+1); err != nil {
		t.Fatal(err)
	}
	blob := oid(t, Git(t, dir, "-c", "core.compression=1", "hash-object", "-w", "--no-filters", "large"))
	_, err := store.Blob(t.Context(), blob)
	if e, ok := errors.AsType[*gitstate.TooLargeError](err); !ok || e.Size != limit+1 || e.Limit != limit || e.OID != blob {
		t.Errorf("got %v", err)
	}
	if size, err := store.Size(t.Context(), blob); err != nil || size != limit+1 {
		t.Errorf("its size is %d, %v", size, err)
	}
	if _, err := store.Ref(t.Context(), "refs/heads/main"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// foreignLocks leaves lock files that nobody will remove.
func foreignLocks(t *testing.T, s Suite) {
	const locked, free, zero = gitstate.Ref("refs/spot/locked"), gitstate.Ref("refs/spot/free"), gitstate.ZeroOID
	setUp := func(t *testing.T) (dir string, store gitstate.Store, blob, head gitstate.OID) {
		t.Helper()
		dir = s.repository(t)
		store = s.open(t, dir)
		blob = must[gitstate.OID](t)(store.WriteBlob(t.Context(), []byte("x")))
		head = must[gitstate.OID](t)(store.Ref(t.Context(), "refs/heads/main"))
		for _, ref := range []gitstate.Ref{locked, free} {
			if err := store.Update(t.Context(), []gitstate.RefUpdate{{Ref: ref, New: head, Old: zero}}); err != nil {
				t.Fatal(err)
			}
		}
		Git(t, dir, "pack-refs", "--all")
		return dir, store, blob, head
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, tt := range []struct {
		name, lock string
		updates    func(blob, head gitstate.OID) []gitstate.RefUpdate
	}{
		{"move", "refs/spot/locked.lock", func(blob, head gitstate.OID) []gitstate.RefUpdate {
			return []gitstate.RefUpdate{{Ref: locked, New: blob, Old: head}}
		}},
		{"move two", "refs/spot/locked.lock", func(blob, head gitstate.OID) []gitstate.RefUpdate {
			return []gitstate.RefUpdate{{Ref: free, New: blob, Old: head}, {Ref: locked, New: blob, Old: head}}
		}},
		{"create", "refs/spot/new.lock", func(blob, _ gitstate.OID) []gitstate.RefUpdate {
			return []gitstate.RefUpdate{{Ref: "refs/spot/new", New: blob, Old: zero}}
		}},
		{"delete", "refs/spot/locked.lock", func(_, head gitstate.OID) []gitstate.RefUpdate {
			return []gitstate.RefUpdate{{Ref: locked, New: zero, Old: head}}
		}},
		{"delete a packed ref", "packed-refs.lock", func(_, head gitstate.OID) []gitstate.RefUpdate {
			return []gitstate.RefUpdate{{Ref: locked, New: zero, Old: head}}
		}},
	} {
		dir, store, blob, head := setUp(t)
		wg.Go(func() {
			lock := filepath.Join(dir, ".git", filepath.FromSlash(tt.lock))
			Write(t, lock, "")
			start := time.Now()
			err := store.Update(t.Context(), tt.updates(blob, head))
			if e, ok := errors.AsType[*gitstate.LockError](err); !ok || e.Path != lock || e.Code() != schemas.CodeLockHeld {
				t.Errorf("%s: got %v", tt.name, err)
			}
			if waited := time.Since(start); waited < time.Second/2 {
				t.Errorf("%s: gave up after %v", tt.name, waited)
			}
			if _, err := os.Lstat(lock); err != nil {
				t.Errorf("%s: a foreign lock is gone: %v", tt.name, err)
				return
			}
			values, err := store.Refs(t.Context(), "refs/spot/")
			if err != nil || len(values) != 2 || values[0].OID != head || values[1].OID != head {
				t.Errorf("%s: readers: got %v, %v", tt.name, values, err)
			}
			if err := os.Remove(lock); err != nil {
				t.Error(err)
			}
			if err := store.Update(t.Context(), tt.updates(blob, head)); err != nil {
				t.Errorf("%s: without the lock: %v", tt.name, err)
			}
		})
	}
	dir, store, blob, head := setUp(t)
	Write(t, filepath.Join(dir, ".git", "refs", "spot", "locked.lock"), "")
	err := store.Update(t.Context(), []gitstate.RefUpdate{{Ref: locked, New: head, Old: blob}})
	if _, ok := errors.AsType[*gitstate.ConflictError](err); !ok {
		t.Errorf("a wrong expectation: got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := store.Update(ctx, []gitstate.RefUpdate{{Ref: locked, New: blob, Old: head}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled while waiting: got %v", err)
	}
	if err := store.Update(t.Context(), []gitstate.RefUpdate{{Ref: free, New: blob, Old: head}}); err != nil {
		t.Errorf("another ref: %v", err)
	}
}

// passingLocks holds the lock most of the time, by ever new files, as a crowd of writers does.
func passingLocks(t *testing.T, s Suite) {
	dir := s.repository(t)
	store := s.open(t, dir)
	head := must[gitstate.OID](t)(store.Ref(t.Context(), "refs/heads/main"))
	lock := filepath.Join(dir, ".git", "refs", "spot", "crowd.lock")
	Write(t, lock, "0")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 60 { // 1.5 s, longer than one file that stays may be in the way
			time.Sleep(25 * time.Millisecond)
			Write(t, lock+"x", strconv.Itoa(i))
			if err := os.Rename(lock+"x", lock); err != nil {
				t.Error(err)
			}
		}
		if err := os.Remove(lock); err != nil {
			t.Error(err)
		}
	}()
	if err := store.Update(t.Context(), []gitstate.RefUpdate{{Ref: "refs/spot/crowd", New: head, Old: gitstate.ZeroOID}}); err != nil {
		t.Error(err)
	}
	<-done
}

// durable makes one update of every sort under WithSync, for durability to watch.
func durable(t *testing.T, s gitstate.Store) {
	blob := must[gitstate.OID](t)(s.WriteBlob(t.Context(), []byte("written before, without WithSync")))
	ctx := gitstate.WithSync(t.Context())
	tree := must[gitstate.OID](t)(s.WriteTree(ctx, []gitstate.TreeEntry{{Mode: "100644", OID: blob, Name: "x"}}))
	commit := must[gitstate.OID](t)(s.WriteCommit(ctx, gitstate.Commit{Tree: tree, Author: clerk, Committer: clerk, Message: "x\n"}))
	for _, u := range []gitstate.RefUpdate{{Ref: durableRef, New: blob, Old: gitstate.ZeroOID}, {Ref: durableRef, New: commit, Old: blob}} {
		if err := s.Update(ctx, []gitstate.RefUpdate{u}); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("say", blob)
	fmt.Println("say", tree)
	fmt.Println("say", commit)
}

const durableRef gitstate.Ref = "refs/spot/durable/one"

// durability checks by the system calls that an update under WithSync flushes, in this order, the objects and
// their folders, the new value of the ref, and the ref's folder. It needs strace.
func durability(t *testing.T, s Suite) {
	strace, err := proc.LookPath("strace", os.Getenv("PATH"))
	if err != nil {
		t.Skip("strace is not installed")
	}
	dir := s.repository(t)
	trace := filepath.Join(Folder(t), "trace")
	var said []string
	res, out := s.startUnder(t, []string{strace, "-f", "-y", "-qq", "-e", "signal=none", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2,link,linkat", "-o", trace},
		job{Dir: dir, Role: "durable"}, func(word string) { said = append(said, word) })
	if strings.Contains(out, "PTRACE") || strings.Contains(out, "ptrace") {
		t.Skip("strace may not trace here")
	}
	if res.Exit != 0 || len(said) != 4 {
		t.Fatalf("exit %d\n%s", res.Exit, out)
	}
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	at := func(from int, what string) int {
		i := slices.IndexFunc(lines[from:], func(line string) bool { return strings.Contains(line, what) })
		if i < 0 {
			t.Errorf("no %s after line %d of\n%s", what, from+1, data)
			return from
		}
		return from + i
	}
	git := filepath.Join(dir, ".git")
	value := filepath.Join(git, string(durableRef))
	first := at(0, "fsync") // of objects; the ref does not move before
	move := at(first, `rename("`+value+`.lock"`)
	for _, id := range said[1:] {
		object := filepath.Join(git, "objects", id[:2], id[2:])
		if i := at(0, "<"+object+">"); i > move {
			t.Errorf("%s is flushed after the ref moved", id)
		}
		if i := at(0, "<"+filepath.Dir(object)+">"); i > move {
			t.Errorf("the folder of %s is flushed after the ref moved", id)
		}
	}
	at(0, "<"+filepath.Join(git, "objects")+">")
	if i := at(0, "<"+value+".lock>"); i > move {
		t.Error("the value of the ref is flushed after it moved")
	}
	at(move, "<"+filepath.Dir(value)+">")
	at(move, "<"+filepath.Join(git, "refs", "spot")+">")
}
