package gitstate

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// Diff is the change from one commit to another.
type Diff struct {
	Base, Candidate OID
	Tree            OID    // of Candidate
	SHA256          string // diffSha256
	Changes         []Change
	Stat            schemas.DiffStat
	Bytes           int64 // length of the patch, a binary file counted at the size of its new blob instead
}

// Change is one changed path. An absent side has mode "000000" and a zero object id.
type Change struct {
	OldMode, NewMode string // six octal digits
	OldID, NewID     OID
	Status           byte   // A, M, D or T
	Path             string // bytes, maybe not UTF-8
	Added, Deleted   int    // lines, 0 for a binary file
	Binary           bool   // either side has a NUL in its first 8000 bytes, whatever attributes say
}

// Diff compares two commits. SHA256 is over the very bytes that
//
//	git --no-replace-objects diff-tree -r -z --full-index --no-renames --ignore-submodules=none <base> <candidate>
//
// prints. Nothing in the result depends on the user's configuration, attributes, diff drivers or replace
// refs, but for the length of hunk headers where $GIT_DIR/info/attributes names a driver.
func (l *Ledger) Diff(ctx context.Context, base, candidate OID) (*Diff, error) {
	var raw bytes.Buffer
	d, err := l.hash(ctx, base, candidate, &raw)
	if err != nil {
		return nil, err
	}
	if d.Changes, err = parseRaw(raw.Bytes()); err != nil {
		return nil, err
	}
	newSizes := make([]int64, len(d.Changes))
	for i := range d.Changes {
		if newSizes[i], err = l.judgeBinary(ctx, &d.Changes[i]); err != nil {
			return nil, err
		}
	}
	if len(d.Changes) > 0 {
		if err := l.measure(ctx, d, newSizes); err != nil {
			return nil, err
		}
	}
	d.Stat.Files = len(d.Changes)
	for _, c := range d.Changes {
		d.Stat.Added += c.Added
		d.Stat.Deleted += c.Deleted
	}
	return d, nil
}

// DiffHash is Diff without Changes, Stat and Bytes. It reads no blob.
func (l *Ledger) DiffHash(ctx context.Context, base, candidate OID) (*Diff, error) {
	return l.hash(ctx, base, candidate, io.Discard)
}

// hash is DiffHash, with what is hashed going to raw as well.
func (l *Ledger) hash(ctx context.Context, base, candidate OID, raw io.Writer) (*Diff, error) {
	c, err := l.store.Commit(ctx, candidate)
	if err != nil {
		return nil, fmt.Errorf("candidate %s: %w", candidate, err)
	}
	hash := sha256.New()
	if err := l.repo.Stream(ctx, l.diffTree(base, candidate, "-z"), io.MultiWriter(hash, raw)); err != nil {
		return nil, err
	}
	return &Diff{Base: base, Candidate: candidate, Tree: c.Tree, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// diffTree is a diff-tree that sees no attributes: none of a checkout, because there is none, none of an
// index, because it does not exist, none of the user's. GIT_ATTR_SOURCE says so to the versions of git
// that would look into HEAD, the others do not know it.
func (l *Ledger) diffTree(base, candidate OID, flags ...string) gitexec.Call {
	args := append([]string{"diff-tree", "-r"}, flags...)
	args = append(args, "--full-index", "--no-renames", "--ignore-submodules=none", "--end-of-options", string(base), string(candidate))
	return gitexec.Call{
		Args:  args,
		Index: filepath.Join(l.repo.CommonDir, "spot", "no-index"),
		Config: []string{
			"core.attributesFile=/dev/null", "core.quotePath=true",
			"diff.suppressBlankEmpty=false", "diff.indentHeuristic=true",
		},
		Env: []string{"GIT_ATTR_NOSYSTEM=1", "GIT_ATTR_SOURCE=" + emptyTree(l.repo.ObjectFormat)},
	}
}

func emptyTree(format string) string {
	if format == "sha256" {
		return "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
	}
	return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
}

const (
	modeAbsent  = "000000"
	modeGitlink = "160000"
)

// parseRaw reads the output of diff-tree -z.
func parseRaw(raw []byte) ([]Change, error) {
	var changes []Change
	for len(raw) > 0 {
		meta, rest, ok := bytes.Cut(raw, []byte{0})
		if !ok {
			return nil, fmt.Errorf("diff-tree: the last record is cut")
		}
		path, rest, ok := bytes.Cut(rest, []byte{0})
		if !ok || len(path) == 0 {
			return nil, fmt.Errorf("diff-tree: %q has no path", meta)
		}
		c, err := parseRawMeta(string(meta))
		if err != nil {
			return nil, err
		}
		c.Path = string(path)
		changes, raw = append(changes, c), rest
	}
	return changes, nil
}

// parseRawMeta reads ":<old mode> <new mode> <old id> <new id> <status>".
func parseRawMeta(meta string) (c Change, err error) {
	fields := strings.Split(strings.TrimPrefix(meta, ":"), " ")
	if !strings.HasPrefix(meta, ":") || len(fields) != 5 || len(fields[4]) != 1 || !strings.Contains("AMDT", fields[4]) {
		return Change{}, fmt.Errorf("diff-tree: %q is no record", meta)
	}
	for _, mode := range fields[:2] {
		if len(mode) != 6 || strings.Trim(mode, "01234567") != "" {
			return Change{}, fmt.Errorf("diff-tree: %q is no mode", mode)
		}
	}
	c = Change{OldMode: fields[0], NewMode: fields[1], Status: fields[4][0]}
	if c.OldID, err = ParseOID(fields[2]); err != nil {
		return Change{}, fmt.Errorf("diff-tree: %w", err)
	}
	if c.NewID, err = ParseOID(fields[3]); err != nil {
		return Change{}, fmt.Errorf("diff-tree: %w", err)
	}
	return c, nil
}

// judgeBinary sets c.Binary by git's own rule for a file without attributes and returns the size of the
// new blob in bytes.
func (l *Ledger) judgeBinary(ctx context.Context, c *Change) (newSize int64, err error) {
	for _, side := range []struct {
		mode string
		id   OID
		size *int64
	}{{c.OldMode, c.OldID, new(int64)}, {c.NewMode, c.NewID, &newSize}} {
		if side.mode == modeAbsent || side.mode == modeGitlink {
			continue
		}
		data, err := l.store.Blob(ctx, side.id)
		if large, ok := errors.AsType[*TooLargeError](err); ok {
			c.Binary, *side.size = true, large.Size
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("blob %s of %q: %w", side.id, c.Path, err)
		}
		*side.size = int64(len(data))
		c.Binary = c.Binary || bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0
	}
	return newSize, nil
}

// measure counts lines and bytes in the patch, in which every file is taken for text.
func (l *Ledger) measure(ctx context.Context, d *Diff, newSizes []int64) error {
	m := &patchMeter{}
	call := l.diffTree(d.Base, d.Candidate, "-p", "--text", "--no-ext-diff", "--no-textconv", "--no-color",
		"--unified=3", "--inter-hunk-context=0", "--diff-algorithm=myers", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short")
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := m.read(reader)
		done <- err
		_ = reader.CloseWithError(err) // git must not wait for a reader that is gone
	}()
	err := l.repo.Stream(ctx, call, writer)
	_ = writer.CloseWithError(err) // always nil
	if readErr := <-done; err == nil {
		err = readErr
	}
	if err != nil {
		return err
	}
	sections := m.sections
	for i := range d.Changes {
		c := &d.Changes[i]
		n := 1
		if c.Status == 'T' {
			n = 2 // The patch deletes one kind of file and creates the other.
		}
		if len(sections) < n {
			return fmt.Errorf("diff-tree: the patch lacks %q", c.Path)
		}
		if c.Binary {
			d.Bytes += newSizes[i]
		} else {
			for _, s := range sections[:n] {
				d.Bytes += s.bytes
				c.Added += s.added
				c.Deleted += s.deleted
			}
		}
		sections = sections[n:]
	}
	if len(sections) > 0 {
		return fmt.Errorf("diff-tree: the patch has more files than the change")
	}
	return nil
}

// patchMeter counts what a patch has for each file, in the order of the patch.
type patchMeter struct {
	sections []patchSection
}

type patchSection struct {
	bytes          int64
	added, deleted int
}

// read reads a patch in constant memory. A line of content begins with a space, "+", "-" or "\", so a line
// that begins with "diff --git " begins a file; path names in it are quoted and have no line breaks.
func (m *patchMeter) read(r io.Reader) error {
	const start = "diff --git "
	in := bufio.NewReaderSize(r, 64<<10)
	hunks := false // past the header of the file
	for begin := true; ; {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 && begin {
			if bytes.HasPrefix(line, []byte(start)) {
				m.sections = append(m.sections, patchSection{})
				hunks = false
			}
			if len(m.sections) == 0 {
				return fmt.Errorf("diff-tree: the patch begins with %q", line[:min(len(line), 80)])
			}
			s := &m.sections[len(m.sections)-1]
			switch {
			case bytes.HasPrefix(line, []byte("@@ ")):
				hunks = true
			case hunks && line[0] == '+':
				s.added++
			case hunks && line[0] == '-':
				s.deleted++
			}
		}
		if len(line) > 0 {
			m.sections[len(m.sections)-1].bytes += int64(len(line))
			begin = line[len(line)-1] == '\n'
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}
