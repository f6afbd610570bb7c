package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/internal/scriptedmodel"
	"github.com/git-spot/git-spot/schemas"
)

//go:embed demo
var demoFiles embed.FS

type demoOptions struct {
	dir     string
	live    bool
	profile string
}

func newDemoCmd(e *env) *cli.Command {
	var opts demoOptions
	return &cli.Command{
		Name:  "demo",
		Usage: "run the whole loop in a small repository made for it",
		Description: `Makes a repository, hands out one task that lands and the same task to a worker that edits the locked
test and is blocked. Every command is the real one, and so are the coding agent, which is git spot's own,
and the gateway that holds its key. Only what the model says comes from a script, by a model server on
this machine. With --live a profile of yours does the first task, at its provider's price: one of your
global configuration, since the repository is a new one. The folder is kept for you to look at.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "make the demo in `DIR`, which must not exist; default: a new temporary folder", Destination: &opts.dir},
			&cli.BoolFlag{Name: "live", Usage: "let a profile of yours do the task", Destination: &opts.live},
			&cli.StringFlag{Name: "profile", Usage: "with --live: the profile `NAME`; default: the one that the task is routed to", Destination: &opts.profile},
		},
		Metadata: help("git spot demo", append(turnCodes(), schemas.CodeRunExists, schemas.CodeVerificationFailed)...),
		Action: func(ctx context.Context, _ *cli.Command) error {
			if opts.profile != "" && !opts.live {
				return &usageError{message: "--profile goes with --live"}
			}
			return runDemo(ctx, e, opts, demoFiles)
		},
	}
}

func runDemo(ctx context.Context, e *env, opts demoOptions, files fs.FS) (err error) {
	d, err := newDemo(ctx, e, opts.dir, files)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil { // the hints that follow are for there
			d.say("")
			d.say("The demo stops here. Its repository is kept: cd %s", shellQuote(d.repo))
		}
	}()
	prepare := []string{"prepare", "--task", "../task.json", "--id", "slug"}
	if opts.live {
		d.say("A profile of yours does the task, for what its provider charges.")
		if opts.profile != "" {
			prepare = append(prepare, "--profile", opts.profile)
		}
	} else {
		stop, err := d.script(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		d.say("The words of the models are scripts, in %s. All else is real:", filepath.Join(d.dir, "models"))
		d.say("the agent that acts on them, the gateway that holds its key and counts its tokens, every command.")
		d.say("")
		d.say("A model that does the task:")
	}
	for _, step := range [][]string{prepare, {"run", "--id", "slug"}, {"verify", "--id", "slug"}} {
		if err := d.spot(ctx, step...); err != nil {
			return err
		}
	}
	if err := d.review(ctx); err != nil {
		return err
	}
	if err := d.spot(ctx, "land", "--id", "slug", "--review", "../review.json", "--message", "Make slug produce words for addresses"); err != nil {
		return err
	}
	if !opts.live {
		d.say("")
		d.say("A model that edits the locked test instead. The tests would pass, and its run is blocked:")
		if err := d.refused(ctx, schemas.CodeLockedPathChanged, "dispatch", "--task", "../task.json", "--id", "cheat", "--profile", "cheat"); err != nil {
			return err
		}
	}
	d.say("")
	d.say("What git itself says of the commit that landed:")
	if err := d.git(ctx, "log", "-1", "--notes=spot"); err != nil {
		return err
	}
	d.say("")
	d.say("The run's story:    git -C %s log --oneline refs/spot/runs/slug", d.repo)
	d.say("Its state:          git -C %s show refs/spot/runs/slug:state.json", d.repo)
	d.say("All runs:           git -C %s spot list", d.repo)
	if !opts.live {
		d.say("With your model:    git spot demo --live --profile NAME")
	}
	d.say("A task of your own: git spot template code > task.json")
	return nil
}

// demo is a repository with a bug and a task.
type demo struct {
	e     *env
	files fs.FS
	dir   string
	repo  string
	key   string // of the scripted models, "" without them
	own   *gitexec.Repo
}

func newDemo(ctx context.Context, e *env, dir string, files fs.FS) (*demo, error) {
	var err error
	if dir == "" {
		dir, err = durable.MkdirTemp("", "git-spot-demo-")
	} else if dir, err = filepath.Abs(dir); err == nil {
		err = durable.Mkdir(dir, 0o755)
	}
	if errors.Is(err, os.ErrExist) {
		return nil, &codedError{code: schemas.CodeRunExists, message: fmt.Sprintf("%q exists", dir), hints: []string{"git spot demo"}}
	}
	if err != nil {
		return nil, err
	}
	d := &demo{e: e, files: files, dir: dir, repo: filepath.Join(dir, "project")}
	for from, to := range map[string]string{"slug.sh": "project/src/slug.sh", "check.sh": "project/tests/check.sh", "task.json": "task.json"} {
		if err := d.write(from, to); err != nil {
			return nil, err
		}
	}
	if d.own, err = gitexec.Init(ctx, gitexec.Options{Dir: d.repo, Getenv: e.getenv}); err != nil {
		return nil, err
	}
	return d, d.gitAll(ctx,
		[]string{"config", "spot.worktreeRoot", filepath.Join(d.dir, "worktrees")},
		[]string{"config", "user.name", "Demo"}, []string{"config", "user.email", "demo@example.com"},
		[]string{"config", "commit.gpgSign", "false"},
		[]string{"add", "-A"}, []string{"commit", "--quiet", "-m", "A project with a bug"},
	)
}

func (d *demo) gitAll(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if _, err := d.own.Run(ctx, gitexec.Call{Args: args, WorkTree: d.repo}); err != nil {
			return err
		}
	}
	return nil
}

// demoKeyVariable names the key of the scripted models in the environment of the demo's commands.
const demoKeyVariable = "GIT_SPOT_DEMO_KEY"

// script starts the two scripted models and configures a profile for each.
func (d *demo) script(ctx context.Context) (stop func() error, err error) {
	var servers []*scriptedmodel.Server
	stop = func() error {
		var errs []error
		for _, server := range servers {
			errs = append(errs, server.Close())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	d.key = rand.Text()
	for _, name := range []string{"honest", "cheat"} {
		if err := d.write(name+".json", "models/"+name+".json"); err != nil {
			return nil, err
		}
		words, err := fs.ReadFile(d.files, "demo/"+name+".json")
		if err != nil {
			return nil, err
		}
		said, err := scriptedmodel.Decode(bytes.NewReader(words))
		if err != nil {
			return nil, err
		}
		server, err := scriptedmodel.Start(ctx, scriptedmodel.Options{Script: said, Key: d.key})
		if err != nil {
			return nil, err
		}
		servers = append(servers, server)
		key := "spot.profile." + name
		if err := d.gitAll(ctx,
			[]string{"config", key + ".adapter", "builtin"},
			[]string{"config", key + ".provider", "script"},
			[]string{"config", key + ".model", name},
			[]string{"config", key + ".baseURL", server.BaseURL("chat")},
			[]string{"config", key + ".apiKeyEnv", demoKeyVariable},
		); err != nil {
			return nil, err
		}
	}
	return stop, d.gitAll(ctx, []string{"config", "spot.defaultProfile", "honest"})
}

func (d *demo) write(from, to string) error {
	data, err := fs.ReadFile(d.files, "demo/"+from)
	if err != nil {
		return err
	}
	path := filepath.Join(d.dir, filepath.FromSlash(to))
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, data, 0o644)
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.e.textOut(), format+"\n", args...) }

// spot shows a command of git spot and runs it, the real one, in this process.
func (d *demo) spot(ctx context.Context, args ...string) error {
	if err := d.exec(ctx, args); err != nil {
		return fmt.Errorf("demo: git spot %s: %w", args[0], err)
	}
	return nil
}

// refused is spot for a command that must end with code.
func (d *demo) refused(ctx context.Context, code schemas.Code, args ...string) error {
	err := d.exec(ctx, args)
	if codeOf(err) != code {
		return &codedError{code: schemas.CodeInternal, message: fmt.Sprintf("demo: git spot %s ended with %v and not with %s", args[0], err, code)}
	}
	d.say("(exit status %d)", code.Info().Exit)
	return nil
}

func (d *demo) exec(ctx context.Context, args []string) error {
	var shown bytes.Buffer
	for _, arg := range args {
		if strings.ContainsAny(arg, " ") {
			arg = "'" + arg + "'"
		}
		shown.WriteString(" " + arg)
	}
	d.say("\n$ git spot%s", shown.String())
	out := d.e.textOut()
	defer out.Close() //nolint:errcheck // the demo goes on without a reader, and leaves what it made
	e := d.command(out, out, append([]string{"--format", "text"}, args...)...)
	e.stdoutIsTerminal = true
	err := execute(ctx, e)
	e.finish(ctx, err)
	return err
}

// command is a command of git spot in the demo's repository, whatever repository the environment of
// the demo itself names.
func (d *demo) command(out, errOut io.Writer, args ...string) *env {
	return &env{
		in: strings.NewReader(""), out: out, err: errOut, now: d.e.now,
		getenv: func(name string) string {
			switch name {
			case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE":
				return ""
			case demoKeyVariable:
				return d.key
			}
			return d.e.getenv(name)
		},
		args: append([]string{"-C", d.repo}, args...),
	}
}

func (d *demo) git(ctx context.Context, args ...string) error {
	d.say("$ git %s", strings.Join(args, " "))
	out, err := d.own.Run(ctx, gitexec.Call{Args: args, WorkTree: d.repo})
	if err != nil {
		return err
	}
	fmt.Fprint(d.e.textOut(), string(out))
	return nil
}

// review writes the verdict of a caller who has read the change.
func (d *demo) review(ctx context.Context) error {
	var out bytes.Buffer
	if status := run(ctx, d.command(&out, d.e.err, "--json", "inspect", "--id", "slug")); status != 0 {
		return &codedError{code: schemas.CodeInternal, message: fmt.Sprintf("demo: git spot inspect ended with %d", status)}
	}
	var state struct {
		DiffSHA256 string `json:"diffSha256"`
	}
	if err := json.Unmarshal(out.Bytes(), &state); err != nil {
		return err
	}
	if err := d.spot(ctx, "diff", "--id", "slug"); err != nil {
		return err
	}
	form, err := fs.ReadFile(d.files, "demo/review.json")
	if err != nil {
		return err
	}
	d.say("\nHere a caller reads the change. The demo takes it as it is: the verdict on exactly this change is in review.json.")
	return durable.WriteFile(filepath.Join(d.dir, "review.json"), fmt.Appendf(nil, string(form), state.DiffSHA256), 0o644)
}
