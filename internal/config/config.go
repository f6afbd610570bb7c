// Package config reads the spot.* keys of git configuration: nothing else configures git spot, so
// layering, includeIf, --show-origin and editing come from git.
//
// A single-valued key takes the last value that git lists, so the more special scope wins. A list key
// takes all its values from the highest scope that sets it (system, global, local, worktree, command),
// never a mix. An empty value takes what came before it back, as it does in git's own lists: a single
// value falls back to its default, a list to the values that follow. Booleans are git's: empty is
// false, a key without "=" is true.
//
// git folds the first and last part of a key to lower case and keeps the middle, so profile, caller and
// model names are case-sensitive and selfReview must be written so.
package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/git-spot/git-spot/schemas"
)

// Config is the effective configuration. It is read-only after Parse and safe for concurrent use.
type Config struct {
	MaxConcurrentRuns int    // 1-16
	MaxRevisions      int    // 0-16
	DefaultProfile    string // always a known profile
	WorktreeRoot      string // "" is the default place
	Sandbox           string // require, prefer or off
	SandboxRead       []string
	SandboxWrite      []string
	AlwaysLockedPath  []string
	ProtectedBranch   []string
	Integrate         string // ff-only, rebase or candidate
	RunHooks          bool
	Notify            []string // argv
	SelfReview        SelfReview
	Profiles          map[string]*Profile // shipped and configured, by name
	Callers           map[string]string   // caller to the profile it prefers; no caller has one by default
	Rates             map[string]Rate     // by model
	Subscriptions     map[string]Subscription

	settings []Setting
}

// Profile is a named choice of adapter, provider, model and limits.
type Profile struct {
	Name             string
	Adapter          string
	Program          string // overrides the program that the adapter looks for
	Provider         string
	Model            string
	API              string // chat, responses or messages
	BaseURL          string
	APIKeyEnv        string // name of the environment variable that holds the key
	CostTier         string // cheap, standard, premium; "" is never picked automatically
	Strengths        []string
	Modalities       []string
	Capabilities     []string // tool-use unless something else is said
	FallbackProfiles []string
	ReasoningEffort  string
	MaxContextSize   int64 // tokens, 0 is the model's
	Argv             []string
	Prompt           string   // adapter command: stdin, file or argument
	Output           string   // adapter command: text or jsonl
	Env              []string // NAME passes a variable of the caller through, NAME=value sets it
	TimeoutSeconds   int      // 0: only the contract's limit
	IdleSeconds      int
	MaxSteps         int
	SelfReview       SelfReview // the profile's own values over the general ones
}

// SelfReview configures the worker's review of its own change.
type SelfReview struct {
	Enabled         bool
	MinDiffBytes    int64
	MinSurfaceBytes int64
	SpotCheckRatio  float64 // 0-1
	SpotCheckCount  int
}

// Rate is what a model costs, in USD per million tokens. Nil is unknown.
type Rate struct {
	Input, Output, CacheRead, CacheWrite *float64
}

// Subscription is what a caller pays for its own model.
type Subscription struct {
	Plan      string
	Allowance string
}

// Setting is one effective value.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`  // string, bool, number or []string
	Scope  string `json:"scope"`  // default, shipped, or git's word
	Origin string `json:"origin"` // as git config --show-origin prints it; "" for default and shipped
}

// Settings lists every value in force, sorted by key: all general keys, and of the others those that
// are set. It holds no secrets: a configuration that does is refused by Parse.
func (c *Config) Settings() []Setting { return c.settings }

// JSON is config.json of the ledger: Settings, the same bytes for the same configuration.
func (c *Config) JSON() ([]byte, error) {
	return schemas.MarshalIndent(document{schemas.Version, c.settings})
}

type document struct {
	SchemaVersion int       `json:"schemaVersion"`
	Settings      []Setting `json:"settings"`
}

// Recorded returns the values that a list key had when JSON wrote data; none if it was not set.
func Recorded(data []byte, key string) ([]string, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	var values []string
	for _, setting := range d.Settings {
		list, isList := setting.Value.([]any)
		if setting.Key != key || !isList {
			continue
		}
		for _, value := range list {
			values = append(values, fmt.Sprint(value))
		}
	}
	return values, nil
}

// Error is a configuration that is not accepted: its first problem, and the others.
type Error struct {
	Key     string // as a person would write it
	Origin  string // as git config --show-origin prints it; "" if the value is a default
	Problem string // never holds the value of a key-shaped secret
	Nearest string // the known word that was probably meant, or ""
	More    []*Error
}

func (e *Error) Error() string {
	var b strings.Builder
	for i, one := range append([]*Error{e}, e.More...) {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(one.Key + ": " + one.Problem)
		if one.Origin != "" {
			b.WriteString(" (" + one.Origin + ")")
		}
		if one.Nearest != "" {
			b.WriteString(", nearest is " + one.Nearest)
		}
	}
	return b.String()
}

// Code is CONFIG_INVALID.
func (e *Error) Code() schemas.Code { return schemas.CodeConfigInvalid }
