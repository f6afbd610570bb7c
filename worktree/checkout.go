package worktree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
)

// entry is one line of an index.
type entry struct {
	mode string // six octal digits
	oid  gitstate.OID
	skip bool // not in the checkout, for it is outside the sparse patterns
}

const (
	modeLink    = "120000"
	modeGitlink = "160000"
)

// plainIndex keeps an index of ours one file that any git reads, whatever the user prefers for the own.
var plainIndex = []string{"core.splitIndex=false", "core.untrackedCache=false", "index.sparse=false"}

// checkout is what placing a tree in an empty folder found out.
type checkout struct {
	entries         map[string]entry // of the index
	emptySubmodules []string
	gitlinks        []string // that have a folder
}

// place checks tree out into the empty folder dir, through the repository, so that its filters, line
// endings, sparse patterns and lazy fetches work, and leaves the index at index. Submodules are filled
// from the repository's own store. The filters f do not run. Scratch is a folder for what is needed
// meanwhile.
func place(ctx context.Context, repo *gitexec.Repo, f filters, tree gitstate.OID, index, dir, scratch string) (*checkout, error) {
	if _, err := repo.Run(ctx, gitexec.Call{
		Args:  []string{"read-tree", "--reset", "-u", "--no-recurse-submodules", string(tree)},
		Index: index, WorkTree: dir, Env: f.env(),
		Config: plainIndex,
	}); err != nil {
		return nil, err
	}
	entries, err := readIndex(ctx, repo, index)
	if err != nil {
		return nil, err
	}
	c := &checkout{entries: entries}
	for path, e := range entries {
		if e.mode == modeGitlink && !e.skip {
			c.gitlinks = append(c.gitlinks, path)
		}
	}
	if len(c.gitlinks) == 0 {
		return c, nil
	}
	c.emptySubmodules, err = placeSubmodules(ctx, repo, entries, dir, scratch, 0)
	return c, err
}

// readIndex lists an index by path. Unmerged entries do not occur in the indexes of this package.
func readIndex(ctx context.Context, repo *gitexec.Repo, index string) (map[string]entry, error) {
	out, err := repo.Run(ctx, gitexec.Call{
		Args: []string{"ls-files", "-z", "-s", "-t"}, Index: index,
		Config: []string{"core.sparseCheckout=false"}, // else git looks into the folder for what is skipped
	})
	if err != nil {
		return nil, err
	}
	lines := splitNUL(out)
	entries := make(map[string]entry, len(lines))
	for _, line := range lines {
		meta, path, ok := strings.Cut(line, "\t")
		fields := strings.Fields(meta)
		if !ok || len(fields) != 4 {
			return nil, fmt.Errorf("git ls-files printed %q", line)
		}
		entries[path] = entry{mode: fields[1], oid: gitstate.OID(fields[2]), skip: fields[0] == "S"}
	}
	return entries, nil
}

// gitDir is a private git directory: what a program that runs git in a folder of ours gets to see. It
// shares objects with the repository and nothing else.
type gitDir struct {
	path string
	head gitstate.OID // commit
	// index is copied. Its stat data must be that of the folder.
	index   string
	filters filters // that are left out, and the repository's configuration
}

// create makes the git directory. What it writes is not synced: it can be made again at any time.
func (g gitDir) create(ctx context.Context, repo *gitexec.Repo) error {
	for _, dir := range []string{"", "objects", "objects/info", "refs", "info"} {
		if err := durable.Mkdir(filepath.Join(g.path, dir), 0o700); err != nil {
			return err
		}
	}
	config, sparse := g.config(repo)
	tags, err := packedTags(ctx, repo)
	if err != nil {
		return err
	}
	files := map[string]string{
		"config":                  config,
		"HEAD":                    string(g.head) + "\n",
		"packed-refs":             tags,
		"objects/info/alternates": strings.Join(alternates(filepath.Join(repo.CommonDir, "objects"), 0), "\n") + "\n",
	}
	for name, data := range files {
		if err := writeNew(filepath.Join(g.path, name), data, 0o600); err != nil {
			return err
		}
	}
	copies := map[string]string{
		filepath.Join(repo.CommonDir, "shallow"):            "shallow",
		filepath.Join(repo.CommonDir, "info", "attributes"): "info/attributes",
		g.index: "index",
	}
	if sparse {
		copies[filepath.Join(repo.GitDir, "info", "sparse-checkout")] = "info/sparse-checkout"
	}
	for from, to := range copies {
		if _, err := os.Lstat(from); err != nil {
			continue
		}
		// It keeps the modification time, by which git knows which of the stat data it may trust.
		if err := durable.CopyTree(from, filepath.Join(g.path, to)); err != nil {
			return err
		}
	}
	return nil
}

// config is the configuration of the git directory: what the content of the folder depends on, and an
// identity, so that a commit can be made.
func (g gitDir) config(repo *gitexec.Repo) (text string, sparse bool) {
	entries := g.filters.config
	var b strings.Builder
	version, extensions := 0, ""
	if repo.ObjectFormat == "sha256" {
		version, extensions = 1, extensions+"\tobjectFormat = sha256\n"
	}
	if isPartial(entries) {
		// A missing object is then not corruption. The remote of that name does not exist here: git says
		// so at once instead of fetching.
		version, extensions = 1, extensions+"\tpartialClone = none\n"
	}
	fmt.Fprintf(&b, "[core]\n\trepositoryFormatVersion = %d\n\tbare = false\n", version)
	if extensions != "" {
		b.WriteString("[extensions]\n" + extensions)
	}
	b.WriteString("[user]\n\tname = git-spot worker\n\temail = git-spot@localhost\n")
	b.WriteString("[commit]\n\tgpgSign = false\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n")
	for _, e := range entries {
		section, name := e.Key, ""
		if dot := strings.LastIndexByte(e.Key, '.'); dot >= 0 {
			section, name = e.Key[:dot], e.Key[dot+1:]
		}
		if e.Key == "core.sparsecheckout" {
			sparse = isTrue(e.Value)
		}
		driver, isFilter := strings.CutPrefix(section, "filter.")
		switch {
		case section == "core" && contentKeys[name]:
			fmt.Fprintf(&b, "[core]\n\t%s = %s\n", name, quoteConfig(e.Value))
		case isFilter && !slices.Contains(g.filters.names, driver):
			fmt.Fprintf(&b, "[filter %s]\n\t%s = %s\n", quoteSection(driver), name, quoteConfig(e.Value))
		}
	}
	return b.String(), sparse
}

// contentKeys are the keys of section core on which the bytes of a checkout depend.
var contentKeys = map[string]bool{
	"filemode": true, "symlinks": true, "ignorecase": true, "precomposeunicode": true, "autocrlf": true, "eol": true,
	"checkroundtripencoding": true, "sparsecheckout": true, "sparsecheckoutcone": true,
}

func isPartial(entries []gitexec.ConfigEntry) bool {
	for _, e := range entries {
		if e.Key == "extensions.partialclone" || strings.HasPrefix(e.Key, "remote.") && strings.HasSuffix(e.Key, ".promisor") && isTrue(e.Value) {
			return true
		}
	}
	return false
}

// isTrue reads a Boolean as git does, numbers apart.
func isTrue(value string) bool {
	switch strings.ToLower(value) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}

func quoteConfig(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(value) + `"`
}

func quoteSection(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// packedTags is a packed-refs file with the repository's tags: build tools ask git describe for a
// version.
func packedTags(ctx context.Context, repo *gitexec.Repo) (string, error) {
	out, err := repo.Run(ctx, gitexec.Call{
		Args: []string{"for-each-ref", "--format=%(objectname) %(refname)", "refs/tags"},
	})
	if err != nil {
		return "", err
	}
	return "# pack-refs with: sorted \n" + string(out), nil
}

// alternatesDepth is how far git follows alternates of alternates.
const alternatesDepth = 5

// alternates are the object folders behind objects, itself first, as lines of an alternates file. git
// would follow them by itself, but one level less far than from the repository.
func alternates(objects string, depth int) []string {
	lines := []string{quoteAlternate(objects)}
	data, err := os.ReadFile(filepath.Join(objects, "info", "alternates"))
	if err != nil || depth == alternatesDepth {
		return lines
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' || line[0] == '"' {
			continue // a quoted one is followed by git itself
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(objects, line)
		}
		lines = append(lines, alternates(line, depth+1)...)
	}
	return lines
}

// quoteAlternate quotes a path that git would read as something else.
func quoteAlternate(path string) string {
	if path[0] != '#' && path[0] != '"' && !strings.Contains(path, "\n") {
		return path
	}
	return quoteConfig(path)
}

// writeNew writes a file that must not exist and is not worth a sync.
func writeNew(path, data string, perm os.FileMode) error {
	f, err := durable.Create(path, perm)
	if err != nil {
		return err
	}
	_, err = f.WriteString(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
