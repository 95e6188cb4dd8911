"""Everything at random and at once: all calls, cancellations and timeouts, while connections are cut and stall."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from aioprod import Producer
from aioprod.testing import KafkaCluster, TcpProxy
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from integration.support.monkey import Ledger, Monkey
from integration.support.reading import stored
from tests.support.length import by_length

pytestmark = pytest.mark.timeout(180)

USERS = 8
DURATION_S = by_length(2, 4)


async def trouble(proxy: TcpProxy, source: random.Random) -> None:
    """Faults of the network, one after the other, until cancelled; none is left then."""
    try:
        while True:
            await asyncio.sleep(source.random() * 0.3)
            match source.randrange(4):
                case 0:
                    proxy.cut()
                case 1:
                    proxy.to_client.cut_after_bytes = source.randrange(1, 2000)
                case 2:
                    proxy.to_target.cut_after_bytes = source.randrange(1, 5000)
                case _:
                    proxy.drop = True
                    await asyncio.sleep(source.choice((0.1, 1.5)))
                    proxy.drop = False
    finally:
        proxy.drop = False
        proxy.to_client.cut_after_bytes = proxy.to_target.cut_after_bytes = None


def settings(source: random.Random) -> dict[str, Any]:
    """A producer's options, small limits among them, so that they are reached."""
    return {
        "buffer_memory": source.choice((20_000, 200_000, 33_554_432)),
        "batch_size": source.choice((500, 16_384)),
        "linger_ms": source.choice((0, 5, 50)),
        "adaptive_linger": source.random() < 0.5,
        "compression_type": source.choice(("none", "gzip", "snappy", "lz4", "zstd")),
        "enable_idempotence": source.random() < 0.6,
        "request_timeout_ms": 1000,
        "delivery_timeout_ms": source.choice((2000, 120_000)),
        "max_block_ms": 3000,
        # Most failures here are nobody's to hear: that they don't fill the log is all that is wanted.
        "on_error": lambda error, record: None,
    }


@pytest.mark.parametrize(("seed", "timeout"), [(1, None), (2, 0.2), (3, 0), (4, None)][: by_length(3, 4)])
async def test_every_record_has_one_outcome_and_it_is_true(
    proxied_cluster: KafkaCluster, make_topic: MakeTopic, figures: Figures, seed: int, timeout: float | None
) -> None:
    source = random.Random(seed)
    topic = await make_topic(proxied_cluster, source.choice((1, 3, 8)))
    ledger = Ledger()
    options = settings(source)
    producer = Producer(proxied_cluster.bootstrap_servers, **options)
    await producer.start()
    troubling = asyncio.create_task(trouble(proxied_cluster.proxies[1], source))
    async with asyncio.TaskGroup() as group:
        for _ in range(USERS):
            group.create_task(Monkey(producer, topic, ledger, source).play())
        await asyncio.sleep(DURATION_S)
        report = await producer.close(timeout)
    troubling.cancel()
    await asyncio.wait([troubling])
    assert producer.buffered == (0, 0)
    ledger.check(await stored(proxied_cluster, topic), report, idempotent=options["enable_idempotence"])
    figures.add(f"records in chaos {seed}", ", ".join(f"{count} {name}" for name, count in ledger.outcomes().items()))
