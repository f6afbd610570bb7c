package schemas

import (
	"embed"
	"fmt"
)

//go:embed template
var templates embed.FS

// Template returns a file to start a task of this kind from: for code a contract that ParseContract
// accepts as it is, for the other kinds Markdown whose placeholders are HTML comments that begin with
// "placeholder:". The error is a *UnknownKindError.
func Template(kind Kind) ([]byte, error) {
	name := string(kind) + ".md"
	switch kind {
	case KindCode:
		name = "code.json"
	case KindExplore, KindTest, KindReview, KindDiscuss:
	default:
		return nil, &UnknownKindError{Kind: kind}
	}
	return templates.ReadFile("template/" + name)
}

// UnknownKindError says that a task cannot be of this kind.
type UnknownKindError struct {
	Kind Kind
}

func (e *UnknownKindError) Error() string { return fmt.Sprintf("no kind of task is called %q", e.Kind) }

// Code returns USAGE.
func (e *UnknownKindError) Code() Code { return CodeUsage }
