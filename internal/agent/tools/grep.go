package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

const (
	maxPattern  = 1000       // bytes
	maxSearched = 1 << 20    // bytes searched of one line
	maxSteps    = 20_000_000 // steps of the automaton for one line: a part of a second
	maxShown    = 400        // bytes shown of one line
)

type grepArguments struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
	IgnoreCase bool   `json:"ignoreCase"`
	Literal    bool   `json:"literal"`
	Context    int    `json:"context"`
	FilesOnly  bool   `json:"filesOnly"`
	Limit      int    `json:"limit"`
}

// search is one grep.
type search struct {
	set       *Set
	pattern   *regexp.Regexp
	text      *lines
	context   int
	filesOnly bool
	limit     int
	room      int

	out      strings.Builder
	found    int // lines, or files with filesOnly
	files    int // that were searched
	binary   int // that were not
	long     int // lines that were searched in part
	unopened int
	broken   bool // the next line printed does not follow the one before
}

func (s *Set) grep(ctx context.Context, in grepArguments, room int) (string, error) {
	limit, err := bounded("limit", in.Limit, 200, 2000)
	if err != nil {
		return "", err
	}
	around, err := bounded("context", in.Context, 0, 20)
	if err != nil {
		return "", err
	}
	pattern, searched, err := expression(in)
	if err != nil {
		return "", err
	}
	g := glob{pattern: "*"}
	if in.Glob != "" {
		if g, err = newGlob(in.Glob); err != nil {
			return "", err
		}
	}
	if in.Path == "" {
		in.Path = "."
	}
	p, err := s.lookup(in.Path)
	if err != nil {
		return "", err
	}

	job := search{set: s, pattern: pattern, text: newLines(searched), context: around, filesOnly: in.FilesOnly, limit: limit, room: room - roomForNotes}
	job.text.textOnly = true
	w := walk{set: s, hidden: g.hidden()}
	if p.info.IsDir() {
		w.visit = func(at string, e fs.DirEntry) error {
			if !e.Type().IsRegular() || !g.matches(p.path, at) {
				return nil
			}
			info, err := s.root.Lstat(at)
			if err != nil {
				job.unopened++
				return nil
			}
			return job.file(ctx, place{at, info})
		}
		err = w.from(ctx, p.path)
	} else {
		if err := regular(p, p.info); err != nil {
			return "", err
		}
		err = job.file(ctx, p)
	}
	return job.finish(err, &w)
}

// expression compiles the pattern, and says how much of a line to search so that it cannot take long: a
// regular expression takes at most as many steps as the line has bytes times what it has instructions.
func expression(in grepArguments) (pattern *regexp.Regexp, searched int, err error) {
	text := in.Pattern
	switch {
	case text == "":
		return nil, 0, failed("the pattern is empty. To list files use find.")
	case len(text) > maxPattern:
		return nil, 0, failed("the pattern is %d bytes long and at most %d can be searched for. Use a shorter part of it.", len(text), maxPattern)
	case strings.Contains(text, "\n"):
		return nil, 0, failed("the pattern has a line break in it, and lines are searched one by one. Search for one of the lines; context shows what is around it.")
	}
	if in.Literal {
		text = regexp.QuoteMeta(text)
	}
	if in.IgnoreCase {
		text = "(?i:" + text + ")"
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err == nil {
		pattern, err = regexp.Compile(text)
	}
	if err != nil {
		return nil, 0, failed("%s is not a regular expression: %s. The syntax is RE2: no lookaround, no backreferences. To search for plain text set literal.", show(in.Pattern), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, 0, err
	}
	return pattern, min(maxSearched, maxSteps/len(program.Inst)), nil
}

// file searches one file.
func (j *search) file(ctx context.Context, p place) (err error) {
	f, err := j.set.open(p)
	if err != nil {
		j.unopened++
		return nil
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text := j.text
	if err := text.begin(f); err != nil {
		j.unopened++
		return nil
	}
	if text.binary {
		j.binary++
		return nil
	}
	j.files++
	j.broken = true
	var before []string // the last lines that were not printed
	after := 0          // lines still to print
	for number := 1; ; number++ {
		l, err := text.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			j.unopened++
			return nil
		case l.nul: // binary after all
			j.binary++
			return nil
		}
		if l.cut() {
			j.long++
		}
		at := j.pattern.FindIndex(l.text)
		if at == nil {
			if j.context == 0 {
				continue
			}
			shown := clip(l.text, [2]int{})
			if after > 0 {
				after--
				if err := j.print(p, number, '-', shown); err != nil {
					return err
				}
				continue
			}
			if before = append(before, shown); len(before) > j.context {
				before = before[1:]
				j.broken = true
			}
			continue
		}
		if j.found >= j.limit {
			return errEnough
		}
		if j.filesOnly {
			if err := j.write(whole(p.path) + "\n"); err != nil {
				return err
			}
			j.found++
			return nil
		}
		if j.broken && j.context > 0 && j.out.Len() > 0 {
			if err := j.write("--\n"); err != nil {
				return err
			}
		}
		for i, shown := range before {
			if err := j.print(p, number-len(before)+i, '-', shown); err != nil {
				return err
			}
		}
		if err := j.print(p, number, ':', clip(l.text, [2]int(at))); err != nil {
			return err
		}
		j.found++
		j.broken, before, after = false, nil, j.context
	}
}

func (j *search) print(p place, number int, mark byte, text string) error {
	return j.write(whole(p.path) + string(mark) + strconv.Itoa(number) + string(mark) + " " + text + "\n")
}

func (j *search) write(text string) error {
	if j.out.Len()+len(text) > j.room {
		return errEnough
	}
	j.out.WriteString(text)
	return nil
}

// finish says how complete the answer is.
func (j *search) finish(err error, w *walk) (string, error) {
	what := "line"
	if j.filesOnly {
		what = "file"
	}
	var notes []string
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		notes = append(notes, fmt.Sprintf("stopped after %v and %s: search a folder further down or use glob", maxTime, plural(j.files, "file")))
	case errors.Is(err, errEnough):
		notes = append(notes, "the first "+plural(j.found, what)+"; there are more: use a narrower pattern, path or glob, or a higher limit")
	case err != nil:
		return "", err
	case j.found == 0:
		notes = append(notes, fmt.Sprintf("no match in %s%s", plural(j.files, "file"), w.note("glob")))
	case w.partial:
		notes = append(notes, strings.TrimPrefix(w.note("glob"), "; "))
	}
	if j.binary > 0 && (j.found == 0 || j.files == 0) {
		notes = append(notes, "skipped "+plural(j.binary, "binary file"))
	}
	if j.long > 0 {
		notes = append(notes, fmt.Sprintf("of %s only the first %d bytes were searched", plural(j.long, "long line"), j.text.keep))
	}
	if j.unopened > 0 {
		notes = append(notes, fmt.Sprintf("could not read %s", plural(j.unopened, "file")))
	}
	if len(notes) > 0 {
		j.out.WriteString("[" + strings.Join(notes, ". ") + "]")
	}
	return j.out.String(), nil
}

// clip is the part of a line around a match that is shown.
func clip(text []byte, match [2]int) string {
	from, to := 0, len(text)
	if to > maxShown {
		from = max(0, min(match[0]-maxShown/4, to-maxShown))
		to = from + maxShown
	}
	shown := strings.ToValidUTF8(string(text[from:to]), "\uFFFD")
	if from > 0 {
		shown = "…" + strings.TrimLeft(shown, "\uFFFD")
	}
	if to < len(text) {
		shown = strings.TrimRight(shown, "\uFFFD") + "…"
	}
	return shown
}
