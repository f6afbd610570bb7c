package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
)

// Bytes of a command's output that are kept.
const (
	outputHead = 64 << 10
	outputTail = 64 << 10
)

// Room is where commands run. All folders are absolute and exist.
type Room struct {
	Dir    string // a checkout of the candidate
	Home   string
	Tmp    string
	Getenv func(string) string // the user's environment; only what Environment names is taken from it
	Redact func(string) string // masks secrets in what a command printed; nil is nothing to mask
}

// RunSetup runs the set-up commands in order and stops after the first that does not pass. What
// could not be started is a result too. The error is the cause of ctx's end; the results of what ran
// until then come with it.
func RunSetup(ctx context.Context, room Room, setup []schemas.Setup) ([]schemas.CommandResult, error) {
	results := make([]schemas.CommandResult, 0, len(setup))
	for _, s := range setup {
		result, err := run(ctx, room, command{argv: s.Argv, cwd: s.Cwd, timeoutSeconds: s.TimeoutSeconds})
		if err != nil {
			return results, err
		}
		results = append(results, result)
		if !Passed(result) {
			break
		}
	}
	return results, nil
}

// RunChecks runs every check, one after the other, whatever the others come to. A check that does not
// pass runs again as often as its retries say; what the earlier runs ended with is in Retries, -1 where
// that is no exit status, and everything else is of the last run. The error is as for RunSetup.
func RunChecks(ctx context.Context, room Room, checks []schemas.Check) ([]schemas.CommandResult, error) {
	results := make([]schemas.CommandResult, 0, len(checks))
	for _, c := range checks {
		var retries []int
		for {
			result, err := run(ctx, room, command{argv: c.Argv, cwd: c.Cwd, timeoutSeconds: c.TimeoutSeconds, env: c.Env})
			if err != nil {
				return results, err
			}
			// What could not be started will not start the next time.
			if Passed(result) || result.Error != "" || len(retries) >= c.Retries {
				result.ID, result.Retries = c.ID, retries
				results = append(results, result)
				break
			}
			exit := -1
			if result.Exit != nil {
				exit = *result.Exit
			}
			retries = append(retries, exit)
		}
	}
	return results, nil
}

// Passed reports whether a command ended by itself with exit status 0.
func Passed(c schemas.CommandResult) bool {
	return c.Exit != nil && *c.Exit == 0 && c.Signal == "" && !c.TimedOut && c.Error == ""
}

// command is what set-up and verification have in common.
type command struct {
	argv           []string
	cwd            string
	timeoutSeconds int
	env            map[string]string
}

func run(ctx context.Context, room Room, c command) (schemas.CommandResult, error) {
	result := schemas.CommandResult{Argv: c.argv, Cwd: c.cwd}
	output := proc.NewCapture(outputHead, outputTail)
	text := func(printed []byte) string {
		s := strings.ToValidUTF8(string(printed), "\uFFFD")
		if room.Redact != nil {
			s = room.Redact(s)
		}
		return s
	}
	seal := func() schemas.CommandResult {
		result.OutputHead, result.OutputTail = text(output.Head()), text(output.Tail())
		result.OutputBytes = output.Bytes()
		result.OutputSHA256 = output.SHA256()
		return result
	}
	dir, err := workingFolder(room.Dir, c.cwd)
	if err != nil {
		result.Error = err.Error()
		return seal(), nil
	}
	if result.Program, err = findProgram(room, dir, c.argv); err != nil {
		result.Error = err.Error()
		return seal(), nil
	}
	seconds := c.timeoutSeconds
	if seconds <= 0 {
		seconds = schemas.DefaultCommandSeconds
	}
	end, err := proc.Supervise(ctx, proc.Command{
		Argv:   append([]string{result.Program}, c.argv[1:]...),
		Dir:    dir,
		Env:    Environment(room, c.env),
		Stdout: output,
		Stderr: output,
		Wall:   time.Duration(seconds) * time.Second,
	})
	if ctx.Err() != nil {
		return schemas.CommandResult{}, context.Cause(ctx)
	}
	if err != nil {
		// A supervisor that was killed too: whoever did it did not pass.
		result.Error = err.Error()
		return seal(), nil
	}
	result.DurationMS = end.Duration.Milliseconds()
	result.Signal = end.Signal
	switch end.End {
	case proc.EndTimedOut:
		result.TimedOut = true
	case proc.EndExited:
		result.Exit = &end.Exit
	}
	return seal(), nil
}

// workingFolder resolves a repository-relative folder of the room. A link that leaves the room is an
// error: what is tested must be what is in the room.
func workingFolder(room, cwd string) (string, error) {
	if cwd == "" {
		return room, nil
	}
	dir := filepath.Join(room, filepath.FromSlash(cwd))
	if err := contained(room, dir); err != nil {
		return "", fmt.Errorf("cwd %q: %w", cwd, err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("cwd %q: %w", cwd, cause(err))
	}
	if !info.IsDir() {
		return "", fmt.Errorf("cwd %q: not a folder", cwd)
	}
	return dir, nil
}

var errOutside = errors.New("outside the clean room")

// contained reports errOutside if path, with all links followed, is not room or below it.
func contained(room, path string) error {
	root, err := filepath.EvalSymlinks(room)
	if err != nil {
		return cause(err)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return cause(err)
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || !filepath.IsLocal(rel) {
		return errOutside
	}
	return nil
}

// cause drops the path of the room, which is another one each time, from an error.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// findProgram resolves argv[0] to an absolute path. With a slash it is a file of the room, relative to
// dir; its last component may be a link to anywhere, as the interpreter of a Python environment is.
// Without, it is looked up in the user's PATH, in folders outside of the room only: a file of the
// candidate never takes the place of a tool.
func findProgram(room Room, dir string, argv []string) (string, error) {
	if len(argv) == 0 || argv[0] == "" {
		return "", errors.New("no program")
	}
	name := argv[0]
	if filepath.IsAbs(name) {
		return name, nil
	}
	if !strings.ContainsRune(name, '/') {
		program, err := proc.LookPath(name, searchPath(room))
		if err != nil {
			return "", fmt.Errorf("program %q not found", name)
		}
		return program, nil
	}
	program := filepath.Join(dir, name)
	if err := contained(room.Dir, filepath.Dir(program)); err != nil {
		return "", fmt.Errorf("program %q: %w", name, err)
	}
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("program %q: %w", name, cause(err))
	}
	return program, nil
}
