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
# What `kinrank demo` and people's first calls need; the tests have all kernels compiled.
FIRST   := rerank,index,long,kreciprocal,jaccard_graph,tune,evaluate
# The tests of rooms that the library itself does not need.
OUTER   := tests/compat tests/datasets tests/estimators tests/evaluate tests/features tests/groups tests/report \
	tests/serve tests/stores tests/tables tests/own tests/index/test_commands.py tests/index/test_card.py \
	tests/projection tests/tune tests/docs/test_blocks.py tests/test_cli.py tests/test_cli_options.py \
	tests/test_demo.py tests/test_ranking.py
# Processors that wheels are made for; the others take the wheel without machine code.
TARGETS ?= x86-64-v3,x86-64-v4

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-external fuzz coverage lint workflows docs format bench dist clean ready warm chromium \
	demo-packages dev-packages

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

coverage: ready ## Branch coverage of the outer rooms by their tests; 90% is asked
	rm -rf build/coverage
	mkdir -p build/coverage
	@# One test leaves a process no room for files, and so none for what coverage counts.
	$(BIN)/python -m coverage run -m pytest -q -n $(WORKERS) --no-loadscope-reorder $(OUTER) \
		--deselect tests/features/test_extract_command.py::test_no_room_for_a_part
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

lint: $(VENV)/dev.stamp ## Check style, format, types, the direction of imports and the site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory docs

workflows: $(VENV)/dev.stamp ## Check the workflows of .github: what they trust, and their form
	$(BIN)/zizmor --quiet --offline --config .github/zizmor.yml .github
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml

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

dist: $(VENV)/dev.stamp warm ## Build wheel and sdist, and try both
	rm -rf dist build/dist
	KINRANK_TARGETS=none $(BIN)/python -m build --outdir dist
	set -e; for python in $$(./.ci/pythons); do \
		KINRANK_TARGETS=$(TARGETS) $$python -m pip wheel --no-deps --wheel-dir dist dist/*.tar.gz; \
	done
	$(BIN)/twine check --strict dist/*
	PYTHON=$(BIN)/python ./.ci/try-dist

clean: ## Remove everything that was made
	rm -rf $(VENV) src/kinrank/machine build dist demo.html test-artifacts .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks docs examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Stamps, so that pip runs only when the requirements changed. Kernels are compiled meanwhile, into
# the package, by what its build does too; a build by pip would say nothing, and fetch numba twice.
$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	$(PIP) numba threadpoolctl
	@$(MAKE) --no-print-directory -j2 warm JOBS=$(FIRST) demo-packages
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(PIP) numba threadpoolctl
	@$(MAKE) --no-print-directory -j2 warm dev-packages
	@# On all cores, which pip does not; some packages hold files that are for other Pythons.
	@$(BIN)/python -W ignore -m compileall -q -j 0 $(VENV)/lib src >/dev/null || true
	@touch $@ $(VENV)/demo.stamp

demo-packages:
	KINRANK_TARGETS=none $(PIP) -e '.[demo]'

dev-packages:
	$(PIP) --no-compile '$(TORCH)'
	KINRANK_TARGETS=none $(PIP) --no-compile -e '.[dev]'

# Before the tests, whose workers would compile the same kernels at the same time.
ready: $(VENV)/dev.stamp
	@$(MAKE) --no-print-directory -j2 warm chromium

warm:
	@$(BIN)/python hatch_build.py $(JOBS)

# Tests of pages need Chromium and are reported as skipped without it; where CI is set, they fail.
SHELL_OF_CHROMIUM := chromium-headless-shell
APT := apt-get -qq -o DPkg::Lock::Timeout=60 -o Acquire::http::Timeout=30
chromium:
	@for name in $(SHELL_OF_CHROMIUM) chromium chromium-browser; do \
		if command -v $$name >/dev/null; then exit 0; fi; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing chromium for the tests of pages"; \
		export DEBIAN_FRONTEND=noninteractive; \
		if $(APT) update >/dev/null; then \
			for name in $(SHELL_OF_CHROMIUM) chromium; do \
				if $(APT) install -y --no-install-recommends $$name >/dev/null; then exit 0; fi; \
			done; \
		fi; \
	fi; \
	echo "chromium is not installed and could not be: tests of pages cannot run, all others can." >&2
