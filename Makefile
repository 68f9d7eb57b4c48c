# `make demo` and `make test` do all set-up on a fresh machine; a second run starts at once.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Installed first: this one is built for processors, the newest brings packages for CUDA.
TORCH  ?= torch==2.13.0

.DEFAULT_GOAL := help
.PHONY: help demo test test-all fuzz lint format bench clean chromium

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/demo.stamp ## Re-rank the digits, print the table, write demo.html
	$(BIN)/kinrank demo --out demo.html

test: $(VENV)/dev.stamp chromium ## Run the tests
	$(BIN)/python -m pytest

test-all: $(VENV)/dev.stamp chromium ## Run the tests and the long checks
	$(BIN)/python -m pytest -m ""

fuzz: $(VENV)/dev.stamp ## Attack every call and file for MINUTES (30), print the counts
	$(BIN)/python tests/fuzz/campaign.py --minutes $(or $(MINUTES),30) $(FUZZ)

lint: $(VENV)/dev.stamp ## Check style, format, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev.stamp ## Put the code into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/dev.stamp ## Run the benchmarks, one after another
	@set -e; for script in benchmarks/bench_*.py; do \
		echo "== $$script"; $(BIN)/python "$$script"; \
	done

clean: ## Remove everything that was made
	rm -rf $(VENV) build dist demo.html test-artifacts .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Stamps, so that pip runs only when the requirements changed.
$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(PIP) '$(TORCH)'
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/demo.stamp

# The browser test needs Chromium. Where it cannot be installed, the test says that it was skipped.
chromium:
	@if command -v chromium >/dev/null || ! command -v apt-get >/dev/null || [ "$$(id -u)" != 0 ]; then \
		exit 0; \
	fi; \
	echo "Installing chromium for the browser test"; \
	export DEBIAN_FRONTEND=noninteractive; \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null
