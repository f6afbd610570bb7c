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
