package model_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/git-spot/git-spot/internal/agent/model"
	"github.com/git-spot/git-spot/internal/gateway"
	"github.com/git-spot/git-spot/schemas"
)

// shape is what an answer in testdata/shapes means.
type shape struct {
	API   string `json:"api"`
	Model string `json:"model"` // that is asked for

	Text  string     `json:"text"`
	Calls []called   `json:"calls"`
	Stop  model.Stop `json:"stop"` // "" is model.StopEnd
	Echo  []string   `json:"echo"` // what must be in the next request

	Class      model.Class `json:"class"` // "" is no error
	TooLong    bool        `json:"tooLong"`
	RetryAfter int         `json:"retryAfter"` // seconds

	Usage    *schemas.Usage `json:"usage"`    // nil is none
	Unknown  bool           `json:"unknown"`  // whether a part of the usage, or all, is not known
	Warnings []string       `json:"warnings"` // beside that
}

type called struct {
	ID   string          `json:"id"` // "" is any
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// shapes calls f with each answer in testdata/shapes: each of the documented wire formats, written down
// from the documentation that the head of the file names.
func shapes(t *testing.T, f func(t *testing.T, want shape, answer []byte)) {
	t.Helper()
	files, err := filepath.Glob("testdata/shapes/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %v, %v", files, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for pair := range slices.Chunk(archive.Files, 2) {
			name, ok := strings.CutSuffix(pair[0].Name, ".json")
			if !ok || len(pair) != 2 || pair[1].Name != name+".http" {
				t.Fatalf("%s: %s has no answer", file, pair[0].Name)
			}
			d := json.NewDecoder(bytes.NewReader(pair[0].Data))
			d.DisallowUnknownFields()
			var want shape
			if err := d.Decode(&want); err != nil {
				t.Fatalf("%s: %s: %v", file, name, err)
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+name, func(t *testing.T) {
				t.Parallel()
				f(t, want, pair[1].Data)
			})
		}
	}
}

// provider answers every request with the same recorded answer, and keeps the last body.
type provider struct {
	*httptest.Server
	mu   sync.Mutex
	body []byte
}

func serve(t *testing.T, answer []byte) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.body = body
		p.mu.Unlock()
		recorded, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), r)
		if err != nil {
			t.Error(err)
			return
		}
		maps.Copy(w.Header(), recorded.Header)
		w.WriteHeader(recorded.StatusCode)
		_, _ = io.Copy(w, recorded.Body)
		_ = recorded.Body.Close()
	}))
	t.Cleanup(p.Close)
	return p
}

// Every documented shape means the same to the gateway, which meters it, and to the client behind the
// gateway, which understands it and sends back what the provider wants back.
func TestShapes(t *testing.T) {
	t.Parallel()
	shapes(t, func(t *testing.T, want shape, answer []byte) {
		p := serve(t, answer)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var usages []schemas.Usage
		var warnings []string
		g, err := gateway.Start(t.Context(), ln, gateway.Options{
			Upstream: p.URL + "/v1", API: want.API, Model: want.Model,
			Usage: func(u schemas.Usage) { usages = append(usages, u) },
			Warn:  func(text string) { warnings = append(warnings, text) },
		})
		if err != nil {
			t.Fatal(err)
		}
		client, err := model.New(model.Options{
			API: want.API, BaseURL: g.BaseURL(), Token: g.Token(), Model: want.Model, Now: time.Now, Idle: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		request := model.Request{
			System:   "Be brief.",
			Messages: []model.Message{{Role: model.RoleUser, Text: "go"}},
			Tools:    []model.Tool{{Name: "read", Description: "Reads.", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}},
		}
		var heard strings.Builder
		got, err := client.Ask(t.Context(), request, func(text string) { heard.WriteString(text) })
		if want.Class != "" {
			want.refused(t, err)
		} else {
			want.answered(t, got, err, heard.String())
		}
		for _, fragment := range want.Echo {
			next := request
			next.Messages = append(slices.Clone(request.Messages), got.Message, follow(got))
			if _, err := client.Ask(t.Context(), next, func(string) {}); err != nil {
				t.Error(err)
			}
			p.mu.Lock()
			if !strings.Contains(string(p.body), fragment) {
				t.Errorf("the next request has no %s: %s", fragment, p.body)
			}
			p.mu.Unlock()
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		want.metered(t, usages, warnings)
	})
}

// follow is what comes after an answer.
func follow(a model.Answer) model.Message {
	if len(a.Calls) == 0 {
		return model.Message{Role: model.RoleUser, Text: "go on"}
	}
	m := model.Message{Role: model.RoleTool}
	for _, c := range a.Calls {
		m.Results = append(m.Results, model.Result{ID: c.ID, Name: c.Name, Text: "a result", Status: "ok"})
	}
	return m
}

func (want shape) refused(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		t.Fatalf("got %v, want an error of class %s", err, want.Class)
	}
	after := time.Duration(want.RetryAfter) * time.Second
	if e.Class != want.Class || e.TooLong != want.TooLong || e.RetryAfter != after || e.Message == "" {
		t.Errorf("got class %s, too long %t, retry after %v (%v), want %s, %t, %v",
			e.Class, e.TooLong, e.RetryAfter, e, want.Class, want.TooLong, after)
	}
}

func (want shape) answered(t *testing.T, got model.Answer, err error, heard string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if want.Stop == "" {
		want.Stop = model.StopEnd
	}
	if got.Text != want.Text || got.Stop != want.Stop || got.Role != model.RoleAssistant {
		t.Errorf("got %s %q, stop %s, want %q, %s", got.Role, got.Text, got.Stop, want.Text, want.Stop)
	}
	if got.Stop != model.StopRefused && heard != want.Text {
		t.Errorf("heard %q on the way, want %q", heard, want.Text)
	}
	var calls []called
	for i, c := range got.Calls {
		one := called{c.ID, c.Name, c.Arguments}
		if c.ID == "" || c.Malformed != "" {
			t.Errorf("got the call %+v", c)
		}
		if i < len(want.Calls) && want.Calls[i].ID == "" {
			one.ID = ""
		}
		calls = append(calls, one)
	}
	if diff := cmp.Diff(want.Calls, calls, cmp.Transformer("json", func(r json.RawMessage) (v any) {
		if err := json.Unmarshal(r, &v); err != nil {
			t.Error(err)
		}
		return v
	})); diff != "" {
		t.Errorf("calls: %s", diff)
	}
}

func (want shape) metered(t *testing.T, usages []schemas.Usage, warnings []string) {
	t.Helper()
	if want.Unknown {
		want.Warnings = append(want.Warnings, "usage of 1 request is not known")
	}
	if !slices.Equal(warnings, want.Warnings) {
		t.Errorf("got warnings %q, want %q", warnings, want.Warnings)
	}
	for _, got := range usages {
		if want.Usage == nil {
			want.Usage = &schemas.Usage{} // which is none
		}
		if diff := cmp.Diff(*want.Usage, got, cmp.Comparer(func(a, b float64) bool { return max(a-b, b-a) < 1e-9 })); diff != "" {
			t.Errorf("usage: %s", diff)
		}
	}
	if want.Usage != nil && len(usages) != 1+len(want.Echo) {
		t.Errorf("%d requests had a usage", len(usages))
	}
}
