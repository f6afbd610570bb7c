package gitstate

import (
	"context"

	"github.com/git-spot/git-spot/schemas"
)

// Diff is the change from one commit to another.
type Diff struct {
	Base, Candidate OID
	Tree            OID    // of Candidate
	SHA256          string // diffSha256
	Changes         []Change
	Stat            schemas.DiffStat
	Bytes           int64 // length of the patch, a binary file counted at the size of its new blob
}

// Change is one changed path. An absent side has mode "000000" and a zero object id.
type Change struct {
	OldMode, NewMode string // six octal digits
	OldID, NewID     OID
	Status           byte   // A, M, D or T
	Path             string // bytes, maybe not UTF-8
	Added, Deleted   int    // lines, 0 for a binary file
	Binary           bool   // either side has a NUL in its first 8000 bytes, whatever attributes say
}

// Diff compares two commits. SHA256 is over the very bytes that
//
//	git --no-replace-objects diff-tree -r -z --full-index --no-renames --ignore-submodules=none <base> <candidate>
//
// prints. Nothing in the result depends on configuration, attributes, diff drivers or replace refs.
func (l *Ledger) Diff(ctx context.Context, base, candidate OID) (*Diff, error) { return nil, errStub }
