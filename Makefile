# The project's commands. `make PYTHON=python3.10 …` picks the interpreter, `make VENV=dir …` the environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The extra [local], where Python is new enough for it. `make LOCAL=no …` does without: then what trains is not tested.
LOCAL ?= yes
ifeq ($(LOCAL),no)
PROJECT := .
READY := $(VENV)/.ready-without-local
else
PROJECT := '.[local]' --constraint constraints/local.txt
READY := $(VENV)/.ready
endif

.PHONY: help setup demo test check format lint types imports coverage oldest bench clean

help:  ## what there is
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

setup: $(READY)  ## an environment in .venv with the project and its tools

$(READY): pyproject.toml constraints/local.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable $(PROJECT) --group dev --group web
	@touch $@

demo: $(READY)  ## the SFT example, from its TOML to the job's end, against a backend in memory
	$(BIN)/python examples/demo.py

test: $(READY)  ## all tests but the slow ones
	$(BIN)/python -m pytest -q -m "not slow"

check: format lint types imports coverage  ## all that must be green before a commit

format: $(READY)
	$(BIN)/ruff format --check .

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

coverage: $(READY)  ## the tests, with the branches they reach counted
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -m "not slow"
	$(BIN)/coverage combine --quiet
	@rm -f .coverage.*  # what is left is of children that a test killed while they wrote
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --include="src/synth_train/domain/*" --fail-under=100

oldest:  ## the tests with the oldest libraries that pyproject.toml allows
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)-oldest/bin/python -m pip install --quiet --editable . --group dev --constraint constraints-oldest.txt
	$(VENV)-oldest/bin/python -m pytest -q -m "not slow"

bench: $(READY)  ## what benchmarks/ measures
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) $(VENV)-oldest .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache
