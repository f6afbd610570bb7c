package gateway

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/schemas"
)

// reading is what an answer says of itself, as far as it has come.
type reading struct {
	model string // that the server says it is
	said  wireUsage
	text  int64 // bytes of what the model said, for an estimate
}

// event is one event of any of the streams, or an answer in one piece. Only messages has Message,
// only responses has Response, and only chat has Choices.
type event struct {
	Model    string          `json:"model"`
	Usage    json.RawMessage `json:"usage"`
	Delta    json.RawMessage `json:"delta"`
	Message  *outcome        `json:"message"`
	Response *outcome        `json:"response"`
	Choices  []struct {
		Delta json.RawMessage `json:"delta"`
		Usage json.RawMessage `json:"usage"` // Moonshot
	} `json:"choices"`
}

type outcome struct {
	Model string          `json:"model"`
	Usage json.RawMessage `json:"usage"`
}

// read takes in one event. Numbers of a stream are cumulative: the last one that is said counts.
func (r *reading) read(data []byte) {
	var e event
	// A member of a wrong type is skipped by Unmarshal, which reads the others nevertheless.
	_ = json.Unmarshal(data, &e)
	if r.model == "" {
		r.model = e.Model
	}
	for _, o := range []*outcome{e.Message, e.Response} {
		if o != nil {
			if r.model == "" {
				r.model = o.Model
			}
			r.usage(o.Usage)
		}
	}
	if e.Message != nil {
		r.said.OutputTokens = number{} // what there is before the model has said anything
	}
	for _, c := range e.Choices {
		r.text += said(c.Delta)
		r.usage(c.Usage)
	}
	r.text += said(e.Delta)
	r.usage(e.Usage)
}

func (r *reading) usage(raw json.RawMessage) {
	if len(raw) > 0 {
		_ = json.Unmarshal(raw, &r.said) // as above
	}
}

// said counts the bytes of the strings in a JSON value that are not names.
func said(raw []byte) int64 {
	total, start, quoted := int64(0), 0, false
	last := int64(0)
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case quoted && c == '"':
			quoted, last = false, int64(i-start)
			total += last
		case quoted:
		case c == '"':
			quoted, start = true, i+1
		case c == ':':
			total -= last
			last = 0
		case c == ',' || c == '{' || c == '[':
			last = 0
		}
	}
	return total
}

// wireUsage is what any of the providers says of usage. Unmarshalling a later one into it keeps what
// the later one leaves open.
type wireUsage struct {
	PromptTokens     number `json:"prompt_tokens"`
	CompletionTokens number `json:"completion_tokens"`
	TotalTokens      number `json:"total_tokens"`
	PromptDetails    struct {
		Cached     number `json:"cached_tokens"`
		CacheWrite number `json:"cache_write_tokens"`          // OpenRouter
		CacheMade  number `json:"cache_creation_input_tokens"` // DashScope
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning number `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	CacheHit number `json:"prompt_cache_hit_tokens"` // DeepSeek
	Cached   number `json:"cached_tokens"`           // Moonshot

	InputTokens  number `json:"input_tokens"`
	OutputTokens number `json:"output_tokens"`
	CacheRead    number `json:"cache_read_input_tokens"`
	CacheMade    number `json:"cache_creation_input_tokens"`
	InputDetails struct {
		Cached     number `json:"cached_tokens"`
		CacheWrite number `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning number `json:"reasoning_tokens"`
		Thinking  number `json:"thinking_tokens"` // Anthropic
	} `json:"output_tokens_details"`

	// OpenRouter, in USD. With the user's own key at a vendor, the cost is OpenRouter's fee alone.
	Cost        amount `json:"cost"`
	OwnKey      bool   `json:"is_byok"`
	CostDetails struct {
		Vendor amount `json:"upstream_inference_cost"`
	} `json:"cost_details"`
}

// cost is what the server says that the request costs, or nil.
func (w *wireUsage) cost() *float64 {
	if !w.Cost.known || w.OwnKey && !w.CostDetails.Vendor.known {
		return nil
	}
	total := w.Cost.usd
	if w.OwnKey {
		total += w.CostDetails.Vendor.usd
	}
	return &total
}

// number is a count of tokens that may be unknown.
type number struct {
	n     int64
	known bool
}

// maxCount is far more tokens than any request has: a server that says more is not believed.
const maxCount = 1 << 40

// UnmarshalJSON takes whole numbers that can be counts. Anything else leaves the number as it is, and so
// does a 0 after more: some servers count again at the end, and from nothing.
func (n *number) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(string(data), 64)
	if err == nil && f >= 0 && f <= maxCount && f == math.Trunc(f) && (f > 0 || !n.known) {
		*n = number{int64(f), true}
	}
	return nil
}

func (n number) pointer() *int64 {
	if !n.known {
		return nil
	}
	return &n.n
}

func first(numbers ...number) number {
	for _, n := range numbers {
		if n.known {
			return n
		}
	}
	return number{}
}

// amount is a sum of USD that may be unknown.
type amount struct {
	usd   float64
	known bool
}

// UnmarshalJSON takes what can be the price of a request.
func (a *amount) UnmarshalJSON(data []byte) error {
	const most = 1e6
	if f, err := strconv.ParseFloat(string(data), 64); err == nil && f >= 0 && f <= most && (f > 0 || !a.known) {
		*a = amount{f, true}
	}
	return nil
}

// inclusive is usage where the count of the input has the cached part in it.
func inclusive(input, output, read, written, reasoning number) schemas.Usage {
	u := schemas.Usage{
		CacheRead: read.pointer(), CacheWrite: written.pointer(), Output: output.pointer(), Reasoning: reasoning.pointer(),
	}
	if input.known {
		rest := max(0, input.n-read.n-written.n)
		u.UncachedInput = &rest
	}
	return u
}

func chatUsage(w wireUsage) schemas.Usage {
	output, reasoning := w.CompletionTokens, w.CompletionDetails.Reasoning
	// Gemini and xAI count reasoning in the total alone.
	if more := w.TotalTokens.n - w.PromptTokens.n - output.n; w.TotalTokens.known && w.PromptTokens.known && output.known &&
		more > 0 && (!reasoning.known || reasoning.n == more) {
		output.n += more
	}
	return inclusive(w.PromptTokens, output, first(w.PromptDetails.Cached, w.CacheHit, w.Cached),
		first(w.PromptDetails.CacheWrite, w.PromptDetails.CacheMade), reasoning)
}

func responsesUsage(w wireUsage) schemas.Usage {
	return inclusive(w.InputTokens, w.OutputTokens, w.InputDetails.Cached, w.InputDetails.CacheWrite, w.OutputDetails.Reasoning)
}

func messagesUsage(w wireUsage) schemas.Usage {
	return schemas.Usage{
		UncachedInput: w.InputTokens.pointer(), CacheRead: w.CacheRead.pointer(), CacheWrite: w.CacheMade.pointer(),
		Output: w.OutputTokens.pointer(), Reasoning: first(w.OutputDetails.Thinking, w.OutputDetails.Reasoning).pointer(),
	}
}

// tokens is the sum of what is known.
func tokens(u schemas.Usage) int64 {
	total := int64(0)
	for _, n := range []*int64{u.UncachedInput, u.CacheRead, u.CacheWrite, u.Output} {
		if n != nil {
			total += *n
		}
	}
	return total
}

// price is what u costs by rate; nil if a count or a rate is not known that it takes.
func price(u schemas.Usage, rate config.Rate) *float64 {
	if u.UncachedInput == nil || u.Output == nil {
		return nil
	}
	total := 0.0
	for _, part := range []struct {
		n    *int64
		rate *float64
	}{{u.UncachedInput, rate.Input}, {u.CacheRead, rate.CacheRead}, {u.CacheWrite, rate.CacheWrite}, {u.Output, rate.Output}} {
		switch {
		case part.n == nil || *part.n == 0:
		case part.rate == nil:
			return nil
		default:
			total += float64(*part.n) * *part.rate / 1e6
		}
	}
	return &total
}
