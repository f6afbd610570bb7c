package schemas_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/schemas"
)

// TestCodes holds the table to its rules: every constant has one row, and every row can be printed.
func TestCodes(t *testing.T) {
	t.Parallel()
	var rows []string
	for _, info := range schemas.Codes {
		rows = append(rows, string(info.Code))
		if info.Code.Info() != info {
			t.Errorf("%s: two rows", info.Code)
		}
		if !slices.Contains([]int{0, 1, 3, 4, 5, 6, 7, 8, 129, 130}, info.Exit) {
			t.Errorf("%s: exit status %d", info.Code, info.Exit)
		}
		if !strings.HasSuffix(info.Meaning, ".") || strings.ContainsAny(info.Meaning, "|\n") {
			t.Errorf("%s: meaning %q", info.Code, info.Meaning)
		}
		if page := schemas.ErrorsMarkdown(); strings.Count(string(page), "| `"+string(info.Code)+"` |") != 1 {
			t.Errorf("%s: not once in docs/errors.md", info.Code)
		}
	}
	slices.Sort(rows)
	if want := constantsOf(t)["Code"]; !slices.Equal(rows, want) {
		t.Errorf("rows %q, constants %q", rows, want)
	}
	if got := schemas.Code("NO_SUCH").Info().Code; got != schemas.CodeInternal {
		t.Errorf("unknown code: %s", got)
	}
}

// TestCodesAreStable: a code that has shipped keeps its exit status. Add to this list, never change it.
func TestCodesAreStable(t *testing.T) {
	t.Parallel()
	shipped := map[int]string{
		0: "SOURCE_CHANGED WORKER_STEP_CAP",
		1: "INTERNAL CONFIG_INVALID CONTRACT_INVALID REVIEW_INVALID LEDGER_CORRUPT WRONG_STATE RUN_EXISTS",
		3: "HIGH_RISK_BLOCKED TASK_REFUSED EMPTY_DIFF DIFF_HASH_CHANGED PATH_NOT_ALLOWED PATH_FORBIDDEN LOCKED_PATH_CHANGED " +
			"VERIFICATION_SCRIPT_CHANGED EXCESSIVE_DELETION DIFF_TOO_LARGE SECRET_DETECTED SYMLINK_ESCAPE SUBMODULE_CHANGED " +
			"NESTED_REPOSITORY GIT_STATE_TAMPERED TEST_COUNT_DROPPED BASELINE_ALREADY_PASSING VERIFICATION_FAILED " +
			"VERIFICATION_TIMEOUT UNRESOLVED_FINDINGS EVIDENCE_MISSING REVISION_LIMIT SOURCE_DIRTY SOURCE_MOVED",
		4:   "RUN_NOT_FOUND RUN_AMBIGUOUS FILE_NOT_FOUND",
		5:   "CONFLICT REMOTE_CONFLICT",
		6:   "LOCK_HELD CONCURRENCY_LIMIT",
		7:   "WORKER_QUOTA WORKER_RATE_LIMIT WORKER_TRANSIENT WORKER_PERMANENT WORKER_TIMEOUT WORKER_IDLE WORKER_INCOMPLETE BUDGET_EXCEEDED",
		8:   "WORKER_AUTH WORKER_CAPABILITY WORKER_PERMISSION WORKER_SETUP NOT_A_REPOSITORY REPO_OWNER REPO_UNSUPPORTED HEAD_UNBORN IDENTITY_MISSING SIGNING_FAILED SANDBOX_UNAVAILABLE DISK_FULL",
		129: "USAGE",
		130: "INTERRUPTED",
	}
	for exit, codes := range shipped {
		for _, code := range strings.Fields(codes) {
			if info := schemas.Code(code).Info(); string(info.Code) != code || info.Exit != exit {
				t.Errorf("%s: exit status %d of %s, want %d", code, info.Exit, info.Code, exit)
			}
		}
	}
}
