package worktree

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git's object names, not a protection
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// attributesLimit is how long a .gitattributes is read, in bytes; git itself stops at 100 MiB.
const attributesLimit = 100 << 20

// Snapshot is what a worker's folder held. All lists are sorted.
type Snapshot struct {
	Tree   gitstate.OID
	Commit gitstate.OID // its only parent is base; base itself if Tree is base's tree
	// Nested are folders that hold a git repository of their own. What git tracked in them at base is in
	// Tree; nothing below one that base does not know is.
	Nested []string
	// Skipped are paths that are not in Tree as they are in the folder: sockets, FIFOs, devices; names
	// that git cannot hold; files that a filter or encoding of base refuses; submodules whose content
	// was changed. Of a tracked file Tree has the version of base, or none if the folder has none.
	Skipped []string
	// Attributes are the .gitattributes files, in any case, that were changed, added or removed. They
	// are in Tree (unless ignored), and governed nothing.
	Attributes []string
	// PointerChanged says that .git in the folder is not what Create wrote.
	PointerChanged bool
}

// Snapshot writes the folder's content as a commit on base into the repository's objects, flushed to
// the disk, and moves no ref. What the worker did with its own index, HEAD and commits has no
// influence, and what is in the folder makes git run nothing: base's .gitattributes govern, and
// nothing looks into nested repositories. Where a worker could reach the repository's configuration,
// Fingerprint.Compare and Undo must come first, for the filters that run are the ones configured there.
//
// The folder is only read, except that what the owner may not read is made readable, and special
// files that git would wait for are removed. A lost folder is fs.ErrNotExist. If it fails, at most
// objects that nothing names were written.
func (w *Worktree) Snapshot(ctx context.Context, message string, by Identity) (Snapshot, error) {
	snap, err := w.snapshot(ctx, snapshotKept, message, by)
	if refused(ctx, err) {
		// A worker can write to the kept index. Without it git reads every file.
		snap, err = w.snapshot(ctx, snapshotFresh, message, by)
	}
	return snap, err
}

// Rescue is Snapshot for when that fails because objects of base are gone from the repository. The tree
// is made of nothing but the folder, byte for byte, so that all of it can be read; the commit has no
// parent if base cannot be read. It keeps work, and is no candidate.
func (w *Worktree) Rescue(ctx context.Context, message string, by Identity) (Snapshot, error) {
	return w.snapshot(ctx, snapshotAlone, message, by)
}

// snapshotMode says what the index of a snapshot is at first.
type snapshotMode int

const (
	snapshotKept  snapshotMode = iota // the one that was kept
	snapshotFresh                     // made of base
	snapshotAlone                     // empty
)

// refused reports whether err is git's, and neither the end of ctx nor a full disk.
func refused(ctx context.Context, err error) bool {
	e, is := errors.AsType[*gitexec.Error](err)
	return is && ctx.Err() == nil && e.Code() != schemas.CodeDiskFull
}

func (w *Worktree) snapshot(ctx context.Context, mode snapshotMode, message string, by Identity) (snap Snapshot, err error) {
	if w.Lost() {
		return Snapshot{}, &fs.PathError{Op: "snapshot", Path: w.Path(), Err: fs.ErrNotExist}
	}
	if err := w.removeScratch(); err != nil {
		return Snapshot{}, err
	}
	if mode != snapshotAlone { // a reset needs base
		if err := w.finishReset(ctx); err != nil {
			return Snapshot{}, err
		}
	}
	if err := gitstate.MakeRunFolder(w.repo, w.spec.ID); err != nil {
		return Snapshot{}, err
	}
	scratch, err := durable.MkdirTemp(w.stateDir(), "snapshot-")
	if err != nil {
		return Snapshot{}, err
	}
	defer func() { err = errors.Join(err, durable.RemoveAll(scratch)) }()

	s := &snapshot{repo: w.repo, base: w.spec.Base, mode: mode, dir: w.Path(), mirror: w.mirror(), scratch: scratch}
	if err := s.prepare(ctx, w.index(), filepath.Dir(w.gitDir())); err != nil {
		return Snapshot{}, err
	}
	if err := s.update(ctx); err != nil {
		return Snapshot{}, diskFull(w.repo.CommonDir, err)
	}
	if err := s.commit(ctx, message, by); err != nil {
		return Snapshot{}, diskFull(w.repo.CommonDir, err)
	}
	changed, err := w.changedSubmodules(s.found.gitlinks)
	if err != nil {
		return Snapshot{}, err
	}
	s.out.Skipped = append(s.out.Skipped, changed...)
	slices.Sort(s.out.Skipped)
	s.out.Skipped = slices.Compact(s.out.Skipped)
	s.out.PointerChanged = !w.pointerIntact()
	return s.out, nil
}

// pointerIntact reports whether .git in the folder is as Create wrote it.
func (w *Worktree) pointerIntact() bool {
	path := filepath.Join(w.Path(), ".git")
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(w.pointer())) {
		return false
	}
	data, err := os.ReadFile(path)
	return err == nil && string(data) == w.pointer()
}

// snapshot is one Snapshot under way.
type snapshot struct {
	repo    *gitexec.Repo
	base    gitstate.OID
	mode    snapshotMode
	dir     string // the folder
	mirror  string // where to copy it to, if need be
	scratch string
	index   string    // ours, below scratch
	since   time.Time // when the checkout was done, by the folder's file system; zero: not known
	config  []string
	filters filters
	tracked map[string]entry // by path, as in base
	found   *walk
	out     Snapshot
}

// prepare copies the kept index and walks the folder.
func (s *snapshot) prepare(ctx context.Context, kept, probe string) (err error) {
	foldCase := foldsCase(probe)
	s.config = slices.Concat(plainIndex, []string{
		foldCase,
		// A file's times are not to be believed but the one that its owner cannot set.
		"core.trustctime=true", "core.checkStat=default", "core.ignoreStat=false",
		// Every path in the folder counts, also outside the sparse patterns.
		"core.sparseCheckout=false",
		"core.safecrlf=false", // would refuse what the user's own git add would warn about
		"core.fsync=objects", "core.fsyncMethod=batch",
	})
	s.index = filepath.Join(s.scratch, "index")
	if s.mode == snapshotAlone {
		s.config = append(s.config, "core.autocrlf=false", "core.eol=lf")
		s.filters, err = allFilters(ctx, s.repo)
	} else {
		s.filters, err = contentFilters(ctx, s.repo, s.base)
	}
	if err != nil {
		return err
	}
	if s.tracked, err = s.openIndex(ctx, kept); err != nil {
		return err
	}
	rules := filepath.Join(s.scratch, "git")
	if err := durable.Mkdir(rules, 0o700); err != nil {
		return err
	}
	ignored, err := ignoreRules(s.repo, s.dir, rules, foldCase)
	if err != nil {
		return err
	}
	if s.found, err = walkFolder(ctx, s.dir, s.tracked, ignored); err != nil {
		return err
	}
	s.out.Nested, s.out.Skipped = s.found.nested, s.found.skipped
	s.out.Attributes, err = s.changedAttributes()
	return err
}

// openIndex makes s.index a copy of the kept index, or an index of base if there is none that can be
// read: then git has to read every file.
func (s *snapshot) openIndex(ctx context.Context, kept string) (map[string]entry, error) {
	if s.mode != snapshotFresh {
		if tracked, err := s.copyIndex(ctx, kept); err != nil || tracked != nil && s.mode == snapshotKept {
			return tracked, err
		} else if s.mode == snapshotAlone {
			// What base tracks, as far as it is known, is still good for one thing: no .gitignore hides it.
			_, err = s.git(ctx, s.dir, nil, "read-tree", "--empty")
			return tracked, err
		}
	}
	if _, err := s.git(ctx, s.dir, nil, "read-tree", string(s.base)); err != nil {
		return nil, err
	}
	return readIndex(ctx, s.repo, s.index)
}

// copyIndex makes s.index a copy of the kept index and reads it. Without one, or with one that git cannot
// read, it does nothing and returns nil.
func (s *snapshot) copyIndex(ctx context.Context, kept string) (map[string]entry, error) {
	// Through a link git would write to where it leads.
	info, err := os.Lstat(kept)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	if err := durable.CopyTree(kept, s.index); err != nil {
		return nil, err
	}
	tracked, err := readIndex(ctx, s.repo, s.index)
	if refused(ctx, err) {
		return nil, durable.RemoveAll(s.index)
	}
	if s.mode == snapshotKept {
		s.since = info.ModTime()
	}
	return tracked, err
}

// git runs git on our index with dir as the work tree.
func (s *snapshot) git(ctx context.Context, dir string, paths []string, args ...string) ([]byte, error) {
	if !s.since.IsZero() {
		// git reads every file that was written in the second in which the index was, or later: here all of
		// a checkout. With an index from tomorrow it believes the rest of the stat data; touched finds the others.
		tomorrow := s.since.AddDate(0, 0, 1)
		if err := os.Chtimes(s.index, tomorrow, tomorrow); err != nil { //nolint:forbidigo // no content, and nothing to lose
			return nil, err
		}
	}
	return s.repo.Run(ctx, gitexec.Call{
		Args: args, Stdin: strings.NewReader(joinNUL(paths)),
		Index: s.index, WorkTree: dir, Config: s.config, Env: s.filters.env(),
	})
}

// update brings the index to what the folder holds.
func (s *snapshot) update(ctx context.Context) error {
	var gone, present, gitlinks, fresh []string // present: tracked, and outside the sparse patterns
	for path, e := range s.tracked {
		_, isFile := s.found.files[path]
		switch {
		case e.mode == modeGitlink && s.found.gitlinks[path]:
			gitlinks = append(gitlinks, path)
		case isFile && e.skip:
			present = append(present, path)
		case isFile, e.skip:
		case slices.Contains(s.found.skipped, path): // a special file now: base's version stays
		default:
			gone = append(gone, path)
		}
	}
	for path := range s.found.files {
		if _, ok := s.tracked[path]; !ok {
			fresh = append(fresh, path)
		}
	}
	slices.Sort(gone)
	slices.Sort(fresh)
	if s.mode == snapshotAlone {
		return s.addAlone(ctx)
	}
	if len(s.out.Attributes) > 0 {
		return s.updateFromMirror(ctx, gone)
	}
	// What is gone goes first: git would look for dir/file through a link that dir has become.
	if err := s.remove(ctx, s.dir, gone); err != nil {
		return err
	}
	if len(present) > 0 {
		if _, err := s.git(ctx, s.dir, present, "update-index", "-z", "--no-skip-worktree", "--stdin"); err != nil {
			return err
		}
	}
	if len(gitlinks) > 0 {
		// What is skipped is not looked at: git would open a repository in there, with its configuration.
		if _, err := s.git(ctx, s.dir, gitlinks, "update-index", "-z", "--skip-worktree", "--stdin"); err != nil {
			return err
		}
	}
	changed, err := s.changed(ctx)
	if err != nil {
		return err
	}
	return s.add(ctx, s.dir, slices.Concat(changed, fresh))
}

// changed lists the tracked files that may differ from base.
func (s *snapshot) changed(ctx context.Context) ([]string, error) {
	var touched []string
	var touchedErr error
	var wg sync.WaitGroup
	wg.Go(func() { touched, touchedErr = s.touched(ctx) })
	out, err := s.git(ctx, s.dir, nil, "ls-files", "-z", "-m")
	wg.Wait()
	if err := errors.Join(err, touchedErr); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	var changed []string
	for _, path := range splitNUL(out) {
		if _, isFile := s.found.files[path]; isFile && !known[path] {
			known[path] = true
			changed = append(changed, path)
		}
	}
	// git must not take these for what the index says of them, whatever else stat says.
	var unknown []string
	for _, path := range touched {
		if !known[path] {
			unknown = append(unknown, s.tracked[path].mode+" "+string(s.tracked[path].oid)+"\t"+path)
			changed = append(changed, path)
		}
	}
	if len(unknown) > 0 {
		if _, err := s.git(ctx, s.dir, unknown, "update-index", "-z", "--index-info"); err != nil {
			return nil, err
		}
	}
	slices.Sort(changed)
	return changed, nil
}

// touched lists the tracked files that changed after the checkout, or so short before its end that the
// clock of the file system does not tell. git compares times in whole seconds (unless it is built with
// USE_NSEC), and a worker may be done with a file of the same size within one.
func (s *snapshot) touched(ctx context.Context) (touched []string, err error) {
	if s.since.IsZero() {
		return nil, nil
	}
	top, err := os.Open(s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, top.Close()) }()
	for path := range s.found.files {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if e, ok := s.tracked[path]; !ok || e.skip {
			continue
		}
		changed, err := changeTime(int(top.Fd()), path)
		if err != nil {
			return nil, err
		}
		if !changed.Before(s.since) {
			touched = append(touched, path)
		}
	}
	return touched, nil
}

func (s *snapshot) remove(ctx context.Context, dir string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	_, err := s.git(ctx, dir, paths, "update-index", "-z", "--force-remove", "--stdin")
	return err
}

// add puts files of dir into the index, and into s.out.Skipped what git does not take.
func (s *snapshot) add(ctx context.Context, dir string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	for _, path := range paths {
		if err := makeReadable(filepath.Join(dir, path)); err != nil {
			return err
		}
	}
	if err := s.addSome(ctx, dir, paths); err != nil {
		return err
	}
	untracked := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { _, tracked := s.tracked[path]; return tracked })
	if len(untracked) == 0 {
		return nil
	}
	// git leaves out a name that it does not want, and says nothing that a program could read.
	out, err := s.git(ctx, dir, nil, "diff-index", "--cached", "-z", "--name-only", "--no-renames", "--diff-filter=A", string(s.base))
	if err != nil {
		return err
	}
	added := map[string]bool{}
	for _, path := range splitNUL(out) {
		added[path] = true
	}
	for _, path := range untracked {
		if !added[path] {
			s.out.Skipped = append(s.out.Skipped, path)
		}
	}
	return nil
}

// addSome adds paths, all at once or, where git refuses, by halves until it is clear which ones it
// refuses. git takes all paths of one call or none.
func (s *snapshot) addSome(ctx context.Context, dir string, paths []string) error {
	_, err := s.git(ctx, dir, paths, "update-index", "-z", "--add", "--replace", "--stdin")
	if err == nil || ctx.Err() != nil {
		return err
	}
	if len(paths) > 1 {
		half := len(paths) / 2
		if err := s.addSome(ctx, dir, paths[:half]); err != nil {
			return err
		}
		return s.addSome(ctx, dir, paths[half:])
	}
	// It is the path's fault only if its bytes can be written as they are: then a filter, or the
	// encoding that base says it has, refuses them. Otherwise the disk is full, or the like.
	if _, _, rawErr := s.writeRaw(ctx, paths[0], dir); rawErr != nil {
		return err
	}
	if _, tracked := s.tracked[paths[0]]; tracked {
		s.out.Skipped = append(s.out.Skipped, paths[0]) // the others are found missing
	}
	return nil
}

// writeRaw writes a file or link as a blob without conversion and returns its mode.
func (s *snapshot) writeRaw(ctx context.Context, path, dir string) (mode string, oid gitstate.OID, err error) {
	full := filepath.Join(dir, path)
	info, err := os.Lstat(full)
	if err != nil {
		return "", "", err
	}
	mode = "100644"
	call := gitexec.Call{Args: []string{"hash-object", "-w", "--no-filters", "--stdin"}, Config: s.config}
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := os.Readlink(full)
		if err != nil {
			return "", "", err
		}
		mode, call.Stdin = modeLink, strings.NewReader(target)
	case info.Mode().IsRegular():
		f, err := os.Open(full)
		if err != nil {
			return "", "", err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if info.Mode().Perm()&0o100 != 0 {
			mode = "100755"
		}
		call.Stdin = f
	default:
		return "", "", fmt.Errorf("%q is neither a file nor a link", full)
	}
	out, err := s.repo.Run(ctx, call)
	if err != nil {
		return "", "", err
	}
	oid, err = gitstate.ParseOID(strings.TrimSpace(string(out)))
	return mode, oid, err
}

// changedAttributes lists the .gitattributes that are not as in base. It only reads bytes: which of
// them would govern is the very question.
func (s *snapshot) changedAttributes() ([]string, error) {
	seen := map[string]bool{}
	var changed []string
	for _, path := range s.found.attributes {
		seen[path] = true
		same, err := s.sameAsBase(path)
		if err != nil {
			return nil, err
		}
		if !same {
			changed = append(changed, path)
		}
	}
	for path, e := range s.tracked {
		if strings.EqualFold(filepath.Base(path), ".gitattributes") && !seen[path] && !e.skip {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	return changed, nil
}

// sameAsBase compares a file with base's blob, line endings apart: the user's configuration may have
// converted them at checkout, and git reads a .gitattributes with either.
func (s *snapshot) sameAsBase(path string) (bool, error) {
	e, tracked := s.tracked[path]
	full := filepath.Join(s.dir, path)
	info, err := os.Lstat(full)
	if err != nil {
		return false, err
	}
	if !tracked || !info.Mode().IsRegular() || e.mode == modeLink || e.mode == modeGitlink || info.Size() > attributesLimit {
		return false, nil
	}
	if err := makeReadable(full); err != nil {
		return false, err
	}
	data, err := os.ReadFile(full)
	if err != nil {
		return false, err
	}
	unix := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	for _, variant := range [][]byte{data, unix, bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n"))} {
		if blobOID(s.repo.ObjectFormat, variant) == e.oid {
			return true, nil
		}
	}
	return false, nil
}

// blobOID is the object id of a blob.
func blobOID(format string, data []byte) gitstate.OID {
	var h hash.Hash = sha1.New() //nolint:gosec // as above
	if format == "sha256" {
		h = sha256.New()
	}
	// A hash takes all that is written to it.
	_, _ = fmt.Fprintf(h, "blob %d\x00", len(data))
	_, _ = h.Write(data)
	return gitstate.OID(fmt.Sprintf("%x", h.Sum(nil)))
}

// commit writes the tree and, if it is not that of base, the commit.
func (s *snapshot) commit(ctx context.Context, message string, by Identity) error {
	out, err := s.git(ctx, s.dir, nil, "write-tree")
	if err != nil {
		return err
	}
	if s.out.Tree, err = gitstate.ParseOID(strings.TrimSpace(string(out))); err != nil {
		return err
	}
	parent := []string{"-p", string(s.base)}
	baseTree, err := treeOf(ctx, s.repo, s.base)
	if s.mode == snapshotAlone && refused(ctx, err) {
		parent, err = nil, nil
	}
	if err != nil {
		return err
	}
	if s.out.Tree == baseTree {
		s.out.Commit = s.base
		return nil
	}
	date := "@" + strconv.FormatInt(by.When.Unix(), 10) + " " + by.When.Format("-0700")
	out, err = s.repo.Run(ctx, gitexec.Call{
		Args:   slices.Concat([]string{"commit-tree"}, parent, []string{"-F", "-", string(s.out.Tree)}),
		Stdin:  strings.NewReader(message),
		Config: append(slices.Clip(s.config), "i18n.commitEncoding=UTF-8"),
		Env: []string{
			"GIT_AUTHOR_NAME=" + by.Name, "GIT_AUTHOR_EMAIL=" + by.Email, "GIT_AUTHOR_DATE=" + date,
			"GIT_COMMITTER_NAME=" + by.Name, "GIT_COMMITTER_EMAIL=" + by.Email, "GIT_COMMITTER_DATE=" + date,
		},
	})
	if err != nil {
		return err
	}
	s.out.Commit, err = gitstate.ParseOID(strings.TrimSpace(string(out)))
	return err
}
