package verify

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/git-spot/git-spot/schemas"
)

// defaultPath is what is searched for programs if the user's PATH has nothing to offer.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// Environment is the whole environment of a command in room, sorted, with extra on top. From the user
// come PATH, LANG, LC_*, TZ and where caches and tool chains are (see homes), nothing else: no
// credential, no proxy, no option of a tool. HOME and TMPDIR are the room's.
//
// The settings that "go env -w" keeps in the user's home do not apply, apart from the places of the
// caches: they may hold GOFLAGS, which decide what a test runs.
func Environment(room Room, extra map[string]string) []string {
	env := map[string]string{
		"PATH":   searchPath(room),
		"HOME":   room.Home,
		"TMPDIR": room.Tmp,
		"CI":     "1",

		"TERM":                "dumb",
		"PAGER":               "cat",
		"GIT_PAGER":           "cat",
		"EDITOR":              "true",
		"VISUAL":              "true",
		"GIT_EDITOR":          "true",
		"GIT_TERMINAL_PROMPT": "0",
	}
	for _, name := range []string{
		"LANG", "TZ",
		"LC_ALL", "LC_CTYPE", "LC_NUMERIC", "LC_TIME", "LC_COLLATE", "LC_MONETARY", "LC_MESSAGES",
		"LC_PAPER", "LC_NAME", "LC_ADDRESS", "LC_TELEPHONE", "LC_MEASUREMENT", "LC_IDENTIFICATION",
	} {
		if value := room.Getenv(name); value != "" {
			env[name] = value
		}
	}
	for _, h := range homes() {
		if dir := h.find(room.Getenv); dir != "" {
			env[h.name] = dir
		}
	}
	for name, value := range extra {
		env[name] = value
	}
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// home is a folder of the user that a tool finds by a variable, and without it below HOME, which is
// another one in a room.
type home struct {
	name    string   // the variable
	aliases []string // other variables that say the same, or that it follows from
	suffix  string   // of what an alias names
	dir     string   // below the user's HOME; a leading ~cache is the folder for caches
}

// homes lists caches, without which every verification would begin cold, and the folders in which the
// tool chains behind the programs of PATH live.
func homes() []home {
	return []home{
		{name: "GOCACHE", dir: "~cache/go-build"},
		{name: "GOMODCACHE", aliases: []string{"GOPATH"}, suffix: "pkg/mod", dir: "go/pkg/mod"},
		{name: "npm_config_cache", aliases: []string{"NPM_CONFIG_CACHE"}, dir: ".npm"},
		{name: "YARN_CACHE_FOLDER", dir: "~cache/yarn"},
		{name: "PIP_CACHE_DIR", dir: "~cache/pip"},
		{name: "UV_CACHE_DIR", dir: "~cache/uv"},
		{name: "CARGO_HOME", dir: ".cargo"},
		{name: "CCACHE_DIR", dir: "~cache/ccache"},
		{name: "SCCACHE_DIR", dir: "~cache/sccache"},
		{name: "GRADLE_USER_HOME", dir: ".gradle"},
		{name: "NUGET_PACKAGES", dir: ".nuget/packages"},
		{name: "COMPOSER_CACHE_DIR", dir: "~cache/composer"},
		{name: "DENO_DIR", dir: "~cache/deno"},

		{name: "RUSTUP_HOME", dir: ".rustup"},
		{name: "PYENV_ROOT", dir: ".pyenv"},
		{name: "RBENV_ROOT", dir: ".rbenv"},
		{name: "VOLTA_HOME", dir: ".volta"},
		{name: "ASDF_DATA_DIR", dir: ".asdf"},
	}
}

// find is the folder that the user's environment names, else the usual one if it exists.
func (h home) find(getenv func(string) string) string {
	if dir := getenv(h.name); filepath.IsAbs(dir) {
		return dir
	}
	var candidates []string
	for _, name := range h.aliases {
		first, _, _ := strings.Cut(getenv(name), string(filepath.ListSeparator))
		if first != "" {
			candidates = append(candidates, filepath.Join(first, h.suffix))
		}
	}
	if strings.HasPrefix(h.name, "GO") {
		candidates = append(candidates, goEnv(getenv, h.name))
		for _, name := range h.aliases {
			if first := goEnv(getenv, name); first != "" {
				candidates = append(candidates, filepath.Join(first, h.suffix))
			}
		}
	}
	user := getenv("HOME")
	if rest, ok := strings.CutPrefix(h.dir, "~cache/"); ok {
		candidates = append(candidates, filepath.Join(cacheFolder(getenv), rest))
	} else if user != "" {
		candidates = append(candidates, filepath.Join(user, h.dir))
	}
	for _, dir := range candidates {
		if !filepath.IsAbs(dir) {
			continue
		}
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}

func cacheFolder(getenv func(string) string) string {
	user := getenv("HOME")
	if runtime.GOOS == "darwin" {
		return filepath.Join(user, "Library/Caches")
	}
	if dir := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(user, ".cache")
}

// goEnv is what "go env -w" has recorded for name.
func goEnv(getenv func(string) string, name string) string {
	file := getenv("GOENV")
	if file == "" {
		config := getenv("XDG_CONFIG_HOME")
		if runtime.GOOS == "darwin" {
			config = filepath.Join(getenv("HOME"), "Library/Application Support")
		} else if !filepath.IsAbs(config) {
			config = filepath.Join(getenv("HOME"), ".config")
		}
		file = filepath.Join(config, "go/env")
	}
	// "off" is no absolute path either.
	if !filepath.IsAbs(file) {
		return ""
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && key == name {
			return value
		}
	}
	return ""
}

// searchPath is the user's PATH without what the candidate could fill: relative and empty entries, and
// folders of the room.
func searchPath(room Room) string {
	var dirs []string
	for _, dir := range filepath.SplitList(room.Getenv("PATH")) {
		// By its name too: set-up may make a folder that is not there yet.
		rel, err := filepath.Rel(room.Dir, dir)
		if filepath.IsAbs(dir) && (err != nil || !filepath.IsLocal(rel)) && contained(room.Dir, dir) != nil {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return defaultPath
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// Isolation is what stands around the commands: nothing yet but their own process tree.
func Isolation() schemas.Isolation {
	return schemas.Isolation{Level: schemas.IsolationNone, Parts: []string{}, Missing: []string{"bubblewrap", "landlock", "seccomp", "network namespace"}}
}
