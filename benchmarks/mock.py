"""librdkafka's mock broker as a process: prints its address and ends when its standard input does."""

from __future__ import annotations

import sys

from confluent_kafka import Producer


def main() -> None:
    """Serve until the parent closes the pipe or is gone."""
    # The address is unused: the mock cluster replaces it, but librdkafka wants one.
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    brokers = cluster.list_topics(timeout=10).brokers.values()
    print(",".join(f"{broker.host}:{broker.port}" for broker in brokers), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
