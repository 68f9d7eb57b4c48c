# `make demo` and `make test` do all set-up on a fresh machine; a second run starts at once.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Installed first: this one is built for processors, the newest brings packages for CUDA.
TORCH  ?= torch==2.13.0
# Each worker runs the tests of a file; on two cores they overlap where tests wait.
WORKERS ?= 2
PYTEST  := $(BIN)/python -m pytest -n $(WORKERS) --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-external fuzz lint docs format bench dist clean ready warm chromium

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/demo.stamp ## Re-rank the digits, print the table, write demo.html
	$(BIN)/kinrank demo --out demo.html

test: ready ## Run the tests
	$(PYTEST)

test-all: test ## Run the tests and the long checks, which measure and want to be alone
	$(BIN)/python -m pytest -m "long and not external"

test-external: ready ## Run the tests that need files beside the repository, or other packages
	$(BIN)/python -m pytest -m external

fuzz: $(VENV)/dev.stamp ## Attack every call and file for MINUTES (30), print the counts
	$(BIN)/python tests/fuzz/campaign.py --minutes $(or $(MINUTES),30) $(FUZZ)

lint: $(VENV)/dev.stamp ## Check style, format, types, the direction of imports and the site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory docs

docs: $(VENV)/dev.stamp ## Build the site into build/site; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(VENV)/dev.stamp ## Put the code into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/dev.stamp ## Run the benchmarks, keep their results and put them on their page
	@set -e; for script in benchmarks/bench_*.py benchmarks/extras.py; do \
		echo "== $$script"; $(BIN)/python "$$script" --save; \
	done
	$(BIN)/python benchmarks/page.py

dist: $(VENV)/dev.stamp ## Build wheel and sdist, and try both
	rm -rf dist build/dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	PYTHON=$(BIN)/python ./.ci/try-dist

clean: ## Remove everything that was made
	rm -rf $(VENV) build dist demo.html test-artifacts .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks docs examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Stamps, so that pip runs only when the requirements changed.
$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(PIP) --no-compile '$(TORCH)'
	$(PIP) --no-compile -e '.[dev]'
	@# On all cores, which pip does not; some packages hold files that are for other Pythons.
	@$(BIN)/python -W ignore -m compileall -q -j 0 $(VENV)/lib src >/dev/null || true
	@touch $@ $(VENV)/demo.stamp

ready:
	@$(MAKE) --no-print-directory -j2 warm chromium

# Before the tests, whose workers would compile the same kernels at the same time.
warm: $(VENV)/dev.stamp
	@$(BIN)/kinrank warmup

# Tests of pages need Chromium and are reported as skipped without it; where CI is set, they fail.
APT := apt-get -qq -o DPkg::Lock::Timeout=60 -o Acquire::http::Timeout=30
chromium:
	@if command -v chromium || command -v chromium-browser; then exit 0; fi >/dev/null; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing chromium for the tests of pages"; \
		export DEBIAN_FRONTEND=noninteractive; \
		if { $(APT) update && $(APT) install -y --no-install-recommends chromium; } >/dev/null; then \
			exit 0; \
		fi; \
	fi; \
	echo "chromium is not installed and could not be: tests of pages cannot run, all others can." >&2
