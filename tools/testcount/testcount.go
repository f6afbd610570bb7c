// Testcount runs "go test -json" commands one after another, shows what failed and ends with one line:
//
//	N passed, N failed, N skipped
//
// It counts tests and their subtests. It fails if a test or a package fails, if nothing was run, or
// if a test was skipped that the list of allowed skips does not name.
//
//	testcount -skips FILE [NAME=VALUE]... go test -json ./... [-- [NAME=VALUE]... go test -json ./...]...
//
// A line of FILE is a package, a test and the reason, separated by blanks; package and test are
// patterns of path.Match, the package relative to the module.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

const module = "github.com/git-spot/git-spot/"

func main() {
	skips := flag.String("skips", "", "`file` with the allowed skips")
	flag.Parse()
	if err := run(os.Stdout, *skips, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, skipsFile string, args []string) error {
	allowed, err := readSkips(skipsFile)
	if err != nil {
		return err
	}
	var c counter
	var errs []error
	for len(args) > 0 {
		command := args
		if i := slices.Index(args, "--"); i >= 0 {
			command, args = args[:i], args[i+1:]
		} else {
			args = nil
		}
		errs = append(errs, c.command(w, command))
	}
	for _, skip := range c.skips {
		if !allowed.match(skip) {
			errs = append(errs, fmt.Errorf("%s %s was skipped and is not on the list of allowed skips:\n%s", skip.pkg, skip.test, skip.output))
		}
	}
	if c.passed == 0 {
		errs = append(errs, errors.New("no test passed"))
	}
	err = errors.Join(errs...)
	if err != nil {
		fmt.Fprintln(w, err)
		err = errors.New("not every test passed")
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", c.passed, c.failed, len(c.skips))
	return err
}

type testName struct{ pkg, test string }

type skip struct {
	testName
	output string
}

type counter struct {
	passed, failed int
	skips          []skip
}

// event is one line of go test -json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // build-output, build-fail
	Test        string
	Output      string
	FailedBuild string
}

// command runs one go test and counts what it says.
func (c *counter) command(w io.Writer, argv []string) error {
	title := strings.Join(argv, " ")
	var env []string
	for len(argv) > 0 && strings.Contains(argv[0], "=") {
		env, argv = append(env, argv[0]), argv[1:]
	}
	if len(argv) == 0 {
		return fmt.Errorf("%q is no command", title)
	}
	fmt.Fprintln(w, "+", title)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := errors.Join(c.read(w, out), cmd.Wait()); err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	return nil
}

// read counts the events of one go test. The output of a test is held back until it is known to have
// failed.
func (c *counter) read(w io.Writer, r io.Reader) error {
	output := map[testName]*strings.Builder{}
	failedIn := map[string]bool{} // packages whose failure a test has already counted
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(w, "%s", line) // not from a test: the go command itself speaks
			} else {
				c.event(w, e, output, failedIn)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *counter) event(w io.Writer, e event, output map[testName]*strings.Builder, failedIn map[string]bool) {
	name := testName{strings.TrimPrefix(e.Package, module), e.Test}
	switch e.Action {
	case "output":
		b := output[name]
		if b == nil {
			b = new(strings.Builder)
			output[name] = b
		}
		b.WriteString(e.Output)
		return
	case "build-output":
		fmt.Fprint(w, e.Output)
		return
	case "pass":
		if e.Test != "" {
			c.passed++
		} else {
			fmt.Fprintf(w, "ok    %s\n", name.pkg)
		}
	case "skip":
		if e.Test != "" {
			c.skips = append(c.skips, skip{name, text(output[name])})
		}
	case "fail":
		switch {
		case e.Test != "":
			c.failed++
			failedIn[e.Package] = true
		case !failedIn[e.Package]: // it does not build, or ended outside any test
			c.failed++
		}
		fmt.Fprintf(w, "FAIL  %s %s\n%s", name.pkg, name.test, text(output[name]))
	default:
		return
	}
	delete(output, name)
}

func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}

type skipList []testName

func readSkips(name string) (skipList, error) {
	if name == "" {
		return nil, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var list skipList
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("%s: %q has no reason", name, line)
		}
		for _, pattern := range fields[:2] {
			if _, err := path.Match(pattern, ""); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", name, pattern, err)
			}
		}
		list = append(list, testName{fields[0], fields[1]})
	}
	return list, nil
}

func (l skipList) match(s skip) bool {
	return slices.ContainsFunc(l, func(allowed testName) bool {
		inPackage, _ := path.Match(allowed.pkg, s.pkg)
		inTest, _ := path.Match(allowed.test, s.test)
		return inPackage && inTest
	})
}
