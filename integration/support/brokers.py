"""Brokers that tests share: versions of Kafka, and one cluster per test run for each set of settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import pytest

from aioprod.testing import KafkaCluster
from aioprod.testing.fixtures import running_cluster
from aioprod.testing.kafka.jars import DEFAULT_VERSION

__all__ = ["NEWEST", "STRICT", "TRANSACTION_VERSION_1", "VERSIONS", "SharedClusters", "transaction_version"]

NEWEST: Final = DEFAULT_VERSION
"""Its transactions are of version 2."""

TRANSACTION_VERSION_1: Final = "3.9.1"
"""The newest release whose transactions are of version 1."""

VERSIONS: Final = [NEWEST, pytest.param(TRANSACTION_VERSION_1, marks=pytest.mark.long)]
"""For tests that run on both: the short form takes the newest one only."""


STRICT: Final[dict[str, Any]] = {
    "auto_create_topics_enable": False,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 500,
}
"""For brokers that create no topics by themselves, and look for expired transactions twice a second."""


def transaction_version(cluster: KafkaCluster) -> int:
    """The version of the cluster's transactions: 1, or 2 (KIP-890)."""
    return 1 if cluster.version == TRANSACTION_VERSION_1 else 2


class SharedClusters:
    """Clusters that start when a test first needs them and end with the run; each test creates its own topics.

    Tests that kill, freeze or change brokers start a cluster for themselves.
    """

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._running: dict[tuple[object, ...], KafkaCluster] = {}

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[SharedClusters]:
        """All of them end with the block."""
        with ExitStack() as stack:
            yield cls(stack)

    def __call__(self, brokers: int = 1, **options: Any) -> KafkaCluster:
        """The one cluster of the run that `running_cluster` makes with these arguments."""
        key = (brokers, *sorted(options.items()))
        if key not in self._running:
            self._running[key] = self._stack.enter_context(running_cluster(brokers, **options))
        return self._running[key]
