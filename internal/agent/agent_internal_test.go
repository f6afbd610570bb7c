package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/git-spot/git-spot/internal/agent/model"
	"github.com/git-spot/git-spot/internal/agent/tools"
)

func TestAsks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                                     false,
		"Done.":                                false,
		"QUESTION: Which?":                     true,
		"It depends.\n\nQUESTION: Which?\n":    true,
		"It depends.\r\n\r\nQUESTION: Which?":  true,
		"**QUESTION:** Which?":                 true,
		"It depends.\nQUESTION: Which?\n- a":   true,
		"QUESTION: Which?\n\nI took the first": false,
		"I have no QUESTION: it is done.":      false,
	} {
		if got := asks(text); got != want {
			t.Errorf("asks(%q) is %v", text, got)
		}
	}
}

func TestSpoken(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" a\n":                     "a",
		"<think>x</think>\n\na":    "a",
		"\n<think>x\n</think>\n":   "",
		"<think>and no end":        "",
		"a <think>b</think>":       "a <think>b</think>",
		"<think></think>a</think>": "a</think>",
	} {
		if got := spoken(text); got != want {
			t.Errorf("spoken(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestCircle(t *testing.T) {
	t.Parallel()
	call := func(name string) []model.Call { return []model.Call{{Name: name, Arguments: []byte("{}")}} }
	for _, c := range []struct{ steps, rounds string }{
		{"aaaaaa", "123456"},
		{"aabaa", "12112"},
		{"abababab", "11122334"},
		{"abcabcabc", "111112223"},
		{"abcdabcd", "11111111"}, // wider circles are work
		{"abbbab", "112311"},
	} {
		var circle circle
		for i, name := range c.steps {
			rounds := circle.add(call(string(name)), []model.Result{{Text: "same", Status: "ok"}})
			if want := int(c.rounds[i] - '0'); rounds != want {
				t.Errorf("%s: step %d is round %d, want %d", c.steps, i, rounds, want)
			}
		}
	}

	var circle circle
	for i := range 10 { // the same call, another result: a file that changes
		if rounds := circle.add(call("a"), []model.Result{{Text: fmt.Sprint(i), Status: "ok"}}); rounds != 1 {
			t.Errorf("another result is round %d", rounds)
		}
	}
	twice := append(call("a"), call("a")...)
	same := []model.Result{{Text: "same"}, {Text: "same"}}
	if circle.add(call("a"), same[:1]); circle.add(twice, same) != 2 {
		t.Error("calls of one answer count once")
	}
}

// conversation is a task, and calls with results of that many bytes.
func conversation(results ...int) []model.Message {
	messages := []model.Message{{Role: model.RoleUser, Text: "the task"}}
	for _, bytes := range results {
		messages = append(messages,
			model.Message{Role: model.RoleAssistant, Calls: []model.Call{{ID: "c", Name: "read", Arguments: []byte("{}")}}},
			model.Message{Role: model.RoleTool, Results: []model.Result{{ID: "c", Name: "read", Text: strings.Repeat("x", bytes)}}})
	}
	return messages
}

// kept is how many results are as they were.
func kept(messages []model.Message) (n int) {
	for _, m := range messages {
		for _, r := range m.Results {
			if strings.HasPrefix(r.Text, "xxx") {
				n++
			}
		}
	}
	return n
}

func TestWindow(t *testing.T) {
	t.Parallel()
	w := newWindow(10_000, 1000)
	messages := conversation(slices.Repeat([]int{1000}, 10)...)
	w.learn(messages, 6000)
	if _, dropped := w.fit(messages); dropped || kept(messages) != 10 {
		t.Error("6000 tokens of 10000 are no reason to drop anything")
	}
	w.learn(messages, 8000) // the same bytes, by the server's count
	messages, dropped := w.fit(messages)
	if !dropped || kept(messages) != 5 || len(messages) != 21 || w.tokens(messages) > 5000 {
		t.Errorf("%d of %d are left, %v tokens", kept(messages), len(messages), w.tokens(messages))
	}
	if !strings.HasPrefix(messages[20].Results[0].Text, "xxx") || strings.HasPrefix(messages[2].Results[0].Text, "xxx") {
		t.Error("not the oldest were dropped")
	}
	if _, dropped := w.fit(messages); dropped {
		t.Error("dropped again")
	}
	if messages, dropped = w.refused(messages); !dropped || w.tokens(messages) > 2500 {
		t.Errorf("the server refused it, and %v tokens are left", w.tokens(messages))
	}
	for dropped {
		if messages, dropped = w.refused(messages); kept(messages) == 0 || messages[0].Role != model.RoleUser {
			t.Fatal("the task or the last output was dropped")
		}
	}
	w.learn(messages, 1<<60)
	w.learn(messages, -5)
	if w.ratio != 1.5 {
		t.Errorf("a token is %v of a byte", w.ratio)
	}
}

// TestForget has a conversation that is long although no output is: whole steps go, and what is left is
// a conversation.
func TestForget(t *testing.T) {
	t.Parallel()
	messages := conversation(slices.Repeat([]int{10}, 500)...)
	messages = append(messages, model.Message{Role: model.RoleAssistant, Text: "done"}, model.Message{Role: model.RoleUser, Text: "and now?"})
	w := newWindow(2000, 0)
	messages, dropped := w.fit(messages)
	if !dropped || w.tokens(messages) > 1100 || w.tokens(messages) < 900 {
		t.Errorf("%v tokens are left", w.tokens(messages))
	}
	if !strings.HasPrefix(messages[0].Text, "the task\n\n[") || messages[len(messages)-1].Text != "and now?" {
		t.Errorf("what the user said: %q, %q", messages[0].Text, messages[len(messages)-1].Text)
	}
	for i, m := range messages {
		if err := follows(messages[:i], m); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	messages, _ = w.forget(messages, 0, 1)
	messages, _ = w.forget(messages, 0, 1)
	if len(messages) != 3 || strings.Count(messages[0].Text, "[") != 1 {
		t.Errorf("left are %+v", messages)
	}
}

func TestTrim(t *testing.T) {
	t.Parallel()
	w := newWindow(1000, 0)
	w.ratio = 0.25 // 1000 bytes are a quarter
	results := []model.Result{{Text: strings.Repeat("é", 300)}, {Text: strings.Repeat("é", 300)}, {Text: strings.Repeat("é", 300)}, {Text: "short"}}
	w.trim(results)
	for i, want := range []string{strings.Repeat("é", 300), strings.Repeat("é", 200), "", "short"} {
		got, said, cut := strings.Cut(results[i].Text, "\n[Cut off here: ")
		if got != want || cut != (i == 1 || i == 2) || i == 2 && !strings.HasPrefix(said, "600 bytes") {
			t.Errorf("%d is %q", i, results[i].Text)
		}
	}
}

type fakeClient func(context.Context) (model.Answer, error)

func (f fakeClient) Ask(ctx context.Context, _ model.Request, _ func(string)) (model.Answer, error) {
	return f(ctx)
}

type fakeTools struct{}

func (fakeTools) Definitions() []tools.Definition { return nil }
func (fakeTools) Run(_ context.Context, calls []tools.Call) []tools.Result {
	return make([]tools.Result, len(calls))
}

// TestWait waits in the time of the test: as long as the server says, and not after the turn was ended.
func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		failures := 2
		client := fakeClient(func(context.Context) (model.Answer, error) {
			if failures--; failures >= 0 {
				return model.Answer{}, &model.Error{Class: model.ClassRateLimit, Status: 429, RetryAfter: 42 * time.Second, Message: "slow"}
			}
			return model.Answer{Message: model.Message{Role: model.RoleAssistant, Text: "done"}}, nil
		})
		o := Options{Tools: fakeTools{}, Events: io.Discard, Connect: func(string) (model.Client, error) { return client, nil }}
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begin); got != 84*time.Second {
			t.Errorf("took %v", got)
		}

		failures = 2
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		e, _ := errors.AsType[*model.Error](Run(ctx, o))
		if e == nil || e.Class != model.ClassIncomplete {
			t.Errorf("got %v", e)
		}
		if got := time.Since(begin); got != (84+50)*time.Second {
			t.Errorf("ended after %v", got)
		}
	})
}

// TestConnectFails is a base URL that is not on loopback.
func TestConnectFails(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := Run(t.Context(), Options{Tools: fakeTools{}, Events: &out, Connect: func(string) (model.Client, error) {
		return model.New(model.Options{API: "chat", BaseURL: "http://example.com/v1", Model: "m"})
	}})
	if err == nil || !strings.Contains(out.String(), `"class":"setup"`) || !strings.Contains(out.String(), "loopback") {
		t.Errorf("got %v, %s", err, out.String())
	}
}
