package agent

import _ "embed" // the prompts, which are files so that a person can read them

var (
	//go:embed prompts/code.md
	promptCode string
	//go:embed prompts/read-only.md
	promptReadOnly string
)

// What the loop itself says to the model, in the user's or a tool's place.
const (
	sayEmpty = "Your answer was empty. Go on with the task, or, if it is done, say so in a short report."
	sayCut   = "Your answer was cut off at the limit of output. Go on exactly where it ends. " +
		"Keep answers and the arguments of single calls shorter: several small edits instead of one large write."
	sayCutEmpty = "Your answer reached the limit of output before it said anything. Think less, and go on in small steps."
	sayLimit    = "The limit of tool calls for this turn is reached: no more calls are made. " +
		"Report now, in words: what is done, what is not, and what comes next."
	sayOverLimit   = "Not done: the limit of tool calls for this turn is reached."
	sayInterrupted = "Interrupted: it is not known whether this call was made. Look before you make it again."
	sayCutCall     = "Not done: your answer was cut off at the limit of output before the arguments of this call were complete. " +
		"Make it again with shorter arguments: several small edits instead of one large write."
	sayDropped   = "[The output of this call, %d bytes, was dropped to save space. Call %s again if you need it.]"
	sayTrimmed   = "\n[Cut off here: %d bytes more do not fit into this conversation. Ask for less at a time.]"
	sayForgotten = "\n\n[Your first steps are no longer in this conversation, to save space. What they changed in the files is done.]"
	sayRepeat    = "\n\n[You have made this same call %d times in a row, with this same result. Making it again changes nothing: " +
		"do something else, or stop and report.]"
)
