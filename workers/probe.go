package workers

import (
	"context"

	"github.com/git-spot/git-spot/schemas"
)

// Ready is what a turn would start with.
type Ready struct {
	Program    string // absolute path
	Version    string // "" if the program has none to ask for
	Credential string // environment, gateway, login or none
	KeyFrom    string // environment or helper; "" if the profile names no key, or there is none
	Isolation  schemas.Isolation
}

// Probe is Check that says what it found. The isolation is known even if a turn could not start.
func Probe(ctx context.Context, t Turn) (Ready, error) {
	ready := Ready{Isolation: isolation()}
	adapter, err := For(t.Profile)
	if err != nil {
		return ready, err
	}
	p, err := prepare(ctx, adapter, t)
	if err != nil {
		return ready, err
	}
	ready.Program, ready.Version, ready.Credential = p.program, p.version, p.inv.Credential
	ready.KeyFrom = p.key.from
	return ready, nil
}
