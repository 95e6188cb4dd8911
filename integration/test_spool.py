"""Records that were kept on disk are in Kafka once and in order, although processes are killed and brokers go away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from aioprod.testing import KafkaCluster
from integration.support.brokers import NEWEST, VERSIONS, SharedClusters
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from integration.support.life import Life
from integration.support.reading import committed
from integration.support.spool_program import KEYS
from tests.support.length import LONG, by_length

AFTER_COMMIT_EVERY: Final = 4
"""Each fourth kill is to be between a commit in Kafka and the trim."""
RATE: Final = 2000
"""Records a second, while the producer lives."""
SEED: Final = 7

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(by_length(600, 3600))]


@pytest.fixture(scope="module", params=VERSIONS)
def trio(request: pytest.FixtureRequest, shared_clusters: SharedClusters) -> KafkaCluster:
    """Three brokers of a version."""
    return shared_clusters(3, version=request.param)


class Ordeal(NamedTuple):
    """What the producer and the brokers go through."""

    kills: int
    after_commit: int
    """How many of these are between a commit in Kafka and the trim, at least."""
    records: int
    """How many are to be kept, at least."""
    outages_s: tuple[float, ...]
    """How long all brokers are away, again and again."""


SHORT: Final = Ordeal(8, 1, 5_000, (2.0,))
WHOLE: Final = Ordeal(100, 20, 1_000_000, (5.0, 60.0, *(10.0,) * 9, *(20.0,) * 9, 600.0))
OLDER: Final = Ordeal(10, 2, 20_000, (5.0, 10.0))


async def outages(cluster: KafkaCluster, all_s: Sequence[float]) -> None:
    """Have all brokers answer nothing for some time, again and again."""
    for seconds in all_s:
        await asyncio.sleep(3)
        await asyncio.gather(*(cluster.pause(broker) for broker in (1, 2, 3)))
        try:
            await asyncio.sleep(seconds)
        finally:
            await asyncio.gather(*(cluster.resume(broker) for broker in (1, 2, 3)))


async def life(arguments: tuple[str, ...], first: int, seconds: float, ending: str) -> tuple[int, bool]:
    """Let a program live for so long; the last number that it has kept, and whether it killed itself before."""
    program = await Life.begin("spool_program", *arguments, str(first), str(RATE), ending)
    kept = first - 1
    try:
        assert program.process.stdout is not None
        async with asyncio.timeout(seconds):
            while line := await program.process.stdout.readline():
                kept = int(line.split()[1])
        return kept, True
    except TimeoutError:
        return kept, False
    finally:
        await program.end()


async def test_a_spooled_producer_that_is_killed_again_and_again(
    trio: KafkaCluster, make_topic: MakeTopic, figures: Figures, tmp_path: Path
) -> None:
    """What a killed process has not said to be kept may be there once, or not at all."""
    topic = await make_topic(trio, 3, min_insync_replicas=2)
    arguments = (trio.bootstrap_servers, topic, str(tmp_path))
    ordeal = SHORT if not LONG else WHOLE if trio.version == NEWEST else OLDER
    chance = random.Random(SEED)
    away = asyncio.create_task(outages(trio, ordeal.outages_s))
    spans: list[range] = []
    first = after_commit = 0

    def is_over() -> bool:
        is_enough = len(spans) >= ordeal.kills and after_commit >= ordeal.after_commit
        return is_enough and sum(map(len, spans)) >= ordeal.records and away.done()

    try:
        while not is_over():
            kills_itself = len(spans) % AFTER_COMMIT_EVERY == 0
            seconds = 30.0 if kills_itself else 1.0 + chance.random() * by_length(2.0, 18.0)
            kept, did = await life(arguments, first, seconds, "commit" if kills_itself else "run")
            spans.append(range(first, kept + 1))
            after_commit += did
            first += 10_000_000
        away.result()
    finally:
        away.cancel()
        await asyncio.wait([away])
    last = await Life.begin("spool_program", *arguments, "0", str(RATE), "flush")
    assert await last.commits()
    await last.end()

    numbers = [int(record.value or b"") for record in await committed(trio, topic)]
    assert len(set(numbers)) == len(numbers)
    for number in set(numbers).symmetric_difference(number for span in spans for number in span):
        span = spans[number // 10_000_000]
        assert span.stop <= number <= span.stop + 2 * RATE, f"{number} is lost, or was never sent"
    for key in range(KEYS):
        of_key = [number for number in numbers if number % KEYS == key]
        assert of_key == sorted(of_key)
    kept_count = sum(map(len, spans))
    figures.add(
        f"records kept on disk by a producer that was killed {len(spans)} times, {after_commit} of them "
        f"between commit and trim, Kafka {trio.version} being away {len(ordeal.outages_s)} times",
        kept_count,
    )
