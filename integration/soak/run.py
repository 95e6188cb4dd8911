"""One run: three brokers, the process that sends and reads, and faults in turn."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from aioprod.testing import KafkaCluster, Security
from aioprod.testing.kafka.jars import DEFAULT_VERSION
from integration.chaos.brokers import PROPERTIES, Brokers
from integration.chaos.faults import Stage
from integration.chaos.modes import MAIN, SOLO, TOPICS
from integration.soak.rotation import ROTATED, Rotation
from integration.soak.verdict import Fault, Sample
from integration.soak.worker import Job
from tests.support.environment import environment

__all__ = ["FAULTS", "Options", "Run", "run"]

FAULTS: Final = (
    "leader killed",
    ROTATED,
    "leader frozen",
    "connections cut mid-frame",
    "leaders moved by reassignment",
    "rolling restart",
)
"""In turn; what they do is in `integration/chaos/faults.py` and `rotation.py`."""

_ROOT: Final = Path(__file__).parents[2]
_SESSION_MS: Final = 10_000
_FAULT_EACH_S: Final = 120.0
_CALM_S: Final = 15.0
_SAMPLES_MAX: Final = 720
_READY_S: Final = 120.0
_RELOAD_S: Final = 120.0
_END_S: Final = 400.0
_MIB: Final = 2**20
# A run of an hour writes more than a gigabyte to each broker; the reader is seconds behind the sender.
_KEPT: Final[dict[str, Any]] = {
    "log_retention_bytes": 16 * _MIB,
    "log_segment_bytes": 4 * _MIB,
    "log_retention_check_interval_ms": 10_000,
}

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """`rate` is records a second, of all styles together; each of `faults` happens at least once."""

    minutes: float = 60.0
    rate: float = 3000.0
    kafka: str = DEFAULT_VERSION
    seed: int = 1
    faults: tuple[str, ...] = FAULTS


@dataclass(slots=True)
class Run:
    """What a run has left; `ended` is what the process said last, None when it ended early, for the reason `error`."""

    options: Options
    environment: dict[str, Any]
    samples: list[Sample] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    ended: dict[str, Any] | None = None
    error: str | None = None
    interrupted: bool = False


async def run(options: Options, progress: Progress) -> Run:
    """Run until the time is over, or SIGINT comes: what was found until then is returned in either case."""
    found = Run(options, environment())
    progress(f"starting 3 brokers of Kafka {options.kafka}")
    security = Security(mechanisms=["SCRAM-SHA-512"], client_certificates=True, session_ms=_SESSION_MS)
    cluster = await KafkaCluster.start(
        3, options.kafka, "local", proxied=True, security=security, **PROPERTIES, **_KEPT
    )
    async with cluster:
        with tempfile.TemporaryDirectory() as folder:
            rotation = Rotation(cluster, security, Path(folder))
            brokers = Brokers(cluster)
            await brokers.create_topics([MAIN, SOLO])
            stage = Stage(brokers, random.Random(options.seed), None)
            job = Job(
                bootstrap_servers=cluster.bootstrap_servers,
                settings=rotation.client_options(),
                topic=MAIN,
                partitions=TOPICS[MAIN],
                rate=options.rate,
                sample_each_s=max(1.0, options.minutes * 60 / _SAMPLES_MAX),
            )
            try:
                async with brokers.watched(), _client(job, found) as client:
                    progress(f"sending {options.rate:g} records a second for {options.minutes:g} min; Ctrl-C ends it")
                    await _Play(options, found, client, stage, rotation, progress).run()
                    progress("waiting for the last records")
                    await client.end()
            except Exception as error:  # A fault that could not be played is no reason to lose the rest.
                found.error = f"{type(error).__name__}: {error}"
    return found


class _Client:
    """The process that sends and reads; its samples go to the run."""

    def __init__(self, process: asyncio.subprocess.Process, found: Run) -> None:
        self._process = process
        self._found = found
        self._reloaded = asyncio.Event()
        self.sampled = asyncio.Event()
        self.gone = asyncio.Event()

    async def listen(self) -> None:
        """Take what it says, until it ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            if "sample" in said:
                self._found.samples.append(Sample(**said["sample"]))
                self.sampled.set()
            elif "reloaded" in said:
                self._reloaded.set()
            else:
                self._found.ended = said["ended"]
        self.gone.set()
        self.sampled.set()
        self._reloaded.set()

    async def reload(self) -> None:
        """Have it take up its certificates."""
        self._reloaded.clear()
        self._tell(b"reload\n")
        async with asyncio.timeout(_RELOAD_S):
            await self._reloaded.wait()
        self.check()

    async def end(self) -> None:
        """Let it stop sending and wait for its outcomes."""
        self._tell(b"end\n")
        async with asyncio.timeout(_END_S):
            await self.gone.wait()
        if self._found.ended is None:
            self.check()

    def check(self) -> None:
        """Raises RuntimeError when it is gone."""
        if self.gone.is_set():
            raise RuntimeError("The sending process has ended; what it said of that is above.")

    def _tell(self, line: bytes) -> None:
        self.check()
        assert self._process.stdin is not None
        self._process.stdin.write(line)


@asynccontextmanager
async def _client(job: Job, found: Run) -> AsyncIterator[_Client]:
    """The process, once it has sampled itself; killed when it is still there at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "integration.soak.worker"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=_ROOT,
        start_new_session=True,  # Ctrl-C is for the process that reports.
        limit=_MIB,
    )
    assert process.stdin is not None
    client = _Client(process, found)
    listening = asyncio.create_task(client.listen())
    try:
        process.stdin.write(job.to_json().encode() + b"\n")
        async with asyncio.timeout(_READY_S):
            await client.sampled.wait()
        client.check()
        yield client
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await listening


class _Play:
    """Faults in turn, evenly over the time, each at least once; then some calm for the last samples."""

    def __init__(
        self, options: Options, found: Run, client: _Client, stage: Stage, rotation: Rotation, progress: Progress
    ) -> None:
        self._options = options
        self._found = found
        self._client = client
        self._stage = stage
        self._rotation = rotation
        self._progress = progress
        self._stopped = asyncio.Event()
        self._began = time.monotonic() - found.samples[-1].at_s

    async def run(self) -> None:
        """Play, until the time is over, the client is gone, or SIGINT comes; a second SIGINT ends everything."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        try:
            await self._play()
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _interrupted(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        self._progress("interrupted: reporting what there is")
        self._found.interrupted = True
        self._stopped.set()

    async def _play(self) -> None:
        seconds = self._options.minutes * 60
        faults = self._options.faults
        pause_s = min(_FAULT_EACH_S, seconds / (len(faults) + 1))
        for played, name in enumerate(cycle(faults)):
            await self._wait((played + 1) * pause_s)
            if self._stopped.is_set() or (played >= len(faults) and self._now + _CALM_S + pause_s > seconds):
                break
            start_s = self._now
            self._progress(f"{start_s:.0f} s: {name}")
            if name == ROTATED:
                await self._rotation.rotate(self._client.reload)
            else:
                await self._stage.play(name)
            self._found.faults.append(Fault(name, round(start_s, 1), round(self._now, 1)))
        await self._wait(max(seconds, self._now + _CALM_S))

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    async def _wait(self, until_s: float) -> None:
        """Until that second of the run; raises RuntimeError when the client is gone."""
        gone = asyncio.create_task(self._client.gone.wait())
        stopped = asyncio.create_task(self._stopped.wait())
        await asyncio.wait([gone, stopped], timeout=max(0.0, until_s - self._now), return_when=asyncio.FIRST_COMPLETED)
        for task in (gone, stopped):
            task.cancel()
        self._client.check()
