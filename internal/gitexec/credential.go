package gitexec

import (
	"context"
	"errors"
	"strings"
	"time"
)

// credentialTime is how long a credential helper may take. One that waits for a person waits in vain.
const credentialTime = 20 * time.Second

// Credential asks the user's credential helpers, as git does before it fetches, for the password that
// belongs to url. It never prompts: "" says that no helper has one.
func (r *Repo) Credential(ctx context.Context, url string) (string, error) {
	if strings.ContainsAny(url, "\n\x00") {
		return "", nil
	}
	out, err := r.Run(ctx, Call{
		Args: []string{"credential", "fill"}, Stdin: strings.NewReader("url=" + url + "\n\n"),
		Config: []string{"core.askPass="}, Env: []string{"GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_TERMINAL_PROMPT=0"},
		Timeout: credentialTime,
	})
	if e, ok := errors.AsType[*Error](err); ok && e.Status > 0 {
		return "", nil // it would have to ask a person
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if password, ok := strings.CutPrefix(line, "password="); ok {
			return strings.TrimRight(password, "\r\n"), nil
		}
	}
	return "", nil
}
