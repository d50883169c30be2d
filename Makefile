# The front door. Every target first installs what is missing (scripts/setup); `cargo xtask` has the other commands.

SHELL := /bin/bash
CARGO_TARGET_DIR ?= $(HOME)/.cache/pandastack/target
PANDASTACK_DATA_DIR ?= $(HOME)/.cache/pandastack/data
PREFIX ?= /usr/local
export CARGO_TARGET_DIR PANDASTACK_DATA_DIR
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/sbin:/sbin

# `release` is built in minutes; `dist` is what people install and what is measured.
PROFILE ?= release
BUILT = $(CARGO_TARGET_DIR)/$(PROFILE)
DEBUG := $(CARGO_TARGET_DIR)/debug
GUEST_TARGET := x86_64-unknown-linux-gnu

.PHONY: help setup build install dashboard client dist mini demo test test-build test-deep check bench
.NOTPARALLEL:
.DEFAULT_GOAL := help

help: ## Show these lines
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS=$$'\t' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

setup: ## Install what is missing on this machine (needs root if anything is)
	@scripts/setup --quiet

build: dashboard ## Build pandastack with its dashboard, and the guest agent
	@scripts/build $(PROFILE)
	@ls -lh $(BUILT)/pandastack $(BUILT)/pandastack-guestd | awk '{print "build: " $$9 " " $$5}'

# A shell finds the program there, and the program finds the agent.
install: build ## Build, and put pandastack into PREFIX/bin (/usr/local/bin), so that every shell finds it
	@install -D -m 755 $(BUILT)/pandastack $(PREFIX)/bin/pandastack
	@install -D -m 755 $(BUILT)/pandastack-guestd $(PREFIX)/lib/pandastack/pandastack-guestd
	@echo "install: $(PREFIX)/bin/pandastack"

# The pages that the server embeds.
dashboard: setup
	@scripts/build-dashboard

# The client runs on any Linux, so it is linked statically too. A folder of its own keeps it apart from the server.
client: setup
	@RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-fuse-ld=mold" \
		scripts/cargo-progress client build --package pandastack --no-default-features --profile $(PROFILE) --target $(GUEST_TARGET)
	@install -D -m 755 $(CARGO_TARGET_DIR)/$(GUEST_TARGET)/$(PROFILE)/pandastack $(BUILT)/pandastack-client

dist: PROFILE = dist
dist: build client ## Write what people install to dist/: archives, .deb, installer, SDK packages
	@scripts/dist

mini: build ## Build the server and bake the templates of bench and long tests (kept)
	@$(BUILT)/pandastack template bake mini --data-dir $(PANDASTACK_DATA_DIR)
	@$(BUILT)/pandastack template bake postgres-16 --data-dir $(PANDASTACK_DATA_DIR)

demo: setup ## From nothing to a machine that runs Python and Node, with the time of each step
	@scripts/demo

check: setup ## Format, lints and the project's own rules
	@cargo xtask check
	@scripts/check-dashboard

test: setup test-build ## Every check and every test but the long ones
	@scripts/check-dashboard
	@scripts/test

# The server has the profile of the tests, so that their dependencies are built once for both.
test-build: setup dashboard ## Check, and build what the tests need: test programs, server, agent, templates
	@cargo fmt --all --check
	@scripts/build tests
	@CARGO_MANIFEST_DIR=$(CURDIR)/xtask $(DEBUG)/xtask tidy
	@$(DEBUG)/pandastack template bake mini --data-dir $(PANDASTACK_DATA_DIR)
	@$(DEBUG)/pandastack template bake postgres-16 --data-dir $(PANDASTACK_DATA_DIR)

test-deep: PROFILE = dist
test-deep: mini client ## The long tests: cycles, kills, the KVM tier, fuzzing; ONLY=NAME runs a part
	@scripts/setup --quiet --deep
	@scripts/test-deep $(ONLY)

bench: PROFILE = dist
bench: mini client ## Measure; writes bench/latest.json, the table in README and docs/bench.svg
	@mkdir -p bench
	@PANDASTACK_BINARIES=$(BUILT) cargo run --quiet --release --package pandastack-e2e --bin bench -- bench/latest.json
