package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/git-spot/git-spot/internal/agent"
	"github.com/git-spot/git-spot/internal/agent/model"
	script "github.com/git-spot/git-spot/internal/scriptedmodel"
)

func call(tool string, pairs ...any) script.Call {
	object := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		object[pairs[i].(string)] = pairs[i+1]
	}
	return script.Call{Tool: tool, Args: args(object)}
}

func read(path string) script.Call { return call("read", "path", path) }

func write(path string) script.Call { return call("write", "path", path, "content", path+"\n") }

func does(calls ...script.Call) script.Step { return script.Step{Calls: calls} }

func says(text string) script.Step { return script.Step{Text: text} }

// scenario is a script with what must come of it, whatever the wire format.
type scenario struct {
	name    string
	steps   []script.Step
	prepare func(*testing.T, *bench)
	want    event // the last one; of a message, a part
	check   func(t *testing.T, b *bench, all []event)
}

func final(text, stop string) event { return event{Type: "final", Text: text, Stop: stop} }

func failed(class, message string) event { return event{Type: "error", Class: class, Message: message} }

var scenarios = []scenario{
	{
		name: "edits a file",
		steps: []script.Step{
			{Text: "I look first.", Calls: []script.Call{read("a.txt")}},
			{Reasoning: "b for a", Calls: []script.Call{call("edit", "path", "a.txt", "edits", []any{map[string]any{"old": "a", "new": "b"}})}},
			says("a.txt says b now."),
		},
		prepare: func(t *testing.T, b *bench) { b.write(t, "a.txt", "a\n") },
		want:    final("a.txt says b now.", "done"),
		check: func(t *testing.T, b *bench, all []event) {
			b.holds(t, "a.txt", "b\n")
			var types []string
			for _, e := range all {
				types = append(types, strings.TrimSpace(e.Type+" "+e.Name+" "+e.Status))
			}
			want := []string{"session", "text", "tool read ok", "tool edit ok", "text", "final"}
			if !slices.Equal(types, want) {
				t.Errorf("events are %q, want %q", types, want)
			}
			if all[1].Text != "I look first." {
				t.Errorf("text is %q", all[1].Text)
			}
		},
	},
	{
		name: "reads in parallel",
		steps: []script.Step{
			does(read("a.txt"), read("b.txt"), read("c.txt")),
			says("read"),
		},
		prepare: func(t *testing.T, b *bench) {
			for _, name := range []string{"a", "b", "c"} {
				b.write(t, name+".txt", "content of "+name+"\n")
			}
		},
		want: final("read", "done"),
		check: func(t *testing.T, b *bench, _ []event) {
			body := b.body(t, 1)
			a, c := strings.Index(body, "content of a"), strings.Index(body, "content of c")
			if a < 0 || c < a {
				t.Errorf("results are not there in order: %s", body)
			}
		},
	},
	{
		name: "answers what cannot be done",
		steps: []script.Step{
			does(script.Call{Tool: "bash", Args: args(map[string]any{"command": "ls"})}),
			does(script.Call{Tool: "write", Raw: `{"path": "x.txt", "content": `}),
			does(script.Call{Tool: "read", Raw: `["a.txt"]`}, script.Call{Tool: "ls"}),
			says("sorry"),
		},
		want: final("sorry", "done"),
		check: func(t *testing.T, b *bench, all []event) {
			b.absent(t, "x.txt")
			var statuses []string
			for _, e := range all {
				if e.Type == "tool" {
					statuses = append(statuses, e.Name+" "+e.Status)
				}
			}
			if want := []string{"bash error", "write error", "read error", "ls ok"}; !slices.Equal(statuses, want) {
				t.Errorf("tools: %q, want %q", statuses, want)
			}
			if body := b.body(t, 1); !strings.Contains(body, "no tool") {
				t.Errorf("the model is not told that there is no such tool: %s", body)
			}
		},
	},
	{
		name: "five hundred calls in one answer",
		steps: []script.Step{
			func() script.Step {
				var s script.Step
				for i := range 500 {
					s.Calls = append(s.Calls, read(fmt.Sprintf("f%d.txt", i)))
				}
				return s
			}(),
			says("enough"),
		},
		want: final("enough", "done"),
	},
	{
		name: "waits as long as it is told to",
		steps: []script.Step{
			{Status: 429, RetryAfter: "7"},
			{Status: 429, RetryAfter: "0.5"},
			says("at last"),
		},
		want: final("at last", "done"),
		check: func(t *testing.T, b *bench, all []event) {
			if want := []time.Duration{7 * time.Second, time.Second / 2}; !slices.Equal(b.waits, want) {
				t.Errorf("waited %v, want %v", b.waits, want)
			}
			if !slices.ContainsFunc(all, func(e event) bool {
				return e.Type == "worker_warning" && strings.Contains(e.Text, "429") && strings.Contains(e.Text, "7s")
			}) {
				t.Errorf("nobody was told: %+v", all)
			}
		},
	},
	{
		name:  "does not wait for an hour",
		steps: []script.Step{{Status: 429, RetryAfter: "3600"}, says("no")},
		want:  failed("rate_limit", "429"),
		check: noWait,
	},
	{
		name:  "gives up",
		steps: []script.Step{{Status: 500, Times: 100}, says("no")},
		want:  failed("transient", "500"),
		check: func(t *testing.T, b *bench, _ []event) {
			if len(b.waits) != 4 || len(b.server.Requests()) != 5 {
				t.Errorf("%d requests after waits of %v", len(b.server.Requests()), b.waits)
			}
			for i, wait := range b.waits {
				base := time.Second << i
				if wait < base/2 || wait > base*3/2+1 {
					t.Errorf("wait %d was %v", i, wait)
				}
			}
		},
	},
	{
		name:    "the key is wrong",
		prepare: func(_ *testing.T, b *bench) { b.m.Token = "another" },
		want:    failed("auth", "401"),
		check:   noWait,
	},
	{
		name:  "nothing left to pay with",
		steps: []script.Step{{Status: 429, Error: "insufficient_quota"}, says("no")},
		want:  failed("quota", ""),
		check: noWait,
	},
	{
		name:  "the budget is spent",
		steps: []script.Step{{Status: 402, Error: "budget_exceeded", Text: "budget_exceeded: nothing is left"}, says("no")},
		want:  failed("budget", "nothing is left"),
		check: noWait,
	},
	{
		name:  "no such model",
		steps: []script.Step{{Status: 404, Error: "model_not_found"}, says("no")},
		want:  failed("setup", "404"),
		check: noWait,
	},
	{
		name:  "the request is wrong",
		steps: []script.Step{{Status: 400, Text: "temperature must be 1"}, says("no")},
		want:  failed("permanent", "temperature must be 1"),
		check: noWait,
	},
	{
		name: "the stream breaks off in many ways",
		steps: []script.Step{
			{Text: "half", Calls: []script.Call{write("x.txt")}, Fault: script.FaultDrop},
			{Text: "half of an answer that is cut", Calls: []script.Call{write("x.txt")}, Fault: script.FaultCut},
			{Text: "half", Calls: []script.Call{write("x.txt")}, Fault: script.FaultError},
			{Text: "half", Calls: []script.Call{write("x.txt")}, Fault: script.FaultGarbage},
			does(write("y.txt")),
			says("whole"),
		},
		want: final("whole", "done"),
		check: func(t *testing.T, b *bench, _ []event) {
			b.absent(t, "x.txt")
			b.holds(t, "y.txt", "y.txt\n")
			if len(b.waits) != 4 {
				t.Errorf("waits: %v", b.waits)
			}
		},
	},
	{
		name:    "the server falls silent",
		steps:   []script.Step{{Fault: script.FaultHang}, does(call("ls")), {Text: "half of an answer", Calls: []script.Call{call("ls")}, Fault: script.FaultStall}, says("awake")},
		prepare: func(_ *testing.T, b *bench) { b.m.Idle = time.Second },
		want:    final("awake", "done"),
		check: func(t *testing.T, b *bench, all []event) {
			if len(b.waits) != 2 || !strings.Contains(fmt.Sprint(all), "fallen silent") {
				t.Errorf("waits %v, events %+v", b.waits, all)
			}
		},
	},
	{
		name:    "the server stays silent",
		steps:   []script.Step{{Fault: script.FaultHang, Times: 10}},
		prepare: func(_ *testing.T, b *bench) { b.m.Idle = 50 * time.Millisecond },
		want:    failed("transient", "fallen silent"),
		check: func(t *testing.T, b *bench, _ []event) {
			if len(b.waits) != 1 {
				t.Errorf("waits %v", b.waits)
			}
		},
	},
	{
		name:  "goes on after an answer that was cut off",
		steps: []script.Step{{Text: "one ", Stop: script.StopLength}, {Text: "two ", Stop: script.StopLength}, says("three")},
		want:  final("one two three", "done"),
	},
	{
		name:  "does not go on for ever",
		steps: []script.Step{{Text: "and", Stop: script.StopLength, Times: 100}},
		want:  failed("incomplete", "cut off"),
		check: func(t *testing.T, b *bench, _ []event) {
			if n := len(b.server.Requests()); n != 4 {
				t.Errorf("%d requests", n)
			}
		},
	},
	{
		name: "a call that was cut off",
		steps: []script.Step{
			{Calls: []script.Call{write("y.txt"), {Tool: "write", Raw: `{"path": "x.txt", "content": "hal`}}, Stop: script.StopLength},
			says("done"),
		},
		want: final("done", "done"),
		check: func(t *testing.T, b *bench, _ []event) {
			b.absent(t, "x.txt")
			b.holds(t, "y.txt", "y.txt\n")
			if body := b.body(t, 1); !strings.Contains(body, "cut off at the limit of output before the arguments") {
				t.Errorf("the model is not told: %s", body)
			}
		},
	},
	{
		name:  "refuses",
		steps: []script.Step{{Text: "I will not do that.", Stop: script.StopRefusal}},
		want:  failed("permanent", "I will not do that."),
		check: noWait,
	},
	{
		name:  "asks",
		steps: []script.Step{says("There are two tables.\n\nQUESTION: Which one shall I drop?")},
		want:  final("There are two tables.\n\nQUESTION: Which one shall I drop?", "question"),
	},
	{
		name:  "has nothing to say",
		steps: []script.Step{{Times: 10}},
		want:  failed("incomplete", "empty"),
		check: func(t *testing.T, b *bench, _ []event) {
			if n := len(b.server.Requests()); n != 2 {
				t.Errorf("%d requests", n)
			}
		},
	},
	{
		name: "reaches the limit of steps",
		steps: []script.Step{
			does(write("1"), write("2")),
			does(write("3"), write("4"), write("5")),
			says("2 of 5 are missing"),
		},
		prepare: func(_ *testing.T, b *bench) { b.o.MaxSteps = 3 },
		want:    final("2 of 5 are missing", "steps"),
		check: func(t *testing.T, b *bench, all []event) {
			b.holds(t, "3", "3\n")
			b.absent(t, "4")
			b.absent(t, "5")
			if n := strings.Count(fmt.Sprint(all), "tool"); n != 3 {
				t.Errorf("%d events of tools: %+v", n, all)
			}
			if body := b.body(t, 2); !strings.Contains(body, `"tool_choice":"none"`) &&
				!strings.Contains(body, `"tool_choice":{"type":"none"}`) && strings.Contains(body, `"tools"`) {
				t.Errorf("the last answer may call tools: %s", body)
			}
		},
	},
	{
		name:    "does not report at the limit of steps",
		steps:   []script.Step{{Calls: []script.Call{write("1")}, Times: 10}},
		prepare: func(_ *testing.T, b *bench) { b.o.MaxSteps = 1 },
		want:    final("", "steps"),
		check: func(t *testing.T, b *bench, _ []event) {
			if n := len(b.server.Requests()); n != 2 {
				t.Errorf("%d requests", n)
			}
		},
	},
	{
		name:    "goes round in circles",
		steps:   []script.Step{{Calls: []script.Call{read("a.txt")}, Times: 100}},
		prepare: func(t *testing.T, b *bench) { b.write(t, "a.txt", "a\n") },
		want:    failed("incomplete", `read {"path":"a.txt"} was made 6 times`),
		check: func(t *testing.T, b *bench, _ []event) {
			if n := len(b.server.Requests()); n != 6 {
				t.Errorf("%d requests", n)
			}
			if strings.Contains(b.body(t, 2), "times in a row") || !strings.Contains(b.body(t, 3), "3 times in a row") {
				t.Error("the model is not told the third time")
			}
		},
	},
	{
		name: "goes round in wider circles",
		steps: func() (steps []script.Step) {
			for range 20 {
				steps = append(steps, does(read("a.txt")), does(call("ls")))
			}
			return steps
		}(),
		prepare: func(t *testing.T, b *bench) { b.write(t, "a.txt", "a\n") },
		want:    failed("incomplete", "6 times"),
		check: func(t *testing.T, b *bench, _ []event) {
			if n := len(b.server.Requests()); n != 12 {
				t.Errorf("%d requests", n)
			}
		},
	},
	{
		name: "keeps inside the context window",
		steps: []script.Step{
			does(read("1.txt")), does(read("2.txt")), does(read("3.txt")), does(read("4.txt")), does(read("5.txt")), does(read("6.txt")),
			says("read"),
		},
		prepare: func(t *testing.T, b *bench) {
			for i := range 6 {
				b.write(t, fmt.Sprintf("%d.txt", i+1), strings.Repeat(fmt.Sprintf("line of file %d\n", i+1), 500))
			}
			b.o.Context = 18000
			b.m.Context = 18000
		},
		want: final("read", "done"),
		check: func(t *testing.T, b *bench, all []event) {
			last := b.body(t, 6)
			for i := range 6 {
				kept := strings.Contains(last, fmt.Sprintf("line of file %d", i+1))
				if kept != (i >= 3) && i != 2 { // the third may be on either side
					t.Errorf("output of %d.txt is there: %v", i+1, kept)
				}
			}
			if !strings.Contains(last, "was dropped to save space") || !strings.Contains(last, "do it") {
				t.Errorf("not said, or the task is gone: %s", last)
			}
			if n := strings.Count(fmt.Sprint(all), "worker_warning"); n != 1 {
				t.Errorf("%d warnings", n)
			}
			dropped := 0 // requests in which more was dropped than in the one before: each costs the server's cache
			for i, before := 0, 0; i < 7; i++ {
				n := strings.Count(b.body(t, i), "was dropped to save space")
				if n > before {
					dropped++
				}
				before = n
			}
			if dropped != 1 {
				t.Errorf("output was dropped %d times", dropped)
			}
		},
	},
	{
		name: "asks for more than fits",
		steps: []script.Step{
			does(read("1.txt"), read("2.txt"), read("3.txt"), read("4.txt"), read("5.txt"), call("ls")),
			says("read"),
		},
		prepare: func(t *testing.T, b *bench) {
			for i := range 5 {
				b.write(t, fmt.Sprintf("%d.txt", i+1), strings.Repeat(fmt.Sprintf("line of file %d\n", i+1), 500))
			}
			b.o.Context = 18000
		},
		want: final("read", "done"),
		check: func(t *testing.T, b *bench, _ []event) {
			body := b.body(t, 1)
			if len(body) > 18000*4/2 || !strings.Contains(body, "line of file 1") || !strings.Contains(body, "Cut off here") || !strings.Contains(body, "3.txt") {
				t.Errorf("%d bytes: %s", len(body), body)
			}
		},
	},
	{
		name: "believes the server that the conversation is too long",
		steps: []script.Step{
			does(read("1.txt")), does(read("1.txt")), does(read("2.txt")),
			{Status: 400, Error: "context_length_exceeded"},
			says("read"),
		},
		prepare: func(t *testing.T, b *bench) {
			b.write(t, "1.txt", strings.Repeat("line of file 1\n", 500))
			b.write(t, "2.txt", strings.Repeat("line of file 2\n", 500))
		},
		want: final("read", "done"),
		check: func(t *testing.T, b *bench, _ []event) {
			last := b.body(t, 4)
			if strings.Contains(last, "line of file 1") || !strings.Contains(last, "line of file 2") {
				t.Errorf("the wrong output is dropped: %s", last)
			}
		},
	},
	{
		name:  "the conversation is too long, whatever is dropped",
		steps: []script.Step{does(read("1.txt")), {Status: 400, Error: "context_length_exceeded", Times: 10}, says("no")},
		want:  failed("capability", "400"),
		check: noWait,
	},
	{
		name:    "changes nothing when it must not",
		steps:   []script.Step{does(write("x.txt")), says("done")},
		prepare: func(_ *testing.T, b *bench) { b.o.Kind = "explore" },
		want:    final("done", "done"),
		check: func(t *testing.T, b *bench, _ []event) {
			b.absent(t, "x.txt")
			if body := b.body(t, 0); strings.Contains(body, `"name":"write"`) || !strings.Contains(body, "You change nothing") {
				t.Errorf("write is offered, or the prompt is the wrong one: %s", body)
			}
		},
	},
	{
		name:  "never writes its token",
		steps: []script.Step{does(script.Call{Tool: "read", Args: args(map[string]any{"path": key})}), says("it is " + key)},
		want:  final("it is [masked]", "done"),
		prepare: func(_ *testing.T, b *bench) {
			b.o.Transcript = filepath.Join(b.dir, "session")
		},
		check: func(t *testing.T, b *bench, _ []event) {
			data, err := os.ReadFile(b.o.Transcript)
			if err != nil || bytes.Contains(data, []byte(key)) || !bytes.Contains(data, []byte("[masked]")) {
				t.Errorf("transcript: %s, %v", data, err)
			}
		},
	},
}

func noWait(t *testing.T, b *bench, _ []event) {
	if len(b.waits) > 0 {
		t.Errorf("waited %v", b.waits)
	}
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		for _, api := range apis {
			t.Run(s.name+"/"+api, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, api, s.steps...)
				if s.prepare != nil {
					s.prepare(t, b)
				}
				all, last, err := b.run(t.Context(), t)
				got := last
				if strings.Contains(got.Message, s.want.Message) {
					got.Message = s.want.Message
				}
				if got != s.want {
					t.Errorf("got %+v, want %+v", last, s.want)
				}
				if (err != nil) != (last.Type == "error") {
					t.Errorf("the error is %v", err)
				}
				if s.check != nil {
					s.check(t, b, all)
				}
			})
		}
	}
}

// TestStopped ends a turn while the server hangs.
func TestStopped(t *testing.T) {
	t.Parallel()
	for _, api := range apis {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, api, does(write("x.txt")), script.Step{Fault: script.FaultHang}, says("after all"))
			b.o.Transcript = filepath.Join(t.TempDir(), "session")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("that is enough"))
			defer cancel()
			_, last, err := b.run(ctx, t)
			if err == nil || last.Class != "incomplete" || !strings.Contains(last.Message, "that is enough") {
				t.Fatalf("got %+v, %v", last, err)
			}
			b.holds(t, "x.txt", "x.txt\n")

			b.o.Resume, b.o.Prompt = true, "go on"
			_, last, err = b.run(t.Context(), t)
			if err != nil || last != final("after all", "done") {
				t.Fatalf("resumed: %+v, %v", last, err)
			}
			if body := b.body(t, 2); !strings.Contains(body, "do it") || !strings.Contains(body, "go on") {
				t.Errorf("resumed with %s", body)
			}
		})
	}
}

// TestResume goes on with a session, and refuses to with those that are not one of its own.
func TestResume(t *testing.T) {
	t.Parallel()
	for _, api := range apis {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, api, script.Step{Reasoning: "hm", Calls: []script.Call{write("x.txt")}}, says("first"), does(read("x.txt")), says("second"))
			b.o.Transcript = filepath.Join(t.TempDir(), "session")
			all, last, err := b.run(t.Context(), t)
			if err != nil || last.Text != "first" {
				t.Fatalf("got %+v, %v", last, err)
			}
			session := all[0].ID
			b.o.Resume, b.o.Prompt = true, "and now?"
			all, last, err = b.run(t.Context(), t)
			if err != nil || last.Text != "second" || all[0].ID != session {
				t.Fatalf("resumed as %+v: %+v, %v", all[0], last, err)
			}
			if body := b.body(t, 2); !strings.Contains(body, "do it") || !strings.Contains(body, "first") || !strings.Contains(body, "and now?") {
				t.Errorf("resumed with %s", body)
			}

			b.o.Model = "another"
			if _, last, err = b.run(t.Context(), t); err == nil || last.Class != "setup" || !strings.Contains(last.Message, "another") {
				t.Errorf("another model: %+v, %v", last, err)
			}
			b.o.Transcript = filepath.Join(t.TempDir(), "none")
			if _, last, err = b.run(t.Context(), t); err == nil || last.Class != "setup" {
				t.Errorf("no transcript: %+v, %v", last, err)
			}
		})
	}
}

// TestInterrupted resumes a session that ended between a call and its result.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, api := range apis {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, api, script.Step{Reasoning: "hm", Calls: []script.Call{write("x.txt"), read("x.txt")}}, says("seen"))
			b.o.Transcript = filepath.Join(t.TempDir(), "session")
			if _, last, err := b.run(t.Context(), t); err != nil {
				t.Fatal(last, err)
			}
			data, err := os.ReadFile(b.o.Transcript)
			if err != nil {
				t.Fatal(err)
			}
			lines := bytes.SplitAfter(data, []byte("\n"))
			torn := append(bytes.Join(lines[:3], nil), lines[3][:len(lines[3])/2]...)
			if err := os.WriteFile(b.o.Transcript, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			b.o.Resume, b.o.Prompt = true, "go on"
			_, last, err := b.run(t.Context(), t)
			if err != nil || last.Text != "seen" {
				t.Fatalf("got %+v, %v", last, err)
			}
			if body := b.body(t, 2); strings.Count(body, "Interrupted") != 2 {
				t.Errorf("resumed with %s", body)
			}
		})
	}
}

// TestNudged has a model that is silent once. The server cannot tell, so the client is another.
func TestNudged(t *testing.T) {
	t.Parallel()
	var asked []model.Request
	answers := []model.Answer{{}, {Message: model.Message{Role: model.RoleAssistant, Text: "<think>so\n\nso</think>\n\nthere"}}}
	o := agent.Options{Tools: noTools{}, Prompt: "do it", Events: &bytes.Buffer{}, Connect: func(string) (model.Client, error) {
		return clientFunc(func(_ context.Context, r model.Request, _ func(string)) (model.Answer, error) {
			asked = append(asked, r)
			return answers[len(asked)-1], nil
		}), nil
	}}
	if err := agent.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if n := len(asked[1].Messages); n != 2 || !strings.Contains(asked[1].Messages[1].Text, "empty") {
		t.Errorf("asked again with %+v", asked[1].Messages)
	}
	if out := o.Events.(*bytes.Buffer).String(); !strings.Contains(out, `{"type":"final","text":"there","stop":"done"}`) {
		t.Errorf("events: %s", out)
	}
}
