package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/git-spot/git-spot/gitstate"
)

// manifestName is the file whose execution keys are frozen, wherever it is in the tree.
const manifestName = "package.json"

// maxManifestDepth bounds the nesting of values; npm's own are four deep.
const maxManifestDepth = 64

// frozenKeys decide what npm and the test runners execute. Those of the second line stand for files that are
// locked by default: what can be in .babelrc can be here, too.
func frozenKeys() []string {
	return []string{
		"scripts", "jest", "vitest", "mocha", "ava", "nyc", "c8", "workspaces", "packageManager",
		"babel", "tap", "husky", "lint-staged", "simple-git-hooks", "commitlint", "eslintConfig", "prettier", "stylelint", "xo", "nx",
	}
}

// checkScripts guards what the verification executes: the files that its commands name, and the
// execution keys of every package.json.
func checkScripts(ctx context.Context, j *judge) (finding, error) {
	names, err := j.scripts(ctx)
	if err != nil {
		return finding{}, err
	}
	named := make(map[string]bool)
	for _, name := range names {
		named[fold(name)] = true
	}
	var f finding
	for _, c := range j.Diff.Changes {
		if named[fold(c.Path)] {
			f.paths = append(f.paths, c.Path)
			f.say(c.Path, "a command of the contract runs it")
			continue
		}
		if fold(path.Base(c.Path)) != manifestName || j.locked.unlock[c.Path] {
			continue
		}
		why, err := j.manifestChange(ctx, c)
		if err != nil {
			return finding{}, err
		}
		if why != "" {
			f.paths = append(f.paths, c.Path)
			f.say(c.Path, why)
		}
	}
	return f, nil
}

// scripts lists the files of base that the commands of the contract name, and the links on the way to
// them, less what the contract unlocks.
func (j *judge) scripts(ctx context.Context) ([]string, error) {
	var names []string
	for _, c := range j.Contract.Setup {
		names = append(names, namedScripts(c.Argv, c.Cwd)...)
	}
	for _, c := range j.Contract.Verification {
		names = append(names, namedScripts(c.Argv, c.Cwd)...)
	}
	if len(names) == 0 {
		return nil, nil
	}
	base, err := j.baseTree(ctx)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range names {
		p, err := j.trees.follow(ctx, base, name)
		if err != nil {
			return nil, err
		}
		if !p.found || p.entry.Mode == modeTree || p.entry.Mode == modeGitlink {
			continue
		}
		for _, path := range append(p.links, p.path) {
			if !j.locked.unlock[path] {
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}

// manifestChange says what a change of a package.json does to what is executed, "" if nothing.
func (j *judge) manifestChange(ctx context.Context, c gitstate.Change) (string, error) {
	if path.Base(c.Path) != manifestName && c.NewMode != modeNone {
		return "some file systems take it for package.json", nil
	}
	var keys [2]map[string]any
	for i, side := range []struct {
		mode string
		id   gitstate.OID
		name string
	}{{c.OldMode, c.OldID, "on base"}, {c.NewMode, c.NewID, "in the candidate"}} {
		switch side.mode {
		case modeNone:
			continue
		case modeLink, modeGitlink:
			return "it is not a file " + side.name, nil
		}
		data, err := j.Objects.Blob(ctx, side.id)
		if _, ok := errors.AsType[*gitstate.TooLargeError](err); ok {
			return "it is too large " + side.name, nil
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", display(c.Path), err)
		}
		if keys[i], err = executionKeys(data); err != nil {
			return fmt.Sprintf("it cannot be trusted %s: %v", side.name, err), nil
		}
	}
	for _, key := range frozenKeys() {
		before, had := keys[0][key]
		after, has := keys[1][key]
		if had != has || !reflect.DeepEqual(before, after) {
			return fmt.Sprintf("%q was changed", key), nil
		}
	}
	return "", nil
}

// executionKeys parses a package.json and returns its frozen keys. Anything that two parsers might read
// differently is an error: a byte-order mark, a key that is there twice, a frozen key in another case,
// bytes that are not UTF-8, anything that is not JSON.
func executionKeys(data []byte) (map[string]any, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return nil, errors.New("it begins with a byte-order mark")
	case !utf8.Valid(data):
		return nil, errors.New("it is not UTF-8")
	case !json.Valid(data):
		return nil, errors.New("it is not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := readValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the object")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	frozen := make(map[string]any)
	for key, value := range object {
		for _, name := range frozenKeys() {
			if key == name {
				frozen[key] = value
			} else if fold(key) == fold(name) {
				return nil, fmt.Errorf("%q is another spelling of %q", key, name)
			}
		}
	}
	return frozen, nil
}

// readValue is json.Unmarshal into any, except that a key given twice is an error, and that numbers are
// compared as JavaScript reads them.
func readValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxManifestDepth {
		return nil, errors.New("it is nested too deep")
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		// Out of range is infinite, which is what JavaScript makes of it.
		n, _ := strconv.ParseFloat(string(token), 64)
		return n, nil
	case json.Delim:
		if token == '[' {
			list := []any{}
			for d.More() {
				v, err := readValue(d, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err := d.Token()
			return list, err
		}
		object := map[string]any{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, _ := key.(string)
			if _, twice := object[name]; twice {
				return nil, fmt.Errorf("the key %q is there twice", name)
			}
			if object[name], err = readValue(d, depth+1); err != nil {
				return nil, err
			}
		}
		_, err := d.Token()
		return object, err
	default:
		return token, nil
	}
}
