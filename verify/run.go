package verify

import (
	"context"

	"github.com/git-spot/git-spot/schemas"
)

// Room is where commands run. All folders are absolute and exist.
type Room struct {
	Dir    string // a checkout of the candidate
	Home   string
	Tmp    string
	Getenv func(string) string // the user's environment; only what Environment names is taken from it
}

// RunSetup runs the set-up commands in order and stops after the first that does not pass. Its error
// is the end of ctx or a supervisor that cannot be had; results of what ran come with it.
func RunSetup(ctx context.Context, room Room, setup []schemas.Setup) ([]schemas.CommandResult, error) {
	return nil, nil
}

// RunChecks runs every check, one after the other, whatever the others do. A check that fails runs
// again as often as its retries say; earlier exits are in Retries. Errors as for RunSetup.
func RunChecks(ctx context.Context, room Room, checks []schemas.Check) ([]schemas.CommandResult, error) {
	return nil, nil
}

// Passed reports whether a command ended by itself with status 0.
func Passed(c schemas.CommandResult) bool { return false }

// Environment is the whole environment of a command in room, sorted, with extra on top.
func Environment(room Room, extra map[string]string) []string { return nil }
