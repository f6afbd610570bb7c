package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/schemas"
)

func newCompletionCmd(e *env) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completion of a shell",
		ArgsUsage: "SHELL",
		Description: `Prints completions for bash, zsh or fish. They extend those of git itself, so "git spot <TAB>" works
where "git <TAB>" does: for bash as _git_spot, which git's own completion calls.`,
		Metadata: help("git spot completion bash > ~/.local/share/bash-completion/completions/git-spot"),
		Action:   func(_ context.Context, c *cli.Command) error { return runCompletion(e, c.Args().First()) },
	}
}

// completionDocument is what completion prints with --json.
type completionDocument struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func runCompletion(e *env, shell string) error {
	var script string
	switch shell {
	case "bash":
		script = bashCompletion(e.root)
	case "zsh":
		script = zshCompletion(e.root)
	case "fish":
		script = fishCompletion(e.root)
	default:
		return usagef("unknown shell %q; bash, zsh and fish are known", shell)
	}
	return e.textResult(completionDocument{Shell: shell, Script: script}, func(w io.Writer) { fmt.Fprint(w, script) })
}

// longFlags returns the flags of a command as they are typed.
func longFlags(flags []cli.Flag) []string {
	var names []string
	for _, f := range flags {
		for _, name := range f.Names() {
			names = append(names, dashed(name))
		}
	}
	return names
}

// argumentWords returns the words that the argument of a command may be.
func argumentWords(root, c *cli.Command) []string {
	switch c.Name {
	case "help":
		return commandNames(root)
	case "schema":
		return schemas.Names()
	case "template":
		return []string{
			string(schemas.KindCode), string(schemas.KindExplore), string(schemas.KindTest),
			string(schemas.KindReview), string(schemas.KindDiscuss),
		}
	case "completion":
		return []string{"bash", "zsh", "fish"}
	default:
		return nil
	}
}

func commandNames(root *cli.Command) []string {
	names := make([]string, 0, len(root.Commands))
	for _, c := range root.Commands {
		names = append(names, c.Name)
	}
	return names
}

// listRuns prints the ids of all runs; it is what the shells complete --id with.
const listRuns = `git for-each-ref --format='%(refname:lstrip=3)' refs/spot/runs/ 2>/dev/null`

func bashCompletion(root *cli.Command) string {
	var b strings.Builder
	b.WriteString(`# bash completion for git spot; git's own completion calls _git_spot.
_git_spot ()
{
	local i command=""
	for ((i = 1; i < cword; i++)); do
		case "${words[i]}" in
`)
	fmt.Fprintf(&b, "\t\t%s) command=\"${words[i]}\"; break ;;\n", strings.Join(commandNames(root), "|"))
	b.WriteString(`		esac
	done
	case "$prev" in
	--id) __gitcomp_nl "$(` + listRuns + `)"; return ;;
	--format) __gitcomp "text json"; return ;;
`)
	fmt.Fprintf(&b, "\t--state|--status) __gitcomp \"%s\"; return ;;\n", strings.Join(allStates(), " "))
	b.WriteString(`	--task|--review|-C|--git-dir) COMPREPLY=($(compgen -f -- "$cur")); return ;;
	esac
	case "$command,$cur" in
`)
	fmt.Fprintf(&b, "\t,-*) __gitcomp \"%s\" ;;\n", strings.Join(longFlags(root.Flags), " "))
	fmt.Fprintf(&b, "\t,*) __gitcomp \"%s\" ;;\n", strings.Join(commandNames(root), " "))
	for _, c := range root.Commands {
		fmt.Fprintf(&b, "\t%s,-*) __gitcomp \"%s\" ;;\n", c.Name, strings.Join(append(longFlags(c.Flags), longFlags(root.Flags)...), " "))
		if words := argumentWords(root, c); words != nil {
			fmt.Fprintf(&b, "\t%s,*) __gitcomp \"%s\" ;;\n", c.Name, strings.Join(words, " "))
		} else if c.ArgsUsage == "[ID]" {
			fmt.Fprintf(&b, "\t%s,*) __gitcomp_nl \"$(%s)\" ;;\n", c.Name, listRuns)
		}
	}
	b.WriteString("\tesac\n}\n")
	return b.String()
}

func zshCompletion(root *cli.Command) string {
	quote := func(s string) string {
		return "'" + strings.NewReplacer("'", `'\''`, ":", `\:`, "[", `\[`, "]", `\]`).Replace(s) + "'"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef git-spot\n#description %s\n", root.Usage)
	b.WriteString("local curcontext=$curcontext state line\nlocal -a commands runs\n")
	b.WriteString("commands=(\n")
	for _, c := range root.Commands {
		fmt.Fprintf(&b, "  %s\n", quote(c.Name)+":"+quote(c.Usage))
	}
	b.WriteString(")\n")
	b.WriteString(`runs=(${(f)"$(` + listRuns + `)"})
_arguments -C '1: :->command' '*:: :->argument'
case $state in
command) _describe -t commands 'git spot command' commands ;;
argument)
  case $line[1] in
`)
	for _, c := range root.Commands {
		fmt.Fprintf(&b, "  %s) _arguments", c.Name)
		for _, f := range append(append([]cli.Flag{}, c.Flags...), root.Flags...) {
			for _, name := range f.Names() {
				b.WriteString(" " + quote(dashed(name)))
				if d, ok := f.(cli.DocGenerationFlag); ok && d.TakesValue() {
					b.WriteString(zshValue(name))
				}
			}
		}
		if words := argumentWords(root, c); words != nil {
			fmt.Fprintf(&b, " '1: :(%s)'", strings.Join(words, " "))
		} else if c.ArgsUsage == "[ID]" {
			b.WriteString(" '1:run:($runs)'")
		}
		b.WriteString(" ;;\n")
	}
	b.WriteString("  esac ;;\nesac\n")
	return b.String()
}

func zshValue(flag string) string {
	switch flag {
	case "id":
		return `':run:($runs)'`
	case "format":
		return `':format:(text json)'`
	case "state", "status":
		return `':state:(` + strings.Join(allStates(), " ") + `)'`
	case "task", "review", "git-dir", "C":
		return `':file:_files'`
	default:
		return `':value:'`
	}
}

func fishCompletion(root *cli.Command) string {
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'" }
	var b strings.Builder
	b.WriteString("# fish completion for git spot, both as \"git spot\" and as \"git-spot\".\n")
	fmt.Fprintf(&b, "function __fish_git_spot_command\n\tset -l words (commandline -opc)\n\tfor word in $words\n\t\tif contains -- $word %s\n\t\t\techo $word\n\t\t\treturn 0\n\t\tend\n\tend\n\treturn 1\nend\n",
		strings.Join(commandNames(root), " "))
	b.WriteString("function __fish_git_spot_needs_command\n\tnot __fish_git_spot_command >/dev/null\nend\n")
	b.WriteString("function __fish_git_spot_using\n\tset -l command (__fish_git_spot_command)\n\ttest \"$command\" = $argv[1]\nend\n")
	b.WriteString("function __fish_git_spot_runs\n\t" + listRuns + "\nend\n")
	for _, in := range []struct{ program, prefix string }{
		{"git-spot", ""},
		{"git", "__fish_git_using_command spot; and "},
	} {
		if in.program == "git" {
			fmt.Fprintf(&b, "complete -f -c git -n __fish_git_needs_command -a spot -d %s\n", quote(root.Usage))
		} else {
			b.WriteString("complete -f -c git-spot\n")
		}
		for _, c := range root.Commands {
			fmt.Fprintf(&b, "complete -f -c %s -n %s -a %s -d %s\n", in.program, quote(in.prefix+"__fish_git_spot_needs_command"), c.Name, quote(c.Usage))
			condition := quote(in.prefix + "__fish_git_spot_using " + c.Name)
			for _, f := range append(append([]cli.Flag{}, c.Flags...), root.Flags...) {
				writeFishFlag(&b, in.program, condition, f, quote)
			}
			if words := argumentWords(root, c); words != nil {
				fmt.Fprintf(&b, "complete -f -c %s -n %s -a %s\n", in.program, condition, quote(strings.Join(words, " ")))
			} else if c.ArgsUsage == "[ID]" {
				fmt.Fprintf(&b, "complete -f -c %s -n %s -a '(__fish_git_spot_runs)'\n", in.program, condition)
			}
		}
	}
	return b.String()
}

func writeFishFlag(b *strings.Builder, program, condition string, f cli.Flag, quote func(string) string) {
	fmt.Fprintf(b, "complete -c %s -n %s", program, condition)
	for _, name := range f.Names() {
		if len(name) == 1 {
			b.WriteString(" -s " + name)
		} else {
			b.WriteString(" -l " + name)
		}
	}
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		b.WriteString("\n")
		return
	}
	if d.TakesValue() {
		switch f.Names()[0] {
		case "id":
			b.WriteString(" -x -a '(__fish_git_spot_runs)'")
		case "format":
			b.WriteString(" -x -a 'text json'")
		case "state":
			b.WriteString(" -x -a " + quote(strings.Join(allStates(), " ")))
		case "task", "review", "git-dir", "C":
			b.WriteString(" -r -F")
		default:
			b.WriteString(" -x")
		}
	}
	fmt.Fprintf(b, " -d %s\n", quote(strings.ReplaceAll(d.GetUsage(), "`", "")))
}
