package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// This file decides what a request may hold. A request goes through member by member, and what comes out
// is what was looked at: a name that occurs twice is refused, and one that is escaped or in other letters
// than the API documents is not that name. Of every object whose members mean something to the provider
//
//   - known members are passed on,
//   - members that would have the provider fetch something, run something, ask another model or use what
//     the account has stored are refused, so that the worker learns of it,
//   - all others are left out, and the user is told.
//
// What the provider only shows to the model, such as the schema of a function or the arguments of a call,
// is passed on as it is, byte for byte: prompt caches depend on it.

// asked is a request that may be sent.
type asked struct {
	body      []byte
	stream    bool
	maxOutput int64    // tokens that the answer may have
	dropped   []string // members that were left out
}

// unstatedOutput is taken for the longest answer, in tokens, where the request does not bound it.
const unstatedOutput = 32 << 10

// rewrite makes of a request of the format what may be sent to the model. An error is a *problem.
func rewrite(f format, model string, body []byte) (asked, error) {
	r := &rewriter{
		// Half of a surrogate pair is no reason to refuse: programs cut texts anywhere. Names that occur
		// twice are refused where they mean something; a list of all names could be larger than the body.
		dec: jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)),
		out: make([]byte, 0, len(body)+64), model: model,
	}
	err := r.object("", func(name string) error { return f.member(r, name) })
	if err == nil {
		if _, end := r.dec.ReadToken(); !errors.Is(end, io.EOF) {
			err = refuse("the body is more than one JSON object")
		}
	}
	if err == nil && !r.named {
		err = refuse("the request names no model")
	}
	if p, ok := errors.AsType[*problem](err); ok {
		return asked{}, p
	} else if err != nil {
		return asked{}, refuse("the body is not sound JSON: %s", short(err.Error()))
	}
	if f.askUsage && r.stream {
		r.out = append(r.out[:len(r.out)-1], `,"stream_options":{"include_usage":true}}`...)
	}
	a := asked{body: r.out, stream: r.stream, maxOutput: r.most, dropped: r.dropped}
	if a.maxOutput <= 0 || a.maxOutput > maxCount {
		a.maxOutput = unstatedOutput
	}
	return a, nil
}

func refuse(format string, args ...any) error {
	return &problem{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

// rewriter is a request on its way. Its methods read the next value, and append to out what of it is
// passed on.
type rewriter struct {
	dec     *jsontext.Decoder
	out     []byte
	model   string // that may be asked
	named   bool   // it was
	stream  bool
	most    int64 // tokens of the answer
	dropped []string
}

// object passes an object on. member is called at the value of each member, and must read it.
func (r *rewriter) object(where string, member func(name string) error) error {
	if err := r.open('{', where); err != nil {
		return err
	}
	var passed []string // never more than this file knows
	for r.dec.PeekKind() == '"' {
		token, err := r.dec.ReadToken()
		if err != nil {
			return err
		}
		name, before := token.String(), len(r.out)
		if r.out[before-1] != '{' {
			r.out = append(r.out, ',')
		}
		if r.out, err = jsontext.AppendQuote(r.out, name); err != nil {
			return err
		}
		r.out = append(r.out, ':')
		value := len(r.out)
		if err := member(name); err != nil {
			return err
		}
		switch {
		case len(r.out) == value: // nothing of it is passed on
			r.out = r.out[:before]
		case slices.Contains(passed, name):
			return refuse("%s occurs twice", name)
		default:
			passed = append(passed, name)
		}
	}
	return r.close('}')
}

// array passes an array, or null, on. element is called at each element.
func (r *rewriter) array(where string, element func() error) error {
	if r.dec.PeekKind() == 'n' {
		return r.pass()
	}
	if err := r.open('[', where); err != nil {
		return err
	}
	for {
		switch r.dec.PeekKind() {
		case ']', jsontext.KindInvalid:
			return r.close(']')
		}
		if r.out[len(r.out)-1] != '[' {
			r.out = append(r.out, ',')
		}
		if err := element(); err != nil {
			return err
		}
	}
}

func (r *rewriter) open(kind jsontext.Kind, where string) error {
	if got := r.dec.PeekKind(); got != kind && got != jsontext.KindInvalid {
		if where == "" {
			where = "the body"
		}
		return refuse("%s has a %s where this API has a %s", where, got, kind)
	}
	return r.close(kind)
}

// close passes one delimiter on.
func (r *rewriter) close(kind jsontext.Kind) error {
	_, err := r.dec.ReadToken()
	r.out = append(r.out, byte(kind))
	return err
}

// pass passes a value on as it is.
func (r *rewriter) pass() error {
	value, err := r.dec.ReadValue()
	r.out = append(r.out, value...)
	return err
}

// drop leaves a value out.
func (r *rewriter) drop(where, name string) error {
	if len(r.dropped) < maxForeign { // more are not told of
		r.dropped = append(r.dropped, strings.TrimPrefix(where+"."+name, "."))
	}
	return r.dec.SkipValue()
}

// none leaves a value out that says nothing, and refuses any other.
func (r *rewriter) none(name string) error {
	value, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	switch string(bytes.Join(bytes.Fields(value), nil)) {
	case "null", "false", `""`, "[]", "{}":
		return nil
	}
	return refuse("%s is not allowed here: the provider would act for the worker, or with what the account holds", name)
}

// text passes a string, or null, on and returns it.
func (r *rewriter) text(name string) (string, error) {
	switch kind := r.dec.PeekKind(); kind {
	case 'n':
		return "", r.pass()
	case '"', jsontext.KindInvalid:
	default:
		return "", refuse("%s has a %s where this API has a string", name, kind)
	}
	value, err := r.dec.ReadValue()
	if err != nil {
		return "", err
	}
	r.out = append(r.out, value...)
	s, err := jsontext.AppendUnquote(nil, value)
	return string(s), err
}

// kind passes the type of an object on.
func (r *rewriter) kind(to *string) error {
	s, err := r.text("type")
	*to = s
	return err
}

// common are the members of a request that the formats share.
func (r *rewriter) common(name string) error {
	switch name {
	case "model":
		model, err := r.text(name)
		if err == nil && model != r.model {
			return &problem{
				http.StatusNotFound, "model_not_found",
				fmt.Sprintf("the model %q cannot be asked here, only %q can", short(model), r.model),
			}
		}
		r.named = true
		return err
	case "stream":
		switch kind := r.dec.PeekKind(); kind {
		case 't', 'f', 'n', jsontext.KindInvalid:
			r.stream = kind == 't'
			return r.pass()
		}
		return refuse("stream must be true or false")
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		value, err := r.dec.ReadValue()
		r.out = append(r.out, value...)
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			r.most = max(r.most, n)
		}
		return err
	case "tools":
		return r.array(name, r.tool)
	case "tool_choice":
		return r.choice()
	case "temperature", "top_p", "top_k", "metadata", "thinking":
		return r.pass()
	case "background", "container", "mcp_servers", "models", "plugins", "preset":
		return r.none(name)
	}
	return r.drop("", name)
}

// chat is a member of a request for chat completions.
func (r *rewriter) chat(name string) error {
	switch name {
	case "messages":
		return r.array(name, r.message)
	case "n":
		value, err := r.dec.ReadValue()
		if err == nil && string(value) != "1" && string(value) != "null" {
			return refuse("n must be 1: several answers to one request are not allowed here")
		}
		return err // which is what there is without it
	case "stream_options":
		return r.dec.SkipValue() // rewrite adds it
	case "frequency_penalty", "presence_penalty", "repetition_penalty", "min_p", "seed", "stop", "logit_bias", "logprobs",
		"top_logprobs", "response_format", "parallel_tool_calls", "functions", "function_call", "reasoning_effort",
		"reasoning", "include_reasoning", "reasoning_format", "reasoning_split", "verbosity", "user", "safety_identifier",
		"prompt_cache_key", "prompt_cache_retention", "store", "usage", "enable_thinking", "thinking_budget",
		"preserve_thinking", "do_sample", "tool_stream", "cache_prompt":
		return r.pass()
	case "chat_template_kwargs": // of a server that would take a program for a template, too
		return r.object(name, func(inner string) error {
			switch inner {
			case "enable_thinking", "thinking", "thinking_budget", "preserve_thinking", "clear_thinking", "reasoning_effort":
				return r.pass()
			}
			return r.drop(name, inner)
		})
	case "web_search_options", "enable_search", "search_options", "search_parameters", "enable_code_interpreter":
		return r.none(name)
	}
	return r.common(name)
}

// responses is a member of a request for a response.
func (r *rewriter) responses(name string) error {
	switch name {
	case "input", "instructions":
		if r.dec.PeekKind() == '"' {
			return r.pass()
		}
		return r.array(name, r.item)
	case "include", "max_tool_calls", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "reasoning",
		"safety_identifier", "user", "store", "stream_options", "text", "top_logprobs", "truncation", "context_management":
		return r.pass()
	case "conversation", "prompt", "previous_response_id":
		return r.none(name)
	case "client_metadata": // what codex tells of the machine
		return r.dec.SkipValue()
	}
	return r.common(name)
}

// messages is a member of a request for a message.
func (r *rewriter) messages(name string) error {
	switch name {
	case "messages":
		return r.array(name, r.message)
	case "system":
		return r.content()
	case "stop_sequences", "output_config", "output_format", "context_management", "cache_control":
		return r.pass()
	}
	return r.common(name)
}

func (r *rewriter) message() error {
	return r.object("a message", func(name string) error {
		switch name {
		case "content":
			return r.content()
		case "role", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "prefix", "partial", "cache_control",
			"reasoning_content", "reasoning", "reasoning_details", "thinking":
			return r.pass()
		}
		return r.drop("messages[]", name)
	})
}

// item is one item of the input of responses.
func (r *rewriter) item() error {
	kind := "message"
	err := r.object("an item of input", func(name string) error {
		switch name {
		case "type":
			return r.kind(&kind)
		case "content", "output", "summary":
			return r.content()
		case "tools":
			return r.array(name, r.tool)
		case "id", "role", "status", "phase", "call_id", "name", "namespace", "arguments", "input", "action", "operation",
			"encrypted_content", "max_output_length", "execution":
			return r.pass()
		}
		return r.drop("input[]", name)
	})
	if err != nil {
		return err
	}
	switch kind {
	case "message", "reasoning", "compaction", "compaction_summary", "function_call", "function_call_output",
		"custom_tool_call", "custom_tool_call_output", "local_shell_call", "local_shell_call_output", "shell_call",
		"shell_call_output", "apply_patch_call", "apply_patch_call_output", "additional_tools", "tool_search_call",
		"tool_search_output":
		return nil
	}
	return refuse("an item of type %q is not allowed in the input", short(kind))
}

// content is a text, a list of parts, or one part.
func (r *rewriter) content() error {
	switch r.dec.PeekKind() {
	case '[':
		return r.array("content", r.part)
	case '{':
		return r.part()
	}
	return r.pass()
}

// part is one part of a content. It brings along what it is about: what would have to be fetched could be
// an address that tells somebody something, or a file that the account has stored.
func (r *rewriter) part() error {
	if r.dec.PeekKind() == '"' {
		return r.pass()
	}
	kind := ""
	err := r.object("a part", func(name string) error {
		switch name {
		case "type":
			return r.kind(&kind)
		case "content":
			return r.content()
		case "image_url", "video_url", "audio_url":
			if r.dec.PeekKind() == '{' {
				return r.media(name)
			}
			return r.inline(name)
		case "file", "input_audio":
			return r.media(name)
		case "source":
			return r.source()
		case "file_data":
			return r.inline(name)
		case "file_id", "file_url":
			return r.none(name)
		case "text", "refusal", "annotations", "logprobs", "detail", "filename", "cache_control", "citations", "title", "context",
			"id", "name", "input", "tool_use_id", "tool_name", "is_error", "thinking", "signature", "data", "caller",
			"stdout", "stderr", "outcome", "encrypted_content":
			return r.pass()
		}
		return r.drop("content[]", name)
	})
	if err != nil {
		return err
	}
	switch kind {
	case "": // what a shell has printed
		return nil
	case "text", "refusal", "image_url", "video_url", "input_audio", "file", // chat
		"input_text", "output_text", "input_image", "input_file", "summary_text", "reasoning_text", // responses
		"image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking", "tool_reference", "compaction": // messages
		return nil
	}
	return refuse("a part of type %q is not allowed here", short(kind))
}

// media is an object with a picture, a sound or a file in it.
func (r *rewriter) media(where string) error {
	return r.object(where, func(name string) error {
		switch name {
		case "url", "file_data":
			return r.inline(where)
		case "data": // base64
			s, err := r.text(name)
			if err == nil && strings.Contains(s, ":") && !strings.HasPrefix(s, "data:") {
				return refuse("%s must hold the bytes themselves: nothing is fetched for the worker", where)
			}
			return err
		case "file_id":
			return r.none(where + "." + name)
		case "detail", "filename", "format", "fps":
			return r.pass()
		}
		return r.drop("content[]."+where, name)
	})
}

// inline is the URL of something that is in the URL itself.
func (r *rewriter) inline(name string) error {
	s, err := r.text(name)
	if err == nil && s != "" && !strings.HasPrefix(s, "data:") {
		return refuse("%s must be a data: URL: nothing is fetched for the worker", name)
	}
	return err
}

// source is where a part of messages comes from.
func (r *rewriter) source() error {
	kind := ""
	err := r.object("source", func(name string) error {
		switch name {
		case "type":
			return r.kind(&kind)
		case "content":
			return r.content()
		case "media_type", "data":
			return r.pass()
		case "url", "file_id":
			return r.none("source." + name)
		}
		return r.drop("content[].source", name)
	})
	if err == nil && kind != "base64" && kind != "text" && kind != "content" {
		return refuse("a source of type %q is not allowed here: nothing is fetched for the worker", short(kind))
	}
	return err
}

// tool is one of the tools that the model may call: such that the client runs.
func (r *rewriter) tool() error {
	kind, place, execution := "function", "", "" // the oldest format says no type
	err := r.object("a tool", func(name string) error {
		switch name {
		case "type":
			return r.kind(&kind)
		case "environment":
			if r.dec.PeekKind() == 'n' {
				return r.pass()
			}
			return r.object(name, func(name string) error {
				if name == "type" {
					return r.kind(&place)
				}
				return r.drop("tools[].environment", name)
			})
		case "execution":
			var err error
			execution, err = r.text(name)
			return err
		case "tools":
			return r.array(name, r.tool)
		case "function", "custom", "name", "description", "parameters", "input_schema", "output_schema", "strict", "format",
			"cache_control", "defer_loading", "eager_input_streaming", "allowed_callers", "input_examples", "max_characters":
			return r.pass()
		}
		return r.drop("tools[]", name)
	})
	if err == nil && (!clientRuns(kind) || kind == "shell" && place != "local" || place != "" && place != "local" ||
		kind == "tool_search" && execution != "client") {
		return refuse("the tool %q is not allowed here: the provider would run it, outside of the sandbox", short(kind))
	}
	return err
}

// clientRuns says whether tools of a type can be run by the client.
func clientRuns(kind string) bool {
	switch kind {
	case "", "function", "custom", "namespace", "local_shell", "shell", "apply_patch", "tool_search":
		return true
	}
	for _, prefix := range []string{"bash_", "text_editor_", "memory_"} {
		date, ok := strings.CutPrefix(kind, prefix)
		if ok && len(date) == len("20250124") && strings.Trim(date, "0123456789") == "" {
			return true
		}
	}
	return false
}

// choice is the tool that the model must call, or how it may choose.
func (r *rewriter) choice() error {
	if r.dec.PeekKind() != '{' {
		return r.pass()
	}
	kind := ""
	err := r.object("tool_choice", func(name string) error {
		switch name {
		case "type":
			return r.kind(&kind)
		case "name", "function", "custom", "mode", "disable_parallel_tool_use":
			return r.pass()
		case "tools":
			return r.array(name, r.tool)
		case "allowed_tools": // chat has the list in here
			return r.choice()
		}
		return r.drop("tool_choice", name)
	})
	switch kind {
	case "auto", "any", "none", "required", "tool", "allowed_tools":
		return err
	}
	if err == nil && !clientRuns(kind) {
		return refuse("the tool %q is not allowed here: the provider would run it, outside of the sandbox", short(kind))
	}
	return err
}
