package workers

import (
	"embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/git-spot/git-spot/schemas"
)

// PromptInput is what a prompt is made of.
type PromptInput struct {
	Contract *schemas.Contract
	Kind     schemas.Kind
	Locked   []string  // files of the repository that must not change, and maybe patterns
	Feedback *Feedback // nil in a first attempt
}

// Feedback is what the worker is told of its last attempt.
type Feedback struct {
	Findings []schemas.Finding    // open ones
	Gates    []schemas.GateResult // red ones
	Tails    []Tail
	Text     string // what the caller has to say, "" after a review
}

// Tail is the end of the output of a command that failed.
type Tail struct {
	Argv   []string
	Status string // "exit status 1", "timed out after 600 s"
	Output string
}

// The prompts, a file a kind, to be read by people.
//
//go:embed prompts/*.md
var promptFiles embed.FS

var prompts = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"line": oneLine, "list": bullets, "fence": fence, "argv": jsonArgv, "tail": tailOf, "words": wrapped,
	}).ParseFS(promptFiles, "prompts/*.md"))
})

// Prompt returns the text that a worker is given. It begins with a heading, never with a dash, and
// nothing of the contract or of the output of commands can end the fence around it.
func Prompt(in PromptInput) string { return render(string(in.Kind)+".md", in) }

// ResumePrompt returns the text for a worker that goes on in its own session, which has the task
// already: only what in.Feedback says.
func ResumePrompt(in PromptInput) string { return render("resume.md", in) }

func render(file string, in PromptInput) string {
	var b strings.Builder
	if err := prompts().ExecuteTemplate(&b, file, in); err != nil {
		panic("workers: prompt: " + err.Error()) // a kind without a file, or a file that does not fit PromptInput
	}
	return b.String()
}

// maxLockedHere is how many locked files a prompt names. They are examples of a rule that the prompt
// states; a repository may have thousands.
const maxLockedHere = 60

// Here lists files that are locked and not by the contract's own word.
func (in PromptInput) Here() []string {
	here := slices.DeleteFunc(slices.Clone(in.Locked), func(p string) bool { return slices.Contains(in.Contract.LockedPaths, p) })
	return here[:min(len(here), maxLockedHere)]
}

// wrapped sets many short words, which need not be read one by one, in few lines.
func wrapped(words []string) string {
	const width = 100
	var b strings.Builder
	column := 0
	for _, word := range words {
		word = "`" + oneLine(word) + "`"
		switch {
		case column == 0:
		case column+len(word) >= width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// oneLine keeps foreign text from starting a line of the page.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}

func bullets(items []string) string {
	var b strings.Builder
	for i, item := range items {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("- " + oneLine(item))
	}
	return b.String()
}

// fence puts s between fences that are longer than any in it.
func fence(s string) string {
	longest, run := 0, 0
	for _, r := range s {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	bar := strings.Repeat("`", max(3, longest+1))
	return bar + "\n" + strings.TrimRight(strings.ToValidUTF8(s, "\uFFFD"), "\n") + "\n" + bar
}

// jsonArgv shows exactly where each argument ends.
func jsonArgv(argv []string) (string, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(argv)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// tailOf bounds what one command may fill a prompt with.
func tailOf(output string) string {
	const most = 8 << 10
	if len(output) <= most {
		return output
	}
	return strings.ToValidUTF8(output[len(output)-most:], "")
}
