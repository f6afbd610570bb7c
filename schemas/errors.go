package schemas

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Problem is one thing wrong with a document. Neither field repeats a value of the document, which may
// be a secret; keys are shown, shortened and with control characters escaped.
type Problem struct {
	Pointer string // JSON pointer of the offending value, "" is the document
	Message string // what is there and what was expected, one line
}

func (p Problem) String() string {
	if p.Pointer == "" {
		return p.Message
	}
	return p.Pointer + ": " + p.Message
}

// ContractError says why a task contract was refused. A retry with the same bytes fails again.
type ContractError struct {
	Problems []Problem // at least one, ordered by pointer
}

func (e *ContractError) Error() string { return "task contract: " + join(e.Problems) }

// Code returns CONTRACT_INVALID.
func (e *ContractError) Code() Code { return CodeContractInvalid }

// DocumentError says why a document other than a contract does not fit its schema.
type DocumentError struct {
	Name     string    // of the schema
	Problems []Problem // at least one, ordered by pointer
}

func (e *DocumentError) Error() string {
	return strings.ReplaceAll(e.Name, "-", " ") + ": " + join(e.Problems)
}

// Code returns the code for a document of this name that came from where such documents live: from the
// caller for a contract and a review, else from the ledger.
func (e *DocumentError) Code() Code {
	switch e.Name {
	case "task-contract":
		return CodeContractInvalid
	case "review-result":
		return CodeReviewInvalid
	}
	return CodeLedgerCorrupt
}

// maxShown problems are in the text of an error: more are not read.
const maxShown = 5

func join(problems []Problem) string {
	shown := make([]string, 0, maxShown+1)
	for i, p := range problems {
		if i == maxShown {
			shown = append(shown, fmt.Sprintf("and %d more", len(problems)-i))
			break
		}
		shown = append(shown, p.String())
	}
	return strings.Join(shown, "; ")
}

// pointer makes a JSON pointer that can be shown: keys may come from anybody.
func pointer(at []string) string {
	const longest = 64 // runes of a key
	var b strings.Builder
	for _, step := range at {
		if runes := []rune(step); len(runes) > longest {
			step = string(runes[:longest-1]) + "…"
		}
		if strings.ContainsFunc(step, func(r rune) bool { return !unicode.IsPrint(r) }) {
			quoted := strconv.Quote(step)
			step = quoted[1 : len(quoted)-1]
		}
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
	}
	return b.String()
}
