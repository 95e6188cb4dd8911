"""One run: a cluster, a client in a process of its own, faults, and the check."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aioprod.cli.peer_settings import librdkafka_settings
from aioprod.testing import KafkaCluster, Security
from aioprod.testing.kafka.jars import DEFAULT_VERSION
from integration.chaos.brokers import PROPERTIES, Brokers
from integration.chaos.checker import Stored, Verdict, judge
from integration.chaos.disk import SmallDisk, can_mount, small_disk
from integration.chaos.faults import Stage
from integration.chaos.frozen import frozen_figures
from integration.chaos.ledger import Ledger, Outcome, Place, sequence_of
from integration.chaos.modes import DOOMED, MAIN, MODES, SOLO, TOPICS, Mode
from integration.chaos.resolved import resolved_figures
from integration.chaos.resolving import RESOLVE_S
from integration.chaos.stalls import longest_stalls
from integration.chaos.worker import Job
from integration.support.reading import read_topic
from tests.support.environment import environment

__all__ = ["Options", "Run", "chaos", "run", "security_of"]

_ROOT: Final = Path(__file__).parent.parent.parent

Progress = Callable[[str], None]

_READY_TIMEOUT_S: Final = 60.0
_PATIENCE_S: Final = 15.0
_CALM_S: Final = 3.0
_BACKSTOP_S: Final = 60.0
_DISK_MB: Final = 256
_SESSION_MS: Final = 3000
_DISK_MB_PER_MINUTE: Final = 64


@dataclass(frozen=True, slots=True)
class Options:
    """What to run; `faults` None are all of the mode. `mechanism`: over SASL_SSL with this log-in (of aioprod only)."""

    client: str = "aioprod"
    mode: str = "normal"
    kafka: str = DEFAULT_VERSION
    minutes: float = 3.0
    seed: int = 1
    faults: tuple[str, ...] | None = None
    mechanism: str | None = None


@dataclass(slots=True)
class Run:
    """What a run has left: its figures, the verdict and the records behind them."""

    figures: dict[str, Any]
    verdict: Verdict
    ledger: Ledger
    stage: Stage


async def run(options: Options, progress: Progress) -> Run:
    """Start a cluster, and let a client send to it while faults happen."""
    progress(f"starting 3 brokers of Kafka {options.kafka}")
    security = security_of(options)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            await KafkaCluster.start(3, options.kafka, "local", proxied=True, security=security, **PROPERTIES)
        )
        disk = None
        if "disk full" in _faults(options) and can_mount():
            size_mb = _DISK_MB + int(_DISK_MB_PER_MINUTE * options.minutes)
            disk = await stack.enter_async_context(small_disk(cluster, max(cluster.broker_ids), size_mb))
        return await chaos(cluster, options, progress, disk, security)


def security_of(options: Options) -> Security | None:
    """What the brokers of such a run want: sessions end so soon that each fault meets log-ins that are renewed."""
    return None if options.mechanism is None else Security(mechanisms=[options.mechanism], session_ms=_SESSION_MS)


async def chaos(
    cluster: KafkaCluster,
    options: Options,
    progress: Progress,
    disk: SmallDisk | None = None,
    security: Security | None = None,
) -> Run:
    """The run on a cluster with proxies that is there, has none of the topics, and wants `security`."""
    mode = MODES[options.mode]
    log_in = {} if security is None else security.client_options()
    brokers = Brokers(cluster)
    stage = Stage(brokers, random.Random(options.seed), disk)
    faults = [name for name in _faults(options) if name != "disk full" or disk is not None]
    topics = [topic for topic in TOPICS if topic != DOOMED or "topic deleted" in faults]
    await brokers.create_topics(topics)
    place = environment()
    started = time.monotonic()
    async with brokers.watched(), _load(cluster, options, topics, log_in, progress) as load:
        await _play(stage, faults, started + options.minutes * 60, progress)
        await brokers.healed()
        await asyncio.sleep(_CALM_S)
        ledger = await load.end()
    await brokers.healed()
    progress("reading everything back")
    log = await asyncio.to_thread(_read, cluster.bootstrap_servers, librdkafka_settings(log_in))
    verdict = judge(ledger, log, deadline_s=mode.deadline_s, gone=(DOOMED,))
    figures = {
        "client": options.client,
        "mode": options.mode,
        "kafka": cluster.version,
        "minutes": round((time.monotonic() - started) / 60, 2),
        "seed": options.seed,
        "mechanism": options.mechanism,
        "versions": load.versions,
        "settings": mode.settings[options.client],
        "faults": dict(stage.counts),
        "left_out": [name for name in _faults(options) if name not in faults],
        **_counted(verdict, ledger, stage),
        "resolved": resolved_figures(ledger, gone=(DOOMED,)),
        "frozen": _frozen(stage, ledger, mode),
        "environment": place,
    }
    return Run(figures, verdict, ledger, stage)


def _faults(options: Options) -> tuple[str, ...]:
    return MODES[options.mode].faults if options.faults is None else options.faults


async def _play(stage: Stage, faults: list[str], until: float, progress: Progress) -> None:
    """All faults at least once, in random order after the first round, until the time is up."""
    order = list(faults)
    while True:
        for name in order:
            progress(f"{name}, {max(0, until - time.monotonic()):.0f} s to go")
            await stage.play(name)
            if stage.counts.keys() >= set(faults) and time.monotonic() >= until:
                return
        stage.source.shuffle(order)


def _counted(verdict: Verdict, ledger: Ledger, stage: Stage) -> dict[str, Any]:
    stalls = longest_stalls(ledger, stage.downs, stage.brokers.changes)
    return {
        "sent": verdict.sent,
        "told": dict(verdict.told),
        "not_delivered": dict(Counter(p.topic for p, _, told in ledger.all() if told.outcome is not Outcome.DELIVERED)),
        "flaws": dict(verdict.flaws),
        "stored_unknown": verdict.stored_unknown,
        "slowest_s": round(verdict.slowest_s, 3),
        "stall_s": {topic: round(stalls[topic].seconds, 3) for topic in (MAIN, SOLO) if topic in stalls},
        "stalls": {topic: stall._asdict() for topic, stall in stalls.items()},
        "loop_gap_s": round(max((gap.end - gap.start for gap in ledger.gaps), default=0.0), 3),
        "loop_worked_s": round(max((gap.worked_s for gap in ledger.gaps), default=0.0), 3),
        "errors": dict(verdict.errors),
        "examples": dict(verdict.examples),
    }


def _frozen(stage: Stage, ledger: Ledger, mode: Mode) -> dict[str, Any] | None:
    if "one frozen" not in stage.counts:
        return None
    led = {place: leader for place, leader in stage.brokers.leaders.items() if place.topic == SOLO}
    return frozen_figures(ledger, stage.downs[-1], led, mode.deadline_s)


def _read(bootstrap_servers: str, settings: dict[str, str]) -> dict[Place, list[Stored]]:
    """All that is in the topics that are still there, by partition, in the order of offsets."""
    log: dict[Place, list[Stored]] = defaultdict(list)
    for topic in (MAIN, SOLO):
        for record in read_topic(bootstrap_servers, topic, settings=settings):
            log[Place(topic, record.partition)].append(Stored(record.offset, sequence_of(record.value or b"")))
    return log


class _Process:
    """The sending process."""

    def __init__(self, process: asyncio.subprocess.Process, ledger: Path, patience_s: float) -> None:
        self._process = process
        self._ledger = ledger
        self._patience_s = patience_s
        self.versions: dict[str, str] = {}

    async def line(self, timeout_s: float) -> str:
        """What it says next; raises RuntimeError when it has ended instead."""
        assert self._process.stdout is not None
        async with asyncio.timeout(timeout_s):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"The sending process ended with status {await self._process.wait()}.")
        return line.decode().strip()

    async def end(self) -> Ledger:
        """Let it stop sending and wait for its outcomes."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        async with asyncio.timeout(3 * self._patience_s + RESOLVE_S + _BACKSTOP_S):
            status = await self._process.wait()
        if status != 0:
            raise RuntimeError(f"The sending process ended with status {status}.")
        return await asyncio.to_thread(Ledger.read, self._ledger)


@asynccontextmanager
async def _load(
    cluster: KafkaCluster, options: Options, topics: list[str], log_in: dict[str, Any], progress: Progress
) -> AsyncIterator[_Process]:
    """The sending process, once each partition has taken a record; killed when it is still there at the end."""
    mode: Mode = MODES[options.mode]
    patience_s = mode.deadline_s + _PATIENCE_S
    with tempfile.TemporaryDirectory() as folder:
        job = Job(
            client=options.client,
            settings=mode.settings[options.client] | log_in,
            bootstrap_servers=cluster.bootstrap_servers,
            topics={topic: TOPICS[topic] for topic in topics},
            patience_s=patience_s,
            ledger=f"{folder}/ledger",
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "integration.chaos.worker", job.to_json()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=_ROOT,
        )
        load = _Process(process, Path(job.ledger), patience_s)
        try:
            load.versions = json.loads(await load.line(_READY_TIMEOUT_S))
            await load.line(_READY_TIMEOUT_S)
            progress(f"{options.client} sends")
            yield load
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
