package workers

import (
	"fmt"
	"strings"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
)

// Adapter knows how to drive one worker program: which program it is, how a turn is put to it, and what
// its output means. It does no work of its own: Run starts and watches the program. Implementations
// are values without state and safe for concurrent use.
type Adapter interface {
	// Name is the word of spot.profile.<name>.adapter.
	Name() string
	// Program says which program this is on the machine.
	Program(*config.Profile) Program
	// Invocation puts a turn to the program. It MUST NOT touch anything: it also serves Check and
	// Argv, which may leave Dir, Home and Tmp empty and Prompt a placeholder. The error is a *Error.
	Invocation(Turn) (Invocation, error)
	// Parser returns the reader of one turn's output.
	Parser(*config.Profile) Parser
}

// Program is where a worker program is found and which version of it is good enough.
type Program struct {
	Name        string   // looked for on PATH, then in Places; or an absolute path, or one after ~/
	Companion   bool     // it comes with git spot: Name is looked for where proc.Companion does, and nowhere else
	Places      []string // folders, absolute or after ~/, where its installer puts it
	VersionArgs []string // print the version; nil if there is no such thing
	Constraint  string   // semver; "" takes any
}

// Invocation is what makes a turn of a program.
type Invocation struct {
	Args       []string // after the program
	Env        []string // beside the allowlist
	Stdin      string   // the prompt, where the program reads it there
	PromptFile string   // absolute path in Tmp that Args names last; Run writes the prompt there, and removes it
	Credential string   // environment, gateway (Run starts one), login or none
	Terminal   bool     // the program says its last word: without it, exit 0 is incomplete
	Steps      bool     // the program tells each tool call
	Session    string   // file in Home with the program's own session, from which Resume goes on; "" if there is none

	// OwnStepLimit says that the program keeps the limit of steps itself and then reports. Of others Run
	// counts the steps and ends them.
	OwnStepLimit bool
}

// Parser reads the output of one turn, line by line, in the order of each stream. Run never calls it
// concurrently. Events need no time, and no care for secrets, control characters or length: Run sees
// to those.
type Parser interface {
	// Stdout and Stderr return what a line, without its newline, means; the line is not valid
	// afterwards. Run itself records each line of standard error as such.
	Stdout(line []byte) []schemas.Event
	Stderr(line []byte) []schemas.Event
	// Done says whether the program has said its last word: it then has a moment to end.
	Done() bool
	// Verdict says how a turn went that Run did not end, from all that was read and the exit status,
	// which is -1 after a signal.
	Verdict(exit int) Verdict
}

// Verdict is how a turn went, by the program's own account. The zero value is a turn that went well.
type Verdict struct {
	Class      schemas.FailureClass // "" unless it failed
	Message    string               // of the failure
	StepCapped bool                 // the program stopped at its own limit of steps
	Question   string               // what the worker asks of the caller, "" if nothing
}

// built are the adapters of this version. Those of the other names that a profile may have come with
// their issues.
func built() []Adapter { return []Adapter{builtin{}, command{}} }

// For returns the adapter of p, or a *Error with code WORKER_SETUP that says which adapters this
// version has.
func For(p *config.Profile) (Adapter, error) {
	var names []string
	for _, a := range built() {
		if a.Name() == p.Adapter {
			return a, nil
		}
		names = append(names, a.Name())
	}
	refused := setupError(p, fmt.Sprintf("the adapter %s is not in this version of git spot, which has %s",
		p.Adapter, strings.Join(names, ", ")), nil)
	refused.Adapter = p.Adapter
	return nil, refused
}
