package schemas

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the word of known that word was most likely meant to be, or "" if none is near. Case,
// "-" and "_" do not count as differences; of equally near words the first wins.
func Nearest(word string, known []string) string {
	const longest = 64 // bytes; nobody mistypes a longer word, and the distance costs the product of both lengths
	if len(word) > longest {
		return ""
	}
	plain := func(s string) string {
		return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
	}
	typed := plain(word)
	nearest, least := "", max(1, (len(typed)+1)/3)+1
	for _, k := range known {
		if d := levenshtein.ComputeDistance(typed, plain(k)); d < least {
			nearest, least = k, d
		}
	}
	if nearest != "" || len(typed) < 4 {
		return nearest
	}
	for _, k := range known {
		if p := plain(k); strings.HasPrefix(p, typed) || len(p) >= 4 && strings.HasPrefix(typed, p) {
			return k
		}
	}
	return ""
}
