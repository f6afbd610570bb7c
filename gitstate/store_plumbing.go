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
	"strconv"
	"strings"

	"github.com/git-spot/git-spot/internal/gitexec"
)

// plumbing serves every repository that git can read, with a few git processes that stay.
type plumbing struct {
	repo                   *gitexec.Repo
	objects, moves, synced *service
}

func newPlumbing(ctx context.Context, repo *gitexec.Repo) *plumbing {
	ctx = context.WithoutCancel(ctx)
	serve := func(ctx context.Context, c gitexec.Call) *service {
		return newService(func() *running {
			ctx, kill := context.WithCancel(ctx)
			return &running{Pipe: repo.Start(ctx, c), kill: kill}
		})
	}
	move := gitexec.Call{
		Args: []string{"update-ref", "--no-deref", "--stdin", "-z"},
		// The Store waits by itself, and no longer than it says.
		Config: []string{"core.filesRefLockTimeout=0", "core.packedRefsTimeout=0"},
	}
	return &plumbing{
		repo:    repo,
		objects: serve(ctx, gitexec.Call{Args: []string{"cat-file", "--batch-command"}}),
		moves:   serve(ctx, move),
		synced:  serve(gitexec.WithSync(ctx), move),
	}
}

func (p *plumbing) close() error {
	return errors.Join(p.objects.close(), p.moves.close(), p.synced.close())
}

func (p *plumbing) read(ctx context.Context, oid OID) (kind string, data []byte, err error) {
	ask := func(git *gitexec.Pipe, command string) (size int64, err error) {
		if _, err := fmt.Fprintf(git.In, "%s %s\n", command, oid); err != nil {
			return 0, errGone
		}
		line, err := git.Out.ReadString('\n')
		if err != nil {
			return 0, errGone
		}
		words := strings.Fields(line)
		if len(words) == 2 && words[1] == "missing" {
			return 0, fmt.Errorf("object %s: %w", oid, ErrNotFound)
		}
		if len(words) != 3 || words[0] != string(oid) {
			return 0, fmt.Errorf("git cat-file answered %q: %w", line, errGone)
		}
		kind = words[1]
		return strconv.ParseInt(words[2], 10, 64)
	}
	err = p.objects.use(ctx, func(git *gitexec.Pipe) error {
		size, err := ask(git, "info")
		if err != nil {
			return err
		}
		if size > maxObject {
			return &TooLargeError{OID: oid, Size: size, Limit: maxObject}
		}
		if size, err = ask(git, "contents"); err != nil {
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

func (p *plumbing) write(ctx context.Context, kind string, data []byte) (OID, error) {
	out, err := p.repo.Run(ctx, gitexec.Call{
		Args: []string{"hash-object", "-t", kind, "-w", "--stdin"}, Stdin: bytes.NewReader(data),
	})
	if err != nil {
		return "", err
	}
	return ParseOID(strings.TrimSuffix(string(out), "\n"))
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

// refs finds broken refs by their files: git skips them, some without a word.
func (p *plumbing) refs(ctx context.Context, folder string) ([]RefValue, error) {
	var files []Ref
	err := filepath.WalkDir(filepath.Join(p.repo.CommonDir, folder), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasSuffix(path, ".lock") {
			files = append(files, Ref(strings.TrimPrefix(path, p.repo.CommonDir+"/")))
		}
		return nil // what cannot be read now, git says
	})
	if err != nil {
		return nil, err
	}
	values, err := p.list(ctx, folder)
	if err != nil {
		return nil, err
	}
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
	moves := p.moves
	if gitexec.Synced(ctx) {
		moves = p.synced
	}
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
	request.WriteString("prepare\x00")

	// A transaction takes milliseconds and is not interrupted: git would be killed with its locks.
	whole := context.WithoutCancel(ctx)
	committing := false
	err := moves.use(whole, func(git *gitexec.Pipe) error {
		committing = false
		if err := say(git, request.String(), "start: ok", "prepare: ok"); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(say(git, "abort\x00", "abort: ok"), context.Cause(ctx))
		}
		committing = true
		return say(git, "commit\x00", "commit: ok")
	})
	refusal, ok := errors.AsType[*gitexec.Error](err)
	if !ok {
		return err
	}
	return p.explain(whole, updates, committing, refusal)
}

// say sends a request and reads the lines that must answer it.
func say(git *gitexec.Pipe, request string, answers ...string) error {
	if _, err := io.WriteString(git.In, request); err != nil {
		return errGone
	}
	for _, want := range answers {
		if line, err := git.Out.ReadString('\n'); err != nil || line != want+"\n" {
			return errGone
		}
	}
	return nil
}

// explain finds out from the refs themselves why git refused an update.
func (p *plumbing) explain(ctx context.Context, updates []RefUpdate, committing bool, refusal *gitexec.Error) error {
	moved := 0
	var conflict *ConflictError
	for _, u := range updates {
		got, err := p.ref(ctx, u.Ref)
		if errors.Is(err, ErrNotFound) {
			got, err = ZeroOID, nil
		}
		if err != nil {
			return err
		}
		if same(got, u.New) {
			moved++
		}
		if !same(got, u.Old) && conflict == nil {
			conflict = &ConflictError{Ref: u.Ref, Want: u.Old, Got: got}
		}
	}
	switch {
	case committing && moved == len(updates):
		return nil // git was killed between the last rename and its answer
	case committing && moved > 0:
		return fmt.Errorf("git ended when %d of %d refs had moved: %w", moved, len(updates), refusal)
	case conflict != nil:
		return conflict
	case refusal.Lock() != "":
		return &LockError{Path: refusal.Lock()}
	}
	for _, u := range updates {
		if !u.Old.IsZero() {
			continue
		}
		values, err := p.list(ctx, string(u.Ref))
		if err != nil {
			return err
		}
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
	return refusal
}

func same(a, b OID) bool { return a == b || a.IsZero() && b.IsZero() }

// errGone says that a git process ended or does not keep to its protocol.
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

// use lets fn talk to the process. If ctx ends meanwhile the process is killed. If fn finds that it is
// gone, and it was not a fresh one, fn is called again with one.
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
		if ended := r.Close(); ended != nil {
			err = ended
		}
		r.kill()
		r = nil
		if killed {
			return context.Cause(ctx)
		}
		if fresh {
			return err
		}
	}
}

func (s *service) close() error {
	r := <-s.slot
	s.slot <- nil
	if r == nil {
		return nil
	}
	defer r.kill()
	return r.Close()
}
