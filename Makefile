# slsgd-mx: every target builds its own environment in $(VENV) the first time it is needed.
#   make demo                         uses the first suitable Python on PATH
#   make test PYTHON=python3.10       uses another one (and rebuilds the environment for it)
#   make test PYTEST_ARGS="-k server" passes arguments to pytest

VENV ?= .venv
PYTHON ?=
MINUTES ?= 30
PYTEST_ARGS ?= -n 3 --dist worksteal

STAMP := $(VENV)/.installed
VERSION := import sys; print(".".join(map(str, sys.version_info[:3])))
IN_RANGE := import sys; sys.exit(not (3, 8) <= sys.version_info[:2] < (3, 13))

# The stamp holds "<this folder> <Python version>" of a finished installation. It no longer matches
# when the folder was moved or copied, when the interpreter is gone, or when PYTHON= asks for
# another version: then the environment is rebuilt.
FITS := $(shell test "$$(cat '$(STAMP)' 2>/dev/null)" = \
  "$(CURDIR) $$('$(or $(PYTHON),$(VENV)/bin/python)' -c '$(VERSION)' 2>/dev/null)" && echo yes)
ifneq ($(FITS),yes)
.PHONY: $(STAMP)
endif

# Tests write thousands of small files: into memory where there is a gigabyte of it.
FAST_TMP := $(shell df -Pk /dev/shm 2>/dev/null | awk 'END { exit !($$4 > 1000000) }' && echo /dev/shm)
RUN_TESTS := TMPDIR=$(or $(FAST_TMP),$${TMPDIR:-/tmp}) $(VENV)/bin/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help demo check test chaos bench claims docs lint format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(STAMP) ## train on embedded data with and without an attack, draw the comparison
	@$(VENV)/bin/slsgd-mx demo

check: lint ## lint, and run the tests that start no process: under a minute
	$(RUN_TESTS) $(PYTEST_ARGS) -m "not slow" --hypothesis-profile quick

test: lint ## lint, and run every test (PYTEST_ARGS=... is passed to pytest)
	$(RUN_TESTS) $(PYTEST_ARGS)

chaos: $(STAMP) ## kill, damage and starve runs for MINUTES=30; exit 1 if a byte is lost
	@TMPDIR=$(or $(FAST_TMP),$${TMPDIR:-/tmp}) PYTHONPATH=tests:. $(VENV)/bin/python \
	  -W ignore::UserWarning:multiprocessing.resource_tracker -m chaos --minutes $(MINUTES) $(CHAOS_ARGS)

bench: $(STAMP) ## measure speed and memory against baselines, print the table
	@$(VENV)/bin/python -m benchmarks

claims: $(STAMP) ## judge the paper's claims again, on the committed runs: check/claims.md
	@$(VENV)/bin/slsgd-mx runs unpack figures/laptop/runs.tar.gz --runs check/runs
	@$(VENV)/bin/slsgd-mx theory --runs check/runs --figures check/theory
	@$(VENV)/bin/slsgd-mx claims --preset laptop --runs check/runs --tables figures/laptop --figures check

docs: $(STAMP) ## build the documentation into site/, without warnings and broken links
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --quiet --strict
	@echo "open site/index.html"

lint: $(STAMP) ## check style and format without changing anything
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(STAMP) ## sort imports, fix what ruff can fix, format
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean: ## remove the environment and build products; keep runs and figures
	@test ! -e '$(VENV)' || test -e '$(VENV)/pyvenv.cfg' || \
	  { echo "make: $(VENV) is not a virtual environment, so it is left alone." >&2; exit 1; }
	rm -rf '$(VENV)' build dist site *.egg-info slsgd_mx/*/_*.so .pytest_cache .hypothesis .ruff_cache
	find slsgd_mx tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# A finished environment whose requirements or C code changed is updated in place. In every other case (no
# environment yet, an interrupted installation, another Python) it is emptied first.
$(STAMP): requirements.txt setup.py $(wildcard slsgd_mx/*/*.c slsgd_mx/*/*.h)
	@stop() { echo "make: $$*" >&2; exit 1; }; \
	py='$(PYTHON)'; \
	if [ '$(FITS)' = yes ]; then \
	  py='$(VENV)/bin/python'; \
	elif [ -n "$$py" ]; then \
	  "$$py" -c '' 2>/dev/null || stop "PYTHON=$$py does not run; slsgd-mx needs Python 3.8 to 3.12."; \
	  "$$py" -c '$(IN_RANGE)' || stop "PYTHON=$$py is Python" \
	    "$$("$$py" -c '$(VERSION)'), but slsgd-mx needs Python 3.8 to 3.12 (MXNet 1.9.1 runs on no other)."; \
	else \
	  for name in python3 python3.12 python3.11 python3.10 python3.9 python3.8; do \
	    if "$$name" -c '$(IN_RANGE)' 2>/dev/null; then py=$$name; break; fi; \
	  done; \
	  [ -n "$$py" ] || stop "no Python 3.8 to 3.12 found on PATH: install one," \
	    "or name it with PYTHON=/path/to/python3."; \
	fi; \
	version=$$("$$py" -c '$(VERSION)'); \
	"$$py" -c 'import venv, ensurepip' 2>/dev/null || stop "Python $$version cannot make virtual" \
	  "environments: install its venv module (Debian and Ubuntu: apt install python$${version%.*}-venv)."; \
	if [ '$(FITS)' = yes ]; then \
	  echo "updating $(VENV) with Python $$version"; \
	else \
	  if [ -n "$$(ls -A '$(VENV)' 2>/dev/null)" ] && [ ! -e '$(VENV)/pyvenv.cfg' ]; then \
	    stop "$(VENV) exists and is not a virtual environment: remove it or choose another VENV=."; \
	  fi; \
	  echo "building $(VENV) with Python $$version (about a minute, ~500 MB)"; \
	  "$$py" -m venv --clear '$(VENV)' || stop "Python $$version could not make $(VENV)."; \
	fi; \
	rm -f '$@'; \
	pip="$(VENV)/bin/python -m pip --disable-pip-version-check install -qq"; \
	{ $$pip 'pip>=23.1' && $$pip -e '.[dev]'; } || \
	  stop "installing into $(VENV) failed, for the reason pip gives above; it needs a network" \
	    "connection, a C compiler with the Python headers (for GluonNLP), and Linux or an Intel Mac" \
	    "(for MXNet 1.9.1). Run make again when that is in place."; \
	echo "$(CURDIR) $$version" > '$@'
