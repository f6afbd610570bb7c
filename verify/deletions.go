package verify

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

const (
	minHalvedLines  = 40       // a file of at most so many lines may lose more than half of them
	maxRenamePairs  = 10_000   // deleted x added files whose content is compared; above, only equal files are renames
	maxComparedSize = 64 << 20 // bytes of files that are read for renames and line endings
)

// checkDeletions counts the lines that the change takes away. A renamed file is compared with what it
// was renamed to, and a file whose line endings changed without regard to them. A binary file that is
// deleted counts as one line.
func checkDeletions(ctx context.Context, j *judge) (finding, error) {
	maxDeleted := orDefault(j.Contract.Limits.MaxDeletedLines, schemas.DefaultMaxDeletedLines)
	d := &deletions{objects: j.Objects, budget: maxComparedSize}
	renamed, err := d.renames(ctx, j.Diff.Changes)
	if err != nil {
		return finding{}, err
	}
	var f finding
	var total int
	var gutted, endings []string
	for i, c := range j.Diff.Changes {
		if c.OldMode == modeNone || c.OldMode == modeGitlink {
			continue
		}
		deleted := c.Deleted
		switch {
		case c.NewMode == modeNone:
			if n, ok := renamed[i]; ok {
				deleted = n
			} else if c.Binary {
				deleted = 1
			}
		case deleted > minHalvedLines/2 || deleted > 0 && d.budget > 0:
			old, err := d.read(ctx, c.OldID)
			if err != nil {
				return finding{}, err
			}
			if deleted, err = d.withoutEndings(ctx, old, c); err != nil {
				return finding{}, err
			}
			if deleted < c.Deleted {
				endings = append(endings, c.Path)
			}
			if lines := countLines(old); lines > minHalvedLines && 2*deleted > lines {
				gutted = append(gutted, c.Path)
				if f.message == "" {
					f.message = fmt.Sprintf("%s: %d of %d lines deleted", display(c.Path), deleted, lines)
				}
			}
		}
		total += deleted
	}
	switch {
	case total > maxDeleted:
		f.red, f.paths = true, gutted
		f.message = fmt.Sprintf("%d lines deleted, maxDeletedLines is %d", total, maxDeleted)
	case len(gutted) > 0:
		f.red, f.paths = true, gutted
	case len(endings) > 0:
		f.paths, f.message = endings, "warning: line endings were changed"
	}
	return f, nil
}

// deletions compares files within a budget of bytes. What no longer fits is not compared, and counts as
// the diff has it.
type deletions struct {
	objects Objects
	budget  int
}

func (d *deletions) read(ctx context.Context, id gitstate.OID) ([]byte, error) {
	data, err := d.objects.Blob(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", id, err)
	}
	d.budget -= len(data)
	return data, nil
}

// renames finds for each deleted file, by its index in changes, the added file that it became, and how
// many of its lines are not in that. Equal files come first, as in git; else at least half of the lines
// of the larger file must be in both.
func (d *deletions) renames(ctx context.Context, changes []gitstate.Change) (map[int]int, error) {
	var gone, come []int
	added := make(map[gitstate.OID][]int)
	for i, c := range changes {
		switch {
		case c.NewMode == modeNone && isFile(c.OldMode):
			gone = append(gone, i)
		case c.OldMode == modeNone && isFile(c.NewMode):
			come = append(come, i)
			added[c.NewID] = append(added[c.NewID], i)
		}
	}
	renamed := make(map[int]int)
	taken := make(map[int]bool)
	gone = slices.DeleteFunc(gone, func(i int) bool {
		same := added[changes[i].OldID]
		if len(same) == 0 {
			return false
		}
		taken[same[0]] = true
		added[changes[i].OldID] = same[1:]
		renamed[i] = 0
		return true
	})
	gone = slices.DeleteFunc(gone, func(i int) bool { return changes[i].Binary })
	come = slices.DeleteFunc(come, func(i int) bool { return taken[i] || changes[i].Binary })
	if len(gone)*len(come) == 0 || len(gone)*len(come) > maxRenamePairs {
		return renamed, nil
	}

	lines := make(map[int]map[string]int)
	for _, i := range slices.Concat(gone, come) {
		c := changes[i]
		id := c.OldID
		if c.OldMode == modeNone {
			id = c.NewID
		}
		data, err := d.read(ctx, id)
		if err != nil {
			return nil, err
		}
		if d.budget < 0 {
			return renamed, nil
		}
		lines[i] = lineBag(data)
	}
	type pair struct{ from, to, common, size int }
	var pairs []pair
	for _, from := range gone {
		for _, to := range come {
			a, b := changes[from].Deleted, changes[to].Added
			p := pair{from, to, commonLines(lines[from], lines[to]), max(a, b)}
			if p.size > 0 && 2*p.common >= p.size {
				pairs = append(pairs, p)
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return b.common*a.size - a.common*b.size })
	for _, p := range pairs {
		if _, done := renamed[p.from]; done || taken[p.to] {
			continue
		}
		renamed[p.from] = max(0, changes[p.from].Deleted-p.common)
		taken[p.to] = true
	}
	return renamed, nil
}

// withoutEndings counts the deleted lines of a changed text file once more if its line endings changed,
// as git does with --ignore-cr-at-eol.
func (d *deletions) withoutEndings(ctx context.Context, old []byte, c gitstate.Change) (int, error) {
	if c.Binary || !isFile(c.OldMode) || !isFile(c.NewMode) || d.budget < 0 {
		return c.Deleted, nil
	}
	changed, err := d.read(ctx, c.NewID)
	if err != nil {
		return 0, err
	}
	crlf := []byte("\r\n")
	if bytes.Count(old, crlf) == bytes.Count(changed, crlf) {
		return c.Deleted, nil
	}
	before, after := lineBag(old), lineBag(changed)
	n := 0
	for _, count := range before {
		n += count
	}
	return min(c.Deleted, n-commonLines(before, after)), nil
}

func isFile(mode string) bool { return strings.HasPrefix(mode, "100") }

// lineBag counts every line of data, without its line ending.
func lineBag(data []byte) map[string]int {
	bag := make(map[string]int)
	for line := range bytes.Lines(data) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		bag[string(bytes.TrimSuffix(line, []byte("\r")))]++
	}
	return bag
}

func commonLines(a, b map[string]int) int {
	n := 0
	for line, count := range a {
		n += min(count, b[line])
	}
	return n
}

func countLines(data []byte) int {
	n := bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		n++
	}
	return n
}
