package tools

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"
)

const (
	maxEdits = 100
	maxPlace = 2000 // places of one edit with all that are remembered for the answer
)

type editArguments struct {
	Path   string        `json:"path"`
	Edits  []replacement `json:"edits"`
	MoveTo string        `json:"moveTo"`
}

type replacement struct {
	OldText string `json:"oldText"`
	NewText string `json:"newText"`
	All     bool   `json:"all"`
}

func (s *Set) edit(ctx context.Context, in editArguments, room int) (string, error) {
	if len(in.Edits) == 0 && in.MoveTo == "" {
		return "", failed("there is nothing to do. Give edits, each with oldText and newText, or moveTo.")
	}
	if len(in.Edits) > maxEdits {
		return "", failed("these are %d edits and at most %d are made in one call. Use several calls.", len(in.Edits), maxEdits)
	}
	p, err := s.target(in.Path)
	switch {
	case err != nil:
		return "", err
	case p.info == nil:
		if _, err := s.lookup(in.Path); err != nil {
			return "", failed("%s To create a file use write.", reason(err))
		}
		return "", failed("there is no %s. To create a file use write.", show(in.Path))
	case p.info.Mode().Type() == fs.ModeSymlink:
		return "", s.throughLink(in.Path, p.path, "")
	}
	to := p
	if in.MoveTo != "" {
		if to, err = s.moveTarget(p, in.MoveTo); err != nil {
			return "", err
		}
	}
	if len(in.Edits) == 0 {
		return s.move(ctx, p, to)
	}

	data, err := s.load(p, "edited")
	switch {
	case err != nil:
		return "", err
	case data == nil:
		return "", failed("%s has %d bytes, and edit takes files of at most %d.", show(p.path), p.info.Size(), maxFile)
	case bytes.IndexByte(data, 0) >= 0:
		return "", notText(p, data[:min(len(data), 512)])
	}
	t := newText(data)
	var spans []span
	for i, e := range in.Edits {
		found, err := t.locate(ctx, e)
		if err != nil {
			return "", which(i, len(in.Edits), err)
		}
		for _, at := range found {
			spans = append(spans, span{at, at + len(t.normal(e.OldText)), t.normal(e.NewText), i})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(spans); i++ {
		if a, b := spans[i-1], spans[i]; b.from < a.to {
			return "", failed("edits[%d] and edits[%d] overlap at line %d of %s. Nothing was changed. Make one edit of the two.", min(a.edit, b.edit), max(a.edit, b.edit), t.line(b.from), show(p.path))
		}
	}
	size := len(data)
	for _, sp := range spans {
		size += 2*len(sp.text) - (sp.to - sp.from) // twice: line breaks may become CRLF
	}
	if size > 2*maxFile {
		return "", failed("%s would become too large; at most %d bytes are possible. Nothing was changed.", show(p.path), maxFile)
	}
	changed := t.apply(spans)
	if len(changed) > maxFile {
		return "", failed("%s would have %d bytes, and at most %d are possible. Nothing was changed.", show(p.path), len(changed), maxFile)
	}
	perm := p.info.Mode().Perm()
	if err := s.save(to.path, changed, &perm); err != nil {
		return "", err
	}
	text := fmt.Sprintf("edited %s", show(p.path))
	if to.path != p.path {
		if err := s.root.Remove(p.path); err != nil {
			return "", failed("%s was written, but %s could not be removed: %v.", show(to.path), show(p.path), err)
		}
		text = fmt.Sprintf("edited %s and moved it to %s", show(p.path), show(to.path))
	}
	return text + newText(changed).around(spans, room-len(text)-roomForBy), nil
}

func which(i, n int, err error) error {
	if n == 1 {
		return err
	}
	return failed("edits[%d]: %s Nothing was changed, by the other edits neither.", i, reason(err))
}

// moveTarget checks where p is to go.
func (s *Set) moveTarget(p place, name string) (place, error) {
	to, err := s.target(name)
	switch {
	case err != nil:
		return place{}, err
	case to.path == p.path:
		return place{}, failed("%s is where it is already. Leave moveTo out.", show(p.path))
	case to.info != nil:
		hint := "Choose another path, or delete that first."
		if to.info.IsDir() {
			hint = fmt.Sprintf("To move it into that folder, give the whole new path, such as %s.", show(join(to.path, p.path[strings.LastIndexByte(p.path, '/')+1:])))
		}
		return place{}, failed("there is something at %s already. %s", show(to.path), hint)
	case strings.HasPrefix(to.path, p.path+"/"):
		return place{}, failed("%s cannot be moved into itself.", show(p.path))
	}
	return to, nil
}

// move renames a file or a folder.
func (s *Set) move(ctx context.Context, p, to place) (string, error) {
	if p.info.IsDir() {
		if err := s.movable(ctx, p.path, 0); err != nil {
			return "", err
		}
	} else if err := regular(p, p.info); err != nil {
		return "", err
	}
	if i := strings.LastIndexByte(to.path, '/'); i > 0 {
		if err := s.root.MkdirAll(to.path[:i], 0o777); err != nil {
			return "", folders(to.path, err)
		}
	}
	if err := s.root.Rename(p.path, to.path); err != nil {
		return "", err
	}
	s.changed.Store(true)
	return fmt.Sprintf("moved %s to %s", show(p.path), show(to.path)), nil
}

// movable refuses a folder with a repository in it.
func (s *Set) movable(ctx context.Context, folder string, depth int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d, err := s.root.Open(folder)
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(maxEntries + 1)
	_ = d.Close() // it was only read
	if len(entries) > maxEntries || depth > maxDepth {
		return failed("%s is too large to be moved in one go. Move what is in it.", show(folder))
	}
	if len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if dotGit(e.Name()) {
			return denied("there is a repository in %s, and what is git's own is not moved.", show(folder))
		}
		if e.IsDir() {
			if err := s.movable(ctx, join(folder, e.Name()), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// span is a piece of a text to replace, in its normal form.
type span struct {
	from, to int
	text     string
	edit     int
}

// text is the content of a file. Its normal form, in which edits are looked up, is without a byte order
// mark and with LF for every CRLF.
type text struct {
	bom   bool
	plain string
	crlf  []int // offsets in plain of the LFs that are CRLF in the file
	start []int // offsets in plain of the lines
}

func newText(data []byte) *text {
	t := &text{}
	data, t.bom = bytes.CutPrefix(data, []byte(bom))
	var b strings.Builder
	b.Grow(len(data))
	for l := range bytes.SplitAfterSeq(data, []byte("\n")) {
		t.start = append(t.start, b.Len())
		if rest, ok := bytes.CutSuffix(l, []byte("\r\n")); ok {
			b.Write(rest)
			t.crlf = append(t.crlf, b.Len())
			b.WriteByte('\n')
		} else {
			b.Write(l)
		}
	}
	if n := len(t.start); n > 1 && t.start[n-1] == b.Len() {
		t.start = t.start[:n-1]
	}
	t.plain = b.String()
	return t
}

// normal is what a model sent in the form of plain.
func (t *text) normal(sent string) string {
	if t.bom {
		sent = strings.TrimPrefix(sent, bom)
	}
	return strings.ReplaceAll(sent, "\r\n", "\n")
}

// line is the number of the line at an offset, from 1.
func (t *text) line(at int) int {
	i, found := slices.BinarySearch(t.start, at)
	if found {
		i++
	}
	return i
}

// lines returns the line with number n, from 1.
func (t *text) at(n int) string {
	end := len(t.plain)
	if n < len(t.start) {
		end = t.start[n]
	}
	return strings.TrimSuffix(t.plain[t.start[n-1]:end], "\n")
}

// isCRLF reports whether the LF at an offset is a CRLF in the file.
func (t *text) isCRLF(at int) bool {
	_, yes := slices.BinarySearch(t.crlf, at)
	return yes
}

// endings returns how lines end that are put in place of plain[from:to]: the nth as the nth there did,
// the others as the last there, or as the line before, or the first in the file.
func (t *text) endings(from, to int) func(n int) string {
	var old []bool
	for at := from; at < to; at++ {
		i := strings.IndexByte(t.plain[at:to], '\n')
		if i < 0 {
			break
		}
		at += i
		old = append(old, t.isCRLF(at))
	}
	if len(old) == 0 {
		at := strings.LastIndexByte(t.plain[:from], '\n')
		if at < 0 {
			at = strings.IndexByte(t.plain, '\n')
		}
		old = []bool{at >= 0 && t.isCRLF(at)}
	}
	return func(n int) string {
		if old[min(n, len(old)-1)] {
			return "\r\n"
		}
		return "\n"
	}
}

// apply returns the file's content with the spans, which are sorted, replaced.
func (t *text) apply(spans []span) []byte {
	var b bytes.Buffer
	if t.bom {
		b.WriteString(bom)
	}
	at, crlf := 0, t.crlf
	keep := func(to int) {
		for len(crlf) > 0 && crlf[0] < to {
			b.WriteString(t.plain[at:crlf[0]])
			b.WriteString("\r\n")
			at, crlf = crlf[0]+1, crlf[1:]
		}
		b.WriteString(t.plain[at:to])
		at = to
	}
	for _, s := range spans {
		// What the two have in common at both ends stays, with its line endings.
		from, to, put := s.from, s.to, s.text
		for from < to && put != "" && t.plain[from] == put[0] {
			from, put = from+1, put[1:]
		}
		for from < to && put != "" && t.plain[to-1] == put[len(put)-1] {
			to, put = to-1, put[:len(put)-1]
		}
		keep(from)
		ending := t.endings(from, to)
		for n := 0; ; n++ {
			line, rest, more := strings.Cut(put, "\n")
			b.WriteString(line)
			if !more {
				break
			}
			b.WriteString(ending(n))
			put = rest
		}
		at = to
		for len(crlf) > 0 && crlf[0] < to {
			crlf = crlf[1:]
		}
	}
	keep(len(t.plain))
	return b.Bytes()
}

// locate returns where an edit applies: once, or everywhere with all.
func (t *text) locate(ctx context.Context, e replacement) ([]int, error) {
	old, put := t.normal(e.OldText), t.normal(e.NewText)
	switch {
	case old == "":
		return nil, failed("oldText is empty. Give the text to replace; to insert, give the line before as oldText and the same line with the new ones as newText; to write the whole file use write.")
	case old == put:
		return nil, failed("oldText and newText are the same, so nothing would change.")
	}
	var found []int
	for at := 0; ; {
		i := strings.Index(t.plain[at:], old)
		if i < 0 {
			break
		}
		found = append(found, at+i)
		at += i + 1
		if e.All {
			at += len(old) - 1
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	switch {
	case len(found) == 0:
		return nil, t.absent(old, put)
	case len(found) > 1 && !e.All:
		var at []string
		for _, f := range found[:min(len(found), 10)] {
			at = append(at, strconv.Itoa(t.line(f)))
		}
		if len(found) > 10 {
			at = append(at, "…")
		}
		return nil, failed("oldText is there %d times, at lines %s. Add lines before or after it until it is unique, or set all to replace every one.", len(found), strings.Join(at, ", "))
	}
	return found, nil
}

// alike are ways in which a text may differ from what a model remembers, from the least to the most.
var alike = []struct {
	what string
	fold func(string) string
}{
	{"only in spaces at the ends of lines", func(l string) string { return strings.TrimRight(l, " \t\r") }},
	{"only in indentation", func(l string) string { return strings.TrimSpace(l) }},
	{"only in white space", func(l string) string { return strings.Join(strings.Fields(l), "") }},
	{"only in upper and lower case, quotation marks or dashes", func(l string) string {
		l = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "‘", "'", "’", "'", "–", "-", "—", "-", "−", "-", "…", "...", "\u00a0", " ").Replace(l)
		return strings.ToLower(strings.Join(strings.Fields(l), ""))
	}},
}

// absent explains that old is nowhere, and shows what is nearest.
func (t *text) absent(old, put string) error {
	want := strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	if numbered(want) {
		return failed("oldText is not in the file: its lines begin with the numbers that read prints. Leave out number and tab.")
	}
	for _, way := range alike {
		if n := t.window(want, way.fold); n > 0 {
			return failed("oldText is not in the file, but lines %d-%d differ from it %s. They are:\n%s", n, n+len(want)-1, way.what, t.excerpt(n, n+len(want)-1))
		}
	}
	if put != "" && strings.Contains(t.plain, put) {
		return failed("oldText is not in the file, but newText is, at line %d: perhaps this edit was made already.", t.line(strings.Index(t.plain, put)))
	}
	if n := t.nearest(want); n > 0 {
		return failed("oldText is not in the file. The nearest is at line %d:\n%s\nUse the text exactly as it is; read shows it.", n, t.excerpt(max(1, n-1), n+len(want)))
	}
	return failed("oldText is not in the file, and nothing like it. Read the file, and use its text exactly as it is.")
}

// numbered reports whether every line begins as read prints it.
func numbered(lines []string) bool {
	for _, l := range lines {
		number, _, tab := strings.Cut(l, "\t")
		if _, err := strconv.Atoi(strings.TrimSpace(number)); !tab || err != nil {
			return false
		}
	}
	return true
}

// window returns the first line at which the lines want follow each other, each the same after fold.
func (t *text) window(want []string, fold func(string) string) int {
	folded := make([]string, len(want))
	blank := true
	for i, l := range want {
		folded[i] = fold(l)
		blank = blank && folded[i] == ""
	}
	if blank {
		return 0
	}
	for n := 1; n+len(want)-1 <= len(t.start); n++ {
		same := true
		for i := 0; same && i < len(folded); i++ {
			same = fold(t.at(n+i)) == folded[i]
		}
		if same {
			return n
		}
	}
	return 0
}

// nearest returns the line where most lines of want are, or else the line most like the first of them.
func (t *text) nearest(want []string) int {
	index := make(map[string][]int)
	for i, l := range want[:min(len(want), 50)] {
		if l = strings.TrimSpace(l); strings.IndexFunc(l, unicode.IsLetter) >= 0 {
			index[l] = append(index[l], i)
		}
	}
	votes := make(map[int]int)
	best := 0
	for n := 1; n <= len(t.start); n++ {
		for _, i := range index[strings.TrimSpace(t.at(n))] {
			if first := max(1, n-i); len(votes) < 10_000 {
				if votes[first]++; votes[first] > votes[best] {
					best = first
				}
			}
		}
	}
	if best > 0 {
		return best
	}
	first := ""
	for _, l := range want {
		if first = strings.TrimSpace(l); first != "" {
			break
		}
	}
	first = cut(first, 200)
	least, tries := max(3, len(first)/2), 0
	for n := 1; n <= len(t.start) && tries < 5000; n++ {
		l := strings.TrimSpace(t.at(n))
		if len(l) > 2*len(first) || 2*len(l) < len(first) || l == "" {
			continue
		}
		tries++
		if d := levenshtein.ComputeDistance(l, first); d < least {
			best, least = n, d
		}
	}
	return best
}

// excerpt prints the lines from to, at most 30 and not their ends beyond 500 bytes.
func (t *text) excerpt(from, to int) string {
	to = min(to, len(t.start), from+29)
	var b strings.Builder
	for n := from; n <= to; n++ {
		fmt.Fprintf(&b, "%d\t%s\n", n, cut(t.at(n), 500))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// around shows the lines that the spans have become, t being the text after them.
func (t *text) around(spans []span, room int) string {
	var b strings.Builder
	shift := 0
	for i, s := range spans {
		from := s.from + shift
		shift += len(s.text) - (s.to - s.from)
		first := t.line(min(from, max(0, len(t.plain)-1)))
		last := t.line(min(max(from, from+len(s.text)-1), max(0, len(t.plain)-1)))
		if i > 0 && i == 8 {
			fmt.Fprintf(&b, "\n[and %d more places, the last at line %d]", len(spans)-i, t.line(spans[len(spans)-1].from))
			break
		}
		text := fmt.Sprintf("\nlines %d-%d are now:\n%s", first, last, t.excerpt(max(1, first-2), min(last+2, len(t.start))))
		if b.Len()+len(text) > room {
			fmt.Fprintf(&b, "\n[and %d more places]", len(spans)-i)
			break
		}
		b.WriteString(text)
	}
	return b.String()
}
