package workers_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/git-spot/git-spot/internal/proc"
)

// TestMain makes the test binary its own supervisor and its own worker programs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case proc.SuperviseArg:
			os.Exit(proc.ShimMain(os.Args[2:]))
		case "__worker":
			os.Exit(worker(os.Args[2], os.Args[3:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// worker is one of the programs that a shell script cannot be.
func worker(what string, args []string) int {
	switch what {
	case "environ":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "args":
		for _, arg := range args {
			fmt.Printf("%q\n", arg)
		}
	case "stdin":
		data, err := io.ReadAll(os.Stdin)
		fmt.Println(len(data), strings.Count(string(data), "x"), err)
	case "huge":
		line := bytes.Repeat([]byte{'a'}, 1<<20)
		for range 60 {
			fmt.Printf("%s", line)
		}
		fmt.Println()
		fmt.Println("after")
	case "flood":
		n, _ := strconv.Atoi(args[0])
		line := []byte(strings.Repeat("x", 999) + "\n")
		for range n {
			fmt.Printf("%s", line)
		}
		fmt.Println("the very last line")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("here")
		time.Sleep(time.Hour)
	case "hang":
		time.Sleep(time.Hour)
	}
	return 0
}
