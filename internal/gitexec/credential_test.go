package gitexec_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/git-spot/git-spot/internal/gitexec"
)

// TestCredential: helpers are asked, and a person never is.
func TestCredential(t *testing.T) {
	t.Parallel()
	top := folder(t)
	repo := repository(t, filepath.Join(top, "repo"))
	asked, prompted := filepath.Join(top, "asked"), filepath.Join(top, "prompted")
	helper, prompt := filepath.Join(top, "helper"), filepath.Join(top, "prompt")
	write(t, helper, "#!/bin/sh\ntest \"$1\" = get || exit 0\nwhile read -r line && test -n \"$line\"; do\n"+
		"\techo \"$line\" >>"+asked+"\n\ttest \"$line\" != host=api.example.com || found=1\ndone\n"+
		"test -z \"$found\" || printf 'username=git-spot\\npassword= a key = of sorts\\n'\n")
	write(t, prompt, "#!/bin/sh\ntouch "+prompted+"\necho typed\n")
	env := caller{"PATH": os.Getenv("PATH"), "GIT_ASKPASS": prompt, "SSH_ASKPASS": prompt, "GIT_TERMINAL_PROMPT": "1"}

	for _, row := range []struct{ name, helper, url, want string }{
		{"a host that the helper knows", helper, "https://api.example.com/v1", " a key = of sorts"},
		{"another host", helper, "https://example.org/v1", ""},
		{"no helper", "", "https://api.example.com/v1", ""},
		{"a helper that is not there", helper + "-gone", "https://api.example.com/v1", ""},
		{"an URL that would say more", helper, "https://example.org/\nhost=api.example.com", ""},
		{"no URL", helper, "", ""},
	} {
		git(t, repo, "config", "core.askPass", prompt)
		git(t, repo, "config", "credential.helper", row.helper)
		r := discover(t, gitexec.Options{Dir: repo, Getenv: env.getenv})
		if got, err := r.Credential(t.Context(), row.url); got != row.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", row.name, got, err, row.want)
		}
	}
	if got, err := os.ReadFile(asked); err != nil || string(got) != "protocol=https\nhost=api.example.com\nprotocol=https\nhost=example.org\n" {
		t.Errorf("the helper was asked %q, %v", got, err)
	}
	if _, err := os.Lstat(prompted); err == nil {
		t.Error("a person was asked")
	}
}
