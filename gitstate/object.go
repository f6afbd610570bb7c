package gitstate

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Objects are encoded and decoded here, for both backends, so that the same input is the same object
// in both.

// Signature is who did something and when.
type Signature struct {
	Name, Email string
	When        time.Time // whole seconds since 1970; the offset of its zone is recorded, in minutes
}

// Commit is a commit object. Headers other than these are skipped when reading.
type Commit struct {
	Tree      OID
	Parents   []OID
	Author    Signature
	Committer Signature
	Encoding  string // of Message; empty is UTF-8
	Message   string // verbatim: nothing is stripped or added
}

// TreeEntry is one entry of a tree.
type TreeEntry struct {
	Mode string // six octal digits: 100644 100755 120000 040000 160000
	Kind string // blob, tree or commit: what Mode says; WriteTree does not read it
	OID  OID
	Name string // one component of a path; bytes
}

func kindOf(mode string) string {
	switch mode {
	case "040000":
		return "tree"
	case "160000":
		return "commit"
	}
	return "blob"
}

// encodeTree sorts entries as git does and refuses what git would not have in a tree.
func encodeTree(entries []TreeEntry) ([]byte, error) {
	key := func(e TreeEntry) string {
		if e.Mode == "040000" {
			return e.Name + "/"
		}
		return e.Name
	}
	sorted := slices.SortedFunc(slices.Values(entries), func(a, b TreeEntry) int { return cmp.Compare(key(a), key(b)) })
	seen := make(map[string]bool, len(entries))
	var out bytes.Buffer
	for _, e := range sorted {
		switch {
		case e.Name == "" || e.Name == "." || e.Name == ".." || strings.EqualFold(e.Name, ".git") || strings.ContainsAny(e.Name, "/\x00"):
			return nil, fmt.Errorf("%q cannot be a name in a tree", e.Name)
		case seen[e.Name]:
			return nil, fmt.Errorf("%q is twice in a tree", e.Name)
		case !slices.Contains([]string{"100644", "100755", "120000", "040000", "160000"}, e.Mode):
			return nil, fmt.Errorf("%q cannot have mode %q", e.Name, e.Mode)
		}
		seen[e.Name] = true
		id, err := hex.DecodeString(string(e.OID))
		if err != nil || e.OID == "" || e.OID.IsZero() {
			return nil, fmt.Errorf("%q cannot be object %q", e.Name, e.OID)
		}
		fmt.Fprintf(&out, "%s %s\x00%s", strings.TrimPrefix(e.Mode, "0"), e.Name, id)
	}
	return out.Bytes(), nil
}

// decodeTree reads a tree whose object ids have size bytes.
func decodeTree(data []byte, size int) ([]TreeEntry, error) {
	var entries []TreeEntry
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, spaced := strings.Cut(string(head), " ")
		if !ok || !spaced || len(rest) < size || len(mode) > 6 {
			return nil, errors.New("malformed tree")
		}
		mode = strings.Repeat("0", 6-len(mode)) + mode
		entries = append(entries, TreeEntry{
			Mode: mode, Kind: kindOf(mode), OID: OID(hex.EncodeToString(rest[:size])), Name: name,
		})
		data = rest[size:]
	}
	return entries, nil
}

func encodeCommit(c Commit) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "tree %s\n", c.Tree)
	for _, p := range c.Parents {
		fmt.Fprintf(&out, "parent %s\n", p)
	}
	for _, who := range []struct {
		header string
		Signature
	}{{"author", c.Author}, {"committer", c.Committer}} {
		if who.Name == "" || strings.ContainsAny(who.Name+who.Email, "<>\n\x00") {
			return nil, fmt.Errorf("%s %q <%q> cannot be in a commit", who.header, who.Name, who.Email)
		}
		if who.When.Unix() < 0 {
			return nil, fmt.Errorf("the time of the %s is before 1970", who.header)
		}
		fmt.Fprintf(&out, "%s %s <%s> %d %s\n", who.header, who.Name, who.Email, who.When.Unix(), who.When.Format("-0700"))
	}
	if c.Encoding != "" {
		if strings.ContainsAny(c.Encoding, "\n\x00") {
			return nil, fmt.Errorf("%q cannot be an encoding", c.Encoding)
		}
		fmt.Fprintf(&out, "encoding %s\n", c.Encoding)
	}
	if strings.Contains(c.Message, "\x00") {
		return nil, errors.New("a commit message cannot have a NUL")
	}
	out.WriteString("\n" + c.Message)
	return out.Bytes(), nil
}

func decodeCommit(data []byte) (*Commit, error) {
	head, message, _ := strings.Cut(string(data), "\n\n")
	c := &Commit{Message: message}
	for line := range strings.SplitSeq(head, "\n") {
		header, value, _ := strings.Cut(line, " ")
		switch header {
		case "tree":
			c.Tree = OID(value)
		case "parent":
			c.Parents = append(c.Parents, OID(value))
		case "author":
			c.Author = decodeSignature(value)
		case "committer":
			c.Committer = decodeSignature(value)
		case "encoding":
			c.Encoding = value
		}
	}
	if _, err := ParseOID(string(c.Tree)); err != nil {
		return nil, errors.New("malformed commit")
	}
	return c, nil
}

// decodeSignature reads "Name <email> seconds zone". What other programs wrote wrongly is left out.
func decodeSignature(s string) Signature {
	var sig Signature
	end := strings.LastIndexByte(s, '>')
	if end < 0 {
		return sig
	}
	sig.Name, sig.Email, _ = strings.Cut(s[:end], "<")
	sig.Name = strings.TrimSuffix(sig.Name, " ")
	when, zone, _ := strings.Cut(strings.TrimSpace(s[end+1:]), " ")
	seconds, err := strconv.ParseInt(when, 10, 64)
	if err != nil {
		return sig
	}
	sig.When = time.Unix(seconds, 0).UTC()
	if offset, err := time.Parse("-0700", zone); err == nil {
		_, east := offset.Zone()
		sig.When = sig.When.In(time.FixedZone("", east))
	}
	return sig
}
