package verify

// For tests of what is not promised to anybody.
var (
	ExecutionKeys = executionKeys
	NamedScripts  = namedScripts
)
