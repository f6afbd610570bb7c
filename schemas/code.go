package schemas

// Code names one kind of failure for programs. Codes are append-only: a code that has shipped is
// never renamed, given another exit status or used for something else. docs/errors.md is generated
// from the table below.
type Code string

// CodeInfo is what a caller may rely on for one code.
type CodeInfo struct {
	Code      Code
	Exit      int    // exit status of the command that ends with this code
	Retryable bool   // the same command may succeed later without anybody changing anything
	Meaning   string // one sentence for docs/errors.md
}

// Coded is implemented by every error that a caller may branch on.
type Coded interface {
	error
	Code() Code
}

// The codes, in the order of docs/errors.md.
const (
	CodeInternal        Code = "INTERNAL"
	CodeConfigInvalid   Code = "CONFIG_INVALID"
	CodeContractInvalid Code = "CONTRACT_INVALID"
	CodeReviewInvalid   Code = "REVIEW_INVALID"
	CodeLedgerCorrupt   Code = "LEDGER_CORRUPT"
	CodeWrongState      Code = "WRONG_STATE"
	CodeRunExists       Code = "RUN_EXISTS"

	CodeHighRiskBlocked           Code = "HIGH_RISK_BLOCKED"
	CodeTaskRefused               Code = "TASK_REFUSED"
	CodeEmptyDiff                 Code = "EMPTY_DIFF"
	CodeDiffHashChanged           Code = "DIFF_HASH_CHANGED"
	CodePathNotAllowed            Code = "PATH_NOT_ALLOWED"
	CodePathForbidden             Code = "PATH_FORBIDDEN"
	CodeLockedPathChanged         Code = "LOCKED_PATH_CHANGED"
	CodeVerificationScriptChanged Code = "VERIFICATION_SCRIPT_CHANGED"
	CodeExcessiveDeletion         Code = "EXCESSIVE_DELETION"
	CodeDiffTooLarge              Code = "DIFF_TOO_LARGE"
	CodeSecretDetected            Code = "SECRET_DETECTED"
	CodeSymlinkEscape             Code = "SYMLINK_ESCAPE"
	CodeSubmoduleChanged          Code = "SUBMODULE_CHANGED"
	CodeNestedRepository          Code = "NESTED_REPOSITORY"
	CodeGitStateTampered          Code = "GIT_STATE_TAMPERED"
	CodeTestCountDropped          Code = "TEST_COUNT_DROPPED"
	CodeBaselineAlreadyPassing    Code = "BASELINE_ALREADY_PASSING"
	CodeVerificationFailed        Code = "VERIFICATION_FAILED"
	CodeVerificationTimeout       Code = "VERIFICATION_TIMEOUT"
	CodeUnresolvedFindings        Code = "UNRESOLVED_FINDINGS"
	CodeEvidenceMissing           Code = "EVIDENCE_MISSING"
	CodeRevisionLimit             Code = "REVISION_LIMIT"
	CodeSourceDirty               Code = "SOURCE_DIRTY"
	CodeSourceMoved               Code = "SOURCE_MOVED"
	CodeBranchProtected           Code = "BRANCH_PROTECTED"

	CodeRunNotFound  Code = "RUN_NOT_FOUND"
	CodeRunAmbiguous Code = "RUN_AMBIGUOUS"
	CodeFileNotFound Code = "FILE_NOT_FOUND"

	CodeConflict       Code = "CONFLICT"
	CodeRemoteConflict Code = "REMOTE_CONFLICT"

	CodeLockHeld         Code = "LOCK_HELD"
	CodeConcurrencyLimit Code = "CONCURRENCY_LIMIT"

	CodeWorkerQuota      Code = "WORKER_QUOTA"
	CodeWorkerRateLimit  Code = "WORKER_RATE_LIMIT"
	CodeWorkerTransient  Code = "WORKER_TRANSIENT"
	CodeWorkerPermanent  Code = "WORKER_PERMANENT"
	CodeWorkerTimeout    Code = "WORKER_TIMEOUT"
	CodeWorkerIdle       Code = "WORKER_IDLE"
	CodeWorkerIncomplete Code = "WORKER_INCOMPLETE"
	CodeBudgetExceeded   Code = "BUDGET_EXCEEDED"

	CodeWorkerAuth         Code = "WORKER_AUTH"
	CodeWorkerCapability   Code = "WORKER_CAPABILITY"
	CodeWorkerPermission   Code = "WORKER_PERMISSION"
	CodeWorkerSetup        Code = "WORKER_SETUP"
	CodeNotARepository     Code = "NOT_A_REPOSITORY"
	CodeRepoOwner          Code = "REPO_OWNER"
	CodeRepoUnsupported    Code = "REPO_UNSUPPORTED"
	CodeHeadUnborn         Code = "HEAD_UNBORN"
	CodeIdentityMissing    Code = "IDENTITY_MISSING"
	CodeSigningFailed      Code = "SIGNING_FAILED"
	CodeSandboxUnavailable Code = "SANDBOX_UNAVAILABLE"
	CodeDiskFull           Code = "DISK_FULL"

	CodeUsage       Code = "USAGE"
	CodeInterrupted Code = "INTERRUPTED"

	// CodeSourceChanged and CodeWorkerStepCap are warnings: they are recorded and never end a command.
	CodeSourceChanged Code = "SOURCE_CHANGED"
	CodeWorkerStepCap Code = "WORKER_STEP_CAP"
)

// Codes is the one table of codes. Its order is the order of docs/errors.md.
var Codes = []CodeInfo{
	{CodeInternal, 1, false, "A defect of git spot; nothing the caller did. Please report it."},
	{CodeConfigInvalid, 1, false, "A spot.* key of git configuration is unknown, out of range or names something unknown."},
	{CodeContractInvalid, 1, false, "The task contract does not fit its schema; the message names the JSON pointer."},
	{CodeReviewInvalid, 1, false, "The review does not fit its schema, or says another verdict than the command."},
	{CodeLedgerCorrupt, 1, false, "The ledger of a run cannot be read; other runs are not affected."},
	{CodeWrongState, 1, false, "The run is in another state than the command needs; the hint names the command that is due."},
	{CodeRunExists, 1, false, "A run with this id exists, or its refs do."},

	{CodeHighRiskBlocked, 3, false, "The contract says risk high; such work is not delegated."},
	{CodeTaskRefused, 3, false, "The task text holds a secret or an unfilled placeholder."},
	{CodeEmptyDiff, 3, false, "The attempt changed nothing."},
	{CodeDiffHashChanged, 3, false, "The change is not the one that was verified or reviewed."},
	{CodePathNotAllowed, 3, false, "A changed path matches no pattern of allowedPaths."},
	{CodePathForbidden, 3, false, "A changed path matches forbiddenPaths."},
	{CodeLockedPathChanged, 3, false, "A locked path was changed or added; the run is blocked for good."},
	{CodeVerificationScriptChanged, 3, false, "A file or key that decides what the verification runs was changed; the run is blocked for good."},
	{CodeExcessiveDeletion, 3, false, "More lines were deleted than the contract allows."},
	{CodeDiffTooLarge, 3, false, "More files or bytes were changed than the contract allows."},
	{CodeSecretDetected, 3, false, "The added content or a file name holds a secret."},
	{CodeSymlinkEscape, 3, false, "A symbolic link resolves outside the tree or into .git; the run is blocked for good."},
	{CodeSubmoduleChanged, 3, false, "A submodule was added, removed or moved."},
	{CodeNestedRepository, 3, false, "The worktree holds a git repository of its own."},
	{CodeGitStateTampered, 3, false, "Executable git configuration, or the worktree's own .git, was changed during a turn; the run is blocked for good."},
	{CodeTestCountDropped, 3, false, "Fewer tests ran than on the base commit, or fewer than minTests."},
	{CodeBaselineAlreadyPassing, 3, false, "A check that must fail on the base commit passes there, so it proves nothing."},
	{CodeVerificationFailed, 3, false, "A set-up or verification command failed or could not be started."},
	{CodeVerificationTimeout, 3, false, "A set-up or verification command ran into its time limit."},
	{CodeUnresolvedFindings, 3, false, "The review has open findings of severity P0, P1 or P2."},
	{CodeEvidenceMissing, 3, false, "The review has no evidence for an acceptance criterion."},
	{CodeRevisionLimit, 3, false, "The run has had spot.maxRevisions revisions."},
	{CodeSourceDirty, 3, false, "The checkout of the source branch has changes in the way, or is in a merge, rebase or bisect."},
	{CodeSourceMoved, 3, false, "The source branch is not at the base commit any more."},
	{CodeBranchProtected, 3, false, "spot.protectedBranch names the branch; the approved commit stays a candidate."},

	{CodeRunNotFound, 4, false, "No run has this id or prefix."},
	{CodeRunAmbiguous, 4, false, "More than one run has this prefix."},
	{CodeFileNotFound, 4, false, "A file that was named on the command line cannot be read."},

	{CodeConflict, 5, true, "Another process moved the run; nothing was written."},
	{CodeRemoteConflict, 5, true, "Another machine moved the run; nothing was written."},

	{CodeLockHeld, 6, true, "A live process is advancing this run."},
	{CodeConcurrencyLimit, 6, true, "spot.maxConcurrentRuns runs hold all slots."},

	{CodeWorkerQuota, 7, true, "The worker's account has no quota left."},
	{CodeWorkerRateLimit, 7, true, "The worker's provider limits the rate of requests."},
	{CodeWorkerTransient, 7, true, "The worker failed in a way that may pass."},
	{CodeWorkerPermanent, 7, false, "The worker failed in a way that will not pass by itself."},
	{CodeWorkerTimeout, 7, true, "The worker ran into the time limit of its turn."},
	{CodeWorkerIdle, 7, true, "The worker said nothing for the idle limit."},
	{CodeWorkerIncomplete, 7, true, "The worker ended before its own end-of-turn event."},
	{CodeBudgetExceeded, 7, false, "The worker spent the tokens or dollars of the contract."},

	{CodeWorkerAuth, 8, false, "The worker has no valid credentials."},
	{CodeWorkerCapability, 8, false, "The profile lacks a capability that the contract asks for."},
	{CodeWorkerPermission, 8, false, "The worker program asked for a permission that a headless run cannot give."},
	{CodeWorkerSetup, 8, false, "The worker program is missing, too old or cannot be started."},
	{CodeNotARepository, 8, false, "No git repository here, or it has gone."},
	{CodeRepoOwner, 8, false, "The repository belongs to another user and git does not trust it."},
	{CodeRepoUnsupported, 8, false, "Neither libgit2 nor the git on PATH can read this repository format."},
	{CodeHeadUnborn, 8, false, "The repository has no commit to start from."},
	{CodeIdentityMissing, 8, false, "git has no user.name and user.email for the approved commit."},
	{CodeSigningFailed, 8, false, "git is configured to sign commits and the signing failed or timed out."},
	{CodeSandboxUnavailable, 8, false, "spot.sandbox is require and the sandbox cannot be had here."},
	{CodeDiskFull, 8, true, "A file system is full; nothing that was recorded is lost."},

	{CodeUsage, 129, false, "The command line is wrong."},
	{CodeInterrupted, 130, true, "The command was ended by a signal (130 for SIGINT, 143 for SIGTERM and SIGHUP)."},

	{CodeSourceChanged, 0, false, "Warning: a branch or the source checkout changed during a turn."},
	{CodeWorkerStepCap, 0, false, "Warning: the worker stopped at its step limit; its work so far is kept."},
}

// Info returns the row of c. An unknown code gets the row of INTERNAL.
func (c Code) Info() CodeInfo {
	for _, info := range Codes {
		if info.Code == c {
			return info
		}
	}
	return Codes[0]
}

// Error is the wire form of a failed command: the last line on standard error in JSON mode is
// {"error": {...}} with this object.
type Error struct {
	Code      Code     `json:"code"`
	Message   string   `json:"message"`
	Hint      string   `json:"hint,omitempty"`
	Retryable bool     `json:"retryable"`
	Paths     []string `json:"paths,omitempty"`
}

// ErrorDocument is the last line on standard error of a command that failed in JSON mode.
type ErrorDocument struct {
	Error Error `json:"error"`
}
