// Package model talks to model servers for the builtin worker: one small interface, and a client for
// each of three wire formats on the provider's own SDK. A client sends one request and reads one
// answer. It keeps no conversation and never tries again: that is for package agent.
//
// Servers are hostile: an answer is bounded in bytes, a connection that falls silent is given up, and
// nothing but Options.BaseURL is ever connected to.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client asks a model. Its implementations may be used by one goroutine at a time.
type Client interface {
	// Ask sends one request, reads the whole answer and returns it. It calls progress for each piece of
	// text as it comes, and with "" for what is no text: reasoning, the arguments of calls. An answer
	// that did not come whole is an error, whatever progress has heard. The error is a *Error, or the
	// cause of ctx.
	Ask(ctx context.Context, r Request, progress func(text string)) (Answer, error)
}

// Request is what a model is asked.
type Request struct {
	System   string
	Messages []Message // the conversation, a user's message first
	Tools    []Tool
	NoCalls  bool // the model is to answer in words, although Tools have been in use
}

// Tool describes a tool to the model. Parameters is the JSON Schema of an object.
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage
}

// Role says who a message is from.
type Role string

// The roles. RoleTool carries the results of the calls of the assistant's message before it.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of a conversation. Its JSON is the form in which transcripts keep it.
type Message struct {
	Role    Role     `json:"role"`
	Text    string   `json:"text,omitempty"`
	Calls   []Call   `json:"calls,omitempty"`   // of the assistant
	Results []Result `json:"results,omitempty"` // of tools, in the order of the calls

	// Opaque is what the server wants back as it was, in the form of its API: reasoning, thinking with
	// its signature, whole output items. It means nothing to another API or model.
	Opaque json.RawMessage `json:"opaque,omitempty"`
}

// Call is the wish of the model to use a tool.
type Call struct {
	ID        string          `json:"id"`        // unique in its message, never empty
	Name      string          `json:"name"`      // never empty; no promise that there is such a tool
	Arguments json.RawMessage `json:"arguments"` // an object, {} where the model sent none

	// Malformed is what the model sent as arguments where that is no JSON object. Arguments is {} then:
	// servers refuse a conversation with anything else in it.
	Malformed string `json:"malformed,omitempty"`
}

// Result answers the Call with its ID.
type Result struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Status string `json:"status"` // ok, error or denied
}

// Stop says why an answer ended.
type Stop string

// The reasons for an answer to end. Whatever else a server says is StopEnd.
const (
	StopEnd     Stop = "end"     // the model had said it all, or wants its calls made
	StopLength  Stop = "length"  // at the limit of output: the text or the last call may be cut
	StopRefused Stop = "refused" // the model or a filter before it; Text has the words, if there are any
)

// Answer is one message of the assistant.
type Answer struct {
	Message
	Stop  Stop
	Input int64 // tokens of the request by the server's count, cached ones included; 0 if it did not say
}

// The wire formats, as the api of a profile names them.
const (
	APIChat      = "chat"      // OpenAI chat completions and everything compatible
	APIResponses = "responses" // OpenAI responses
	APIMessages  = "messages"  // Anthropic messages
)

// Options say which model is asked and where.
type Options struct {
	API     string // APIChat, APIResponses or APIMessages
	BaseURL string // http, a loopback address
	Token   string // "" sends none
	Model   string
	Effort  string // how much the model is to reason, in the provider's words; "" leaves it to the server
	Context int64  // tokens of the context window
	Session string // names the conversation, for the server's cache
	Now     func() time.Time

	// Idle is how long a server may be silent; 0 is ten minutes, which a local server with a long
	// prompt may need.
	Idle time.Duration
}

const (
	defaultIdle = 10 * time.Minute
	settleIdle  = 10 * time.Second // for what a server may say after the end of the answer

	maxAnswer = 8 << 20   // bytes of text, reasoning and arguments of one answer
	maxLine   = 12 << 20  // bytes of one line of a stream; the last event of responses has the whole answer
	maxStream = 512 << 20 // bytes of a stream; a token comes in some hundred
	maxRefuse = 64 << 10  // bytes of the body of an error
)

// New returns a client, or a *Error of class setup.
func New(o Options) (Client, error) {
	if err := loopback(o.BaseURL); err != nil {
		return nil, &Error{Class: ClassSetup, Message: fmt.Sprintf("base URL %q: %v", o.BaseURL, err)}
	}
	if o.Model == "" {
		return nil, &Error{Class: ClassSetup, Message: "no model is named"}
	}
	if o.Idle == 0 {
		o.Idle = defaultIdle
	}
	switch o.API {
	case APIChat:
		return newChat(o), nil
	case APIResponses:
		return newResponses(o), nil
	case APIMessages:
		return newMessages(o), nil
	}
	return nil, &Error{Class: ClassSetup, Message: fmt.Sprintf("unknown api %q: %s, %s or %s", o.API, APIChat, APIResponses, APIMessages)}
}

// loopback says what is wrong with a base URL. Names are refused: looking one up would ask the network.
func loopback(base string) error {
	u, err := url.Parse(base)
	if err != nil {
		return errors.New("not a URL")
	}
	address, err := netip.ParseAddr(u.Hostname())
	if u.Scheme != "http" || err != nil || !address.IsLoopback() {
		return errors.New("not http on a loopback address")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("credentials, queries and fragments have no place here")
	}
	return nil
}

// httpClient connects directly, and only where the request goes: no proxy, no redirect.
func httpClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 1 << 20,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// arguments sorts out what a model sent as the arguments of a call.
func arguments(raw string) (object json.RawMessage, malformed string) {
	trimmed := strings.TrimSpace(raw)
	if trimmed == "" || trimmed == "null" {
		return json.RawMessage("{}"), ""
	}
	if trimmed[0] == '"' { // some models encode twice
		var inner string
		if json.Unmarshal([]byte(trimmed), &inner) == nil {
			trimmed = strings.TrimSpace(inner)
		}
	}
	if strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) {
		return json.RawMessage(trimmed), ""
	}
	return json.RawMessage("{}"), raw
}

// settle makes calls what Call promises: ids that are there and differ, names that are there.
func settle(calls []Call, r Request) []Call {
	seen := map[string]bool{}
	for i := range calls {
		c := &calls[i]
		if c.ID == "" || seen[c.ID] {
			c.ID = "call_" + strconv.Itoa(len(r.Messages)) + "_" + strconv.Itoa(i)
		}
		seen[c.ID] = true
		if c.Name == "" {
			c.Name = "unknown"
		}
	}
	return calls
}
