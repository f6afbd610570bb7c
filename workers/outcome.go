package workers

import "github.com/git-spot/git-spot/schemas"

// Code is the code that a command ends with after a turn, or "" if the turn is not a failure.
func Code(o schemas.Outcome, c schemas.FailureClass) schemas.Code { return "" }

// MayFallBack says whether the next profile of the chain may be tried after an error of class c.
func MayFallBack(c schemas.FailureClass) bool { return false }
