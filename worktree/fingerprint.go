package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
)

// A worker's own git directory keeps what it does with git away from the repository. It does not keep
// the worker itself away: without a sandbox it can write to the repository by its path, and the user's
// own git, and ours, would then run what it wrote. So the repository is compared before and after.

// fileLimit is how much of a file is kept to be put back, in bytes. Larger ones are told apart by size
// and time only.
const fileLimit = 4 << 20

// Fingerprint is the state of what a worker has no business to change in a repository. It does not
// change after TakeFingerprint.
type Fingerprint struct {
	common  string               // the repository's common directory; names of files are seen from it
	config  map[string][]setting // of the scopes local and worktree, by key; of a submodule or another worktree by moduleKey
	sources map[string]file      // the files that config comes from
	broken  string               // git's words if the configuration cannot be read; then the rest is empty
	files   map[string]file      // hooks and attributes, by name
	other   map[string]string    // what is only reported: state by name
}

// setting is one value of a configuration key.
type setting struct{ value, file string }

// file is what lies at a path; the zero value is nothing.
type file struct {
	mode fs.FileMode
	data string // content, or the target of a link
}

// TakeFingerprint reads the repository's own configuration with what it includes, its hooks, info
// folder and refs (those of git spot left out), HEAD and the changed files of repo's checkout, and
// configuration, hooks and attributes of its submodules and other worktrees. It runs nothing that is configured and writes nothing. That the configuration cannot be read is part
// of the fingerprint, not an error. Hooks in a folder that core.hooksPath names are not read: in the
// checkout they are files like any other, elsewhere they are not the repository's.
func TakeFingerprint(ctx context.Context, repo *gitexec.Repo) (*Fingerprint, error) {
	f := &Fingerprint{
		common: repo.CommonDir, config: map[string][]setting{},
		sources: map[string]file{}, files: map[string]file{}, other: map[string]string{},
	}
	sources := ownSources(repo)
	var drivers filters
	entries, err := repo.Config(ctx)
	if e, refused := errors.AsType[*gitexec.Error](err); refused && e.Status > 0 {
		f.broken = e.Error()
	} else if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Key, "filter."); ok && strings.Contains(rest, ".") {
			drivers.names = append(drivers.names, rest[:strings.LastIndexByte(rest, '.')])
		}
		path, isFile := strings.CutPrefix(e.Origin, "file:")
		if !isFile || e.Scope != "local" && e.Scope != "worktree" {
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(repo.GitDir, path)
		}
		f.config[e.Key] = append(f.config[e.Key], setting{value: e.Value, file: path})
		sources = append(sources, path)
	}
	for _, path := range sources {
		if err := addFile(f.sources, f.name(path), path); err != nil {
			return nil, err
		}
	}
	if f.broken != "" {
		return f, nil // git refuses everything else as well
	}
	if err := f.addOthers(ctx, repo); err != nil {
		return nil, err
	}
	if len(f.unreadableModules()) > 0 {
		return f, nil // git refuses to look at the checkout
	}
	slices.Sort(drivers.names)
	drivers.names = slices.Compact(drivers.names)
	var refs []byte
	var paths []string
	var refsErr, pathsErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		refs, refsErr = repo.Run(ctx, gitexec.Call{Args: []string{"for-each-ref", "--format=%(objectname) %(symref) %(refname)"}})
	})
	wg.Go(func() { paths, pathsErr = changedPaths(ctx, repo, drivers) })
	filesErr := f.addFiles(repo)
	wg.Wait()
	if err := errors.Join(filesErr, refsErr, pathsErr); err != nil {
		return nil, err
	}
	f.addPaths(repo, paths)
	return f, f.addRefs(repo, refs)
}

// name is how a path is called, path the other way round.
func (f *Fingerprint) name(path string) string {
	if rel, err := filepath.Rel(f.common, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

func (f *Fingerprint) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(f.common, name)
}

// addFiles reads the files that decide what git runs, and those that only decide what it shows.
func (f *Fingerprint) addFiles(repo *gitexec.Repo) error {
	errs := []error{f.addCommands(f.common)}

	reported := map[string]file{}
	for _, dir := range slices.Compact([]string{repo.CommonDir, repo.GitDir}) {
		for _, name := range []string{"info/exclude", "info/grafts", "info/sparse-checkout", "objects/info/alternates", "shallow"} {
			path := filepath.Join(dir, name)
			errs = append(errs, addFile(reported, f.name(path), path))
		}
	}
	for name, is := range reported {
		f.other[name] = is.mode.String() + is.data
	}
	return errors.Join(errs...)
}

// addCommands reads the attributes and hooks of a git directory. Samples are left out: git runs no hook of
// such a name.
func (f *Fingerprint) addCommands(gitDir string) error {
	info := filepath.Join(gitDir, "info", "attributes")
	err := filepath.WalkDir(filepath.Join(gitDir, "hooks"), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir(), strings.HasSuffix(d.Name(), ".sample"):
			return nil
		}
		return addFile(f.files, f.name(path), path)
	})
	return errors.Join(err, addFile(f.files, f.name(info), info))
}

// addFile records what lies at path, if anything does.
func addFile(files map[string]file, name, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	is := file{mode: info.Mode()}
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		is.data, err = os.Readlink(path)
	case info.Mode().IsRegular() && info.Size() > fileLimit:
		is.data = fmt.Sprintf("%d bytes of %d", info.Size(), info.ModTime().UnixNano())
	case info.Mode().IsRegular():
		var data []byte
		data, err = os.ReadFile(path)
		is.data = string(data)
	}
	files[name] = is
	return err
}

// addRefs records the refs that git listed, and HEAD.
func (f *Fingerprint) addRefs(repo *gitexec.Repo, listed []byte) error {
	for line := range strings.Lines(string(listed)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(parts) != 3 || strings.HasPrefix(parts[2], "refs/spot/") || parts[2] == "refs/notes/spot" {
			continue
		}
		f.other[parts[2]] = parts[0] + " " + parts[1]
	}
	head, err := os.ReadFile(filepath.Join(repo.GitDir, "HEAD"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f.other["HEAD"] = string(head)
	return err
}

// changedPaths lists the files of the checkout that differ from its HEAD. No filter runs, not even the
// user's own: one that a worker configured must not, before it is found out. A file that git knows only
// by its filter to be unchanged is then listed, before as well as after.
func changedPaths(ctx context.Context, repo *gitexec.Repo, drivers filters) ([]string, error) {
	if repo.WorkTree == "" {
		return nil, nil
	}
	return status(ctx, repo, gitexec.Call{
		Args: []string{"--untracked-files=normal", "--ignore-submodules=all"}, Env: drivers.env(),
	})
}

// addPaths records what stat says of changed files.
func (f *Fingerprint) addPaths(repo *gitexec.Repo, paths []string) {
	for _, path := range paths {
		state := "missing"
		if info, err := os.Lstat(filepath.Join(repo.WorkTree, path)); err == nil && info.IsDir() {
			state = "folder"
		} else if err == nil {
			state = fmt.Sprintf("%v %d %d", info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		f.other["file "+path] = state
	}
}

// Tampering is how two fingerprints differ. Both lists are sorted.
type Tampering struct {
	// ExecutableConfig names what was added, or changed, and makes git or git spot run something, or
	// lets pass what the user locked: configuration keys, hooks, info/attributes. It is
	// GIT_STATE_TAMPERED.
	ExecutableConfig []string
	// Changed names everything else that differs: other keys, what was removed, refs, HEAD, files of
	// the checkout. It is SOURCE_CHANGED: users commit, fetch and edit while a worker works.
	Changed []string
}

// unreadable stands for configuration that git refuses to read.
const unreadable = "unreadable configuration"

// Compare says what changed from f to now.
func (f *Fingerprint) Compare(now *Fingerprint) Tampering {
	if now.broken != "" {
		if f.broken != "" {
			return Tampering{}
		}
		return Tampering{ExecutableConfig: []string{unreadable}}
	}
	if broken := now.unreadableModules(); len(broken) > 0 && len(f.unreadableModules()) == 0 {
		return Tampering{ExecutableConfig: broken}
	}
	var t Tampering
	for _, key := range keys(f.config, now.config) {
		was, is := values(f.config[key]), values(now.config[key])
		switch {
		case slices.Equal(was, is):
		case executableKey(key, is) && !containsAll(was, is):
			t.ExecutableConfig = append(t.ExecutableConfig, shownKey(key))
		default:
			t.Changed = append(t.Changed, "configuration "+shownKey(key))
		}
	}
	for _, name := range keys(f.files, now.files) {
		was, is := f.files[name], now.files[name]
		switch {
		case was == is:
		case is == file{}:
			t.Changed = append(t.Changed, name)
		default:
			t.ExecutableConfig = append(t.ExecutableConfig, name)
		}
	}
	for _, name := range keys(f.other, now.other) {
		if f.other[name] != now.other[name] {
			t.Changed = append(t.Changed, strings.TrimPrefix(name, "file "))
		}
	}
	slices.Sort(t.ExecutableConfig)
	slices.Sort(t.Changed)
	return t
}

// keys are those of both maps.
func keys[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

func values(settings []setting) []string {
	var list []string
	for _, s := range settings {
		list = append(list, s.value)
	}
	return list
}

func containsAll(list, items []string) bool {
	return !slices.ContainsFunc(items, func(item string) bool { return !slices.Contains(list, item) })
}

// Undo takes out what f.Compare(now) names as executable, and puts back what f had in its place;
// everything else that changed meanwhile stays. It returns what it took out, by the names of Compare,
// so that the caller can keep it. Only files that held the repository's configuration before are
// written: a file that is included since then may be anybody's, and is out of reach again once the
// include is gone. On an error part of it was undone; Undo may then be called again with a new
// fingerprint.
func (f *Fingerprint) Undo(ctx context.Context, repo *gitexec.Repo, now *Fingerprint) (map[string][]byte, error) {
	replaced := map[string][]byte{}
	restored, err := f.undoSources(repo, now, replaced)
	if err != nil {
		return replaced, err
	}
	if restored {
		// The rest can be seen again.
		fresh, err := TakeFingerprint(ctx, repo)
		if err != nil {
			return replaced, err
		}
		if fresh.broken != "" {
			return replaced, errors.New(fresh.broken)
		}
		now = fresh
	}
	byShown := map[string]string{}
	for key := range now.config {
		byShown[shownKey(key)] = key
	}
	for _, name := range f.Compare(now).ExecutableConfig {
		if key, isKey := byShown[name]; isKey {
			replaced[name] = []byte(strings.Join(values(now.config[key]), "\n"))
			if err := f.undoKey(ctx, repo, key, now.config[key]); err != nil {
				return replaced, err
			}
		} else if err := f.restore(name, f.files[name], now.files[name], replaced); err != nil {
			return replaced, err
		}
	}
	for folder, is := range now.files {
		if path.Base(folder) == "hooks" && is != (file{}) && f.files[folder] == (file{}) {
			// The folder itself was replaced, and all hooks are gone.
			if err := f.restoreHooks(folder, replaced); err != nil {
				return replaced, err
			}
		}
	}
	return replaced, nil
}

// restoreHooks puts back the hooks that were in a folder.
func (f *Fingerprint) restoreHooks(folder string, replaced map[string][]byte) error {
	for name, was := range f.files {
		if !strings.HasPrefix(name, folder+"/") {
			continue
		}
		if err := durable.MkdirAll(filepath.Dir(f.path(name)), 0o755); err != nil {
			return err
		}
		if err := f.restore(name, was, file{}, replaced); err != nil {
			return err
		}
	}
	return nil
}

// undoSources puts whole files of the configuration back: those that git cannot read any more, which are all
// of them if it does not say which, and those in whose place something else lies. git would follow a link
// there, and undo in the file of somebody else what was never planted.
func (f *Fingerprint) undoSources(repo *gitexec.Repo, now *Fingerprint, replaced map[string][]byte) (restored bool, err error) {
	names := keys(f.sources, now.sources)
	for _, path := range ownSources(repo) {
		names = append(names, f.name(path))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		here := map[string]file{}
		if err := addFile(here, name, f.path(name)); err != nil {
			return restored, err
		}
		was, is := f.sources[name], here[name]
		key := moduleKey(name, unreadable)
		broken := now.broken != "" && f.broken == "" && !f.isOther(repo, name) || now.config[key] != nil && f.config[key] == nil
		_, known := f.sources[name]
		if !known && !f.own(repo, f.path(name)) { // included since then
			continue
		}
		if was == is || !broken && (is == file{} || is.mode.IsRegular()) {
			continue
		}
		if err := f.restore(name, was, is, replaced); err != nil {
			return restored, err
		}
		restored = true
	}
	return restored, nil
}

// own reports whether the file path holds configuration of the repository's own, also of a submodule or of another
// worktree.
func (f *Fingerprint) own(repo *gitexec.Repo, path string) bool {
	return slices.Contains(ownSources(repo), filepath.Clean(path)) || f.isOther(repo, f.name(path)) && slices.Contains(moduleConfigs, filepath.Base(path))
}

// ownSources are the files that hold the repository's own configuration, whether or not they are there.
func ownSources(repo *gitexec.Repo) []string {
	return []string{filepath.Join(repo.CommonDir, "config"), filepath.Join(repo.GitDir, "config.worktree")}
}

// undoKey sets a key back to the values it had, in the files it had them in.
func (f *Fingerprint) undoKey(ctx context.Context, repo *gitexec.Repo, key string, is []setting) error {
	config := func(file string, args ...string) error {
		_, err := repo.Run(ctx, gitexec.Call{Args: append([]string{"config", "--file", file}, args...)})
		return err
	}
	name := bareKey(key)
	cleared := map[string]bool{}
	for _, s := range is {
		_, known := f.sources[f.name(s.file)]
		if cleared[s.file] || !known && !f.own(repo, s.file) {
			continue
		}
		cleared[s.file] = true
		if err := config(s.file, "--unset-all", name); err != nil {
			return err
		}
	}
	for _, s := range f.config[key] {
		if !cleared[s.file] {
			continue // it is still there
		}
		if err := config(s.file, "--add", name, s.value); err != nil {
			return err
		}
	}
	return nil
}

// restore puts back what lay at the place called name, and keeps what lies there now.
func (f *Fingerprint) restore(name string, was, is file, replaced map[string][]byte) error {
	if was == is {
		return nil
	}
	path := f.path(name)
	if is != (file{}) {
		replaced[name] = []byte(is.data)
		if err := durable.RemoveAll(path); err != nil {
			return err
		}
	}
	switch {
	case was == file{}:
		return nil
	case was.mode.Type() == fs.ModeSymlink:
		return durable.Symlink(was.data, path)
	case was.mode.IsRegular() && len(was.data) <= fileLimit:
		return durable.WriteFile(path, []byte(was.data), was.mode.Perm())
	}
	return fmt.Errorf("restore %q: too large to have been kept", path)
}

// executableKey reports whether a configuration key with these values makes git, or git spot, run
// something, decides where it looks for that, or says what git spot lets pass.
func executableKey(key string, values []string) bool {
	if key = bareKey(key); key == unreadable {
		return true
	}
	first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	if first < 0 {
		return false
	}
	section, name := key[:first], key[last+1:]
	names := executableKeys[section]
	if slices.Contains(names, name) || slices.Contains(names, "*") {
		return true
	}
	// A command as an update strategy; a URL of git-remote-ext(1).
	return slices.ContainsFunc(append(slices.Clip(values), key), func(v string) bool {
		return section == "submodule" && name == "update" && strings.HasPrefix(v, "!") || strings.Contains(v, "ext::")
	})
}

// executableKeys are the names of such keys by section, whatever the subsection; "*" is all of them.
// The source is git-config(1), and for spot the keys that start a program or that a value, also an empty
// one, weakens. core.bare runs nothing, but with the wrong value no checkout works any more.
var executableKeys = map[string][]string{
	"alias":       {"*"},
	"browser":     {"cmd", "path"},
	"core":        {"alternaterefscommand", "askpass", "attributesfile", "bare", "editor", "fsmonitor", "gitproxy", "hookspath", "pager", "sshcommand", "worktree"},
	"credential":  {"helper"},
	"diff":        {"command", "external", "textconv"},
	"difftool":    {"cmd", "path"},
	"filter":      {"clean", "process", "smudge"},
	"gc":          {"recentobjectshook"},
	"gpg":         {"defaultkeycommand", "program"},
	"guitool":     {"cmd"},
	"hook":        {"*"},
	"imap":        {"tunnel"},
	"include":     {"*"},
	"includeif":   {"*"},
	"init":        {"templatedir"},
	"instaweb":    {"browser", "httpd"},
	"interactive": {"difffilter"},
	"lfs":         {"args", "clean", "path", "smudge"}, // lfs.customtransfer, lfs.extension
	"man":         {"cmd", "path"},
	"merge":       {"driver"},
	"mergetool":   {"cmd", "path"},
	"pager":       {"*"},
	"protocol":    {"allow"},
	"remote":      {"receivepack", "uploadpack", "vcs"},
	"sendemail":   {"cccmd", "headercmd", "sendmailcmd", "smtpserver", "tocmd"},
	"sequence":    {"editor"},
	"spot":        {"alwayslockedpath", "apikeyenv", "argv", "baseurl", "env", "notify", "program", "protectedbranch", "runhooks", "sandbox", "sandboxread", "sandboxwrite"},
	"tar":         {"command"},
	"trailer":     {"cmd", "command"},
	"uploadpack":  {"packobjectshook"},
}
