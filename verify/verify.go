// Package verify judges a candidate: it checks the change itself (the gates) and runs the contract's
// commands in a directory that somebody else made. It records nothing and knows no ledger.
//
// Gates fail closed: what cannot be read is red. The worker's word counts nowhere.
package verify

import (
	"context"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

// Objects is where gates read trees and files from; gitstate.Store is one. It must not apply replace
// refs or filters.
type Objects interface {
	Commit(context.Context, gitstate.OID) (*gitstate.Commit, error)
	Tree(context.Context, gitstate.OID) ([]gitstate.TreeEntry, error)
	Blob(context.Context, gitstate.OID) ([]byte, error)
}

// Subject is the change that is judged and what is known of how it came about.
type Subject struct {
	Contract *schemas.Contract
	Objects  Objects
	Diff     *gitstate.Diff // from base to candidate, computed now
	Recorded string         // diffSha256 as the ledger has it
	// AlwaysLocked are the patterns of spot.alwaysLockedPath.
	AlwaysLocked []string
	// Nested are repositories that the worktree holds, as the snapshot reported them.
	Nested []string
	// Tampered says what the turn changed of git's own state: executable configuration, the
	// worktree's .git.
	Tampered []string
}

// Gates runs every gate, in a fixed order, and returns one row each. A gate that cannot read what it
// needs is red and says so, so that the only error is the end of ctx.
func Gates(ctx context.Context, s Subject) ([]schemas.GateResult, error) { return nil, nil }

// Final returns the first red gate that ends a run for good: the worker touched its grader.
func Final(gates []schemas.GateResult) (schemas.GateResult, bool) {
	return schemas.GateResult{}, false
}

// Judge is the verdict over everything that was done, and the code of a fail: that of Final if there
// is one, else that of the first red gate, else that of the first command that did not pass. Nothing
// at all done is a fail.
func Judge(gates []schemas.GateResult, setup, commands []schemas.CommandResult) (schemas.Verdict, schemas.Code) {
	return schemas.VerdictFail, schemas.CodeInternal
}

// Overlays lists the paths, sorted, that a clean room must take from base whatever the candidate says:
// every locked path of base's tree and of the candidate's, the files that the verification names
// included. A path that base does not have must be absent.
func Overlays(ctx context.Context, s Subject) ([]string, error) { return nil, nil }
