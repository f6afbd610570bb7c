// Command git-spot-agent is the builtin worker: git spot starts it in a worktree, inside the sandbox,
// with the prompt on standard input. It is of little use by hand. It prints one event a line; the last
// is "final" (exit status 0) or "error" (exit status 1).
//
// It starts no process and opens nothing but the worktree, the session file and connections to the base
// URL, which must be on loopback.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/git-spot/git-spot/internal/agent"
	"github.com/git-spot/git-spot/internal/agent/model"
	"github.com/git-spot/git-spot/internal/agent/tools"
)

// tokenVariable holds the gateway's token.
const tokenVariable = "GIT_SPOT_GATEWAY_TOKEN"

// maxPrompt bounds the prompt in bytes.
const maxPrompt = 16 << 20

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "git-spot-agent: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, in io.Reader, out io.Writer) error {
	o := agent.Options{Events: out, Secret: getenv(tokenVariable)}
	m := model.Options{Token: o.Secret, Now: time.Now}

	flags := flag.NewFlagSet("git-spot-agent", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&m.API, "api", "", "chat, responses or messages")
	flags.StringVar(&m.BaseURL, "base-url", "", "of the model server, on loopback")
	flags.StringVar(&m.Model, "model", "", "")
	flags.StringVar(&m.Effort, "effort", "", "of reasoning, in the provider's words")
	flags.Int64Var(&m.Context, "context", 0, "tokens of the context window")
	flags.IntVar(&o.MaxSteps, "max-steps", 0, "tool calls; 0 is no limit")
	flags.StringVar(&o.Kind, "kind", agent.KindCode, "of the task; only code may change files")
	flags.StringVar(&o.Transcript, "session", "", "file that keeps the conversation")
	flags.BoolVar(&o.Resume, "resume", false, "go on with the conversation in the session file")
	err := flags.Parse(args)
	switch {
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case err == nil && o.Resume && o.Transcript == "":
		err = errors.New("-resume needs -session")
	case err == nil && (o.MaxSteps < 0 || m.Context < 0):
		err = errors.New("a limit is negative")
	}
	o.API, o.Model, o.Context = m.API, m.Model, m.Context
	o.Connect = func(session string) (model.Client, error) {
		m.Session = session
		return model.New(m)
	}
	if err != nil {
		return agent.Refuse(o, err)
	}
	prompt, err := read(ctx, in)
	if err != nil {
		return agent.Refuse(o, fmt.Errorf("prompt: %w", err))
	}
	o.Prompt = string(prompt)
	set, err := tools.Open(".", o.Kind != agent.KindCode)
	if err != nil {
		return agent.Refuse(o, err)
	}
	o.Tools = set
	return errors.Join(agent.Run(ctx, o), set.Close())
}

// read reads the prompt. A signal ends the wait for it.
func read(ctx context.Context, in io.Reader) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() { // ends with the process, if nobody closes the other end
		data, err := io.ReadAll(io.LimitReader(in, maxPrompt+1))
		done <- result{data, err}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case r := <-done:
		switch {
		case r.err != nil:
			return nil, r.err
		case len(r.data) > maxPrompt:
			return nil, fmt.Errorf("longer than %d MiB", maxPrompt>>20)
		case len(bytes.TrimSpace(r.data)) == 0:
			return nil, errors.New("empty")
		}
		return r.data, nil
	}
}
