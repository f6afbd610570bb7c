package config

// key is one variable: its name as a person writes it, where its value goes, and what it may be.
type key[T any] struct {
	name  string
	at    func(*T) any // *string, *bool, *int, *int64, *float64, **float64 or *[]string
	least int64        // of a number
	most  int64
	words []string // a word must be one of them; nil is free text
}

func between[T any](name string, least, most int64, at func(*T) any) key[T] {
	return key[T]{name: name, at: at, least: least, most: most}
}

func free[T any](name string, at func(*T) any) key[T] { return key[T]{name: name, at: at} }

func oneOf[T any](name string, at func(*T) any, words ...string) key[T] {
	return key[T]{name: name, at: at, words: words}
}

const (
	maxSeconds = 7 * 24 * 60 * 60
	maxBytes   = 1 << 40
)

func generalKeys() []key[Config] {
	return []key[Config]{
		between("maxConcurrentRuns", 1, 16, func(c *Config) any { return &c.MaxConcurrentRuns }),
		between("maxRevisions", 0, 16, func(c *Config) any { return &c.MaxRevisions }),
		free("defaultProfile", func(c *Config) any { return &c.DefaultProfile }),
		free("worktreeRoot", func(c *Config) any { return &c.WorktreeRoot }),
		oneOf("sandbox", func(c *Config) any { return &c.Sandbox }, "require", "prefer", "off"),
		free("sandboxRead", func(c *Config) any { return &c.SandboxRead }),
		free("sandboxWrite", func(c *Config) any { return &c.SandboxWrite }),
		free("alwaysLockedPath", func(c *Config) any { return &c.AlwaysLockedPath }),
		free("protectedBranch", func(c *Config) any { return &c.ProtectedBranch }),
		oneOf("integrate", func(c *Config) any { return &c.Integrate }, "ff-only", "rebase", "candidate"),
		free("runHooks", func(c *Config) any { return &c.RunHooks }),
		free("notify", func(c *Config) any { return &c.Notify }),
	}
}

func selfReviewKeys() []key[SelfReview] {
	return []key[SelfReview]{
		free("enabled", func(s *SelfReview) any { return &s.Enabled }),
		between("minDiffBytes", 0, maxBytes, func(s *SelfReview) any { return &s.MinDiffBytes }),
		between("minSurfaceBytes", 0, maxBytes, func(s *SelfReview) any { return &s.MinSurfaceBytes }),
		between("spotCheckRatio", 0, 1, func(s *SelfReview) any { return &s.SpotCheckRatio }),
		between("spotCheckCount", 0, 1000, func(s *SelfReview) any { return &s.SpotCheckCount }),
	}
}

func profileKeys() []key[Profile] {
	return []key[Profile]{
		oneOf("adapter", func(p *Profile) any { return &p.Adapter }, adapters()...),
		free("program", func(p *Profile) any { return &p.Program }),
		free("provider", func(p *Profile) any { return &p.Provider }),
		free("model", func(p *Profile) any { return &p.Model }),
		free("baseURL", func(p *Profile) any { return &p.BaseURL }),
		free("apiKeyEnv", func(p *Profile) any { return &p.APIKeyEnv }),
		oneOf("api", func(p *Profile) any { return &p.API }, "chat", "responses", "messages"),
		oneOf("costTier", func(p *Profile) any { return &p.CostTier }, "cheap", "standard", "premium"),
		free("strengths", func(p *Profile) any { return &p.Strengths }),
		free("modalities", func(p *Profile) any { return &p.Modalities }),
		oneOf("capabilities", func(p *Profile) any { return &p.Capabilities },
			"tool-use", "vision-input", "image-output", "long-context"),
		free("fallbackProfiles", func(p *Profile) any { return &p.FallbackProfiles }),
		free("reasoningEffort", func(p *Profile) any { return &p.ReasoningEffort }),
		between("maxContextSize", 0, 1<<30, func(p *Profile) any { return &p.MaxContextSize }),
		free("argv", func(p *Profile) any { return &p.Argv }),
		oneOf("prompt", func(p *Profile) any { return &p.Prompt }, "stdin", "file", "argument"),
		oneOf("output", func(p *Profile) any { return &p.Output }, "text", "jsonl"),
		free("env", func(p *Profile) any { return &p.Env }),
		between("timeoutSeconds", 0, maxSeconds, func(p *Profile) any { return &p.TimeoutSeconds }),
		between("idleSeconds", 0, maxSeconds, func(p *Profile) any { return &p.IdleSeconds }),
		between("maxSteps", 0, 1_000_000, func(p *Profile) any { return &p.MaxSteps }),
	}
}

func rateKeys() []key[Rate] {
	return []key[Rate]{
		between("input", 0, 1_000_000, func(r *Rate) any { return &r.Input }),
		between("output", 0, 1_000_000, func(r *Rate) any { return &r.Output }),
		between("cacheRead", 0, 1_000_000, func(r *Rate) any { return &r.CacheRead }),
		between("cacheWrite", 0, 1_000_000, func(r *Rate) any { return &r.CacheWrite }),
	}
}

func subscriptionKeys() []key[Subscription] {
	return []key[Subscription]{
		free("plan", func(s *Subscription) any { return &s.Plan }),
		free("allowance", func(s *Subscription) any { return &s.Allowance }),
	}
}

// preference is spot.caller.<caller>.profile.
type preference struct{ profile string }

func callerKeys() []key[preference] {
	return []key[preference]{free("profile", func(p *preference) any { return &p.profile })}
}

// adapters are all that a profile may name; package workers says which of them this version has.
func adapters() []string {
	return []string{
		"builtin", "command", "pi", "kimi", "trae", "qoder", "opencode", "codebuddy", "zcode",
		"claude", "codex", "qwen", "gemini",
	}
}
