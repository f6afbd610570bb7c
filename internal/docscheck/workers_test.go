package docscheck_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/gateway"
	"github.com/git-spot/git-spot/internal/gitexec"
)

const (
	workersPage = root + "/docs/workers.md"
	shapes      = root + "/internal/agent/model/testdata/shapes/"
)

// providers are those that docs/workers.md has to have, with their profiles.
var providers = map[string]string{
	"Ollama": "ollama", "llama.cpp": "llamacpp", "vLLM": "vllm", "LM Studio": "lmstudio", "DeepSeek": "deepseek",
	"Moonshot": "kimi", "Zhipu GLM": "glm", "Volcengine": "volcengine", "MiniMax": "minimax-m3", "Qwen": "qwen",
	"OpenRouter": "openrouter", "OpenAI": "openai", "Anthropic": "anthropic", "Gemini": "gemini",
}

var (
	configBlock = regexp.MustCompile("(?ms)^```sh config( rates)?\n(.*?)^```$")
	profileKey  = regexp.MustCompile(`spot\.profile\.([a-z0-9-]+)\.`)
	providerRow = regexp.MustCompile("(?m)^\\| \\[([^]]+)\\]\\(#([a-z0-9-]+)\\) \\| `([a-z0-9-]+)` \\| (\\w+) \\| (\\w+) \\| ([^|]+) \\|")
)

// What a person copies out of docs/workers.md is what real git takes, and makes a profile that the
// gateway can be started with.
func TestWorkersBlocks(t *testing.T) {
	t.Parallel()
	page := read(t, workersPage)
	found := map[string]bool{}
	for at := range strings.SplitSeq("\n"+page, "\n### ") {
		name, text, _ := strings.Cut(at, "\n")
		profile, ok := providers[name]
		if !ok {
			continue
		}
		found[name] = true
		blocks := configBlock.FindAllStringSubmatch(text, -1)
		if len(blocks) != 1 {
			t.Errorf("%s has %d blocks", name, len(blocks))
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			block := blocks[0][2]
			for _, key := range profileKey.FindAllStringSubmatch(block, -1) {
				if key[1] != profile {
					t.Errorf("it sets %s", key[0])
				}
			}
			shipped := configured(t, "").Profiles[profile]
			p := configured(t, block).Profiles[profile]
			if p == nil || p.Adapter != "builtin" || p.Model == "" || p.BaseURL == "" || p.MaxContextSize == 0 {
				t.Fatalf("got the profile %+v", p)
			}
			key := ""
			if p.APIKeyEnv != "" {
				key = "a-key-of-the-user"
				if !strings.Contains(block, "export "+p.APIKeyEnv+"=...\n") {
					t.Errorf("it does not say where %s comes from", p.APIKeyEnv)
				}
				if shipped != nil && shipped.Model != p.Model {
					t.Errorf("the profile is shipped with the model %s", shipped.Model)
				}
			}
			startGateway(t, p, key)
		})
	}
	for name := range providers {
		if !found[name] {
			t.Errorf("no section for %s", name)
		}
	}
	rates := 0
	for _, block := range configBlock.FindAllStringSubmatch(page, -1) {
		if block[1] != "" {
			rates++
			if rate := configured(t, block[2]).Rates["deepseek-v4-flash"]; rate.Input == nil || rate.CacheRead == nil || rate.Output == nil {
				t.Errorf("got the rates %+v", rate)
			}
		}
	}
	if rates != 1 {
		t.Errorf("%d blocks with rates", rates)
	}
}

// The table of providers has a row for each, which says the API that its block sets up, and names shapes
// that are tested. Who tries one live changes the row, and this test.
func TestWorkersTable(t *testing.T) {
	t.Parallel()
	page := read(t, workersPage)
	named := map[string]bool{}
	rows := providerRow.FindAllStringSubmatch(page, -1)
	for _, row := range rows {
		name, anchor, profile, api, live := row[1], row[2], row[3], row[4], row[5]
		if providers[name] != profile || live != "no" {
			t.Errorf("got the row %q", row[0])
		}
		if want := strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(name), " ", "-"), ".", ""); anchor != want {
			t.Errorf("%s: the link leads to #%s, not #%s", name, anchor, want)
		}
		for _, shape := range quoted.FindAllStringSubmatch(row[6], -1) {
			named[shape[1]] = true
			if _, err := os.Stat(shapes + shape[1] + ".txtar"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, text, _ := strings.Cut(page, "\n### "+name+"\n")
		block := configBlock.FindStringSubmatch(text)
		if block == nil || configured(t, block[2]).Profiles[profile].API != api {
			t.Errorf("%s: the block does not set up %s", name, api)
		}
	}
	if len(rows) != len(providers) {
		t.Errorf("%d rows, want %d", len(rows), len(providers))
	}
	files, err := filepath.Glob(shapes + "*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".txtar"); !named[name] {
			t.Errorf("no provider has the shapes %s", name)
		}
	}
}

// configured is the configuration of a user who has run block.
func configured(t *testing.T, block string) *config.Config {
	t.Helper()
	home := t.TempDir()
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": home, "GIT_CONFIG_GLOBAL": filepath.Join(home, ".gitconfig"), "GIT_CONFIG_NOSYSTEM": "1",
	}
	sh := exec.CommandContext(t.Context(), "sh", "-eu", "-c", "git init --quiet .\n"+block)
	sh.Dir = home
	for name, value := range env {
		sh.Env = append(sh.Env, name+"="+value)
	}
	if out, err := sh.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	repo, err := gitexec.Discover(t.Context(), gitexec.Options{Dir: home, Getenv: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := repo.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(entries)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// startGateway starts what would stand before the provider of p; it connects to nobody.
func startGateway(t *testing.T, p *config.Profile, key string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.Start(t.Context(), ln, gateway.Options{
		Upstream: p.BaseURL, API: p.API, Model: p.Model, Key: key,
		Warn: func(text string) { t.Errorf("the gateway warns: %s", text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
