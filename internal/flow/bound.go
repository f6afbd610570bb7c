package flow

import (
	"cmp"
	"maps"
	"slices"

	"github.com/git-spot/git-spot/schemas"
)

// A worker decides how many refs it moves, hooks it plants and repositories it makes. What is recorded of
// that must still fit into the ledger, or the turn could not be recorded at all: these bound a list, in
// entries and bytes, and what was undone, in bytes.
const (
	listEntries = 1000
	listBytes   = 128 << 10
	undoneBytes = 1 << 20
)

// leftOut ends a list that was cut.
const leftOut = "more were left out"

// bounded returns list, or as much of it as is recorded.
func bounded(list []string) []string {
	size := 0
	for i, entry := range list {
		if size += len(entry); i == listEntries || size > listBytes {
			return append(slices.Clip(list[:i]), leftOut)
		}
	}
	return list
}

// warn adds warnings to what the state says already.
func warn(st *schemas.RunState, warnings ...string) {
	for _, w := range warnings {
		if !slices.Contains(st.Warnings, w) {
			st.Warnings = append(st.Warnings, w)
		}
	}
	st.Warnings = bounded(st.Warnings)
}

// keepUndone adds to the files of attempt n what was taken out of the repository: whole as far as it
// goes, the shortest first.
func keepUndone(files map[string][]byte, n string, replaced map[string][]byte) error {
	if len(replaced) == 0 {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(replaced), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(replaced[a]), len(replaced[b])), cmp.Compare(a, b))
	})
	kept, room := map[string][]byte{}, undoneBytes
	for _, name := range names {
		if room -= len(name); room <= 0 {
			break
		}
		data := replaced[name]
		kept[name] = data[:min(len(data), room)]
		room -= len(kept[name])
	}
	document, err := schemas.MarshalIndent(kept)
	files[attemptFile(n, "tampered.json")] = document
	return err
}
