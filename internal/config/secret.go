package config

import (
	"cmp"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// This file says what a secret looks like. Two uses with two tempers: a configuration value that may be
// a key is refused, so that one is generous; text that is stored is masked, so that one must leave
// prose, object IDs and session ids alone and knows only what is certainly a credential.

// masked stands where a secret was.
const masked = "[redacted]"

// minKeyBytes keeps a three-letter "key" from being masked all over a text.
const minKeyBytes = 12

// shape is one kind of credential. The literal must occur in a text that the pattern matches: looking
// for it first keeps masking as fast as the output of a worker.
type shape struct {
	literal string
	pattern func() *regexp.Regexp // compiled when first needed: most runs never see a credential
}

// keyShapes are certain enough to be masked in prose. A pattern with a group masks the group alone.
var keyShapes = sync.OnceValue(func() []shape {
	var shapes []shape
	for _, s := range [][2]string{
		{"sk-", `\bsk-[A-Za-z0-9_-]{16,}`}, // OpenAI, Anthropic, DeepSeek, Moonshot, OpenRouter
		{"k_live_", `\b[srp]k_live_[A-Za-z0-9]{16,}`},
		{"k_test_", `\b[srp]k_test_[A-Za-z0-9]{16,}`},
		{"ghp_", `\bghp_[A-Za-z0-9]{30,}`},
		{"gho_", `\bgho_[A-Za-z0-9]{30,}`},
		{"ghu_", `\bghu_[A-Za-z0-9]{30,}`},
		{"ghs_", `\bghs_[A-Za-z0-9]{30,}`},
		{"ghr_", `\bghr_[A-Za-z0-9]{30,}`},
		{"github_pat_", `\bgithub_pat_[A-Za-z0-9_]{30,}`},
		{"glpat-", `\bglpat-[A-Za-z0-9_-]{18,}`},
		{"xox", `\bxox[abeoprs]-[A-Za-z0-9-]{16,}`},
		{"AKIA", `\bAKIA[A-Z0-9]{16}\b`},
		{"ASIA", `\bASIA[A-Z0-9]{16}\b`},
		{"AIza", `\bAIza[A-Za-z0-9_-]{30,}`},
		{"ya29.", `\bya29\.[A-Za-z0-9_-]{20,}`},
		{"hf_", `\bhf_[A-Za-z0-9]{30,}`},
		{"gsk_", `\bgsk_[A-Za-z0-9]{32,}`},
		{"nvapi-", `\bnvapi-[A-Za-z0-9_-]{32,}`},
		{"xai-", `\bxai-[A-Za-z0-9]{32,}`},
		{"npm_", `\bnpm_[A-Za-z0-9]{36}`},
		{"eyJ", `\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[\w-]{8,}`}, // JWT
		{"PRIVATE KEY-----", `-----BEGIN [A-Z ]*PRIVATE KEY-----`},

		// Credentials of any shape, given away by what is around them.
		{"earer ", `\b[Bb]earer ([A-Za-z0-9._~+/=-]{12,})`},
		{"KEY=", `\b(?:[A-Z0-9_]*_)?(?:API)?KEY=["']?([^\s"'$(){}<>]{12,})`},
		{"TOKEN=", `\b(?:[A-Z0-9_]*_)?TOKEN=["']?([^\s"'$(){}<>]{12,})`},
		{"SECRET=", `\b(?:[A-Z0-9_]*_)?SECRET=["']?([^\s"'$(){}<>]{12,})`},
		{"PASSWORD=", `\b(?:[A-Z0-9_]*_)?PASSWORD=["']?([^\s"'$(){}<>]{12,})`},
		{"://", `://[^/\s:@"']*:([^/\s@"']{4,})@`},
	} {
		shapes = append(shapes, shape{s[0], sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(s[1]) })})
	}
	return shapes
})

// Redactor masks secrets in text that is about to be stored or shown. The zero value knows only the
// shapes of common keys. It is safe for concurrent use.
type Redactor struct {
	keys []string // longest first, so that a key that holds another is masked as a whole
}

// Redactor returns a Redactor that also knows the Secrets of every profile. Values of less
// than 12 bytes are not masked: they would damage ordinary text.
func (c *Config) Redactor(getenv func(string) string) Redactor {
	var r Redactor
	for _, p := range c.Profiles {
		for _, secret := range p.Secrets(getenv) {
			r = r.With(secret)
		}
	}
	return r
}

// Secrets are the values that the profile takes out of the environment and that must be seen by nobody
// but its worker: the key, and what env passes on under a name that a credential has.
func (p *Profile) Secrets(getenv func(string) string) []string {
	var secrets []string
	if p.APIKeyEnv != "" {
		secrets = append(secrets, getenv(p.APIKeyEnv))
	}
	for _, name := range p.Env {
		if !strings.Contains(name, "=") && credentialName(name) {
			secrets = append(secrets, getenv(name))
		}
	}
	return secrets
}

// With returns a Redactor that also masks key, line by line.
func (r Redactor) With(key string) Redactor {
	keys := slices.Clone(r.keys)
	for line := range strings.Lines(key) {
		line = strings.TrimSpace(line)
		if len(line) < minKeyBytes {
			continue
		}
		keys = append(keys, line)
		if escaped := url.QueryEscape(line); escaped != line {
			keys = append(keys, escaped)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return Redactor{keys: slices.Compact(keys)}
}

// Longest is the length in bytes of the longest key that the Redactor knows: what a text that was cut
// can hold of a key at its end.
func (r Redactor) Longest() int {
	const longestShape = 256
	if len(r.keys) == 0 {
		return longestShape
	}
	return max(longestShape, len(r.keys[0]))
}

// Redact returns s with every known key and everything of a well-known key's shape replaced. A key is
// found only within one line.
func (r Redactor) Redact(s string) string {
	if len(s) < minKeyBytes {
		return s
	}
	for _, key := range r.keys {
		s = strings.ReplaceAll(s, key, masked)
	}
	for _, shape := range keyShapes() {
		if strings.Contains(s, shape.literal) {
			s = mask(shape.pattern(), s)
		}
	}
	return s
}

// The escapes of JSON, and what stands for them while secrets are looked for: a secret neither begins in
// an escape nor goes on through it. A form feed is in no JSON and no stream of events.
var (
	shield   = strings.NewReplacer(`\\`, "\f\\", `\"`, "\f\"", `\/`, "\f/", `\n`, "\f.", `\r`, "\f,", `\t`, "\f;", `\b`, "\f!", `\f`, "\f?")
	unshield = strings.NewReplacer("\f\\", `\\`, "\f\"", `\"`, "\f/", `\/`, "\f.", `\n`, "\f,", `\r`, "\f;", `\t`, "\f!", `\b`, "\f?", `\f`)
)

// RedactJSON is Redact for JSON, or a stream of it, and leaves it what it is.
func (r Redactor) RedactJSON(s string) string {
	if strings.Contains(s, "\f") {
		return r.Redact(s)
	}
	return unshield.Replace(r.Redact(shield.Replace(s)))
}

// mask replaces the last group of every match, or the match if there is no group.
func mask(pattern *regexp.Regexp, s string) string {
	var out strings.Builder
	end := 0
	for _, at := range pattern.FindAllStringSubmatchIndex(s, -1) {
		out.WriteString(s[end:at[len(at)-2]])
		out.WriteString(masked)
		end = at[len(at)-1]
	}
	out.WriteString(s[end:])
	return out.String()
}

// keyShaped says whether a configuration value may hold a key. False alarms cost the user a rename;
// a miss puts a key into a file that is mailed around.
func keyShaped(value string) bool {
	for _, shape := range keyShapes() {
		if strings.Contains(value, shape.literal) && shape.pattern().MatchString(value) {
			return true
		}
	}
	for word := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(" \t\n=.:,;\"'", r) }) {
		if randomLooking(word) {
			return true
		}
	}
	for word := range strings.FieldsSeq(value) {
		if name, rest, ok := strings.Cut(word, "="); ok && len(rest) >= minKeyBytes && credentialName(name) {
			return true
		}
	}
	return false
}

// credentialName says whether a variable or flag of this name holds a credential.
func credentialName(name string) bool {
	name = strings.ToUpper(strings.TrimLeft(name, "-"))
	name = strings.ReplaceAll(name, "-", "_")
	for _, noun := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS"} {
		if name == noun || strings.HasSuffix(name, "_"+noun) || strings.HasSuffix(name, "API"+noun) {
			return true
		}
	}
	return false
}

// randomLooking says whether word is one long run of letters and digits without an order that a person
// would give it. Lower-case hex of the length of an object ID or digest is none.
func randomLooking(word string) bool {
	const least, bitsPerByte = 32, 3.0
	if len(word) < least || len(word) > 512 {
		return false
	}
	var counts [256]int
	letters, digits, hex := 0, 0, 0
	for i := range len(word) {
		c := word[i]
		counts[c]++
		switch {
		case c >= '0' && c <= '9':
			digits++
			hex++
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			letters++
			if c >= 'a' && c <= 'f' {
				hex++
			}
		case c == '+' || c == '_':
		default:
			return false
		}
	}
	if letters == 0 || digits == 0 || hex == len(word) && (len(word) == 40 || len(word) == 64) {
		return false
	}
	entropy := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(word))
			entropy -= p * math.Log2(p)
		}
	}
	return entropy >= bitsPerByte
}
