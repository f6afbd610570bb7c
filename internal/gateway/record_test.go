package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/gateway"
	"github.com/git-spot/git-spot/internal/scriptedmodel"
	"github.com/git-spot/git-spot/schemas"
)

// tape is a record that any number of exchanges write to.
type tape struct {
	mu sync.Mutex
	bytes.Buffer
}

func (t *tape) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Buffer.Write(p)
}

// TestReplay: what was recorded comes back byte by byte, with the same usage, the same errors and the
// same breaks, without a provider and without a key.
func TestReplay(t *testing.T) {
	t.Parallel()
	for api := range apis {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			m, err := scriptedmodel.Start(t.Context(), scriptedmodel.Options{Key: theKey, Script: scriptedmodel.Script{
				Steps: []scriptedmodel.Step{
					{Status: 429, RetryAfter: "1"},
					{Text: "first <a&b> \u2028 \x7f"},
					{Text: "never", Fault: scriptedmodel.FaultDrop},
				},
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close() //nolint:errcheck // it is a test's
			var record tape
			bodies := []string{apis[api].body, asStream(api), apis[api].body}
			say := func(g *run) (results []string, usages []string) {
				for _, body := range bodies {
					got := g.post(t, body)
					got.header.Del("Date")
					results = append(results, fmt.Sprint(got.status, got.header, got.body, got.err))
				}
				if err := g.Close(); err != nil {
					t.Error(err)
				}
				usages, _ = g.said()
				return results, usages
			}
			results, usages := say(start(t, gateway.Options{Upstream: m.BaseURL(api), API: api, Key: theKey, Record: &record}))
			again, usagesAgain := say(start(t, gateway.Options{API: api, Replay: bytes.NewReader(record.Bytes())}))
			if !slices.Equal(again, results) || !slices.Equal(usagesAgain, usages) {
				t.Errorf("got  %q, %q\nwant %q, %q", again, usagesAgain, results, usages)
			}
			if lines := strings.Count(record.String(), "\n"); lines != 3 {
				t.Errorf("got %d lines, want 3", lines)
			}
			if strings.Contains(record.String(), theKey) {
				t.Error("the key is in the record")
			}
		})
	}
}

// TestReplayInOrder: equal requests get their answers in the order of the record, and then no more.
func TestReplayInOrder(t *testing.T) {
	t.Parallel()
	line := func(body, says string) string {
		return fmt.Sprintf(`{"request":{"method":"POST","path":"/chat/completions","body":%q},"response":{"status":200,"header":{"Content-Type":"application/json","Set-Cookie":"x"},"body":%q}}`+"\n", body, says)
	}
	record := line(apis["chat"].body, "1") + line(`{"model":"m"}`, "other") + "\n" + line(apis["chat"].body, "2")
	g := start(t, gateway.Options{Replay: strings.NewReader(record)})
	for _, want := range []string{"1", "2"} {
		if got := g.post(t, " "+apis["chat"].body); got.body != want || got.header.Get("Set-Cookie") != "" {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, body := range []string{apis["chat"].body, `{"model":"m","messages":[]}`} {
		if got := g.post(t, body); got.status != 400 || !strings.Contains(got.body, "not_recorded") {
			t.Errorf("got %s", got)
		}
	}
	if got := g.post(t, `{"model":"m"}`); got.body != "other" {
		t.Errorf("got %s", got)
	}
}

func TestRecordsThatCannotBeReplayed(t *testing.T) {
	t.Parallel()
	for record, says := range map[string]string{
		"{}\n":           "line 1 of the record has no status",
		"\n\nnonsense\n": "line 3 of the record",
		`{"request":{"method":"POST","path":"/x","body":"{}"},"response":{"status":101}}`: "line 1",
	} {
		if _, err := tryStart(t, gateway.Options{Replay: strings.NewReader(record)}, gateway.Bounds{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", record, err, says)
		}
	}
	if _, err := tryStart(t, gateway.Options{Replay: broken{}}, gateway.Bounds{}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

var errBroken = errors.New("broken")

// broken is a file that can be neither read nor written.
type broken struct{}

func (broken) Read([]byte) (int, error)  { return 0, errBroken }
func (broken) Write([]byte) (int, error) { return 0, errBroken }

// TestNothingSecretIsRecorded: neither the key nor the token nor anything that looks like one, and the
// record is what it was but for that.
func TestNothingSecretIsRecorded(t *testing.T) {
	t.Parallel()
	const other = "ghp_0123456789abcdefghij0123456789abcdefghij"
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", other)
		_, _ = io.WriteString(w, `{"model":"m","a":"`+r.Header.Get("Authorization")+`","b":"line\n`+other+`\nline","usage":{}}`)
	})
	var record tape
	g := start(t, gateway.Options{Upstream: p.URL, Key: theKey, Record: &record, Redact: config.Redactor{}.With("another-profiles-key")})
	body := `{"model":"m","messages":[{"role":"user","content":"x\n` + g.Token() + `\n` + other + ` \"API_KEY=0123456789abc\" another-profiles-key"}]}`
	if got := g.post(t, body); got.status != 200 || !strings.Contains(got.body, other) {
		t.Fatalf("got %s: the worker gets what it got", got)
	}
	for _, secret := range []string{theKey, g.Token(), other, "0123456789abc", "another-profiles-key"} {
		if strings.Contains(record.String(), secret) {
			t.Errorf("%s is in %s", secret, record.String())
		}
	}
	var line struct {
		Request  struct{ Body string }
		Response struct{ Body string }
	}
	if err := json.Unmarshal(record.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","messages":[{"role":"user","content":"x\n[redacted]\n[redacted] \"API_KEY=[redacted]\" [redacted]"}]}`
	if line.Request.Body != want {
		t.Errorf("got  %s\nwant %s", line.Request.Body, want)
	}
	if want := `{"model":"m","a":"Bearer [redacted]","b":"line\n[redacted]\nline","usage":{}}`; line.Response.Body != want {
		t.Errorf("got  %s\nwant %s", line.Response.Body, want)
	}
}

// TestWhatIsNotRecorded: what cannot be written down whole is left out, and the worker does not notice.
func TestWhatIsNotRecorded(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, answer, says string
		to                 io.Writer
	}{
		{"no text", "\xff\xfe", "not text", &tape{}},
		{"too long", `{"a":"` + strings.Repeat("x", 17<<20) + `"}`, "too long", &tape{}},
		{"a full disk", "{}", "was not recorded: broken", broken{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, answer(200, nil, row.answer))
			g := start(t, gateway.Options{Upstream: p.URL, Record: row.to})
			for range 2 {
				if got := g.post(t, apis["chat"].body); got.status != 200 || got.body != row.answer {
					t.Errorf("got %s", got)
				}
			}
			_, warnings := g.said()
			if len(warnings) != 1 || !strings.Contains(warnings[0], row.says) {
				t.Errorf("got %q", warnings)
			}
			if tape, ok := row.to.(*tape); ok && tape.Len() > 0 {
				t.Errorf("got %.100q", tape.String())
			}
		})
	}
}

// TestReplayHasABudget: limits hold for a record as for a provider.
func TestReplayHasABudget(t *testing.T) {
	t.Parallel()
	p := serve(t, answer(200, nil, apis["chat"].answer))
	var record tape
	g := start(t, gateway.Options{Upstream: p.URL, Record: &record})
	g.post(t, apis["chat"].body)
	g.post(t, apis["chat"].body)
	g = start(t, gateway.Options{Replay: &record, Limits: schemas.Limits{MaxTokens: 15}})
	if got := g.post(t, apis["chat"].body); got.status != 200 {
		t.Errorf("got %s", got)
	}
	if got := g.post(t, apis["chat"].body); got.status != 402 {
		t.Errorf("got %s", got)
	}
}

// FuzzRecord: a record is read or refused, whatever is in it.
func FuzzRecord(f *testing.F) {
	f.Add(`{"request":{"method":"POST","path":"/chat/completions","body":"{\"prompt_cache_key\":1}"},"response":{"status":200,"header":{"a":"b"},"body":"x","cut":true}}` + "\n")
	f.Add("\n{}\n[")
	f.Add(`{"response":{"status":1e3,"header":null}}`)
	f.Fuzz(func(t *testing.T, in string) {
		if err := gateway.ReadRecord(strings.NewReader(in)); err == nil && strings.Contains(in, "status") && !strings.ContainsAny(in, "2345") {
			t.Fatalf("%q has no status that there is", in)
		}
	})
}
