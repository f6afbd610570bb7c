package schemas

// Kind says what a run is for.
type Kind string

// The kinds. Only KindCode changes files; the others read.
const (
	KindCode    Kind = "code"
	KindExplore Kind = "explore"
	KindTest    Kind = "test"
	KindReview  Kind = "review"
	KindDiscuss Kind = "discuss"
)

// Level is a grade of risk or difficulty.
type Level string

// The levels.
const (
	LevelLow    Level = "low"
	LevelMedium Level = "medium"
	LevelHigh   Level = "high"
)

// Network says which network a command of the contract may use.
type Network string

// The networks, from none at all to whatever the machine has. The zero value means the default of
// the place: loopback for verification, full for set-up.
const (
	NetworkNone     Network = "none"
	NetworkLoopback Network = "loopback"
	NetworkFull     Network = "full"
)

// Baseline says what a verification command must do on the base commit.
type Baseline string

// The baselines. The zero value is BaselineAuto.
const (
	BaselineAuto Baseline = "auto" // compare test counts where the runner is known
	BaselineFail Baseline = "fail" // the command must fail on base
	BaselinePass Baseline = "pass" // the command must pass on base
	BaselineSkip Baseline = "skip" // do not run on base
)

// Contract is a task as the caller wrote it. Paths are repository-relative globs of doublestar:
// "/" separates, "**" crosses folders, a leading dot is nothing special.
type Contract struct {
	SchemaVersion int    `json:"schemaVersion"`
	ID            string `json:"id,omitempty"`
	Kind          Kind   `json:"kind,omitempty"`
	Title         string `json:"title"`
	Objective     string `json:"objective,omitempty"`
	Domain        string `json:"domain,omitempty"`
	Risk          Level  `json:"risk,omitempty"`
	Difficulty    Level  `json:"difficulty,omitempty"`

	AllowedPaths   []string `json:"allowedPaths,omitempty"`
	ForbiddenPaths []string `json:"forbiddenPaths,omitempty"`
	LockedPaths    []string `json:"lockedPaths,omitempty"`
	Unlock         []string `json:"unlock,omitempty"` // exact paths, locked by default, that this task may change

	Acceptance   []Criterion `json:"acceptance,omitempty"`
	Constraints  []string    `json:"constraints,omitempty"`
	Context      []string    `json:"context,omitempty"` // paths to read first
	Capabilities []string    `json:"capabilities,omitempty"`

	Setup        []Setup  `json:"setup,omitempty"`
	Reuse        []string `json:"reuse,omitempty"` // ignored paths copied from the source checkout into the clean room
	Verification []Check  `json:"verification,omitempty"`
	Limits       Limits   `json:"limits,omitzero"`

	// Read-only kinds.
	Task  string   `json:"task,omitempty"`
	Scope []string `json:"scope,omitempty"`
	Argv  []string `json:"argv,omitempty"`
	Axis  string   `json:"axis,omitempty"`
}

// Criterion is one thing that must be true of the result.
type Criterion struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Setup is a command that prepares a clean room. Argv never goes through a shell.
type Setup struct {
	Argv           []string `json:"argv"`
	Cwd            string   `json:"cwd,omitempty"` // repository-relative, "" is the top
	TimeoutSeconds int      `json:"timeoutSeconds,omitempty"`
	Network        Network  `json:"network,omitempty"`
}

// Check is one verification command. Argv never goes through a shell; exit status 0 is a pass.
type Check struct {
	ID             string            `json:"id"`
	Argv           []string          `json:"argv"`
	Cwd            string            `json:"cwd,omitempty"`
	TimeoutSeconds int               `json:"timeoutSeconds,omitempty"`
	Network        Network           `json:"network,omitempty"`
	Baseline       Baseline          `json:"baseline,omitempty"`
	MinTests       int               `json:"minTests,omitempty"`
	Retries        int               `json:"retries,omitempty"`
	Env            map[string]string `json:"env,omitempty"`
}

// Limits bound one turn and the change it may make. A limit that is left out is its default after
// ParseContract; a contract that says 0 is refused.
type Limits struct {
	TimeoutSeconds  int     `json:"timeoutSeconds,omitempty"`
	IdleSeconds     int     `json:"idleSeconds,omitempty"`
	MaxSteps        int     `json:"maxSteps,omitempty"`
	MaxChangedFiles int     `json:"maxChangedFiles,omitempty"`
	MaxDiffBytes    int64   `json:"maxDiffBytes,omitempty"`
	MaxDeletedLines int     `json:"maxDeletedLines,omitempty"`
	MaxTokens       int64   `json:"maxTokens,omitempty"`  // 0 is unlimited
	MaxCostUSD      float64 `json:"maxCostUSD,omitempty"` // 0 is unlimited
}

// Defaults of Limits and of the commands.
const (
	DefaultTurnSeconds     = 3600
	DefaultIdleSeconds     = 900
	DefaultMaxSteps        = 120
	DefaultReadOnlySteps   = 80 // explore and test
	DefaultMaxChangedFiles = 200
	DefaultMaxDiffBytes    = 1 << 20
	DefaultMaxDeletedLines = 300
	DefaultCommandSeconds  = 600
)
