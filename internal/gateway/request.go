package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// This file decides what a request may hold. A request goes through it member by member, and what comes
// out is what was looked at: names that occur twice, or escaped, or in other letters than a provider
// documents, mean nothing here that they could mean elsewhere. Of every object whose members matter
//
//   - known members are passed on,
//   - members that would make the provider reach somewhere, run something, use another model or the state
//     of the account are refused, so that the worker learns of it,
//   - all others are left out, and the user is told once.
//
// What the client executes (the schema of a function, the arguments of a call) is passed on as it is.

// asked is a request that may be sent.
type asked struct {
	body      []byte
	stream    bool
	maxOutput int64    // tokens that the answer may have at most
	dropped   []string // members that were left out
}

// unstatedOutput is taken for the longest answer, in tokens, where the request does not bound it.
const unstatedOutput = 32 << 10

// maxDropped is how many members that were left out are told of.
const maxDropped = 8

type rewriter struct {
	dec    *jsontext.Decoder
	out    []byte
	model  string
	named  bool // the model was
	stream bool
	most   int64
	drops  []string
}

// rewrite checks a request of a format for a model. An error is a *problem.
func rewrite(f format, model string, body []byte) (asked, error) {
	r := &rewriter{
		dec: jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowInvalidUTF8(true)),
		out: make([]byte, 0, len(body)+64), model: model,
	}
	err := r.object(func(name string) error { return f.member(r, name) })
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
		return asked{}, refuse("the body is not a JSON object that this API knows: %v", err)
	}
	if f.askUsage && r.stream {
		r.out = append(r.out[:len(r.out)-1], `,"stream_options":{"include_usage":true}}`...)
	}
	a := asked{body: r.out, stream: r.stream, maxOutput: r.most, dropped: r.drops}
	if a.maxOutput <= 0 || a.maxOutput > maxCount {
		a.maxOutput = unstatedOutput
	}
	return a, nil
}

func refuse(format string, args ...any) error {
	return &problem{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

// object passes an object on. member is called at the value of each of its members, and passes it on or
// does not.
func (r *rewriter) object(member func(name string) error) error {
	if _, err := r.begin('{'); err != nil {
		return err
	}
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
		if len(r.out) == value {
			r.out = r.out[:before]
		}
	}
	return r.finish('}')
}

// array passes an array on, of which element is called at each element.
func (r *rewriter) array(element func() error) error {
	if _, err := r.begin('['); err != nil {
		return err
	}
	for {
		switch r.dec.PeekKind() {
		case ']':
			return r.finish(']')
		case 0: // an error, which the next read returns
			_, err := r.dec.ReadToken()
			return err
		}
		if r.out[len(r.out)-1] != '[' {
			r.out = append(r.out, ',')
		}
		if err := element(); err != nil {
			return err
		}
	}
}

func (r *rewriter) begin(kind jsontext.Kind) (jsontext.Token, error) {
	if got := r.dec.PeekKind(); got != kind && got != 0 {
		return jsontext.Token{}, refuse("%s is not what this API has there", got)
	}
	token, err := r.dec.ReadToken()
	r.out = append(r.out, byte(kind))
	return token, err
}

func (r *rewriter) finish(kind jsontext.Kind) error {
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
	if len(r.drops) < maxDropped {
		r.drops = append(r.drops, where+short(name))
	}
	return r.dec.SkipValue()
}

// null passes a null on, and says whether there was one.
func (r *rewriter) null() (bool, error) {
	if r.dec.PeekKind() != 'n' {
		return false, nil
	}
	return true, r.pass()
}

// text passes a string on and returns it; "" for null. Anything else is refused.
func (r *rewriter) text(name string) (string, error) {
	if null, err := r.null(); null || err != nil {
		return "", err
	}
	if kind := r.dec.PeekKind(); kind != '"' && kind != 0 {
		return "", refuse("%s is no string", name)
	}
	value, err := r.dec.ReadValue()
	if err != nil {
		return "", err
	}
	r.out = append(r.out, value...)
	s, err := jsontext.AppendUnquote(nil, value)
	return string(s), err
}

// none refuses every value of a member but null, false, and empty lists and objects.
func (r *rewriter) none(name string) error {
	value, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	switch string(bytes.Join(bytes.Fields(value), nil)) {
	case "null", "false", "[]", "{}", `""`:
		return nil // and left out
	}
	return refuse("%s is not allowed here: it would let the provider act for the worker", name)
}

// common are the members that the formats share.
func (r *rewriter) common(name string) error {
	switch name {
	case "model":
		model, err := r.text(name)
		if err == nil && model != r.model {
			return &problem{http.StatusNotFound, "model_not_found", fmt.Sprintf("the model %q cannot be asked here, only %q can", short(model), r.model)}
		}
		r.named = true
		return err
	case "stream":
		r.stream = r.dec.PeekKind() == 't'
		return r.pass()
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		value, err := r.dec.ReadValue()
		r.out = append(r.out, value...)
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			r.most = max(r.most, n)
		}
		return err
	case "tools":
		return r.list(func() error { return r.object(r.tool()) })
	case "tool_choice", "temperature", "top_p", "top_k", "metadata", "thinking":
		return r.pass()
	}
	return r.drop("", name)
}

// list passes an array, or null, on.
func (r *rewriter) list(element func() error) error {
	if null, err := r.null(); null || err != nil {
		return err
	}
	return r.array(element)
}

func (r *rewriter) chat(name string) error {
	switch name {
	case "messages":
		return r.list(func() error { return r.object(r.message) })
	case "n":
		value, err := r.dec.ReadValue()
		if err == nil && string(value) != "1" && string(value) != "null" {
			return refuse("only one answer can be asked for at once")
		}
		return err // one is what there is without it
	case "frequency_penalty", "presence_penalty", "repetition_penalty", "min_p", "seed", "stop", "logit_bias", "logprobs",
		"top_logprobs", "response_format", "parallel_tool_calls", "functions", "function_call", "reasoning_effort",
		"reasoning", "include_reasoning", "reasoning_format", "reasoning_split", "verbosity", "user", "safety_identifier",
		"prompt_cache_key", "prompt_cache_retention", "store", "usage", "enable_thinking", "thinking_budget",
		"preserve_thinking", "chat_template_kwargs", "do_sample", "tool_stream", "cache_prompt", "keep_alive":
		return r.pass()
	case "stream_options":
		return r.dec.SkipValue() // the gateway writes its own
	case "web_search_options", "enable_search", "search_options", "search_parameters", "plugins", "models", "preset",
		"mcp_servers", "background", "container":
		return r.none(name)
	}
	return r.common(name)
}

func (r *rewriter) responses(name string) error {
	switch name {
	case "input":
		if r.dec.PeekKind() == '"' {
			return r.pass()
		}
		return r.list(r.item)
	case "instructions":
		if r.dec.PeekKind() == '[' {
			return r.list(r.item)
		}
		return r.pass()
	case "include", "max_tool_calls", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "reasoning",
		"safety_identifier", "user", "store", "stream_options", "text", "top_logprobs", "truncation", "context_management":
		return r.pass()
	case "background", "conversation", "prompt", "previous_response_id", "mcp_servers", "container", "models", "plugins", "preset":
		return r.none(name)
	}
	return r.common(name)
}

func (r *rewriter) messages(name string) error {
	switch name {
	case "messages":
		return r.list(func() error { return r.object(r.message) })
	case "system":
		return r.content()
	case "stop_sequences", "output_config", "output_format", "context_management", "cache_control":
		return r.pass()
	case "mcp_servers", "container", "background", "models", "plugins", "preset":
		return r.none(name)
	}
	return r.common(name)
}

// message is a member of a message, or of an item of responses.
func (r *rewriter) message(name string) error {
	switch name {
	case "content":
		return r.content()
	case "role", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "prefix", "partial", "cache_control",
		"reasoning_content", "reasoning", "reasoning_details", "thinking":
		return r.pass()
	}
	return r.drop("messages[].", name)
}

// item is one item of the input of responses.
func (r *rewriter) item() error {
	kind := "message"
	err := r.object(func(name string) error {
		var err error
		switch name {
		case "type":
			kind, err = r.text(name)
			return err
		case "content", "output", "summary":
			return r.content()
		case "id", "role", "status", "phase", "call_id", "name", "namespace", "arguments", "input", "action", "operation",
			"encrypted_content", "max_output_length":
			return r.pass()
		}
		return r.drop("input[].", name)
	})
	if err != nil {
		return err
	}
	switch kind {
	case "message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning",
		"local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call",
		"apply_patch_call_output", "compaction", "compaction_summary":
		return nil
	}
	return refuse("input of type %q is not allowed here", short(kind))
}

// content is a string, a list of parts, or one part.
func (r *rewriter) content() error {
	switch r.dec.PeekKind() {
	case '[':
		return r.array(r.part)
	case '{':
		return r.part()
	}
	return r.pass()
}

// part is one part of a message. It carries what it is about in itself: whatever would have to be fetched
// could be an address that tells somebody something, or a file of the account.
func (r *rewriter) part() error {
	if r.dec.PeekKind() == '"' {
		return r.pass()
	}
	kind := ""
	err := r.object(func(name string) error {
		var err error
		switch name {
		case "type":
			kind, err = r.text(name)
			return err
		case "image_url", "video_url", "audio_url":
			return r.inlined(name)
		case "file_data":
			return r.inline(name)
		case "file", "input_audio":
			return r.object(func(name string) error {
				switch name {
				case "filename", "format":
					return r.pass()
				case "file_data":
					return r.inline(name)
				case "data":
					return r.bare(name)
				case "file_id":
					return r.none(name)
				}
				return r.drop("messages[].content[].file.", name)
			})
		case "source":
			return r.source()
		case "content":
			return r.content()
		case "file_id", "file_url":
			return r.none(name)
		case "text", "refusal", "annotations", "logprobs", "detail", "filename", "cache_control", "citations", "title", "context",
			"id", "name", "input", "tool_use_id", "tool_name", "is_error", "thinking", "signature", "data", "caller",
			"stdout", "stderr", "outcome", "encrypted_content":
			return r.pass()
		}
		return r.drop("messages[].content[].", name)
	})
	if err != nil {
		return err
	}
	switch kind {
	case "text", "image_url", "video_url", "input_audio", "file", "refusal", // chat
		"input_text", "output_text", "input_image", "input_file", "summary_text", "reasoning_text", // responses
		"image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking", "tool_reference", "compaction": // messages
		return nil
	case "":
		return nil // the output of a shell call has parts without a type
	}
	return refuse("content of type %q is not allowed here", short(kind))
}

// source is where a part of messages comes from.
func (r *rewriter) source() error {
	kind := ""
	err := r.object(func(name string) error {
		var err error
		switch name {
		case "type":
			kind, err = r.text(name)
			return err
		case "media_type", "data":
			return r.pass()
		case "content":
			return r.content()
		case "url", "file_id":
			return r.none("source." + name)
		}
		return r.drop("messages[].content[].source.", name)
	})
	if err == nil && kind != "base64" && kind != "text" && kind != "content" {
		return refuse("a source of type %q is not allowed here: send the bytes themselves", short(kind))
	}
	return err
}

// inlined is a data: URL, or an object with one in url.
func (r *rewriter) inlined(name string) error {
	if r.dec.PeekKind() != '{' {
		return r.inline(name)
	}
	return r.object(func(inner string) error {
		switch inner {
		case "url":
			return r.inline(name)
		case "detail", "format", "fps":
			return r.pass()
		}
		return r.drop("messages[].content[]."+name+".", inner)
	})
}

func (r *rewriter) inline(name string) error {
	s, err := r.text(name)
	if err == nil && s != "" && !strings.HasPrefix(s, "data:") {
		return refuse("%s must be a data: URL: the provider is not to fetch anything for the worker", name)
	}
	return err
}

// bare is base64 or a data: URL.
func (r *rewriter) bare(name string) error {
	s, err := r.text(name)
	if err == nil && strings.Contains(s, ":") && !strings.HasPrefix(s, "data:") {
		return refuse("%s must be base64: the provider is not to fetch anything for the worker", name)
	}
	return err
}

// tool returns what a member of a tool goes through. Only what the client executes is a tool here.
func (r *rewriter) tool() func(name string) error {
	kind, typed := "", false
	check := func() error {
		if !typed || clientTool(kind) {
			return nil
		}
		return refuse("the tool %q is not allowed here: the provider would run it, out of the sandbox", short(kind))
	}
	return func(name string) error {
		var err error
		switch name {
		case "type":
			typed = r.dec.PeekKind() != 'n'
			if kind, err = r.text(name); err != nil {
				return err
			}
			return check()
		case "environment": // of a shell: local is the client's
			return r.list2(name)
		case "tools": // of a namespace
			return r.list(func() error { return r.object(r.tool()) })
		case "function", "custom", "name", "description", "parameters", "input_schema", "output_schema", "strict", "format",
			"cache_control", "defer_loading", "eager_input_streaming", "allowed_callers", "input_examples", "max_characters":
			return r.pass()
		}
		return r.drop("tools[].", name)
	}
}

// list2 is the environment of a shell tool.
func (r *rewriter) list2(name string) error {
	if null, err := r.null(); null || err != nil {
		return err
	}
	kind := ""
	err := r.object(func(inner string) error {
		if inner != "type" {
			return r.drop("tools[]."+name+".", inner)
		}
		var err error
		kind, err = r.text(name)
		return err
	})
	if err == nil && kind != "local" {
		return refuse("a shell of type %q is not allowed here: the provider would run it, out of the sandbox", short(kind))
	}
	return err
}

// clientTool says whether a tool of this type is executed by the client.
func clientTool(kind string) bool {
	switch kind {
	case "function", "custom", "namespace", "local_shell", "shell", "apply_patch":
		return true
	}
	for _, prefix := range []string{"bash_", "text_editor_", "memory_"} {
		if date, ok := strings.CutPrefix(kind, prefix); ok && len(date) == len("20250124") && strings.Trim(date, "0123456789") == "" {
			return true
		}
	}
	return false
}
