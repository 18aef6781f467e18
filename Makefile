# The commands of this project. Each sets up what it needs; a second time that costs nothing.

.DEFAULT_GOAL := help
.PHONY: help setup demo test check unit docs e2e contract databases sandboxes compilers servers conformance lint fmt arch types cov recordings reference crash hangs bench tokens long lock clean

PYTHON ?= $(shell for each in python3 python3.13 python3.12 python3.11 python; do \
	"$$each" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& command -v "$$each" && break; done)

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
PIP := $(BIN)/python -m pip --disable-pip-version-check
UV_VERSION := 0.13.9

# Recorded provider traffic is not part of this repository; its tests are skipped where it is missing.
export TREADLE_RECORDINGS ?= $(abspath ../shared/recordings)

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# --- setting up ---------------------------------------------------------------------------------

setup: .venv/.setup ## a virtual environment in .venv, from requirements.lock

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
		echo "No Python 3.11 or newer that can make virtual environments was found on PATH."; \
		echo "Install one (Debian: apt-get install python3.11-venv; macOS: brew install python@3.13)"; \
		echo "or name one: make PYTHON=/path/to/python3.11 ..."; exit 1; } >&2
	"$(PYTHON)" -m venv .venv

.venv/.setup: requirements.lock pyproject.toml | $(BIN)/python
	$(call install,requirements.lock)
	@touch .venv/.demo $@

.venv/.demo: requirements-demo.lock pyproject.toml | $(BIN)/python
	$(call install,requirements-demo.lock)
	@touch $@

define install
	@echo "installing what $(1) names into .venv ..."
	@$(PIP) install --quiet --no-deps --no-compile --require-hashes -r $(1)
	@$(PIP) install --quiet --no-deps --no-compile --no-build-isolation --editable .
	@$(PIP) check
endef

lock: ## write the lock files anew (UPGRADE=--upgrade takes newer versions)
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer was found on PATH." >&2; exit 1; }
	"$(PYTHON)" -m venv build/lock
	build/lock/bin/python -m pip --disable-pip-version-check install --quiet uv==$(UV_VERSION)
	build/lock/bin/uv pip compile $(LOCK) --extra all --group dev --output-file requirements.lock $(UPGRADE)
	build/lock/bin/uv pip compile $(LOCK) --extra local --group build --constraints requirements.lock \
		--output-file requirements-demo.lock $(UPGRADE)

LOCK := pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-header

# --- using it -----------------------------------------------------------------------------------

demo: .venv/.demo ## an agent on a real local model, in this terminal
	@$(BIN)/python examples/first_light.py

# --- before every commit ------------------------------------------------------------------------

check: lint arch types unit docs ## everything quick: before every commit
	@echo "check: everything passed"

fmt: .venv/.setup ## format, and mend what can be mended by rule
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: .venv/.setup ## form, spelling, names, changelog
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell .
	$(BIN)/python tools/check_words.py
	$(BIN)/python tools/check_changelog.py

arch: .venv/.setup ## the floors of the house, and sizes
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_size.py

types: .venv/.setup ## pyright, strict
	$(BIN)/pyright --project pyproject.toml

unit: .venv/.setup ## quick tests: no network, no other process
	$(PYTEST) -n auto --maxprocesses 4 -m "not e2e and not recordings" \
		--ignore tests/docs --ignore tests/examples

docs: .venv/.setup ## every example in README, docs, docstrings and examples/
	$(PYTEST) -m "not e2e" tests/docs tests/examples

# --- the whole of it ----------------------------------------------------------------------------

test: .venv/.setup databases sandboxes compilers servers ## every test, as CI runs them
	$(PYTEST) -n auto --maxprocesses 4 -m "not e2e"
	$(PYTEST) -m e2e

e2e: .venv/.setup databases sandboxes compilers servers ## tests with other processes and the real local model
	$(PYTEST) -m e2e

contract: .venv/.setup databases ## all stores held to their contract, processes racing, as a table
	$(BIN)/python -m tools.contract

databases: ## PostgreSQL, MariaDB and Redis for tests, where apt-get can install them
	@sh tools/databases.sh

sandboxes: ## bubblewrap and docker for tests of sandboxes, where apt-get can install them
	@sh tools/sandboxes.sh

compilers: ## compilers of C and Rust for tests of native libraries, where apt-get can install them
	@sh tools/compilers.sh

servers: .venv/.setup ## real MCP servers for tests, in build/mcp
	@sh tools/mcp_servers.sh

conformance: .venv/.setup ## the MCP conformance suite against our client and server, as tables
	@sh tools/mcp_servers.sh conformance
	$(BIN)/python -m tools.conformance

cov: .venv/.setup ## branch coverage of what needs no other process
	$(PYTEST) -n auto --maxprocesses 4 -m "not e2e" --cov --cov-report=term --cov-fail-under=95

recordings: .venv/.setup ## recorded provider traffic, as a table
	$(BIN)/python -m tools.recordings

tokens: .venv/.setup ## token estimates beside what providers counted, as a table
	$(BIN)/python -m benchmarks.tokens

long: .venv/.setup ## conversations of 2,000 turns inside their window, as a table
	$(BIN)/python -m benchmarks.long_conversations

reference: .venv/.setup ## write docs/reference anew, from the code
	$(BIN)/python -m tools.regenerate

crash: .venv/.setup ## kill runs at every append, on every durable store (about 20 minutes)
	$(BIN)/python -m tests.crash.sweep $(CRASH)

hangs: .venv/.setup ## 1,000 hung tools in a row, each killed (about two minutes)
	TREADLE_HANGS=1000 $(PYTEST) -s tests/tools/test_processes_hangs.py

bench: .venv/.setup ## speed, as ratios to a hand-written floor (PEERS=PYTHON measures others too)
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.stores $(WITH_PEERS)
	$(BIN)/python -m benchmarks.workflows $(WITH_PEERS)
	$(BIN)/python -m benchmarks.protocols
	$(BIN)/python -m benchmarks.isolation

WITH_PEERS := $(if $(PEERS),--peers $(PEERS))

clean: ## remove everything that the commands here made
	rm -rf .venv build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
