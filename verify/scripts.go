package verify

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// This file finds the files that a command line executes or takes its orders from, as opposed to the
// files it works on: "sh tests/check.sh" runs a script, "grep -q x src/a.txt" reads what the worker is
// to write. It guesses from the names of programs. A wrong guess towards a file of the task would end
// the run of an honest worker, so that unknown programs name nothing; lockedPaths says the rest.

// programKind says which of its operands a program takes for code.
type programKind int

const (
	runsNothing programKind = iota // none
	runsFirst                      // an interpreter: the first operand
	runsAll                        // a test runner: all of them
	wraps                          // runs the command line that follows its own options
	isShell                        // an interpreter that also takes a command as text
)

// program is what must be known of a program to find its code.
type program struct {
	kind    programKind
	verbs   []string // words before the operands: "run" of "uv run"; without one of them nothing is found
	values  []string // options whose value is the next word
	orders  []string // options whose value is a file of code or configuration
	literal []string // options whose value is code: no file follows
}

// programs are known by their names without a version.
func programs() map[string]program {
	table := make(map[string]program)
	for names, p := range map[string]program{
		"sh bash dash ash zsh ksh mksh yash fish posh": {kind: isShell, values: []string{"-o", "+o", "-O", "+O"}, orders: []string{"--rcfile", "--init-file"}},

		"python pypy":       {kind: runsFirst, values: []string{"-W", "-X"}, literal: []string{"-c"}},
		"node nodejs":       {kind: runsFirst, values: []string{"-C", "--conditions"}, orders: []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "--env-file"}, literal: []string{"-e", "--eval", "-p", "--print", "-pe"}},
		"tsx ts-node":       {kind: runsFirst, values: []string{"--tsconfig", "-P", "--project"}, orders: []string{"-r", "--require", "--import"}, literal: []string{"-e", "--eval"}},
		"ruby jruby":        {kind: runsFirst, values: []string{"-C", "-I", "-E"}, orders: []string{"-r"}, literal: []string{"-e"}},
		"perl":              {kind: runsFirst, values: []string{"-I"}, literal: []string{"-e", "-E"}},
		"php":               {kind: runsFirst, values: []string{"-d"}, orders: []string{"-c", "-f"}, literal: []string{"-r"}},
		"lua luajit":        {kind: runsFirst, values: []string{"-l"}, literal: []string{"-e"}},
		"awk gawk mawk":     {kind: runsNothing, orders: []string{"-f", "--file"}},
		"sed jq bc":         {kind: runsNothing, orders: []string{"-f", "--file", "--from-file"}},
		"grep egrep fgrep":  {kind: runsNothing, orders: []string{"-f", "--file"}},
		"rg":                {kind: runsNothing, orders: []string{"-f", "--file"}},
		"make gmake bmake":  {kind: runsNothing, orders: []string{"-f", "--file", "--makefile"}},
		"ninja just task":   {kind: runsNothing, orders: []string{"-f", "--justfile", "--taskfile", "-t"}},
		"rake":              {kind: runsNothing, orders: []string{"-f", "--rakefile", "-r", "--require"}},
		"ant mvn":           {kind: runsNothing, orders: []string{"-f", "--file", "-buildfile", "-s", "--settings"}},
		"gradle":            {kind: runsNothing, orders: []string{"-b", "--build-file", "-c", "--settings-file", "-I", "--init-script"}},
		"cmake":             {kind: runsNothing, orders: []string{"-P", "-C"}},
		"ctest":             {kind: runsNothing, orders: []string{"-S", "-SP"}},
		"tox nox":           {kind: runsNothing, orders: []string{"-c", "--conf", "-f", "--noxfile"}},
		"rscript julia":     {kind: runsFirst, literal: []string{"-e", "--eval"}},
		"tclsh expect":      {kind: runsFirst, literal: []string{"-c"}},
		"guile racket":      {kind: runsFirst, literal: []string{"-c", "-e"}},
		"groovy osascript":  {kind: runsFirst, literal: []string{"-e"}},
		"elixir escript":    {kind: runsFirst, values: []string{"-pa", "-pz"}, orders: []string{"-r"}, literal: []string{"-e", "--eval"}},
		"pwsh powershell":   {kind: runsFirst, orders: []string{"-File", "-file", "-f"}, literal: []string{"-Command", "-command", "-c"}},
		"deno bun go mix":   {kind: runsAll, verbs: []string{"run", "test"}, orders: []string{"--preload", "-c", "--config", "--require", "-r"}},
		"rails":             {kind: runsAll, verbs: []string{"test", "runner"}},
		"pytest py.test":    {kind: runsAll, values: []string{"-k", "-m", "-p", "-n", "-o", "-W"}, orders: []string{"-c", "--config-file"}},
		"unittest nose2":    {kind: runsAll, values: []string{"-k", "-p", "-s", "-t"}},
		"jest vitest":       {kind: runsAll, values: []string{"-t"}, orders: []string{"-c"}},
		"mocha ava":         {kind: runsAll, values: []string{"-g", "-f", "-m"}, orders: []string{"-r", "--file", "-c"}},
		"tap jasmine karma": {kind: runsAll},
		"playwright":        {kind: runsAll, verbs: []string{"test"}, values: []string{"-g"}, orders: []string{"-c"}},
		"rspec cucumber":    {kind: runsAll, values: []string{"-e", "-t", "-f", "-n"}, orders: []string{"-r", "-O"}},
		"minitest":          {kind: runsAll},
		"bats shellspec":    {kind: runsAll, values: []string{"-f", "-j"}},
		"phpunit pest":      {kind: runsAll, orders: []string{"-c", "--configuration", "--bootstrap"}},
		"prove busted":      {kind: runsAll, values: []string{"-I", "-j"}},

		"env cross-env dotenv":               {kind: wraps, values: []string{"-u", "--unset", "-C", "--chdir", "-e"}},
		"timeout gtimeout":                   {kind: wraps, values: []string{"-k", "--kill-after", "-s", "--signal"}},
		"nice ionice chrt":                   {kind: wraps, values: []string{"-n", "-c"}},
		"nohup setsid time command exec":     {kind: wraps},
		"busybox toybox chronic stdbuf":      {kind: wraps, values: []string{"-i", "-o", "-e"}},
		"xvfb-run dbus-run-session":          {kind: wraps, values: []string{"-s", "-n"}},
		"npx bunx pnpx nyc c8":               {kind: wraps, values: []string{"-p", "--package", "-r"}},
		"uv poetry pipenv pdm hatch rye":     {kind: wraps, verbs: []string{"run"}, values: []string{"--with", "-p", "--python"}},
		"bundle npm pnpm yarn asdf mise sbt": {kind: wraps, verbs: []string{"exec", "x", "dlx"}},
		"coverage":                           {kind: runsFirst, verbs: []string{"run"}, values: []string{"--source", "--omit", "--include"}},
	} {
		for _, name := range strings.Fields(names) {
			table[name] = p
		}
	}
	return table
}

// anyOrders are options that name configuration or code whatever the program is.
var anyOrders = []string{"--config", "--config-file", "--rcfile", "--require", "--import", "--loader", "--setup-file", "--init-file"}

var (
	versionSuffix = regexp.MustCompile(`[-.]?[0-9][0-9.]*$`)
	amount        = regexp.MustCompile(`^[0-9.]+[smhd]?$`)
	assignment    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	position      = regexp.MustCompile(`(::.*|:[0-9]+(:[0-9]+)*|\[[0-9:,]+\])$`) // of a test in its file
)

// namedScripts returns repository-relative paths that argv, run in the folder cwd, takes for code. They
// need not exist.
func namedScripts(argv []string, cwd string) []string {
	s := scripts{table: programs()}
	s.command(argv, cwd, 0)
	slices.Sort(s.paths)
	return slices.Compact(s.paths)
}

type scripts struct {
	table map[string]program
	paths []string
}

// maxNesting bounds wrappers in wrappers and shells in shells.
const maxNesting = 8

func (s *scripts) add(cwd, word string) {
	if word == "" || path.IsAbs(word) || strings.ContainsRune(word, 0) {
		return
	}
	for _, w := range []string{word, position.ReplaceAllString(word, "")} {
		if p := path.Join(cwd, w); p != "." && p != ".." && !strings.HasPrefix(p, "../") {
			s.paths = append(s.paths, p)
		}
	}
}

func (s *scripts) command(argv []string, cwd string, depth int) {
	if len(argv) == 0 || depth > maxNesting {
		return
	}
	if strings.Contains(argv[0], "/") {
		s.add(cwd, argv[0])
	}
	name := strings.TrimSuffix(strings.ToLower(path.Base(argv[0])), ".exe")
	p, known := s.table[name]
	if !known {
		p = s.table[versionSuffix.ReplaceAllString(name, "")]
	}
	words := argv[1:]
	sawVerb := len(p.verbs) == 0
	first := true
	for i := 0; i < len(words); i++ {
		word := words[i]
		if len(word) > 1 && (word[0] == '-' || p.kind == isShell && word[0] == '+') {
			option, value, joined := strings.Cut(word, "=")
			takes := func(options []string) bool { return slices.Contains(options, option) }
			switch {
			case takes(p.orders) || takes(anyOrders):
				if !joined && i+1 < len(words) {
					i++
					value = words[i]
				}
				s.add(cwd, value)
			case p.kind == isShell && word[1] != '-' && word[0] == '-' && strings.Contains(word, "c"):
				for i++; i < len(words) && strings.HasPrefix(words[i], "-"); i++ {
				}
				if i < len(words) {
					s.text(words[i], cwd, depth+1)
				}
				return
			case option == "-m" && p.kind == runsFirst && i+1 < len(words):
				s.command(words[i+1:], cwd, depth+1)
				return
			case takes(p.literal):
				return
			case takes(p.values):
				i++
			case p.kind == runsFirst && option == "--test":
				p.kind = runsAll // of node
			}
			continue
		}
		if !sawVerb {
			if slices.Contains(p.verbs, word) {
				sawVerb = true
				continue
			}
			// npm and its like also run scripts, which package.json holds and its own gate guards.
			if p.kind == wraps {
				return
			}
			continue
		}
		switch p.kind {
		case wraps:
			if assignment.MatchString(word) || amount.MatchString(word) {
				continue
			}
			s.command(words[i:], cwd, depth+1)
			return
		case runsFirst, isShell:
			if first {
				s.add(cwd, word)
			}
			first = false
		case runsAll:
			s.add(cwd, word)
		}
	}
}

// text reads a shell command just well enough to find its simple commands.
func (s *scripts) text(text, cwd string, depth int) {
	for _, argv := range simpleCommands(text) {
		for len(argv) > 0 && (assignment.MatchString(argv[0]) || slices.Contains([]string{"if", "then", "elif", "else", "while", "until", "do", "!", "{", "}"}, argv[0])) {
			argv = argv[1:]
		}
		if len(argv) < 2 {
			s.command(argv, cwd, depth)
			continue
		}
		switch argv[0] {
		case "cd", "pushd":
			if !path.IsAbs(argv[1]) {
				cwd = path.Join(cwd, argv[1])
			}
		case ".", "source":
			s.add(cwd, argv[1])
		default:
			s.command(argv, cwd, depth)
		}
	}
}

// simpleCommands splits at what separates commands in a shell and takes quotes off. Expansions stay
// text.
func simpleCommands(text string) [][]string {
	var commands [][]string
	var words []string
	var word strings.Builder
	inWord := false
	endWord := func() {
		if inWord {
			words = append(words, word.String())
			word.Reset()
			inWord = false
		}
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
			words = nil
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\'', '"':
			inWord = true
			for i++; i < len(text) && text[i] != c; i++ {
				if c == '"' && text[i] == '\\' && i+1 < len(text) {
					i++
				}
				word.WriteByte(text[i])
			}
		case '\\':
			if i++; i < len(text) && text[i] != '\n' {
				inWord = true
				word.WriteByte(text[i])
			}
		case ' ', '\t':
			endWord()
		case ';', '&', '|', '\n', '(', ')', '`':
			endCommand()
		case '<', '>':
			// What is read from or written to is data, unless a shell reads it; the word stays an
			// operand, of which only the first counts there.
			endWord()
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	endCommand()
	return commands
}
