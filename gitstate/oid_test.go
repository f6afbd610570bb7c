package gitstate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/gitstate"
	"github.com/git-spot/git-spot/schemas"
)

func TestParseOID(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]gitstate.OID{
		strings.Repeat("aB", 20): gitstate.OID(strings.Repeat("ab", 20)),
		strings.Repeat("09", 32): gitstate.OID(strings.Repeat("09", 32)),
		strings.Repeat("a", 39):  "", strings.Repeat("a", 41): "", strings.Repeat("a", 63): "",
		strings.Repeat("g", 40): "", "": "", strings.Repeat("a", 39) + "\n": "", "-" + strings.Repeat("a", 39): "",
	} {
		if got, err := gitstate.ParseOID(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	for in, want := range map[gitstate.OID]bool{gitstate.ZeroOID: true, gitstate.OID(strings.Repeat("0", 64)): true, "": false, "1": false} {
		if in.IsZero() != want {
			t.Errorf("%q: got %v", in, !want)
		}
	}
}

func TestParseRunID(t *testing.T) {
	t.Parallel()
	for in, good := range map[string]bool{
		"a": true, "0": true, "2026-01-02-fix-it-ab12cd": true, "a.b_c-d": true, strings.Repeat("a", 64): true, "x.lockx": true,
		"": false, "-a": false, ".a": false, "_a": false, "A": false, "a/b": false, "a b": false, "a..b": false, "a.": false, "a.lock": false,
		strings.Repeat("a", 65): false, "a\n": false, "é": false, "a\x00": false, "a@{": false,
	} {
		got, err := gitstate.ParseRunID(in)
		if !good {
			e, ok := errors.AsType[*gitstate.RunIDError](err)
			if !ok || e.Code() != schemas.CodeUsage || got != "" {
				t.Errorf("%q: got %q, %v", in, got, err)
			}
		} else if err != nil || string(got) != in {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
}
