// Package tools is what the builtin agent lets its model do: read, grep, find, ls, edit and write in one
// folder, and nothing else. There is no shell.
//
// Everything a model asks is hostile. No call reaches a file outside the folder or one that git, on any
// file system, could take for part of a .git folder, whatever the names and symbolic links are; none
// opens a device, a FIFO or a socket; none takes more than a bounded amount of time, memory and text. A
// refusal is a text that says what was wrong and what to do instead, since a model reads it.
//
// The files are those of a worktree that git takes a snapshot of, so they are written through os.Root
// and not through internal/durable: nothing here has to survive a loss of power.
package tools

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// The values of Result.Status.
const (
	StatusOK     = "ok"
	StatusError  = "error"  // it did not work; another try may
	StatusDenied = "denied" // it is not allowed, however it is asked for
)

const (
	maxCalls     = 64               // calls of one Run that are carried out
	maxReads     = 4                // of them beside each other; each may hold maxFile bytes
	maxAnswer    = 64 << 10         // bytes of a Result's text
	maxAnswers   = 1 << 20          // bytes of the texts of one Run: maxCalls times the least share
	maxArguments = 20 << 20         // bytes; JSON takes two for a line break or a quotation mark of maxFile
	maxFile      = 8 << 20          // bytes of a file that edit or write holds in memory
	maxTime      = 30 * time.Second // of one call
)

// Definition is what a model is told of a tool. Parameters is a JSON Schema of the plainest kind, which
// every provider takes.
type Definition struct {
	Name        string
	Description string
	Parameters  json.RawMessage
}

// Call is a model's request. Arguments is what the model sent: it need not be JSON.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

// Result answers the Call with the same ID and Name. Text is UTF-8 of at most 64 KiB, meant for the model.
type Result struct {
	ID     string
	Name   string
	Text   string
	Status string // StatusOK, StatusError or StatusDenied
}

// Set is the tools, confined to one folder. Run must not be called while another Run is in progress.
type Set struct {
	root     *os.Root
	names    []string // the folder's absolute path, as given and with symbolic links resolved
	readOnly bool
}

// tool ties a definition to what carries it out. answer returns a *refusal for what it refuses; room is
// how many bytes its text may have.
type tool struct {
	Definition
	writes bool
	schema schema
	answer func(ctx context.Context, s *Set, arguments json.RawMessage, room int) (string, error)
}

//go:embed definitions
var definitions embed.FS

// all lists the tools in the order in which a model sees them.
var all = sync.OnceValue(func() []tool {
	return []tool{
		define("read", false, (*Set).read),
		define("grep", false, (*Set).grep),
		define("find", false, (*Set).find),
		define("ls", false, (*Set).ls),
		define("edit", true, (*Set).edit),
		define("write", true, (*Set).write),
	}
})

func define[T any](name string, writes bool, run func(*Set, context.Context, T, int) (string, error)) tool {
	text, err := definitions.ReadFile("definitions/" + name + ".md")
	parameters, err2 := definitions.ReadFile("definitions/" + name + ".json")
	t := tool{Definition: Definition{Name: name, Description: strings.TrimSpace(string(text)), Parameters: parameters}, writes: writes}
	if err := errors.Join(err, err2, json.Unmarshal(parameters, &t.schema)); err != nil {
		panic(err) // the files are part of the program
	}
	t.answer = func(ctx context.Context, s *Set, arguments json.RawMessage, room int) (string, error) {
		var in T
		if err := t.schema.decode(arguments, &in); err != nil {
			return "", err
		}
		return run(s, ctx, in, room)
	}
	return t
}

// Open returns the tools for the folder dir. With readOnly they are read, grep, find and ls; otherwise
// Open removes what a writer that was killed left in dir, so one folder has one Set that may write.
func Open(dir string, readOnly bool) (*Set, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, err
	}
	s := &Set{root: root, names: []string{dir, real}, readOnly: readOnly}
	if !readOnly {
		if err := s.sweep(); err != nil {
			return nil, errors.Join(err, root.Close())
		}
	}
	return s, nil
}

// Definitions returns what to offer the model.
func (s *Set) Definitions() []Definition {
	var d []Definition
	for _, t := range all() {
		if !t.writes || !s.readOnly {
			d = append(d, t.Definition)
		}
	}
	return d
}

// Run carries out calls and returns one result for each, in their order. Calls that only read run beside
// each other; one that writes runs alone, after all before it and before all after it. Of more than 64
// calls the rest are answered with an error. When ctx ends, so do the calls, each with an error.
func (s *Set) Run(ctx context.Context, calls []Call) []Result {
	results := make([]Result, len(calls))
	room := min(maxAnswer, maxAnswers/max(1, min(len(calls), maxCalls)))
	running := make(chan struct{}, maxReads)
	var reads sync.WaitGroup
	for i, c := range calls {
		if i >= maxCalls {
			results[i] = result(c, "", failed("this is call %d of one step and only the first %d were carried out. Send it again in the next step.", i+1, maxCalls))
			continue
		}
		if c.writes() {
			reads.Wait()
			results[i] = s.run(ctx, c, room)
			continue
		}
		running <- struct{}{}
		reads.Go(func() {
			results[i] = s.run(ctx, c, room)
			<-running
		})
	}
	reads.Wait()
	return results
}

func (c Call) writes() bool {
	return slices.ContainsFunc(all(), func(t tool) bool { return t.Name == c.Name && t.writes })
}

// Close releases the folder. Calls made after it are answered with errors.
func (s *Set) Close() error { return s.root.Close() }

func (s *Set) run(ctx context.Context, c Call, room int) Result {
	if ctx.Err() != nil {
		return result(c, "", failed("not carried out: the work was stopped."))
	}
	i := slices.IndexFunc(all(), func(t tool) bool { return t.Name == c.Name })
	if i < 0 {
		return result(c, "", failed("there is no tool %s. The tools are %s; there is no shell.", show(c.Name), s.list()))
	}
	t := all()[i]
	if t.writes && s.readOnly {
		return result(c, "", denied("%s is not allowed: this task only reads. The tools are %s.", t.Name, s.list()))
	}
	ctx, stop := context.WithTimeout(ctx, maxTime)
	defer stop()
	text, err := t.answer(ctx, s, c.Arguments, room)
	return result(c, text, err)
}

// list names the tools as a sentence does.
func (s *Set) list() string {
	var names []string
	for _, d := range s.Definitions() {
		names = append(names, d.Name)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

func result(c Call, text string, err error) Result {
	r := Result{ID: c.ID, Name: c.Name, Text: text, Status: StatusOK}
	if err != nil {
		r.Status, r.Text = StatusError, reason(err)
		if refused, ok := errors.AsType[*refusal](err); ok {
			r.Status = refused.status
		}
	}
	// Some servers refuse NUL in a text.
	r.Text = cut(strings.ReplaceAll(strings.ToValidUTF8(r.Text, "\uFFFD"), "\x00", "\u2400"), maxAnswer)
	return r
}

// refusal is an answer to the model that is not what it asked for.
type refusal struct {
	status string
	text   string
}

func (r *refusal) Error() string { return r.text }

func failed(format string, a ...any) error {
	return &refusal{status: StatusError, text: fmt.Sprintf(format, a...)}
}

func denied(format string, a ...any) error {
	return &refusal{status: StatusDenied, text: fmt.Sprintf(format, a...)}
}

// reason is err for the model: without the operation and the path that it knows.
func reason(err error) string {
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused.text
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "this took too long and was stopped. Ask for less: a folder further down, a narrower pattern."
	case errors.Is(err, context.Canceled):
		return "the work was stopped."
	case errors.Is(err, fs.ErrPermission):
		return "the operating system does not permit this."
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Sprintf("%s: %v.", show(e.Path), e.Err)
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return fmt.Sprintf("%s: %v.", show(e.New), e.Err)
	}
	return err.Error()
}
