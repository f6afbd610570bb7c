package schemas_test

import (
	"strings"
	"testing"

	"github.com/git-spot/git-spot/schemas"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"maxConcurrentRuns", "maxRevisions", "id", "title", "timeoutSeconds", "worktreeRoot", "notify"}
	tests := []struct{ word, want string }{
		{"maxconcurrentruns", "maxConcurrentRuns"},
		{"max-concurrent-runs", "maxConcurrentRuns"},
		{"max_revision", "maxRevisions"},
		{"Title", "title"},
		{"tilte", "title"},
		{"di", ""},
		{"ib", "id"},
		{"timeout", "timeoutSeconds"},
		{"titleOfTheTask", "title"},
		{"notifying", "notify"},
		{"no", ""},
		{"", ""},
		{"banana", ""},
		{"wörktreeRoot", "worktreeRoot"},
		{strings.Repeat("maxRevisions", 100000), ""},
	}
	for _, test := range tests {
		if got := schemas.Nearest(test.word, known); got != test.want {
			t.Errorf("Nearest(%.40q) = %q, want %q", test.word, got, test.want)
		}
	}
	if got := schemas.Nearest("x", nil); got != "" {
		t.Errorf("nothing known: %q", got)
	}
	if got := schemas.Nearest("aab", []string{"aac", "aad"}); got != "aac" {
		t.Errorf("equally near: %q, want the first", got)
	}
}
