// Command git-spot-shim is the supervisor of everything untrusted that git spot starts. git-spot
// finds it beside itself or in its libexec folder; it is of no use by hand.
package main

import (
	"os"

	"github.com/git-spot/git-spot/internal/proc/shim"
)

func main() { os.Exit(shim.Main(os.Args[1:])) }
