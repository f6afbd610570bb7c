package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
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

func TestWindow(t *testing.T) {
	t.Parallel()
	var messages []model.Message
	add := func(bytes int) {
		messages = append(messages,
			model.Message{Role: model.RoleAssistant, Calls: []model.Call{{ID: "c", Name: "read", Arguments: []byte("{}")}}},
			model.Message{Role: model.RoleTool, Results: []model.Result{{ID: "c", Name: "read", Text: strings.Repeat("x", bytes)}}})
	}
	kept := func() (n int) {
		for _, m := range messages {
			for _, r := range m.Results {
				if strings.HasPrefix(r.Text, "xxx") {
					n++
				}
			}
		}
		return n
	}
	w := newWindow(10_000, 1000)
	for range 10 {
		add(1000)
	}
	w.learn(messages, 6000)
	if w.fit(messages) || kept() != 10 {
		t.Error("6000 tokens of 10000 are no reason to drop anything")
	}
	w.learn(messages, 8000) // the same bytes, by the server's count
	if !w.fit(messages) || kept() != 5 || w.tokens(messages) > 5000 {
		t.Errorf("%d are left, %v tokens", kept(), w.tokens(messages))
	}
	if !strings.HasPrefix(messages[len(messages)-1].Results[0].Text, "xxx") || strings.HasPrefix(messages[1].Results[0].Text, "xxx") {
		t.Error("not the oldest were dropped")
	}
	if w.fit(messages) {
		t.Error("dropped again")
	}
	if !w.refused(messages) || kept() > 3 {
		t.Errorf("the server refused it, and %d are left", kept())
	}
	for w.refused(messages) {
		if kept() == 0 {
			t.Fatal("the last output was dropped")
		}
	}
	w.learn(messages, 1<<60)
	w.learn(messages, -5)
	if w.ratio != 1.5 {
		t.Errorf("a token is %v of a byte", w.ratio)
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
