"""Start each version with KRaft, with ZooKeeper, or as kfake: always one broker behind a proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aioprod.testing import KafkaCluster
from integration.brokers.broker import KFAKE, Broker, Release, release_of
from integration.brokers.kfake_process import kfake
from integration.brokers.zookeeper import with_zookeeper

__all__ = ["running"]

KRAFT_SINCE: Final[Release] = (3, 3)
"""The first release whose KRaft is meant for production (KIP-833)."""

_QUICK_GROUPS: Final[dict[str, Any]] = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}
"""The brokers' own protocol moves partitions heartbeat by heartbeat, which are 5 s apart by default."""


@asynccontextmanager
async def running(name: str) -> AsyncIterator[Broker]:
    """The broker of a version, or kfake, for the length of the block; it has nothing in it.

    Raises NotRunError where the machine lacks what it needs, and KafkaUnavailableError or KafkaStartError when it can't
    be fetched or does not come up.
    """
    if name == KFAKE:
        async with kfake() as proxy:
            yield Broker(name, proxy)
    elif release_of(name) < KRAFT_SINCE:
        async with with_zookeeper(name) as proxy:
            yield Broker(name, proxy)
    else:
        async with await KafkaCluster.start(1, name, "local", proxied=True, **_QUICK_GROUPS) as cluster:
            [proxy] = cluster.proxies.values()
            yield Broker(name, proxy)
