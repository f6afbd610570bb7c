package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
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

func TestEdit(t *testing.T) {
	t.Parallel()
	for _, api := range apis {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, api,
				scriptedmodel.Step{Text: "I look.", Calls: []scriptedmodel.Call{{Tool: "read", Args: args(map[string]any{"path": "a.txt"})}}},
				scriptedmodel.Step{Reasoning: "hm", Calls: []scriptedmodel.Call{{Tool: "write", Args: args(map[string]any{"path": "b.txt", "content": "new\n"})}}},
				scriptedmodel.Step{Text: "Done it."},
			)
			b.write(t, "a.txt", "old\n")
			all, last, err := b.run(t.Context(), t)
			if err != nil || last != (event{Type: "final", Text: "Done it.", Stop: "done"}) {
				t.Errorf("got %+v, %v", last, err)
			}
			t.Logf("%+v", all)
			if got, err := os.ReadFile(filepath.Join(b.dir, "b.txt")); err != nil || string(got) != "new\n" {
				t.Errorf("b.txt is %q, %v", got, err)
			}
		})
	}
}
