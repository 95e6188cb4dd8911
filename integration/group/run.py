"""One run: a group on a real broker whose members change while records are sent, and the check."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aioprod import Producer, TopicPartition
from aioprod.testing import KafkaCluster
from integration.group.checker import Verdict, judge, judge_output
from integration.group.plan import TRANSFORMER, Strategy, What, plan
from integration.group.processes import Programs
from integration.group.programs.telling import Job, output_of, value_of
from integration.group.reports import Report
from integration.group.stage import Progress, Stage
from integration.group.standing import GroupStatus
from integration.support.groups import group_offsets
from integration.support.reading import read_topic
from tests.support.environment import environment

__all__ = ["PROPERTIES", "Options", "Run", "run"]

SESSION_TIMEOUT_MS: Final = 3000
HEARTBEAT_INTERVAL_MS: Final = 500
PROPERTIES: Final[dict[str, Any]] = {
    "group_min_session_timeout_ms": SESSION_TIMEOUT_MS,
    "group_initial_rebalance_delay_ms": 0,
    "group_consumer_min_session_timeout_ms": SESSION_TIMEOUT_MS,
    "group_consumer_session_timeout_ms": SESSION_TIMEOUT_MS,
    "group_consumer_min_heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
    "group_consumer_heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
}
"""Of the broker: crashes are noticed soon, and who comes first need not wait for others."""
MAX_POLL_INTERVAL_MS: Final = 30_000

_TOPICS: Final = {"orders": 7, "clicks": 4}
_PAUSE_S: Final = 0.04


@dataclass(frozen=True, slots=True)
class Options:
    """What to run; `kinds` None are all that speak the strategy."""

    strategy: Strategy
    events: int = 50
    seed: int = 1
    kinds: Sequence[str] | None = None


@dataclass(slots=True)
class Run:
    """What a run has left: its figures, the verdict and the reports behind them."""

    figures: dict[str, Any]
    verdict: Verdict
    reports: list[Report]


async def run(cluster: KafkaCluster, options: Options, progress: Progress) -> Run:
    """Make topics of its own on a cluster with `PROPERTIES`, and let things happen to a group that reads them."""
    started, place = time.monotonic(), environment()
    topics = {f"{topic}-{uuid.uuid4().hex[:8]}": partitions for topic, partitions in _TOPICS.items()}
    for topic, partitions in topics.items():
        await cluster.create_topic(topic, partitions)
        if TRANSFORMER in options.strategy.offers:
            await cluster.create_topic(output_of(topic), partitions)
    owned = frozenset(TopicPartition(topic, index) for topic, count in topics.items() for index in range(count))
    job = Job(
        bootstrap_servers=cluster.bootstrap_servers,
        group=f"mixed-{uuid.uuid4().hex[:8]}",
        topics=[*topics],
        strategies=[],
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
    )
    events = plan(options.kinds or options.strategy.kinds, options.events, options.seed)
    programs = await asyncio.to_thread(Programs, cluster.version)
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(programs, options.strategy, job, Path(folder), GroupStatus(owned), progress)
        try:
            async with _sending(cluster.bootstrap_servers, owned) as sent:
                await stage.play(events, random.Random(options.seed))
            await stage.finish(sent)
        finally:
            await stage.close()
    committed = await asyncio.to_thread(group_offsets, cluster.bootstrap_servers, job.group, owned)
    verdict = judge(stage.reports, sent, committed, stage.settled)
    if TRANSFORMER in options.strategy.offers:
        for topic in topics:
            written = await asyncio.to_thread(read_topic, cluster.bootstrap_servers, output_of(topic), "read_committed")
            judge_output(verdict, topic, written, sent)
    for wrong in stage.wrong:
        verdict.flaw("ended badly", wrong)
    figures = {
        "strategy": options.strategy.name,
        "kafka": cluster.version,
        "seed": options.seed,
        "minutes": round((time.monotonic() - started) / 60, 2),
        "events": {str(what): sum(event.what is what for event in events) for what in What},
        "sent": sum(sent.values()),
        "handled": verdict.handled,
        "again": verdict.again,
        "generations": verdict.generations,
        "led": _by_kind(verdict),
        "checked": verdict.checked,
        "flaws": dict(verdict.flaws),
        "examples": dict(verdict.examples),
        "took_s": {name: [round(took, 3) for took in sorted(of)] for name, of in sorted(stage.took_s.items())},
        "environment": place,
    }
    return Run(figures, verdict, stage.reports)


def _by_kind(verdict: Verdict) -> dict[str, int]:
    """How many generations members of each kind have led."""
    led: dict[str, int] = {}
    for process, count in sorted(verdict.led.items()):
        kind = process.rpartition("-")[0]
        led[kind] = led.get(kind, 0) + count
    return led


@asynccontextmanager
async def _sending(
    bootstrap_servers: str, partitions: frozenset[TopicPartition]
) -> AsyncIterator[dict[TopicPartition, int]]:
    """Numbered records to every partition without a pause, until the block ends; how many."""
    counts = dict.fromkeys(sorted(partitions), 0)

    async def send(producer: Producer) -> None:
        while True:
            for partition, count in counts.items():
                producer.send_nowait(partition.topic, value_of(count), partition=partition.partition)
                counts[partition] += 1
            await asyncio.sleep(_PAUSE_S)

    async with Producer(bootstrap_servers) as producer:
        sending = asyncio.create_task(send(producer))
        try:
            yield counts
        finally:
            sending.cancel()
        delivered = (await producer.close()).delivered
        assert delivered == sum(counts.values()), f"{delivered} of {sum(counts.values())} records were delivered"
