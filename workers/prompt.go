package workers

import "github.com/git-spot/git-spot/schemas"

// PromptInput is what a prompt is made of.
type PromptInput struct {
	Contract *schemas.Contract
	Kind     schemas.Kind
	Locked   []string // paths that must not change, as patterns
	Feedback *Feedback
}

// Feedback is what the worker is told of its last attempt.
type Feedback struct {
	Findings []schemas.Finding    // open ones
	Gates    []schemas.GateResult // red ones
	Tails    []Tail
}

// Tail is the end of the output of a command that failed.
type Tail struct {
	Argv   []string
	Status string // "exit status 1", "timed out after 600 s"
	Output string
}

// Prompt returns the text that a worker is given. It never starts with a dash.
func Prompt(in PromptInput) string { return "" }
