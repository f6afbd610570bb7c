package statetest

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// Kind is one kind of repository.
type Kind struct {
	Name string
	// Backend is the one that the probe must choose in a build that has both.
	Backend string
	// Reason is a part of the reason that the probe must give for plumbing.
	Reason string
	// Refused says that libgit2 cannot even be made to open it.
	Refused bool
	// Make makes the repository below top and returns the folder in which the command runs.
	Make func(tb testing.TB, top string) string
}

// Kinds are the kinds of repository that git spot must serve.
func Kinds() []Kind {
	source := func(tb testing.TB, top string) string { return Repository(tb, filepath.Join(top, "source")) }
	config := func(tb testing.TB, dir string, kv ...string) {
		for i := 0; i < len(kv); i += 2 {
			Git(tb, dir, "config", "--file", Git(tb, dir, "rev-parse", "--path-format=absolute", "--git-path", "config"), kv[i], kv[i+1])
		}
	}
	clone := func(tb testing.TB, top string, options ...string) string {
		from := source(tb, top)
		config(tb, from, "uploadpack.allowFilter", "true")
		Git(tb, top, append(append([]string{"clone", "-q"}, options...), "file://"+from, "clone")...)
		return filepath.Join(top, "clone")
	}
	return []Kind{
		{Name: "plain", Backend: "libgit2", Make: source},
		{Name: "plain, in a subfolder", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			return filepath.Join(source(tb, top), "src", "deep")
		}},
		{Name: "bare", Backend: "libgit2", Make: func(tb testing.TB, top string) string { return clone(tb, top, "--bare") }},
		{Name: "SHA-256", Backend: "plumbing", Reason: "object format sha256", Refused: true, Make: func(tb testing.TB, top string) string {
			return Repository(tb, filepath.Join(top, "source"), "--object-format=sha256")
		}},
		{Name: "worktreeConfig, format 1", Backend: "plumbing", Reason: "extensions.worktreeconfig", Refused: true, Make: func(tb testing.TB, top string) string {
			dir := source(tb, top)
			config(tb, dir, "core.repositoryFormatVersion", "1", "extensions.worktreeConfig", "true")
			Git(tb, dir, "config", "--worktree", "x.y", "z")
			return dir
		}},
		{Name: "worktreeConfig, format 0", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			dir := source(tb, top)
			config(tb, dir, "extensions.worktreeConfig", "true")
			Git(tb, dir, "config", "--worktree", "x.y", "z")
			return dir
		}},
		{Name: "bare, core.bare in config.worktree", Backend: "plumbing", Reason: "core.bare in config.worktree", Make: func(tb testing.TB, top string) string {
			dir := clone(tb, top, "--bare")
			config(tb, dir, "extensions.worktreeConfig", "true")
			Git(tb, dir, "config", "--worktree", "core.bare", "true")
			Git(tb, dir, "config", "--file", filepath.Join(dir, "config"), "--unset", "core.bare")
			Git(tb, dir, "worktree", "add", "-q", "--detach", filepath.Join(top, "linked"))
			return filepath.Join(top, "linked")
		}},
		{Name: "partial clone", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			dir := clone(tb, top, "--filter=blob:none", "--no-checkout")
			config(tb, dir, "core.repositoryFormatVersion", "0") // what git makes it depends on its version
			tryGit(tb, dir, nil, "config", "--unset-all", "extensions.partialClone")
			return dir
		}},
		{Name: "partial clone, format 1", Backend: "plumbing", Reason: "extensions.partialclone", Refused: true, Make: func(tb testing.TB, top string) string {
			dir := clone(tb, top, "--filter=blob:none", "--no-checkout")
			config(tb, dir, "core.repositoryFormatVersion", "1", "extensions.partialClone", "origin")
			return dir
		}},
		{Name: "shallow", Backend: "libgit2", Make: func(tb testing.TB, top string) string { return clone(tb, top, "--depth=1") }},
		{Name: "shared, objects by alternates", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			from := source(tb, top)
			Git(tb, top, "clone", "-q", "--shared", from, "clone")
			return filepath.Join(top, "clone")
		}},
		{Name: "linked worktree", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			linked := filepath.Join(top, "linked")
			Git(tb, source(tb, top), "worktree", "add", "-q", "-b", "side", linked)
			return linked
		}},
		{Name: "packed refs and objects", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			dir := source(tb, top)
			Git(tb, dir, "gc", "-q")
			Git(tb, dir, "pack-refs", "--all")
			Git(tb, dir, "multi-pack-index", "write")
			Git(tb, dir, "commit-graph", "write", "--reachable")
			return dir
		}},
		{Name: "separate git directory", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			return Repository(tb, filepath.Join(top, "source"), "--separate-git-dir", filepath.Join(top, "elsewhere"))
		}},
		{Name: "with submodules", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			dir := source(tb, top)
			Repository(tb, filepath.Join(top, "module"))
			Git(tb, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", filepath.Join(top, "module"), "module")
			Git(tb, dir, "commit", "-q", "-m", "second\n\nwith a body")
			return dir
		}},
		{Name: "a submodule", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			dir := source(tb, top)
			Repository(tb, filepath.Join(top, "module"))
			Git(tb, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", filepath.Join(top, "module"), "module")
			return filepath.Join(dir, "module")
		}},
		{Name: "sparse, cone", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			dir := source(tb, top)
			Git(tb, dir, "sparse-checkout", "set", "--cone", "src/deep")
			return dir
		}},
		{Name: "sparse index", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			dir := source(tb, top)
			Git(tb, dir, "sparse-checkout", "set", "--cone", "--sparse-index", "src/deep")
			return dir
		}},
		{Name: "partial and sparse", Backend: "plumbing", Reason: "format 1", Refused: true, Make: func(tb testing.TB, top string) string {
			dir := clone(tb, top, "--filter=blob:none", "--sparse")
			Git(tb, dir, "sparse-checkout", "set", "src/deep")
			return dir
		}},
		{Name: "a foreign lock", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			dir := source(tb, top)
			Write(tb, filepath.Join(dir, ".git", "refs", "spot", "runs", "x.lock"), "")
			Write(tb, filepath.Join(dir, ".git", "index.lock"), "")
			Write(tb, filepath.Join(dir, ".git", "HEAD.lock"), "")
			return dir
		}},
		{Name: "extension noop", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			dir := source(tb, top)
			config(tb, dir, "core.repositoryFormatVersion", "1", "extensions.noop", "true")
			return dir
		}},
		{Name: "extension preciousObjects", Backend: "plumbing", Reason: "extensions.preciousobjects", Refused: true, Make: func(tb testing.TB, top string) string {
			dir := source(tb, top)
			config(tb, dir, "core.repositoryFormatVersion", "1", "extensions.preciousObjects", "true")
			return dir
		}},
		{Name: "shared with a group", Backend: "plumbing", Reason: "core.sharedRepository", Make: func(tb testing.TB, top string) string {
			return Repository(tb, filepath.Join(top, "source"), "--shared=group")
		}},
		{Name: "replace refs", Backend: "libgit2", Make: func(tb testing.TB, top string) string {
			dir := source(tb, top)
			Git(tb, dir, "replace", Git(tb, dir, "rev-parse", "HEAD:src/a.txt"), Git(tb, dir, "rev-parse", "HEAD:README"))
			return dir
		}},
	}
}

// Probe opens a store on the backend that fits.
type Probe func(tb testing.TB, repo *gitexec.Repo) (gitstate.Store, gitstate.Backend)

// Force opens a store on one backend. The error says that it cannot open this repository.
type Force func(tb testing.TB, o gitexec.Options) (gitstate.Store, error)

// Matrix runs the core of the suite on every kind of repository with every backend of the build, checks which
// one the probe chooses, and logs the table. A kind or backend without a result fails.
func Matrix(t *testing.T, probe Probe, backends map[string]Force) {
	var mu sync.Mutex
	cells := map[string]string{}
	set := func(kind, column, text string) {
		mu.Lock()
		defer mu.Unlock()
		cells[kind+"\x00"+column] = text
	}
	t.Run("kinds", func(t *testing.T) {
		for _, kind := range Kinds() {
			t.Run(kind.Name, func(t *testing.T) {
				t.Parallel()
				want := gitstate.Backend{Name: kind.Backend, Reason: kind.Reason}
				if backends["libgit2"] == nil {
					want.Name = "plumbing"
				}
				dir := kind.Make(t, Folder(t))
				_, got := probe(t, Discover(t, Options(dir)))
				if got.Name != want.Name || !strings.Contains(got.Reason, want.Reason) || (got.Reason == "") != (got.Name == "libgit2") {
					t.Errorf("the probe chose %+v, want %+v", got, want)
				}
				set(kind.Name, "chosen", strings.TrimSuffix(got.Name+": "+got.Reason, ": "))
				// One after the other in the same repository, so that each reads what the other wrote.
				for _, name := range slices.Sorted(maps.Keys(backends)) {
					t.Run(name, func(t *testing.T) {
						set(kind.Name, name, works(t, kind, dir, name, backends[name]))
					})
				}
			})
		}
		t.Run("reftable", func(t *testing.T) {
			t.Parallel()
			reftable(t, probe, set)
		})
	})

	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	columns := []string{"libgit2", "plumbing"}
	if backends["libgit2"] == nil {
		columns = columns[1:]
	}
	fmt.Fprintf(w, "repository\t%s\tchosen by the probe\n", strings.Join(columns, "\t"))
	for _, kind := range append(Kinds(), Kind{Name: "reftable"}) {
		fmt.Fprint(w, kind.Name)
		for _, column := range append(columns, "chosen") {
			text, ok := cells[kind.Name+"\x00"+column]
			if !ok {
				t.Errorf("no result for %s, %s", kind.Name, column)
			}
			fmt.Fprintf(w, "\t%s", text)
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
	t.Log("\n" + table.String())
}

// works runs the core with one backend and returns the word for the table.
func works(t *testing.T, kind Kind, dir, backend string, force Force) string {
	if _, err := force(t, Options(dir)); err != nil {
		if backend != "libgit2" || !kind.Refused {
			t.Errorf("cannot open: %v", err)
		}
		return "refuses"
	}
	if backend == "libgit2" && kind.Refused {
		t.Error("libgit2 opens it")
	}
	core(t, func(tb testing.TB, o gitexec.Options) gitstate.Store {
		tb.Helper()
		return must[gitstate.Store](tb)(force(tb, o))
	}, dir, backend)
	if t.Failed() {
		return "fails"
	}
	return "works"
}

// reftable is served where git has it, by plumbing, and refused where git refuses.
func reftable(t *testing.T, probe Probe, set func(kind, column, text string)) {
	top := Folder(t)
	if _, exit := tryGit(t, top, nil, "init", "-q", "--ref-format=reftable", "real"); exit == 0 {
		set("reftable", "libgit2", "refuses")
		dir := Repository(t, filepath.Join(top, "source"), "--ref-format=reftable")
		_, got := probe(t, Discover(t, Options(dir)))
		if got.Name != "plumbing" {
			t.Errorf("the probe chose %+v", got)
		}
		set("reftable", "chosen", got.Name+": "+got.Reason)
		core(t, func(tb testing.TB, o gitexec.Options) gitstate.Store {
			tb.Helper()
			s, _ := probe(tb, Discover(tb, o))
			return s
		}, dir, "core")
		set("reftable", "plumbing", "works")
		return
	}
	dir := Repository(t, filepath.Join(top, "fake"))
	file := filepath.Join(dir, ".git", "config")
	Git(t, dir, "config", "--file", file, "core.repositoryFormatVersion", "1")
	Git(t, dir, "config", "--file", file, "extensions.refStorage", "reftable")
	_, err := gitexec.Discover(t.Context(), Options(dir))
	coded, ok := errors.AsType[schemas.Coded](err)
	if !ok || coded.Code() != schemas.CodeRepoUnsupported {
		t.Errorf("got %v", err)
	}
	for _, column := range []string{"libgit2", "plumbing"} {
		set("reftable", column, "not in this git")
	}
	set("reftable", "chosen", string(schemas.CodeRepoUnsupported))
}
