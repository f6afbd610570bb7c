package verify

// Lock is one row of the table of what is locked without anybody asking: files that decide what a test
// runner, a CI system, git, an editor or an agent executes, and that an ordinary task has no need to
// touch. Manifests that every task edits (go.mod, Cargo.toml, pyproject.toml, CMakeLists.txt, pom.xml,
// package.json) are not in it as a whole.
type Lock struct {
	Ecosystem string
	// Pattern without a slash is a basename, at any depth. With a slash it is a path, at any depth
	// too; with one in front, from the top of the tree.
	Pattern string
	Why     string
}

// Locks returns the table. Added files count as well as changed ones, whatever their case.
func Locks() []Lock {
	var locks []Lock
	for _, group := range []struct {
		ecosystem, why string
		patterns       []string
	}{
		{"git", "git executes or filters by it", []string{
			".gitattributes", ".gitmodules", ".gitconfig", ".lfsconfig", ".githooks/**", ".husky/**",
			// The short names that NTFS gives the first two.
			"gitmod~*", "gi7eba~*", "gitatt~*", "gi7d29~*",
		}},
		{"git", "hook managers run what it says", []string{
			"lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json", "lefthook-local.*", ".lefthook.*", ".lefthook/**",
			".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml", ".overcommit.yml",
			".huskyrc*", ".simple-git-hooks.*", "simple-git-hooks.*", ".lintstagedrc*", "lint-staged.config.*",
			".commitlintrc*", "commitlint.config.*",
		}},
		{"secrets", "it tells secret scanners what to overlook", []string{
			".gitleaks.toml", ".gitleaksignore", ".gitleaks.yaml", ".secretlintrc*", ".secretlintignore", ".secrets.baseline",
			".trufflehog*", ".trivyignore*",
		}},
		{"environment", "shells and tools load it", []string{".env", ".env.*", ".envrc", ".direnv/**"}},

		{"ci", "it says what CI runs", []string{
			".github/workflows/**", ".github/actions/**", ".github/dependabot.yml", ".github/dependabot.yaml", "CODEOWNERS",
			"action.yml", "action.yaml",
			".gitlab-ci.yml", ".gitlab-ci.yaml", ".gitlab/**", ".circleci/**", ".travis.yml", ".travis.yaml",
			"azure-pipelines*.yml", "azure-pipelines*.yaml", ".azure-pipelines/**", "Jenkinsfile", "Jenkinsfile.*",
			".drone.yml", ".drone.yaml", ".drone.jsonnet", ".drone.star", ".woodpecker.yml", ".woodpecker.yaml", ".woodpecker/**",
			"bitbucket-pipelines.yml", ".buildkite/**", "appveyor.yml", ".appveyor.yml", ".cirrus.yml", ".cirrus.star",
			".teamcity/**", ".semaphore/**", "buildspec.yml", "buildspec.yaml", "cloudbuild.yaml", "cloudbuild.yml",
			".forgejo/**", ".gitea/**", ".builds/**", ".build.yml", "codeship-steps.yml", "wercker.yml", ".ci/**",
			"Earthfile", "dagger.json", "renovate.json", "renovate.json5", ".renovaterc*",
			"codecov.yml", ".codecov.yml", ".coveralls.yml", "sonar-project.properties",
		}},

		{"js", "the test runner loads it", []string{
			"jest.config.*", "jest.*.config.*", "jest.setup.*", "jest-setup.*", "jest.preset.*", "jest-preset.*",
			"jest-environment-*", "setupTests.*", "setup-tests.*",
			"vitest.config.*", "vitest.*.config.*", "vitest.workspace.*", "vitest.setup.*", "vitest-setup.*", "vite.config.*",
			".mocharc*", "mocha.opts", ".mocha-multi-reporters.json", "ava.config.*", ".nycrc*", "nyc.config.*", ".c8rc*", ".taprc*",
			"karma.conf.*", "jasmine.json", "jasmine.mjs", "wdio.conf.*", "web-test-runner.config.*", "wtr.config.*",
			"playwright.config.*", "playwright-ct.config.*", "cypress.config.*", "cypress.json", "protractor.conf.*", ".testcaferc*",
			"nightwatch.conf.*", "cucumber.js", "cucumber.mjs", "cucumber.cjs", ".istanbul.yml", "stryker.conf.*", "stryker.config.*",
			"testem.js", "testem.json", "node.config.json",
		}},
		{"js", "the runtime, compiler or package manager obeys it", []string{
			".npmrc", ".yarnrc", ".yarnrc.*", ".yarn/**", ".pnp.*", ".pnpmfile.*", "pnpmfile.*", "pnpm-workspace.yaml", "pnpm-workspace.yml",
			"bunfig.toml", ".bunfig.toml", "lerna.json", "nx.json", "turbo.json", "turbo.jsonc", "rush.json", "node_modules/**",
			".babelrc*", "babel.config.*", ".swcrc", "tsconfig.json", "tsconfig.*.json", "tsconfig-*.json", "jsconfig.json",
			"gulpfile.*", "Gruntfile.*", ".nvmrc", ".node-version",
		}},
		{"js", "linters obey it", []string{
			".eslintrc*", "eslint.config.*", ".eslintignore", ".prettierrc*", "prettier.config.*", ".prettierignore",
			"biome.json", "biome.jsonc", ".oxlintrc.json", ".stylelintrc*", "stylelint.config.*", ".jshintrc", ".xo-config*", "xo.config.*",
		}},

		{"python", "the test runner loads it", []string{
			"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "tox.toml", "toxfile.py", "setup.cfg",
			"noxfile.py", "hatch.toml", ".coveragerc", ".coveragerc.*", "nose.cfg", "nose2.cfg", ".noserc", "unittest.cfg", ".testr.conf", ".stestr.conf", "behave.ini", ".behaverc",
		}},
		{"python", "the interpreter loads it before anything else", []string{
			"sitecustomize.py", "usercustomize.py", "*.pth", "*.egg-link", "*.dist-info/**", "*.egg-info/**", "pyvenv.cfg",
			".venv/**", "/venv/**", "site-packages/**", "__pycache__/**", "*.pyc", ".pdbrc",
		}},
		{"python", "it takes the place of a test tool or of a module that one imports", []string{
			"/pytest.py", "/pytest/**", "/_pytest/**", "/pluggy.py", "/pluggy/**", "/iniconfig.py", "/iniconfig/**", "/unittest.py", "/unittest/**",
			"/doctest.py", "/nose.py", "/nose2.py", "/coverage.py", "/tox.py", "/nox.py", "/runpy.py", "/site.py", "/pdb.py",
			"pytest.py", "unittest.py", "doctest.py",
		}},
		{"python", "the package manager obeys it", []string{
			"pip.conf", "pip.ini", "uv.toml", "poetry.toml", "pdm.toml", ".pdm.toml", ".pypirc", ".python-version",
		}},
		{"python", "linters obey it", []string{
			"mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml", ".flake8", ".pylintrc", "pylintrc", "pyrightconfig.json", ".isort.cfg", ".bandit", "pyre.toml",
		}},

		{"go", "the toolchain obeys it", []string{"go.work", "go.work.sum", "go.env"}},
		{"go", "linters and test runners obey it", []string{
			".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json", "staticcheck.conf", ".testcoverage.yml",
		}},

		{"rust", "cargo runs or obeys it", []string{
			"build.rs", ".cargo/**", "rust-toolchain", "rust-toolchain.toml", "nextest.toml", ".config/nextest*", "tarpaulin.toml", ".tarpaulin.toml",
			"Cross.toml", "Makefile.toml",
		}},
		{"rust", "linters obey it", []string{"clippy.toml", ".clippy.toml", "rustfmt.toml", ".rustfmt.toml", "deny.toml"}},

		{"jvm", "the build runs or obeys it", []string{
			"gradlew", "gradlew.bat", "gradle/wrapper/**", "gradle.properties", "settings.gradle", "settings.gradle.kts", "init.gradle", "init.gradle.kts",
			"gradle/init.d/**", "buildSrc/**", "mvnw", "mvnw.cmd", ".mvn/**", ".sdkmanrc", ".java-version", "sbt.boot.properties", ".sbtopts", ".jvmopts",
			".bazelrc", ".bazelversion", ".bazeliskrc", "lombok.config",
		}},
		{"jvm", "the test runner loads it", []string{
			"junit-platform.properties", "testng.xml", "META-INF/services/org.junit.*", "META-INF/services/org.testng.*", "META-INF/services/io.kotest.*",
			"org.mockito.plugins.*",
		}},
		{"jvm", "linters obey it", []string{"checkstyle.xml", "detekt.yml", "detekt.yaml", "pmd.xml", "spotbugs-exclude.xml", ".scalafmt.conf", ".scalafix.conf"}},

		{"ruby", "the test runner loads it", []string{
			".rspec", ".rspec-local", "spec_helper.rb", "rails_helper.rb", "test_helper.rb", ".simplecov", "cucumber.yml", "cucumber.yaml",
		}},
		{"ruby", "rake and the package manager obey it", []string{
			"Rakefile", "Rakefile.rb", ".bundle/**", ".gemrc", ".irbrc", ".pryrc", ".ruby-version", ".rbenv-*", "Guardfile",
		}},
		{"ruby", "linters obey it", []string{".rubocop.yml", ".rubocop_todo.yml", ".standard.yml"}},

		{"php", "the test runner loads it", []string{
			"phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml", "phpunit.*.xml", "Pest.php", "behat.yml", "behat.yaml", "behat.yml.dist", "behat.php",
			"codeception.yml", "codeception.dist.yml", "infection.json*", ".infection.*", "kahlan-config.php", ".phpspec.*", "phpspec.yml*",
			"/auth.json",
		}},
		{"php", "linters obey it", []string{
			"phpstan.neon*", "phpstan.dist.neon", "phpstan-baseline.*", "psalm.xml*", "psalm-baseline.xml", ".php-cs-fixer*", ".php_cs*", "phpcs.xml*", ".phpcs.xml*",
			"rector.php", "pint.json",
		}},

		{"dotnet", "the build or the test runner obeys it", []string{
			"Directory.Build.props", "Directory.Build.targets", "Directory.Build.rsp", "Directory.Solution.props", "Directory.Solution.targets", "MSBuild.rsp",
			"*.runsettings", "*.testsettings", "xunit.runner.json", "*.xunit.runner.json", "testconfig.json", "*.testconfig.json", "nuget.config", "global.json", "dotnet-tools.json",
			".globalconfig", "*.ruleset", "coverlet.runsettings",
		}},

		{"make", "it says what the check runs", []string{
			"Makefile", "GNUmakefile", "*.mk", "Justfile", ".justfile", "Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.*",
			"magefile.go", "SConstruct", "/wscript", "/tasks.py", "/dodo.py", "mise.toml", ".mise.toml", ".mise/**", ".tool-versions",
		}},
		{"cmake", "cmake and ctest obey it", []string{
			"CMakePresets.json", "CMakeUserPresets.json", "CTestConfig.cmake", "CTestCustom.cmake", "CTestCustom.ctest", "CTestTestfile.cmake",
			"DartConfiguration.tcl", "DartTestfile.txt", "CMakeCache.txt",
		}},
		{"meson", "meson obeys it", []string{"meson_options.txt", "meson.options"}},
		{"c", "compilers and linters obey it", []string{".clang-tidy", ".clang-format", ".clangd", "compile_flags.txt", "compile_commands.json", ".gdbinit", ".lldbinit"}},

		{"elixir", "mix and the test runner obey it", []string{"test_helper.exs", ".formatter.exs", ".credo.exs", ".dialyzer_ignore.exs", ".iex.exs", "coveralls.json"}},
		{"erlang", "linters obey it", []string{"elvis.config"}},
		{"dart", "the test runner obeys it", []string{"dart_test.yaml", "analysis_options.yaml"}},
		{"swift", "the test runner obeys it", []string{"*.xctestplan", ".swiftlint.yml"}},
		{"perl", "the test runner obeys it", []string{".proverc", ".perlcriticrc"}},
		{"lua", "the test runner obeys it", []string{".busted", ".luacheckrc", ".luacov"}},

		{"shell", "the test runner or the shell loads it", []string{
			"setup_suite.bash", "test_helper.bash", "test_helper.sh", ".shellspec", "spec_helper.sh", ".shellcheckrc",
		}},

		{"agent", "agents obey it in the next session", []string{
			"AGENTS.md", "AGENTS.override.md", "AGENT.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "QWEN.md", "CODEBUDDY.md", "KIMI.md", "CRUSH.md", "WARP.md",
			".claude/**", ".mcp.json", "/mcp.json", ".cursor/**", ".cursorrules", ".cursorignore", ".windsurf/**", ".windsurfrules",
			".clinerules/**", ".cline/**", ".roo/**", ".roorules", ".roomodes", ".kilocode/**", ".codex/**", ".gemini/**", ".geminiignore", ".qwen/**",
			".opencode/**", "opencode.json", "opencode.jsonc", ".aider*", ".continue/**", ".continuerc.json", ".trae/**", ".qoder/**", ".codebuddy/**", ".workbuddy/**",
			".kimi/**", ".pi/**", ".zcode/**", ".agents/**", ".agent/**", ".goose/**", ".goosehints", ".junie/**", ".augment/**", ".augment-guidelines",
			".amazonq/**", ".kiro/**", ".crush/**", "crush.json", ".crush.json", ".rules", ".rules/**", ".ruler/**", ".serena/**", ".factory/**", ".openhands/**",
			".copilot/**", ".github/copilot-instructions.md", ".github/instructions/**", ".github/prompts/**", ".github/agents/**", ".github/chatmodes/**", ".github/hooks/**",
		}},
		{"editor", "editors execute it when the folder is opened", []string{
			".vscode/**", "*.code-workspace", ".idea/**", ".run/**", ".fleet/**", ".zed/**", ".vs/**", ".nova/**", "*.sublime-project",
			".exrc", ".nvimrc", ".nvim.lua", ".vimrc", ".gvimrc", ".lvimrc", ".local.vimrc", ".dir-locals.el", ".dir-locals-2.el", ".projectile", ".helix/**", ".kakrc",
			".editorconfig", ".devcontainer/**", "devcontainer.json", ".devcontainer.json", ".gitpod.yml", ".gitpod.Dockerfile", ".replit", "replit.nix",
		}},
	} {
		for _, p := range group.patterns {
			locks = append(locks, Lock{Ecosystem: group.ecosystem, Pattern: p, Why: group.why})
		}
	}
	return locks
}
