package scriptedmodel

import (
	"encoding/json"
	"maps"
	"slices"
)

// tool is one that a request offers.
type tool struct {
	name       string
	properties map[string]json.RawMessage // of its arguments
}

// Programs have different names for the same tools and arguments. A script uses the first of each line,
// which are those of git spot's own agent.
var (
	toolNames = [][]string{
		{"read", "Read", "read_file"},
		{"write", "Write", "write_file"},
		{"edit", "Edit", "replace"},
		{"grep", "Grep", "grep_search", "search_file_content"},
		{"find", "glob", "Glob"},
		{"ls", "list", "list_directory", "LS"},
	}
	argumentNames = [][]string{
		{"path", "file_path", "filePath", "absolute_path"},
		{"content", "text", "file_text"},
		{"oldText", "old_string", "oldString", "old"},
		{"newText", "new_string", "newString", "new"},
	}
)

// pick returns the name and the arguments with which c is called: as they are if the request offers the
// tool under that name or not at all.
func pick(offered []tool, c Call) (name, args string) {
	t := tool{name: c.Tool}
	for _, names := range toolNames {
		if names[0] != c.Tool {
			continue
		}
		for _, name := range names {
			if i := slices.IndexFunc(offered, func(t tool) bool { return t.name == name }); i >= 0 {
				t = offered[i]
				break
			}
		}
	}
	switch {
	case c.Raw != "":
		return t.name, c.Raw
	case c.Args == nil:
		return t.name, "{}"
	case t.name == c.Tool:
		return t.name, string(c.Args)
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(c.Args, &given); err != nil {
		return t.name, string(c.Args)
	}
	var edits []map[string]json.RawMessage
	if t.properties["edits"] == nil && json.Unmarshal(given["edits"], &edits) == nil && len(edits) == 1 {
		delete(given, "edits") // a program that takes one edit at a time has it beside the path
		maps.Copy(given, edits[0])
	}
	for _, names := range argumentNames {
		value, ok := given[names[0]]
		i := slices.IndexFunc(names, func(name string) bool { return t.properties[name] != nil })
		if ok && i > 0 {
			delete(given, names[0])
			given[names[i]] = value
		}
	}
	return t.name, string(encode(given))
}
