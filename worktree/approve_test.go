package worktree_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/worktree"
)

func approve(t *testing.T, dir string, env ...string) (string, error) {
	t.Helper()
	getenv := func(name string) string {
		for _, kv := range env {
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				return value
			}
		}
		return os.Getenv(name)
	}
	repo, err := gitexec.Discover(t.Context(), gitexec.Options{Dir: dir, Getenv: getenv})
	if err != nil {
		t.Fatal(err)
	}
	tree := gitstate.OID(git(t, dir, "rev-parse", "HEAD^{tree}"))
	oid, err := worktree.ApprovedCommit(t.Context(), repo, tree, head(t, dir), "Subject\n\n# not a comment\n  body ü\n\n\nSpot-Run: x\n")
	if err != nil {
		if oid != "" {
			t.Errorf("an error and the commit %s", oid)
		}
		return "", err
	}
	return git(t, dir, "cat-file", "commit", string(oid)), nil
}

func TestApprovedCommit(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	git(t, dir, "config", "i18n.commitEncoding", "latin1")
	git(t, dir, "config", "commit.template", "/nonexistent")
	git(t, dir, "config", "author.name", "Another Name")
	text, err := approve(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitN(text, "\n", 5)
	if !strings.HasPrefix(lines[2], "author Another Name <user@example.org> ") || !strings.HasPrefix(lines[3], "committer A User <user@example.org> ") {
		t.Errorf("written by %q and %q", lines[2], lines[3])
	}
	if want := "\nSubject\n\n# not a comment\n  body ü\n\n\nSpot-Run: x"; lines[4] != want {
		t.Errorf("message %q, want %q", lines[4], want)
	}
}

func TestApprovedCommitIdentity(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config []string
		env    []string
		ok     bool
	}{
		"none":           {},
		"no email":       {config: []string{"user.name", "x"}},
		"no name":        {config: []string{"user.email", "x@example.org"}},
		"auto allowed":   {config: []string{"user.useConfigOnly", "false"}},
		"by environment": {env: []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@e", "GIT_COMMITTER_NAME=c", "GIT_COMMITTER_EMAIL=c@e"}, ok: true},
		"author only":    {env: []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@e"}},
		"configured":     {config: []string{"user.name", "x", "user.email", "x@e"}, ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newRepo(t)
			git(t, dir, "config", "--remove-section", "user")
			for i := 0; i < len(tc.config); i += 2 {
				git(t, dir, "config", tc.config[i], tc.config[i+1])
			}
			_, err := approve(t, dir, append(tc.env, "EMAIL=")...)
			e, missing := errors.AsType[*worktree.IdentityError](err)
			if tc.ok != (err == nil) || !tc.ok && (!missing || e.Code() != schemas.CodeIdentityMissing) {
				t.Errorf("got %v", err)
			}
			if missing && (strings.Contains(e.Error(), "\n") || !strings.Contains(e.Error(), "auto-detection is disabled")) {
				t.Errorf("error %q", e)
			}
		})
	}
}

// IN-06: signed as configured, or not at all, and never for ever.
func TestApprovedCommitSigning(t *testing.T) {
	t.Parallel()
	program := func(t *testing.T, body string) string {
		path := filepath.Join(tempDir(t), "gpg")
		write(t, path, "#!/bin/sh\n"+body)
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	signing := func(t *testing.T, body string) string {
		dir := newRepo(t)
		git(t, dir, "config", "commit.gpgSign", "yes")
		git(t, dir, "config", "gpg.program", program(t, body))
		return dir
	}
	t.Run("succeeds", func(t *testing.T) {
		t.Parallel()
		dir := signing(t, `cat >/dev/null; test -z "$GPG_TTY" || exit 1; echo '[GNUPG:] SIG_CREATED ' >&2; echo '-----BEGIN PGP SIGNATURE-----'; echo fake; echo '-----END PGP SIGNATURE-----'`)
		text, err := approve(t, dir)
		if err != nil || !strings.Contains(text, "\ngpgsig -----BEGIN PGP SIGNATURE-----\n fake\n") {
			t.Errorf("%v\n%s", err, text)
		}
	})
	t.Run("fails", func(t *testing.T) {
		t.Parallel()
		_, err := approve(t, signing(t, "cat >/dev/null; echo 'no secret key' >&2; exit 2"))
		e, ok := errors.AsType[*worktree.SigningError](err)
		if !ok || e.Code() != schemas.CodeSigningFailed || e.TimedOut {
			t.Errorf("got %v", err)
		}
	})
	t.Run("is missing", func(t *testing.T) {
		t.Parallel()
		dir := newRepo(t)
		git(t, dir, "config", "commit.gpgSign", "true")
		git(t, dir, "config", "gpg.program", "/nonexistent/gpg")
		if _, err := approve(t, dir); !isSigning(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("takes too long", func(t *testing.T) {
		t.Parallel()
		dir := signing(t, "exec sleep 100")
		tree := gitstate.OID(git(t, dir, "rev-parse", "HEAD^{tree}"))
		_, err := worktree.ApprovedCommitWithin(t.Context(), open(t, dir), tree, head(t, dir), "m", 200*time.Millisecond)
		if e, ok := errors.AsType[*worktree.SigningError](err); !ok || !e.TimedOut {
			t.Errorf("got %v", err)
		}
	})
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		dir := signing(t, "exit 1")
		git(t, dir, "config", "commit.gpgSign", "off")
		if text, err := approve(t, dir); err != nil || strings.Contains(text, "gpgsig") {
			t.Errorf("%v\n%s", err, text)
		}
	})
	t.Run("bad value", func(t *testing.T) {
		t.Parallel()
		dir := signing(t, "exit 1")
		git(t, dir, "config", "commit.gpgSign", "perhaps")
		if _, err := approve(t, dir); err == nil {
			t.Error("taken for no")
		}
	})
}

func isSigning(err error) bool {
	_, ok := errors.AsType[*worktree.SigningError](err)
	return ok
}
