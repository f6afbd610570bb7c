package workers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
)

// This file is where the words of an untrusted program become stored text. Every string of it passes
// through clean: invalid UTF-8 and terminal sequences out, then secrets masked, then lengths bounded.
// In the log control characters are escaped as well and continuation lines are indented, so that no
// worker can write what looks like a record of ours.

const (
	maxLine    = 1 << 20   // bytes of one line of output that are read; the rest is dropped and counted
	maxText    = 64 << 10  // bytes of text that one event keeps
	maxWord    = 200       // bytes of a tool's name, a status or a session id
	maxMessage = 500       // bytes of Try.Message
	finalPart  = 128 << 10 // bytes of head and of tail of Final.Text
	stderrPart = 4 << 10   // bytes of Final.StderrTail
	maxTools   = 64        // tools whose errors are counted

	maxWarnings = 50
)

// recorder turns output into events, writes them, and sums up. Standard output and standard error call
// it from two goroutines.
type recorder struct {
	mu      sync.Mutex
	t       Turn
	redact  config.Redactor
	parser  Parser
	inv     Invocation
	stop    func(reason error)
	settled chan<- struct{} // nil once it is closed

	events, log *bounded

	usage     schemas.Usage
	steps     int
	failed    map[string]int // calls that went wrong, by tool
	session   string
	final     string
	hasFinal  bool
	text      *proc.Capture
	errTail   *proc.Capture
	warnings  []string
	oversized int64 // bytes of lines and texts that were cut
}

func newRecorder(t Turn, ready *prepared, stop func(error), settled chan<- struct{}) *recorder {
	return &recorder{
		t: t, redact: redactor(t), parser: ready.adapter.Parser(t.Profile), inv: ready.inv, stop: stop, settled: settled,
		events: newBounded(t.Events), log: newBounded(t.Log), failed: map[string]int{},
		text: proc.NewCapture(finalPart, finalPart), errTail: proc.NewCapture(0, stderrPart),
	}
}

// lines is a stream of the worker, cut into lines for read.
func (r *recorder) lines(read func(line []byte)) *proc.Lines {
	return proc.NewLines(maxLine, func(line []byte, dropped int64) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if dropped > 0 {
			// What is left of a key at the cut is not recognised as one, so it goes, too.
			cut := min(r.redact.Longest(), len(line))
			line = line[:len(line)-cut]
			dropped += int64(cut)
		}
		read(line)
		if dropped > 0 {
			r.drop(dropped)
		}
	})
}

func (r *recorder) stdout(line []byte) {
	for _, e := range r.parser.Stdout(line) {
		r.event(e)
	}
	r.settle()
}

func (r *recorder) stderr(line []byte) {
	r.event(schemas.Event{Type: schemas.EventStderr, Text: string(line)})
	for _, e := range r.parser.Stderr(line) {
		r.event(e)
	}
	r.settle()
}

func (r *recorder) settle() {
	if r.settled != nil && r.parser.Done() {
		close(r.settled)
		r.settled = nil
	}
}

// event accounts for one event and records it.
func (r *recorder) event(e schemas.Event) {
	e.Text = r.clean(e.Text)
	e.Name, e.Status, e.Session, e.Class = r.word(e.Name), r.word(e.Status), r.word(e.Session), r.word(e.Class)
	switch e.Type {
	case schemas.EventText:
		fmt.Fprintln(r.text, e.Text)
	case schemas.EventStderr:
		fmt.Fprintln(r.errTail, visible(e.Text))
	case schemas.EventFinal:
		r.final, r.hasFinal = e.Text, true
	case schemas.EventSession:
		r.session = e.Session
	case schemas.EventWarning:
		if len(r.warnings) < maxWarnings {
			r.warnings = append(r.warnings, r.message(e.Text))
		}
	case schemas.EventUsage:
		add(&r.usage, e.Usage)
		r.meter()
	case schemas.EventTool:
		r.steps++
		if _, known := r.failed[e.Name]; e.Status != "ok" && (known || len(r.failed) < maxTools) {
			r.failed[e.Name]++
		}
	}
	dropped := int64(0)
	if len(e.Text) > maxText {
		kept := strings.ToValidUTF8(e.Text[:maxText], "")
		dropped = int64(len(e.Text) - len(kept))
		e.Text = kept
	}
	r.write(e)
	if dropped > 0 {
		r.drop(dropped)
	}
	if e.Type == schemas.EventTool && !r.inv.OwnStepLimit && r.steps == maxSteps(r.t) {
		r.stop(errStepCap)
	}
}

func maxSteps(t Turn) int {
	limit := t.Limits.MaxSteps
	if limit <= 0 {
		limit = schemas.DefaultMaxSteps
	}
	if t.Profile.MaxSteps > 0 {
		limit = min(limit, t.Profile.MaxSteps)
	}
	return limit
}

// meter stops a worker that has spent what the contract allows. The gateway does so itself: it refuses
// the next request, and what the last one paid for is not lost.
func (r *recorder) meter() {
	if r.inv.Credential == credentialGateway {
		return
	}
	tokens := int64(0)
	for _, n := range []*int64{r.usage.UncachedInput, r.usage.CacheRead, r.usage.CacheWrite, r.usage.Output} {
		if n != nil {
			tokens += *n
		}
	}
	limits := r.t.Limits
	if limits.MaxTokens > 0 && tokens > limits.MaxTokens ||
		limits.MaxCostUSD > 0 && r.usage.CostUSD != nil && *r.usage.CostUSD > limits.MaxCostUSD {
		r.stop(errBudget)
	}
}

// add sums usage. What neither knows stays unknown.
func add(to, more *schemas.Usage) {
	addTo(&to.UncachedInput, more.UncachedInput)
	addTo(&to.CacheRead, more.CacheRead)
	addTo(&to.CacheWrite, more.CacheWrite)
	addTo(&to.Output, more.Output)
	addTo(&to.Reasoning, more.Reasoning)
	addTo(&to.Credits, more.Credits)
	addTo(&to.CostUSD, more.CostUSD)
}

// Metered is the sum of the usage in what a Turn's Events got, also if that breaks off.
func Metered(events []byte) schemas.Usage {
	var sum schemas.Usage
	for line := range bytes.Lines(events) {
		var e schemas.Event
		if json.Unmarshal(line, &e) == nil && e.Type == schemas.EventUsage && e.Usage != nil && valid(*e.Usage) {
			add(&sum, e.Usage)
		}
	}
	return sum
}

func addTo[N int64 | float64](to **N, more *N) {
	if more == nil {
		return
	}
	sum := *more
	if *to != nil {
		sum += **to
	}
	*to = &sum
}

func (r *recorder) drop(bytes int64) {
	r.oversized += bytes
	r.write(schemas.Event{Type: schemas.EventDropped, Bytes: bytes})
}

func (r *recorder) warn(text string) {
	r.event(schemas.Event{Type: schemas.EventWarning, Text: text})
}

// write records an event, which is clean, in both files.
func (r *recorder) write(e schemas.Event) {
	e.Time = r.t.Now().UTC()
	r.events.line(encode(e))
	r.log.line(logRecord(e))
}

// encode is one line of events.jsonl.
func encode(e schemas.Event) []byte {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		panic(err) // an Event has nothing that JSON has not
	}
	return line.Bytes()
}

// judge fills in how the turn ended.
func (r *recorder) judge(try *schemas.Try, result proc.Result, runErr, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	try.DurationMS = result.Duration.Milliseconds()
	if runErr != nil {
		try.Outcome, try.FailureClass = schemas.OutcomeError, schemas.FailureSetup
		if _, lost := errors.AsType[*proc.SupervisorError](runErr); lost {
			// It was at work, and may have killed its supervisor: nothing to mend in the set-up.
			try.FailureClass = schemas.FailurePermanent
		}
		try.Message = r.message(runErr.Error())
		return
	}
	try.Signal = result.Signal
	if result.Exit >= 0 {
		try.ExitStatus = &result.Exit
	}
	switch {
	case errors.Is(cause, errStepCap):
		try.Outcome = schemas.OutcomeStepCapped
		r.warn(fmt.Sprintf("%s: stopped after %d steps", schemas.CodeWorkerStepCap, r.steps))
	case errors.Is(cause, errBudget):
		try.Outcome, try.FailureClass = schemas.OutcomeError, schemas.FailureBudget
		try.Message = "the worker has used more than limits.maxTokens or limits.maxCostUSD"
	case result.End == proc.EndInterrupted:
		try.Outcome = schemas.OutcomeInterrupted
	case result.End == proc.EndTimedOut:
		try.Outcome = schemas.OutcomeTimedOut
	case result.End == proc.EndIdle:
		try.Outcome = schemas.OutcomeIdle
	default:
		exit := result.Exit
		if result.End == proc.EndSettled {
			exit = 0 // it had said its last word and only did not go
		}
		v := r.parser.Verdict(exit)
		if v.Class == "" && r.inv.Terminal && !r.parser.Done() {
			v = Verdict{Class: schemas.FailureIncomplete, Message: "the worker ended before its end-of-turn event"}
		}
		try.Outcome, try.FailureClass, try.Message = schemas.OutcomeCompleted, v.Class, r.message(v.Message)
		try.Question = r.message(v.Question)
		switch {
		case v.Class != "":
			try.Outcome = schemas.OutcomeError
		case v.StepCapped:
			try.Outcome = schemas.OutcomeStepCapped
			r.warn(fmt.Sprintf("%s: stopped after %d steps", schemas.CodeWorkerStepCap, r.steps))
		}
	}
}

// close writes what is held back and fills in the sums. The error is the first of the two writers.
func (r *recorder) close(try *schemas.Try, final *Final) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.oversized > 0 {
		r.warn(fmt.Sprintf("%d bytes of overlong lines were dropped", r.oversized))
	}
	cut := func(n int64) schemas.Event {
		return schemas.Event{Time: r.t.Now().UTC(), Type: schemas.EventDropped, Bytes: n}
	}
	err := r.events.close(func(n int64) []byte { return encode(cut(n)) })
	if logErr := r.log.close(func(n int64) []byte { return logRecord(cut(n)) }); err == nil {
		err = logErr
	}
	try.Usage, try.SessionID = r.usage, r.session
	if r.inv.Steps {
		try.Steps = &r.steps
	}
	if len(r.failed) > 0 {
		try.ToolErrors = maps.Clone(r.failed)
	}
	final.Text = ends(r.text)
	if r.hasFinal {
		whole := proc.NewCapture(finalPart, finalPart)
		_, _ = io.WriteString(whole, r.final) // never fails
		final.Text = ends(whole)
	}
	final.StderrTail = strings.ToValidUTF8(string(r.errTail.Tail()), "")
	final.Warnings = slices.Clone(r.warnings)
	return err
}

// ends is the head and the tail of a text, with what is missing between them said.
func ends(c *proc.Capture) string {
	head, tail := c.Head(), c.Tail()
	if missing := c.Bytes() - int64(len(head)+len(tail)); missing > 0 {
		head = fmt.Appendf(head, "\n[%d bytes dropped]\n", missing)
	}
	return strings.ToValidUTF8(string(append(head, tail...)), "")
}

// terminalSequence is what a terminal would take for colour, cursor movement or a title.
var terminalSequence = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])`)

// clean makes foreign text storable: valid UTF-8, no terminal sequences, no secrets.
func (r *recorder) clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	// Before the secrets: a key in which a word is coloured is still a key.
	if strings.ContainsRune(s, 0x1b) {
		s = terminalSequence.ReplaceAllString(s, "")
	}
	return r.redact.Redact(s)
}

// word is clean for a short identifier.
func (r *recorder) word(s string) string {
	if s == "" {
		return ""
	}
	return shortened(visible(r.clean(s)), maxWord)
}

// message is clean for one line that people read.
func (r *recorder) message(s string) string {
	s = strings.Join(strings.Fields(r.clean(s)), " ")
	return shortened(visible(s), maxMessage)
}

func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-3], "") + "..."
}

// visible escapes what is not a printable character: control characters, and those that reorder or hide
// text.
func visible(s string) string {
	hidden := func(r rune) bool {
		if r < utf8.RuneSelf {
			return r < ' ' && r != '\t' || r == 0x7f
		}
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
	}
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

// indent starts what is no start of a record: as wide as a time.
const indent = "                     "

// logRecord is the record of an event in worker.log: time and type at the start of the line, what
// follows them on more lines indented.
func logRecord(e schemas.Event) []byte {
	kind, text := string(e.Type), e.Text
	switch e.Type {
	case schemas.EventWarning:
		kind = "warn"
	case schemas.EventTool:
		text = e.Name + " " + e.Status
	case schemas.EventSession:
		text = e.Session
	case schemas.EventError:
		text = e.Class + ": " + e.Text
	case schemas.EventDropped:
		text = fmt.Sprintf("%d bytes", e.Bytes)
	case schemas.EventUsage:
		text = usageWords(e.Usage)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s [%s]", e.Time.Format("2006-01-02T15:04:05Z"), kind)
	separator := " "
	for line := range strings.SplitSeq(strings.TrimRight(text, "\r\n"), "\n") {
		b.WriteString(separator + visible(strings.TrimSuffix(line, "\r")) + "\n")
		separator = indent
	}
	return b.Bytes()
}

func usageWords(u *schemas.Usage) string {
	var words []string
	for _, n := range []struct {
		name  string
		count *int64
	}{
		{"input", u.UncachedInput},
		{"cacheRead", u.CacheRead},
		{"cacheWrite", u.CacheWrite},
		{"output", u.Output},
		{"reasoning", u.Reasoning},
	} {
		if n.count != nil {
			words = append(words, fmt.Sprintf("%s %d", n.name, *n.count))
		}
	}
	if u.Credits != nil {
		words = append(words, fmt.Sprintf("credits %g", *u.Credits))
	}
	if u.CostUSD != nil {
		words = append(words, fmt.Sprintf("costUSD %g", *u.CostUSD))
	}
	return strings.Join(words, ", ")
}

// bounded is a file that grows line by line and keeps, of too many, the first and the last. The first
// go out as they come; what may be among the last waits in memory.
type bounded struct {
	w    io.Writer
	room int
	tail *proc.Capture // nil until the head is full
	err  error
}

// boundedHead and boundedTail together stay below the 8 MiB of one blob of the ledger.
const (
	boundedHead = 6 << 20
	boundedTail = 1 << 20
)

func newBounded(w io.Writer) *bounded {
	if w == nil {
		w = io.Discard
	}
	return &bounded{w: w, room: boundedHead}
}

// line takes one line with its newline.
func (b *bounded) line(line []byte) {
	if b.tail == nil && len(line) <= b.room {
		b.room -= len(line)
		b.put(line)
		return
	}
	if b.tail == nil {
		b.tail = proc.NewCapture(0, boundedTail)
	}
	_, _ = b.tail.Write(line) // never fails
}

// put writes until the first error.
func (b *bounded) put(line []byte) {
	if b.err == nil {
		_, b.err = b.w.Write(line)
	}
}

// close writes the tail, from the begin of a line on, after the marker for what was dropped before it.
func (b *bounded) close(marker func(dropped int64) []byte) error {
	if b.tail == nil {
		return b.err
	}
	kept := b.tail.Tail()
	if dropped := b.tail.Bytes() - int64(len(kept)); dropped > 0 {
		torn := bytes.IndexByte(kept, '\n') + 1
		kept = kept[torn:]
		b.put(marker(dropped + int64(torn)))
	}
	b.put(kept)
	b.tail = nil
	return b.err
}
