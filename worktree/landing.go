package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/fault"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

const (
	// lockWait is how long a lock of somebody else's is waited for. An editor that polls git holds
	// index.lock for milliseconds; what holds it for seconds may hold it for ever.
	lockWait = 3 * time.Second
	lockPoll = 50 * time.Millisecond
	// finishTimeout bounds what follows the move of the branch and must not be cut off.
	finishTimeout = 10 * time.Minute
	// cleanupTimeout bounds the taking back of a landing that failed before that.
	cleanupTimeout = 2 * time.Minute
)

// PlanLanding says what moving branch from old to new will touch, and writes nothing. The plan has no
// checkout if the branch is checked out nowhere. *SourceError if the branch is not at old, or if its
// checkout is not clean; see there for what that means.
func PlanLanding(ctx context.Context, repo *gitexec.Repo, branch gitstate.Ref, old, new gitstate.OID) (*schemas.Integration, error) {
	if !strings.HasPrefix(string(branch), "refs/heads/") {
		return nil, fmt.Errorf("plan a landing: %q is not a branch", branch)
	}
	s, err := findSource(ctx, repo, branch)
	if err != nil {
		return nil, err
	}
	if err := s.checkAt(ctx, old); err != nil {
		return nil, err
	}
	if _, err := s.repo.Run(ctx, gitexec.Call{Args: []string{"merge-base", "--is-ancestor", string(old), string(new)}}); err != nil {
		return nil, fmt.Errorf("plan a landing: %s does not follow %s: %w", new, old, err)
	}
	plan := &schemas.Integration{Branch: string(branch), Old: string(old), New: string(new)}
	if s.repo.WorkTree == "" {
		return plan, nil
	}
	changes, err := changesBetween(ctx, s.repo, old, new)
	if err != nil {
		return nil, err
	}
	if err := s.checkClean(ctx, changes); err != nil {
		return nil, err
	}
	plan.Checkout, plan.GitDir = s.repo.WorkTree, s.repo.GitDir
	for _, c := range changes {
		plan.Paths = append(plan.Paths, c.path)
	}
	return plan, nil
}

// Land carries a plan out. The plan must be in the ledger before. Until the branch moves, the user's
// own git is refused by the checkout's index.lock, and a failure takes everything back: after a
// *SourceError nothing has changed. From then on Land does not heed ctx's end. After any other error
// ResumeLanding says whether the branch has moved, and finishes.
func Land(ctx context.Context, repo *gitexec.Repo, plan *schemas.Integration, id gitstate.RunID) error {
	l := newLanding(repo, plan, id)
	for _, step := range l.steps() {
		err := step.do(ctx)
		if err == nil && step.lands {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
			defer cancel()
			l.landed = true
		}
		if err == nil {
			continue
		}
		if l.landed {
			return fmt.Errorf("land %s: %s: %w", id, step.name, diskFull(l.dir, err))
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		return l.giveUp(ctx, err)
	}
	return nil
}

// giveUp takes back what was done before the branch moved.
func (l *landing) giveUp(ctx context.Context, cause error) error {
	at, err := l.source.at(ctx)
	if err != nil || at == gitstate.OID(l.plan.New) {
		// Whatever git reported, it may have moved the branch. ResumeLanding will find out.
		return errors.Join(cause, err)
	}
	return errors.Join(cause, l.unlock(ctx), l.end(ctx))
}

// landing is one Land or ResumeLanding under way.
type landing struct {
	source *source
	plan   *schemas.Integration
	id     gitstate.RunID
	dir    string // ours; exists from the first step to the last
	landed bool
}

// A step is one of those that a kill can fall between.
type step struct {
	name  string
	do    func(context.Context) error
	lands bool // what comes before is taken back after a failure, what comes after is finished
}

func newLanding(repo *gitexec.Repo, plan *schemas.Integration, id gitstate.RunID) *landing {
	seen := repo.Linked(repo.CommonDir, "")
	if plan.Checkout != "" {
		seen = repo.Linked(plan.GitDir, plan.Checkout)
	}
	return &landing{
		source: &source{repo: seen, branch: gitstate.Ref(plan.Branch)},
		plan:   plan, id: id, dir: filepath.Join(gitstate.RunFolder(repo, id), "landing"),
	}
}

func (l *landing) steps() []step {
	if l.plan.Checkout == "" {
		return []step{
			{name: "look for a checkout", do: l.recheck},
			{name: "move the branch", do: l.moveBranch, lands: true},
		}
	}
	return []step{
		{name: "make a folder", do: l.begin},
		{name: "take index.lock", do: l.lock},
		{name: "look again", do: l.recheck},
		{name: "copy the index", do: l.copyIndex},
		{name: "try", do: l.try},
		{name: "move the branch", do: l.moveBranch, lands: true},
		{name: "update the files", do: l.updateFiles},
		{name: "replace the index", do: l.replaceIndex},
		{name: "release index.lock", do: l.unlock},
		{name: "remove the folder", do: l.end},
	}
}

func (l *landing) begin(context.Context) error {
	if err := durable.RemoveAll(l.dir); err != nil {
		return err
	}
	return durable.MkdirAll(l.dir, 0o700)
}

func (l *landing) end(context.Context) error { return durable.RemoveAll(l.dir) }

// lockFile is the lock that every git takes before it writes the checkout's index.
func (l *landing) lockFile() string { return filepath.Join(l.plan.GitDir, "index.lock") }

// lockText is what our lock holds, so that it is never taken for anybody else's.
func (l *landing) lockText() string { return "git-spot " + string(l.id) + "\n" }

// lock takes index.lock, with our name in it from the first instant.
func (l *landing) lock(ctx context.Context) error {
	named := filepath.Join(l.dir, "lock")
	if err := durable.WriteFile(named, []byte(l.lockText()), 0o644); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, errLockHeld)
	defer cancel()
	for {
		if err := fault.At(fault.LockTake, l.lockFile()); err != nil {
			return err
		}
		// Unlike a rename, a link fails if the name is taken; unlike an exclusive open, it needs no write
		// after it.
		err := syscall.Link(named, l.lockFile())
		if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
			err = writeNew(l.lockFile(), l.lockText(), 0o644) // a file system without links
		}
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return err
		}
		timer := time.NewTimer(lockPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if cause := context.Cause(ctx); !errors.Is(cause, errLockHeld) {
				return cause
			}
			return l.lockedBy(l.lockFile())
		}
	}
}

var errLockHeld = errors.New("a lock is held by somebody else")

// lockedBy is the error for somebody else's lock.
func (l *landing) lockedBy(path string) *SourceError {
	e := l.source.error(schemas.CodeSourceDirty, fmt.Sprintf("%q is held by another process, or was left by one", path))
	e.Lock = path
	if info, err := os.Lstat(path); err == nil {
		e.LockTime = info.ModTime()
	}
	return e
}

// holdsLock reports whether index.lock is ours.
func (l *landing) holdsLock() (bool, error) {
	info, err := os.Lstat(l.lockFile())
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() != int64(len(l.lockText()))) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	data, err := os.ReadFile(l.lockFile())
	return string(data) == l.lockText(), err
}

// unlock removes index.lock if it is ours.
func (l *landing) unlock(context.Context) error {
	if l.plan.Checkout == "" {
		return nil
	}
	if ours, err := l.holdsLock(); err != nil || !ours {
		return err
	}
	return durable.Remove(l.lockFile())
}

// recheck looks again at what PlanLanding saw: since then everything may have changed.
func (l *landing) recheck(ctx context.Context) error {
	now, err := findSource(ctx, l.source.repo, l.source.branch)
	if err != nil {
		return err
	}
	if now.repo.WorkTree != l.plan.Checkout {
		return now.error(schemas.CodeSourceDirty, fmt.Sprintf("the branch was checked out in %q before", l.plan.Checkout))
	}
	if err := l.source.checkAt(ctx, gitstate.OID(l.plan.Old)); err != nil || l.plan.Checkout == "" {
		return err
	}
	changes, err := changesBetween(ctx, l.source.repo, gitstate.OID(l.plan.Old), gitstate.OID(l.plan.New))
	if err != nil {
		return err
	}
	return l.source.checkClean(ctx, changes)
}

func (l *landing) index() string { return filepath.Join(l.dir, "index") }

// git runs git on our copy of the index in the checkout, with the user's filters.
func (l *landing) git(ctx context.Context, stdin string, args ...string) error {
	_, err := l.source.repo.Run(ctx, gitexec.Call{
		Args: args, Stdin: strings.NewReader(stdin), Index: l.index(), WorkTree: l.plan.Checkout,
		// Not split: a new shared part would be left in the user's git directory if we are stopped.
		Config: []string{"core.fsync=added", "core.fsyncMethod=fsync", "core.splitIndex=false"},
	})
	return err
}

// copyIndex copies the checkout's index and brings its stat data up to date: read-tree takes a file
// with another time for a changed one.
func (l *landing) copyIndex(ctx context.Context) error {
	if err := errors.Join(durable.RemoveAll(l.index()), durable.RemoveAll(l.index()+".lock")); err != nil {
		return err
	}
	if err := durable.CopyTree(filepath.Join(l.plan.GitDir, "index"), l.index()); err != nil {
		return err
	}
	err := l.git(ctx, "", "update-index", "-q", "--ignore-submodules", "--refresh")
	if e, refused := errors.AsType[*gitexec.Error](err); refused && e.Status == 1 {
		return nil // some file needs more; if it matters, the next step says so
	}
	return err
}

func (l *landing) readTree(ctx context.Context, args ...string) error {
	args = append([]string{"read-tree", "-m", "-u", "--no-recurse-submodules"}, args...)
	return l.git(ctx, "", append(args, l.plan.Old, l.plan.New)...)
}

// try lets git say whether it would update the files.
func (l *landing) try(ctx context.Context) error {
	err := l.readTree(ctx, "--dry-run")
	if e, refused := errors.AsType[*gitexec.Error](err); refused && e.Status > 0 {
		return errors.Join(l.source.error(schemas.CodeSourceDirty, "git would not update it"), err)
	}
	return err
}

// moveBranch is the landing. The transaction moves this one ref, and only from the old commit.
func (l *landing) moveBranch(ctx context.Context) error {
	p := l.plan
	_, err := l.source.repo.Run(ctx, gitexec.Call{
		Args:   []string{"update-ref", "-m", "git spot: integrate " + string(l.id), "--stdin"},
		Stdin:  strings.NewReader("start\nupdate " + p.Branch + " " + p.New + " " + p.Old + "\nprepare\ncommit\n"),
		Config: []string{fmt.Sprintf("core.filesRefLockTimeout=%d", lockWait.Milliseconds()), "core.fsync=committed,reference", "core.fsyncMethod=fsync"},
	})
	e, refused := errors.AsType[*gitexec.Error](err)
	if !refused {
		return err
	}
	if moved := l.source.checkAt(ctx, gitstate.OID(p.Old)); moved != nil {
		return errors.Join(moved, err)
	}
	if lock := e.Lock(); lock != "" {
		return errors.Join(l.lockedBy(lock), err)
	}
	return err
}

func (l *landing) updateFiles(ctx context.Context) error { return l.readTree(ctx) }

func (l *landing) replaceIndex(context.Context) error {
	return durable.Rename(l.index(), filepath.Join(l.plan.GitDir, "index"))
}
