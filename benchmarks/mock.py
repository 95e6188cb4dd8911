"""librdkafka's mock broker as a process: it prints its address, and ends with its standard input."""

from __future__ import annotations

import sys

from confluent_kafka import Producer


def main() -> None:
    """Serve until the parent closes the pipe or ends."""
    # The address is unused: the mock cluster replaces it, but librdkafka requires one.
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    brokers = cluster.list_topics(timeout=10).brokers.values()
    print(",".join(f"{broker.host}:{broker.port}" for broker in brokers), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
