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
PROJECT = $(shell $(PYTHON) -c 'import sys; print("." if sys.version_info < (3, 11) else \
  "\".[local]\" --constraint constraints/local.txt")')
READY := $(VENV)/.ready
endif

# Processes that run the tests side by side; `make WORKERS=0 …` for none, as a debugger wants it.
WORKERS ?= logical
TESTS := pytest -q -m "not slow" -n $(WORKERS) --maxprocesses 8 --dist worksteal
# What only the extra [local] can run. Where that is not installed, this is not counted as untested, and the rest is.
TRAINS := src/synth_train/adapters/local/models.py,src/synth_train/adapters/local/tensorboard.py,src/synth_train/adapters/local/rl/*,src/synth_train/adapters/local/sft/*

.PHONY: help setup demo demo-rl test check format lint types imports coverage oldest bench clean

help:  ## what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

setup: $(READY)  ## an environment in .venv with the project and its tools

$(READY): pyproject.toml constraints/local.txt
	@echo "Setting up $(VENV), once. With torch that is some minutes and about 2 GB."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable $(PROJECT) --group dev --group web
	@touch $@

demo: $(READY)  ## the SFT example on this machine: it trains a small model, and shows what that says before and after
	@$(BIN)/python examples/demo.py sft

demo-rl: $(READY)  ## the RL example on this machine: it starts the sample task app, and shows the reward rising
	@$(BIN)/python examples/demo.py rl

test: $(READY)  ## all tests but the slow ones
	$(BIN)/python -m $(TESTS)

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
	$(BIN)/coverage run -m $(TESTS)
	$(BIN)/coverage combine --quiet
	@rm -f .coverage.*  # what is left is of children that a test killed while they wrote
	$(BIN)/coverage report --fail-under=95 $$($(BIN)/python -m pip show -q trl 2>/dev/null || echo '--omit=$(TRAINS)')
	$(BIN)/coverage report --include="src/synth_train/domain/*" --fail-under=100

oldest:  ## the tests with the oldest libraries that pyproject.toml allows
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)-oldest/bin/python -m pip install --quiet --editable . --group dev --constraint constraints-oldest.txt
	$(VENV)-oldest/bin/python -m $(TESTS)

bench: $(READY)  ## what benchmarks/ measures
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) $(VENV)-oldest .demo .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache
