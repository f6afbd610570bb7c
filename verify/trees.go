package verify

import (
	"context"
	"fmt"
	"strings"

	"github.com/git-spot/git-spot/gitstate"
)

// Modes of tree entries, as git writes them.
const (
	modeNone    = "000000"
	modeTree    = "040000"
	modeLink    = "120000"
	modeGitlink = "160000"
)

const (
	maxLinkHops   = 40       // as Linux: more is a loop
	maxLinkTarget = 4096 - 1 // bytes, PATH_MAX less the final NUL
)

// trees reads the trees of one subject and remembers them.
type trees struct {
	objects Objects
	read    map[gitstate.OID]map[string]gitstate.TreeEntry
}

func newTrees(o Objects) *trees {
	return &trees{objects: o, read: make(map[gitstate.OID]map[string]gitstate.TreeEntry)}
}

func (t *trees) entries(ctx context.Context, tree gitstate.OID) (map[string]gitstate.TreeEntry, error) {
	if byName, ok := t.read[tree]; ok {
		return byName, nil
	}
	list, err := t.objects.Tree(ctx, tree)
	if err != nil {
		return nil, fmt.Errorf("tree %s: %w", tree, err)
	}
	byName := make(map[string]gitstate.TreeEntry, len(list))
	for _, e := range list {
		byName[e.Name] = e
	}
	t.read[tree] = byName
	return byName, nil
}

// lookup finds a path without following links. Not found is false and no error.
func (t *trees) lookup(ctx context.Context, root gitstate.OID, parts []string) (gitstate.TreeEntry, bool, error) {
	at := gitstate.TreeEntry{Mode: modeTree, OID: root}
	for _, part := range parts {
		if at.Mode != modeTree {
			return gitstate.TreeEntry{}, false, nil
		}
		byName, err := t.entries(ctx, at.OID)
		if err != nil {
			return gitstate.TreeEntry{}, false, err
		}
		var ok bool
		if at, ok = byName[part]; !ok {
			return gitstate.TreeEntry{}, false, nil
		}
	}
	return at, true, nil
}

// walk calls fn for every entry that is not a tree, in no order.
func (t *trees) walk(ctx context.Context, root gitstate.OID, fn func(path string, e gitstate.TreeEntry) error) error {
	type folder struct {
		prefix string
		oid    gitstate.OID
	}
	todo := []folder{{"", root}}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		byName, err := t.entries(ctx, at.oid)
		if err != nil {
			return err
		}
		for name, e := range byName {
			if e.Mode == modeTree {
				todo = append(todo, folder{at.prefix + name + "/", e.OID})
				continue
			}
			if err := fn(at.prefix+name, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// place is where a path leads when the links of a tree are followed.
type place struct {
	path  string   // the last path that was reached, with no link in it
	links []string // the links that were followed
	// outside says why the path leaves the tree or enters .git, "" if it does neither. A path that
	// leads nowhere, or round in circles, stays inside.
	outside string
	entry   gitstate.TreeEntry
	found   bool
}

// follow resolves path as a kernel would in a checkout of root. A component that is no folder, or not
// there, is walked by its name: it may be made before the path is used.
func (t *trees) follow(ctx context.Context, root gitstate.OID, path string) (place, error) {
	var p place
	todo := strings.Split(path, "/")
	var at []string
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			if len(at) == 0 {
				p.outside = "outside the tree"
				return p, nil
			}
			at = at[:len(at)-1]
			continue
		case gitName(part):
			p.outside = "into .git"
			return p, nil
		}
		next := append(at[:len(at):len(at)], part)
		e, found, err := t.lookup(ctx, root, next)
		if err != nil {
			return place{}, err
		}
		if !found || e.Mode != modeLink {
			at = next
			continue
		}
		if p.links = append(p.links, strings.Join(next, "/")); len(p.links) > maxLinkHops {
			return p, nil
		}
		target, err := t.objects.Blob(ctx, e.OID)
		if err != nil {
			return place{}, fmt.Errorf("link %q: %w", strings.Join(next, "/"), err)
		}
		switch {
		case len(target) == 0 || len(target) > maxLinkTarget || strings.ContainsRune(string(target), 0):
			p.outside = "nowhere: its target is no path"
			return p, nil
		case target[0] == '/':
			p.outside = "outside the tree"
			return p, nil
		}
		todo = append(strings.Split(string(target), "/"), todo...)
	}
	p.path = strings.Join(at, "/")
	var err error
	p.entry, p.found, err = t.lookup(ctx, root, at)
	return p, err
}
