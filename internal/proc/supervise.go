package proc

import (
	"context"
	"errors"

	"github.com/git-spot/git-spot/internal/proc/shim"
)

// SuperviseArg is the first argument with which git-spot runs itself as the supervisor: its main then
// returns ShimMain of the arguments after it. A test binary that calls Supervise needs the same in its TestMain.
const SuperviseArg = "__supervise"

// ShimMain is the supervisor. It returns the exit status of its process.
func ShimMain(args []string) int { return shim.Main(args) }

// Shim says which supervisor Supervise uses: the path of git-spot-shim or, if builtin, of this program.
func Shim() (path string, builtin bool) { return "", true }

// Supervise runs an untrusted child under a supervisor.
func Supervise(ctx context.Context, c Command) (Result, error) {
	return Result{}, errors.New("not written yet")
}
