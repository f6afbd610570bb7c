// Package workers drives the untrusted agent programs. It knows a directory, a command line, a budget
// and an event protocol; it does not know git. A worker's exit status is not believed alone, and nothing
// that it says is stored or returned before secrets are masked and control characters made harmless.
package workers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
)

// Turn is one start of a worker program.
type Turn struct {
	Profile *config.Profile
	Kind    schemas.Kind
	Prompt  string
	Dir     string // the worktree, the child's working directory
	Home    string // private home, exists
	Tmp     string // private temporary folder, exists
	RunID   string
	Attempt int
	Limits  schemas.Limits // zero fields have the contract's defaults
	Events  io.Writer      // events.jsonl, one write a line; nil discards
	Log     io.Writer      // worker.log; nil discards
	Getenv  func(string) string
	Now     func() time.Time
	Redact  config.Redactor // masks what Run writes and returns; the profile's own secrets are added
	Rate    config.Rate     // what the profile's model costs

	// Credential asks git's credential helper for the key of an endpoint, "" if it has none. It is asked
	// where the variable that the profile names is not set. Nil asks nobody.
	Credential func(ctx context.Context, baseURL string) (string, error)

	// Session is the file in which the worker's own session outlives its private home, if the program
	// has one; "" keeps none. If it is there and Resume is not empty, the worker goes on from it, with
	// Resume in place of Prompt.
	Session string
	Resume  string

	gateway endpoint // once Run has started it
	resumed bool     // the session is in Home
}

// endpoint is where a worker finds the gateway.
type endpoint struct{ baseURL, token string }

// Final is what Run found out besides the Try.
type Final struct {
	Text       string // the worker's last word, or all of its text if it has no such thing; head and tail
	StderrTail string
	Warnings   []string
	Isolation  schemas.Isolation
	Credential string // none, environment, gateway or login
}

// Check says whether the turn could start: adapter, prompt, program, its version, credential. Only
// Profile, Kind, Prompt and Getenv of t are needed. Nothing is started but the program's version
// probe, for at most 3 s. The error is a *Error.
func Check(ctx context.Context, t Turn) error {
	adapter, err := For(t.Profile)
	if err != nil {
		return err
	}
	_, err = prepare(ctx, adapter, t)
	return err
}

// Argv is the command line of t for start.json, with placeholders for the prompt and for secrets. The
// program stands as it is configured.
func Argv(t Turn) ([]string, error) {
	adapter, err := For(t.Profile)
	if err != nil {
		return nil, err
	}
	// What an argument is made of does not depend on the prompt, so it is not even there to leak.
	t.Prompt, t.gateway = "[prompt]", endpoint{"[gateway]", "[token]"}
	inv, err := adapter.Invocation(t)
	if err != nil {
		return nil, err
	}
	redact := redactor(t)
	argv := []string{adapter.Program(t.Profile).Name}
	for _, arg := range inv.Args {
		argv = append(argv, redact.Redact(arg))
	}
	if inv.PromptFile != "" {
		argv[len(argv)-1] = "[prompt file]"
	}
	return argv, nil
}

// prepared is a turn that can start.
type prepared struct {
	adapter Adapter
	inv     Invocation
	program string // absolute
	version string // "" if the program has none to ask for
	key     apiKey
}

func prepare(ctx context.Context, adapter Adapter, t Turn) (*prepared, error) {
	inv, err := adapter.Invocation(t)
	if err != nil {
		return nil, err
	}
	p := adapter.Program(t.Profile)
	path, err := find(p, t.Getenv)
	if err != nil {
		missing := setupError(t.Profile, fmt.Sprintf("the program %q is not found", p.Name), err)
		if p.Companion {
			missing.Message = fmt.Sprintf("%s is not beside git-spot nor in its libexec folder", p.Name)
			missing.Companion = p.Name
		}
		return nil, missing
	}
	version, err := p.probe(ctx, path, t)
	if err != nil {
		return nil, setupError(t.Profile, err.Error(), nil)
	}
	key, err := findKey(ctx, t, inv.Credential)
	if err != nil {
		return nil, err
	}
	return &prepared{adapter, inv, path, version, key}, nil
}

// Why Run ends a worker that is still at work, as the cause of its context.
var (
	errStepCap = errors.New("the step limit is reached")
	errBudget  = errors.New("the budget is spent")
)

// Run starts the worker of t under the supervisor and returns when it and all its descendants are
// gone. Everything the worker did is in the Try, also that it could not be started; the error is only
// for git spot's own failures (a prompt or a log that cannot be written), and the Try is complete all
// the same. Try.Profile.Source and Try.Partial are the caller's to fill in.
func Run(ctx context.Context, t Turn) (schemas.Try, Final, error) {
	adapter, err := For(t.Profile)
	if err != nil {
		try, final := begun(t)
		return unstarted(try, err), final, nil
	}
	try, final, err := run(ctx, adapter, t)
	if err == nil && refusedSession(t, try) {
		return runAnew(ctx, adapter, t, try)
	}
	return try, final, err
}

// runAnew is Run without the session, which the worker refused in try, before anything was paid for.
func runAnew(ctx context.Context, adapter Adapter, t Turn, try schemas.Try) (schemas.Try, Final, error) {
	t.Resume = ""
	again, final, err := run(ctx, adapter, t)
	again.DurationMS += try.DurationMS
	final.Warnings = slices.Insert(final.Warnings, 0, "the worker began a new session: "+try.Message)
	return again, final, err
}

// Unstarted is what Run returns of a turn whose folders cannot be made.
func Unstarted(t Turn, err error) (schemas.Try, Final) {
	try, final := begun(t)
	return unstarted(try, err), final
}

// begun is what a turn has before anything has happened.
func begun(t Turn) (schemas.Try, Final) {
	return schemas.Try{Profile: schemas.ProfileRef{
		Name: t.Profile.Name, Adapter: t.Profile.Adapter, Provider: t.Profile.Provider, Model: t.Profile.Model,
	}}, Final{Isolation: isolation(), Credential: "none"}
}

func run(ctx context.Context, adapter Adapter, t Turn) (try schemas.Try, final Final, err error) {
	try, final = begun(t)
	if ctx.Err() != nil {
		try.Outcome = schemas.OutcomeInterrupted
		return try, final, nil
	}
	ready, err := prepare(ctx, adapter, t)
	if err != nil {
		return unstarted(try, err), final, nil
	}
	try.Program, try.ProgramVersion = ready.program, ready.version
	final.Credential = ready.inv.Credential
	if file := ready.inv.PromptFile; file != "" {
		defer func() { err = errors.Join(err, durable.RemoveAll(file)) }()
		// The worker of an earlier try may have left something of this name.
		if err := errors.Join(durable.RemoveAll(file), durable.WriteFile(file, []byte(t.Prompt), 0o600)); err != nil {
			try.Outcome, try.FailureClass = schemas.OutcomeError, schemas.FailureSetup
			return try, final, fmt.Errorf("write the prompt: %w", err)
		}
	}

	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	settled := make(chan struct{})
	t.Redact = t.Redact.With(ready.key.value)
	rec := newRecorder(t, ready, cancel, settled)
	g, err := startGateway(ctx, t, ready, rec)
	if err != nil {
		return unstarted(try, err), final, nil
	}
	t.gateway = g.endpoint()
	if t.Resume != "" && bring(t, ready.inv.Session) {
		t.resumed, t.Prompt = true, t.Resume
	}
	if ready.inv, err = adapter.Invocation(t); err != nil {
		return unstarted(try, err), final, g.Close()
	}
	stdout, stderr := rec.lines(rec.stdout), rec.lines(rec.stderr)
	command := proc.Command{
		Argv: append([]string{ready.program}, ready.inv.Args...), Dir: t.Dir, Env: environment(t, ready.inv),
		Stdin: strings.NewReader(ready.inv.Stdin), Stdout: stdout, Stderr: stderr,
		Wall:    seconds(t.Limits.TimeoutSeconds, t.Profile.TimeoutSeconds, schemas.DefaultTurnSeconds),
		Idle:    seconds(t.Limits.IdleSeconds, t.Profile.IdleSeconds, schemas.DefaultIdleSeconds),
		Settled: settled,
	}
	result, runErr := proc.Supervise(running, command)
	_ = stdout.Close() // Lines never fails
	_ = stderr.Close()
	gatewayErr := g.Close() // it says what the last request cost
	if g.free() {
		rec.metered(nothing())
	}

	rec.judge(&try, result, runErr, context.Cause(running))
	err = errors.Join(gatewayErr, keep(t, ready.inv.Session), rec.close(&try, &final))
	return try, final, err
}

// unstarted is the Try of a worker that Check refuses.
func unstarted(try schemas.Try, err error) schemas.Try {
	try.Outcome, try.FailureClass, try.Message = schemas.OutcomeError, schemas.FailureSetup, err.Error()
	if e, ok := errors.AsType[*Error](err); ok && e.Class != "" {
		try.FailureClass = e.Class
	}
	return try
}

// seconds is the smaller of the limits that are set.
func seconds(contract, profile, otherwise int) time.Duration {
	limit := contract
	if limit <= 0 {
		limit = otherwise
	}
	if profile > 0 {
		limit = min(limit, profile)
	}
	return time.Duration(limit) * time.Second
}

// isolation is what is in force around a worker: nothing yet.
func isolation() schemas.Isolation {
	return schemas.Isolation{
		Level: schemas.IsolationNone, Parts: []string{},
		Missing: []string{"bubblewrap", "landlock", "seccomp", "network namespace"},
	}
}

func redactor(t Turn) config.Redactor {
	redact := t.Redact
	for _, secret := range t.Profile.Secrets(t.Getenv) {
		redact = redact.With(secret)
	}
	return redact
}

// environment is an allowlist: nothing of the calling agent, none of git's variables, and the key only
// where the adapter says that the program needs it.
func environment(t Turn, inv Invocation) []string {
	env := []string{
		"PATH=" + searchPath(t.Getenv), "HOME=" + t.Home, "TMPDIR=" + t.Tmp, "TERM=dumb",
		"GIT_SPOT_RUN_ID=" + t.RunID,
		fmt.Sprintf("GIT_SPOT_ATTEMPT=%d", t.Attempt),
		"GIT_SPOT_KIND=" + string(t.Kind),
	}
	for _, name := range []string{
		"LANG", "LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES",
		"LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME", "TZ", "USER", "LOGNAME",
	} {
		if value := t.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	env = append(env, inv.Env...)
	for _, entry := range t.Profile.Env {
		if strings.Contains(entry, "=") {
			env = append(env, entry)
		} else if value := t.Getenv(entry); value != "" {
			env = append(env, entry+"="+value)
		}
	}
	return env
}

// searchPath is PATH without what depends on the current folder: for a worker that is a folder it
// writes to.
func searchPath(getenv func(string) string) string {
	dirs := filepath.SplitList(getenv("PATH"))
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !filepath.IsAbs(dir) })
	if len(dirs) == 0 {
		return "/usr/local/bin:/usr/bin:/bin"
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// Error is a turn that was refused or could not be started; nothing was started.
type Error struct {
	Class     schemas.FailureClass // "" if the refusal is a matter of policy
	Profile   string               // name
	Adapter   string               // what this version has not, "" if that is not the reason
	Companion string               // a program of git spot that is missing, "" if that is not the reason
	Variable  string               // should hold the key and is not set, "" if that is not the reason
	BaseURL   string               // for which git's credential helper has no key, "" if it was not asked
	Key       string               // of the configuration that must be set, "" if that is not the reason
	Known     []string             // the profiles that there are for this version, if the one asked for is none
	Message   string
	Err       error // cause, or nil
	code      schemas.Code
}

func (e *Error) Error() string {
	message := e.Message
	if e.Profile != "" {
		message = "profile " + e.Profile + ": " + message
	}
	if e.Err != nil {
		message += ": " + e.Err.Error()
	}
	return message
}

// Unwrap returns the cause, if there is one.
func (e *Error) Unwrap() error { return e.Err }

// Code is HIGH_RISK_BLOCKED, CONFIG_INVALID, WORKER_AUTH, WORKER_CAPABILITY or WORKER_SETUP.
func (e *Error) Code() schemas.Code { return e.code }

func setupError(p *config.Profile, message string, cause error) *Error {
	return &Error{
		Class: schemas.FailureSetup, Profile: p.Name, Message: message, Err: cause, code: schemas.CodeWorkerSetup,
	}
}
