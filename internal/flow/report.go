package flow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

// reportText is report.md: what a person wants to know of a run that has ended.
func (s *Session) reportText(ctx context.Context, run *gitstate.Run, m *schemas.Metrics) (string, error) {
	st := &run.State
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "- %s: %s\n", name, inline(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(&b, "# %s\n\n", inline(st.Title))
	line("Run", "%s", run.ID)
	line("State", "%s", m.State)
	if st.Code != "" {
		line("Code", "%s", st.Code)
	}
	line("Base", "%s", st.Base.Commit)
	if st.Approved != "" {
		line("Commit", "%s", st.Approved)
	}
	if st.Integration != nil {
		line("Branch", "%s", st.Integration.Branch)
	}
	if st.Diff != nil {
		line("Change", "%d files, +%d -%d, diffSha256 %s", st.Diff.Files, st.Diff.Added, st.Diff.Deleted, st.DiffSHA256)
	}
	line("Attempts", "%d, of which revisions: %d", m.Attempts, m.Revisions)
	line("Worker", "%s/%s, profile %s", st.Profile.Adapter, orUnknown(st.Profile.Model), st.Profile.Name)
	line("Worker tokens", "uncached input %s, cache read %s, cache write %s, output %s",
		count(m.Worker.UncachedInput), count(m.Worker.CacheRead), count(m.Worker.CacheWrite), count(m.Worker.Output))
	if m.Isolation != nil {
		line("Isolation", "%s", m.Isolation.Level)
	}
	v, err := s.Verification(ctx, run)
	if err != nil && !errors.Is(err, gitstate.ErrNoFile) {
		return "", err
	}
	if v != nil {
		sum := summarize(v)
		fmt.Fprintf(&b, "\n## Verification: %s, %d of %d commands\n\n", v.Verdict, sum.Passed, sum.Total)
		for _, g := range v.Gates {
			if !g.OK {
				fmt.Fprintf(&b, "- %s: %s\n", g.Code, inline(g.Message))
			}
		}
		for _, c := range v.Commands {
			fmt.Fprintf(&b, "- %s\n", inline(DescribeCommand(c)))
		}
	}
	if len(m.Warnings) > 0 {
		b.WriteString("\n## Warnings\n\n")
		for _, w := range m.Warnings {
			fmt.Fprintf(&b, "- %s\n", inline(w))
		}
	}
	return b.String(), nil
}

// inline makes foreign text harmless within a line of Markdown: one line of printable characters, and
// none that begins a link, an image, HTML or a code span, or takes away the backslash before one.
func inline(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	return strings.NewReplacer(`\`, `\\`, "<", `\<`, "[", `\[`, "`", "\\`", "!", `\!`, "*", `\*`, "_", `\_`).Replace(s)
}

func count(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
