package worktree

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
)

// git runs a filter's command with the top of the work tree as its working directory. A command that
// is found there is content of the repository: in a worker's folder it is whatever the worker made of
// it. Such a driver is switched off, in the checkout as well as in the snapshot, so that a file that
// nobody touched comes back as it was. It is then not required either: required means that content
// without the filter is useless, and the user's own git will say so; here it would only mean that the
// repository cannot be worked on at all. Worktree.DisabledFilters names it. All other drivers run.

// filters are the filter drivers of one repository and tree that must not run.
type filters struct {
	names  []string              // sorted
	config []gitexec.ConfigEntry // of the repository, when they were looked for
}

// contentFilters finds the drivers whose command is content of tree. The tree must be one that no
// worker has touched: base.
func contentFilters(ctx context.Context, repo *gitexec.Repo, tree gitstate.OID) (filters, error) {
	f, commands, err := configuredFilters(ctx, repo)
	if err != nil || len(commands) == 0 {
		return f, err
	}
	out, err := repo.Run(ctx, gitexec.Call{Args: []string{"ls-tree", "-z", "--full-tree", string(tree)}})
	if err != nil {
		return filters{}, err
	}
	top := map[string]string{} // kind by name
	for _, line := range splitNUL(out) {
		meta, name, _ := strings.Cut(line, "\t")
		if fields := strings.Fields(meta); len(fields) == 3 {
			top[name] = fields[1]
		}
	}
	for name, cmds := range commands {
		if slices.ContainsFunc(cmds, func(c string) bool { return runsContent(c, top) }) {
			f.names = append(f.names, name)
		}
	}
	slices.Sort(f.names)
	return f, nil
}

// allFilters are all drivers that are configured.
func allFilters(ctx context.Context, repo *gitexec.Repo) (filters, error) {
	f, commands, err := configuredFilters(ctx, repo)
	f.names = slices.Sorted(maps.Keys(commands))
	return f, err
}

// configuredFilters returns filters without names, and the commands of all drivers by name.
func configuredFilters(ctx context.Context, repo *gitexec.Repo) (filters, map[string][]string, error) {
	entries, err := repo.Config(ctx)
	if err != nil {
		return filters{}, nil, err
	}
	commands := map[string][]string{}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Key, "filter.")
		dot := strings.LastIndexByte(rest, '.')
		if !ok || dot < 0 {
			continue
		}
		switch rest[dot+1:] {
		case "clean", "smudge", "process":
			commands[rest[:dot]] = append(commands[rest[:dot]], e.Value)
		}
	}
	return filters{config: entries}, commands, nil
}

// env switches the drivers off for one call. It is not -c, because a driver's name may hold a "=".
func (f filters) env() []string {
	if len(f.names) == 0 {
		return nil
	}
	var env []string
	add := func(key, value string) {
		n := len(env) / 2
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
	}
	for _, name := range f.names {
		add("filter."+name+".clean", "")
		add("filter."+name+".smudge", "")
		add("filter."+name+".process", "")
		add("filter."+name+".required", "false")
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(env)/2))
}

// interpreters run a file that is named by a bare word.
var interpreters = []string{
	"awk", "bash", "bun", "busybox", "dash", "deno", "env", "exec", "fish", "gawk", "go", "ksh", "lua", "make", "mawk",
	"node", "nodejs", "perl", "php", "powershell", "pwsh", "python", "ruby", "sh", "sudo", "tclsh", "xargs", "zsh", ".", "source",
}

// runsContent says whether a command names a file of the tree with these top-level entries. It errs
// on the side of yes: it takes a command apart at everything that separates words for a shell, and
// looks for words that are paths into the tree.
func runsContent(command string, top map[string]string) bool {
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\r\n;|&()<>`'\"{}=$", r) })
	interpreted := false
	for i, word := range words {
		first, _, deep := strings.Cut(word, "/")
		switch {
		case strings.HasPrefix(word, "/"), strings.HasPrefix(word, "~"):
		case word == "..", first == "." && deep, first == "..":
			return true
		case deep && (i == 0 || top[first] != ""):
			return true
		case interpreted && !strings.HasPrefix(word, "-") && top[word] != "":
			return true
		}
		base := strings.TrimRight(path.Base(word), "0123456789.")
		interpreted = interpreted || slices.Contains(interpreters, base) || word == "."
	}
	return false
}

func splitNUL(out []byte) []string {
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func joinNUL(paths []string) string {
	var b strings.Builder
	for _, p := range paths {
		b.WriteString(p)
		b.WriteByte(0)
	}
	return b.String()
}
