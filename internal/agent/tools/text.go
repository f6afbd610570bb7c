package tools

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"
)

// text is the content of a file. Edits are looked up in its plain form, which has no byte order mark and
// LF for every CRLF. Offsets are those of plain.
type text struct {
	bom   bool
	plain string
	crlf  []int32 // the LFs that are CRLF in the file, in order
}

// span is a piece of plain and what replaces it.
type span struct {
	from, to int
	put      string
	edit     int // index of the edit it is of
}

func newText(data []byte) *text {
	t := &text{}
	data, t.bom = bytes.CutPrefix(data, []byte(bom))
	n := bytes.Count(data, []byte("\r\n"))
	if n == 0 {
		t.plain = string(data)
		return t
	}
	var b strings.Builder
	b.Grow(len(data) - n)
	t.crlf = make([]int32, 0, n)
	for {
		before, after, found := bytes.Cut(data, []byte("\r\n"))
		b.Write(before)
		if !found {
			break
		}
		t.crlf = append(t.crlf, int32(b.Len()))
		b.WriteByte('\n')
		data = after
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

// locate returns the spans of edits, sorted, or an error for every edit that cannot be made.
func (t *text) locate(ctx context.Context, edits []replacement) ([]span, error) {
	var spans []span
	var problems []string
	for i, e := range edits {
		found, err := t.places(ctx, e)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && len(edits) > 1:
			problems = append(problems, fmt.Sprintf("edits[%d]: %s", i, reason(err)))
			continue
		case err != nil:
			return nil, err
		}
		old, put := t.normal(e.OldText), t.normal(e.NewText)
		for _, at := range found {
			spans = append(spans, span{from: at, to: at + len(old), put: put, edit: i})
		}
		if len(spans) > maxPlaces {
			return nil, failed("more than %d places would change. Use a longer oldText, or several calls.", maxPlaces)
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(spans) && len(problems) < maxEdits; i++ {
		if a, b := spans[i-1], spans[i]; b.from < a.to {
			problems = append(problems, fmt.Sprintf("edits[%d] and edits[%d] overlap at line %d. Make one edit of the two.", min(a.edit, b.edit), max(a.edit, b.edit), t.line(b.from)))
		}
	}
	if len(problems) > 0 {
		return nil, failed("%s", strings.Join(problems, "\n"))
	}
	return spans, nil
}

// places returns where an edit applies: at one place, or everywhere with all.
func (t *text) places(ctx context.Context, e replacement) ([]int, error) {
	old, put := t.normal(e.OldText), t.normal(e.NewText)
	switch {
	case old == "":
		return nil, failed("oldText is empty. Give the text to replace. To insert lines, give a line beside them as oldText and all of them as newText; to write the whole file use write.")
	case old == put:
		return nil, failed("oldText and newText are the same, so nothing would change.")
	}
	step := 1 // so that overlapping places count as two
	if e.All {
		step = len(old)
	}
	var found []int
	for at := 0; len(found) <= maxPlaces; at += step {
		i := strings.Index(t.plain[at:], old)
		if i < 0 {
			break
		}
		at += i
		found = append(found, at)
	}
	switch {
	case len(found) == 0:
		return nil, t.absent(ctx, old, put)
	case len(found) == 1 || e.All:
		return found, nil
	}
	var lines []string
	for _, at := range found[:min(len(found), 10)] {
		lines = append(lines, strconv.Itoa(t.line(at)))
	}
	if len(found) > len(lines) {
		lines = append(lines, "…")
	}
	return nil, failed("oldText is in the file %s times, at lines %s. Add the lines before or after it until it is unique, or set all to replace every one.",
		count(min(len(found), maxPlaces), len(found) > maxPlaces), strings.Join(lines, ", "))
}

// size returns how many bytes the text has after spans, or a few more.
func (t *text) size(spans []span) int {
	size := len(t.plain) + len(t.crlf) + len(bom)
	for _, s := range spans {
		size += len(s.put) - (s.to - s.from)
		if len(t.crlf) > 0 {
			size += strings.Count(s.put, "\n")
		}
	}
	return size
}

// apply returns the content of the file with spans, which are sorted, replaced.
func (t *text) apply(spans []span) []byte {
	var b bytes.Buffer
	b.Grow(t.size(spans))
	if t.bom {
		b.WriteString(bom)
	}
	at, crlf := 0, t.crlf
	keep := func(to int) {
		for len(crlf) > 0 && int(crlf[0]) < to {
			b.WriteString(t.plain[at:crlf[0]])
			b.WriteString("\r\n")
			at, crlf = int(crlf[0])+1, crlf[1:]
		}
		b.WriteString(t.plain[at:to])
		at = to
	}
	for _, s := range spans {
		// What old and new have in common at both ends stays, with its line endings.
		for s.from < s.to && s.put != "" && t.plain[s.from] == s.put[0] {
			s.from, s.put = s.from+1, s.put[1:]
		}
		for s.from < s.to && s.put != "" && t.plain[s.to-1] == s.put[len(s.put)-1] {
			s.to, s.put = s.to-1, s.put[:len(s.put)-1]
		}
		keep(s.from)
		ending := t.endings(s)
		for n := 0; ; n++ {
			line, rest, more := strings.Cut(s.put, "\n")
			b.WriteString(line)
			if !more {
				break
			}
			b.WriteString(ending(n))
			s.put = rest
		}
		at = s.to
		for len(crlf) > 0 && int(crlf[0]) < s.to {
			crlf = crlf[1:]
		}
	}
	keep(len(t.plain))
	return b.Bytes()
}

// endings returns how the lines end that replace a span: the nth as the nth there did, further ones as
// the last there, or, where none ended, as the line before or else as the first of the file.
func (t *text) endings(s span) func(n int) string {
	i, _ := slices.BinarySearch(t.crlf, int32(s.from))
	crlf := t.crlf[i:]
	at, old := s.from, false
	if i > 0 || len(t.crlf) > 0 {
		before := strings.LastIndexByte(t.plain[:s.from], '\n')
		if before < 0 {
			before = strings.IndexByte(t.plain, '\n')
		}
		_, old = slices.BinarySearch(t.crlf, int32(before))
	}
	return func(int) string {
		if i := strings.IndexByte(t.plain[at:s.to], '\n'); i >= 0 {
			at += i
			old = len(crlf) > 0 && int(crlf[0]) == at
			if old {
				crlf = crlf[1:]
			}
			at++
		}
		if old {
			return "\r\n"
		}
		return "\n"
	}
}

// line is the number, from 1, of the line at an offset.
func (t *text) line(at int) int { return strings.Count(t.plain[:at], "\n") + 1 }

// lines prints the lines from to, at most 12 of them and 200 bytes of each.
func (t *text) lines(from, to int) string {
	var b strings.Builder
	n := 0
	for l := range strings.Lines(t.plain) {
		if n++; n > to {
			break
		}
		switch {
		case n < from || to-from >= 12 && n > from+6 && n < to-5:
		case to-from >= 12 && n == from+6:
			b.WriteString("…\n")
		default:
			fmt.Fprintf(&b, "%d\t%s\n", n, cut(strings.TrimSuffix(l, "\n"), 200))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func lineRange(from, to int) string {
	if from == to {
		return fmt.Sprintf("line %d", from)
	}
	return fmt.Sprintf("lines %d-%d", from, to)
}

// around shows what the spans have become, t being the text after them.
func (t *text) around(spans []span, room int) string {
	if t.plain == "" {
		return "; it is empty now"
	}
	var b strings.Builder
	shift := 0
	for i, s := range spans {
		from := min(s.from+shift, len(t.plain)-1)
		to := min(max(from, from+len(s.put)-1), len(t.plain)-1)
		shift += len(s.put) - (s.to - s.from)
		first, last := t.line(from), t.line(to)
		text := fmt.Sprintf("\nnow at %s:\n%s", lineRange(first, last), t.lines(max(1, first-2), last+2))
		if i == 8 || b.Len()+len(text) > room {
			fmt.Fprintf(&b, "\n[and %d more places, from line %d on]", len(spans)-i, first)
			break
		}
		b.WriteString(text)
	}
	return b.String()
}

// alike are ways in which a text may differ from what a model remembers, the least first.
var alike = []struct {
	other string
	fold  func(string) string
}{
	{"other spaces at the ends of lines", func(l string) string { return strings.TrimRight(l, " \t\r") }},
	{"other indentation", strings.TrimSpace},
	{"other white space", func(l string) string { return strings.Join(strings.Fields(l), "") }},
	{"other upper and lower case, quotation marks or dashes", func(l string) string {
		return strings.ToLower(strings.Join(strings.Fields(typewriter.Replace(l)), ""))
	}},
}

var typewriter = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "‘", "'", "’", "'", "–", "-", "—", "-", "−", "-", "…", "...")

// absent explains that old is nowhere, and shows what is nearest.
func (t *text) absent(ctx context.Context, old, put string) error {
	trimmed, broken := strings.CutSuffix(old, "\n")
	want := strings.Split(trimmed, "\n")
	switch {
	case t.plain == "":
		return failed("the file is empty, so oldText is not in it. Use write.")
	case numbered(want):
		return failed("oldText is not in the file: its lines begin with the numbers that read prints. Leave out number and tab.")
	case broken && strings.HasSuffix(t.plain, trimmed):
		return failed("oldText ends in a line break, but the file ends there without one. Leave out the line break at the end of oldText.")
	}
	for _, way := range alike {
		if n := t.window(ctx, want, way.fold); n > 0 {
			last := n + len(want) - 1
			return failed("oldText is in the file only with %s, at %s:\n%s\nUse the text exactly as it is there.", way.other, lineRange(n, last), t.lines(n, last))
		}
	}
	if at := strings.Index(t.plain, put); at >= 0 && len(put) > 3 {
		return failed("oldText is not in the file, but newText is, at line %d: perhaps this edit was made already.", t.line(at))
	}
	if n := t.nearest(want); n > 0 {
		return failed("oldText is not in the file. The nearest is at line %d:\n%s\nUse the text exactly as it is; read shows it.", n, t.lines(max(1, n-1), n+len(want)))
	}
	return failed("oldText is not in the file, nor is anything like it. Read the file, and use its text exactly as it is.")
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

// window returns the number of the line from which on the lines want follow each other, each the same
// after fold; 0 if there is none, or none in the time that is spent on it.
func (t *text) window(ctx context.Context, want []string, fold func(string) string) int {
	folded := make([]string, len(want))
	blank := true
	for i, l := range want {
		folded[i] = fold(l)
		blank = blank && folded[i] == ""
	}
	if blank {
		return 0
	}
	compared := 0
	for n, rest := 1, t.plain; rest != "" && compared < maxCompared && ctx.Err() == nil; n++ {
		at := rest
		i := 0
		for ; i < len(folded) && (at != "" || i == 0); i++ {
			var l string
			l, at, _ = strings.Cut(at, "\n")
			if compared++; fold(l) != folded[i] {
				break
			}
		}
		if i == len(folded) {
			return n
		}
		_, rest, _ = strings.Cut(rest, "\n")
	}
	return 0
}

// nearest returns the number of the line from which on most lines of want are, or else of the line that
// is most like the first of them; 0 if none is.
func (t *text) nearest(want []string) int {
	index := make(map[string][]int)
	first := ""
	for i, l := range want[:min(len(want), 50)] {
		if l = strings.TrimSpace(l); strings.IndexFunc(l, unicode.IsLetter) >= 0 {
			index[l] = append(index[l], i)
		}
		if first == "" {
			first = cut(l, 200)
		}
	}
	votes := make(map[int]int)
	best, n := 0, 0
	like, least, tries := 0, (len(first)+1)/2, 0
	for l := range strings.Lines(t.plain) {
		if n++; n > maxCompared {
			break
		}
		l = strings.TrimSpace(l)
		for _, i := range index[l] {
			if start := max(1, n-i); len(votes) < maxPlaces {
				if votes[start]++; votes[start] > votes[best] {
					best = start
				}
			}
		}
		if tries < 3000 && len(l) <= 2*len(first) && 2*len(l) >= len(first) && l != "" {
			tries++
			if d := levenshtein.ComputeDistance(l, first); d < least {
				like, least = n, d
			}
		}
	}
	return cmp.Or(best, like)
}
