package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/git-spot/git-spot/review"
	"github.com/git-spot/git-spot/schemas"
)

// reviewFlags are the caller's verdict as a file, or the parts of one.
type reviewFlags struct {
	file       string
	diffSHA256 string
	evidence   []string
	findings   []string
}

func (f *reviewFlags) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "review", Usage: "read the review from `FILE`, - is standard input", Destination: &f.file},
		&cli.StringFlag{Name: "diff-sha256", Usage: "without --review: `HASH` is the change that was reviewed", Destination: &f.diffSHA256},
		&cli.StringSliceFlag{Name: "evidence", Usage: "`ID=TEXT` says why a criterion is met", Destination: &f.evidence},
		&cli.StringSliceFlag{Name: "finding", Usage: "`P0-P3:path:line:text` says what is wrong; P1:::text names no place", Destination: &f.findings},
	}
}

func (f *reviewFlags) check(verdict schemas.ReviewVerdict) error {
	parts := f.diffSHA256 != "" || len(f.evidence)+len(f.findings) > 0
	switch {
	case f.file != "" && parts:
		return usagef("--review and the parts of a review exclude each other")
	case f.file == "" && f.diffSHA256 == "":
		return usagef("--review FILE is required, or --diff-sha256 HASH and the other parts of a review")
	case f.file == "":
		_, err := review.FromFlags(verdict, f.diffSHA256, f.evidence, f.findings)
		return err
	}
	return nil
}

// read returns the review. The command implies the verdict; a file that says another is refused.
func (f *reviewFlags) read(ctx context.Context, e *env, verdict schemas.ReviewVerdict) (*schemas.Review, error) {
	if f.file == "" {
		return review.FromFlags(verdict, f.diffSHA256, f.evidence, f.findings)
	}
	data, err := e.readInput(ctx, f.file)
	if err != nil {
		return nil, missingFile(err, "without a file: --diff-sha256 HASH --evidence ID=TEXT --finding P1:PATH:LINE:TEXT")
	}
	return schemas.ParseReview(data)
}
