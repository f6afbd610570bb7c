package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/gitexec"
	"github.com/git-spot/git-spot/internal/proc"
)

// fromGit is what git lists in a repository whose configuration ends with text, over a user's.
func fromGit(t *testing.T, user, text string) []gitexec.ConfigEntry {
	t.Helper()
	home, dir := t.TempDir(), t.TempDir()
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": home, "GIT_CONFIG_GLOBAL": filepath.Join(home, "user"), "GIT_CONFIG_NOSYSTEM": "1",
	}
	git, err := proc.LookPath("git", env["PATH"])
	if err != nil {
		t.Fatal(err)
	}
	result, err := proc.Exec(t.Context(), proc.Command{Argv: []string{git, "init", "--quiet", dir}, Env: []string{"HOME=" + home}})
	if err != nil || result.Exit != 0 {
		t.Fatalf("git init: %+v %v", result, err)
	}
	write(t, env["GIT_CONFIG_GLOBAL"], user)
	write(t, filepath.Join(dir, ".git", "config"), "[core]\n\trepositoryformatversion = 0\n"+text)
	repo, err := gitexec.Discover(t.Context(), gitexec.Options{Dir: dir, Getenv: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := repo.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatGitReads(t *testing.T) {
	t.Parallel()
	c := parse(t, fromGit(t, `
[Spot]
	MaxConcurrentRuns = 3
	alwaysLockedPath = user
	protectedBranch = main
[spot "profile.Mine"]
	adapter = command
	argv = mine
`, `
[spot]
	maxconcurrentruns = 5 ; of this repository
	alwaysLockedPath = "a b # c"
	alwaysLockedPath = d
	runHooks
[spot "profile.Mine"]
	ARGV = sh
	argv = -c
	argv = "echo \"two\nlines\" >> a.txt; true"
[spot "selfReview"]
	minSurfaceBytes = 1k
`))
	if c.MaxConcurrentRuns != 5 || !c.RunHooks || c.SelfReview.MinSurfaceBytes != 1024 {
		t.Errorf("got %+v", c)
	}
	if want := []string{"a b # c", "d"}; !slices.Equal(c.AlwaysLockedPath, want) {
		t.Errorf("got %q, want %q", c.AlwaysLockedPath, want)
	}
	if want := []string{"main"}; !slices.Equal(c.ProtectedBranch, want) {
		t.Errorf("got %q, want %q", c.ProtectedBranch, want)
	}
	if want := []string{"sh", "-c", "echo \"two\nlines\" >> a.txt; true"}; !slices.Equal(c.Profiles["Mine"].Argv, want) {
		t.Errorf("got %q, want %q", c.Profiles["Mine"].Argv, want)
	}
	for _, s := range c.Settings() {
		if s.Key == "spot.maxConcurrentRuns" && (s.Scope != "local" || !strings.HasSuffix(s.Origin, "config")) {
			t.Errorf("got %+v", s)
		}
	}
}

func TestRefusalOfWhatGitReads(t *testing.T) {
	t.Parallel()
	e := refused(t, fromGit(t, "[spot]\n\tmaxConcurentRuns = 3\n", ""))
	if e.Nearest != "spot.maxConcurrentRuns" || !strings.HasSuffix(e.Origin, "/user") {
		t.Errorf("got %+v", e)
	}
}

// The shipped profiles are read by a reader of our own: git must read the same there.
func TestShippedFileIsGitConfiguration(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs("profiles.gitconfig")
	if err != nil {
		t.Fatal(err)
	}
	byGit := parse(t, fromGit(t, "", "[include]\n\tpath = "+file+"\n"))
	byUs := parse(t, nil)
	if !reflect.DeepEqual(byGit.Profiles, byUs.Profiles) {
		t.Error("git reads the shipped profiles in another way")
	}
	origins := 0
	for _, s := range byGit.Settings() {
		if s.Origin == "file:"+file {
			origins++
		}
	}
	shipped := slices.DeleteFunc(slices.Clone(byUs.Settings()), func(s config.Setting) bool { return s.Scope != "shipped" })
	if origins != len(shipped) {
		t.Errorf("git finds %d keys in the file, we find %d", origins, len(shipped))
	}
}
