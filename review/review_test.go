package review_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/git-spot/git-spot/review"
	"github.com/git-spot/git-spot/schemas"
)

var (
	hash  = strings.Repeat("a", 64)
	other = strings.Repeat("b", 64)
)

func code(t *testing.T, err error) schemas.Code {
	t.Helper()
	if err == nil {
		return ""
	}
	var coded schemas.Coded
	if !errors.As(err, &coded) {
		t.Fatalf("%v has no code", err)
	}
	if strings.TrimSpace(err.Error()) == "" {
		t.Error("the error says nothing")
	}
	return coded.Code()
}

// approval is a case in which everything is right, for a row to break.
type approval struct {
	contract *schemas.Contract
	state    *schemas.RunState
	v        *schemas.Verification
	r        *schemas.Review
}

func newApproval() approval {
	return approval{
		contract: &schemas.Contract{Acceptance: []schemas.Criterion{{ID: "A1", Text: "one"}, {ID: "A2", Text: "two"}}},
		state:    &schemas.RunState{DiffSHA256: hash},
		v: &schemas.Verification{
			Verdict: schemas.VerdictPass, DiffSHA256: hash,
			Gates: []schemas.GateResult{{Gate: "locked-paths", Code: schemas.CodeLockedPathChanged, OK: true}},
		},
		r: &schemas.Review{
			Verdict: schemas.ReviewApprove, DiffSHA256: hash,
			Evidence: []schemas.Evidence{{Criterion: "A1", Text: "read"}, {Criterion: "A2", Text: "ran"}},
		},
	}
}

func TestCheckApproval(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(*approval)
		want  schemas.Code
	}{
		{"good", func(*approval) {}, ""},
		{"verdict revise", func(a *approval) { a.r.Verdict = schemas.ReviewRevise }, schemas.CodeReviewInvalid},
		{"not verified", func(a *approval) { a.v = nil }, schemas.CodeVerificationFailed},
		{"verification failed", func(a *approval) { a.v.Verdict = schemas.VerdictFail }, schemas.CodeVerificationFailed},
		{"pass beside a red gate", func(a *approval) { a.v.Gates[0].OK = false }, schemas.CodeVerificationFailed},
		{"no verdict at all", func(a *approval) { a.v.Verdict = "" }, schemas.CodeVerificationFailed},
		{"another change was verified", func(a *approval) { a.v.DiffSHA256 = other }, schemas.CodeDiffHashChanged},
		{"another change was reviewed", func(a *approval) { a.r.DiffSHA256 = other }, schemas.CodeDiffHashChanged},
		{"the change moved on", func(a *approval) { a.state.DiffSHA256 = other }, schemas.CodeDiffHashChanged},
		{"no hash anywhere", func(a *approval) { a.state.DiffSHA256, a.v.DiffSHA256, a.r.DiffSHA256 = "", "", "" }, schemas.CodeDiffHashChanged},
		{"no evidence", func(a *approval) { a.r.Evidence = nil }, schemas.CodeEvidenceMissing},
		{"evidence for one of two", func(a *approval) { a.r.Evidence = a.r.Evidence[:1] }, schemas.CodeEvidenceMissing},
		{"blank evidence", func(a *approval) { a.r.Evidence[1].Text = " \t\n" }, schemas.CodeEvidenceMissing},
		{"invisible evidence", func(a *approval) { a.r.Evidence[1].Text = "\u200b\u00a0\ufeff" }, schemas.CodeEvidenceMissing},
		{"blank beside real evidence", func(a *approval) {
			a.r.Evidence = append(a.r.Evidence, schemas.Evidence{Criterion: "A1", Text: " "})
		}, ""},
		{"unknown criterion", func(a *approval) {
			a.r.Evidence = append(a.r.Evidence, schemas.Evidence{Criterion: "A3", Text: "x"})
		}, schemas.CodeReviewInvalid},
		{"criterion in another case", func(a *approval) { a.r.Evidence[0].Criterion = "a1" }, schemas.CodeReviewInvalid},
		{"open P0", func(a *approval) { a.r.Findings = []schemas.Finding{{Severity: schemas.P0, Summary: "x"}} }, schemas.CodeUnresolvedFindings},
		{"open P2", func(a *approval) { a.r.Findings = []schemas.Finding{{Severity: schemas.P2, Summary: "x"}} }, schemas.CodeUnresolvedFindings},
		{"open P3", func(a *approval) { a.r.Findings = []schemas.Finding{{Severity: schemas.P3, Summary: "x"}} }, ""},
		{"severity that nobody knows", func(a *approval) { a.r.Findings = []schemas.Finding{{Severity: "p3", Summary: "x"}} }, schemas.CodeUnresolvedFindings},
		{"resolved P0", func(a *approval) {
			a.r.Findings = []schemas.Finding{{Severity: schemas.P0, Summary: "x", Resolved: true}}
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newApproval()
			tt.spoil(&a)
			if got := code(t, review.CheckApproval(a.contract, a.state, a.v, a.r)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCheckApprovalNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	a := newApproval()
	a.r.Evidence = nil
	err := review.CheckApproval(a.contract, a.state, a.v, a.r)
	e, ok := errors.AsType[*review.EvidenceError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff([]string{"A1", "A2"}, e.Missing); diff != "" {
		t.Error(diff)
	}
}

func TestCheckRevision(t *testing.T) {
	t.Parallel()
	finding := []schemas.Finding{{Severity: schemas.P3, Summary: "x"}}
	pass := &schemas.Verification{Verdict: schemas.VerdictPass}
	fail := &schemas.Verification{Verdict: schemas.VerdictFail, Code: schemas.CodeVerificationFailed}
	tests := []struct {
		name      string
		revisions int
		max       int
		r         schemas.Review
		v         *schemas.Verification
		want      schemas.Code
	}{
		{"first", 0, 2, schemas.Review{Verdict: schemas.ReviewRevise, DiffSHA256: hash, Findings: finding}, pass, ""},
		{"second", 1, 2, schemas.Review{Verdict: schemas.ReviewRevise, DiffSHA256: hash, Findings: finding}, pass, ""},
		{"third", 2, 2, schemas.Review{Verdict: schemas.ReviewRevise, DiffSHA256: hash, Findings: finding}, pass, schemas.CodeRevisionLimit},
		{"none allowed", 0, 0, schemas.Review{Verdict: schemas.ReviewRevise, DiffSHA256: hash, Findings: finding}, pass, schemas.CodeRevisionLimit},
		{"approves", 0, 2, schemas.Review{Verdict: schemas.ReviewApprove, DiffSHA256: hash, Findings: finding}, pass, schemas.CodeReviewInvalid},
		{"nothing to do", 0, 2, schemas.Review{Verdict: schemas.ReviewRevise, DiffSHA256: hash}, pass, schemas.CodeReviewInvalid},
		{"all resolved", 0, 2, schemas.Review{Verdict: schemas.ReviewRevise, DiffSHA256: hash, Findings: []schemas.Finding{{Severity: schemas.P1, Summary: "x", Resolved: true}}}, pass, schemas.CodeReviewInvalid},
		{"nothing to do, never verified", 0, 2, schemas.Review{Verdict: schemas.ReviewRevise, DiffSHA256: hash}, nil, schemas.CodeReviewInvalid},
		{"failed verification is enough", 0, 2, schemas.Review{Verdict: schemas.ReviewRevise, DiffSHA256: hash}, fail, ""},
		{"another change", 0, 2, schemas.Review{Verdict: schemas.ReviewRevise, DiffSHA256: other, Findings: finding}, pass, schemas.CodeDiffHashChanged},
		{"limit before hash", 2, 2, schemas.Review{Verdict: schemas.ReviewRevise, DiffSHA256: other, Findings: finding}, pass, schemas.CodeRevisionLimit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			state := &schemas.RunState{DiffSHA256: hash, Revisions: tt.revisions}
			if got := code(t, review.CheckRevision(state, tt.max, &tt.r, tt.v)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	r := &schemas.Review{Verdict: schemas.ReviewRevise, DiffSHA256: hash, Findings: []schemas.Finding{
		{Severity: schemas.P1, Summary: "a"}, {Severity: schemas.P3, Summary: "b"}, {Severity: schemas.P2, Summary: "c", Resolved: true},
	}}
	want := schemas.ReviewSummary{Verdict: schemas.ReviewRevise, Open: 1, DiffSHA256: hash}
	if got := review.Summary(r); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(r.Findings) != 3 || r.Findings[1].Summary != "b" {
		t.Errorf("the review was changed: %+v", r.Findings)
	}
}

func TestFeedback(t *testing.T) {
	t.Parallel()
	zero, one := 0, 1
	r := &schemas.Review{Findings: []schemas.Finding{
		{Severity: schemas.P3, Summary: "small"},
		{Severity: schemas.P0, Summary: "done", Resolved: true},
		{Severity: schemas.P1, Path: "a.go", Line: 3, Summary: "big"},
	}}
	v := &schemas.Verification{
		Gates: []schemas.GateResult{
			{Gate: "empty-diff", Code: schemas.CodeEmptyDiff, OK: true},
			{Gate: "allowed-paths", Code: schemas.CodePathNotAllowed, Paths: []string{"x"}},
		},
		Setup: []schemas.CommandResult{{Argv: []string{"no-such"}, Error: "program \"no-such\" not found"}},
		Commands: []schemas.CommandResult{
			{Argv: []string{"true"}, Exit: &zero, OutputHead: "fine"},
			{Argv: []string{"false"}, Exit: &one, OutputHead: "red\n", OutputBytes: 4},
			{Argv: []string{"sleep", "9"}, TimedOut: true, Signal: "SIGTERM", DurationMS: 2000},
			{Argv: []string{"long"}, Exit: &one, OutputHead: strings.Repeat("h", 64<<10), OutputTail: strings.Repeat("line\n", 13<<10), OutputBytes: 1 << 30},
			{Argv: []string{"gap"}, Exit: &one, OutputHead: "head", OutputTail: "tail", OutputBytes: 100},
			{Argv: []string{"whole"}, Exit: &one, OutputHead: "head", OutputTail: "tail", OutputBytes: 8},
		},
	}
	findings, gates, tails := review.Feedback(r, v)
	wantFindings := []schemas.Finding{
		{Severity: schemas.P1, Path: "a.go", Line: 3, Summary: "big"},
		{Severity: schemas.P3, Summary: "small"},
	}
	if diff := cmp.Diff(wantFindings, findings); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(v.Gates[1:], gates); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, tail := range tails {
		output := tail.Output
		if len(output) > 8<<10 {
			t.Errorf("%q: %d bytes of output", tail.Argv, len(output))
		}
		if len(output) > 20 {
			output = output[:5] + "..."
		}
		got = append(got, tail.Argv[0]+" | "+tail.Status+" | "+output)
	}
	want := []string{
		`no-such | could not be started: program "no-such" not found | `,
		"false | exit status 1 | red\n",
		"sleep | timed out after 2 s | ",
		"long | exit status 1 | line\n...",
		"gap | exit status 1 | tail",
		"whole | exit status 1 | headtail",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if findings, gates, tails = review.Feedback(r, nil); len(findings) != 2 || gates != nil || tails != nil {
		t.Errorf("without a verification: %v %v %v", findings, gates, tails)
	}
}

func TestFeedbackIsBounded(t *testing.T) {
	t.Parallel()
	one := 1
	r := &schemas.Review{}
	for range 500 {
		r.Findings = append(r.Findings, schemas.Finding{Severity: schemas.P1, Summary: strings.Repeat("é", 10_000)})
	}
	v := &schemas.Verification{Gates: []schemas.GateResult{{Paths: make([]string, 1000)}}}
	for range 100 {
		v.Commands = append(v.Commands, schemas.CommandResult{Argv: []string{"x"}, Exit: &one, OutputTail: strings.Repeat("é", 30<<10), OutputBytes: 1 << 20})
	}
	findings, gates, tails := review.Feedback(r, v)
	size := 0
	for _, f := range findings {
		size += len(f.Summary)
	}
	if size > 300<<10 || len(findings) != 101 || !strings.Contains(findings[100].Summary, "400 more") {
		t.Errorf("%d findings, %d bytes, the last %q", len(findings), size, findings[len(findings)-1].Summary)
	}
	if len(gates[0].Paths) != 50 || len(v.Gates[0].Paths) != 1000 || !strings.Contains(gates[0].Message, "1000 paths") {
		t.Errorf("gate: %d paths, %q", len(gates[0].Paths), gates[0].Message)
	}
	size = 0
	for _, tail := range tails {
		size += len(tail.Output)
		if !strings.HasPrefix(tail.Output, "é") && tail.Output != "" {
			t.Errorf("cut inside a character: %q", tail.Output[:4])
		}
	}
	if size > 32<<10 || len(tails) != 100 {
		t.Errorf("%d tails, %d bytes", len(tails), size)
	}
}
