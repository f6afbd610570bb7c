package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
)

// Parse returns the effective configuration over the shipped profiles. The entries are all of git's, in
// git's order; those outside spot.* are ignored. The error is a *Error.
func Parse(entries []gitexec.ConfigEntry) (*Config, error) {
	p := parser{set: map[string][]gitexec.ConfigEntry{}, from: map[string]gitexec.ConfigEntry{}}
	for _, e := range append(shipped(), entries...) {
		if !strings.HasPrefix(e.Key, "spot.") {
			continue
		}
		if keyShaped(e.Value) {
			p.fail(e.Key, e, "the value looks like a key; name an environment variable instead", "")
			continue
		}
		p.set[e.Key] = append(p.set[e.Key], e)
	}
	c := p.config()
	p.unknown()
	if len(p.problems) == 0 {
		// What depends on several keys is judged only when each is sound by itself.
		p.check(c)
	}
	if len(p.problems) > 0 {
		err := p.problems[0]
		err.More = p.problems[1:]
		return nil, err
	}
	slices.SortFunc(p.settings, func(a, b Setting) int { return strings.Compare(a.Key, b.Key) })
	c.settings = p.settings
	return c, nil
}

// parser takes the entries of one known key after another out of set; what is left is unknown.
type parser struct {
	set      map[string][]gitexec.ConfigEntry // by git's spelling of the key
	from     map[string]gitexec.ConfigEntry   // what set a key, by our spelling
	known    []string                         // every key that was looked for, in our spelling
	settings []Setting
	problems []*Error
}

func (p *parser) fail(key string, e gitexec.ConfigEntry, problem, nearest string) {
	for part := range strings.SplitSeq(key, ".") {
		if keyShaped(part) {
			key = strings.ReplaceAll(key, part, masked)
		}
	}
	p.problems = append(p.problems, &Error{Key: key, Origin: e.Origin, Problem: problem, Nearest: nearest})
}

func (p *parser) config() *Config {
	c := &Config{
		MaxConcurrentRuns: 4, MaxRevisions: 2, DefaultProfile: "deepseek", Sandbox: "prefer", Integrate: "ff-only",
		SelfReview: SelfReview{
			Enabled: true, MinDiffBytes: 500, MinSurfaceBytes: 4000, SpotCheckRatio: 0.34, SpotCheckCount: 3,
		},
		Profiles: map[string]*Profile{}, Callers: map[string]string{},
		Rates: map[string]Rate{}, Subscriptions: map[string]Subscription{},
	}
	const always = true
	apply(p, "spot.", generalKeys(), c, always)
	apply(p, "spot.selfReview.", selfReviewKeys(), &c.SelfReview, always)
	for _, name := range p.subjects("profile") {
		name = strings.TrimSuffix(name, ".selfReview")
		if c.Profiles[name] != nil || strings.Contains(name, ".") {
			continue
		}
		profile := &Profile{
			Name: name, API: "chat", Prompt: "stdin", Output: "text", Capabilities: []string{"tool-use"}, SelfReview: c.SelfReview,
		}
		apply(p, "spot.profile."+name+".", profileKeys(), profile, !always)
		apply(p, "spot.profile."+name+".selfReview.", selfReviewKeys(), &profile.SelfReview, !always)
		c.Profiles[name] = profile
	}
	for _, name := range p.subjects("caller") {
		var prefers preference
		apply(p, "spot.caller."+name+".", callerKeys(), &prefers, !always)
		if prefers.profile != "" {
			c.Callers[name] = prefers.profile
		}
	}
	for _, name := range p.subjects("rate") {
		var rate Rate
		apply(p, "spot.rate."+name+".", rateKeys(), &rate, !always)
		c.Rates[name] = rate
	}
	for _, name := range p.subjects("subscription") {
		var s Subscription
		apply(p, "spot.subscription."+name+".", subscriptionKeys(), &s, !always)
		c.Subscriptions[name] = s
	}
	return c
}

// subjects lists what stands between spot.<kind>. and the variable of the entries, sorted.
func (p *parser) subjects(kind string) []string {
	found := map[string]bool{}
	for key := range p.set {
		if rest, ok := strings.CutPrefix(key, "spot."+kind+"."); ok {
			if dot := strings.LastIndexByte(rest, '.'); dot > 0 {
				found[rest[:dot]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// apply puts the values of keys into target. Always makes a Setting of a key that nobody sets, too.
func apply[T any](p *parser, prefix string, keys []key[T], target *T, always bool) {
	for _, k := range keys {
		name := prefix + k.name
		p.known = append(p.known, name)
		spelt := prefix + strings.ToLower(k.name)
		entries := p.set[spelt]
		delete(p.set, spelt)
		at := k.at(target)
		setting := Setting{Key: name, Scope: "default"}
		if len(entries) > 0 {
			last := entries[len(entries)-1]
			setting.Scope, setting.Origin = last.Scope, last.Origin
			p.from[name] = last
			if list, ok := at.(*[]string); ok {
				*list = p.list(name, k.words, entries)
			} else {
				p.single(name, k.words, k.least, k.most, at, last)
			}
		} else if !always {
			continue
		}
		setting.Value = value(at)
		p.settings = append(p.settings, setting)
	}
}

// list returns the values of the highest scope. An empty value drops those before it.
func (p *parser) list(name string, words []string, entries []gitexec.ConfigEntry) []string {
	highest := slices.MaxFunc(entries, func(a, b gitexec.ConfigEntry) int { return rank(a.Scope) - rank(b.Scope) })
	values := []string{}
	for _, e := range entries {
		switch {
		case e.Scope != highest.Scope:
		case e.Value == "":
			values = values[:0]
		case words != nil && !slices.Contains(words, e.Value):
			p.fail(name, e, "must be "+alternatives(words)+", is "+quoted(e.Value), schemas.Nearest(e.Value, words))
		default:
			values = append(values, e.Value)
		}
	}
	return values
}

// single parses the last value; an empty one leaves the default.
func (p *parser) single(name string, words []string, least, most int64, at any, e gitexec.ConfigEntry) {
	if _, boolean := at.(*bool); e.Value == "" && !boolean {
		return
	}
	if words != nil && !slices.Contains(words, e.Value) {
		p.fail(name, e, "must be "+alternatives(words)+", is "+quoted(e.Value), schemas.Nearest(e.Value, words))
		return
	}
	if err := set(at, e.Value, least, most); err != nil {
		p.fail(name, e, err.Error()+", is "+quoted(e.Value), "")
	}
}

// value is what at points to, nil pointers as nil.
func value(at any) any {
	switch p := at.(type) {
	case *string:
		return *p
	case *bool:
		return *p
	case *int:
		return *p
	case *int64:
		return *p
	case *float64:
		return *p
	case **float64:
		if *p == nil {
			return nil
		}
		return **p
	case *[]string:
		if *p == nil {
			return []string{}
		}
		return *p
	}
	panic(fmt.Sprintf("config: no value for %T", at))
}

func rank(scope string) int {
	return slices.Index([]string{scopeShipped, "unknown", "system", "global", "local", "worktree", "command"}, scope)
}

func alternatives(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// quoted keeps a message on one line and short, whatever the value is.
func quoted(value string) string {
	const most = 60
	if len(value) > most {
		value = strings.ToValidUTF8(value[:most], "") + "..."
	}
	return fmt.Sprintf("%q", value)
}

// unknown fails for every key that was not looked for.
func (p *parser) unknown() {
	for _, spelt := range slices.Sorted(maps.Keys(p.set)) {
		entries := p.set[spelt]
		problem, nearest := "unknown key", ""
		if strings.Contains(profileOf(spelt), ".") {
			problem = "a profile's name has no dots"
		} else {
			nearest = schemas.Nearest(spelt, p.candidates(spelt))
		}
		p.fail(spelt, entries[len(entries)-1], problem, nearest)
	}
}

// candidates are the keys that spelt may stand for. The subject of a key is the user's own word, so it
// is taken over.
func (p *parser) candidates(spelt string) []string {
	candidates := slices.Clone(p.known)
	parts := strings.Split(spelt, ".")
	if len(parts) >= 4 {
		subject := strings.Join(parts[2:len(parts)-1], ".")
		candidates = names(candidates, "spot.profile."+subject+".", profileKeys())
		candidates = names(candidates, "spot.caller."+subject+".", callerKeys())
		candidates = names(candidates, "spot.rate."+subject+".", rateKeys())
		candidates = names(candidates, "spot.subscription."+subject+".", subscriptionKeys())
	}
	return candidates
}

func names[T any](to []string, prefix string, keys []key[T]) []string {
	for _, k := range keys {
		to = append(to, prefix+k.name)
	}
	return to
}

func profileOf(key string) string {
	rest, ok := strings.CutPrefix(key, "spot.profile.")
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 0 {
		return ""
	}
	return strings.TrimSuffix(rest[:dot], ".selfReview")
}

// added is what git spot adds to a baseURL, by api. The addresses in a server's documents have it already.
var added = map[string]string{"chat": "/chat/completions", "responses": "/responses", "messages": "/v1/messages"}

// check judges what one key says of another.
func (p *parser) check(c *Config) {
	profiles := slices.Sorted(maps.Keys(c.Profiles))
	known := func(key, name string) {
		if c.Profiles[name] == nil {
			p.fail(key, p.from[key], "no profile is called "+quoted(name), schemas.Nearest(name, profiles))
		}
	}
	for _, caller := range slices.Sorted(maps.Keys(c.Callers)) {
		key := "spot.caller." + caller + ".profile"
		p.caller(key, caller)
		known(key, c.Callers[caller])
	}
	for _, caller := range slices.Sorted(maps.Keys(c.Subscriptions)) {
		p.caller("spot.subscription."+caller+".plan", caller)
	}
	for _, name := range profiles {
		for _, fallback := range c.Profiles[name].FallbackProfiles {
			known("spot.profile."+name+".fallbackProfiles", fallback)
		}
		p.profile(c.Profiles[name], profiles)
	}
	known("spot.defaultProfile", c.DefaultProfile)
}

func (p *parser) caller(key, name string) {
	if !slices.Contains(callers(), name) {
		p.fail(key, p.from[key], "no caller is called "+quoted(name), schemas.Nearest(name, callers()))
	}
}

func (p *parser) profile(pr *Profile, profiles []string) {
	prefix := "spot.profile." + pr.Name + "."
	fail := func(name, problem, nearest string) { p.fail(prefix+name, p.from[prefix+name], problem, nearest) }
	if !isProfileName(pr.Name) {
		fail("adapter", "a profile's name is at most 64 letters, digits, - and _", "")
		return
	}
	if pr.Adapter == "" {
		others := slices.DeleteFunc(slices.Clone(profiles), func(name string) bool { return name == pr.Name })
		fail("adapter", "is not set, and no profile of this name is shipped", schemas.Nearest(pr.Name, others))
		return
	}
	if pr.Adapter == "command" {
		if len(pr.Argv) == 0 {
			fail("argv", "the adapter command needs a command line", "")
		}
	} else {
		for _, name := range []string{"argv", "prompt", "output"} {
			if _, ok := p.from[prefix+name]; ok {
				fail(name, "only the adapter command has it", "")
			}
		}
	}
	program := pr.Program
	if program == "" && len(pr.Argv) > 0 {
		program = pr.Argv[0]
	}
	if strings.Contains(program, "/") && !strings.HasPrefix(program, "/") && !strings.HasPrefix(program, "~/") {
		fail("argv", "the program is a name to be found on PATH or an absolute path", "")
	}
	if pr.APIKeyEnv != "" && !isVariable(pr.APIKeyEnv) {
		// Not echoed: what is no name may be the key.
		fail("apiKeyEnv", "must be the name of an environment variable", "")
	}
	for _, entry := range pr.Env {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case !isVariable(name):
			fail("env", "must be NAME or NAME=value", "")
		case strings.HasPrefix(name, "GIT_") || name == "HOME" || name == "TMPDIR":
			fail("env", name+" is set by git spot alone", "")
		}
	}
	if u, err := url.Parse(pr.BaseURL); pr.BaseURL != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil) {
		fail("baseURL", "must be an http or https URL without credentials", "")
	}
	if part := added[pr.API]; part != "" && strings.HasSuffix(strings.TrimRight(pr.BaseURL, "/"), part) {
		fail("baseURL", "must not end in "+part+", which is added to it", "")
	}
	if slices.Contains(pr.FallbackProfiles, pr.Name) {
		fail("fallbackProfiles", "a profile is not its own fallback", "")
	}
}

// isProfileName says whether a name can stand in a trailer and in a file name.
func isProfileName(s string) bool {
	const most = 64
	return s != "" && len(s) <= most && s[0] != '-' && !strings.ContainsFunc(s, func(r rune) bool {
		return !isLetter(r) && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

func isVariable(s string) bool {
	return s != "" && (s[0] < '0' || s[0] > '9') && !strings.ContainsFunc(s, func(r rune) bool {
		return !isLetter(r) && (r < '0' || r > '9') && r != '_'
	})
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
