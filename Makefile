# Each target makes what it needs: `make demo` or `make test` is all there is to type in a fresh clone.
# Python 3.11 or later, make and a C compiler are enough. PYTHON names another interpreter.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
DECLARED := $(shell find aioprod -name '*.pxd')
HOT := $(DECLARED) $(wildcard $(DECLARED:.pxd=.py))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-unit test-integration lint bench clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## send Python's standard library to a real Kafka, read it back, compare; FILE=path sends your file
	@$(BIN)/python -m examples.demo $(if $(FILE),-- "$(FILE)")

test: test-unit test-integration ## all tests; AIOPROD_KAFKA=auto|docker|local|host:port chooses the brokers

# pytest-cov would start too late: aioprod's own pytest plugin has imported aioprod by then.
test-unit: $(READY) ## the tests that need no Kafka, with coverage
	$(BIN)/coverage run -m pytest tests
	$(BIN)/coverage report --fail-under=90

# The first test to ask for Kafka may have to wait until it is fetched: hence the time limit.
test-integration: $(READY) ## the tests against real brokers; those that this machine can't run are named
	$(BIN)/pytest integration --timeout=600

lint: $(READY) ## style, types, layers, generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m aioprod.config | diff docs/configuration.md -

bench: $(READY) ## aioprod beside aiokafka and confluent-kafka, about 20 minutes; ARGS="--rows tasks --quick" for less
	@$(BIN)/python -m benchmarks $(or $(ARGS),--write)

clean: ## remove what these targets made here; fetched jars stay in the user's cache folder
	rm -rf .venv build *.egg-info .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(READY): pyproject.toml setup.py $(HOT)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "aioprod needs Python 3.11 or later: make PYTHON=...")'
	@echo "Preparing .venv (once) ..."
	@test -d .venv || $(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
