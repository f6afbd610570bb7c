// Package agent is the builtin worker: it gives a model a task and the tools to do it, makes the calls
// that the model asks for, and says how it ended. It starts no process, knows no git, and talks to one
// model server.
package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/git-spot/git-spot/internal/agent/model"
	"github.com/git-spot/git-spot/internal/agent/tools"
)

// Options of Run.
type Options struct {
	// Connect returns the client for the session of that id. It is called once.
	Connect    func(session string) (model.Client, error)
	API, Model string // what the client talks to: a transcript of another is not resumed

	Tools    Tools
	Kind     string // KindCode, or anything else for a task that changes nothing
	Prompt   string // the task, or what is said to a session that is resumed
	Context  int64  // tokens of the model's context window; 0 is 128000
	MaxSteps int    // calls that are made; 0 is no limit

	Transcript string // path of the file that keeps the conversation; "" keeps none
	Resume     bool   // go on with the conversation that is there

	Events io.Writer // one event a line; each is one Write
	Secret string    // masked in events and transcript; "" masks nothing

	wait func(context.Context, time.Duration) error // nil is wait; for tests
}

// KindCode is the kind of task that may change files.
const KindCode = "code"

// Tools is what Run makes of a tools.Set.
type Tools interface {
	Definitions() []tools.Definition
	Run(context.Context, []tools.Call) []tools.Result
}

const (
	tries      = 5                // of one request
	longestTry = 60 * time.Second // before the next try
	maxSilent  = 2                // tries of one request at which the server says nothing
	maxCuts    = 3                // answers in a row that are cut off
	maxShrinks = 2                // of one conversation that the server finds too long
)

// What a final event says of why the turn ended.
const (
	stopDone     = "done"
	stopSteps    = "steps"
	stopQuestion = "question"
)

// Run works one turn: from the prompt until the model has nothing more to do. The last event is "final",
// or "error" with the error that Run returns. When ctx ends so does the turn, at once, and the
// transcript has every message that was complete.
func Run(ctx context.Context, o Options) error {
	mask := masker{o.Secret}
	t := &turn{Options: o, out: &output{mask: mask, w: o.Events}}
	text, stop, err := t.run(ctx, mask)
	if err == nil {
		t.out.event(finalEvent{Type: "final", Text: ends(text, maxFinal), Stop: stop})
		return t.out.close()
	}
	e, known := errors.AsType[*model.Error](err)
	switch {
	case ctx.Err() != nil:
		e = &model.Error{Class: model.ClassIncomplete, Message: fmt.Sprintf("stopped: %v", context.Cause(ctx))}
	case !known:
		e = &model.Error{Class: model.ClassPermanent, Message: err.Error()}
	}
	t.out.event(event{Type: "error", Class: string(e.Class), Message: ends(e.Error(), maxEventText)})
	return errors.Join(e, t.out.close())
}

// Refuse says that a turn could not begin: an "error" event of class setup. It returns the error.
func Refuse(o Options, err error) error {
	out := &output{mask: masker{o.Secret}, w: o.Events}
	out.event(event{Type: "error", Class: string(model.ClassSetup), Message: ends(err.Error(), maxEventText)})
	return errors.Join(err, out.close())
}

// turn is the state of Run.
type turn struct {
	Options
	out    *output
	client model.Client
	record *transcript

	request model.Request
	window  *window
	circle  circle

	steps  int  // calls made
	last   bool // the limit of steps is reached: the model may only report
	cuts   int  // answers in a row that were cut off
	empty  int  // answers in a row that were empty
	shrunk bool // the caller has been told that output is dropped

	report strings.Builder // what the model has said since its last calls
}

func (t *turn) run(ctx context.Context, mask masker) (text, stop string, err error) {
	if err := t.open(mask); err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, t.record.close()) }()
	for {
		answer, err := t.ask(ctx)
		if err != nil {
			return "", "", err
		}
		text, stop, err := t.take(ctx, answer)
		if err != nil || stop != "" {
			return text, stop, err
		}
	}
}

// open prepares everything that the first request needs.
func (t *turn) open(mask masker) error {
	t.request.System = promptReadOnly
	if t.Kind == KindCode {
		t.request.System = promptCode
	}
	fixed := len(t.request.System)
	for _, d := range t.Tools.Definitions() {
		t.request.Tools = append(t.request.Tools, model.Tool(d))
		fixed += len(d.Name) + len(d.Description) + len(d.Parameters)
	}
	t.window = newWindow(t.Context, fixed)

	h := header{Version: transcriptVersion, Session: strings.ToLower(rand.Text()), API: t.API, Model: t.Model}
	if err := t.openTranscript(&h, mask); err != nil {
		return err
	}
	client, err := t.Connect(h.Session)
	if err == nil {
		t.client = client
		t.out.event(event{Type: "session", ID: h.Session})
		err = t.say(t.Prompt)
	}
	if err != nil {
		return errors.Join(err, t.record.close())
	}
	return nil
}

func (t *turn) openTranscript(h *header, mask masker) (err error) {
	if !t.Resume {
		if t.Transcript != "" {
			t.record, err = createTranscript(t.Transcript, *h, mask)
		}
		return err
	}
	record, old, messages, err := resumeTranscript(t.Transcript, mask)
	if err != nil {
		return err
	}
	if old.API != h.API || old.Model != h.Model {
		return errors.Join(refusedTranscript("resumed", fmt.Errorf("it is with the model %q over %q, and this turn is with %q over %q",
			old.Model, old.API, h.Model, h.API)), record.close())
	}
	t.record, t.request.Messages, *h = record, messages, old
	if n := len(messages); n > 0 && len(messages[n-1].Calls) > 0 {
		err = t.add(answered(messages[n-1].Calls, sayInterrupted, tools.StatusError))
	}
	return err
}

// answered is the results of calls that were not made.
func answered(calls []model.Call, text, status string) model.Message {
	m := model.Message{Role: model.RoleTool}
	for _, c := range calls {
		m.Results = append(m.Results, model.Result{ID: c.ID, Name: c.Name, Text: text, Status: status})
	}
	return m
}

// add takes a message into the conversation and the transcript.
func (t *turn) add(m model.Message) error {
	t.request.Messages = append(t.request.Messages, m)
	return t.record.add(m)
}

func (t *turn) say(text string) error {
	return t.add(model.Message{Role: model.RoleUser, Text: text})
}

// ask puts the conversation to the model, shortened where it has to be.
func (t *turn) ask(ctx context.Context) (model.Answer, error) {
	var dropped bool
	t.request.Messages, dropped = t.window.fit(t.request.Messages)
	t.noteDropped(dropped)
	for shrinks := 0; ; shrinks++ {
		answer, err := t.try(ctx)
		if err == nil {
			t.window.learn(t.request.Messages, answer.Input)
			return answer, nil
		}
		e, known := errors.AsType[*model.Error](err)
		if !known || !e.TooLong || shrinks == maxShrinks {
			return model.Answer{}, err
		}
		if t.request.Messages, dropped = t.window.refused(t.request.Messages); !dropped {
			return model.Answer{}, err
		}
		t.noteDropped(true)
	}
}

func (t *turn) noteDropped(dropped bool) {
	if dropped && !t.shrunk {
		t.shrunk = true
		t.out.warn("old output is dropped from the conversation to stay within the context window")
	}
}

// try sends the request, again after a while if that can help.
func (t *turn) try(ctx context.Context) (model.Answer, error) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.Multiplier = time.Second, 2
	for try, silent := 1, 0; ; try++ {
		answer, err := t.client.Ask(ctx, t.request, t.out.progress)
		t.out.endText()
		if err == nil {
			return answer, nil
		}
		e, known := errors.AsType[*model.Error](err)
		if known && e.Silent {
			silent++
		}
		if !known || e.Class != model.ClassRateLimit && e.Class != model.ClassTransient ||
			try == tries || silent == maxSilent || e.RetryAfter > longestTry {
			return model.Answer{}, err
		}
		next := min(pause.NextBackOff(), longestTry)
		if e.RetryAfter > 0 {
			next = e.RetryAfter
		}
		t.out.warn(fmt.Sprintf("%v; trying again in %v (try %d of %d)", e, next.Round(100*time.Millisecond), try+1, tries))
		wait := t.wait
		if wait == nil {
			wait = sleep
		}
		if err := wait(ctx, next); err != nil {
			return model.Answer{}, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// take does what an answer asks for. With a stop the turn has ended, and text is the model's report.
func (t *turn) take(ctx context.Context, a model.Answer) (text, stop string, err error) {
	said := spoken(a.Text)
	switch {
	case a.Stop == model.StopRefused:
		return "", "", &model.Error{Class: model.ClassPermanent, Message: "the model refused: " + orNothing(ends(said, maxWord*2))}
	case t.last:
		return t.reported(a)
	case len(a.Calls) > 0:
		return "", "", t.make(ctx, a)
	case said == "":
		return "", "", t.nudge(a)
	case a.Stop == model.StopLength:
		return "", "", t.continued(a)
	}
	if err := t.add(a.Message); err != nil {
		return "", "", err
	}
	t.report.WriteString(a.Text)
	text, stop = spoken(t.report.String()), stopDone
	if asks(text) {
		stop = stopQuestion
	}
	return text, stop, nil
}

func orNothing(s string) string {
	if s == "" {
		return "it gave no reason"
	}
	return s
}

// reported ends a turn whose steps are used up. Calls that the model wants all the same are not made.
func (t *turn) reported(a model.Answer) (text, stop string, err error) {
	if len(a.Calls) > 0 || spoken(a.Text) != "" {
		err = t.add(a.Message)
	}
	if len(a.Calls) > 0 && err == nil {
		err = t.add(answered(a.Calls, sayOverLimit, tools.StatusDenied))
	}
	t.report.WriteString(a.Text)
	return spoken(t.report.String()), stopSteps, err
}

// nudge answers an answer that says nothing.
func (t *turn) nudge(a model.Answer) error {
	if a.Stop == model.StopLength {
		return t.cut(sayCutEmpty)
	}
	t.empty++
	if t.empty > 1 {
		return &model.Error{Class: model.ClassIncomplete, Message: "the model's answers are empty"}
	}
	return t.say(sayEmpty)
}

// continued asks for the rest of an answer.
func (t *turn) continued(a model.Answer) error {
	if err := t.add(a.Message); err != nil {
		return err
	}
	t.report.WriteString(a.Text)
	return t.cut(sayCut)
}

func (t *turn) cut(say string) error {
	t.cuts++
	if t.cuts > maxCuts {
		return &model.Error{Class: model.ClassIncomplete, Message: fmt.Sprintf("%d answers in a row were cut off at the limit of output", t.cuts)}
	}
	return t.say(say)
}

// make makes the calls of an answer.
func (t *turn) make(ctx context.Context, a model.Answer) error {
	if err := t.add(a.Message); err != nil {
		return err
	}
	t.report.Reset()
	t.empty = 0
	if a.Stop != model.StopLength {
		t.cuts = 0
	}

	allowed := a.Calls
	if t.MaxSteps > 0 {
		allowed = a.Calls[:min(len(a.Calls), t.MaxSteps-t.steps)]
	}
	over := a.Calls[len(allowed):]
	t.steps += len(allowed)
	var calls []tools.Call
	for _, c := range allowed {
		call := tools.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments}
		if c.Malformed != "" {
			call.Arguments = []byte(c.Malformed)
		}
		calls = append(calls, call)
	}
	message := model.Message{Role: model.RoleTool}
	for i, r := range t.Tools.Run(ctx, calls) {
		if allowed[i].Malformed != "" && a.Stop == model.StopLength {
			r.Text = sayCutCall
		}
		message.Results = append(message.Results, model.Result(r))
		t.out.tool(r.Name, r.Status)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(over) > 0 {
		message.Results = append(message.Results, answered(over, sayOverLimit, tools.StatusDenied).Results...)
		t.out.warn(fmt.Sprintf("%d calls beyond the limit of %d steps were not made", len(over), t.MaxSteps))
	}
	rounds := t.circle.add(a.Calls, message.Results)
	t.window.trim(message.Results)
	if rounds >= repeatsSaid {
		for i := range message.Results {
			message.Results[i].Text += fmt.Sprintf(sayRepeat, rounds)
		}
	}
	if err := t.add(message); err != nil {
		return err
	}
	if rounds >= repeatsLast {
		return &model.Error{Class: model.ClassIncomplete, Message: fmt.Sprintf(
			"the model goes round in circles: the call %s %s was made %d times in a row with the same result",
			a.Calls[0].Name, ends(string(a.Calls[0].Arguments), maxWord), rounds)}
	}
	if t.MaxSteps > 0 && t.steps >= t.MaxSteps {
		t.last, t.request.NoCalls = true, true
		return t.say(sayLimit)
	}
	return nil
}

// spoken is what of a text is meant for the reader: some models put their reasoning before it.
func spoken(text string) string {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "<think>"); ok {
		_, after, _ := strings.Cut(rest, "</think>")
		return strings.TrimSpace(after)
	}
	return text
}

// asks says whether a report ends with a question to the caller: its last paragraph has a line that
// starts with QUESTION:.
func asks(report string) bool {
	paragraphs := strings.Split(strings.TrimSpace(strings.ReplaceAll(report, "\r\n", "\n")), "\n\n")
	for line := range strings.SplitSeq(paragraphs[len(paragraphs)-1], "\n") {
		if strings.HasPrefix(strings.TrimLeft(line, " *_#>"), "QUESTION:") {
			return true
		}
	}
	return false
}
