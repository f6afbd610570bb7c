package agent

import (
	"fmt"
	"strings"

	"github.com/git-spot/git-spot/internal/agent/model"
)

const (
	defaultContext = 128000 // tokens

	// In parts of the context window: what is sent stays below high; when it does not, so much is
	// dropped at once that it falls to low, because each change costs the server's cache of the prompt.
	high = 0.75
	low  = 0.5

	keepSteps = 3   // answers, the last ones, whose results stay
	minDrop   = 400 // bytes of a result that are worth dropping

	share = 0.25 // of the context window, for the results of one answer
)

// window keeps a conversation inside the model's context window. It guesses tokens from bytes, and
// learns from the server's own counts how many bytes make one.
type window struct {
	limit float64 // tokens
	fixed int     // bytes of system prompt and tools
	ratio float64 // tokens in a byte
}

func newWindow(limit int64, fixed int) *window {
	if limit <= 0 {
		limit = defaultContext
	}
	return &window{limit: float64(limit), fixed: fixed, ratio: 0.3}
}

// learn takes the server's count of tokens for a conversation. What no language is like is not believed.
func (w *window) learn(messages []model.Message, tokens int64) {
	if tokens > 0 {
		w.ratio = min(max(float64(tokens)/float64(w.fixed+size(messages)), 0.05), 1.5)
	}
}

func (w *window) tokens(messages []model.Message) float64 {
	return float64(w.fixed+size(messages)) * w.ratio
}

// fit shortens a conversation that has grown too long, and says whether it did.
func (w *window) fit(messages []model.Message) ([]model.Message, bool) {
	if w.tokens(messages) <= high*w.limit {
		return messages, false
	}
	dropped := w.shrink(messages, low*w.limit, keepSteps)
	if w.tokens(messages) > high*w.limit {
		var forgot bool
		messages, forgot = w.forget(messages, low*w.limit, keepSteps)
		dropped = dropped || forgot
	}
	return messages, dropped
}

// refused is for a server that found the conversation too long, whatever was guessed: the window is
// smaller than was thought. It says whether there was anything to drop.
func (w *window) refused(messages []model.Message) ([]model.Message, bool) {
	w.limit = min(w.limit, w.tokens(messages))
	dropped := w.shrink(messages, low*w.limit, 1)
	messages, forgot := w.forget(messages, low*w.limit, 1)
	return messages, dropped || forgot
}

// trim cuts the results of one answer so that they leave room for others.
func (w *window) trim(results []model.Result) {
	room := int(share * w.limit / w.ratio)
	for i := range results {
		r := &results[i]
		if len(r.Text) > max(room, minDrop) {
			kept := r.Text[:runeBoundary(r.Text, max(room, 0))]
			r.Text = kept + fmt.Sprintf(sayTrimmed, len(r.Text)-len(kept))
		}
		room -= len(r.Text)
	}
}

// shrink drops output of tools, the oldest first, until target tokens are left or only the output of the
// last keep answers is.
func (w *window) shrink(messages []model.Message, target float64, keep int) (dropped bool) {
	last := len(messages)
	for i := len(messages) - 1; i >= 0 && keep > 0; i-- {
		if messages[i].Role == model.RoleTool {
			last, keep = i, keep-1
		}
	}
	for i := range messages[:last] {
		for j := range messages[i].Results {
			if w.tokens(messages) <= target {
				return dropped
			}
			result := &messages[i].Results[j]
			if len(result.Text) >= minDrop {
				result.Text = fmt.Sprintf(sayDropped, len(result.Text), result.Name)
				dropped = true
			}
		}
	}
	return dropped
}

// forget drops the oldest answers with their results until target tokens are left, or only the last keep
// answers are. What the user said stays, and the first of it says that something is missing.
func (w *window) forget(messages []model.Message, target float64, keep int) (left []model.Message, dropped bool) {
	last := len(messages)
	for i := len(messages) - 1; i >= 0 && keep > 0; i-- {
		if messages[i].Role == model.RoleAssistant {
			last, keep = i, keep-1
		}
	}
	excess := w.tokens(messages) - target
	gone := false // the last answer
	for i, m := range messages {
		if m.Role == model.RoleAssistant {
			gone = i < last && excess > 0
		}
		if m.Role == model.RoleUser || !gone {
			left = append(left, m)
			continue
		}
		excess -= float64(size(messages[i:i+1])) * w.ratio
		dropped = true
	}
	if dropped && !strings.HasSuffix(left[0].Text, sayForgotten) {
		left[0].Text += sayForgotten
	}
	return left, dropped
}

// size is how many bytes messages have, more or less.
func size(messages []model.Message) int {
	n := 0
	for _, m := range messages {
		n += len(m.Text) + len(m.Opaque)
		for _, c := range m.Calls {
			n += len(c.ID) + len(c.Name) + len(c.Arguments)
		}
		for _, r := range m.Results {
			n += len(r.ID) + len(r.Text)
		}
	}
	return n
}
