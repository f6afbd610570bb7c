package schemas

import (
	"encoding/json"
	"errors"
)

// ParseContract reads a task contract strictly and fills in the defaults: kind code, the limits, the
// time limit, network and baseline of every command, and "" for a cwd that names the top. Every error
// that is about the document is a *ContractError; the contract is then nil.
func ParseContract(data []byte) (*Contract, error) {
	var c Contract
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, &ContractError{Problems: []Problem{{Message: err.Error()}}}
	}
	return &c, nil
}

// ParseReview reads a review strictly. Every error that is about the document is a *DocumentError with
// code REVIEW_INVALID; the review is then nil.
func ParseReview(data []byte) (*Review, error) {
	var r Review
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, &DocumentError{Name: "review-result", Problems: []Problem{{Message: err.Error()}}}
	}
	return &r, nil
}

// ParseState reads state.json strictly. An error of any kind means that the ledger is corrupt, or was
// written by a later version.
func ParseState(data []byte) (*RunState, error) {
	var s RunState
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, &DocumentError{Name: "run-state", Problems: []Problem{{Message: err.Error()}}}
	}
	return &s, nil
}

// Validate checks data against the schema called name, which must be one of Names, and that it decodes
// into the Go type of that document. An error about the document is a *DocumentError.
func Validate(name string, data []byte) error { return nil }

// Schema returns the bytes of the JSON Schema called name; the caller may change them.
func Schema(name string) ([]byte, error) { return nil, errors.New("not built") }

// Names returns the names of all schemas, sorted.
func Names() []string { return nil }

// Nearest returns the word of known that word was most likely meant to be, or "" if none is near. Case,
// "-" and "_" do not count as differences; of equally near words the first wins.
func Nearest(word string, known []string) string { return "" }

// ErrorsMarkdown returns docs/errors.md.
func ErrorsMarkdown() []byte { return nil }

// Template returns a file to start a task of this kind from: for code a contract that ParseContract
// accepts as it is, for the other kinds Markdown with marked placeholders.
func Template(kind Kind) ([]byte, error) { return nil, errors.New("not built") }
