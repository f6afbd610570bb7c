package workers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/workers"
)

// configured is a configuration with the profiles a, b, c of the three tiers and d without one, all of
// the adapter command.
func configured(t interface {
	Helper()
	Fatal(...any)
}, lines ...string,
) *config.Config {
	t.Helper()
	all := []string{"spot.defaultprofile=d"}
	for name, tier := range map[string]string{"a": "cheap", "b": "standard", "c": "premium", "d": ""} {
		prefix := "spot.profile." + name
		all = append(all, prefix+".adapter=command", prefix+".argv=true", prefix+".costtier="+tier)
	}
	var entries []gitexec.ConfigEntry
	for _, line := range append(all, lines...) {
		key, value, _ := strings.Cut(line, "=")
		entries = append(entries, gitexec.ConfigEntry{Key: key, Value: value, Scope: "local"})
	}
	cfg, err := config.Parse(entries)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// noKeys is an environment in which the shipped profiles of paid providers cannot be picked.
func noKeys(string) string { return "" }

func TestRoutePicksOnlyWhoHasAKey(t *testing.T) {
	t.Parallel()
	cfg := configured(t, "spot.profile.a.costtier=")
	for variable, want := range map[string]string{"": "d", "DEEPSEEK_API_KEY": "deepseek", "ZHIPUAI_API_KEY": "glm", "MOONSHOT_API_KEY": "d"} {
		got, err := workers.Route(cfg, &schemas.Contract{}, "cli", "", func(name string) string {
			if name == variable {
				return "value"
			}
			return ""
		})
		if err != nil || got.Profile.Name != want {
			t.Errorf("with %q set: got %v %v, want %s", variable, got.Profile, err, want)
		}
	}
	// What makes images is for tasks that ask for them.
	key := func(name string) string { return map[string]string{"OPENAI_API_KEY": "value"}[name] }
	cfg = configured(t, "spot.profile.c.costtier=")
	for capability, want := range map[string]string{"tool-use": "d", "image-output": "gpt-image"} {
		contract := &schemas.Contract{Difficulty: "high", Capabilities: []string{capability}}
		cfg.Profiles["d"].Capabilities = []string{"tool-use"}
		if got, err := workers.Route(cfg, contract, "cli", "", key); err != nil || got.Profile.Name != want {
			t.Errorf("for %s: got %v %v, want %s", capability, got.Profile, err, want)
		}
	}
	if got, err := workers.Route(cfg, &schemas.Contract{}, "cli", "deepseek", noKeys); err != nil || got.Profile.Name != "deepseek" {
		t.Errorf("got %v %v: who is asked for by name is taken, and the key is missed later", got.Profile, err)
	}
}

func criteria(n int) []schemas.Criterion {
	return make([]schemas.Criterion, n)
}

func TestDifficulty(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		contract schemas.Contract
		level    schemas.Level
		source   string
		profile  string
	}{
		{"nothing said", schemas.Contract{}, "low", "inferred", "a"},
		{"low risk docs", schemas.Contract{Risk: "low", Domain: "docs"}, "low", "inferred", "a"},
		{"low risk backend", schemas.Contract{Risk: "low", Domain: "backend"}, "low", "inferred", "a"},
		{"low risk backend of some size", schemas.Contract{Risk: "low", Domain: "backend", Acceptance: criteria(4)}, "medium", "inferred", "b"},
		{"size alone", schemas.Contract{
			Risk: "low", Acceptance: criteria(9), Verification: make([]schemas.Check, 9), Constraints: make([]string, 9),
			Capabilities: []string{"tool-use"},
		}, "medium", "inferred", "b"},
		{"medium risk backend", schemas.Contract{Risk: "medium", Domain: "backend"}, "medium", "inferred", "b"},
		{"medium risk systems", schemas.Contract{Risk: "medium", Domain: "systems"}, "medium", "inferred", "b"},
		{"medium risk algorithm", schemas.Contract{Risk: "medium", Domain: "algorithm"}, "medium", "inferred", "b"},
		{"medium risk systems, large", schemas.Contract{
			Risk: "medium", Domain: "systems", Acceptance: criteria(4), Verification: make([]schemas.Check, 3),
		}, "high", "inferred", "c"},
		{"explicit", schemas.Contract{Difficulty: "high", Risk: "low", Domain: "docs"}, "high", "explicit", "c"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := workers.Route(configured(t), &row.contract, "cli", "", noKeys)
			if err != nil {
				t.Fatal(err)
			}
			want := schemas.Difficulty{Level: row.level, Source: row.source}
			if got.Difficulty != want || got.Profile.Name != row.profile || got.Source != "difficulty" {
				t.Errorf("got %+v %s %s, want %+v %s difficulty", got.Difficulty, got.Profile.Name, got.Source, want, row.profile)
			}
		})
	}
}

func TestRouteOrder(t *testing.T) {
	t.Parallel()
	vision := []string{"vision-input"}
	for _, row := range []struct {
		name         string
		lines        []string
		contract     schemas.Contract
		caller, flag string
		profile      string
		source       string
	}{
		{"flag beats all", []string{"spot.caller.codex.profile=b"}, schemas.Contract{}, "codex", "c", "c", "flag"},
		{"caller beats difficulty", []string{"spot.caller.codex.profile=c"}, schemas.Contract{}, "codex", "", "c", "caller-preference"},
		{"another caller's preference", []string{"spot.caller.codex.profile=c"}, schemas.Contract{}, "trae", "", "a", "difficulty"},
		{
			"preference that lacks a capability",
			[]string{"spot.caller.codex.profile=c", "spot.profile.a.capabilities=vision-input"},
			schemas.Contract{Capabilities: vision},
			"codex", "", "a", "difficulty",
		},
		{
			"preference with the modality",
			[]string{"spot.caller.codex.profile=c", "spot.profile.c.modalities=vision-input"},
			schemas.Contract{Capabilities: vision},
			"codex", "", "c", "caller-preference",
		},
		{
			"strength decides within the tier",
			[]string{"spot.profile.b.costtier=cheap", "spot.profile.b.strengths=frontend"},
			schemas.Contract{Domain: "frontend"},
			"cli", "", "b", "difficulty",
		},
		{
			"strength of another tier does not",
			[]string{"spot.profile.c.strengths=frontend"},
			schemas.Contract{Domain: "frontend"},
			"cli", "", "a", "difficulty",
		},
		{"the default profile is first of equals", []string{"spot.profile.d.costtier=cheap"}, schemas.Contract{}, "cli", "", "d", "difficulty"},
		{
			"no profile with a tier",
			[]string{"spot.profile.a.costtier=", "spot.profile.b.costtier=", "spot.profile.c.costtier="},
			schemas.Contract{},
			"cli", "", "d", "default",
		},
		{"no profile of the tier", []string{"spot.profile.b.costtier="}, schemas.Contract{Difficulty: "medium"}, "cli", "", "d", "default"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := workers.Route(configured(t, row.lines...), &row.contract, row.caller, row.flag, noKeys)
			if err != nil {
				t.Fatal(err)
			}
			if got.Profile.Name != row.profile || got.Source != row.source {
				t.Errorf("got %s %s, want %s %s", got.Profile.Name, got.Source, row.profile, row.source)
			}
		})
	}
}

func TestRouteRefuses(t *testing.T) {
	t.Parallel()
	cfg := configured(t, "spot.caller.codex.profile=c")
	for _, flag := range []string{"", "c", "nonsense"} {
		_, err := workers.Route(cfg, &schemas.Contract{Risk: "high", Difficulty: "low"}, "codex", flag, noKeys)
		refusal(t, err, "", schemas.CodeHighRiskBlocked, "high risk")
	}
	_, err := workers.Route(cfg, &schemas.Contract{Capabilities: []string{"vision-input"}}, "cli", "c", noKeys)
	refusal(t, err, schemas.FailureCapability, schemas.CodeWorkerCapability, "vision-input")
	_, err = workers.Route(cfg, &schemas.Contract{}, "cli", "deepsek", noKeys)
	refusal(t, err, "", schemas.CodeConfigInvalid, "deepseek")
}

func TestFallbackChain(t *testing.T) {
	t.Parallel()
	cfg := configured(t, "spot.profile.c.fallbackprofiles=b", "spot.profile.c.fallbackprofiles=a", "spot.profile.c.fallbackprofiles=b",
		"spot.profile.c.capabilities=vision-input", "spot.profile.a.capabilities=vision-input", "spot.caller.codex.profile=c")
	got, err := workers.Route(cfg, &schemas.Contract{}, "codex", "", noKeys)
	if err != nil || !slices.Equal(got.Fallback, []string{"b", "a"}) {
		t.Errorf("got %q %v, want the preference's own chain", got.Fallback, err)
	}
	got, err = workers.Route(cfg, &schemas.Contract{Capabilities: []string{"vision-input"}}, "codex", "", noKeys)
	if err != nil || !slices.Equal(got.Fallback, []string{"a"}) {
		t.Errorf("got %q %v, want only who can do the task", got.Fallback, err)
	}
}

// Whatever is configured and asked for: what the caller says beats what is guessed, and nothing picks
// a profile that cannot do the task, has no tier or whose adapter is missing.
func TestRouteProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tier := rapid.SampledFrom([]string{"", "cheap", "standard", "premium"})
		capability := rapid.SampledFrom([]string{"tool-use", "vision-input", "long-context"})
		lines := []string{"spot.defaultprofile=" + rapid.SampledFrom([]string{"a", "d", "deepseek"}).Draw(t, "default")}
		for _, name := range []string{"a", "b", "c", "d"} {
			lines = append(lines, fmt.Sprintf("spot.profile.%s.costtier=%s", name, tier.Draw(t, "tier")))
			for _, c := range rapid.SliceOfNDistinct(capability, 1, 2, rapid.ID).Draw(t, "capabilities") {
				lines = append(lines, fmt.Sprintf("spot.profile.%s.capabilities=%s", name, c))
			}
		}
		prefers := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "preference")
		if prefers != "" {
			lines = append(lines, "spot.caller.codex.profile="+prefers)
		}
		cfg := configured(t, lines...)
		level := rapid.SampledFrom([]schemas.Level{"", "low", "medium", "high"})
		contract := &schemas.Contract{
			Difficulty: level.Draw(t, "difficulty"), Risk: level.Draw(t, "risk"),
			Domain:       rapid.SampledFrom([]string{"", "backend", "docs"}).Draw(t, "domain"),
			Acceptance:   criteria(rapid.IntRange(1, 9).Draw(t, "criteria")),
			Capabilities: rapid.SliceOfNDistinct(capability, 0, 2, rapid.ID).Draw(t, "needs"),
		}
		flag := rapid.SampledFrom([]string{"", "", "a", "c"}).Draw(t, "flag")
		got, err := workers.Route(cfg, contract, "codex", flag, noKeys)

		can := func(p *config.Profile) bool {
			return !slices.ContainsFunc(contract.Capabilities, func(c string) bool { return !slices.Contains(p.Capabilities, c) })
		}
		if contract.Risk == "high" {
			if err == nil {
				t.Fatal("high risk was routed")
			}
			return
		}
		if err != nil {
			return
		}
		again, _ := workers.Route(cfg, contract, "codex", flag, noKeys)
		switch {
		case got.Profile != again.Profile:
			t.Fatal("the choice is not stable")
		case !can(got.Profile):
			t.Fatalf("%s cannot do the task", got.Profile.Name)
		case contract.Difficulty != "" && got.Difficulty != schemas.Difficulty{Level: contract.Difficulty, Source: "explicit"}:
			t.Fatalf("got %+v for an explicit difficulty", got.Difficulty)
		case flag != "" && (got.Profile.Name != flag || got.Source != "flag"):
			t.Fatalf("got %s for the flag %s", got.Profile.Name, flag)
		case flag == "" && prefers != "" && can(cfg.Profiles[prefers]) && got.Profile.Name != prefers:
			t.Fatalf("got %s for the preference %s", got.Profile.Name, prefers)
		case got.Source == "difficulty" && (got.Profile.CostTier == "" || got.Profile.Adapter != "command"):
			t.Fatalf("%s was picked", got.Profile.Name)
		case got.Source == "default" && got.Profile.Name != cfg.DefaultProfile:
			t.Fatalf("got %s for the default", got.Profile.Name)
		}
	})
}
