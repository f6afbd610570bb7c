package verify_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/internal/proc"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == proc.SuperviseArg {
		os.Exit(proc.ShimMain(os.Args[2:]))
	}
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"} {
		if err := os.Setenv(name, os.DevNull); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// tree is the content of a commit: path to mode, a blank, and content. A content without a mode is an
// ordinary file.
type tree map[string]string

func link(target string) string { return "120000 " + target }

func program(text string) string { return "100755 " + text }

const gitlink = "160000 1234567890123456789012345678901234567890"

// with returns a copy of t with changes; "-" deletes.
func (t tree) with(changes tree) tree {
	out := make(tree)
	for path, content := range t {
		out[path] = content
	}
	for path, content := range changes {
		if content == "-" {
			delete(out, path)
		} else {
			out[path] = content
		}
	}
	return out
}

// newSubject makes a repository with base and candidate, and a subject that is otherwise in order.
func newSubject(t *testing.T, base, candidate tree) verify.Subject {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "", "init", "-q", "--bare", "--template=", ".")
	git(t, dir, commitStream("base", base)+commitStream("candidate", candidate), "fast-import", "--quiet", "--export-marks=marks")
	repo, err := gitexec.Discover(t.Context(), gitexec.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := gitstate.Open(t.Context(), repo, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	oid := func(branch string) gitstate.OID {
		oid, err := ledger.Store().Ref(t.Context(), gitstate.Ref("refs/heads/"+branch))
		if err != nil {
			t.Fatal(err)
		}
		return oid
	}
	diff, err := ledger.Diff(t.Context(), oid("base"), oid("candidate"))
	if err != nil {
		t.Fatal(err)
	}
	return verify.Subject{
		Contract: &schemas.Contract{AllowedPaths: []string{"**"}},
		Objects:  ledger.Store(),
		Diff:     diff,
		Recorded: diff.SHA256,
	}
}

func commitStream(branch string, t tree) string {
	var b strings.Builder
	fmt.Fprintf(&b, "commit refs/heads/%s\ncommitter A <a@b> 1700000000 +0000\ndata 0\n\n", branch)
	for path, content := range t {
		mode := "100644"
		if m, rest, ok := strings.Cut(content, " "); ok && len(m) == 6 && strings.Trim(m, "01234567") == "" {
			mode, content = m, rest
		}
		var quoted strings.Builder
		for i := range len(path) {
			fmt.Fprintf(&quoted, `\%03o`, path[i])
		}
		if mode == "160000" {
			fmt.Fprintf(&b, "M %s %s \"%s\"\n", mode, content, &quoted)
			continue
		}
		fmt.Fprintf(&b, "M %s inline \"%s\"\ndata %d\n%s\n", mode, &quoted, len(content), content)
	}
	return b.String() + "\n"
}

func git(t *testing.T, dir, stdin string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// red runs all gates and returns the codes of the red ones.
func red(t *testing.T, s verify.Subject) []schemas.Code {
	t.Helper()
	rows, err := verify.Gates(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var codes []schemas.Code
	for _, row := range rows {
		if !row.OK {
			codes = append(codes, row.Code)
			if row.Message == "" {
				t.Errorf("%s is red and says nothing", row.Gate)
			}
		}
	}
	return codes
}

// row is the row of one gate.
func row(t *testing.T, s verify.Subject, code schemas.Code) schemas.GateResult {
	t.Helper()
	rows, err := verify.Gates(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Code == code {
			return row
		}
	}
	t.Fatalf("no gate has the code %s", code)
	return schemas.GateResult{}
}

// broken fails to read one kind of object.
type broken struct {
	verify.Objects
	blobs, trees, commits error
}

func (b broken) Blob(ctx context.Context, oid gitstate.OID) ([]byte, error) {
	if b.blobs != nil {
		return nil, b.blobs
	}
	return b.Objects.Blob(ctx, oid)
}

func (b broken) Tree(ctx context.Context, oid gitstate.OID) ([]gitstate.TreeEntry, error) {
	if b.trees != nil {
		return nil, b.trees
	}
	return b.Objects.Tree(ctx, oid)
}

func (b broken) Commit(ctx context.Context, oid gitstate.OID) (*gitstate.Commit, error) {
	if b.commits != nil {
		return nil, b.commits
	}
	return b.Objects.Commit(ctx, oid)
}
