# Every target sets up what it needs: the first one you call makes .venv and installs the versions in requirements.lock.
.DEFAULT_GOAL := help
SHELL := /bin/sh

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The first interpreter that is new enough; set PYTHON=... to choose another.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: help setup test lint format demo bench accuracy lock build clean

help: ## Show this help
	@echo "make TARGET, where TARGET is one of:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "kcagc needs Python 3.11 or newer; install it, or name it with make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setting up $(VENV) (once; about a minute)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(READY) ## Make .venv and install the pinned versions

test: $(READY) ## Run the tests
	@$(BIN)/python -m pytest

lint: $(READY) ## Check style (ruff) and types (mypy --strict)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY) ## Rewrite the code in the house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

demo: $(READY) ## Cluster the embedded dataset and say what was done
	@$(BIN)/kcagc demo

accuracy: $(READY) ## AGC and GCC on the four public graphs, beside the published accuracy (KCAGC_DATA or a download)
	@$(BIN)/kcagc baselines

bench: $(READY) ## Time and memory up to 1,000,000 nodes; keeps the figures in benchmarks/results
	@$(BIN)/python benchmarks/foundation.py

lock: ## Resolve the newest versions anew and pin them in requirements.lock
	@rm -rf $(VENV)-lock && $(PYTHON) -m venv $(VENV)-lock
	@$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check '.[dev]'
	@{ echo "# The exact versions kcagc was tested with. Made by 'make lock'."; \
	   $(VENV)-lock/bin/python -m pip freeze --exclude kcagc; } > requirements.lock
	@rm -rf $(VENV)-lock

build: $(READY) ## Build the wheel and the source archive in dist/
	@$(BIN)/python -m build --no-isolation

clean: ## Remove the environment and everything that was built
	@rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
