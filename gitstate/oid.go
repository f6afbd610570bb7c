package gitstate

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/git-spot/git-spot/schemas"
)

// OID names an object: 40 hex digits in a SHA-1 repository, 64 in a SHA-256 one, lower case.
// The empty OID is a programming error everywhere.
type OID string

// ZeroOID stands for "no object": a ref that must not exist, or that is to be deleted. It serves both
// object formats; any OID of zeros alone means the same.
const ZeroOID OID = "0000000000000000000000000000000000000000"

// IsZero reports whether the OID is all zeros. The empty OID is not.
func (o OID) IsZero() bool { return o != "" && strings.Trim(string(o), "0") == "" }

// ParseOID accepts 40 or 64 hex digits of either case.
func ParseOID(s string) (OID, error) {
	lower := strings.ToLower(s)
	if (len(s) != 40 && len(s) != 64) || strings.Trim(lower, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is not an object id", s)
	}
	return OID(lower), nil
}

// Ref is the full name of a ref, for example refs/spot/runs/x. It is bytes, not always UTF-8.
type Ref string

// RunID names a run. One that comes from outside goes through ParseRunID.
type RunID string

// RunIDError says that a word cannot be a run id.
type RunIDError struct{ Word string }

func (e *RunIDError) Error() string {
	return fmt.Sprintf("%q cannot be a run id: a-z, 0-9, '.', '_' and '-', at most 64, beginning with a letter or digit, without '..' and not ending in '.' or '.lock'", e.Word)
}

// Code returns USAGE.
func (e *RunIDError) Code() schemas.Code { return schemas.CodeUsage }

var runID = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// ParseRunID checks that s may be a run id, and so one component of a ref and of a path. The error is
// *RunIDError.
func ParseRunID(s string) (RunID, error) {
	if !runID.MatchString(s) || strings.Contains(s, "..") || strings.HasSuffix(s, ".") || strings.HasSuffix(s, ".lock") {
		return "", &RunIDError{Word: s}
	}
	return RunID(s), nil
}
