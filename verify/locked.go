package verify

import "github.com/git-spot/git-spot/schemas"

// Lock is one row of the table of what is locked without anybody asking.
type Lock struct {
	Ecosystem string
	// Pattern without a slash is a basename, anywhere in the tree. With one it is a path, at any
	// depth; with one in front, from the top.
	Pattern string
	Why     string
}

// Locks returns the table.
func Locks() []Lock { return nil }

// LockedPatterns lists what a worker must be told not to change: the contract's lockedPaths, then
// always, then the table.
func LockedPatterns(contract *schemas.Contract, always []string) []string { return nil }

// Matcher knows which paths are locked.
type Matcher struct{}

// Locked compiles the contract's lockedPaths, always (spot.alwaysLockedPath) and the table. The
// contract's unlock takes exact paths out of the table; it never opens what the contract or the user
// locks by name.
func Locked(contract *schemas.Contract, always []string) *Matcher { return &Matcher{} }

// Match reports whether path is locked, and why. Case and Unicode composition do not matter.
func (m *Matcher) Match(path string) (why string, locked bool) { return "", false }
