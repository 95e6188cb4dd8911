"""The handler that all contenders in Python call, which measures their process."""

from __future__ import annotations

import asyncio
import time

from benchmarks.work.job import Job, Measurement
from tests.support.process_costs import cpu_s, peak_mb

__all__ = ["Handler"]


class Handler:
    """Waits, or does nothing, for each record; ends with `measured()` when all records are handled."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._wait_s = job.wait_ms / 1000
        self._begun = 0
        self._ended = 0
        self._busy: set[bytes | None] = set()
        self._overlaps = 0
        self._start = (0.0, 0.0)
        self._measured: asyncio.Future[Measurement] = asyncio.get_running_loop().create_future()

    async def handle(self, key: bytes | None) -> None:
        """Handle the record with this key."""
        if self._begun == self._job.warm_up:
            self._start = time.perf_counter(), cpu_s()
        self._begun += 1
        if self._wait_s:
            self._overlaps += key in self._busy
            self._busy.add(key)
            await asyncio.sleep(self._wait_s)
            self._busy.discard(key)
        self._ended += 1
        if self._ended == self._job.records:
            self._measured.set_result(self._measurement())

    async def measured(self) -> Measurement:
        """Wait until all records are handled."""
        return await asyncio.shield(self._measured)

    def _measurement(self) -> Measurement:
        wall_s, used_s = time.perf_counter() - self._start[0], cpu_s() - self._start[1]
        records = self._job.records - self._job.warm_up
        return Measurement(
            cpu_us=round(used_s / records * 1e6, 2),
            records_per_s=round(records / wall_s, 1),
            peak_mb=round(peak_mb(), 1),
            overlaps=self._overlaps,
        )
