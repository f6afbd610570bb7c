package workers

import (
	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
)

// Choice is the profile that a contract is routed to.
type Choice struct {
	Profile    *config.Profile
	Source     string   // flag, caller-preference, difficulty or default
	Fallback   []string // profile names, in order, without Profile
	Difficulty schemas.Difficulty
}

// Route picks the profile for a contract. The error is a *Error: HIGH_RISK_BLOCKED whatever the
// profile, WORKER_CAPABILITY if the profile lacks what the contract asks for, or a *config.Error for
// a flag that names no profile.
func Route(cfg *config.Config, contract *schemas.Contract, caller, flagProfile string) (Choice, error) {
	return Choice{}, nil
}
