# Every target sets up what it needs: the first one you call makes .venv and installs the versions in requirements.lock.
.DEFAULT_GOAL := help
SHELL := /bin/sh

# Not taken from the environment, where another project may have left one: make VENV=elsewhere to choose.
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.kcagc-installed
READY := $(VENV)/.kcagc-ready
PIP := $(BIN)/python -m pip --disable-pip-version-check

# The first interpreter that is new enough; make PYTHON=... to choose another.
PYTHON := $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: help setup setup-graphsage setup-peers test test-fast test-report test-wheel test-kill test-interrupt test-late test-standing docs notebook disclosure lint format demo reproduce bench accuracy study attack lock build clean check-python check-venv

help: ## Show this help
	@echo "make TARGET, where TARGET is one of:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

check-python:
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "kcagc needs Python 3.11 or newer, and '$(PYTHON)' is not; install it, or make PYTHON=/path/to/python3" >&2; exit 1; }

# Nothing is ever removed that is not a virtual environment.
check-venv:
	@case '$(VENV)' in *' '*) echo "VENV must not contain spaces: '$(VENV)'" >&2; exit 1;; esac
	@if [ -e '$(VENV)' ] && [ ! -f '$(VENV)/pyvenv.cfg' ]; then \
		echo "'$(VENV)' is there and is no virtual environment; make VENV=... to choose another place" >&2; exit 1; fi

$(INSTALLED): requirements.lock pyproject.toml | check-python check-venv
	@echo "setting up $(VENV) (once; about a minute)"
	@'$(PYTHON)' -m venv --clear '$(VENV)' || { \
		echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PIP) install --quiet --require-hashes -r requirements.lock || { \
		echo "the packages of requirements.lock could not be installed: can this machine reach the package index?" >&2; exit 1; }
	@touch $@

# kcagc itself, again when its version may have changed.
$(READY): src/kcagc/__init__.py $(INSTALLED)
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(READY) ## Make .venv and install the pinned versions

# Not in requirements.lock: hundreds of MB that one baseline needs. TORCH=... names another build.
TORCH := torch==2.13.0
setup-graphsage: check-python ## Install PyTorch for the GraphSAGE baseline, in .venv-graphsage (1.3 GB)
	@'$(PYTHON)' -m venv --clear .venv-graphsage
	@sed -n 's/^\([A-Za-z0-9._-]*==[^ ;]*\).*/\1/p' requirements.lock > .venv-graphsage/versions.txt
	@.venv-graphsage/bin/python -m pip --disable-pip-version-check install --quiet -c .venv-graphsage/versions.txt \
		'$(TORCH)' --editable '.[datasets,graphsage]'

# Other systems that do the same k-means, each with versions of its own; for `make bench NAME=peers` only.
SPU := spu==0.9.5
MPYC := mpyc==0.11 numpy==2.4.6 gmpy2==2.3.2
setup-peers: check-python ## Install SPU and MPyC, in .venv-spu and .venv-mpyc (1 GB)
	@'$(PYTHON)' -m venv --clear .venv-spu
	@.venv-spu/bin/python -m pip --disable-pip-version-check install --quiet $(SPU)
	@'$(PYTHON)' -m venv --clear .venv-mpyc
	@.venv-mpyc/bin/python -m pip --disable-pip-version-check install --quiet $(MPYC)

# Two workers; the tests with processes share one of them. See tests/conftest.py.
PARALLEL := -n 2 --no-loadscope-reorder

# $(call timed,COMMAND): run a command, and print how long this target took.
timed = begin=$$(date +%s); $(1); code=$$?; end=$$(date +%s); \
	echo "make $@: $$(( (end - begin) / 60 )) min $$(( (end - begin) % 60 )) s"; exit $$code

test: $(READY) ## Run all tests
	@$(call timed,$(BIN)/python -m pytest $(PARALLEL))

test-fast: $(READY) ## Run the quick tests, with fewer random examples (90 seconds; for development)
	@$(call timed,$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not kill and not wheel" --hypothesis-profile=fast)

test-wheel: $(READY) ## Install the wheel in an empty environment and run the demo there (2 minutes)
	@$(BIN)/python -m pytest tests/package -m wheel

# The browser's driver, beside the environment and not in it: one set of tests needs it.
PLAYWRIGHT := playwright==1.65.0
.venv-report/.ready: | $(READY)
	@$(PIP) install --quiet --upgrade --target .venv-report '$(PLAYWRIGHT)'
	@touch $@

test-report: $(READY) .venv-report/.ready ## Open the report in a headless Chromium (2 minutes; installs what it needs)
	@[ -n "$$KCAGC_CHROMIUM" ] || command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
		command -v google-chrome >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
			apt-get install -y -qq chromium >/dev/null; } || \
		{ echo "test-report needs Chromium: install it, or set KCAGC_CHROMIUM to its path" >&2; exit 1; }
	@PYTHONPATH=.venv-report $(BIN)/python -m pytest tests/browser -m browser

test-kill: $(READY) ## SIGKILL every role at every message boundary, cut links (30 minutes)
	@$(BIN)/python -m pytest tests/kill -m "kill or not kill"

test-interrupt: $(READY) ## Ctrl-C and SIGTERM in filter, SVD and k-means of a large table, 50 times each (10 minutes)
	@$(call timed,PYTHONPATH=tests:. $(BIN)/python -m kill.interrupts)

test-late: $(READY) ## Roles that come back after the others have stopped waiting, 2 to 5 parties, or NAME=... (20 minutes)
	@$(call timed,PYTHONPATH=tests:. $(BIN)/python -m kill.late $(NAME))

# Real processes; the figures are kept in tests/standing/results with their commit.
test-standing: $(READY) ## 200 runs on one standing coordinator, 3 federations at once, a killed party (10 minutes)
	@$(call timed,PYTHONPATH=tests:. $(BIN)/python -m standing)

lint: $(READY) ## Check style (ruff) and types (mypy --strict)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY) ## Rewrite the code in the house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(READY) ## Build the documentation site in docs/_build/html
	@$(BIN)/python -m sphinx -b html -W --keep-going -n -q docs docs/_build/html
	@echo docs/_build/html/index.html

notebook: $(READY) ## Run docs/notebook.ipynb and store its outputs
	@$(BIN)/python docs/_ext/run_notebook.py

disclosure: $(READY) ## Render docs/disclosure.md, what a run with the default settings discloses
	@$(BIN)/python docs/_ext/disclosure_page.py

demo: $(READY) ## Three organisations and a coordinator cluster together, as four processes
	@$(BIN)/kcagc demo

accuracy: $(READY) ## The baselines on the four public graphs and the protocols on Cora, beside the paper's figures (5 minutes)
	@$(BIN)/python -m benchmarks.accuracy

study: $(READY) ## Which settings find the best clusters; MINUTES=30 stops then (an hour; resumes; renders docs/accuracy.md)
	@$(BIN)/python -m experiments.accuracy $(if $(MINUTES),--minutes $(MINUTES))

reproduce: $(READY) ## Every table and figure of the paper, or NAME=...; QUICK=1, DATASETS=cora,wiki, SEEDS=5 (hours; resumes)
	@$(BIN)/python -m experiments.paper $(or $(NAME),all) $(if $(QUICK),--quick) \
		$(if $(DATASETS),--datasets $(DATASETS)) $(if $(SEEDS),--seeds $(SEEDS))

bench: $(READY) ## Every benchmark, or NAME=...; QUICK=1, MISSING=1 goes on after an interruption (an hour; renders docs/performance.md)
	@$(BIN)/python -m benchmarks $(or $(NAME),all) $(if $(QUICK),--quick) $(if $(MISSING),--missing)

# Everything that the roles of a run can compute from their messages. KCAGC_DATA names the folder of the public graphs.
attack: $(READY) ## Attack runs on the demo and the public graphs as each role, or NAME=...; SHORT=1 (15 minutes; renders docs/attacks.md)
	@$(call timed,PYTHONPATH=tests:. $(BIN)/python -m attacks $(NAME) $(if $(SHORT),--short))
	@$(BIN)/python docs/_ext/disclosure_page.py

lock: check-python ## Resolve the newest versions anew, and pin them and their hashes in both lock files
	@rm -rf .venv-lock && '$(PYTHON)' -m venv .venv-lock
	@.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check '.[dev]'
	@.venv-lock/bin/python -m pip freeze --exclude kcagc | .venv-lock/bin/python tests/project/lock.py
	@rm -rf .venv-lock

build: $(READY) ## Build the wheel and the source archive in dist/, and check that they could be published
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation
	@$(BIN)/twine check --strict dist/*
	@version=$$($(BIN)/python -c 'import kcagc; print(kcagc.__version__)'); \
		for tag in $$(git tag --points-at HEAD 2>/dev/null | grep '^v[0-9]'); do \
			[ "$$tag" = "v$$version" ] || { \
				echo "the tag $$tag is on this commit, but src/kcagc/__init__.py says $$version" >&2; exit 1; }; done

clean: check-venv ## Remove the environment and everything that was built
	@rm -rf '$(VENV)' .venv-graphsage .venv-spu .venv-mpyc .venv-report dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
