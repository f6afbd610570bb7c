package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/git-spot/git-spot/internal/agent"
	"github.com/git-spot/git-spot/internal/agent/model"
	"github.com/git-spot/git-spot/internal/agent/tools"
	"github.com/git-spot/git-spot/internal/scriptedmodel"
)

const key = "run-token-0123456789"

// event is any event of the agent.
type event struct{ Type, ID, Text, Name, Status, Class, Message, Stop string }

// bench is a folder, a scripted model and an agent between them.
type bench struct {
	dir    string
	server *scriptedmodel.Server
	waits  []time.Duration
	o      agent.Options
	m      model.Options
}

func newBench(t *testing.T, api string, steps ...scriptedmodel.Step) *bench {
	t.Helper()
	server, err := scriptedmodel.Start(t.Context(), scriptedmodel.Options{Script: scriptedmodel.Script{Steps: steps}, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{dir: t.TempDir(), server: server}
	b.m = model.Options{API: api, BaseURL: server.BaseURL(api), Token: key, Model: "scripted", Now: time.Now}
	b.o = agent.Options{API: api, Model: "scripted", Kind: agent.KindCode, Prompt: "do it", Secret: key}
	b.o.SetWait(func(ctx context.Context, d time.Duration) error {
		b.waits = append(b.waits, d)
		return ctx.Err()
	})
	return b
}

// write makes a file in the folder.
func (b *bench) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a turn and returns its events and its last one.
func (b *bench) run(ctx context.Context, t *testing.T) (all []event, last event, err error) {
	t.Helper()
	set, err := tools.Open(b.dir, b.o.Kind != agent.KindCode)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = set.Close() }()
	var out bytes.Buffer
	o := b.o
	o.Tools, o.Events = set, &out
	o.Connect = func(session string) (model.Client, error) {
		b.m.Session = session
		return model.New(b.m)
	}
	err = agent.Run(ctx, o)
	for line := range bytes.Lines(out.Bytes()) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("no event: %q", line)
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		t.Fatal("no events")
	}
	return all, all[len(all)-1], err
}

func args(v map[string]any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

var apis = []string{model.APIChat, model.APIResponses, model.APIMessages}

// body is the n-th request that the server got, the first is 0.
func (b *bench) body(t *testing.T, n int) string {
	t.Helper()
	requests := b.server.Requests()
	if n >= len(requests) {
		t.Fatalf("there were %d requests", len(requests))
	}
	return string(requests[n].Body)
}

func (b *bench) holds(t *testing.T, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(b.dir, name)); err != nil || string(got) != want {
		t.Errorf("%s is %q, %v; want %q", name, got, err, want)
	}
}

func (b *bench) absent(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(b.dir, name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there (%v)", name, err)
	}
}

// clientFunc is a model.Client.
type clientFunc func(context.Context, model.Request, func(string)) (model.Answer, error)

func (f clientFunc) Ask(ctx context.Context, r model.Request, progress func(string)) (model.Answer, error) {
	return f(ctx, r, progress)
}

// noTools has none.
type noTools struct{}

func (noTools) Definitions() []tools.Definition { return nil }

func (noTools) Run(_ context.Context, calls []tools.Call) []tools.Result {
	results := make([]tools.Result, len(calls))
	for i, c := range calls {
		results[i] = tools.Result{ID: c.ID, Name: c.Name, Text: "there is no tool", Status: tools.StatusError}
	}
	return results
}
