package worktree

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/internal/gitexec"
)

// DirtyPaths lists what is changed, staged or untracked in the repository's checkout, sorted; nil for
// a repository without one. A folder of untracked files is one path that ends in a slash. Submodules
// count as clean: nothing looks into them. It writes nothing, not even the index.
func DirtyPaths(ctx context.Context, repo *gitexec.Repo) ([]string, error) {
	if repo.WorkTree == "" {
		return nil, nil
	}
	return status(ctx, repo, gitexec.Call{Args: []string{"--untracked-files=normal", "--ignore-submodules=all"}})
}

// status runs git status with the arguments of c in repo's checkout and returns the paths.
func status(ctx context.Context, repo *gitexec.Repo, c gitexec.Call) ([]string, error) {
	c.Args = append([]string{"status", "--porcelain=v2", "-z", "--no-renames"}, c.Args...)
	c.WorkTree = repo.WorkTree
	out, err := repo.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, line := range splitNUL(out) {
		// The number of fields before the path, git-status(1), "Porcelain Format Version 2".
		fields := map[byte]int{'1': 8, 'u': 10, '?': 1}[line[0]]
		parts := strings.SplitN(line, " ", fields+1)
		if fields == 0 || len(parts) != fields+1 {
			return nil, fmt.Errorf("git status printed %q", line)
		}
		paths = append(paths, parts[fields])
	}
	slices.Sort(paths)
	return paths, nil
}
