package review

import "github.com/git-spot/git-spot/schemas"

// FromFlags builds a review from command-line flags: diffSHA256, evidence as ID=TEXT, findings as
// SEVERITY:PATH:LINE:TEXT (the path may have colons; SEVERITY:::TEXT names no place). A value that
// does not parse is a *FlagError, code USAGE.
func FromFlags(verdict schemas.ReviewVerdict, diffSHA256 string, evidence, findings []string) (*schemas.Review, error) {
	return nil, nil
}
