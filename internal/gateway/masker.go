package gateway

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// minKey is the shortest key, in bytes, that is looked for in answers. Servers at home take words like
// "none" or "ollama" for a key; masking those would damage what the model says.
const minKey = 12

const redacted = "[redacted]"

// masker knows the key in every form in which a server may say it.
type masker struct {
	forms   [][]byte // longest first
	longest int
}

func newMasker(key string) masker {
	var m masker
	if len(key) < minKey {
		return m
	}
	quoted, err := json.Marshal(key)
	forms := []string{key, url.QueryEscape(key), url.PathEscape(key), strings.ReplaceAll(key, "/", `\/`)}
	if err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	for _, form := range forms {
		if !slices.ContainsFunc(m.forms, func(known []byte) bool { return string(known) == form }) {
			m.forms = append(m.forms, []byte(form))
		}
	}
	m.longest = len(m.forms[0])
	return m
}

// text returns s without the key.
func (m masker) text(s string) string {
	for _, form := range m.forms {
		s = strings.ReplaceAll(s, string(form), redacted)
	}
	return s
}

// stream masks the key in a stream of bytes, however it is cut.
type stream struct {
	masker
	held []byte // the end of what came, if the key may begin in it
}

// next returns what can be passed on after p has come. The result is valid until the next call.
func (s *stream) next(p []byte) []byte {
	if len(s.forms) == 0 {
		return p
	}
	if len(s.held) > 0 {
		p = append(s.held, p...)
	}
	for _, form := range s.forms {
		if bytes.Contains(p, form) {
			p = bytes.ReplaceAll(p, form, []byte(redacted))
		}
	}
	cut := len(p) - s.begun(p)
	s.held = bytes.Clone(p[cut:])
	return p[:cut]
}

// rest returns what was held back.
func (s *stream) rest() []byte {
	held := s.held
	s.held = nil
	return held
}

// begun is the length of the longest end of p with which a form of the key begins.
func (s *stream) begun(p []byte) int {
	for n := min(len(p), s.longest-1); n > 0; n-- {
		for _, form := range s.forms {
			if n < len(form) && bytes.HasPrefix(form, p[len(p)-n:]) {
				return n
			}
		}
	}
	return 0
}
