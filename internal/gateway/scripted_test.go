package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/gateway"
	"github.com/git-spot/git-spot/internal/scriptedmodel"
)

// TestScriptedModel: over each wire format the gateway counts what the server sent, to the token.
func TestScriptedModel(t *testing.T) {
	t.Parallel()
	for api := range apis {
		for _, stream := range []bool{false, true} {
			t.Run(api+map[bool]string{true: " in a stream"}[stream], func(t *testing.T) {
				t.Parallel()
				m, err := scriptedmodel.Start(t.Context(), scriptedmodel.Options{Key: theKey, Script: scriptedmodel.Script{
					Steps: []scriptedmodel.Step{
						{Status: 429, RetryAfter: "1"},
						{Calls: []scriptedmodel.Call{{Tool: "read", Args: json.RawMessage(`{"path":"a"}`)}}, Reasoning: "hmm"},
						{Text: "hello"},
					},
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close() //nolint:errcheck // it is a test's
				g := start(t, gateway.Options{Upstream: m.BaseURL(api), API: api, Key: theKey})
				body := apis[api].body
				if stream {
					body = asStream(api)
				}
				body = strings.Replace(body, `{`, `{`+tools[api]+`,`, 1)
				if r := g.post(t, body); r.status != 429 || r.header.Get("Retry-After") != "1" {
					t.Errorf("got %s, want what the server said", r)
				}
				if r := g.post(t, body); r.status != 200 || !strings.Contains(r.body, "read") || r.err != nil {
					t.Errorf("got %s, want a call", r)
				}
				if r := g.post(t, body); r.status != 200 || r.err != nil {
					t.Errorf("got %s, want an answer", r)
				}
				var in, read, out int64
				for _, u := range g.usages {
					in, out = in+*u.UncachedInput, out+*u.Output
					if u.CacheRead != nil {
						read += *u.CacheRead
					}
				}
				sent := m.Usage()
				if len(g.usages) != 2 || in != sent.Input || read != sent.CacheRead || out != sent.Output {
					t.Errorf("got %d in, %d read, %d out in %d requests, want %+v", in, read, out, len(g.usages), sent)
				}
				if _, warnings := g.said(); len(warnings) > 0 {
					t.Errorf("got warnings %q", warnings)
				}
			})
		}
	}
}

// tools are the least definition of a tool that reads.
var tools = map[string]string{
	"chat":      `"tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}]`,
	"responses": `"tools":[{"type":"function","name":"read","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}]`,
	"messages":  `"tools":[{"name":"read","input_schema":{"type":"object","properties":{"path":{"type":"string"}}}}]`,
}
