#!/usr/bin/env bash
# Tests through Testcontainers, on an image that this script makes: what differs in Docker, or with `long` all that runs
# there. Needs root on Debian.
set -euo pipefail
cd "$(dirname "$0")/.."

stop_docker() {
    .ci/docker-image.sh stop || true
}
trap stop_docker EXIT

AIOPROD_KAFKA_IMAGE=$(PYTHON=.venv/bin/python .ci/docker-image.sh | tail -n 1)
export AIOPROD_KAFKA_IMAGE
export AIOPROD_KAFKA=docker TESTCONTAINERS_RYUK_DISABLED=true

if [ "${1:-}" = long ]; then
    # What does not depend on where the brokers run is not repeated: packaging, Java's classes as an oracle, and the
    # tests that start local brokers of several versions themselves.
    elsewhere=(test_packaging.py test_java_{assignors,groups,messages,partitions,records}.py
        chaos group spark test_key_order.py test_fake_against_kafka.py test_transactions.py
        test_transactions_acceptance.py test_transaction_session.py)
    tests=(integration "${elsewhere[@]/#/--ignore=integration/}")
else
    # Start, restart, kill and freeze, one broker and three; the fixtures; an example that starts its own broker.
    tests=(integration/test_cluster.py integration/test_producer.py
        integration/test_faults.py::test_a_frozen_broker_stops_nobody_else
        integration/test_faults.py::test_the_only_broker_killed_and_back
        integration/test_examples.py::test_the_example_for_pytest_starts_its_own_broker)
fi
.venv/bin/pytest "${tests[@]}" --timeout=600 --durations=5
