"""The process that is watched: it sends in every style, reads all of it back, and says every few seconds how it is.

`python -m integration.soak.worker` reads a `Job` as a line of JSON, then the lines "reload" (the files with
certificates have changed) and "end"; it writes lines of JSON: samples, and at the end what became of all records.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from aioprod import Producer
from aioprod.errors import AioprodError
from aioprod.group import Member
from integration.chaos.ledger import Place, sequence_of
from integration.soak.styles import STYLES, Styles
from integration.soak.trail import Flaws, Trail
from integration.soak.verdict import Sample
from tests.support.process_costs import LoopBeat, cpu_s, resident_mb

__all__ = ["Job", "main"]

CHUNK: Final = 25
"""The records of one call of a style."""
_UNTOLD_MAX: Final = 20_000
_WAIT_S: Final = 0.1
_COMMIT_EACH_S: Final = 5.0
_END_S: Final = 150.0  # longer than the deadline of delivery
_RELOAD_S: Final = 90.0
_READ_MAX: Final = 2000


@dataclass(frozen=True, slots=True)
class Job:
    """What the process is told; `rate` is records a second, of all styles together."""

    bootstrap_servers: str
    settings: dict[str, Any]
    topic: str
    partitions: int
    rate: float
    sample_each_s: float

    def to_json(self) -> str:
        """As one line."""
        return json.dumps(asdict(self))


class Load:
    """The senders, the reader and the samples of a run."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.flaws = Flaws()
        self.trails = {index: Trail(Place(job.topic, index), self.flaws) for index in range(job.partitions)}
        self.styles = Styles(job.topic, self.trails, self._producer)
        self.member = Member(
            job.bootstrap_servers,
            group_id="soak",
            topics=[job.topic],
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            config=job.settings,
        )
        self._is_ending = False
        self._began = time.monotonic()

    def _producer(self, transactional_id: str | None) -> Producer:
        settings = self._job.settings | ({"transactional_id": transactional_id} if transactional_id else {})
        return Producer(self._job.bootstrap_servers, **settings)

    async def run(self, lines: asyncio.StreamReader) -> dict[str, Any]:
        """Send and read until "end" is read; returns what is to be said of it."""
        asyncio.get_running_loop().set_exception_handler(self._unhandled)
        await self.styles.start()
        await self.member.start()
        reading = asyncio.create_task(self._read())
        sampling = asyncio.create_task(self._sample())
        sending = [asyncio.create_task(self._send(at, name)) for at, name in enumerate(STYLES)]
        while await lines.readline() == b"reload\n":
            _say({"reloaded": await self._reload()})
        sampling.cancel()
        self._is_ending = True
        await self._settled(sending)
        reading.cancel()
        await asyncio.wait([reading, sampling])
        for task in (reading, sampling):
            if not task.cancelled() and (error := task.exception()) is not None:
                self.flaws.add("ended early", f"{task.get_name()}: {error!r}")
        for trail in self.trails.values():
            trail.end()
        metrics = {f"producer_{name}": value for name, value in self.styles.clients[0].metrics().items()}
        metrics |= {f"member_{name}": value for name, value in self.member.metrics().items()}
        await self.styles.close()
        await self.member.close()
        return {
            "flaws": dict(self.flaws.counts),
            "examples": dict(self.flaws.examples),
            "errors": self.styles.errors,
            "sample": self._sampled(0.0).to_dict(),
            "read_again": sum(trail.read_again for trail in self.trails.values()),
            "metrics": metrics,
        }

    async def _settled(self, sending: list[asyncio.Task[None]]) -> None:
        """All outcomes are told and everything delivered is read, or it takes too long: then the check says so."""
        done, late = await asyncio.wait(sending, timeout=_END_S)
        for task in late:
            task.cancel()
        for task in done:
            if (error := task.exception()) is not None:
                self.flaws.add("ended early", f"a sender: {error!r}")
        until = time.monotonic() + _END_S
        while time.monotonic() < until and not all(trail.is_read for trail in self.trails.values()):
            await asyncio.sleep(_WAIT_S)

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.flaws.add("unhandled", f"{context.get('message')}: {context.get('exception')!r}")

    async def _send(self, at: int, name: str) -> None:
        """Send by one style, in turn to each of its partitions, at its share of the rate; what was missed is left."""
        loop = asyncio.get_running_loop()
        style: Callable[[int, int], Awaitable[None]] = getattr(self.styles, name)
        own = range(at, self._job.partitions, len(STYLES))
        pause_s = CHUNK / (self._job.rate / len(STYLES))
        due = loop.time()
        while not self._is_ending:
            for index in own:
                while self.trails[index].untold > _UNTOLD_MAX and not self._is_ending:
                    await asyncio.sleep(_WAIT_S)
                await style(index, CHUNK)
                due = max(due + pause_s, loop.time())
                await asyncio.sleep(due - loop.time())

    async def _read(self) -> None:
        committed_at = time.monotonic()
        async for batch in self.member.batches(max_records=_READ_MAX, max_wait_ms=200):
            for record in batch:
                self.trails[record.partition].note_read(record.offset, sequence_of(record.value or b""))
            if time.monotonic() > committed_at + _COMMIT_EACH_S:
                committed_at = time.monotonic()
                try:
                    await self.member.commit()
                except AioprodError as error:
                    kind = f"commit: {type(error).__name__}"
                    self.styles.errors[kind] = self.styles.errors.get(kind, 0) + 1

    async def _reload(self) -> int:
        """Have all clients take up the files, until the brokers, which take their time, accept what is in them."""
        refused = 0
        async with asyncio.timeout(_RELOAD_S):
            clients: list[Producer | Member] = [*self.styles.clients, self.member]
            for client in clients:
                while True:
                    try:
                        await client.reload_credentials()
                        break
                    except AioprodError:
                        refused += 1
                        await asyncio.sleep(_WAIT_S)
        return refused

    async def _sample(self) -> None:
        while True:
            beat = LoopBeat("timer")
            beat.start()
            await asyncio.sleep(self._job.sample_each_s)
            beat.stop()
            _say({"sample": self._sampled((beat.gap_s or 0.0) * 1000).to_dict()})

    def _sampled(self, gap_ms: float) -> Sample:
        trails = self.trails.values()
        handles = _handles()
        return Sample(
            at_s=round(time.monotonic() - self._began, 2),
            rss_mb=round(resident_mb(), 2),
            tasks=len(asyncio.all_tasks()) - self.styles.tasks,
            sockets=sum(what.startswith("socket:") for what in handles),
            threads=len(os.listdir("/proc/self/task")),
            handles=len(handles),
            objects=len(gc.get_objects()),
            cpu_s=round(cpu_s(), 2),
            gap_ms=round(gap_ms, 1),
            sent=sum(trail.sent for trail in trails),
            acked=sum(trail.delivered for trail in trails),
            failed=sum(trail.failed for trail in trails),
            read=sum(trail.read for trail in trails),
            held=sum(trail.held for trail in trails),
        )


def _handles() -> list[str]:
    """What the open file handles are; the one that lists them is closed by then."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(str(Path(f"/proc/self/fd/{name}").readlink()))
        except OSError:
            continue
    return found


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


async def main() -> None:
    """Run the job that stands on stdin."""
    logging.getLogger("aioprod").setLevel(logging.CRITICAL)  # It tells of trouble, of which there is plenty.
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    job = Job(**json.loads(await lines.readline()))
    _say({"ended": await Load(job).run(lines)})


if __name__ == "__main__":
    asyncio.run(main())
