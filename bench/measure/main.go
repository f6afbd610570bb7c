// Measure runs commands in turns and prints what each took:
//
//	measure [-runs N] [-each N] NAME [PATH=VALUE] COMMAND [ARG]... [-- NAME [PATH=VALUE] COMMAND [ARG]...]...
//
// Each line is NAME, the median wall time and the median processor time (user and system, of all
// descendants) of one execution, in milliseconds, separated by tabs. Commands take turns, so that what
// else the machine does hits all of them. {} in an argument becomes the number of the sample, from 1.
// Standard output of the commands is dropped; one that fails ends the measurement.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	runs := flag.Int("runs", 11, "samples a command")
	each := flag.Int("each", 1, "executions a sample, for commands that are over at once")
	flag.Parse()
	if err := measure(*runs, *each, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

type command struct {
	name      string
	path      string
	argv, env []string
	wall, cpu []time.Duration
}

func measure(runs, each int, args []string) error {
	var commands []*command
	for words := range strings.SplitSeq(strings.Join(args, "\x00"), "\x00--\x00") {
		argv := strings.Split(words, "\x00")
		if len(argv) < 2 {
			return fmt.Errorf("a name and a command are wanted, not %q", words)
		}
		c := &command{name: argv[0], argv: argv[1:], env: os.Environ()}
		search := os.Getenv("PATH")
		if value, ok := strings.CutPrefix(c.argv[0], "PATH="); ok && len(c.argv) > 1 {
			search = value
			c.env = slices.DeleteFunc(c.env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
			c.env = append(c.env, c.argv[0])
			c.argv = c.argv[1:]
		}
		var err error
		if c.path, err = lookPath(c.argv[0], search); err != nil {
			return err
		}
		commands = append(commands, c)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close() //nolint:errcheck // nothing was written that could be lost
	for run := range runs {
		for _, c := range commands {
			if err := c.sample(run+1, each, null); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	for _, c := range commands {
		fmt.Printf("%s\t%.3f\t%.3f\n", c.name, median(c.wall), median(c.cpu))
	}
	return nil
}

func (c *command) sample(run, each int, null *os.File) error {
	argv := slices.Clone(c.argv)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "{}", strconv.Itoa(run))
	}
	var wall, cpu time.Duration
	for range each {
		start := time.Now()
		p, err := os.StartProcess(c.path, argv, &os.ProcAttr{Env: c.env, Files: []*os.File{null, null, os.Stderr}})
		if err != nil {
			return err
		}
		state, err := p.Wait()
		wall += time.Since(start)
		if err != nil {
			return err
		}
		if !state.Success() {
			return fmt.Errorf("%q: %v", argv, state)
		}
		cpu += state.UserTime() + state.SystemTime()
	}
	c.wall = append(c.wall, wall/time.Duration(each))
	c.cpu = append(c.cpu, cpu/time.Duration(each))
	return nil
}

func median(samples []time.Duration) float64 {
	slices.Sort(samples)
	n := len(samples)
	middle := samples[n/2]
	if n%2 == 0 {
		middle = (middle + samples[n/2-1]) / 2
	}
	return float64(middle) / float64(time.Millisecond)
}

// lookPath finds a program as a shell does. The start of os/exec would be measured too.
func lookPath(name, search string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for dir := range strings.SplitSeq(search, ":") {
		path := dir + "/" + name
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in PATH", name)
}
