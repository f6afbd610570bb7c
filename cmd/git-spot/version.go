package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v3"
)

// Set by the Makefile with -ldflags -X.
var (
	version = "" // git describe
	commit  = ""
)

func newVersionCmd(e *env) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "say which git spot this is and how it was built",
		Description: `Says the version, the commit it was built from, the storage backends that it has, and the
version of Go. A build with cgo has the libgit2 backend beside the one of git plumbing.`,
		Metadata: help("git spot version --json"),
		Action:   func(context.Context, *cli.Command) error { return runVersion(e) },
	}
}

// versionDocument is what version prints.
type versionDocument struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit"`
	Backends []string `json:"backends"` // the first is preferred
	Libgit2  string   `json:"libgit2,omitempty"`
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
}

func buildVersion() versionDocument {
	v := versionDocument{
		Version:  version,
		Commit:   commit,
		Backends: []string{"plumbing"},
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Version == "" {
		v.Version = info.Main.Version // go install
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && v.Commit == "" {
			v.Commit = setting.Value
		}
	}
	for _, module := range info.Deps {
		if module.Path == "github.com/libgit2/git2go/v34" { // linked with cgo only
			v.Backends = []string{"libgit2", "plumbing"}
			v.Libgit2 = "1.5 (git2go " + module.Version + ")" // the only series that it compiles with
		}
	}
	return v
}

func runVersion(e *env) error {
	v := buildVersion()
	return e.result(v, func(w io.Writer) {
		fmt.Fprintf(w, "git spot %s\n", v.Version)
		if v.Commit != "" {
			fmt.Fprintf(w, "commit    %s\n", v.Commit)
		}
		fmt.Fprintf(w, "backend   %s\n", v.Backends[0])
		if v.Libgit2 != "" {
			fmt.Fprintf(w, "libgit2   %s\n", v.Libgit2)
		}
		fmt.Fprintf(w, "go        %s %s\n", v.Go, v.Platform)
	})
}
