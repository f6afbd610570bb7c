package verify_test

import (
	"fmt"
	"testing"

	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
)

// A verification matches every path of the base tree.
func BenchmarkMatch(b *testing.B) {
	var paths []string
	for i := range 20_000 {
		paths = append(paths, fmt.Sprintf("internal/package%d/some/deeper/folder/file_number_%d_test.go", i%300, i))
	}
	m := verify.Locked(&schemas.Contract{LockedPaths: []string{"tests/**", "**/*_lock.go"}}, nil)
	for b.Loop() {
		for _, p := range paths {
			m.Match(p)
		}
	}
}
