package scriptedmodel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Responses, as in OpenAI's API reference.

type responsesRequest struct {
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
	Input  items  `json:"input"`
	Tools  []struct {
		Type string `json:"type"`
		function
	} `json:"tools"`
}

type item struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   content         `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments *string         `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Encrypted string          `json:"encrypted_content"`
	Summary   []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

type items []item

// UnmarshalJSON takes a string for a message of the user.
func (i *items) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		*i = items{{Role: "user", Content: content{given: true}}}
		return json.Unmarshal(data, &(*i)[0].Content.text)
	}
	return json.Unmarshal(data, (*[]item)(i))
}

func readResponses(_ http.Header, body []byte) (ask, error) {
	var r responsesRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return ask{}, err
	}
	a := ask{model: r.Model, stream: r.Stream, usage: true}
	if r.Model == "" {
		return ask{}, errors.New("missing required parameter: model")
	}
	if len(r.Input) == 0 {
		return ask{}, errors.New("input is empty")
	}
	open := map[string]bool{} // the calls that have no answer yet
	var reasoning string      // the item that nothing has followed yet
	prompted, speaking := false, false
	for i, item := range r.Input {
		ours := item.Type == "reasoning" || item.Type == "function_call" || item.Role == "assistant"
		if ours && !speaking {
			a.spoken = append(a.spoken, turn{})
		}
		speaking = ours
		if !ours && reasoning != "" {
			return ask{}, fmt.Errorf("input[%d]: item %q of type reasoning was provided without its required following item", i, reasoning)
		}
		reasoning = ""
		switch cmp.Or(item.Type, "message") {
		case "message":
			allowed := []string{"input_text", "input_image", "input_file"}
			switch item.Role {
			case "user":
				if !prompted {
					a.prompt, prompted = item.Content.text, true
				}
				a.spoken = make([]turn, len(a.spoken)) // only since the user spoke must reasoning be passed back
			case "system", "developer":
			case "assistant":
				allowed = []string{"output_text", "refusal"}
			default:
				return ask{}, fmt.Errorf("input[%d]: unknown role %q", i, item.Role)
			}
			if j := slices.IndexFunc(item.Content.types, func(t string) bool { return !slices.Contains(allowed, t) }); j >= 0 {
				return ask{}, fmt.Errorf("input[%d].content[%d]: invalid value %q", i, j, item.Content.types[j])
			}
		case "reasoning":
			if item.Encrypted != "" && item.Encrypted != sign(item.ID) {
				return ask{}, fmt.Errorf("input[%d]: the encrypted content could not be verified", i)
			}
			reasoning = item.ID
			for _, part := range item.Summary {
				a.spoken[len(a.spoken)-1].reasoning += part.Text
			}
		case "function_call":
			if item.CallID == "" || open[item.CallID] || item.Name == "" || item.Arguments == nil {
				return ask{}, fmt.Errorf("input[%d]: invalid function call %q", i, item.CallID)
			}
			open[item.CallID] = true
			a.spoken[len(a.spoken)-1].called = true
		case "function_call_output":
			if !open[item.CallID] {
				return ask{}, fmt.Errorf("input[%d]: no tool call found for function call output with call_id %q", i, item.CallID)
			}
			if item.Output == nil {
				return ask{}, fmt.Errorf("input[%d]: missing output", i)
			}
			delete(open, item.CallID)
		default:
			return ask{}, fmt.Errorf("input[%d]: unknown type %q", i, item.Type)
		}
	}
	for id := range open {
		return ask{}, fmt.Errorf("no tool output found for function call %q", id)
	}
	for _, t := range r.Tools {
		if t.Type != "function" {
			return ask{}, fmt.Errorf("tools of type %q are not served here", t.Type)
		}
		var err error
		if a.tools, err = offer(a.tools, t.function); err != nil {
			return ask{}, err
		}
	}
	return a, nil
}

func (a answer) responsesUsage() object {
	u := a.usage
	input := u.Input + u.CacheRead + u.CacheWrite
	details := object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite}
	return object{
		"input_tokens": input, "input_tokens_details": details, "output_tokens": u.Output,
		"output_tokens_details": object{"reasoning_tokens": u.Reasoning}, "total_tokens": input + u.Output,
	}
}

func (a answer) response(status string) object {
	return object{
		"id": "resp_" + a.id, "object": "response", "created_at": epoch, "status": status, "model": a.model,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{}, "output": list{},
		"parallel_tool_calls": true, "temperature": 1, "top_p": 1, "tool_choice": "auto", "tools": list{}, "usage": nil,
	}
}

// finished is the response with everything in it, and the event that says so.
func (a answer) finished() (string, object) {
	r := a.response("completed")
	if a.step.Stop == StopLength {
		r = a.response("incomplete")
		r["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	r["output"], r["usage"] = a.items(), a.responsesUsage()
	return "response." + r["status"].(string), r
}

// items are the output as it is when it is complete, in the order in which it is streamed.
func (a answer) items() list {
	out := list{}
	if a.step.Reasoning != "" {
		id := "rs_" + a.id
		out = append(out, object{
			"id": id, "type": "reasoning", "summary": list{object{"type": "summary_text", "text": a.step.Reasoning}},
			"encrypted_content": sign(id),
		})
	}
	if a.step.Text != "" || len(a.calls) == 0 {
		part := object{"type": "output_text", "text": a.step.Text, "annotations": list{}, "logprobs": list{}}
		if a.step.Stop == StopRefusal {
			part = object{"type": "refusal", "refusal": a.step.Text}
		}
		out = append(out, object{
			"id": "msg_" + a.id, "type": "message", "status": "completed", "role": "assistant", "content": list{part},
		})
	}
	for _, c := range a.calls {
		out = append(out, object{
			"id": "fc_" + c.id, "type": "function_call", "status": "completed",
			"call_id": "call_" + c.id, "name": c.name, "arguments": c.args,
		})
	}
	return out
}

func streamResponses(a answer) []event {
	var events []event
	add := func(name string, data object) {
		data["type"], data["sequence_number"] = name, len(events)
		events = append(events, event{name: name, data: encode(data)})
	}
	add("response.created", object{"response": a.response("in_progress")})
	add("response.in_progress", object{"response": a.response("in_progress")})
	for index, v := range a.items() {
		item := v.(object)
		at := func(more object) object {
			more["output_index"], more["item_id"] = index, item["id"]
			return more
		}
		begun := func(changed object) object {
			o := object{}
			for k, v := range item {
				o[k] = v
			}
			for k, v := range changed {
				o[k] = v
			}
			return object{"output_index": index, "item": o}
		}
		switch item["type"] {
		case "reasoning":
			add("response.output_item.added", begun(object{"summary": list{}}))
			add("response.reasoning_summary_part.added", at(object{"summary_index": 0, "part": object{"type": "summary_text", "text": ""}}))
			for _, p := range pieces(a.step.Reasoning) {
				add("response.reasoning_summary_text.delta", at(object{"summary_index": 0, "delta": p}))
			}
			add("response.reasoning_summary_text.done", at(object{"summary_index": 0, "text": a.step.Reasoning}))
			add("response.reasoning_summary_part.done", at(object{
				"summary_index": 0, "part": object{"type": "summary_text", "text": a.step.Reasoning},
			}))
		case "message":
			add("response.output_item.added", begun(object{"content": list{}, "status": "in_progress"}))
			part := item["content"].(list)[0].(object)
			kind, field := "response.output_text", "text"
			if part["type"] == "refusal" {
				kind, field = "response.refusal", "refusal"
			}
			empty := object{"type": part["type"], field: ""}
			done := object{"content_index": 0, field: a.step.Text}
			if field == "text" {
				empty["annotations"], done["logprobs"] = list{}, list{}
			}
			add("response.content_part.added", at(object{"content_index": 0, "part": empty}))
			for _, p := range pieces(a.step.Text) {
				delta := object{"content_index": 0, "delta": p}
				if field == "text" {
					delta["logprobs"] = list{}
				}
				add(kind+".delta", at(delta))
			}
			add(kind+".done", at(done))
			add("response.content_part.done", at(object{"content_index": 0, "part": part}))
		case "function_call":
			add("response.output_item.added", begun(object{"arguments": "", "status": "in_progress"}))
			for _, p := range pieces(item["arguments"].(string)) {
				add("response.function_call_arguments.delta", at(object{"delta": p}))
			}
			add("response.function_call_arguments.done", at(object{"name": item["name"], "arguments": item["arguments"]}))
		}
		add("response.output_item.done", object{"output_index": index, "item": item})
	}
	name, response := a.finished()
	add(name, object{"response": response})
	events[len(events)-1].usage = a.usage
	return events
}

func wholeResponses(a answer) object {
	_, r := a.finished()
	return r
}

func failResponses(a answer) event {
	r := a.response("failed")
	r["error"] = object{"code": cmp.Or(a.step.Error, "server_error"), "message": cmp.Or(a.step.Text, "scripted: the stream fails")}
	return event{name: "response.failed", data: encode(object{"type": "response.failed", "sequence_number": 1000, "response": r})}
}
