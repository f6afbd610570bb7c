package config

import (
	_ "embed"
	"strings"

	"github.com/git-spot/git-spot/internal/gitexec"
)

//go:embed profiles.gitconfig
var shippedFile string

// scopeShipped is below all of git's scopes.
const scopeShipped = "shipped"

// shipped reads the embedded file. It knows as much of git's syntax as that file uses; a test holds it
// to what git itself reads there.
func shipped() []gitexec.ConfigEntry {
	var entries []gitexec.ConfigEntry
	section := ""
	for line := range strings.Lines(shippedFile) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, `[spot "`); ok {
			section = "spot." + strings.TrimSuffix(name, `"]`)
			continue
		}
		if name, value, ok := strings.Cut(line, " = "); ok && !strings.HasPrefix(line, "#") {
			entries = append(entries, gitexec.ConfigEntry{
				Key: section + "." + strings.ToLower(name), Value: value, Scope: scopeShipped,
			})
		}
	}
	return entries
}
