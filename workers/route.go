package workers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
)

// Choice is the profile that a contract is routed to.
type Choice struct {
	Profile    *config.Profile
	Source     string   // flag, caller-preference, difficulty or default
	Fallback   []string // profile names, in order, without Profile and without repeats
	Difficulty schemas.Difficulty
}

// Route picks the profile for a contract: the flag's, else the one that the caller prefers, else one of
// the tier of the task's difficulty, else the default. Only a profile whose adapter this version has is
// picked by difficulty, and only if the variable that should hold its key is set: git's credential helper
// is not asked for every profile that there is. The error is a *Error: HIGH_RISK_BLOCKED whatever the
// profile, CONFIG_INVALID if the flag names no profile, WORKER_CAPABILITY if the profile lacks what the
// contract asks for.
func Route(cfg *config.Config, contract *schemas.Contract, caller, flagProfile string, getenv func(string) string) (Choice, error) {
	choice := Choice{Difficulty: difficulty(contract)}
	if contract.Risk == schemas.LevelHigh {
		return Choice{}, &Error{Message: "a task of high risk is not delegated", code: schemas.CodeHighRiskBlocked}
	}
	choice.Profile, choice.Source = pick(cfg, contract, caller, flagProfile, choice.Difficulty.Level, getenv)
	if choice.Profile == nil {
		message := fmt.Sprintf("no profile is called %q", flagProfile)
		if nearest := schemas.Nearest(flagProfile, slices.Sorted(maps.Keys(cfg.Profiles))); nearest != "" {
			message += ", nearest is " + nearest
		}
		known := slices.DeleteFunc(slices.Sorted(maps.Keys(cfg.Profiles)), func(name string) bool {
			_, err := For(cfg.Profiles[name])
			return err != nil
		})
		return Choice{}, &Error{Message: message, Known: known, code: schemas.CodeConfigInvalid}
	}
	if lacking := lacks(choice.Profile, contract); len(lacking) > 0 {
		return Choice{}, &Error{
			Class: schemas.FailureCapability, Profile: choice.Profile.Name, code: schemas.CodeWorkerCapability,
			Message: "the task needs " + strings.Join(lacking, ", "),
		}
	}
	choice.Fallback = []string{}
	for _, name := range choice.Profile.FallbackProfiles {
		// A fallback that cannot do the task would end the chain with the wrong error.
		if name != choice.Profile.Name && !slices.Contains(choice.Fallback, name) &&
			len(lacks(cfg.Profiles[name], contract)) == 0 {
			choice.Fallback = append(choice.Fallback, name)
		}
	}
	return choice, nil
}

// pick returns nil only if the flag names no profile.
func pick(cfg *config.Config, contract *schemas.Contract, caller, flag string, level schemas.Level, getenv func(string) string) (*config.Profile, string) {
	if flag != "" {
		return cfg.Profiles[flag], "flag"
	}
	if p := cfg.Profiles[cfg.Callers[caller]]; p != nil && len(lacks(p, contract)) == 0 {
		return p, "caller-preference"
	}
	if p := ofTier(cfg, contract, tier(level), getenv); p != nil {
		return p, "difficulty"
	}
	return cfg.Profiles[cfg.DefaultProfile], "default"
}

func tier(level schemas.Level) string {
	switch level {
	case schemas.LevelLow:
		return "cheap"
	case schemas.LevelMedium:
		return "standard"
	}
	return "premium"
}

// imageOutput is what a model that makes images can do: it is no model for other tasks.
const imageOutput = "image-output"

// ofTier is the best profile of a tier, or nil: one with the task's domain among its strengths before
// one without, then the default profile, then the first by name.
func ofTier(cfg *config.Config, contract *schemas.Contract, tier string, getenv func(string) string) *config.Profile {
	var best *config.Profile
	bestScore := -1
	for _, name := range slices.Sorted(maps.Keys(cfg.Profiles)) {
		p := cfg.Profiles[name]
		if _, err := For(p); err != nil || p.CostTier != tier || len(lacks(p, contract)) > 0 {
			continue
		}
		if p.APIKeyEnv != "" && getenv(p.APIKeyEnv) == "" {
			continue
		}
		if slices.Contains(p.Modalities, imageOutput) && !slices.Contains(contract.Capabilities, imageOutput) {
			continue
		}
		score := 0
		if slices.ContainsFunc(p.Strengths, func(s string) bool { return strings.EqualFold(s, contract.Domain) }) {
			score += 2
		}
		if name == cfg.DefaultProfile {
			score++
		}
		if score > bestScore {
			best, bestScore = p, score
		}
	}
	return best
}

// lacks lists what the contract asks for and the profile does not say that it can.
func lacks(p *config.Profile, contract *schemas.Contract) []string {
	var lacking []string
	for _, c := range contract.Capabilities {
		if !slices.Contains(p.Capabilities, c) && !slices.Contains(p.Modalities, c) {
			lacking = append(lacking, c)
		}
	}
	return lacking
}

// difficulty is the contract's word, or a guess from what it says of itself: risk and domain carry the
// score and its size can raise it by at most two. Below 2 is low, up to 4 medium, from 5 on high.
func difficulty(contract *schemas.Contract) schemas.Difficulty {
	if contract.Difficulty != "" {
		return schemas.Difficulty{Level: contract.Difficulty, Source: "explicit"}
	}
	score := 0
	switch contract.Risk {
	case schemas.LevelMedium:
		score += 2
	case schemas.LevelHigh:
		score += 4
	}
	switch strings.ToLower(contract.Domain) {
	case "backend", "systems", "algorithm":
		score++
	}
	size := 0
	for _, large := range []bool{
		len(contract.Acceptance) > 3, len(contract.Verification) > 2, len(contract.Constraints) > 3,
		slices.Contains(contract.Capabilities, "tool-use"),
	} {
		if large {
			size++
		}
	}
	score += min(size, 2)
	level := schemas.LevelHigh
	switch {
	case score < 2:
		level = schemas.LevelLow
	case score < 5:
		level = schemas.LevelMedium
	}
	return schemas.Difficulty{Level: level, Source: "inferred"}
}
