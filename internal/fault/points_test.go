package fault_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/fault"
)

// The rule of this file: a call that changes a file, an object or a ref, or that starts a process, stands
// in a function that passes a fault point, or that only such functions call. It is read off the source,
// so that a new call is found without being told.

const module = "github.com/git-spot/git-spot/"

// exempt are functions, or all of a folder's, that pass no point.
var exempt = map[string]string{
	"bench/measure":         "measures; it is not shipped",
	"gitstate/statetest":    "a test suite",
	"internal/agent":        "the worker: a process of its own, whose files are its own",
	"internal/agent/tools":  "as internal/agent",
	"internal/fault.At":     "writes the log of the points itself",
	"internal/proc.Exec":    "its callers pass the point: they know what is run",
	"internal/proc/shim":    "another process, which starts what Supervise has passed the point for",
	"tools/testcount":       "a module of its own; it is not shipped",
	"worktree.openUp":       "gives back access that a worker took from itself, the same however often",
	"worktree.snapshot.git": "sets the time of a copied index, which a kill makes worthless anyway",
	"worktree.stamp":        "sets the time of an index that is not in its place yet",
	"worktree.makeReadable": "as openUp",
}

// writers are the functions outside internal/durable that may change files. They pass a point all the same.
var writers = map[string]string{
	"worktree.landing.lock": "takes index.lock by a link, which nothing else does",
}

// changes are the functions that change a file system. A "?" marks those that do it only with some flags.
var changes = map[string]string{
	"os": `Chmod Chown Chtimes CopyFS Create CreateTemp Lchown Link Mkdir MkdirAll MkdirTemp OpenFile? OpenRoot
		Remove RemoveAll Rename Symlink Truncate WriteFile`,
	"io/ioutil": "TempDir TempFile WriteFile",
	"syscall": `Chmod Chown Creat Fallocate Fchmod Fchmodat Fchown Fchownat Ftruncate Futimes Lchown Link Linkat Mkdir Mkdirat
		Mkfifo Mknod Mknodat Mount Open? Openat? Pwrite Rename Renameat Rmdir Setxattr Removexattr Symlink Symlinkat Truncate
		Unlink Unlinkat Utimes UtimesNano RawSyscall RawSyscall6 Syscall Syscall6`,
	"golang.org/x/sys/unix": `Chmod Chown CopyFileRange Creat Fallocate Fchmod Fchmodat Fchown Fchownat Fremovexattr Fsetxattr Ftruncate
		Futimes Futimesat IoctlFileClone Lchown Link Linkat Lremovexattr Lsetxattr Lutimes Mkdir Mkdirat Mkfifo Mkfifoat
		Mknod Mknodat Mount Open? Openat? Openat2 Pwrite Rename Renameat Renameat2 Rmdir Setxattr Removexattr Symlink
		Symlinkat Truncate Unlink Unlinkat Utimes UtimesNano UtimesNanoAt RawSyscall RawSyscall6 Syscall Syscall6`,
}

// starts are the functions that start a process.
var starts = map[string]string{
	"os":                     "StartProcess",
	"os/exec":                "Command CommandContext",
	"syscall":                "Exec ForkExec StartProcess",
	"golang.org/x/sys/unix":  "Exec",
	module + "internal/proc": "Exec",
}

// stores are the methods of git2go that write objects or refs.
const stores = `Amend Commit Create CreateBlobFromBuffer CreateBlobFromChunks CreateBlobFromWorkdir CreateCommit CreateCommitBuffer
	CreateCommitFromIds CreateCommitWithSignature CreateFromChunks CreateFromStream CreateSymbolic CreateTag Delete Move
	NewWriteStream Remove Rename SetHead SetHeadDetached SetSymbolicTarget SetTarget Write WriteTree WriteTreeTo`

const git2go = "github.com/libgit2/git2go/v34"

func TestEverySideEffectHasAPoint(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, target := range []build.Context{
		{GOOS: "linux", GOARCH: "amd64", CgoEnabled: true, BuildTags: []string{"fault"}, Compiler: "gc"},
		{GOOS: "darwin", GOARCH: "arm64", Compiler: "gc"},
	} {
		set := token.NewFileSet()
		effects := 0
		for folder, files := range sources(t, set, &target) {
			p := read(set, folder, files)
			for _, f := range p {
				seen[f.name], seen[folder] = true, true
				effects += len(f.effects)
			}
			for _, problem := range p.problems(folder) {
				t.Errorf("%s: %s", target.GOOS, problem)
			}
		}
		if effects < 30 {
			t.Errorf("%s: only %d side effects were found: the search is broken", target.GOOS, effects)
		}
	}
	// What is not there any more must not stay allowed.
	for _, names := range []map[string]string{exempt, writers} {
		for name := range names {
			if !seen[name] {
				t.Errorf("%s is allowed something, and is not there", name)
			}
		}
	}
}

// sources parses what is built for a target, by folder.
func sources(t *testing.T, set *token.FileSet, target *build.Context) map[string][]*ast.File {
	const root = "../.."
	packages := map[string][]*ast.File{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != root):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		if built, err := target.MatchFile(filepath.Dir(name), d.Name()); err != nil || !built {
			return err
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(name))
		packages[folder] = append(packages[folder], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// function is one function declaration, or another declaration.
type function struct {
	name     string // folder.Receiver.Name
	object   types.Object
	exported bool
	passes   bool                  // calls fault.At
	uses     map[types.Object]bool // of the same package
	dynamic  map[string]bool       // methods that it calls by an interface of the same package
	effects  []effect
}

type effect struct {
	where string
	what  string
	file  bool // changes files
}

type functions []*function

// read finds the functions of a package and what they do.
func read(set *token.FileSet, folder string, files []*ast.File) (all functions) {
	// Only what the package itself declares is resolved; the rest goes by the names of imports.
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: nothing{}, Error: func(error) {}, FakeImportC: true}
	_, _ = config.Check(folder, set, files, info)
	for _, file := range files {
		imports := map[string]string{}
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			name := path.Base(imported)
			switch {
			case spec.Name != nil:
				name = spec.Name.Name
			case imported == git2go:
				name = "git"
			}
			imports[name] = imported
		}
		for _, decl := range file.Decls {
			f := &function{name: folder + ".", exported: true, uses: map[types.Object]bool{}, dynamic: map[string]bool{}}
			if d, ok := decl.(*ast.FuncDecl); ok {
				f.object, f.exported = info.Defs[d.Name], d.Name.IsExported()
				if d.Recv != nil {
					receiver := receiverName(d.Recv.List[0].Type)
					f.name += receiver + "."
					f.exported = f.exported && ast.IsExported(receiver)
				}
				f.name += d.Name.Name
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				f.visit(set, imports, info, n)
				return true
			})
			all = append(all, f)
		}
	}
	return all
}

// nothing is an importer of empty packages.
type nothing struct{}

func (nothing) Import(imported string) (*types.Package, error) {
	p := types.NewPackage(imported, path.Base(imported))
	p.MarkComplete()
	return p, nil
}

func receiverName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func (f *function) visit(set *token.FileSet, imports map[string]string, info *types.Info, n ast.Node) {
	switch n := n.(type) {
	case *ast.Ident:
		used, ok := info.Uses[n].(*types.Func)
		if !ok {
			return
		}
		f.uses[used.Origin()] = true
		if receiver := used.Signature().Recv(); receiver != nil && types.IsInterface(receiver.Type()) {
			f.dynamic[used.Name()] = true
		}
	case *ast.CallExpr:
		selector, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return
		}
		where, name, imported := set.Position(n.Pos()).String(), selector.Sel.Name, ""
		if x, ok := selector.X.(*ast.Ident); ok {
			imported = imports[x.Name]
		}
		switch {
		case imported == module+"internal/fault" && name == "At":
			f.passes = true
		case has(changes[imported], name) || has(changes[imported], name+"?") && writes(n):
			f.effects = append(f.effects, effect{where: where, what: imported + "." + name, file: true})
		case has(starts[imported], name):
			f.effects = append(f.effects, effect{where: where, what: imported + "." + name})
		case imported == "" && imports["git"] == git2go && has(stores, name):
			f.effects = append(f.effects, effect{where: where, what: "git2go's " + name})
		}
	}
}

func has(words, word string) bool { return slices.Contains(strings.Fields(words), word) }

// writes reports whether a call that opens a file may change something.
func writes(call *ast.CallExpr) bool {
	reads, changes := false, false
	ast.Inspect(call, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			reads = reads || has("O_RDONLY O_PATH", id.Name)
			changes = changes || has("O_WRONLY O_RDWR O_CREATE O_CREAT O_TRUNC O_APPEND O_TMPFILE", id.Name)
		}
		return true
	})
	return changes || !reads
}

// problems lists the side effects that no point goes before, and those that are in the wrong package.
func (all functions) problems(folder string) (problems []string) {
	if exempt[folder] != "" {
		return nil
	}
	for _, f := range all {
		if len(f.effects) == 0 || exempt[f.name] != "" {
			continue
		}
		guarded := all.guarded(f, map[*function]bool{})
		for _, e := range f.effects {
			if e.file && folder != "internal/durable" && writers[f.name] == "" {
				problems = append(problems, e.where+": "+e.what+" outside internal/durable")
			} else if !guarded {
				problems = append(problems, e.where+": "+e.what+" is called in "+f.name+" without a fault point before it")
			}
		}
	}
	return problems
}

// guarded reports whether a point is passed before f does anything: by itself or by everything that calls
// it.
func (all functions) guarded(f *function, assumed map[*function]bool) bool {
	if f.passes || exempt[f.name] != "" || assumed[f] {
		return true
	}
	if f.exported || f.object == nil {
		return false
	}
	assumed[f] = true
	called := false
	for _, caller := range all {
		if caller == f || !caller.uses[f.object] && !caller.dynamic[f.object.Name()] {
			continue
		}
		called = true
		if !all.guarded(caller, assumed) {
			return false
		}
	}
	return called
}

func TestSideEffectsAreFound(t *testing.T) {
	t.Parallel()
	const head = `package p
import (
	"os"
	"os/exec"
	"syscall"
	git "github.com/libgit2/git2go/v34"
	"github.com/git-spot/git-spot/internal/fault"
	"github.com/git-spot/git-spot/internal/proc"
)
`
	tests := []struct {
		name, folder, source string
		problems             int
	}{
		{"a write elsewhere", "flow", `func f() { fault.At("", ""); os.WriteFile("", nil, 0) }`, 1},
		{"a write without a point", "internal/durable", `func F() { os.Rename("", "") }`, 1},
		{"a write with a point", "internal/durable", `func F() { fault.At("", ""); os.Rename("", "") }`, 0},
		{"a helper of one with a point", "internal/durable", `func F() { fault.At("", ""); g() }; func g() { os.Rename("", "") }`, 0},
		{"a helper of two, one without", "internal/durable", `func F() { fault.At("", ""); g() }; func G() { g() }; func g() { os.Rename("", "") }`, 1},
		{"a helper that nobody calls", "internal/durable", `func g() { os.Rename("", "") }`, 1},
		{"helpers that call each other", "internal/durable", `func F() { fault.At("", ""); g() }; func g() { h() }; func h() { g(); os.Remove("") }`, 0},
		{"opened for reading", "flow", `func f() { os.OpenFile("", os.O_RDONLY, 0); syscall.Open("", syscall.O_RDONLY, 0) }`, 0},
		{"opened for writing", "flow", `func f() { os.OpenFile("", os.O_RDONLY|os.O_CREATE, 0) }`, 1},
		{"opened for what is not known", "flow", `func f(flags int) { os.OpenFile("", flags, 0) }`, 1},
		{"in a function literal", "flow", `var f = func() { os.Remove("") }`, 1},
		{"a process", "flow", `func f() { exec.Command("") }`, 1},
		{"a process by ours", "flow", `func f() { proc.Exec(nil, proc.Command{}) }`, 1},
		{"a process with a point", "internal/gitexec", `func f() { fault.At("", ""); proc.Exec(nil, proc.Command{}) }`, 0},
		{"an object", "gitstate", `func (l *S) write(o *git.Odb) { o.Write(nil, 0) }; type S struct{}`, 1},
		{"an object with a point", "gitstate", `type S struct { b interface{ write(*git.Odb) } }; type lib struct{}
			func (lib) write(o *git.Odb) { o.Write(nil, 0) }; func (s *S) W() { fault.At("", ""); s.b.write(nil) }`, 0},
		{"a ref", "gitstate", `func f(r *git.Reference) { r.SetTarget(nil, "") }`, 1},
	}
	for _, test := range tests {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "p.go", head+test.source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(set, test.folder, []*ast.File{file}).problems(test.folder); len(got) != test.problems {
			t.Errorf("%s: problems %q, want %d", test.name, got, test.problems)
		}
	}
}

// TestPointsAreListed compares Points with the constants, and with what the source passes.
func TestPointsAreListed(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("points.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := strings.Count(string(source), "Point = \"")
	if len(fault.Points) != declared {
		t.Errorf("Points has %d points, and %d are declared", len(fault.Points), declared)
	}
}
