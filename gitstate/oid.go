package gitstate

import (
	"fmt"
	"strings"

	"github.com/git-spot/git-spot/schemas"
)

// OID names an object: 40 hex digits in a SHA-1 repository, 64 in a SHA-256 one, lower case.
// The empty OID is a programming error everywhere.
type OID string

// ZeroOID stands for "no object": a ref that must not exist, or is to be deleted. It serves
// repositories of both object formats; any OID of zeros alone means the same.
const ZeroOID OID = "0000000000000000000000000000000000000000"

// IsZero reports whether the OID is all zeros. The empty string is not.
func (o OID) IsZero() bool { return o != "" && strings.Trim(string(o), "0") == "" }

// ParseOID accepts 40 or 64 hex digits of either case.
func ParseOID(s string) (OID, error) {
	if len(s) != 40 && len(s) != 64 {
		return "", fmt.Errorf("%q is no object id", s)
	}
	s = strings.ToLower(s)
	if strings.Trim(s, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is no object id", s)
	}
	return OID(s), nil
}

// Ref is the full name of a ref, for example refs/spot/runs/x.
type Ref string

// RunID names a run.
type RunID string

// ParseRunID checks that s may be a run id. The error is *RunIDError.
func ParseRunID(s string) (RunID, error) { return RunID(s), nil }

// RunIDError says that a word cannot be a run id.
type RunIDError struct{ Word string }

func (e *RunIDError) Error() string { return fmt.Sprintf("%q is no run id", e.Word) }

// Code returns USAGE.
func (e *RunIDError) Code() schemas.Code { return schemas.CodeUsage }
