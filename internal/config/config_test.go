package config_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// entry is a line of configuration as git lists it: "key=value" from a scope.
func entry(scope, line string) gitexec.ConfigEntry {
	key, value, _ := strings.Cut(line, "=")
	return gitexec.ConfigEntry{Key: key, Value: value, Scope: scope, Origin: "file:/" + scope}
}

func local(lines ...string) []gitexec.ConfigEntry {
	var entries []gitexec.ConfigEntry
	for _, line := range lines {
		entries = append(entries, entry("local", line))
	}
	return entries
}

func parse(t *testing.T, entries []gitexec.ConfigEntry) *config.Config {
	t.Helper()
	c, err := config.Parse(entries)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func refused(t *testing.T, entries []gitexec.ConfigEntry) *config.Error {
	t.Helper()
	c, err := config.Parse(entries)
	e, ok := errors.AsType[*config.Error](err)
	if !ok {
		t.Fatalf("got %v, %v, want a *config.Error", c, err)
	}
	if c != nil || e.Code() != schemas.CodeConfigInvalid {
		t.Errorf("got %v with code %s, want nothing with %s", c, e.Code(), schemas.CodeConfigInvalid)
	}
	return e
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c := parse(t, nil)
	if c.MaxConcurrentRuns != 4 || c.MaxRevisions != 2 || c.DefaultProfile != "deepseek" || c.Sandbox != "prefer" ||
		c.Integrate != "ff-only" || c.RunHooks || len(c.Callers) != 0 {
		t.Errorf("got %+v", c)
	}
	want := config.SelfReview{
		Enabled: true, MinDiffBytes: 500, MinSurfaceBytes: 4000, SpotCheckRatio: 0.34, SpotCheckCount: 3,
	}
	if c.SelfReview != want {
		t.Errorf("got %+v, want %+v", c.SelfReview, want)
	}
}

func TestShippedProfiles(t *testing.T) {
	t.Parallel()
	c := parse(t, nil)
	tiers := map[string]string{
		"deepseek": "cheap", "glm": "cheap", "volcengine": "standard", "kimi": "standard", "minimax-m3": "premium",
		"gemini-vision": "premium", "gpt-image": "premium", "zcode": "", "kimi-cli": "", "trae-cli": "", "qoder-cli": "",
		"codebuddy-cli": "", "opencode-cli": "", "claude-cli": "", "codex-cli": "", "qwen-cli": "", "gemini-cli": "",
		"ollama": "", "llamacpp": "",
	}
	if got, want := slices.Sorted(maps.Keys(c.Profiles)), slices.Sorted(maps.Keys(tiers)); !slices.Equal(got, want) {
		t.Errorf("got profiles %v, want %v", got, want)
	}
	for name, tier := range tiers {
		if got := c.Profiles[name].CostTier; got != tier {
			t.Errorf("%s: got tier %q, want %q", name, got, tier)
		}
	}
	if !slices.Contains(c.Profiles["gemini-vision"].Capabilities, "vision-input") ||
		!slices.Contains(c.Profiles["gpt-image"].Capabilities, "image-output") {
		t.Error("the vision and image profiles do not say so")
	}
	if got := c.Profiles["qoder-cli"].Model; got != "free" {
		t.Errorf("qoder-cli: got model %q, want free", got)
	}
}

func TestScalarsAndLayers(t *testing.T) {
	t.Parallel()
	c := parse(t, []gitexec.ConfigEntry{
		entry("system", "spot.maxconcurrentruns=2"),
		entry("global", "spot.maxconcurrentruns=0x8"),
		entry("global", "spot.profile.deepseek.model=deepseek-coder"),
		entry("local", "spot.runhooks=on"),
		entry("local", "spot.selfReview.mindiffbytes=2k"),
		entry("local", "spot.profile.glm.selfReview.enabled=no"),
		entry("local", "spot.profile.glm.selfReview.spotcheckratio=.5"),
		entry("local", "spot.profile.kimi.costtier="),
		entry("local", "spot.caller.claude-code.profile=glm"),
		entry("local", "spot.rate.glm-5.2.cacheread=0.11"),
		entry("local", "spot.subscription.codex.plan=pro"),
		entry("local", "core.autocrlf=true"),
	})
	if c.MaxConcurrentRuns != 8 || !c.RunHooks {
		t.Errorf("got %d runs, hooks %v", c.MaxConcurrentRuns, c.RunHooks)
	}
	if p := c.Profiles["deepseek"]; p.Model != "deepseek-coder" || p.APIKeyEnv != "DEEPSEEK_API_KEY" {
		t.Errorf("got %+v, want the model replaced and the rest kept", p)
	}
	if p := c.Profiles["glm"]; p.SelfReview.Enabled || p.SelfReview.SpotCheckRatio != 0.5 || p.SelfReview.MinDiffBytes != 2048 {
		t.Errorf("got %+v, want the profile's own values over the general ones", p.SelfReview)
	}
	if got := c.Profiles["kimi"].CostTier; got != "" {
		t.Errorf("got tier %q, want an empty value to take the shipped one back", got)
	}
	if got := c.Callers["claude-code"]; got != "glm" {
		t.Errorf("got %q, want glm", got)
	}
	if r := c.Rates["glm-5.2"]; r.CacheRead == nil || *r.CacheRead != 0.11 || r.Input != nil {
		t.Errorf("got %+v, want cacheRead alone", r)
	}
}

func TestListTakesOneScope(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		entries []gitexec.ConfigEntry
		want    []string
	}{
		{"one scope in order", local("spot.alwayslockedpath=b", "spot.alwayslockedpath=a"), []string{"b", "a"}},
		{"never a mix", []gitexec.ConfigEntry{
			entry("system", "spot.alwayslockedpath=s"), entry("global", "spot.alwayslockedpath=g"),
			entry("global", "spot.alwayslockedpath=h"),
		}, []string{"g", "h"}},
		{"command line is highest", []gitexec.ConfigEntry{
			entry("global", "spot.alwayslockedpath=g"), entry("worktree", "spot.alwayslockedpath=w"),
			entry("command", "spot.alwayslockedpath=c"),
		}, []string{"c"}},
		{"empty drops what came before", local("spot.alwayslockedpath=a", "spot.alwayslockedpath=", "spot.alwayslockedpath=b"), []string{"b"}},
		{"empty hides lower scopes", []gitexec.ConfigEntry{
			entry("global", "spot.alwayslockedpath=g"), entry("local", "spot.alwayslockedpath="),
		}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := parse(t, row.entries).AlwaysLockedPath; !slices.Equal(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestCommandProfile(t *testing.T) {
	t.Parallel()
	c := parse(t, local("spot.profile.w.adapter=command", "spot.profile.w.argv=sh", "spot.profile.w.argv=-c",
		"spot.profile.w.argv=echo hi >> a.txt", "spot.profile.w.env=MARK", "spot.profile.w.env=X=1"))
	p := c.Profiles["w"]
	if !slices.Equal(p.Argv, []string{"sh", "-c", "echo hi >> a.txt"}) || p.Prompt != "stdin" || p.Output != "text" {
		t.Errorf("got %+v", p)
	}
	if !slices.Equal(p.Capabilities, []string{"tool-use"}) {
		t.Errorf("got capabilities %v, want that an agent uses tools", p.Capabilities)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, line, key, nearest string
	}{
		{"unknown key", "spot.maxconcurentruns=3", "spot.maxconcurentruns", "spot.maxConcurrentRuns"},
		{"unknown profile key", "spot.profile.deepseek.apikey=X", "spot.profile.deepseek.apikey", "spot.profile.deepseek.apiKeyEnv"},
		{"unknown key of a new profile", "spot.profile.n.modl=X", "spot.profile.n.modl", "spot.profile.n.model"},
		{"section in lower case", "spot.selfreview.enabled=1", "spot.selfreview.enabled", "spot.selfReview.enabled"},
		{"range", "spot.maxconcurrentruns=17", "spot.maxConcurrentRuns", ""},
		{"range below", "spot.maxconcurrentruns=0", "spot.maxConcurrentRuns", ""},
		{"overflow", "spot.maxconcurrentruns=9999999999999999999g", "spot.maxConcurrentRuns", ""},
		{"overflow by unit", "spot.selfReview.mindiffbytes=9223372036854775807g", "spot.selfReview.minDiffBytes", ""},
		{"not a number", "spot.maxconcurrentruns=four", "spot.maxConcurrentRuns", ""},
		{"not git's number", "spot.maxconcurrentruns=0b11", "spot.maxConcurrentRuns", ""},
		{"not a ratio", "spot.selfReview.spotcheckratio=nan", "spot.selfReview.spotCheckRatio", ""},
		{"not a boolean", "spot.runhooks=maybe", "spot.runHooks", ""},
		{"word", "spot.sandbox=required", "spot.sandbox", "require"},
		{"adapter", "spot.profile.kimi.adapter=kmi", "spot.profile.kimi.adapter", "kimi"},
		{"capability", "spot.profile.kimi.capabilities=vision", "spot.profile.kimi.capabilities", "vision-input"},
		{"default profile", "spot.defaultprofile=deepsek", "spot.defaultProfile", "deepseek"},
		{"caller", "spot.caller.claudecode.profile=glm", "spot.caller.claudecode.profile", "claude-code"},
		{"caller's profile", "spot.caller.codex.profile=glmm", "spot.caller.codex.profile", "glm"},
		{"fallback", "spot.profile.glm.fallbackprofiles=kim", "spot.profile.glm.fallbackProfiles", "kimi"},
		{"own fallback", "spot.profile.glm.fallbackprofiles=glm", "spot.profile.glm.fallbackProfiles", ""},
		{"profile without adapter", "spot.profile.deepsek.model=x", "spot.profile.deepsek.adapter", "deepseek"},
		{"profile with dots", "spot.profile.a.b.model=x", "spot.profile.a.b.model", ""},
		{"profile's name", "spot.profile.a b.adapter=pi", "spot.profile.a b.adapter", ""},
		{"command without argv", "spot.profile.w.adapter=command", "spot.profile.w.argv", ""},
		{"argv without command", "spot.profile.glm.argv=x", "spot.profile.glm.argv", ""},
		{"relative program", "spot.profile.pi2.program=./pi", "spot.profile.pi2.adapter", ""},
		{"URL with password", "spot.profile.glm.baseurl=https://u:pw@h/", "spot.profile.glm.baseURL", ""},
		{"URL of a file", "spot.profile.glm.baseurl=file:///x", "spot.profile.glm.baseURL", ""},
		{"URL of a request", "spot.profile.glm.baseurl=https://h/v1/chat/completions/", "spot.profile.glm.baseURL", ""},
		{"variable", "spot.profile.glm.env=A-B", "spot.profile.glm.env", ""},
		{"git's variable", "spot.profile.glm.env=GIT_DIR=/x", "spot.profile.glm.env", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			e := refused(t, local(row.line))
			if e.Key != row.key || e.Nearest != row.nearest {
				t.Errorf("got key %q nearest %q, want %q and %q", e.Key, e.Nearest, row.key, row.nearest)
			}
			if !strings.Contains(e.Error(), e.Key) {
				t.Errorf("%q does not name the key", e)
			}
		})
	}
}

func TestRefusalNamesEveryProblemAndOrigin(t *testing.T) {
	t.Parallel()
	e := refused(t, []gitexec.ConfigEntry{
		entry("global", "spot.maxconcurrentruns=99"), entry("local", "spot.lockedpath=x"), entry("local", "spot.sandbox=no"),
	})
	message := e.Error()
	for _, want := range []string{
		"spot.maxConcurrentRuns", `"99"`, "file:/global", "spot.lockedpath", "file:/local", "spot.sandbox",
	} {
		if !strings.Contains(message, want) {
			t.Errorf("%q lacks %q", message, want)
		}
	}
}

func TestKeyShapedValuesAreNotEchoed(t *testing.T) {
	t.Parallel()
	const (
		openai = "sk-proj-Abc123Abc123Abc123Abc123"
		github = "ghp_0123456789abcdefghij0123456789abcdef"
		random = "Zk3v9QmT7xLw2RbY8nHc5JdF1sGa6PeU"
		hex    = "0f3a9c7be21d4856a0c9e8d7f6b5a413"
	)
	for _, row := range []struct{ name, line, secret string }{
		{"apiKeyEnv", "spot.profile.glm.apikeyenv=" + openai, openai},
		{"apiKeyEnv that is no name", "spot.profile.glm.apikeyenv=hunter2-hunter2", "hunter2"},
		{"model", "spot.profile.glm.model=" + github, github},
		{"argv", "spot.profile.w.argv=--api-key=" + random, random},
		{"argv word", "spot.profile.w.argv=curl -H x " + hex, hex},
		{"dotted", "spot.profile.glm.model=" + hex + ".Ab3dEf6hIj9lMn2p", hex},
		{"env", "spot.profile.w.env=MY_TOKEN=correcthorsebattery", "correcthorsebattery"},
		{"unknown key", "spot.nonsense=" + openai, openai},
		{"profile's name", "spot.profile." + openai + ".model=x", openai},
		{"URL", "spot.profile.glm.baseurl=https://me:correcthorse@host/v1", "correcthorse"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if message := refused(t, local(row.line)).Error(); strings.Contains(message, row.secret) {
				t.Errorf("the message repeats the secret: %s", message)
			}
		})
	}
}

func TestOrdinaryValuesAreNoKeys(t *testing.T) {
	t.Parallel()
	parse(t, local(
		"spot.profile.w.adapter=command",
		"spot.profile.w.argv=/tmp/TestOrdinaryValuesAreNoKeys123456789012/001/worker.sh",
		"spot.profile.w.argv=image@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"spot.profile.w.argv=da39a3ee5e6b4b0d3255bfef95601890afd80709",
		"spot.profile.w.argv=printf x >> a.txt; for i in 1 2 3; do echo $i; done",
		"spot.profile.w.argv=--max-tokens=100000",
		"spot.profile.w.model=anthropic.claude-3-5-sonnet-20241022-v2:0",
		"spot.profile.w.env=OPENAI_API_KEY=ollama",
		"spot.profile.w.apikeyenv=A_VERY_LONG_NAME_OF_A_VARIABLE_FOR_KEY_NUMBER",
		"spot.alwayslockedpath=config/token.json",
		"spot.profile.glm.model=accounts/fireworks/models/deepseek-v3p1-terminus-instruct",
	))
}

func TestSettingsAndJSON(t *testing.T) {
	t.Parallel()
	entries := []gitexec.ConfigEntry{
		entry("global", "spot.protectedbranch=main"), entry("local", "spot.sandbox=off"),
	}
	c := parse(t, entries)
	settings := map[string]config.Setting{}
	for _, s := range c.Settings() {
		settings[s.Key] = s
	}
	if s := settings["spot.sandbox"]; s.Value != "off" || s.Scope != "local" || s.Origin != "file:/local" {
		t.Errorf("got %+v", s)
	}
	if s := settings["spot.maxRevisions"]; s.Value != 2 || s.Scope != "default" || s.Origin != "" {
		t.Errorf("got %+v", s)
	}
	if s := settings["spot.profile.deepseek.model"]; s.Scope != "shipped" {
		t.Errorf("got %+v", s)
	}
	if !slices.IsSortedFunc(c.Settings(), func(a, b config.Setting) int { return strings.Compare(a.Key, b.Key) }) {
		t.Error("settings are not sorted")
	}
	one, err := c.JSON()
	if err != nil {
		t.Fatal(err)
	}
	two, err := parse(t, entries).JSON()
	if err != nil || string(one) != string(two) {
		t.Errorf("the same configuration gives other bytes (%v)", err)
	}
}

func TestRecorded(t *testing.T) {
	t.Parallel()
	data, err := parse(t, local("spot.alwayslockedpath=a", "spot.alwayslockedpath=b/**", "spot.sandbox=off")).JSON()
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][]string{
		"spot.alwaysLockedPath": {"a", "b/**"}, "spot.protectedBranch": nil, "spot.sandbox": nil, "spot.none": nil,
	} {
		if got, err := config.Recorded(data, key); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", key, got, err, want)
		}
	}
	if got, err := config.Recorded([]byte("{"), "spot.alwaysLockedPath"); err == nil {
		t.Errorf("of what is no document: %q", got)
	}
}

func TestCaller(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name           string
		env            map[string]string
		caller, thread string
	}{
		{"nobody", nil, "cli", ""},
		{"parent agent", map[string]string{"PARENT_AGENT": "codex", "PI_WORKER_CALLER": "trae"}, "codex", ""},
		{"pi", map[string]string{"PI_WORKER_CALLER": "trae", "WORKBUDDY": "1"}, "trae", ""},
		{"workbuddy", map[string]string{"WORKBUDDY": "1"}, "workbuddy", ""},
		{"workbuddy's agent", map[string]string{"WORKBUDDY_AGENT": "x"}, "workbuddy", ""},
		{"another word", map[string]string{"PARENT_AGENT": "emacs"}, "unknown", ""},
		{"case", map[string]string{"PARENT_AGENT": " Claude-Code "}, "claude-code", ""},
		{"thread", map[string]string{"PARENT_AGENT": "codex", "PARENT_THREAD_ID": "p", "CODEX_THREAD_ID": "c"}, "codex", "p"},
		{"codex thread", map[string]string{"PARENT_AGENT": "codex", "CODEX_THREAD_ID": "c"}, "codex", "c"},
		{"codex thread of another", map[string]string{"PARENT_AGENT": "trae", "CODEX_THREAD_ID": "c"}, "trae", ""},
		{"thread with a newline", map[string]string{"PARENT_THREAD_ID": "a\nSpot-State: x"}, "cli", ""},
		{"thread with a path", map[string]string{"PARENT_THREAD_ID": "../../x"}, "cli", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			caller, thread := config.Caller(func(name string) string { return row.env[name] })
			if caller != row.caller || thread != row.thread {
				t.Errorf("got %q %q, want %q %q", caller, thread, row.caller, row.thread)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("spot.profile.w.argv", "x", "spot.maxconcurrentruns", "1k")
	f.Add("spot.rate.a.b.c.input", "-1e9", "spot.", "")
	f.Add("spot.profile..selfReview.enabled", "", "spot.caller..profile", "\xff")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		c, err := config.Parse([]gitexec.ConfigEntry{
			{Key: key1, Value: value1, Scope: "global"}, {Key: key2, Value: value2, Scope: "local"},
		})
		if (c == nil) == (err == nil) {
			t.Fatalf("got %v and %v", c, err)
		}
		if c == nil {
			return
		}
		if c.MaxConcurrentRuns < 1 || c.MaxConcurrentRuns > 16 || c.Profiles[c.DefaultProfile] == nil {
			t.Errorf("got %+v", c)
		}
		if _, err := c.JSON(); err != nil {
			t.Error(err)
		}
	})
}
