# `make` alone lists what there is. Needs CPython 3.11 or newer and a C compiler; GNU make 3.81 is enough.
VENV = .venv
BIN = $(VENV)/bin
CORE = $(wildcard src/_core.pyx src/core/*.pxi)
META = pyproject.toml setup.py
# More arguments for the program that is run: make unit ARGS="-k claim -x"
ARGS =

.PHONY: help test demo build unit contract model sanitize bench lint docs clean

help:
	@echo 'make demo       20,000 messages through the queue, with a worker killed on the way'
	@echo 'make test       all that must pass: wheel, checks, all tests'
	@echo 'make build      development environment in $(VENV), extension built in place'
	@echo 'make unit       tests without a server'
	@echo 'make contract   the rules of the queue on each engine; rqlited from PATH or RQFAST_RQLITED'
	@echo 'make model      a million random steps against the model of the queue'
	@echo 'make sanitize   tests of the core built with -fsanitize=address,undefined (gcc or clang on Linux)'
	@echo 'make bench      all measurements, and docs/benchmarks.md from them; ARGS="--nodes 1": one node only'
	@echo 'make lint       ruff and mypy'
	@echo 'make docs       the pages, built into build/site; a warning fails it'
	@echo 'make clean      removes what was built; $(VENV) stays'

test:
	@bash .ci/run

demo: $(VENV)/.rqfast-demo
	@$(BIN)/rqfast demo $(ARGS)

build: $(VENV)/.rqfast-dev
	@$(BIN)/python setup.py -q build_ext --inplace

unit: build
	@$(BIN)/python -m pytest tests/unit $(ARGS)

contract: build
	@$(BIN)/python -m pytest tests/contract $(ARGS)

# About 20 minutes of one core; each of its tests is a process.
model: build
	@RQFAST_MODEL_STEPS=1000000 $(BIN)/python -m pytest tests/model/test_model.py -n auto $(ARGS)

sanitize: $(VENV)/.rqfast-dev
	@PYTHON=$(BIN)/python bash .ci/sanitize $(ARGS)

# All of it, then docs/benchmarks.md from what was measured.
bench: build
	@mkdir -p build
	@$(BIN)/python -m pytest bench -p no:cacheprovider --benchmark-json=build/bench.json $(ARGS)
	@$(BIN)/python -m bench.render build/bench.json docs/benchmarks.md

lint: $(VENV)/.rqfast-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# In an environment of its own, and the package is not installed: signatures and docstrings are read from the source.
docs: build/docs-env/.ready
	@NO_MKDOCS_2_WARNING=1 build/docs-env/bin/mkdocs build --quiet $(ARGS)
	@echo 'build/site/index.html'

clean:
	@rm -rf build dist wheelhouse src/rqfast.egg-info src/_core.c src/_core.html
	@rm -f src/rqfast/_core*.so $(VENV)/.rqfast-demo $(VENV)/.rqfast-dev
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	@find src tests bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

build/docs-env/.ready: pyproject.toml
	@echo 'Preparing build/docs-env ...'
	@bash .ci/env build/docs-env --group docs
	@touch $@

# The package is installed in editable form, so these need renewing only when the build itself changes.
$(VENV)/.rqfast-demo: $(META) $(CORE)
	@echo 'Building rqfast in $(VENV) ...'
	@bash .ci/env $(VENV) -e '.[cli]'
	@touch $@

$(VENV)/.rqfast-dev: $(META)
	@echo 'Building rqfast in $(VENV) ...'
	@bash .ci/env $(VENV) 'setuptools>=80' 'Cython>=3.3,<4'
	@bash .ci/env $(VENV) --no-build-isolation -e '.[cli,test,bench]' --group lint
	@touch $@
