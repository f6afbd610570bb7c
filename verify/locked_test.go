package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/git-spot/git-spot/schemas"
	"github.com/git-spot/git-spot/verify"
)

func TestLockedByDefault(t *testing.T) {
	t.Parallel()
	m := verify.Locked(&schemas.Contract{}, nil)
	for _, path := range []string{
		// field-cases AC-01
		"conftest.py", "src/conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "sitecustomize.py", "usercustomize.py", "evil.pth",
		"evil-1.0.dist-info/entry_points.txt", "jest.config.ts", "jest.unit.config.js", "vitest.config.mts", "vitest.workspace.ts", ".mocharc.cjs", ".mocharc.yml",
		"ava.config.js", ".nycrc", ".nycrc.json", ".c8rc.json", "babel.config.js", ".babelrc", ".swcrc", ".npmrc", ".yarnrc", ".yarnrc.yml",
		".pnpmfile.cjs", "Makefile", "makefile", "sub/GNUmakefile", "go.work", "build.rs", "pytest.py", "unittest.py", "src/unittest.py", "pytest/__init__.py",
		// AC-04
		".env", ".env.test", "node_modules/.bin/vitest", "a/node_modules/x/index.js", ".venv/bin/python", "a/__pycache__/b.pyc",
		// AC-14
		".gitleaks.toml", ".gitleaksignore",
		// AC-15
		".claude/settings.json", ".mcp.json", "AGENTS.md", "CLAUDE.md", "docs/AGENTS.md", ".vscode/tasks.json", ".envrc", ".gemini/settings.json", ".husky/pre-commit",
		".cursor/rules/a.mdc", ".github/copilot-instructions.md", ".idea/workspace.xml", "x.code-workspace", ".devcontainer/devcontainer.json",
		// CI, git
		".github/workflows/ci.yml", "a/.github/workflows/ci.yml", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile", ".gitattributes", "src/.gitattributes", ".gitmodules", "GITMOD~1",
		// other ecosystems
		".cargo/config.toml", "rust-toolchain.toml", ".config/nextest.toml", "gradlew", "gradle/wrapper/gradle-wrapper.jar", ".mvn/jvm.config", "buildSrc/build.gradle",
		"src/test/resources/junit-platform.properties", "src/test/resources/META-INF/services/org.junit.platform.launcher.LauncherSessionListener",
		".rspec", "spec/spec_helper.rb", "Rakefile", "phpunit.xml.dist", "tests/Pest.php", "Directory.Build.props", "a.runsettings", "global.json", "CTestCustom.cmake", "CMakePresets.json",
		"meson.options", "test/test_helper.exs", "test/setup_suite.bash", "rules.mk", "tsconfig.build.json",
		// spelling
		"CONFTEST.PY", "conf\u200dtest.py", "con\ufeffftest.py", ".GitAttributes", "src/.Claude", "conftest.py.", "conftest.py ", "Conftest.py::$DATA", "\u017fetup.cfg",
		// a link in place of the folder
		".claude", "node_modules", ".vscode", ".husky",
	} {
		if why, locked := m.Match(path); !locked || why == "" {
			t.Errorf("%q is not locked (%q)", path, why)
		}
	}
	for _, path := range []string{
		"go.mod", "go.sum", "package.json", "package-lock.json", "yarn.lock", "pyproject.toml", "requirements.txt", "setup.py", "Cargo.toml", "Cargo.lock", "pom.xml", "build.gradle",
		"build.gradle.kts", "Gemfile", "composer.json", "App.csproj", "CMakeLists.txt", "meson.build", "mix.exs", "README.md", "src/a.go", "a_test.go", "tests/test_a.py", "src/a.test.ts",
		"spec/a_spec.rb", ".gitignore", "src/.gitkeep", "environment.ts", "src/env.py", "app/tasks.py", "internal/venv/venv.go", "conftest.python", "my_conftest.py.txt", "Makefile.am",
		"docs/makefile.md", "jest.ts", "src/jestconfig.js", "claude/x", "src/vscode/a", ".github/ISSUE_TEMPLATE/bug.md", "lib/build.rs.txt", "envs/a", "a.env", "rules.mkd", "tests/fixtures/a.json",
		"", "/", "\xff",
	} {
		if why, locked := m.Match(path); locked {
			t.Errorf("%q is locked: %s", path, why)
		}
	}
}

func TestUnlock(t *testing.T) {
	t.Parallel()
	m := verify.Locked(&schemas.Contract{Unlock: []string{"Makefile", "docs/AGENTS.md"}}, nil)
	for path, want := range map[string]bool{
		"Makefile": false, "docs/AGENTS.md": false,
		"makefile": true, "sub/Makefile": true, "AGENTS.md": true, "docs/agents.md": true,
	} {
		if _, got := m.Match(path); got != want {
			t.Errorf("%q: got %v, want %v", path, got, want)
		}
	}
}

func TestLocksTable(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	m := verify.Locked(&schemas.Contract{}, nil)
	for _, l := range verify.Locks() {
		if l.Ecosystem == "" || l.Why == "" || l.Pattern == "" || strings.ContainsAny(l.Pattern, `?[{\`) {
			t.Errorf("bad row %+v", l)
		}
		if folded := strings.ToLower(l.Pattern); seen[folded] {
			t.Errorf("%q is there twice", l.Pattern)
		} else {
			seen[folded] = true
		}
		// Each row does lock what it says: a star stands for a word.
		path := strings.TrimPrefix(strings.ReplaceAll(strings.ReplaceAll(l.Pattern, "**", "a/b"), "*", "x"), "/")
		if why, locked := m.Match(path); !locked {
			t.Errorf("%q does not lock %q (%s)", l.Pattern, path, why)
		}
		if _, locked := m.Match("deep/er/" + path); locked == strings.HasPrefix(l.Pattern, "/") && path != "pytest.py" && path != "unittest.py" && path != "doctest.py" {
			t.Errorf("%q at depth: %v", l.Pattern, locked)
		}
	}
	contract := &schemas.Contract{LockedPaths: []string{"mine/**"}}
	patterns := verify.LockedPatterns(contract, []string{"theirs"})
	if !slices.Equal(patterns[:2], []string{"mine/**", "theirs"}) || len(patterns) != 2+len(verify.Locks()) {
		t.Errorf("got %q", patterns[:3])
	}
	if diff := cmp.Diff([]string{"mine/**"}, contract.LockedPaths); diff != "" {
		t.Error(diff)
	}
}

func TestOverlays(t *testing.T) {
	t.Parallel()
	base := tree{
		"tests/check.sh": "1\n", "tests/data/x": "1\n", "src/a": "1\n", "Makefile": "all:\n", "deep/er/conftest.py": "", "scripts/run": link("../tools/real.sh"),
		"tools/real.sh": "1\n", "sub": gitlink, "package.json": "{}", ".gitattributes": "",
	}
	s := newSubject(t, base, base.with(tree{
		"src/a": "2\n", "src/conftest.py": "x\n", "tests/data/x": "-", "tests/new": "x\n", "tests/sub": gitlink,
	}))
	s.Contract.LockedPaths = []string{"tests/**", "sub"}
	s.Contract.Unlock = []string{".gitattributes"}
	s.Contract.Verification = []schemas.Check{{Argv: []string{"sh", "scripts/run"}}}
	got, err := verify.Overlays(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Makefile", "deep/er/conftest.py", "scripts/run", "src/conftest.py", "tests/check.sh", "tests/data/x", "tests/new", "tools/real.sh",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
