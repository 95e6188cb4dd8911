# Each target makes what it needs: `make demo` or `make test` is all there is to type in a fresh clone.
# Python 3.11 or later and make are enough; with a C compiler the hot modules are compiled. PYTHON names another
# interpreter; AIOPROD_NO_EXT=1 leaves the compiled modules out, AIOPROD_REQUIRE_EXT=1 fails where they can't be built.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
COMPILED := $(if $(filter-out 0,$(AIOPROD_NO_EXT)),,compiled)

INTERPRETED := producer.py roundtrip.py

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help compiled demo demo-spark test test-unit simulate-short test-integration transactions lint bench bench-assignors bench-spark spark-faults fuzz simulate mutations chaos groups spark-load-killed clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

compiled: $(READY) ## build what changed of the compiled modules, beside their sources
	@$(BIN)/python setup.py --quiet build_ext --inplace

demo: $(READY) $(COMPILED) ## send Python's standard library to a real Kafka, read it back, compare; FILE=path sends your file
	@$(BIN)/python -m examples.demo $(if $(FILE),-- "$(FILE)")

demo-spark: $(READY) $(COMPILED) ## Python's standard library through Spark into Kafka, exactly once, with an executor killed; then audit and plan
	@$(BIN)/python -m examples.demo_spark $(FOLDER)

test: test-unit simulate-short test-integration ## all tests; AIOPROD_KAFKA=auto|docker|local|host:port chooses the brokers

# Two runs side by side, of which one waits while the other works: what the first, in the background, has printed
# follows at the end. Fails when either does.
beside = log=$$(mktemp); $(1) > $$log 2>&1 & $(2); second=$$?; wait $$!; first=$$?; cat $$log; rm $$log; exit $$((first || second))

# Coverage is measured where every line is Python. pytest-cov would start too late: aioprod's own pytest plugin has
# imported aioprod by then.
INTERPRETED_UNITS := AIOPROD_NO_EXT=1 $(BIN)/coverage run -m pytest tests

test-unit: $(READY) $(COMPILED) ## the tests that need no Kafka, compiled and interpreted, with coverage
	@if $(BIN)/python -c 'import aioprod, sys; sys.exit(not aioprod.COMPILED)'; then set -x; \
	$(call beside,$(BIN)/pytest tests,$(INTERPRETED_UNITS)); \
	else echo "No compiled modules here: only the interpreted ones are tested."; $(INTERPRETED_UNITS); fi
	$(BIN)/coverage report --fail-under=90

simulate-short: $(READY) $(COMPILED) ## 1,000 seeds of `make simulate`
	@$(BIN)/python -m simulation --seeds 1000

# Where many processes start at once. One after the other, beside all else: Spark gives up on a Python worker that takes
# ten seconds to come.
CROWDED := $(addprefix integration/,chaos group test_packaging.py spark)

# The first test to ask for Kafka may have to wait until it is fetched: hence the time limit.
test-integration: $(READY) $(COMPILED) ## the tests against real brokers, some interpreted too; those that this machine can't run are named
	@set -x; $(call beside,$(BIN)/pytest integration $(CROWDED:%=--ignore=%) --timeout=600,$(BIN)/pytest $(CROWDED) --timeout=600)
ifdef COMPILED
	AIOPROD_NO_EXT=1 $(BIN)/pytest $(addprefix integration/test_,$(INTERPRETED)) --timeout=600
endif

transactions: $(READY) $(COMPILED) ## transactions on three brokers while their coordinator, or the process, is killed, the long form, about 15 minutes
	AIOPROD_LONG=1 $(BIN)/pytest integration/test_transactions_acceptance.py

spark-load-killed: $(READY) $(COMPILED) ## load ROWS=5000000 rows by Spark, killed at random KILLS=3 times and resumed, and audit them
	@$(BIN)/python -m integration.spark.programs.load_killed --rows $(or $(ROWS),5000000) --kills $(or $(KILLS),3) $(ARGS)

lint: $(READY) ## style, types, layers, generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m aioprod.config | diff docs/configuration.md -

bench: $(READY) $(COMPILED) ## aioprod beside aiokafka and confluent-kafka, about 20 minutes; ARGS="--rows tasks --quick" for less
	@$(BIN)/python -m benchmarks $(or $(ARGS),--write)

bench-assignors: $(READY) $(COMPILED) ## our assignors beside Java's, in time and memory, about 15 minutes; ARGS="--only sticky --limit 20" for less
	@$(BIN)/python -m benchmarks.assignors $(ARGS)

bench-spark: $(READY) $(COMPILED) ## aioprod's sink and source beside Spark's own, about 10 minutes; ARGS="--rounds 2 --only sink" for less
	@$(BIN)/python -m benchmarks.spark $(ARGS)

spark-faults: $(READY) $(COMPILED) ## 40 micro-batches on Spark with a fault in each, exactly once: KAFKA=4.3.0|3.9.1 SEED=1 SINK=aioprod|spark; about 10 minutes
	@$(BIN)/python -m integration.spark.faults --version $(or $(KAFKA),4.3.0) --seed $(or $(SEED),1) --sink $(or $(SINK),aioprod)

fuzz: $(READY) ## hostile bytes for everything that reads bytes, guided by coverage; SECONDS=300 a target, ARGS=codecs for one
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
	AIOPROD_NO_EXT=1 $(BIN)/pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@$(BIN)/python -m fuzz --seconds $(or $(SECONDS),300) $(ARGS)

simulate: $(READY) $(COMPILED) ## seeded runs over fake brokers in made-up time: SEEDS=20000 FROM=0; REPLAY=7 shows all that happens in one
	@$(BIN)/python -m simulation $(if $(REPLAY),--replay $(REPLAY),--seeds $(or $(SEEDS),20000) --from $(or $(FROM),0))

mutations: $(READY) ## break the producer on purpose, in 26 ways: which seed notices, within SEEDS=2000; about 15 minutes
	@AIOPROD_NO_EXT=1 $(BIN)/python -m simulation.mutations --seeds $(or $(SEEDS),2000)

CHAOS = $(foreach word,MINUTES MODE KAFKA CLIENT FAULTS SEED FOLDER,$(if $($(word)),--$(call lower,$(word)) '$($(word))'))
GROUPS = $(foreach word,EVENTS STRATEGY KINDS KAFKA SEED FOLDER,$(if $($(word)),--$(call lower,$(word)) '$($(word))'))
lower = $(shell echo $(1) | tr A-Z a-z)

# A run is as long as MINUTES says, and as it takes to let each fault happen once.
chaos: $(READY) $(COMPILED) ## three real brokers under faults: MINUTES=3 MODE=normal|hard|frozen KAFKA=4.3|3.9.1 CLIENT=aioprod|aiokafka|confluent WRITE=1
	@$(BIN)/python -m integration.chaos $(CHAOS) $(if $(WRITE),--write)

groups: $(READY) $(COMPILED) ## one group of aioprod, Java and confluent-kafka, members join, leave and crash: EVENTS=50 STRATEGY=range|... KAFKA=4.3.0 SEED=1 WRITE=1
	@$(BIN)/python -m integration.group $(GROUPS) $(if $(WRITE),--write)

clean: ## remove what these targets made here; fetched jars stay in the user's cache folder
	rm -rf .venv build dist *.egg-info .coverage .fuzz .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find aioprod \( -name '*.so' -o -name '*.pyd' \) -exec rm -f {} +
	find . -name __pycache__ -prune -exec rm -rf {} +

# Without the compiled modules, which `compiled` builds: installing again would build all of them.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "aioprod needs Python 3.11 or later: make PYTHON=...")'
	@echo "Preparing .venv (once) ..."
	@test -d .venv || $(PYTHON) -m venv .venv
	@AIOPROD_NO_EXT=1 $(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
