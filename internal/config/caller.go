package config

import (
	"slices"
	"strings"
)

// CallerUnknown is a caller that says a name that git spot does not know.
const CallerUnknown = "unknown"

func callers() []string {
	return []string{"codex", "claude-code", "trae", "cursor", "pi-recursive", "workbuddy", "cli", CallerUnknown}
}

// Caller says which agent called git spot, from the environment, and that agent's own session id if
// it says a usable one. PARENT_AGENT counts before PI_WORKER_CALLER, and that before WORKBUDDY and
// WORKBUDDY_AGENT.
func Caller(getenv func(string) string) (caller, thread string) {
	caller = "cli"
	if word := first(getenv, "PARENT_AGENT", "PI_WORKER_CALLER"); word != "" {
		caller = strings.ToLower(word)
		if !slices.Contains(callers(), caller) {
			caller = CallerUnknown
		}
	} else if first(getenv, "WORKBUDDY", "WORKBUDDY_AGENT") != "" {
		caller = "workbuddy"
	}
	thread = first(getenv, "PARENT_THREAD_ID")
	if thread == "" && caller == "codex" {
		thread = first(getenv, "CODEX_THREAD_ID")
	}
	if !isThread(thread) {
		thread = ""
	}
	return caller, thread
}

func first(getenv func(string) string, names ...string) string {
	for _, name := range names {
		if value := strings.TrimSpace(getenv(name)); value != "" {
			return value
		}
	}
	return ""
}

// isThread keeps the ledger's trailers and later file look-ups free of foreign syntax.
func isThread(s string) bool {
	const most = 128
	return len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '/' || r == '\\'
	})
}
