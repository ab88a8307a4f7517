# `make demo` and `make test` are all one needs; both make the environment first.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help
help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "loopwarden needs Python 3.11 or newer; say which: make PYTHON=python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	for try in 1 2 3; do \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 5 --require-hashes -r requirements.lock && break; \
	  [ $$try -lt 3 ] || exit 1; echo "install failed, trying again" >&2; sleep $$((try * 5)); \
	done
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

.PHONY: install
install: $(STAMP) ## Make the environment in .venv

.PHONY: check
check: $(STAMP) ## Format, lint, types, import rules, fast tests: seconds
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p loopwarden.schemas -p loopwarden.streams -p loopwarden.deploy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m loopwarden.schemas.generate --check
	$(BIN)/python -m pytest -q -m "not broker"

.PHONY: test
test: $(STAMP) ## Everything, with a real broker
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p loopwarden.schemas -p loopwarden.streams -p loopwarden.deploy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m loopwarden.schemas.generate --check
	$(BIN)/python -m pytest

.PHONY: demo
demo: $(STAMP) ## Watch a recorded fleet on an embedded broker (DEMO="--speed max --keep" passes options)
	@$(BIN)/loopwarden demo $(DEMO)

.PHONY: bench
bench: $(STAMP) ## Measure the core and a worker beside a plain Faust agent
	$(BIN)/python tests/bench/run.py $(BENCH)

.PHONY: kafka
kafka: $(STAMP) ## Run Apache Kafka on loopback until Ctrl-C (KAFKA="--nodes 3" for a cluster; needs Java 17 and Maven)
	$(BIN)/python -m loopwarden.deploy.kafka $(KAFKA)

.PHONY: chaos
chaos: $(STAMP) ## Kill, freeze, restart and poison on Apache Kafka, and see that nothing is lost (CHAOS="--only frozen")
	$(BIN)/python tests/chaos/run.py $(CHAOS)

.PHONY: recordings
recordings: $(STAMP) ## Run the scripted fleet anew and record it for the demo
	$(BIN)/python -m loopwarden.deploy.fleet --output deploy/demo/fleet.jsonl.gz

.PHONY: schemas
schemas: $(STAMP) ## Write the generated JSON Schemas and the AsyncAPI document anew
	$(BIN)/python -m loopwarden.schemas.generate

.PHONY: lock
lock: $(STAMP) ## Pin all dependencies anew
	$(BIN)/python -m pip install --quiet uv
	printf 'setuptools>=77\n' | $(BIN)/uv pip compile pyproject.toml - --all-extras --generate-hashes --no-header \
	  --no-emit-index-url --no-annotate --python-version 3.11 --quiet --output-file requirements.lock

.PHONY: clean
clean: ## Remove the environment and all that was made
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .run
