package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// Class says what kind of failure it was: the failure classes of git spot.
type Class string

// The classes. What is worth another try is ClassRateLimit and ClassTransient.
const (
	ClassAuth       Class = "auth"       // the key is missing, wrong or not allowed to do this
	ClassQuota      Class = "quota"      // nothing left to pay with
	ClassRateLimit  Class = "rate_limit" // too fast
	ClassTransient  Class = "transient"  // the server or the way to it is broken for now
	ClassSetup      Class = "setup"      // no such model, no such endpoint
	ClassCapability Class = "capability" // this model cannot do this: no tools, too little context
	ClassBudget     Class = "budget"     // git spot's own gateway refuses: the task's limit is spent
	ClassIncomplete Class = "incomplete" // the model came to no end
	ClassPermanent  Class = "permanent"  // anything else
)

// Error is a request that failed. Nothing of an answer came of it.
type Error struct {
	Class      Class
	Status     int           // of HTTP; 0 if the failure came otherwise
	RetryAfter time.Duration // as the server demands; 0 if it does not
	Silent     bool          // the server said nothing for Options.Idle; the class is transient
	TooLong    bool          // the conversation is longer than the context window; the class is capability
	Message    string        // one line, bounded; it may quote the server
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("the model server said %d: %s", e.Status, e.Message)
	}
	return e.Message
}

// maxMessage bounds Error.Message in bytes.
const maxMessage = 600

// bounded makes one line of foreign text.
func bounded(s string) string {
	if len(s) > 4*maxMessage { // the rest would not be shown
		s = s[:4*maxMessage]
	}
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage-3], "") + "..."
	}
	return s
}

// serverError finds the error that a server told of: one that the middleware made, or an event of a
// stream, which comes in the SDK's own type. It is nil for every other error.
func serverError(err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if e, ok := errors.AsType[*ssestream.StreamError](err); ok {
		return classify(0, e.Event.Data)
	}
	if e, ok := errors.AsType[*anthropic.Error](err); ok {
		return classify(0, []byte(e.RawJSON()))
	}
	return nil
}

// Servers agree on few statuses and on no codes, so their words count as well. The rows are tried in
// order; a row holds if the status is one of its own, or if the code or the message has one of its words
// and the status is none that says something else.
var table = []struct {
	class    Class
	tooLong  bool
	statuses []int
	words    []string
	not      []int
}{
	{class: ClassBudget, words: []string{"budget_exceeded"}},
	{class: ClassCapability, tooLong: true, statuses: []int{413}, not: []int{401, 402, 403, 404, 429}, words: []string{
		"context_length", "context length", "context window", "context_window", "exceed context", "exceed_context", "available context",
		"prompt is too long", "input is too long", "reduce the length", "range of input length", "input token count", "too many tokens",
		"max_prompt_tokens", "token limit", "exceeds the maximum length", "超长",
	}},
	{class: ClassCapability, not: []int{401, 402, 403, 429}, words: []string{
		"not support tool", "support tool use", "tool use is not", "not support function", "function calling is not",
		"tool choice requires", "enable-auto-tool-choice", "tools param requires", "tools are not supported", "tools is not supported",
	}},
	{class: ClassQuota, statuses: []int{402}, not: []int{401}, words: []string{
		"insufficient_quota", "insufficient quota", "insufficient balance", "insufficient_balance", "insufficient credit",
		"exceeded your current quota", "exceeded_current_quota", "credit balance", "billing", "arrear", "overdue", "usage limit",
		"余额", "欠费", "使用上限",
	}},
	{class: ClassAuth, statuses: []int{401, 403}, not: []int{429}, words: []string{
		"invalid_api_key", "invalid api key", "incorrect api key", "api key not valid", "authentication", "unauthorized", "login fail",
	}},
	{class: ClassRateLimit, statuses: []int{429}, words: []string{"rate_limit", "rate limit", "too many requests", "throttl"}},
	{class: ClassPermanent, words: []string{"content_filter", "content_policy", "data_inspection_failed", "datainspectionfailed"}},
	{class: ClassSetup, statuses: []int{301, 302, 303, 307, 308, 404, 405, 501}, words: []string{
		"model_not_found", "model not found", "model not exist", "model_not_exist", "unknown model", "unknown_model", "invalid model",
		"no such model", "not a valid model", "not_found_error", "model does not exist", "模型不存在",
	}},
	{class: ClassTransient, statuses: []int{0, 408, 409, 425}, not: []int{400, 422}, words: []string{
		"overloaded", "server_error", "internal error", "timeout", "timed out", "unavailable",
	}},
}

// classify makes an error of what a server said. The status is 0 in the middle of a stream.
func classify(status int, body []byte) *Error {
	p := parse(body)
	e := &Error{Class: ClassPermanent, Status: status, RetryAfter: p.retry, Message: p.message}
	effective := status
	if status == 0 || status == http.StatusOK { // the error is in the body alone, and so may be its status
		effective = p.status
	}
	switch {
	case e.Message == "" && status == http.StatusOK:
		e.Message = "no stream of events came back"
	case e.Message == "" && status == 0:
		e.Message = "the stream broke off with an error"
	case e.Message == "":
		e.Message = http.StatusText(status)
	}
	e.Message = bounded(e.Message)
	if p.empty() && status == http.StatusOK {
		e.Class = ClassSetup
		return e
	}
	words := strings.ToLower(p.code + " " + p.message)
	has := func(word string) bool { return strings.Contains(words, word) }
	for _, row := range table {
		if slices.Contains(row.statuses, effective) && (effective != 0 || !has("invalid")) ||
			slices.ContainsFunc(row.words, has) && !slices.Contains(row.not, effective) {
			e.Class, e.TooLong = row.class, row.tooLong
			break
		}
	}
	if e.Class == ClassQuota && p.retry > 0 {
		e.Class = ClassRateLimit // Gemini speaks of the quota of a minute, and says when the next begins
	}
	if e.Class == ClassPermanent && effective >= 500 {
		e.Class = ClassTransient
	}
	return e
}

// problem is what a server says about an error, wherever in the body it says so.
type problem struct {
	code    string // codes and types, with spaces between
	status  int    // a code that is a status of HTTP
	message string
	retry   time.Duration
}

func (p *problem) empty() bool { return p.code == "" && p.message == "" }

// parse reads the body of an error. Providers put it under "error", "base_resp", "detail" or nowhere,
// some in an array.
func parse(body []byte) problem {
	var p problem
	var v any
	if len(body) <= maxRefuse && json.Unmarshal(body, &v) == nil {
		p.add(v, 0)
		return p
	}
	if text := strings.TrimSpace(string(body)); !strings.HasPrefix(text, "<") { // no page of a proxy
		p.message = text
	}
	return p
}

func (p *problem) add(v any, depth int) {
	if depth > 5 {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, each := range v {
			p.add(each, depth+1)
		}
	case map[string]any:
		for _, key := range []string{"code", "type", "status", "status_code", "error_code", "error_type"} {
			p.addCode(v[key])
		}
		for _, key := range []string{"message", "msg", "status_msg", "error_msg", "error", "detail", "raw"} {
			if text, ok := v[key].(string); ok && text != "" && !strings.Contains(p.message, text) {
				p.message = strings.TrimSpace(p.message + " " + text)
			}
		}
		if text, ok := v["retryDelay"].(string); ok {
			if d, err := time.ParseDuration(text); err == nil && d > 0 {
				p.retry = d
			}
		}
		for _, key := range []string{"error", "errors", "base_resp", "response", "detail", "details", "metadata"} {
			switch v[key].(type) {
			case map[string]any, []any:
				p.add(v[key], depth+1)
			}
		}
	}
}

func (p *problem) addCode(v any) {
	switch v := v.(type) {
	case float64:
		if v >= 400 && v < 600 {
			p.status = int(v)
		}
		p.code += " " + strconv.FormatFloat(v, 'f', -1, 64)
	case string:
		if n, err := strconv.Atoi(v); err == nil && n >= 400 && n < 600 {
			p.status = n
		}
		p.code += " " + v
	}
}

// retryAfter is how long a server wants to be left alone: milliseconds, seconds or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const most = 365 * 24 * 3600 // seconds; what is more would overflow
	for _, unit := range []struct {
		header string
		length time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		value := strings.TrimSpace(h.Get(unit.header))
		if n, err := strconv.ParseFloat(value, 64); err == nil && n > 0 {
			return time.Duration(min(n, most) * float64(unit.length))
		}
		if date, err := http.ParseTime(value); err == nil {
			return max(date.Sub(now), 0)
		}
	}
	return 0
}
