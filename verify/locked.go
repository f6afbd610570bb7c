package verify

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/git-spot/git-spot/schemas"
)

// LockedPatterns lists what a worker must be told not to change: the contract's lockedPaths, then
// always, then the patterns of Locks.
func LockedPatterns(contract *schemas.Contract, always []string) []string {
	patterns := slices.Concat(contract.LockedPaths, always)
	for _, lock := range Locks() {
		patterns = append(patterns, lock.Pattern)
	}
	return patterns
}

// Matcher knows which paths are locked. It is immutable and safe for concurrent use.
type Matcher struct {
	named   []pattern // by the contract or the user
	unlock  map[string]bool
	names   map[string]string // folded basename to reason
	folders map[string]string // folded component with anything below it to reason
	globs   []nameGlob
	paths   []pathGlob
}

// nameGlob is a basename with one star in it.
type nameGlob struct{ prefix, suffix, why string }

// pathGlob is any other pattern; literal is a part of whatever it matches.
type pathGlob struct{ glob, literal, why string }

// literalPart is the longest part of a glob without a star.
func literalPart(glob string) string {
	var longest string
	for part := range strings.SplitSeq(glob, "*") {
		if part = strings.Trim(part, "/"); len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// Locked compiles the contract's lockedPaths, always (spot.alwaysLockedPath) and the table of Locks.
// The contract's unlock takes exact paths out of the table; it never opens what the contract or the
// user locks by name.
func Locked(contract *schemas.Contract, always []string) *Matcher {
	m := &Matcher{
		unlock:  make(map[string]bool),
		names:   make(map[string]string),
		folders: make(map[string]string),
	}
	for _, p := range contract.LockedPaths {
		m.named = append(m.named, foldedPattern(p, "lockedPaths of the contract"))
	}
	for _, p := range always {
		m.named = append(m.named, foldedPattern(p, "spot.alwaysLockedPath"))
	}
	for _, p := range contract.Unlock {
		m.unlock[p] = true
	}
	for _, lock := range Locks() {
		m.add(lock)
	}
	return m
}

// add files a row of the table where Match finds it fastest: a tree is matched path by path.
func (m *Matcher) add(lock Lock) {
	why := lock.Ecosystem + ": " + lock.Why
	p := fold(lock.Pattern)
	folder, isFolder := strings.CutSuffix(p, "/**")
	switch {
	case isFolder && !strings.ContainsAny(folder, "/*?[{"):
		m.folders[folder] = why
	case strings.HasPrefix(p, "/"):
		m.paths = append(m.paths, pathGlob{p[1:], literalPart(p), why})
	case strings.Contains(p, "/") || strings.Count(p, "*") > 1:
		m.paths = append(m.paths, pathGlob{"**/" + p, literalPart(p), why})
	case strings.Contains(p, "*"):
		prefix, suffix, _ := strings.Cut(p, "*")
		m.globs = append(m.globs, nameGlob{prefix, suffix, why})
	default:
		m.names[p] = why
	}
}

// Match reports whether path is locked, and why. Case, Unicode composition and what file systems
// ignore at the end of a name do not matter.
func (m *Matcher) Match(path string) (why string, locked bool) {
	folded := fold(path)
	if why, locked = matchAny(m.named, folded); locked {
		return why, true
	}
	trimmed := trim(folded)
	if trimmed != folded {
		if why, locked = matchAny(m.named, trimmed); locked {
			return why, true
		}
	}
	if m.unlock[path] {
		return "", false
	}
	rest := trimmed
	for {
		component, after, more := strings.Cut(rest, "/")
		if why, locked = m.folders[component]; locked {
			return why, true
		}
		if !more {
			break
		}
		rest = after
	}
	if why, locked = m.names[rest]; locked {
		return why, true
	}
	for _, g := range m.globs {
		if len(rest) >= len(g.prefix)+len(g.suffix) && strings.HasPrefix(rest, g.prefix) && strings.HasSuffix(rest, g.suffix) {
			return g.why, true
		}
	}
	for _, g := range m.paths {
		// Cheap, and nearly always the answer.
		if !strings.Contains(trimmed, g.literal) {
			continue
		}
		if ok, err := doublestar.Match(g.glob, trimmed); ok || err != nil {
			return g.why, true
		}
	}
	return "", false
}

// pattern is a glob whose names are folded, and where it comes from.
type pattern struct {
	glob, why string
	literal   bool // no glob: it also means everything below it
}

func foldedPattern(glob, why string) pattern {
	glob = strings.TrimSuffix(strings.TrimPrefix(fold(glob), "./"), "/")
	return pattern{glob: glob, why: why, literal: !strings.ContainsAny(glob, globChars)}
}

// matchAny is for what must not be touched: a pattern that cannot be parsed matches everything.
func matchAny(patterns []pattern, folded string) (why string, matched bool) {
	for _, p := range patterns {
		if p.literal {
			if rest, ok := strings.CutPrefix(folded, p.glob); ok && (rest == "" || rest[0] == '/') {
				return p.why, true
			}
			continue
		}
		if ok, err := doublestar.Match(p.glob, folded); ok || err != nil {
			return p.why, true
		}
	}
	return "", false
}
