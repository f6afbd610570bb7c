package worktree

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// ResumeLanding finishes or takes back what a Land with the same plan left, in this process or in one
// that is gone. It goes by the branch alone: landed says whether the branch holds plan.New, and then
// the checkout has it too; if not, everything is as it was before Land.
//
// It changes a file only if its content is that of plan.Old or plan.New, or a beginning of the
// latter, as a killed git leaves it. Anything else, in a file or in the index, is a *SourceError that
// names it; index.lock then stays, so that nothing else moves, and ResumeLanding can be called again.
// Of locks it removes those that carry the run's name or the commit's, and an empty HEAD.lock beside
// them.
func ResumeLanding(ctx context.Context, repo *gitexec.Repo, plan *schemas.Integration, id gitstate.RunID) (landed bool, err error) {
	l := newLanding(repo, plan, id)
	at, err := l.source.at(ctx)
	if err != nil {
		return false, err
	}
	if landed, err = l.holdsNew(ctx, at); err != nil {
		return false, err
	}
	if err := l.removeRefLocks(ctx, landed); err != nil {
		return landed, err
	}
	switch {
	case plan.Checkout == "":
		return landed, l.end(ctx)
	case landed:
		return true, l.finish(ctx)
	case at == gitstate.OID(plan.Old):
		return false, errors.Join(l.unlock(ctx), l.end(ctx))
	}
	return false, l.takeBackElsewhere(ctx, at)
}

// holdsNew reports whether the branch at this commit has had plan.New.
func (l *landing) holdsNew(ctx context.Context, at gitstate.OID) (bool, error) {
	switch at {
	case "", gitstate.OID(l.plan.Old):
		return false, nil
	case gitstate.OID(l.plan.New):
		return true, nil
	}
	_, err := l.source.repo.Run(ctx, gitexec.Call{Args: []string{"merge-base", "--is-ancestor", l.plan.New, string(at)}})
	if e, refused := errors.AsType[*gitexec.Error](err); refused && e.Status == 1 {
		return false, nil
	}
	return err == nil, err
}

// removeRefLocks removes what a killed update-ref left. It is called when no process of the run lives.
func (l *landing) removeRefLocks(ctx context.Context, landed bool) error {
	refLock := filepath.Join(l.source.repo.CommonDir, l.plan.Branch+".lock")
	data, err := os.ReadFile(refLock)
	ours := err == nil && strings.TrimSpace(string(data)) == l.plan.New
	if ours {
		if err := durable.Remove(refLock); err != nil {
			return err
		}
	}
	// git locks HEAD together with the branch that HEAD names. It is ours if the branch's lock was, or if
	// the branch has moved and we had not gone on from there.
	indexLock := false
	if l.plan.Checkout != "" {
		if indexLock, err = l.holdsLock(); err != nil {
			return err
		}
	}
	headLock := filepath.Join(l.source.repo.GitDir, "HEAD.lock")
	info, err := os.Lstat(headLock)
	if err != nil || info.Size() != 0 || !ours && !(landed && (indexLock || l.plan.Checkout == "")) {
		return nil
	}
	return durable.Remove(headLock)
}

// finish brings index and files of the checkout to plan.New.
func (l *landing) finish(ctx context.Context) error {
	changes, err := changesBetween(ctx, l.source.repo, gitstate.OID(l.plan.Old), gitstate.OID(l.plan.New))
	if err != nil {
		return err
	}
	entries, err := readIndex(ctx, l.source.repo, filepath.Join(l.plan.GitDir, "index"))
	if err != nil {
		return err
	}
	atOld, atNew := true, true
	var differing []string
	for _, c := range changes {
		e := entries[c.path]
		isOld, isNew := sameEntry(e, c.old), sameEntry(e, c.new)
		atOld, atNew = atOld && isOld, atNew && isNew
		if !isOld && !isNew {
			differing = append(differing, c.path)
		}
	}
	ours, err := l.holdsLock()
	if err != nil {
		return err
	}
	_, folderErr := os.Lstat(l.dir)
	switch {
	case atNew:
		// The index is the last that is written. Later changes, and somebody else's lock, are not ours.
		return errors.Join(l.unlock(ctx), l.end(ctx))
	case !atOld && !ours && errors.Is(folderErr, fs.ErrNotExist):
		return nil // finished long ago, and changed since
	case !atOld:
		return l.source.error(schemas.CodeSourceDirty, "its index was changed while a landing was unfinished", differing...)
	}
	if !ours {
		// Somebody removed our lock, as git advises. Land has not finished all the same.
		if err := l.begin(ctx); err != nil {
			return err
		}
		if err := l.lock(ctx); err != nil {
			return err
		}
	}
	if err := durable.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	if err := l.rewind(ctx, changes, entries); err != nil {
		return err
	}
	for _, do := range []func(context.Context) error{l.copyIndex, l.updateFiles, l.replaceIndex, l.unlock, l.end} {
		if err := do(ctx); err != nil {
			return diskFull(l.plan.Checkout, err)
		}
	}
	return nil
}

func sameEntry(a, b entry) bool { return a.mode == b.mode && a.oid == b.oid }

// rewind brings the changed files back to plan.Old, from where the update can be done again: git
// refuses to go on with one that was cut off. Nothing is touched if one of them is not ours.
func (l *landing) rewind(ctx context.Context, changes []change, entries map[string]entry) error {
	changes = slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return entries[c.path].skip })
	foreign, err := l.foreign(ctx, changes)
	if err != nil {
		return err
	}
	if len(foreign) > 0 {
		return l.source.error(schemas.CodeSourceDirty, "files were changed while a landing was unfinished", foreign...)
	}
	var restore []string
	for _, c := range changes {
		if c.old.mode != "" {
			restore = append(restore, c.path)
			continue
		}
		if throughLink(l.plan.Checkout, c.path) {
			continue // its folder is not there yet
		}
		if err := l.removeFile(c.path); err != nil {
			return err
		}
	}
	if err := l.copyIndex(ctx); err != nil || len(restore) == 0 {
		return err
	}
	return l.git(ctx, joinNUL(restore), "checkout-index", "-z", "-q", "-f", "--stdin")
}

// removeFile removes a file of plan.New and the folders that this leaves empty.
func (l *landing) removeFile(path string) error {
	full := filepath.Join(l.plan.Checkout, path)
	info, err := os.Lstat(full)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	if err := durable.Remove(full); err != nil {
		return err
	}
	for parent := parentOf(path); parent != ""; parent = parentOf(parent) {
		folder := filepath.Join(l.plan.Checkout, parent)
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			return nil
		}
		if err := durable.Remove(folder); err != nil {
			return err
		}
	}
	return nil
}

// foreign lists the changed paths whose content neither commit explains.
func (l *landing) foreign(ctx context.Context, changes []change) ([]string, error) {
	listed := map[string]bool{}
	for _, c := range changes {
		listed[c.path] = true
	}
	var foreign []string
	for _, c := range changes {
		explained, err := l.explained(ctx, c, listed)
		if err != nil {
			return nil, err
		}
		if !explained {
			foreign = append(foreign, c.path)
		}
	}
	return foreign, nil
}

// explained reports whether what lies at a path is the old or the new content, nothing, or the
// beginning of the new content.
func (l *landing) explained(ctx context.Context, c change, listed map[string]bool) (bool, error) {
	full := filepath.Join(l.plan.Checkout, c.path)
	for parent := parentOf(c.path); parent != ""; parent = parentOf(parent) {
		if info, err := os.Lstat(filepath.Join(l.plan.Checkout, parent)); err == nil && !info.IsDir() {
			return listed[parent], nil // and judged there
		}
	}
	info, err := os.Lstat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case info.IsDir():
		found := map[string]bool{}
		err := occupants(l.plan.Checkout, c.path, listed, found)
		return len(found) == 0, err
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := os.Readlink(full)
		if err != nil {
			return false, err
		}
		oid := blobOID(l.source.repo.ObjectFormat, []byte(target))
		return oid == c.old.oid && c.old.mode == modeLink || oid == c.new.oid && c.new.mode == modeLink, nil
	case !info.Mode().IsRegular():
		return false, nil
	}
	data, err := os.ReadFile(full)
	if err != nil {
		return false, err
	}
	out, err := l.source.repo.Run(ctx, gitexec.Call{
		Args: []string{"hash-object", "--stdin", "--path=" + c.path}, Stdin: bytes.NewReader(data), WorkTree: l.plan.Checkout,
		Config: []string{"core.safecrlf=false"},
	})
	// A filter may refuse a file that was cut off.
	if _, refused := errors.AsType[*gitexec.Error](err); err != nil && !refused {
		return false, err
	}
	if oid := gitstate.OID(strings.TrimSpace(string(out))); err == nil && (oid == c.old.oid || oid == c.new.oid) {
		return true, nil
	}
	if c.new.mode == "" || c.new.mode == modeLink {
		return false, nil
	}
	whole, err := l.source.repo.Run(ctx, gitexec.Call{
		Args: []string{"cat-file", "--filters", "--path=" + c.path, string(c.new.oid)}, WorkTree: l.plan.Checkout,
	})
	return bytes.HasPrefix(whole, data), err
}

// takeBackElsewhere is for a branch that was moved by somebody else, to a commit that has nothing to do
// with the landing. If the update had begun before, the files show it.
func (l *landing) takeBackElsewhere(ctx context.Context, at gitstate.OID) error {
	ours, err := l.holdsLock()
	if err != nil {
		return err
	}
	if !ours {
		return l.end(ctx)
	}
	changes, err := changesBetween(ctx, l.source.repo, gitstate.OID(l.plan.Old), gitstate.OID(l.plan.New))
	if err != nil {
		return err
	}
	for _, c := range changes {
		back := change{path: c.path, old: c.old}
		if _, err := os.Lstat(filepath.Join(l.plan.Checkout, c.path)); c.old.mode == "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if is, err := l.explained(ctx, back, nil); err != nil {
			return err
		} else if !is || c.old.mode == "" {
			return &SourceError{
				Reason: schemas.CodeSourceMoved, Branch: l.plan.Branch, Checkout: l.plan.Checkout,
				Want: l.plan.New, Got: string(at), Paths: []string{c.path},
			}
		}
	}
	return errors.Join(l.unlock(ctx), l.end(ctx))
}
