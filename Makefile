# Each target makes what it needs: `make demo` or `make test` is all there is to type in a fresh clone.
# Python 3.11 or later and make are enough; with a C compiler the hot modules are compiled. PYTHON names another
# interpreter; AIOPROD_NO_EXT=1 leaves the compiled modules out, AIOPROD_REQUIRE_EXT=1 fails where they can't be built.

PYTHON ?= python3
BIN := .venv/bin
COMPILED := $(if $(filter-out 0,$(AIOPROD_NO_EXT)),,compiled)
LONG := $(filter-out 0,$(AIOPROD_LONG))
# One environment, which grows: what the demo needs, Spark, the examples, what developers need.
FOR_DEMO := .venv/ready-demo
FOR_SPARK := .venv/ready-spark
FOR_EXAMPLES := .venv/ready-examples
FOR_DOCS := .venv/ready-docs
READY := .venv/ready
# Or each process that starts would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# Only lanes of tests run side by side.
ifndef LANES
.NOTPARALLEL:
endif
.PHONY: help compiled lock demo demo-spark example-orders example-copy-table example-word-count test test-unit test-integration test-long test-frozen transactions lint generate docs bench bench-check bench-observed bench-registry bench-work bench-distance bench-outbox bench-assignors bench-spark spark-faults fuzz simulate scale soak mutations brokers chaos groups operator-logs spark-load-killed clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What the shell does as $(2), and how long it took; a line that can be read beside others.
timed = start=$$(date +%s); $(2) && echo "$(1): $$(($$(date +%s) - start)) s"
BESIDE = $(MAKE) --no-print-directory --jobs=2 LANES=1

compiled: $(FOR_DEMO) ## build what changed of the compiled modules, beside their sources
	@$(call timed,compiled modules,$(BIN)/python setup.py --quiet build_ext --inplace)

# Meanwhile the modules are compiled: none of them is to be half there when it is imported.
.PHONY: kafka
kafka: $(FOR_DEMO)
	@AIOPROD_NO_EXT=1 $(BIN)/python -m aioprod.testing.kafka.jars >/dev/null

demo: $(FOR_DEMO) ## send Python's standard library to a real Kafka, read it back, compare; FILE=path sends your file
	@$(BESIDE) kafka $(COMPILED)
	@$(BIN)/python -m examples.demo $(if $(FILE),-- "$(FILE)")

demo-spark: $(FOR_SPARK) ## Python's standard library through Spark into Kafka, exactly once, with an executor killed; then audit and plan; FOLDER=path takes the Python files there
	@$(BESIDE) kafka $(COMPILED)
	@$(BIN)/python -m examples.demo_spark $(if $(FOLDER),-- "$(FOLDER)")

example-orders: $(FOR_EXAMPLES) ## a service takes orders, and a relay writes them to Kafka exactly once while it is killed; ARGS="--orders 500 --database sqlite"
	@$(BESIDE) kafka $(COMPILED)
	@$(BIN)/python -m examples.orders $(ARGS)

example-copy-table: $(FOR_EXAMPLES) ## a table of DuckDB into a topic and back by Arrow batches, compared; ARGS="--file shop.duckdb --table customers --key id"
	@$(BESIDE) kafka $(COMPILED)
	@$(BIN)/python -m examples.copy_table $(ARGS)

example-word-count: $(FOR_EXAMPLES) ## members of a group count words exactly once while they are killed; ARGS="--lines 5000 --kills 5"
	@$(BESIDE) kafka $(COMPILED)
	@$(BIN)/python -m examples.word_count $(ARGS)

# --- tests: five lanes side by side, as most of their time is waiting, and the next when one ends; the table is in
# docs/testing-aioprod.md

LANE = $(MAKE) --no-print-directory --keep-going --jobs=5 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) LANES=1

test: $(FOR_DEMO) ## what a change can break, in minutes; AIOPROD_KAFKA=auto|docker|local|host:port chooses the brokers
	@$(BESIDE) $(READY) $(COMPILED)
	@echo "Lanes, five side by side; each prints what it found when it ends."
	@rm -rf build/lanes
	@$(LANE) lane-units $(if $(COMPILED),lane-compiled) lane-brokers lane-faults lane-spark lane-programs lane-security
	@$(MAKE) --no-print-directory coverage
	@$(BIN)/python -m tools.lanes

test-unit: $(READY) $(COMPILED) ## the tests that need no Kafka, interpreted with coverage and, where that differs, compiled
	@$(LANE) lane-units $(if $(COMPILED),lane-compiled) lane-programs
	@$(MAKE) --no-print-directory coverage

test-integration: $(READY) $(COMPILED) ## the tests against real brokers and with Spark; those that this machine can't run are named
	@$(LANE) lane-brokers lane-faults lane-spark lane-security

PARTS := units simulation brokers versions spark docker supply

test-long: $(READY) $(COMPILED) ## all there is, in its long form, about 115 minutes: PART=units|simulation|brokers|versions|spark|docker|supply for one part
	@for part in $(or $(PART),$(PARTS)); do \
	    echo "== $$part"; start=$$(date +%s); \
	    AIOPROD_LONG=1 $(MAKE) --no-print-directory long-$$part || exit; \
	    echo "== $$part: $$(($$(date +%s) - start)) s"; \
	done

long-units: test-unit

long-simulation:
	@$(BIN)/python -m tests.simulation --seeds 1000
	@$(BIN)/python -m tests.simulation --members --seeds 1000
	@$(BIN)/python -m tests.simulation --spool --seeds 2000
	@$(BIN)/python -m tests.simulation --spooled --seeds 1000
	@AIOPROD_NO_EXT=1 $(BIN)/python -m tests.simulation.mutations --seeds 2000

long-brokers:
	@$(LANE) lane-brokers lane-faults lane-security
	@$(BIN)/python -m integration.soak --minutes 2

long-versions:
	@$(BIN)/python -m integration.brokers

long-spark:
	@$(LANE) lane-spark lane-packaging

long-docker:
	@.ci/docker-tests.sh long

long-supply: build/supply/ready build/lowest/ready
	@$(BIN)/python -m tools.supply build/supply/bin/pip-audit
	@AIOPROD_NO_EXT=1 PYTHONPATH=. build/lowest/bin/python -m pytest tests $(NOT_LOWEST)

# PySpark 4.0 has no limits of sources, no Arrow writers of streams and no functions of Arrow arrays, and these files and
# tests are about them. uvloop before 0.23 leaves the socket of a cancelled connection to the garbage collector.
NOT_LOWEST = $(addprefix --ignore=tests/spark/,test_source_stream.py test_once_sink.py test_sink.py) \
    $(addprefix --deselect=tests/,spark/test_partitioning.py::test_the_functions_that_workers_call \
        spark/test_source.py::test_the_schema_is_what_spark_wants \
        net/test_link.py::test_a_connection_ends_in_whichever_turn_of_the_loop_its_making_is_cancelled)
# The oldest releases that pyproject.toml allows, of all that aioprod works with.
build/lowest/ready: pyproject.toml build/supply/ready
	$(PYTHON) -m venv --clear build/lowest
	build/supply/bin/uv pip install --quiet --python build/lowest/bin/python --resolution lowest-direct '.[arrow,dev,p12]'
	touch $@

PYTEST := $(BIN)/python -m pytest --durations=20 --durations-min=0.5
# Measures coverage, for the report $(1), where nothing is compiled. Each plugin is named: pytest would take aioprod for
# one that it has found, and rewrite its asserts, and slipcover sees no branches of what pytest has rewritten.
covered = $(BIN)/python -W "ignore:Unable to activate pytest" -m slipcover --out build/coverage/$(1).json \
    -m pytest --durations=20 --durations-min=0.5 --disable-plugin-autoload \
    $(addprefix -p ,pytest_asyncio.plugin pytest_timeout _hypothesis_pytestplugin aioprod.testing.plugin)
# These count steps of the interpreter, or pickle functions, and need code without probes.
UNMEASURED := tests/schema_registry/test_json_generated.py tests/spark/test_partitioning.py
# Runs commands as a lane, whose cost `make test` prints at its end.
lane = @$(BIN)/python -m tools.lanes $(1) '$(2)'

# The rooms that have compiled modules, and what drives these; of the others the interpreted run says all there is to say.
TWINS := $(addprefix tests/,arrow calls fuzz messages net producer records routing spool sync wire builds test_build_choice.py test_metrics.py test_types.py)
# Most of what they do is to start programs and fake brokers, in threads and processes.
PROGRAMS := $(addprefix tests/,benchmarks cli console documentation examples testing)
# Most of what they do is to wait for brokers that are killed, frozen or being elected.
FAULTS_TESTS := $(addprefix integration/,chaos group test_cluster.py test_faults.py test_key_order.py test_limits.py \
    test_operator_logs.py test_outbox.py test_reader.py test_relay.py test_resolve.py test_spool.py \
    test_transactions_acceptance.py test_work.py test_zones.py)
PACKAGING_TESTS := integration/test_packaging.py

.PHONY: lane-units lane-programs lane-compiled lane-brokers lane-security lane-faults lane-spark lane-packaging coverage
# The longest: what the others do must not keep it waiting.
lane-units: build/coverage
	$(call lane,units,export AIOPROD_NO_EXT=1; $(call covered,units) tests $(addprefix --ignore=,$(UNMEASURED) $(PROGRAMS)) \
	    && $(PYTEST) $(UNMEASURED) $(if $(LONG),,integration/test_producer.py) --timeout=600)

lane-programs: build/coverage
	$(call lane,programs,AIOPROD_NO_EXT=1 $(call covered,programs) $(PROGRAMS))

lane-compiled:
	$(call lane,compiled,nice $(PYTEST) $(if $(LONG),tests,$(TWINS)) \
	    $(if $(LONG),,&& nice $(BIN)/python -m tests.simulation --seeds 1000))

lane-brokers:
	$(call lane,brokers,nice $(PYTEST) integration $(addprefix --ignore=integration/,security spark) $(addprefix --ignore=,$(FAULTS_TESTS) $(if $(LONG),$(PACKAGING_TESTS))) --timeout=600 \
	    $(if $(LONG),&& AIOPROD_NO_EXT=1 nice $(PYTEST) $(addprefix integration/,test_producer.py test_roundtrip.py security/test_pairs.py) --timeout=600))

lane-security:
	$(call lane,security,nice $(PYTEST) integration/security --timeout=600)

lane-faults:
	$(call lane,faults,nice $(PYTEST) $(FAULTS_TESTS) --timeout=600)

# Before the others: Spark gives up on a Python worker that takes ten seconds to come.
lane-spark:
	$(call lane,spark,$(PYTEST) integration/spark --timeout=600)

lane-packaging:
	$(call lane,packaging,nice $(PYTEST) $(PACKAGING_TESTS) --timeout=600)

build/coverage:
	@mkdir -p $@

coverage:
	@$(BIN)/python -m slipcover --merge build/coverage/units.json build/coverage/programs.json --out build/coverage.json >/dev/null
	@$(BIN)/python -m tools.covered_rooms build/coverage.json 90

test-frozen: $(READY) $(COMPILED) ## tests whose processes stop at random for up to 2 s, then tests whose timers are wrong: ARGS="tests/net" SEED=1
	$(BIN)/python -m tests.support.frozen $(or $(ARGS),tests)
	$(PYTEST) -p tests.support.bent_timers $(or $(ARGS),tests)

transactions: $(READY) $(COMPILED) ## transactions on three brokers while their coordinator, or the process, is killed, the long form, about 15 minutes
	AIOPROD_LONG=1 $(PYTEST) integration/test_transactions_acceptance.py

spark-load-killed: $(READY) $(COMPILED) ## load ROWS=5000000 rows by Spark, killed at random KILLS=3 times and resumed, and audit them
	@$(BIN)/python -m integration.spark.programs.load_killed --rows $(or $(ROWS),5000000) --kills $(or $(KILLS),3) $(ARGS)

# A check, and what mends what it finds.
checked = $(BIN)/$(1) || { echo "To mend it, $(2)"; false; }

lint: $(READY) ## style, types, layers, generated files, words, links: about 5 minutes the first time, then seconds
	@$(call checked,ruff check .,run: $(BIN)/ruff check --fix . (it leaves what needs a decision: ruff rule CODE says why))
	@$(call checked,ruff format --check .,run: $(BIN)/ruff format .)
	@$(call checked,mypy,correct the types named above: tests are checked as strictly as the library)
	@$(call checked,lint-imports,move the code down to the room of what it needs; docs/design.md shows the layers)
	@AIOPROD_NO_EXT=1 $(BIN)/python -m tools.generate --check
	@$(call checked,python -m tools.glossary aioprod tools/documentation examples,write one of the words named above; a phrase of the field goes into ALLOWED of tools/glossary.py)
	@$(call checked,python -m tools.documentation.links,correct the link on the page and line named above)
	$(if $(LONG),@$(MAKE) --no-print-directory docs)

generate: $(READY) ## write the pages, tables, pictures and types that are made from code: all of it, in seconds
	@AIOPROD_NO_EXT=1 $(BIN)/python -m tools.generate

docs: $(FOR_DOCS) ## the documentation site, in build/site: open index.html; a warning is an error; AIOPROD_LONG=1 make lint builds it, too
	@AIOPROD_NO_EXT=1 $(BIN)/python -m tools.documentation.links
	@$(call timed,documentation,AIOPROD_NO_EXT=1 NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/mkdocs build --config-file tools/mkdocs.yml)

bench: $(READY) $(COMPILED) ## aioprod beside aiokafka, confluent-kafka, kcat and Java: sending, reading, commands, imports, about 25 minutes; ARGS="--rows read,tasks --quick" for less
	@$(BIN)/python -m benchmarks $(or $(ARGS),--write)

bench-observed: $(READY) $(COMPILED) ## CPU time of a producer whose metrics are collected or whose calls are traced, both builds; ARGS="--rounds 3" for less
	@$(BIN)/python -m benchmarks.observed $(ARGS)
	@AIOPROD_NO_EXT=1 $(BIN)/python -m benchmarks.observed $(ARGS)

bench-registry: $(READY) $(COMPILED) ## CPU time of records with a schema in a registry, beside confluent-kafka's AIOProducer, about 3 minutes; ARGS="--rounds 3" for less
	@$(BIN)/python -m benchmarks.registry $(ARGS)

bench-work: $(READY) $(COMPILED) ## many records at once, beside FastStream and Java's parallel-consumer, about 20 minutes; ARGS="--rounds 1 --only work" for less
	@$(BIN)/python -m benchmarks.work $(ARGS)

bench-distance: $(READY) $(COMPILED) ## producers at round trips of 0.2 to 500 ms, beside Java's and confluent-kafka, about 65 minutes; ARGS="--broker kafka --sizes 100", ARGS="--round-trips 5 --partitions 12 --only aioprod java" for less
	@$(BIN)/python -m benchmarks.distance $(ARGS)

bench-outbox: $(READY) $(COMPILED) ## an outbox in Postgres beside the one that examples/orders had before, about 10 minutes; ARGS="--rounds 1 --minutes 10" for the growth of its table
	@$(BIN)/python -m benchmarks.outbox $(ARGS)

bench-check: $(READY) compiled ## instructions of the hot calls beside the parent commit's: BASE=v1 THRESHOLD=2 REASON="..." ROWS=nowait,submit; needs valgrind
	@$(BIN)/python -m benchmarks.check $(CHECK)

bench-assignors: $(READY) $(COMPILED) ## our assignors beside Java's, in time and memory, about 15 minutes; ARGS="--only sticky --limit 20" for less
	@$(BIN)/python -m benchmarks.assignors $(ARGS)

bench-spark: $(READY) $(COMPILED) ## aioprod's sink and source beside Spark's own, about 10 minutes; ARGS=--write for the report of `make bench`, ARGS="--rounds 2 --only sink" for less
	@$(BIN)/python -m benchmarks.spark $(ARGS)

spark-faults: $(READY) $(COMPILED) ## 40 micro-batches on Spark with a fault in each, exactly once: KAFKA=4.4.0|3.9.1 SEED=1 SINK=aioprod|spark; about 10 minutes
	@$(BIN)/python -m integration.spark.faults$(if $(KAFKA), --version $(KAFKA)) --seed $(or $(SEED),1) --sink $(or $(SINK),aioprod)

fuzz: $(READY) ## hostile bytes for everything that reads bytes, guided by coverage; SECONDS=300 a target, ARGS=codecs for one, ARGS="--sanitize arrow" for compiled modules under AddressSanitizer
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
	$(call LOCKED,fuzz)
	@$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),300) $(ARGS)

simulate: $(READY) $(COMPILED) ## seeded runs over fake brokers in made-up time, each time of other seeds: SEEDS=20000 FROM=0; KIND=members for members at work, spool and spooled for records on disk; REPLAY=7 shows all that happens in one
	@$(BIN)/python -m tests.simulation $(if $(KIND),--$(KIND)) $(if $(REPLAY),--replay $(REPLAY),--seeds $(or $(SEEDS),20000) --from $(or $(FROM),new))

scale: $(READY) $(COMPILED) ## large clusters and fleets of producers, measured, simulated and computed: the figures of docs/scale.md, 3 minutes; ARGS=--quick
	@$(BIN)/python -m tests.scale $(ARGS)

# In test-long, two minutes of it: long-brokers.
soak: $(READY) $(COMPILED) ## hours of load in every style, log-ins renewed, certificates rotated, brokers failing: no loss, no trend: MINUTES=60 RATE=3000; report and picture in build/soak
	@$(BIN)/python -m integration.soak $(SOAK)

mutations: $(READY) ## break the producer and work() on purpose, in 62 ways: which seed notices, within SEEDS=2000; about 4 minutes
	@AIOPROD_NO_EXT=1 $(BIN)/python -m tests.simulation.mutations --seeds $(or $(SEEDS),2000)

CHECK = $(foreach word,BASE THRESHOLD REASON ROWS,$(if $($(word)),--$(call lower,$(word)) '$($(word))'))
CHAOS = $(foreach word,MINUTES MODE KAFKA CLIENT FAULTS SEED MECHANISM FOLDER,$(if $($(word)),--$(call lower,$(word)) '$($(word))'))
SOAK = $(foreach word,MINUTES RATE FAULTS FOLDER,$(if $($(word)),--$(call lower,$(word)) '$($(word))'))
BROKERS = $(foreach word,VERSIONS CHECKS,$(if $($(word)),--$(call lower,$(word)) '$($(word))'))
GROUPS = $(foreach word,EVENTS STRATEGY KINDS KAFKA SEED FOLDER,$(if $($(word)),--$(call lower,$(word)) '$($(word))'))
lower = $(shell echo $(1) | tr A-Z a-z)

# The status is 1 when a check does not end as is expected on its version.
brokers: $(READY) $(COMPILED) ## what works on which version of Kafka, from 2.1 on, and on kfake where Go is: VERSIONS="2.1.1 4.4.0 kfake" CHECKS=transactions WRITE=1; about 15 minutes
	@$(BIN)/python -m integration.brokers $(BROKERS) $(if $(WRITE),--write)

# A run is as long as MINUTES says, and as it takes to let each fault happen once.
chaos: $(READY) $(COMPILED) ## three real brokers under faults: MINUTES=3 MODE=normal|hard|frozen KAFKA=4.4|3.9.1 CLIENT=aioprod|aiokafka|confluent WRITE=1 MECHANISM=SCRAM-SHA-512 over SASL_SSL
	@$(BIN)/python -m integration.chaos $(CHAOS) $(if $(WRITE),--write)

groups: $(READY) $(COMPILED) ## one group of aioprod, Java and confluent-kafka, members join, leave and crash: EVENTS=50 STRATEGY=range|... KAFKA=4.4.0 SEED=1 WRITE=1
	@$(BIN)/python -m integration.group $(GROUPS) $(if $(WRITE),--write)

operator-logs: $(READY) $(COMPILED) ## what a producer logs on three real brokers: no Kafka, one lost, a topic deleted, MINUTES=10 of healthy load
	@$(if $(MINUTES),MINUTES=$(MINUTES)) $(BIN)/python -m integration.operator_logs

clean: ## remove what these targets made here; fetched jars stay in the user's cache folder
	rm -rf .venv build dist *.egg-info .fuzz .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find aioprod \( -name '*.so' -o -name '*.pyd' \) -exec rm -f {} +
	find . -name __pycache__ -prune -exec rm -rf {} +

# Exactly the packages of tools/*.lock, by their hashes.
PIP := AIOPROD_NO_EXT=1 $(BIN)/python -m pip --quiet --disable-pip-version-check install --no-compile --no-deps
LOCKED = $(PIP) --require-hashes $(foreach layer,$(1),--requirement tools/$(layer).lock)

# Without the compiled modules, which `compiled` builds: installing again would build all of them.
$(FOR_DEMO): pyproject.toml $(wildcard tools/*.lock)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "aioprod needs Python 3.11 or later: make PYTHON=...")'
	@echo "Preparing .venv (once) ..."
	@$(call timed,environment, \
	    { test -d .venv || $(PYTHON) -m venv .venv; } && $(call LOCKED,build demo) && \
	    $(PIP) --no-build-isolation --editable .)
	@touch $@

$(FOR_SPARK): $(FOR_DEMO)
	@$(call timed,environment of Spark,$(call LOCKED,spark))
	@touch $@

$(FOR_EXAMPLES): $(FOR_DEMO)
	@$(call timed,environment of the examples,$(call LOCKED,examples))
	@touch $@

$(FOR_DOCS): $(FOR_DEMO)
	@$(call timed,environment of the documentation,$(call LOCKED,docs))
	@touch $@

# Kerberos where its headers are: it is compiled, for a minute.
$(READY): $(FOR_DEMO)
	@$(call timed,environment of developers,$(call LOCKED,spark examples docs dev) && { ! command -v krb5-config >/dev/null || $(call LOCKED,gssapi) --no-build-isolation; })
	@touch $(FOR_SPARK) $(FOR_EXAMPLES) $(FOR_DOCS) $@

lock: build/supply/ready ## write tools/*.lock anew: the newest releases that pyproject.toml allows
	@$(PYTHON) -m tools.lock build/supply/bin/uv

# Of its own: what is audited must not be what audits.
build/supply/ready: tools/supply.lock
	$(PYTHON) -m venv --clear build/supply
	build/supply/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement tools/supply.lock
	@touch $@
