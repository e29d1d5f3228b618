# Everything that needs an environment makes it first, in $(VENV), from pyproject.toml and
# constraints.txt, and makes it again only when one of the two has changed.

PYTHON ?= python3
VENV ?= .venv
VENV_PEERS ?= .venv-peers
PYTEST_ARGS ?=
PEERS_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CORE := $(VENV)/.stamp-core
DEV := $(VENV)/.stamp-dev
PEERS := $(VENV_PEERS)/.stamp

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help run test test-fast lint format docs bench bench-peers clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Variables: PYTHON=$(PYTHON) VENV=$(VENV) PYTEST_ARGS=$(PYTEST_ARGS)"

run: $(CORE)  ## install and take the tour
	$(BIN)/muhat tour

test: $(DEV)  ## run every test, also the slow ones
	$(BIN)/python -m pytest -m "" -n logical --dist worksteal $(PYTEST_ARGS)

test-fast: $(DEV)  ## run the default tests only
	$(BIN)/python -m pytest -n logical $(PYTEST_ARGS)

lint: $(DEV)  ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python

format: $(DEV)  ## fix style and format in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DEV)  ## build the documentation into site/
	$(BIN)/python -m mkdocs build --strict

bench: $(DEV)  ## run the benchmarks
	$(BIN)/python -m benchmarks

bench-peers: $(PEERS)  ## run the comparisons with other packages, in $(VENV_PEERS)
	$(VENV_PEERS)/bin/python -m benchmarks.peers $(PEERS_ARGS)

clean:  ## remove the environment and everything built
	rm -rf $(VENV) $(VENV_PEERS) build dist site .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "muhat needs Python 3.11 or newer, and $(PYTHON) is %d.%d: try make PYTHON=python3.12" % sys.version_info[:2])'
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@touch $@

$(CORE): pyproject.toml constraints.txt | $(VENV)/.stamp-venv
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(VENV)/.stamp-venv
	$(PIP) install -c constraints.txt -e '.[dev,docs]'
	@touch $(CORE) $@

# Its own environment: the peers' needs are no concern of the library's.
$(PEERS): pyproject.toml constraints.txt benchmarks/peers/requirements.txt
	$(PYTHON) -m venv $(VENV_PEERS)
	$(VENV_PEERS)/bin/python -m pip --disable-pip-version-check install -c constraints.txt -r benchmarks/peers/requirements.txt -e .
	@touch $@
