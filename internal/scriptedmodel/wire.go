package scriptedmodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// wire is a wire format.
type wire struct {
	api string
	// read checks a request as the vendor does; the error is what the vendor would complain about.
	read func(http.Header, []byte) (ask, error)
	// stream is a whole answer as events, failure one more in the place of what is left.
	stream  func(answer) []event
	failure func(answer) event
	// whole is the answer in one piece, problem the body of an HTTP error.
	whole   func(answer) object
	problem func(refusal) object
}

var wires = map[string]wire{
	"/v1/chat/completions": {api: Chat, read: readChat, stream: streamChat, failure: failChat, whole: wholeChat, problem: problemOpenAI},
	"/v1/responses": {
		api: Responses, read: readResponses, stream: streamResponses, failure: failResponses, whole: wholeResponses,
		problem: problemOpenAI,
	},
	"/v1/messages": {
		api: Messages, read: readMessages, stream: streamMessages, failure: failMessages, whole: wholeMessages,
		problem: problemMessages,
	},
}

// object is a JSON object as it is sent, list an array.
type (
	object = map[string]any
	list   = []any
)

// event is a server-sent event, and what it tells of usage.
type event struct {
	name  string // "" sends none
	data  []byte
	usage Usage
}

// epoch is when everything that a script says was created.
const epoch = 1_750_000_000

// encode is JSON as the vendors send it, without escapes for HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("scripted model: %v", err)) // nothing that is sent can fail
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// pieces cuts s as a model streams it: into a few dozen at most, never inside a character.
func pieces(s string) []string {
	size := max(12, len(s)/32)
	var out []string
	for len(s) > size {
		end := size
		for end > size-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		out = append(out, s[:end])
		s = s[end:]
	}
	if s != "" {
		out = append(out, s)
	}
	return out
}

// refusal is an answer with an HTTP error.
type refusal struct {
	status     int
	code       string // "" is what the status has
	message    string // "" is what the code has
	retryAfter string
}

// Error is the message alone.
func (r *refusal) Error() string { return r.message }

func (s *Server) refuse(w http.ResponseWriter, wire wire, r *refusal) {
	if r.retryAfter != "" {
		w.Header().Set("Retry-After", r.retryAfter)
	}
	if r.message == "" {
		r.message = fmt.Sprintf("scripted: %d %s", r.status, http.StatusText(r.status))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	_, _ = w.Write(encode(wire.problem(*r))) // nobody is left to tell
}

// drop ends the handler and closes the connection, so that what was sent is no complete answer.
func drop() { panic(http.ErrAbortHandler) }

// hang drops the connection when the client or the server has ended the request.
func hang(r *http.Request) {
	<-r.Context().Done()
	drop()
}

// stream sends the answer event by event, up to the middle if the step has a fault.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, wire wire, a answer) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(w)
	send := func(e event) bool {
		var b bytes.Buffer
		if e.name != "" {
			fmt.Fprintf(&b, "event: %s\n", e.name)
		}
		fmt.Fprintf(&b, "data: %s\n\n", e.data)
		undo := s.count(e.usage)
		_, err := w.Write(b.Bytes())
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			undo()
		}
		return err == nil
	}
	events := wire.stream(a)
	for i, e := range events {
		if i == (len(events)+1)/2 && a.step.Fault != "" {
			switch a.step.Fault {
			case FaultStall:
				hang(r)
			case FaultDrop:
				drop()
			case FaultCut:
				return
			case FaultError:
				send(wire.failure(a))
				return
			case FaultGarbage:
				if !send(event{name: e.name, data: []byte(`{"choices":[{`)}) {
					return
				}
			}
		}
		if !send(e) {
			return
		}
	}
}

// whole sends the answer in one piece, or half of it if the step has a fault.
func (s *Server) whole(w http.ResponseWriter, r *http.Request, wire wire, a answer) {
	if a.step.Fault == FaultError {
		s.refuse(w, wire, &refusal{status: http.StatusInternalServerError, code: a.step.Error, message: a.step.Text})
		return
	}
	body := encode(wire.whole(a))
	half := body[:len(body)/2]
	w.Header().Set("Content-Type", "application/json")
	switch a.step.Fault {
	case FaultStall, FaultDrop:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		if _, err := w.Write(half); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		if a.step.Fault == FaultStall {
			hang(r)
		}
		drop()
	case FaultCut, FaultGarbage:
		_, _ = w.Write(half) // the answer is broken as it is
	default:
		undo := s.count(a.usage)
		if _, err := w.Write(body); err != nil {
			undo()
		}
	}
}
