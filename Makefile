# git spot. "make help" lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS   += --no-print-directory

GO       ?= go
PREFIX   ?= /usr/local
FUZZTIME ?= 30s

# The code base that test-real works on: public, 113 files, no dependencies, tests that need no network.
REAL_MODULE  := github.com/pelletier/go-toml/v2
REAL_VERSION := v2.4.3

# 1 where libgit2 1.5 and a C compiler are: both storage backends. 0 elsewhere: plumbing alone, one
# static file. Asked when a recipe runs, that is, after deps.
CGO = $(shell .ci/cgo)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  := $(shell git rev-parse --verify --quiet HEAD 2>/dev/null)
STAMP   := -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# The libraries of two model providers are 300,000 lines of types, most of the time of a first build.
# Without inlining and debug information, for them alone, the compiler needs half as long.
sdk = '-gcflags=$(1)/...=-l -dwarf=false'
export GOFLAGS := $(GOFLAGS) $(call sdk,github.com/openai/openai-go/v3) $(call sdk,github.com/anthropics/anthropic-sdk-go)

TOOL      := $(GO) tool -modfile=tools/go.mod
LINT      := .ci/lint
TESTCOUNT := .cache/bin/testcount
TIMEOUT   := -timeout 30m

# Where tests make their repositories. Asked when a recipe runs.
FAST = TMPDIR=$(shell .ci/tmpdir)

.DEFAULT_GOAL := build

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | while IFS=$$'\t' read -r t what; do printf '%-12s %s\n' "$$t" "$$what"; done

.PHONY: deps
deps: ## install what the build needs and say so (Debian; elsewhere say what to install)
	@.ci/deps

.PHONY: build
build: ## build bin/git-spot with its supervisor bin/git-spot-shim and its own coding agent bin/git-spot-agent
	@mkdir -p bin
	CGO_ENABLED=$(CGO) $(GO) build -buildvcs=false -trimpath -ldflags '$(STAMP)' -o bin/git-spot ./cmd/git-spot
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '-s -w' -o bin/ ./cmd/git-spot-shim ./cmd/git-spot-agent

.PHONY: demo
demo: deps build ## build and show the whole loop in a throw-away repository
	bin/git-spot demo

.PHONY: test
test: deps $(TESTCOUNT) ## test both builds; the last line counts
	@if [ "$(CGO)" = 1 ]; then \
		exec $(TESTCOUNT) -skips tools/skips.txt \
			$(FAST) CGO_ENABLED=1 $(GO) test $(TIMEOUT) -race -shuffle=on -json ./... -- \
			$(FAST) CGO_ENABLED=0 $(GO) test $(TIMEOUT) -shuffle=on -json ./... -- \
			$(GO) -C tools test -json ./testcount; \
	else \
		echo "testing the build without cgo alone: libgit2 1.5 or a C compiler is missing"; \
		exec $(TESTCOUNT) -skips tools/skips.txt $(FAST) CGO_ENABLED=0 $(GO) test $(TIMEOUT) -shuffle=on -json ./...; \
	fi

.PHONY: check
check: fmt-check vet lint lint-proof docs-check mod-check ## everything that reads the source and does not run it

.PHONY: fmt-check
fmt-check: ## fail if a file is not formatted
	@files=$$($(TOOL) gofumpt -l $$(ls -d */)); [ -z "$$files" ] || { echo "not formatted, run make fmt:"; echo "$$files"; exit 1; }

.PHONY: fmt
fmt: ## format every file
	$(TOOL) gofumpt -w $$(ls -d */)

.PHONY: vet
vet: ## vet every build: with and without cgo, with fault points, for macOS
	CGO_ENABLED=$(CGO) $(GO) vet ./...
	CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=$(CGO) $(GO) vet -tags fault ./...
	CGO_ENABLED=0 GOOS=darwin $(GO) vet ./...
	$(GO) -C tools vet ./testcount

.PHONY: lint
lint: ## run the linters; the package arrows are among them
	CGO_ENABLED=$(CGO) $(LINT) run ./...

.PHONY: lint-proof
lint-proof: ## fail if a forbidden import or call would pass the linters
	@.ci/lint-proof

.PHONY: docs-check
docs-check: ## fail if a generated document is not what the source says
	CGO_ENABLED=$(CGO) $(GO) test -count=1 -run 'Generated|ErrorsMarkdown' ./schemas ./cmd/git-spot ./internal/docscheck

.PHONY: docs
docs: ## write the generated documents anew
	CGO_ENABLED=$(CGO) $(GO) test -count=1 -run 'Generated|ErrorsMarkdown' ./schemas ./cmd/git-spot ./internal/docscheck -update

.PHONY: mod-check
mod-check: ## fail if go.mod is not tidy
	$(GO) mod tidy -diff

.PHONY: script
script: ## only the script tests of the command line
	CGO_ENABLED=$(CGO) $(GO) test -count=1 -run 'TestScript' ./cmd/git-spot

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME
	@for package in $$(CGO_ENABLED=$(CGO) $(GO) list ./...); do \
		for name in $$(CGO_ENABLED=$(CGO) $(GO) test -list '^Fuzz' "$$package" | grep '^Fuzz' || true); do \
			echo "$$package $$name"; \
			CGO_ENABLED=$(CGO) $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package"; \
		done; \
	done

.PHONY: fault
fault: ## kill git spot at every side effect of every command
	$(FAST) CGO_ENABLED=$(CGO) $(GO) test -count=1 -timeout 60m -tags fault -run 'Fault' -v ./...

.PHONY: test-real
test-real: deps build ## the whole loop on a public Go module and on this repository; the last line counts
	@.ci/test-real $(REAL_MODULE) $(REAL_VERSION)

.PHONY: bench
bench: build ## measure against plain git doing the same work
	@bench/run

.PHONY: vuln
vuln: ## look for known vulnerabilities in what ships
	CGO_ENABLED=$(CGO) $(TOOL) govulncheck ./...

# Whoever does not own the clone, which is root under sudo, installs what its owner has built: Go need
# not be on root's PATH, and nothing in the clone becomes root's.
.PHONY: install
install: $(shell [ -O . ] && echo build) ## install under PREFIX: program, supervisor, agent, manual page, completions
	@[ -x bin/git-spot ] && [ -x bin/git-spot-shim ] && [ -x bin/git-spot-agent ] || { echo "nothing is built yet: run make first, as the owner of this folder"; exit 1; }
	mkdir -p $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/git-spot $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 755 bin/git-spot $(DESTDIR)$(PREFIX)/bin/git-spot
	install -m 755 bin/git-spot-shim bin/git-spot-agent $(DESTDIR)$(PREFIX)/libexec/git-spot
	install -m 644 contrib/git-spot.1 $(DESTDIR)$(PREFIX)/share/man/man1/git-spot.1
	bin/git-spot completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/git-spot
	bin/git-spot completion zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_git-spot
	bin/git-spot completion fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/git-spot.fish

.PHONY: clean
clean: ## remove what was built
	rm -rf bin .cache

$(TESTCOUNT): $(wildcard tools/testcount/*.go)
	@mkdir -p $(@D)
	$(GO) -C tools build -buildvcs=false -o $(CURDIR)/$@ ./testcount
