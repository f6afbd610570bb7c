package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

//go:embed demo
var demoFiles embed.FS

func newDemoCmd(e *env) *cli.Command {
	dir := ""
	return &cli.Command{
		Name:  "demo",
		Usage: "run the whole loop in a small repository made for it",
		Description: `Makes a repository, hands out one task that lands and one whose worker edits the locked test and is
blocked. Every command is the real one. The workers are two shell scripts, driven by the adapter
"command" in place of a coding agent; nothing else is pretended. The folder is kept for you to look at.`,
		Flags:    []cli.Flag{&cli.StringFlag{Name: "dir", Usage: "make the demo in `DIR`, which must not exist; default: a new temporary folder", Destination: &dir}},
		Metadata: help("git spot demo", schemas.CodeRunExists),
		Action:   func(ctx context.Context, _ *cli.Command) error { return runDemo(ctx, e, dir) },
	}
}

func runDemo(ctx context.Context, e *env, dir string) error {
	d, err := newDemo(ctx, e, dir)
	if err != nil {
		return err
	}
	d.say("A worker that does the task. The workers here are shell scripts in %s;", filepath.Join(d.dir, "workers"))
	d.say("with a profile of your own a coding agent takes their place.")
	steps := [][]string{
		{"prepare", "--task", "../task.json", "--id", "slug"},
		{"run", "--id", "slug"},
		{"verify", "--id", "slug"},
	}
	for _, step := range steps {
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
	d.say("")
	d.say("A worker that edits the locked test instead. Its tests would pass, and it is blocked:")
	if err := d.refused(ctx, schemas.CodeLockedPathChanged, "dispatch", "--task", "../task.json", "--id", "cheat", "--profile", "cheat"); err != nil {
		return err
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
	d.say("A task of your own: git spot template code > task.json")
	return nil
}

// demo is a repository with two scripted workers.
type demo struct {
	e    *env
	dir  string
	repo string
	own  *gitexec.Repo
}

func newDemo(ctx context.Context, e *env, dir string) (*demo, error) {
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
	d := &demo{e: e, dir: dir, repo: filepath.Join(dir, "project")}
	for from, to := range map[string]string{
		"slug.sh": "project/src/slug.sh", "check.sh": "project/tests/check.sh", "task.json": "task.json",
		"honest.sh": "workers/honest.sh", "cheat.sh": "workers/cheat.sh",
	} {
		if err := d.write(from, to); err != nil {
			return nil, err
		}
	}
	if d.own, err = gitexec.Init(ctx, gitexec.Options{Dir: d.repo, Getenv: e.getenv}); err != nil {
		return nil, err
	}
	sh := func(script string) [][]string {
		key := "spot.profile." + strings.TrimSuffix(script, ".sh")
		return [][]string{
			{"config", key + ".adapter", "command"},
			{"config", "--add", key + ".argv", "sh"},
			{"config", "--add", key + ".argv", filepath.Join(d.dir, "workers", script)},
		}
	}
	commands := append(sh("honest.sh"), sh("cheat.sh")...)
	commands = append(commands,
		[]string{"config", "spot.defaultProfile", "honest"},
		[]string{"config", "spot.worktreeRoot", filepath.Join(d.dir, "worktrees")},
		[]string{"config", "user.name", "Demo"}, []string{"config", "user.email", "demo@example.com"},
		[]string{"config", "commit.gpgSign", "false"},
		[]string{"add", "-A"}, []string{"commit", "--quiet", "-m", "A project with a bug"},
	)
	for _, args := range commands {
		if _, err := d.own.Run(ctx, gitexec.Call{Args: args, WorkTree: d.repo}); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *demo) write(from, to string) error {
	data, err := demoFiles.ReadFile("demo/" + from)
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
	status, _ := d.exec(ctx, args)
	if status != 0 {
		return &codedError{code: schemas.CodeInternal, message: fmt.Sprintf("demo: git spot %s ended with %d", args[0], status)}
	}
	return nil
}

// refused is spot for a command that must end with code.
func (d *demo) refused(ctx context.Context, code schemas.Code, args ...string) error {
	status, said := d.exec(ctx, args)
	if status != code.Info().Exit || !strings.Contains(said, string(code)) {
		return &codedError{code: schemas.CodeInternal, message: fmt.Sprintf("demo: git spot %s ended with %d and not with %s", args[0], status, code)}
	}
	d.say("(exit status %d)", status)
	return nil
}

func (d *demo) exec(ctx context.Context, args []string) (status int, said string) {
	var shown bytes.Buffer
	for _, arg := range args {
		if strings.ContainsAny(arg, " ") {
			arg = "'" + arg + "'"
		}
		shown.WriteString(" " + arg)
	}
	d.say("\n$ git spot%s", shown.String())
	var out bytes.Buffer
	e := d.command(&out, &out, append([]string{"--format", "text"}, args...)...)
	e.stdoutIsTerminal = true
	status = run(ctx, e)
	fmt.Fprint(d.e.textOut(), out.String())
	return status, out.String()
}

// command is a command of git spot in the demo's repository, whatever repository the environment of
// the demo itself names.
func (d *demo) command(out, errOut io.Writer, args ...string) *env {
	return &env{
		in: strings.NewReader(""), out: out, err: errOut, now: d.e.now,
		getenv: func(name string) string {
			if name == "GIT_DIR" || name == "GIT_WORK_TREE" || name == "GIT_INDEX_FILE" {
				return ""
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
	form, err := demoFiles.ReadFile("demo/review.json")
	if err != nil {
		return err
	}
	d.say("\nThe change is what the task asks for; the verdict on exactly this change is in review.json.")
	return durable.WriteFile(filepath.Join(d.dir, "review.json"), fmt.Appendf(nil, string(form), state.DiffSHA256), 0o644)
}
