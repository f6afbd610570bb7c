package workers

import "github.com/git-spot/git-spot/internal/config"

// Adapter knows how to drive one worker program.
type Adapter interface {
	// Name is the word of spot.profile.<name>.adapter.
	Name() string
}

// For returns the adapter of p, or a *Error with code WORKER_SETUP that says which adapters this
// version has.
func For(p *config.Profile) (Adapter, error) { return nil, nil }
