package gitstate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// plumbing serves every repository that git can read. One git stays to read objects. Refs are moved by a git
// of their own each time: one that stays reads packed-refs again only if its size, inode or time in whole
// seconds changes, and while pack-refs runs all three may be what they were. It then compares with an old
// value, and has been seen to refuse what it should have done.
type plumbing struct {
	repo    *gitexec.Repo
	objects *service
}

func newPlumbing(ctx context.Context, repo *gitexec.Repo) *plumbing {
	ctx = context.WithoutCancel(ctx)
	return &plumbing{repo: repo, objects: newService(func() *running {
		ctx, kill := context.WithCancel(ctx)
		return &running{Pipe: repo.Start(ctx, gitexec.Call{Args: []string{"cat-file", "--batch-command", "--buffer"}}), kill: kill}
	})}
}

func (p *plumbing) close() { p.objects.close() }

// answer asks for one object, by "info" or "contents", and reads the line that every answer begins with.
func answer(git *gitexec.Pipe, command string, oid OID) (kind string, size int64, err error) {
	if _, err := fmt.Fprintf(git.In, "%s %s\nflush\n", command, oid); err != nil {
		return "", 0, errGone
	}
	line, err := git.Out.ReadString('\n')
	if err != nil {
		return "", 0, errGone
	}
	words := strings.Fields(line)
	if len(words) == 2 && words[1] == "missing" {
		return "", 0, fmt.Errorf("object %s: %w", oid, ErrNotFound)
	}
	if len(words) != 3 || words[0] != string(oid) {
		return "", 0, fmt.Errorf("git cat-file answered %q: %w", line, errGone)
	}
	if size, err = strconv.ParseInt(words[2], 10, 64); err != nil {
		return "", 0, errGone
	}
	return words[1], size, nil
}

func (p *plumbing) size(ctx context.Context, oid OID) (size int64, err error) {
	err = p.objects.use(ctx, func(git *gitexec.Pipe) error {
		_, size, err = answer(git, "info", oid)
		return err
	})
	return size, err
}

func (p *plumbing) read(ctx context.Context, oid OID) (kind string, data []byte, err error) {
	err = p.objects.use(ctx, func(git *gitexec.Pipe) error {
		_, size, err := answer(git, "info", oid)
		if err != nil {
			return err
		}
		if size > maxObject {
			return &TooLargeError{OID: oid, Size: size, Limit: maxObject}
		}
		if kind, size, err = answer(git, "contents", oid); err != nil {
			return err
		}
		data = make([]byte, size+1)
		if _, err := io.ReadFull(git.Out, data); err != nil {
			return errGone
		}
		data = data[:size]
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	return kind, data, nil
}

// readAll sends every question at once, and reads the answers while git still works.
func (p *plumbing) readAll(ctx context.Context, oids []OID, fn func(i int, kind string, data []byte)) error {
	var questions bytes.Buffer
	for _, oid := range oids {
		questions.WriteString("contents " + string(oid) + "\n")
	}
	questions.WriteString("flush\n")
	// A git that is gone, or that use has ended, ends the writing too.
	var asking sync.WaitGroup
	defer asking.Wait()
	return p.objects.use(ctx, func(git *gitexec.Pipe) error {
		asking.Go(func() { _, _ = git.In.Write(questions.Bytes()) }) // if it fails, reading says so
		for i, oid := range oids {
			line, err := git.Out.ReadString('\n')
			if err != nil {
				return errGone
			}
			words := strings.Fields(line)
			if len(words) == 2 && words[1] == "missing" {
				continue
			}
			size, err := int64(0), errGone
			if len(words) == 3 && words[0] == string(oid) {
				size, err = strconv.ParseInt(words[2], 10, 64)
			}
			switch {
			case err != nil:
				return fmt.Errorf("git cat-file answered %q: %w", line, errGone)
			case size > maxObject:
				if _, err := io.CopyN(io.Discard, git.Out, size+1); err != nil {
					return errGone
				}
				continue
			}
			data := make([]byte, size+1)
			if _, err := io.ReadFull(git.Out, data); err != nil {
				return errGone
			}
			fn(i, words[1], data[:size])
		}
		return nil
	})
}

func (p *plumbing) write(ctx context.Context, kind string, data []byte) (OID, error) {
	for try := 1; ; try++ {
		out, err := p.repo.Run(ctx, gitexec.Call{
			Args: []string{"hash-object", "-t", kind, "-w", "--stdin"}, Stdin: bytes.NewReader(data),
		})
		if err == nil {
			return ParseOID(strings.TrimSuffix(string(out), "\n"))
		}
		// A gc beside it removes the folder that git has just made for the object.
		if e, ok := errors.AsType[*gitexec.Error](err); !ok || try == 3 || e.Code() == schemas.CodeDiskFull {
			return "", err
		}
	}
}

func (p *plumbing) ref(ctx context.Context, ref Ref) (OID, error) {
	before := p.loose(ref)
	// This reads one ref, where for-each-ref reads all of its folder; but it fails also for a ref whose
	// object is missing.
	out, err := p.repo.Run(ctx, gitexec.Call{Args: []string{"show-ref", "--verify", "--hash", "--", string(ref)}})
	if err == nil {
		return ParseOID(strings.TrimSuffix(string(out), "\n"))
	}
	values, err := p.list(ctx, string(ref))
	if err != nil {
		return "", err
	}
	for _, v := range values {
		if v.Ref == ref {
			return v.OID, nil
		}
	}
	if after := p.loose(ref); before != nil && after != nil && os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()) {
		return "", &BrokenRefError{Ref: ref}
	}
	return "", fmt.Errorf("%s: %w", ref, ErrNotFound)
}

// loose describes the file of a ref, nil if there is none.
func (p *plumbing) loose(ref Ref) fs.FileInfo {
	info, err := os.Lstat(filepath.Join(p.repo.CommonDir, string(ref)))
	if err != nil || info.IsDir() {
		return nil
	}
	return info
}

func (p *plumbing) refs(ctx context.Context, folder string) ([]RefValue, error) {
	files := p.looseRefs(folder)
	values, err := p.list(ctx, folder)
	if err != nil {
		return nil, err
	}
	return p.addBroken(ctx, values, files)
}

// looseRefs are the refs below folder that are files, broken ones too.
func (p *plumbing) looseRefs(folder string) []Ref {
	var refs []Ref
	// What cannot be read is left out: git will say so of the ref.
	_ = filepath.WalkDir(filepath.Join(p.repo.CommonDir, folder), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasSuffix(path, ".lock") {
			refs = append(refs, Ref(strings.TrimPrefix(path, p.repo.CommonDir+"/")))
		}
		return nil
	})
	return refs
}

// addBroken adds the refs among files that are not listed in values. Git and libgit2 leave out what they
// cannot read, mostly without a word; files must have been read before they listed.
func (p *plumbing) addBroken(ctx context.Context, values []RefValue, files []Ref) ([]RefValue, error) {
	listed := make(map[Ref]bool, len(values))
	for _, v := range values {
		listed[v.Ref] = true
	}
	for _, ref := range files {
		if listed[ref] {
			continue
		}
		oid, err := p.ref(ctx, ref)
		if errors.Is(err, ErrNotFound) {
			continue // deleted meanwhile
		}
		if _, broken := errors.AsType[*BrokenRefError](err); err != nil && !broken {
			return nil, err
		}
		values = append(values, RefValue{Ref: ref, OID: oid, Err: err})
	}
	return values, nil
}

// list returns the ref called name and those below it that can be read.
func (p *plumbing) list(ctx context.Context, name string) ([]RefValue, error) {
	out, err := p.repo.Run(ctx, gitexec.Call{Args: []string{"for-each-ref", "--format=%(objectname) %(refname)", name}})
	if err != nil {
		return nil, err
	}
	var values []RefValue
	for line := range strings.Lines(string(out)) {
		oid, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		values = append(values, RefValue{Ref: Ref(ref), OID: OID(oid)})
	}
	return values, nil
}

func (p *plumbing) update(ctx context.Context, updates []RefUpdate) error {
	pad := func(oid OID) string {
		if oid.IsZero() && p.repo.ObjectFormat == "sha256" {
			return strings.Repeat("0", 64)
		}
		return string(oid)
	}
	var request bytes.Buffer
	request.WriteString("start\x00")
	for _, u := range updates {
		fmt.Fprintf(&request, "update %s\x00%s\x00%s\x00", u.Ref, pad(u.New), pad(u.Old))
	}
	request.WriteString("prepare\x00commit\x00")

	late, end := linger(ctx)
	defer end()
	for try := 1; ; try++ {
		out, refusal := p.repo.Run(late, gitexec.Call{
			Args: []string{"update-ref", "--no-deref", "--stdin", "-z"}, Stdin: bytes.NewReader(request.Bytes()),
			// The Store waits by itself, and no longer than it says.
			Config: []string{"core.filesRefLockTimeout=0", "core.packedRefsTimeout=0"},
		})
		if refusal == nil || late.Err() != nil {
			return refusal
		}
		err := p.explain(late, updates, bytes.Contains(out, []byte("prepare: ok\n")), refusal)
		if !errors.Is(err, errUnexplained) {
			return err
		}
		if try < 3 && ctx.Err() == nil {
			continue // a ref may have been elsewhere for a moment
		}
		if e, ok := errors.AsType[*gitexec.Error](refusal); ok {
			for _, u := range updates {
				if e.Elsewhere() == string(u.Ref) {
					return &ConflictError{Ref: u.Ref, Want: u.Old}
				}
			}
		}
		return refusal
	}
}

// errUnexplained says that refs and lock files show no reason for a refusal.
var errUnexplained = errors.New("refused for no visible reason")

// linger returns a context that ends a moment after ctx: a transaction takes milliseconds, and git should
// not be stopped in the middle of one unless it hangs.
func linger(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(lockPatience):
			cancel(context.Cause(ctx))
		case <-late.Done():
		}
	})
	return late, func() {
		stop()
		cancel(nil)
	}
}

// explain finds out from the refs themselves why an update was refused, or what became of it if git ended
// while it was committing. The error is errUnexplained if they show nothing.
func (p *plumbing) explain(ctx context.Context, updates []RefUpdate, committing bool, refusal error) error {
	there, moved := true, true
	var conflict *ConflictError
	for _, u := range updates {
		got, err := p.ref(ctx, u.Ref)
		if errors.Is(err, ErrNotFound) {
			got, err = ZeroOID, nil
		}
		if err != nil {
			return err
		}
		moved = moved && same(got, u.New)
		if !same(got, u.Old) {
			there = false
			if conflict == nil {
				conflict = &ConflictError{Ref: u.Ref, Want: u.Old, Got: got}
			}
		}
	}
	switch {
	case committing && moved:
		return nil
	case committing && !there:
		// Not a conflict: that would promise that nothing was written.
		return fmt.Errorf("git ended while it moved refs, and they may have moved: %w", refusal)
	case conflict != nil:
		return conflict
	}
	if e, ok := errors.AsType[*gitexec.Error](refusal); ok && e.Lock() != "" {
		return &LockError{Path: e.Lock()}
	}
	for _, u := range updates {
		if !u.Old.IsZero() {
			continue
		}
		values, err := p.list(ctx, string(u.Ref))
		if err != nil {
			return err
		}
		values = slices.DeleteFunc(values, func(v RefValue) bool { return v.Ref == u.Ref })
		for parent := string(u.Ref); len(values) == 0 && strings.Count(parent, "/") > 1; {
			parent = parent[:strings.LastIndexByte(parent, '/')]
			if _, err := p.ref(ctx, Ref(parent)); !errors.Is(err, ErrNotFound) {
				values = append(values, RefValue{Ref: Ref(parent)})
			}
		}
		if len(values) > 0 {
			return &RefNameError{Ref: u.Ref, Other: values[0].Ref}
		}
	}
	return errUnexplained
}

func same(a, b OID) bool { return a == b || a.IsZero() && b.IsZero() }

// errGone says that a git process has ended or does not keep to its protocol.
var errGone = errors.New("git has ended")

// service is one git process that answers requests, started when it is needed and again when it has
// died. One request is served at a time.
type service struct {
	start func() *running
	slot  chan *running // holds the process, or nil for none; empty while it is in use
}

type running struct {
	*gitexec.Pipe
	kill context.CancelFunc
}

func newService(start func() *running) *service {
	s := &service{start: start, slot: make(chan *running, 1)}
	s.slot <- nil
	return s
}

// use lets fn ask the process. If ctx ends meanwhile the process is ended. If fn finds it gone (errGone), it asks
// a new one, and if that goes too, git's own *gitexec.Error is returned where there is one.
func (s *service) use(ctx context.Context, fn func(*gitexec.Pipe) error) error {
	var r *running
	select {
	case r = <-s.slot:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { s.slot <- r }()
	for {
		fresh := r == nil
		if fresh {
			r = s.start()
		}
		stop := context.AfterFunc(ctx, r.kill)
		err := fn(r.Pipe)
		killed := !stop()
		if !killed && !errors.Is(err, errGone) {
			return err
		}
		ended := r.Close()
		r.kill()
		r = nil
		switch {
		case killed:
			return context.Cause(ctx)
		case !fresh:
			continue
		case ended != nil:
			return ended
		}
		return err
	}
}

// close ends the process. How it ends does not matter: it has answered all that it was asked.
func (s *service) close() {
	r := <-s.slot
	if r != nil {
		_ = r.Close()
		r.kill()
	}
	s.slot <- nil
}
