package review

// Trailers is what the approved commit says of its origin.
type Trailers struct {
	Run        string
	DiffSHA256 string
	Adapter    string
	Model      string // "" if the adapter does not say
}

// Message returns message, byte for byte, followed by the trailers: Spot-Run, Spot-Diff-Sha256 and
// Assisted-by. They join a block of trailers that the message ends with, else an empty line comes
// first. A message that is blank or has a NUL is a *MessageError, code USAGE.
func Message(message string, t Trailers) (string, error) { return "", nil }
