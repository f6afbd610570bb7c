package review_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/git-spot/git-spot/review"
	"github.com/git-spot/git-spot/schemas"
)

func TestFromFlags(t *testing.T) {
	t.Parallel()
	got, err := review.FromFlags(schemas.ReviewApprove, hash,
		[]string{"A1=read it", "A2 = a=b\nc"},
		[]string{
			"P2:src/a.go:12:the error is dropped: always",
			"P3:src/a:b.go:7:colons: 1:2:3",
			"P1:src/a::b.rs:3:two colons",
			"P0:::no place: none",
			"P3:a b.txt:0: the file as a whole ",
			"P1::0:neither",
		})
	if err != nil {
		t.Fatal(err)
	}
	want := &schemas.Review{
		SchemaVersion: 1, Verdict: schemas.ReviewApprove, DiffSHA256: hash,
		Evidence: []schemas.Evidence{{Criterion: "A1", Text: "read it"}, {Criterion: "A2", Text: " a=b\nc"}},
		Findings: []schemas.Finding{
			{Severity: schemas.P2, Path: "src/a.go", Line: 12, Summary: "the error is dropped: always"},
			{Severity: schemas.P3, Path: "src/a:b.go", Line: 7, Summary: "colons: 1:2:3"},
			{Severity: schemas.P1, Path: "src/a::b.rs", Line: 3, Summary: "two colons"},
			{Severity: schemas.P0, Summary: "no place: none"},
			{Severity: schemas.P3, Path: "a b.txt", Summary: "the file as a whole"},
			{Severity: schemas.P1, Summary: "neither"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	data, err := schemas.MarshalIndent(got)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := schemas.ParseReview(data); err != nil {
		t.Errorf("the schema refuses it: %v", err)
	} else if diff := cmp.Diff(got, back); diff != "" {
		t.Error(diff)
	}
}

func TestFromFlagsRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ hash, evidence, finding, says string }{
		{"", "", "", "64 hex digits"},
		{strings.ToUpper(hash), "", "", "64 hex digits"},
		{hash[1:], "", "", "64 hex digits"},
		{hash, "A1", "", "ID=TEXT"},
		{hash, "=text", "", "ID=TEXT"},
		{hash, "A1= ", "", "empty"},
		{hash, "", "text", "SEVERITY:PATH:LINE:TEXT"},
		{hash, "", "P4:a:1:x", `"P4"`},
		{hash, "", "p2:a:1:x", `"p2"`},
		{hash, "", "P2:a:x", "line number"},
		{hash, "", "P2:a:1x:y", "line number"},
		{hash, "", "P2:a:-1:y", "line number"},
		{hash, "", "P2:a:99999999999999999999:y", "too large"},
		{hash, "", "P2:a:1: ", "empty"},
		{hash, "", "P2:::", "empty"},
		{hash, "", "P2::3:x", "without a path"},
		{hash, "", "P1:/etc/passwd:3:x", "path: "},
		{hash, "", "P1:../a:3:x", "path: "},
		{hash, "A 1=x", "", "criterion: "},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%.8s %s %s", tt.hash, tt.evidence, tt.finding), func(t *testing.T) {
			t.Parallel()
			var evidence, findings []string
			if tt.evidence != "" {
				evidence = []string{tt.evidence}
			}
			if tt.finding != "" {
				findings = []string{tt.finding}
			}
			r, err := review.FromFlags(schemas.ReviewRevise, tt.hash, evidence, findings)
			if code(t, err) != schemas.CodeUsage || r != nil {
				t.Fatalf("got %+v, %v", r, err)
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v does not say %q", err, tt.says)
			}
		})
	}
}

func FuzzFinding(f *testing.F) {
	for _, s := range []string{"P2:src/a.go:12:text", "P0:::x", "P1:a::b:3:c", "P3:a:0:b", ":", "P2:\xff:1:\x00", "P2::::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := review.FromFlags(schemas.ReviewRevise, hash, nil, []string{s})
		if err != nil {
			if r != nil {
				t.Fatalf("%q: something beside the error", s)
			}
			return
		}
		got := r.Findings[0]
		again := fmt.Sprintf("%s:%s:%d:%s", got.Severity, got.Path, got.Line, got.Summary)
		r, err = review.FromFlags(schemas.ReviewRevise, hash, nil, []string{again})
		if err != nil {
			t.Fatalf("%q became %q: %v", s, again, err)
		}
		if r.Findings[0] != got {
			t.Fatalf("%q: %+v became %+v", s, got, r.Findings[0])
		}
	})
}
