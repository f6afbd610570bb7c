package verify

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

// maxShownPaths bounds the paths of one row; the message says how many there are.
const maxShownPaths = 100

// gate is one yes/no check of the change. A further check is a row in gates and nothing else.
type gate struct {
	name  string
	code  schemas.Code
	final bool // red means that the worker touched its grader, and the run is over
	check func(context.Context, *judge) (finding, error)
}

// finding is what a gate has to say. The zero value is green.
type finding struct {
	red       bool
	paths     []string
	message   string
	unchecked bool // red because what it needs could not be read
}

// gates is the fixed order of the rows: first what makes a run end, then what its next revision can
// mend.
func gates() []gate {
	return []gate{
		{"git-state", schemas.CodeGitStateTampered, true, checkGitState},
		{"locked-paths", schemas.CodeLockedPathChanged, true, checkLocked},
		{"verification-scripts", schemas.CodeVerificationScriptChanged, true, checkScripts},
		{"symlinks", schemas.CodeSymlinkEscape, true, checkLinks},
		{"diff-hash", schemas.CodeDiffHashChanged, false, checkHash},
		{"empty-diff", schemas.CodeEmptyDiff, false, checkEmpty},
		{"forbidden-paths", schemas.CodePathForbidden, false, checkForbidden},
		{"allowed-paths", schemas.CodePathNotAllowed, false, checkAllowed},
		{"nested-repositories", schemas.CodeNestedRepository, false, checkNested},
		{"submodules", schemas.CodeSubmoduleChanged, false, checkSubmodules},
		{"deletions", schemas.CodeExcessiveDeletion, false, checkDeletions},
		{"diff-size", schemas.CodeDiffTooLarge, false, checkSize},
	}
}

// gateOf is the gate with the given code; the zero gate if there is none.
func gateOf(code schemas.Code) gate {
	for _, g := range gates() {
		if g.code == code {
			return g
		}
	}
	return gate{}
}

// judge is a subject with what several gates need of it.
type judge struct {
	Subject
	trees     *trees
	base      gitstate.OID // tree of the base commit, read by baseTree
	locked    *Matcher
	forbidden []pattern
	linksErr  error // of lockThroughLinks: locked and forbidden are not complete
}

func newJudge(s Subject) *judge {
	j := &judge{Subject: s, trees: newTrees(s.Objects), locked: Locked(s.Contract, s.AlwaysLocked)}
	for _, p := range s.Contract.ForbiddenPaths {
		j.forbidden = append(j.forbidden, foldedPattern(p, "forbiddenPaths of the contract"))
	}
	return j
}

// lockThroughLinks adds to what is locked and forbidden where the names lead: a pattern that goes through a
// link of base means what is behind the link, by its own name too.
func (j *judge) lockThroughLinks(ctx context.Context) error {
	for _, list := range []struct {
		globs []string
		why   string
		to    *[]pattern
	}{
		{j.Contract.LockedPaths, "lockedPaths of the contract, through a link", &j.locked.named},
		{j.AlwaysLocked, "spot.alwaysLockedPath, through a link", &j.locked.named},
		{j.Contract.ForbiddenPaths, "forbiddenPaths of the contract, through a link", &j.forbidden},
	} {
		for _, glob := range list.globs {
			fixed, rest := doublestar.SplitPattern(strings.Trim(glob, "/"))
			if !strings.ContainsAny(rest, globChars) {
				fixed, rest = path.Join(fixed, rest), ""
			}
			if fixed == "." {
				continue
			}
			base, err := j.baseTree(ctx)
			if err != nil {
				return err
			}
			p, err := j.trees.follow(ctx, base, fixed)
			if err != nil {
				return err
			}
			if len(p.links) == 0 || p.outside != "" || p.path == "" {
				continue
			}
			there := escapeGlob(p.path)
			switch {
			case rest != "":
				*list.to = append(*list.to, foldedPattern(there+"/"+rest, list.why))
			case there != p.path: // not read as a name, which also means what is below it
				*list.to = append(*list.to, foldedPattern(there, list.why), foldedPattern(there+"/**", list.why))
			default:
				*list.to = append(*list.to, foldedPattern(there, list.why))
			}
		}
	}
	return nil
}

// globChars are the characters that make a pattern more than a name.
const globChars = `*?[{\`

// escapeGlob is a pattern for the path alone.
func escapeGlob(path string) string {
	if !strings.ContainsAny(path, globChars) {
		return path
	}
	var b strings.Builder
	for i := range len(path) {
		if strings.IndexByte(`*?[]{}\`, path[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

func (j *judge) baseTree(ctx context.Context) (gitstate.OID, error) {
	if j.base == "" {
		c, err := j.Objects.Commit(ctx, j.Diff.Base)
		if err != nil {
			return "", fmt.Errorf("base commit: %w", err)
		}
		j.base = c.Tree
	}
	return j.base, nil
}

// Gates runs every gate and returns one row each, in a fixed order. A gate that cannot read what it
// needs is red and says so, so that the only error is the cause of ctx's end.
func Gates(ctx context.Context, s Subject) ([]schemas.GateResult, error) {
	j := newJudge(s)
	j.linksErr = j.lockThroughLinks(ctx)
	table := gates()
	rows := make([]schemas.GateResult, 0, len(table))
	for _, g := range table {
		f, err := g.check(ctx, j)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			f = finding{red: true, unchecked: true, message: "cannot be checked: " + err.Error()}
		}
		rows = append(rows, g.row(f))
	}
	return rows, nil
}

func (g gate) row(f finding) schemas.GateResult {
	slices.Sort(f.paths)
	f.paths = slices.Compact(f.paths)
	if n := len(f.paths); n > maxShownPaths {
		f.paths = f.paths[:maxShownPaths]
		f.message = fmt.Sprintf("%s (%d paths, the first %d are listed)", f.message, n, maxShownPaths)
	}
	for i, p := range f.paths {
		f.paths[i] = display(p)
	}
	return schemas.GateResult{
		Gate: g.name, Code: g.code, OK: !f.red, Unchecked: f.unchecked, Paths: f.paths, Message: strings.ToValidUTF8(f.message, "\uFFFD"),
	}
}

// Tampered returns rows with that of git's own state red: something that ran during the verification
// changed what paths names.
func Tampered(rows []schemas.GateResult, paths []string) []schemas.GateResult {
	rows = slices.Clone(rows)
	for i, row := range rows {
		if row.Code == schemas.CodeGitStateTampered {
			rows[i] = gateOf(row.Code).row(finding{red: true, paths: slices.Clone(paths), message: "the verification changed git's own state"})
		}
	}
	return rows
}

// Final returns the first red gate that ends a run for good: the worker touched its grader. A gate that
// is red because it could not be checked is not one; that can be tried again.
func Final(rows []schemas.GateResult) (schemas.GateResult, bool) {
	for _, row := range rows {
		if !row.OK && gateOf(row.Code).final && !row.Unchecked {
			return row, true
		}
	}
	return schemas.GateResult{}, false
}

// Judge is the verdict over everything that was done, and the code of a fail: that of Final if there
// is one, else that of the first red gate, else that of the first set-up or verification command that
// did not pass. A verification in which no gate or no command ran is a fail.
func Judge(rows []schemas.GateResult, setup, commands []schemas.CommandResult) (schemas.Verdict, schemas.Code) {
	if row, ok := Final(rows); ok {
		return schemas.VerdictFail, row.Code
	}
	for _, row := range rows {
		if !row.OK {
			return schemas.VerdictFail, row.Code
		}
	}
	for _, c := range slices.Concat(setup, commands) {
		switch {
		case Passed(c):
		case c.TimedOut:
			return schemas.VerdictFail, schemas.CodeVerificationTimeout
		default:
			return schemas.VerdictFail, schemas.CodeVerificationFailed
		}
	}
	if len(rows) == 0 || len(commands) == 0 {
		return schemas.VerdictFail, schemas.CodeVerificationFailed
	}
	return schemas.VerdictPass, ""
}

// Overlays lists the paths, sorted, that a clean room must take from base whatever the candidate says:
// every locked path of base's tree and of the candidate's, and the files that the commands of the
// contract name. A path that base does not have must be absent.
func Overlays(ctx context.Context, s Subject) ([]string, error) {
	j := newJudge(s)
	base, err := j.baseTree(ctx)
	if err != nil {
		return nil, err
	}
	if err := j.lockThroughLinks(ctx); err != nil {
		return nil, err
	}
	paths, err := j.scripts(ctx)
	if err != nil {
		return nil, err
	}
	collect := func(path string, e gitstate.TreeEntry) error {
		if _, locked := j.locked.Match(path); locked && e.Mode != modeGitlink {
			paths = append(paths, path)
		}
		return nil
	}
	if err := j.trees.walk(ctx, base, collect); err != nil {
		return nil, err
	}
	for _, c := range s.Diff.Changes {
		if c.OldMode == modeNone {
			_ = collect(c.Path, gitstate.TreeEntry{Mode: c.NewMode})
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

func checkGitState(_ context.Context, j *judge) (finding, error) {
	if len(j.Tampered) == 0 {
		return finding{}, nil
	}
	return finding{red: true, paths: slices.Clone(j.Tampered), message: "the turn changed git's own state"}, nil
}

func checkHash(_ context.Context, j *judge) (finding, error) {
	if j.Recorded == j.Diff.SHA256 && j.Recorded != "" {
		return finding{}, nil
	}
	return finding{red: true, message: fmt.Sprintf("recorded %q, computed %q", j.Recorded, j.Diff.SHA256)}, nil
}

func checkEmpty(_ context.Context, j *judge) (finding, error) {
	if len(j.Diff.Changes) > 0 {
		return finding{}, nil
	}
	return finding{red: true, message: "nothing was changed"}, nil
}

func checkLocked(_ context.Context, j *judge) (finding, error) {
	if j.linksErr != nil {
		return finding{}, j.linksErr
	}
	var f finding
	for _, c := range j.Diff.Changes {
		if why, locked := j.locked.Match(c.Path); locked {
			f.paths = append(f.paths, c.Path)
			f.say(c.Path, why)
		}
	}
	return f, nil
}

func checkForbidden(_ context.Context, j *judge) (finding, error) {
	if j.linksErr != nil {
		return finding{}, j.linksErr
	}
	var f finding
	for _, c := range j.Diff.Changes {
		folded := fold(c.Path)
		why, matched := matchAny(j.forbidden, folded)
		if !matched {
			why, matched = matchAny(j.forbidden, trim(folded))
		}
		if !matched && gitName(c.Path) {
			why, matched = "some file systems take it for .git", true
		}
		if matched {
			f.paths = append(f.paths, c.Path)
			f.say(c.Path, why)
		}
	}
	return f, nil
}

func checkAllowed(_ context.Context, j *judge) (finding, error) {
	var f finding
	for _, c := range j.Diff.Changes {
		if !slices.ContainsFunc(j.Contract.AllowedPaths, func(p string) bool {
			ok, err := doublestar.Match(p, c.Path)
			return ok && err == nil
		}) {
			f.paths = append(f.paths, c.Path)
			f.say(c.Path, "no pattern of allowedPaths")
		}
	}
	return f, nil
}

// say makes f red, with the reason of the first path.
func (f *finding) say(path, why string) {
	if !f.red {
		f.red, f.message = true, fmt.Sprintf("%s: %s", display(path), why)
	}
}

func checkNested(ctx context.Context, j *judge) (finding, error) {
	if len(j.Nested) > 0 {
		return finding{red: true, paths: slices.Clone(j.Nested), message: "the worktree holds another repository; its files are not in the candidate"}, nil
	}
	return j.gitDirs(ctx)
}

// gitDirs finds folders of the candidate that git takes for a bare repository, as far as the change has a
// part in that: whoever runs git in one, and be it the prompt of a shell, executes what its config and hooks
// say.
func (j *judge) gitDirs(ctx context.Context) (finding, error) {
	var f finding
	seen := make(map[string]bool)
	for _, c := range j.Diff.Changes {
		if c.NewMode == modeNone || j.locked.unlock[c.Path] {
			continue
		}
		parts := strings.Split(c.Path, "/")
		for i := range parts {
			folder := strings.Join(parts[:i], "/")
			if seen[folder] || !slices.Contains(gitDirParts, fold(parts[i])) {
				continue
			}
			seen[folder] = true
			is, err := j.isGitDir(ctx, parts[:i])
			if err != nil {
				return finding{}, err
			}
			if is {
				if folder == "" {
					folder = "."
				}
				f.paths = append(f.paths, folder)
				f.say(folder, "git takes it for a repository")
			}
		}
	}
	return f, nil
}

// gitDirParts are what makes a folder a git directory, and what git executes by it.
var gitDirParts = []string{"head", "objects", "refs", "commondir", "config", "config.worktree", "hooks"}

// isGitDir reports whether a folder of the candidate has what git looks for; see is_git_directory in git's
// setup.c. On some file systems case does not matter.
func (j *judge) isGitDir(ctx context.Context, folder []string) (bool, error) {
	e, found, err := j.trees.lookup(ctx, j.Diff.Tree, folder)
	if err != nil || !found || e.Mode != modeTree {
		return false, err
	}
	entries, err := j.trees.entries(ctx, e.OID)
	if err != nil {
		return false, err
	}
	has := make(map[string]bool)
	for name := range entries {
		has[fold(name)] = true
	}
	return has["head"] && (has["objects"] && has["refs"] || has["commondir"]), nil
}

func checkSubmodules(_ context.Context, j *judge) (finding, error) {
	var f finding
	for _, c := range j.Diff.Changes {
		if c.OldMode == modeGitlink || c.NewMode == modeGitlink {
			f.paths = append(f.paths, c.Path)
			f.say(c.Path, "a submodule was added, removed or moved")
		}
	}
	return f, nil
}

func checkSize(_ context.Context, j *judge) (finding, error) {
	maxFiles := orDefault(j.Contract.Limits.MaxChangedFiles, schemas.DefaultMaxChangedFiles)
	maxBytes := orDefault(j.Contract.Limits.MaxDiffBytes, schemas.DefaultMaxDiffBytes)
	var over []string
	if n := len(j.Diff.Changes); n > maxFiles {
		over = append(over, fmt.Sprintf("%d files, maxChangedFiles is %d", n, maxFiles))
	}
	if j.Diff.Bytes > maxBytes {
		over = append(over, fmt.Sprintf("%d bytes, maxDiffBytes is %d", j.Diff.Bytes, maxBytes))
	}
	return finding{red: len(over) > 0, message: strings.Join(over, "; ")}, nil
}

func orDefault[T int | int64](n, byDefault T) T {
	if n > 0 {
		return n
	}
	return byDefault
}

// checkLinks looks at every link of the candidate as soon as one link is touched: another link, not
// touched itself, may lead elsewhere because of it. A link that left the tree on base already is the
// user's.
func checkLinks(ctx context.Context, j *judge) (finding, error) {
	touched := make(map[string]bool)
	for _, c := range j.Diff.Changes {
		if c.OldMode == modeLink || c.NewMode == modeLink {
			touched[c.Path] = true
		}
	}
	if len(touched) == 0 {
		return finding{}, nil
	}
	base, err := j.baseTree(ctx)
	if err != nil {
		return finding{}, err
	}
	outside := make(map[string]string)
	err = j.trees.walk(ctx, j.Diff.Tree, func(path string, e gitstate.TreeEntry) error {
		if e.Mode != modeLink {
			return nil
		}
		p, err := j.trees.follow(ctx, j.Diff.Tree, path)
		if err != nil || p.outside == "" {
			return err
		}
		if !touched[path] {
			if before, err := j.trees.follow(ctx, base, path); err != nil || before.outside != "" {
				return err
			}
		}
		outside[path] = p.outside
		return nil
	})
	f := finding{paths: slices.Sorted(maps.Keys(outside))}
	for _, path := range f.paths {
		f.say(path, "the link leads "+outside[path])
	}
	return f, err
}
