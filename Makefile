# Everything that needs an environment makes it first, in $(VENV), from pyproject.toml and
# constraints.txt, and makes it again only when one of the two has changed.

PYTHON ?= python3
# The oldest Python that we accept, with which the pins are made; and the newest that is installed here.
first = $(shell for v in $(1); do \
	for p in python$$v "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$v.*/bin/python; do \
	"$$p" -c '' 2>/dev/null && echo "$$p" && exit; done; done; echo $(2))
PYTHON_OLDEST ?= $(call first,3.11,python3.11)
PYTHON_NEWEST ?= $(call first,3.15 3.14 3.13 3.12,$(PYTHON))
VENV ?= .venv
VENV_PEERS ?= .venv-peers
PYTEST_ARGS ?=
PEERS_ARGS ?=

BIN := $(VENV)/bin
CORE := $(VENV)/.stamp-core
DEV := $(VENV)/.stamp-dev
OLDEST := $(VENV)-oldest/.stamp
PEERS := $(VENV_PEERS)/.stamp

# Arguments of Python, here and in the environments of other versions. A worker gets neighbouring tests, so
# that what a module's tests share is made once; at the end, those who are done take from the others.
PYTEST = -m pytest -n logical --dist worksteal
FAST = $(PYTEST) $(PYTEST_ARGS)
INSTALL = -m pip --disable-pip-version-check install

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help run test test-fast test-statistics test-newest test-oldest lint format docs dist pins test-peers bench bench-peers clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Variables: PYTHON=$(PYTHON) VENV=$(VENV) PYTEST_ARGS=$(PYTEST_ARGS)"

run: $(CORE)  ## install and take the tour
	$(BIN)/muhat tour

test: $(DEV)  ## run the tests, also the slow ones (10 minutes on two cores)
	$(BIN)/python $(PYTEST) -m "not statistics" $(PYTEST_ARGS)

test-fast: $(DEV)  ## run the fast tests, as before each commit (2 minutes)
	$(BIN)/python $(FAST)

test-statistics: $(DEV)  ## run levels, power, rates, calibration, experiments (15 minutes)
	$(BIN)/python $(PYTEST) -m statistics $(PYTEST_ARGS)

# Made anew each time: what is newest changes.
test-newest:  ## run the fast tests with the newest releases of everything
	@echo "The newest Python found is $$($(PYTHON_NEWEST) -V); name another by PYTHON_NEWEST=python3.14"
	$(PYTHON_NEWEST) -m venv --clear $(VENV)-newest
	$(VENV)-newest/bin/python $(INSTALL) -e '.[dev,docs]'
	$(VENV)-newest/bin/python $(FAST)

test-oldest: $(OLDEST)  ## run the fast tests with the oldest releases that we accept
	$(VENV)-oldest/bin/python $(FAST)

test-peers: $(PEERS)  ## run muhat's tests in other packages' searches, in $(VENV_PEERS)
	$(VENV_PEERS)/bin/python -m pytest tests/testing/test_adapters.py $(PYTEST_ARGS)

lint: $(DEV)  ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python

format: $(DEV)  ## fix style and format in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DEV)  ## build the documentation into site/
	$(BIN)/python -m mkdocs build --strict

# `build` makes the wheel from the source archive, so that both are known to be whole. The wheel is then tried
# where nothing of the checkout can be imported.
dist: $(DEV)  ## build wheel and source archive into dist/, check and try them
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python .ci/check_dist.py
	$(PYTHON) -m venv --clear $(VENV)-dist
	$(VENV)-dist/bin/python $(INSTALL) -c constraints.txt dist/*.whl
	cd $(VENV)-dist && bin/python -I -m muhat tour --chapter embedding --output tour.html

pins:  ## move the pins in constraints.txt to the newest releases, if the fast tests pass with them
	$(PYTHON_OLDEST) -m venv --clear $(VENV)-pins
	$(VENV)-pins/bin/python $(INSTALL) -e '.[dev,docs]'
	$(VENV)-pins/bin/python $(FAST)
	$(VENV)-pins/bin/python -m pip list --format freeze --exclude-editable --exclude pip --exclude setuptools \
		>$(VENV)-pins/pins.txt
	{ grep '^#' constraints.txt; tr A-Z_ a-z- <$(VENV)-pins/pins.txt | LC_ALL=C sort; } >$(VENV)-pins/constraints.txt
	cp $(VENV)-pins/constraints.txt constraints.txt

bench: $(DEV)  ## run the benchmarks
	$(BIN)/python -m benchmarks

bench-peers: $(PEERS)  ## run the comparisons with other packages, in $(VENV_PEERS)
	$(VENV_PEERS)/bin/python -m benchmarks.peers $(PEERS_ARGS)

clean:  ## remove the environments and everything built
	rm -rf $(VENV) $(VENV)-newest $(VENV)-oldest $(VENV)-dist $(VENV)-pins $(VENV_PEERS) build dist site .cache .coverage .pytest_cache .ruff_cache .hypothesis muhat-tour.html
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "muhat needs Python 3.11 or newer, and $(PYTHON) is %d.%d: try make PYTHON=python3.12" % sys.version_info[:2])'
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@touch $@

$(CORE): pyproject.toml constraints.txt | $(VENV)/.stamp-venv
	$(BIN)/python $(INSTALL) -c constraints.txt -e .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(VENV)/.stamp-venv
	$(BIN)/python $(INSTALL) -c constraints.txt -e '.[dev,docs]'
	@touch $(CORE) $@

# A lower bound `name>=version` of pyproject.toml becomes the pin `name==version`.
$(OLDEST): pyproject.toml
	@$(PYTHON_OLDEST) -V >/dev/null 2>&1 || { echo "Python 3.11 is not here; name it by PYTHON_OLDEST=..." >&2; exit 1; }
	$(PYTHON_OLDEST) -m venv --clear $(VENV)-oldest
	sed -nE 's/^ *"([a-z-]+)(\[.*\])?>=([0-9.]+).*/\1==\3/p' pyproject.toml >$(VENV)-oldest/constraints.txt
	$(VENV)-oldest/bin/python $(INSTALL) -c $(VENV)-oldest/constraints.txt -e '.[dev]'
	@touch $@

# Its own environment: the peers' needs are no concern of the library's.
$(PEERS): pyproject.toml constraints.txt benchmarks/peers/requirements.txt
	$(PYTHON) -m venv $(VENV_PEERS)
	$(VENV_PEERS)/bin/python $(INSTALL) -c constraints.txt -r benchmarks/peers/requirements.txt -e .
	@touch $@
