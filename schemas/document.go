package schemas

import (
	"fmt"
	"strings"
)

// exits are the exit statuses in the order of docs/errors.md.
var exits = []struct {
	status  string
	codes   int // exit status of the codes listed under it, 0 for none
	meaning string
}{
	{"0", 0, "done"},
	{"1", 1, "failed: read the code"},
	{"2", 0, "a crash of git spot: please report it"},
	{"3", 3, "a gate, the verification or a policy says no"},
	{"4", 4, "no such run, ref or file"},
	{"5", 5, "conflict: the state moved, nothing was written, a retry is safe"},
	{"6", 6, "busy: the owner of the run is alive, or all slots are held"},
	{"7", 7, "the worker failed"},
	{"8", 8, "environment or set-up: program, version, credentials, repository"},
	{"129", 129, "usage: the command line is wrong"},
	{"130, 143", 130, "ended by a signal: 130 for SIGINT, 143 for SIGTERM and SIGHUP"},
}

// ErrorsMarkdown returns docs/errors.md, made from Codes.
func ErrorsMarkdown() []byte {
	var b strings.Builder
	b.WriteString(`# Errors and exit statuses

<!-- Made from schemas/code.go by "go test ./schemas -run TestErrorsMarkdown -update". Do not edit. -->

Every failure has a code for programs, and every code has one exit status. Codes are append-only: none
is renamed, moved to another exit status or used for something else.

| exit | meaning |
| --- | --- |
`)
	for _, e := range exits {
		fmt.Fprintf(&b, "| %s | %s |\n", e.status, e.meaning)
	}
	b.WriteString(`
Where the output is JSON, the last line on standard error is one object, described by
` + "`git spot schema error`" + `:

` + "```json" + `
{"error":{"code":"LOCK_HELD","message":"run fix-parser is being advanced by process 4711","hint":"wait for it, or end it with git spot abort --id fix-parser","retryable":true}}
` + "```" + `

` + "`message` says what happened, `hint` what to do about it, and `paths` lists the files it is about where there are any." + `
` + "`retryable` true means that the same command may succeed later without anybody changing anything; false means" + `
that it will fail again until something is mended. A negative outcome is a result: ` + "`run`, `revise`, `verify`" + `
and ` + "`dispatch`" + ` print their document on standard output all the same.
`)
	section := func(heading string, exit int) {
		fmt.Fprintf(&b, "\n## %s\n\n| code | retryable | meaning |\n| --- | --- | --- |\n", heading)
		for _, c := range Codes {
			if c.Exit == exit {
				retryable := "no"
				if c.Retryable {
					retryable = "yes"
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.Code, retryable, strings.TrimPrefix(c.Meaning, "Warning: "))
			}
		}
	}
	for _, e := range exits {
		if e.codes > 0 {
			section("Exit "+e.status+": "+e.meaning, e.codes)
		}
	}
	section("Warnings, which are recorded and never end a command", 0)
	return []byte(b.String())
}
