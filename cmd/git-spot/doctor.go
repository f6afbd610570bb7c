package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/flow"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
	"github.com/git-spot/git-spot/workers"
	"github.com/git-spot/git-spot/worktree"
)

type doctorOptions struct{ task, profile string }

func newDoctorCmd(e *env) *cli.Command {
	var opts doctorOptions
	return &cli.Command{
		Name:  "doctor",
		Usage: "say whether a run could start here, and what is in its way",
		Description: `Looks at git, the repository, the storage backend, the supervisor, the worker program, credentials (set
or not, never the value), identity and configuration, and with --task at the contract. Each finding
comes with its code and the command that mends it. It creates nothing.

If a run could not start the exit status is not 0.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "task", Usage: "look at this contract too: `FILE`, - is standard input", Destination: &opts.task},
			&cli.StringFlag{Name: "profile", Usage: "as prepare would be told: `NAME`", Destination: &opts.profile},
		},
		Metadata: help("git spot doctor --task task.json", append(repositoryCodes(),
			schemas.CodeConfigInvalid, schemas.CodeContractInvalid, schemas.CodeHighRiskBlocked, schemas.CodeFileNotFound,
			schemas.CodeHeadUnborn, schemas.CodeWorkerSetup, schemas.CodeWorkerAuth, schemas.CodeWorkerCapability,
			schemas.CodeSandboxUnavailable)...),
		Action: func(ctx context.Context, _ *cli.Command) error { return runDoctor(ctx, e, opts) },
	}
}

// doctorDocument is what doctor prints. What could not be found out is null or empty, and a finding
// says why.
type doctorDocument struct {
	OK            bool                `json:"ok"` // a run could start
	Version       versionDocument     `json:"version"`
	Git           doctorGit           `json:"git"`
	Repository    *doctorRepository   `json:"repository"`
	Backend       *doctorBackend      `json:"backend"`
	Supervisor    doctorSupervisor    `json:"supervisor"`
	Identity      *doctorIdentity     `json:"identity"`
	Caller        string              `json:"caller"`
	Profile       string              `json:"profile"`
	ProfileSource string              `json:"profileSource"`
	Difficulty    *schemas.Difficulty `json:"difficulty"`
	Chain         []doctorProfile     `json:"chain"` // the profile and its fallbacks, in order
	Isolation     *schemas.Isolation  `json:"isolation"`
	Contract      *doctorContract     `json:"contract"`
	Locked        doctorLocked        `json:"locked"`
	Configuration []config.Setting    `json:"configuration"`
	Findings      []finding           `json:"findings"`
}

type doctorGit struct {
	Program string `json:"program"`
	Version string `json:"version"`
}

type doctorRepository struct {
	GitDir       string   `json:"gitDir"`
	WorkTree     string   `json:"workTree,omitempty"`
	Bare         bool     `json:"bare"`
	Shallow      bool     `json:"shallow"`
	ObjectFormat string   `json:"objectFormat"`
	Head         string   `json:"head"` // commit, "" if there is none yet
	WorktreeRoot string   `json:"worktreeRoot"`
	SourceDirty  []string `json:"sourceDirty"` // would not be part of a run
}

type doctorBackend struct {
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty"` // why it is not libgit2
}

type doctorSupervisor struct {
	Path    string `json:"path"`
	Builtin bool   `json:"builtin"` // git-spot itself, which starts slower
}

type doctorIdentity struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

type doctorProfile struct {
	Name           string            `json:"name"`
	Adapter        string            `json:"adapter"`
	Model          string            `json:"model,omitempty"`
	BaseURL        string            `json:"baseURL,omitempty"`
	Program        string            `json:"program,omitempty"`
	ProgramVersion string            `json:"programVersion,omitempty"`
	Credential     *doctorCredential `json:"credential"`
	Error          *schemas.Error    `json:"error,omitempty"`
}

type doctorCredential struct {
	Variable string `json:"variable"`
	Set      bool   `json:"set"`
	From     string `json:"from,omitempty"` // environment, or helper for git's credential helper
}

type doctorContract struct {
	Title string        `json:"title"`
	Kind  schemas.Kind  `json:"kind"`
	Risk  schemas.Level `json:"risk"`
}

type doctorLocked struct {
	Patterns []string     `json:"patterns"`
	Files    []lockedFile `json:"files"` // of HEAD
}

type lockedFile struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// finding is one thing that doctor has to say.
type finding struct {
	Severity severity     `json:"severity"`
	Code     schemas.Code `json:"code"`
	Message  string       `json:"message"`
	Command  string       `json:"command,omitempty"` // mends it, or says more; several are a line each
}

type severity string

const (
	severityError   severity = "error"   // a run could not start
	severityWarning severity = "warning" // a later command would refuse, or the run would be worse than it could be
)

// examination is one doctor at work.
type examination struct {
	e        *env
	opts     doctorOptions
	doc      doctorDocument
	s        *session
	config   *config.Config
	contract *schemas.Contract
}

func runDoctor(ctx context.Context, e *env, opts doctorOptions) error {
	x := &examination{e: e, opts: opts}
	x.doc = doctorDocument{
		Version: buildVersion(), Chain: []doctorProfile{}, Findings: []finding{}, Configuration: []config.Setting{},
		Locked: doctorLocked{Patterns: []string{}, Files: []lockedFile{}},
	}
	x.doc.Caller, _ = config.Caller(e.getenv)
	x.supervisor()
	x.repository(ctx)
	if x.s != nil {
		defer x.s.close()
	}
	if err := x.task(ctx); err != nil {
		return err // a file that is not there is a mistake of the call, not a finding
	}
	if x.s != nil {
		x.head(ctx)
		x.configuration(ctx)
		x.locked(ctx)
	}
	if x.config != nil {
		x.workers(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	outcome := x.outcome()
	x.doc.OK = outcome == nil
	if err := e.result(x.doc, func(w io.Writer) { writeDoctor(w, &x.doc) }); err != nil {
		return err
	}
	return outcome
}

// found notes err as a finding. The advice is the one that the error would have brought.
func (x *examination) found(ctx context.Context, s severity, err error) {
	wire, _ := describe(ctx, err)
	command := wire.Hint
	if command == "git spot doctor" {
		command = "" // here we are
	}
	x.doc.Findings = append(x.doc.Findings, finding{Severity: s, Code: wire.Code, Message: wire.Message, Command: command})
}

// outcome is the error that doctor ends with: the first finding that keeps a run from starting, the
// machine's before the contract's.
func (x *examination) outcome() error {
	var first *finding
	for i, f := range x.doc.Findings {
		if f.Severity != severityError {
			continue
		}
		const environment = 8
		if first == nil || first.Code.Info().Exit != environment && f.Code.Info().Exit == environment {
			first = &x.doc.Findings[i]
		}
	}
	if first == nil {
		return nil
	}
	e := &codedError{code: first.Code, message: "a run could not start: " + first.Message}
	if first.Command != "" {
		e.hints = []string{first.Command}
	}
	return e
}

func (x *examination) supervisor() {
	x.doc.Supervisor.Path, x.doc.Supervisor.Builtin = proc.Shim()
	if x.doc.Supervisor.Builtin {
		x.doc.Findings = append(x.doc.Findings, finding{
			Severity: severityWarning, Code: schemas.CodeWorkerSetup,
			Message: "git-spot-shim is not beside git-spot nor in its libexec folder, so workers start slower",
			Command: "make install",
		})
	}
}

func (x *examination) repository(ctx context.Context) {
	s, err := x.e.open(ctx)
	if err != nil {
		x.found(ctx, severityError, err)
		return
	}
	x.s = s
	r := s.repo
	x.doc.Git = doctorGit{Program: r.Program, Version: r.Version}
	x.doc.Repository = &doctorRepository{
		GitDir: r.GitDir, WorkTree: r.WorkTree, Bare: r.Bare, Shallow: r.Shallow, ObjectFormat: r.ObjectFormat, SourceDirty: []string{},
	}
	backend := s.ledger.Backend()
	x.doc.Backend = &doctorBackend{Name: backend.Name, Reason: backend.Reason}
}

func (x *examination) head(ctx context.Context) {
	out, err := x.s.repo.Run(ctx, gitexec.Call{Args: []string{"rev-parse", "--verify", "--quiet", "HEAD^{commit}"}})
	e, refused := errors.AsType[*gitexec.Error](err)
	switch {
	case refused && e.Status > 0:
		x.found(ctx, severityError, &flow.UnbornError{Head: "HEAD"})
	case err != nil:
		x.found(ctx, severityError, err)
	default:
		x.doc.Repository.Head = strings.TrimSpace(string(out))
	}
	if x.s.repo.WorkTree == "" {
		return
	}
	dirty, err := worktree.DirtyPaths(ctx, x.s.repo)
	if err != nil {
		x.found(ctx, severityError, err)
		return
	}
	x.doc.Repository.SourceDirty = append(x.doc.Repository.SourceDirty, dirty...)
	if len(dirty) > 0 {
		x.doc.Findings = append(x.doc.Findings, finding{
			Severity: severityWarning, Code: schemas.CodeSourceDirty, Command: "git status",
			Message: fmt.Sprintf("%d paths with changes that are not committed: they would not be part of a run, and tracked ones are in the way of a landing", len(dirty)),
		})
	}
}

func (x *examination) configuration(ctx context.Context) {
	entries, err := x.s.repo.Config(ctx)
	if err != nil {
		x.found(ctx, severityError, err)
		return
	}
	x.identity(ctx)
	cfg, err := config.Parse(entries)
	if err != nil {
		x.found(ctx, severityError, err)
		return
	}
	x.config = cfg
	x.doc.Configuration = append(x.doc.Configuration, cfg.Settings()...)
	root, err := worktree.Root(x.s.repo, cfg.WorktreeRoot, x.e.getenv)
	if err != nil {
		x.found(ctx, severityError, err)
	}
	x.doc.Repository.WorktreeRoot = root
}

func (x *examination) identity(ctx context.Context) {
	name, email, err := worktree.Author(ctx, x.s.repo)
	if err != nil {
		x.found(ctx, severityWarning, err)
		return
	}
	x.doc.Identity = &doctorIdentity{Name: name, Email: email}
}

// task reads the contract. Only a file that cannot be read is an error.
func (x *examination) task(ctx context.Context) error {
	if x.opts.task == "" {
		return nil
	}
	data, err := x.e.readInput(ctx, x.opts.task)
	if err != nil {
		return err
	}
	contract, err := schemas.ParseContract(data)
	if err != nil {
		x.found(ctx, severityError, err)
		return nil
	}
	if x.s != nil {
		if err := worktree.CheckReuse(ctx, x.s.repo, contract.Reuse); err != nil {
			x.found(ctx, severityError, err)
		}
	}
	x.contract = contract
	x.doc.Contract = &doctorContract{Title: contract.Title, Kind: contract.Kind, Risk: contract.Risk}
	return nil
}

// locked lists what a worker must not change, and which files of HEAD that are.
func (x *examination) locked(ctx context.Context) {
	contract := x.contract
	if contract == nil {
		contract = &schemas.Contract{}
	}
	var always []string
	if x.config != nil {
		always = x.config.AlwaysLockedPath
	}
	x.doc.Locked.Patterns = append(x.doc.Locked.Patterns, verify.LockedPatterns(contract, always)...)
	if x.doc.Repository.Head == "" {
		return
	}
	out, err := x.s.repo.Run(ctx, gitexec.Call{Args: []string{"ls-tree", "-r", "-z", "--name-only", "--full-tree", x.doc.Repository.Head}})
	if err != nil {
		x.found(ctx, severityError, err)
		return
	}
	matcher := verify.Locked(contract, always)
	tracked := map[string]bool{}
	for name := range bytes.SplitSeq(out, []byte{0}) {
		if len(name) == 0 {
			continue
		}
		tracked[string(name)] = true
		if why, is := matcher.Match(string(name)); is {
			x.doc.Locked.Files = append(x.doc.Locked.Files, lockedFile{Path: string(name), Why: why})
		}
	}
	if x.contract == nil {
		return
	}
	for _, message := range missingPrograms(x.contract, x.e.getenv("PATH"), func(path string) bool { return tracked[path] }) {
		x.doc.Findings = append(x.doc.Findings, finding{
			Severity: severityWarning, Code: schemas.CodeVerificationFailed, Message: message,
		})
	}
}

// missingPrograms says which programs of a contract's commands are not there. tracked says whether a
// path will be in the clean room; set-up may well make one that is not.
func missingPrograms(contract *schemas.Contract, search string, tracked func(path string) bool) []string {
	var missing []string
	look := func(what string, argv []string, cwd string) {
		program, search := argv[0], search
		switch { // as for execvp
		case path.IsAbs(program):
			program, search = path.Base(program), path.Dir(program)
		case strings.Contains(program, "/"):
			if len(contract.Setup) > 0 || tracked(path.Join(cwd, program)) {
				return
			}
		}
		if _, err := proc.LookPath(program, search); err != nil {
			missing = append(missing, fmt.Sprintf("%s: program %q is not found", what, program))
		}
	}
	for i, setup := range contract.Setup {
		look(fmt.Sprintf("setup %d", i+1), setup.Argv, setup.Cwd)
	}
	for _, check := range contract.Verification {
		look("verification "+check.ID, check.Argv, check.Cwd)
	}
	return missing
}

// workers follows the routing that prepare would do.
func (x *examination) workers(ctx context.Context) {
	contract := x.contract
	if contract == nil {
		contract = &schemas.Contract{Kind: schemas.KindCode, Risk: schemas.LevelLow}
	}
	choice, err := workers.Route(x.config, contract, x.doc.Caller, x.opts.profile, x.e.getenv)
	if err != nil {
		x.found(ctx, severityError, err)
		return
	}
	x.doc.Profile, x.doc.ProfileSource, x.doc.Difficulty = choice.Profile.Name, choice.Source, &choice.Difficulty
	for i, name := range append([]string{choice.Profile.Name}, choice.Fallback...) {
		profile := x.config.Profiles[name]
		if profile == nil {
			continue
		}
		row := doctorProfile{Name: name, Adapter: profile.Adapter, Model: profile.Model, BaseURL: profile.BaseURL}
		if variable := profile.APIKeyEnv; variable != "" {
			row.Credential = &doctorCredential{Variable: variable, Set: x.e.getenv(variable) != ""}
		}
		turn := workers.Turn{Profile: profile, Kind: contract.Kind, Getenv: x.e.getenv, Now: x.e.now}
		if x.s != nil {
			turn.Credential = x.s.repo.Credential
		}
		ready, err := workers.Probe(ctx, turn)
		row.Program, row.ProgramVersion = ready.Program, ready.Version
		if ready.KeyFrom != "" {
			row.Credential.Set, row.Credential.From = true, ready.KeyFrom
		}
		if err != nil {
			wire, _ := describe(ctx, err)
			row.Error = &wire
			if i == 0 {
				x.found(ctx, severityError, err)
			} else {
				x.found(ctx, severityWarning, err)
			}
		}
		if i == 0 {
			x.doc.Isolation = &ready.Isolation
		}
		x.doc.Chain = append(x.doc.Chain, row)
	}
	if x.config.Sandbox == "require" && x.doc.Isolation.Level != schemas.IsolationSandbox {
		x.found(ctx, severityError, &codedError{
			code: schemas.CodeSandboxUnavailable, message: "spot.sandbox is require and this version has no sandbox yet",
			hints: []string{"git config spot.sandbox prefer"},
		})
	}
}

func writeDoctor(w io.Writer, doc *doctorDocument) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, oneLine(fmt.Sprintf(format, args...)))
	}
	row("git spot", "%s", doc.Version.Version)
	if doc.Git.Program != "" {
		row("git", "%s, %s", doc.Git.Version, doc.Git.Program)
	}
	if r := doc.Repository; r != nil {
		kind := ""
		if r.Bare {
			kind = ", bare"
		}
		if r.Shallow {
			kind += ", shallow"
		}
		row("repository", "%s, %s%s", r.GitDir, r.ObjectFormat, kind)
		row("worktrees", "%s", r.WorktreeRoot)
	}
	if b := doc.Backend; b != nil {
		row("backend", "%s", strings.TrimSuffix(b.Name+": "+b.Reason, ": "))
	}
	if doc.Supervisor.Builtin {
		row("supervisor", "git-spot itself")
	} else {
		row("supervisor", "%s", doc.Supervisor.Path)
	}
	if doc.Identity != nil {
		row("identity", "%s <%s>", doc.Identity.Name, doc.Identity.Email)
	}
	row("caller", "%s", doc.Caller)
	if doc.Profile != "" {
		row("profile", "%s, by %s%s", doc.Profile, doc.ProfileSource, passedOver(doc))
	}
	for _, p := range doc.Chain {
		worker := strings.TrimSuffix(p.Adapter+"/"+p.Model, "/")
		if p.BaseURL != "" {
			worker += " at " + p.BaseURL
		}
		if p.Program != "" {
			worker = strings.TrimSpace(worker + " " + p.Program + " " + p.ProgramVersion)
		}
		if c := p.Credential; c != nil {
			switch {
			case c.From == "helper":
				worker += ", " + c.Variable + " by git's credential helper"
			case c.Set:
				worker += ", " + c.Variable + " set"
			default:
				worker += ", " + c.Variable + " unset"
			}
		}
		row("worker", "%s: %s", p.Name, worker)
	}
	if doc.Isolation != nil {
		row("isolation", "%s; missing: %s", doc.Isolation.Level, strings.Join(doc.Isolation.Missing, ", "))
	}
	if doc.Contract != nil {
		row("contract", "%s, risk %s", doc.Contract.Title, doc.Contract.Risk)
	}
	_ = table.Flush()
	if len(doc.Locked.Files) > 0 {
		fmt.Fprintf(w, "\nlocked files\n")
		for _, f := range doc.Locked.Files {
			fmt.Fprintf(table, "  %s\t%s\n", oneLine(f.Path), oneLine(f.Why))
		}
		_ = table.Flush()
	}
	if slices.ContainsFunc(doc.Configuration, isSet) {
		fmt.Fprintf(w, "\nconfiguration\n")
		for _, s := range doc.Configuration {
			if isSet(s) {
				fmt.Fprintf(table, "  %s\t%s\t%s %s\n", s.Key, oneLine(fmt.Sprint(s.Value)), s.Scope, oneLine(s.Origin))
			}
		}
		_ = table.Flush()
	}
	fmt.Fprintln(w)
	for _, f := range doc.Findings {
		fmt.Fprintf(w, "%s %s: %s\n", f.Severity, f.Code, oneLine(f.Message))
		if f.Command != "" {
			for command := range strings.Lines(f.Command) {
				fmt.Fprintf(w, "  %s\n", oneLine(strings.TrimSuffix(command, "\n")))
			}
		}
	}
	if doc.OK {
		fmt.Fprintln(w, "a run can start")
	}
}

// passedOver says how to get the default profile that somebody set, if the task's difficulty came first.
func passedOver(doc *doctorDocument) string {
	for _, s := range doc.Configuration {
		if s.Key == "spot.defaultProfile" && isSet(s) && doc.ProfileSource == "difficulty" && s.Value != doc.Profile {
			return fmt.Sprintf("; %v always: git config spot.caller.%s.profile %v", s.Value, doc.Caller, s.Value)
		}
	}
	return ""
}

// isSet says that a person chose the value.
func isSet(s config.Setting) bool { return s.Scope != "default" && s.Scope != "shipped" }
