# Everything here sets itself up in .venv; Python 3.11+ and make are enough. uv is used if present.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := all
.PHONY: all check fast test coverage demo pictures tools crash fuzz soak bench schema bundle lint types format clean help

all: lint types test  ## what CI runs

check: lint  ## the fast part: lint, types and the fast tests, side by side
	@$(MAKE) --no-print-directory --output-sync -j2 types fast

fast: $(READY)
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

test: $(READY)  ## every test: two at a time, and those that measure the machine by themselves
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not alone"
	$(BIN)/python -m pytest -m alone

coverage: $(READY)  ## every test, and which lines and branches none of them has taken
	$(BIN)/python -m coverage run -m pytest
	$(BIN)/python -m coverage report

demo: $(READY)  ## see everything at work, with no key and no network
	$(BIN)/mcp-subagents demo

pictures: $(READY)  ## draw docs/pictures again, from real runs of the demo
	$(BIN)/python docs/pictures/draw.py

tools: $(READY)  ## what the slow tests run on Node: conformance suite, inspector and real hosts, into .tools
	$(BIN)/python tests/conformance/node_tools.py

crash: $(READY)  ## kill, freeze and stop real processes; for longer: make crash KILLS=200 CRASH_SEED=7
	$(BIN)/python -m pytest -q tests/crash

fuzz: $(READY)  ## 100,000 mutated messages over stdio, and as many over HTTP; another stream: make fuzz FUZZ_SEED=7
	FUZZ_MESSAGES=$${FUZZ_MESSAGES:-100000} $(BIN)/python -m pytest -q tests/fuzz

soak: $(READY)  ## 10,000 tasks through one engine, and 1,000 parked questions
	SOAK_TASKS=$${SOAK_TASKS:-10000} $(BIN)/python -m pytest -q tests/soak

bench: $(READY)  ## what the engine costs beside the bare agent, and how soon the server answers beside a bare one
	$(BIN)/python benchmarks/engine_overhead.py
	$(BIN)/python benchmarks/first_response.py

schema: $(READY)  ## write the JSON schema of subagents.yaml again
	$(BIN)/python -c 'from mcp_subagents.config import schema; schema.SHIPPED.write_text(schema.generated(), "utf-8")'

bundle: $(READY)  ## dist/mcp-subagents.mcpb, which apps install with a click
	PYTHONPATH=tests/conformance $(BIN)/python bundle/pack.py

lint: $(READY)  ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## pyright, strict
	$(BIN)/pyright --warnings

format: $(READY)  ## let ruff rewrite the files
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## forget the virtual environment and every cache
	rm -rf $(VENV) .tools .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# pip understands dependency groups from 25.1 on, so the venv's own pip comes first.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "mcp-subagents needs Python 3.11 or newer; $(PYTHON) is %d.%d. Name another: make PYTHON=python3.12" % v[:2])'
	@echo "Setting up $(VENV); it takes a minute or two, once."
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
	  uv pip install --quiet --python $(BIN)/python --editable . --group dev; \
	else \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev; \
	fi
	@touch $@
