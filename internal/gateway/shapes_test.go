package gateway_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/git-spot/git-spot/internal/gateway"
	"github.com/git-spot/git-spot/schemas"
)

// TestShapes: of the answer of every documented provider, in a stream and in one piece and however it is
// cut on the way, the worker gets every byte and the user is told what it cost.
func TestShapes(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"testdata/shapes/*.txtar", "../agent/model/testdata/shapes/*.txtar"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: got %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for pair := range slices.Chunk(archive.Files, 2) {
			name := strings.TrimSuffix(pair[0].Name, ".json")
			var want struct {
				API, Model string
				Usage      *schemas.Usage
				Unknown    bool
				Warnings   []string
			}
			if err := json.Unmarshal(pair[0].Data, &want); err != nil || len(pair) != 2 || pair[1].Name != name+".http" {
				t.Fatalf("%s: %s: %v", file, name, err)
			}
			if want.Unknown {
				want.Warnings = append(want.Warnings, "usage of 1 request is not known")
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+name, func(t *testing.T) {
				t.Parallel()
				for _, size := range []int{1, 7, len(pair[1].Data)} {
					recorded, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(pair[1].Data)), nil)
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(recorded.Body)
					if err != nil || recorded.Body.Close() != nil {
						t.Fatal(err)
					}
					usages, warnings := throughGateway(t, want.API, want.Model, recorded, body, size)
					var usage *schemas.Usage
					if len(usages) > 0 {
						usage = &usages[0]
					}
					if diff := cmp.Diff(want.Usage, usage, cmp.Comparer(func(a, b float64) bool { return max(a-b, b-a) < 1e-9 })); diff != "" {
						t.Errorf("in pieces of %d: usage: %s", size, diff)
					}
					if len(usages) > 1 || !slices.Equal(warnings, want.Warnings) {
						t.Errorf("in pieces of %d: got %d usages and warnings %q, want %q", size, len(usages), warnings, want.Warnings)
					}
				}
			})
		}
	}
}

// throughGateway asks a provider that answers in pieces of size bytes, and returns what the gateway says.
func throughGateway(t *testing.T, api, model string, recorded *http.Response, body []byte, size int) (usages []schemas.Usage, warnings []string) {
	t.Helper()
	provider := httptest.NewServer(inPieces(recorded, body, size))
	defer provider.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.Start(t.Context(), ln, gateway.Options{
		Upstream: provider.URL, API: api, Model: model,
		Usage: func(u schemas.Usage) { usages = append(usages, u) },
		Warn:  func(text string) { warnings = append(warnings, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	request := map[string]string{
		"chat":      "/chat/completions " + `{"model":"` + model + `","stream":true,"messages":[{"role":"user","content":"go"}]}`,
		"responses": "/responses " + `{"model":"` + model + `","stream":true,"input":"go"}`,
		"messages":  "/v1/messages " + `{"model":"` + model + `","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"go"}]}`,
	}[api]
	path, asked, _ := strings.Cut(request, " ")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.BaseURL()+path, strings.NewReader(asked))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+g.Token())
	got, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(got.Body)
	if err != nil || got.Body.Close() != nil || got.StatusCode != recorded.StatusCode || !bytes.Equal(said, body) ||
		got.Header.Get("Content-Type") != recorded.Header.Get("Content-Type") ||
		got.Header.Get("Retry-After") != recorded.Header.Get("Retry-After") {
		t.Errorf("in pieces of %d: got %d %.300q %v, want what the provider said", size, got.StatusCode, said, err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	return usages, warnings
}

// inPieces is a provider that sends each size bytes of its answer for themselves.
func inPieces(recorded *http.Response, body []byte, size int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), recorded.Header)
		w.WriteHeader(recorded.StatusCode)
		for piece := range slices.Chunk(body, size) {
			if _, err := w.Write(piece); err != nil {
				return
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
		}
	}
}
