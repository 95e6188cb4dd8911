"""`run_spool_seed`: processes that use a spool and die, on a disk that tears, forgets, fails and fills up."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any

from aioprod._loops import look_at
from aioprod.errors import AioprodError, BufferFullError, RecordTooLargeError, SpoolError
from aioprod.spool.entries import encode_entry
from aioprod.spool.kept import Kept
from aioprod.spool.layout import seed_of
from aioprod.spool.reading import Position
from aioprod.spool.receipts import KeptWaiter
from aioprod.spool.storage import Storage
from aioprod.spool.store import Limits, Store
from aioprod.testing.simulation import SimulatedLoop
from tests.simulation.run import Result
from tests.simulation.spool_model import Call, SpoolModel
from tests.simulation.spool_plan import DiskFaults, SpoolPlan
from tests.support.simulated_disk import Disk, SimulatedFiles, storage_of
from tests.support.simulated_process import Process

__all__ = ["FailingFiles", "run_spool_seed"]

_LIFE_MAX_S = 2.0
"""Simulated seconds of a process that is killed."""
_CRASH_S = 0.1
"""So long a process that is to die at a call may make none."""
_UNREADABLE_S = 0.01
"""The pause after a read that has failed."""


def run_spool_seed(seed: int, show: Callable[[str], object] | None = None) -> Result:
    """Run one seed; `show` gets each line of the trace."""
    plan, result = SpoolPlan.draw(seed), Result(seed)
    logger = logging.getLogger("aioprod.spool")
    logger.disabled = show is None  # Failures and cuts are most of what happens.
    gc.disable()
    try:
        with SimulatedLoop(seed) as loop:
            loop.trace.show = show
            loop.set_exception_handler(lambda _, context: result.problems.append(f"asyncio: {context}"))
            try:
                loop.run(SpoolRun(plan, loop, result).all())
            except Exception as error:
                result.problems.append(f"{type(error).__name__}: {error}")
                loop.set_exception_handler(lambda _, context: None)
            result.digest, result.simulated_s = loop.trace.digest, loop.time() - 1000.0
    finally:
        gc.enable()
        logger.disabled = False  # Tests that run later look at what is logged.
    return result


class FailingFiles(SimulatedFiles):
    """Files whose calls fail now and then."""

    def __init__(self, disk: Disk, faults: DiskFaults, *, crash_at: int | None = None) -> None:
        super().__init__(disk, crash_at=crash_at, before=self._fail_now_and_then if faults.share else None)
        self.failures = 0
        self._faults = faults

    def _fail_now_and_then(self, call: str, name: str) -> None:
        if call in self._faults.calls and self.disk.random.random() < self._faults.share:
            self.failures += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class SpoolRun:
    """One run."""

    def __init__(self, plan: SpoolPlan, loop: SimulatedLoop, result: Result) -> None:
        self.plan = plan
        self.loop = loop
        self.result = result
        self.random = Random(f"spool {plan.seed}")
        self.disk = Disk(self.random, plan.faults.capacity)
        self.model = SpoolModel(result.problems)
        self._count = 0
        self._processes: dict[str, tuple[Process, SimulatedFiles]] = {}
        """Those that run, by what they do."""

    async def all(self) -> None:
        """Let processes live and die; then all has to be there."""
        if self.plan.is_shared:
            ended = asyncio.Event()
            reading = asyncio.ensure_future(self._read_again_and_again(ended))
            await self._live_again_and_again(reads=False)
            ended.set()
            await reading
        else:
            await self._live_again_and_again(reads=True)
        await self._check_all()

    # --- processes

    async def _live_again_and_again(self, *, reads: bool) -> None:
        for _ in range(self.plan.lives):
            await self._live("write", lambda storage: self._write(storage, reads=reads))
            await asyncio.sleep(self.random.random() * self.plan.pause_max_s)

    async def _read_again_and_again(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            await self._live("read", self._relay)
            await asyncio.sleep(0.001 + self.random.random() * self.plan.pause_max_s)

    async def _live(self, what: str, work: Callable[[Storage], Coroutine[Any, Any, None]]) -> None:
        """One process, from its start to its end."""
        plan, random = self.plan, self.random
        ends = "close" if random.random() < plan.closes else random.choice(["call", "time"])
        crash_at = random.randint(1, plan.crash_steps) if ends == "call" else None
        files, process = FailingFiles(self.disk, plan.faults, crash_at=crash_at), Process()
        storage = storage_of(files, slow_s=plan.slow_s, on_crash=lambda: self._die(process, files))
        self._processes[what] = process, files
        life_s = _LIFE_MAX_S if ends == "close" and what == "write" else random.random() * random.choice([0.01, 0.2, 2])
        killing = self.loop.call_later(life_s, self._die_soon, process, files)
        self.loop.trace(what, "starts:", ends, crash_at or "")
        try:
            await process.run(work(storage))
        except (AioprodError, OSError) as error:
            if not files.failures and not isinstance(error, BufferFullError) and not self._is_full(error):
                raise
            self.result.outcomes[f"{type(error).__name__} in {what}"] += 1
        finally:
            killing.cancel()
            files.is_dead = True
            files.close()
            self._processes.pop(what, None)

    def _is_full(self, error: AioprodError | OSError) -> bool:
        """Whether a full disk is the reason."""
        cause = error if isinstance(error, OSError) else error.__cause__
        return isinstance(cause, OSError) and cause.errno == errno.ENOSPC

    def _die_soon(self, process: Process, files: SimulatedFiles) -> None:
        """A process dies now, or at one of its next calls."""
        if self.random.random() < 0.5:
            self._die(process, files)
        else:
            files.crash_at = files.steps + self.random.randint(1, 4)
            self.loop.call_later(_CRASH_S, self._die, process, files)

    def _die(self, process: Process, files: SimulatedFiles) -> None:
        """A process is killed, or all are, as the power fails."""
        if process.is_dead:
            return
        if self.random.random() < self.plan.power_cuts:
            self.result.injected["power cut"] += 1
            self.loop.trace("power cut")
            for one, its_files in self._processes.values():
                its_files.is_dead = True
                one.kill()
            self.disk.cut_power()
        else:
            self.result.injected["kill"] += 1
            self.loop.trace("kill")
            files.is_dead = True
            files.close()
            process.kill()
            self.disk.evict()

    # --- what they do

    async def _write(self, storage: Storage, *, reads: bool) -> None:
        """Append, and read beside it."""
        store = await Store.open(storage, self.plan.limits, reads=reads)
        reading = asyncio.ensure_future(self._read(store)) if reads else None
        await asyncio.gather(*(self._append(store) for _ in range(self.plan.writers)))
        if reading is not None:
            if self.random.random() < 0.5:
                await asyncio.sleep(self.random.random() * self.random.choice([0.1, 1.0]))
            reading.cancel()
            await asyncio.wait([reading])
            if not reading.cancelled():
                reading.result()
        await store.close()
        self.loop.trace("closed", store.last_number, store.size)

    async def _append(self, store: Store) -> None:
        plan, random = self.plan, self.random
        seed = seed_of(store.spool_id)
        for _ in range(plan.appends):
            if plan.pause_max_s:
                await asyncio.sleep(random.random() * plan.pause_max_s)
            values = [self._value() for _ in range(random.randint(1, plan.records_max))]
            data = b"".join(encode_entry(b"t", None, value, b"\0", -1, 0, seed) for value in values)
            waiter = KeptWaiter(len(values), None)
            call = self.model.call(values, is_in_order=random.random() < 0.5)
            try:
                if call.is_in_order:
                    store.add(data, len(values), waiter, is_urgent=random.random() < 0.5)
                else:
                    await store.add_in_turn(data, len(values), waiter, random.random() * 0.1)
            except (BufferFullError, RecordTooLargeError, SpoolError) as error:
                self._refuse(call, error)
                continue
            if random.random() < 0.8:
                await asyncio.wait([waiter.future])
                self._note(call, waiter.future)
            else:
                waiter.future.add_done_callback(partial(self._note, call))

    def _value(self) -> bytes:
        self._count += 1
        # No zeros, which holes in files have.
        return b"%d:" % self._count + b"%d" % self._count * (self.random.randint(0, self.plan.size_max) // 3)

    def _note(self, call: Call, answer: asyncio.Future[Kept]) -> None:
        """A call was answered."""
        if answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            last = Position.of(answer.result().position)
            position = last._replace(number=last.number - len(call.values) + 1)
            self.loop.trace("kept", position.number, call.values[0].partition(b":")[0])
            self.model.kept(call, position)
            self.result.outcomes["kept"] += len(call.values)
        elif isinstance(error, AioprodError) and error.may_be_stored:
            self.result.outcomes["unknown"] += len(call.values)
        else:
            self._refuse(call, error)

    def _refuse(self, call: Call, error: BaseException) -> None:
        call.is_refused = True
        self.result.outcomes[f"{type(error).__name__}"] += len(call.values)

    async def _relay(self, storage: Storage) -> None:
        """Read what another process writes."""
        try:
            store = await Store.open(storage, Limits(0, 0, 0), writes=False)
        except SpoolError as error:
            if "has no file 'id'" not in str(error):  # Nothing has written yet.
                raise
            return
        await self._read(store)

    async def _read(self, store: Store) -> None:
        """Read and trim until cancelled."""
        plan, random, model = self.plan, self.random, self.model
        position = store.delivered_position
        if position is not None and (model.marker is None or position.number > Position.of(model.marker).number):
            model.problems.append(f"{position} was noted as delivered, and the marker is {model.marker!r}")
        after = model.marker
        while True:
            acknowledged = model.acknowledged
            try:
                reading = asyncio.ensure_future(store.read(after, random.randint(1, plan.read_max)))
                reading.add_done_callback(look_at)  # Where the process dies it is not awaited.
                if random.random() < plan.cancels:
                    await asyncio.sleep(random.random() * plan.slow_s)
                    reading.cancel()
                    await asyncio.wait([reading])
                    if reading.cancelled() or reading.exception() is not None:
                        continue
                rows = await reading
                self.loop.trace("read", len(rows), after)
                model.read(after, rows, acknowledged)
                if rows:
                    after = rows[-1][1]
                    if random.random() < plan.trims:
                        index = random.randrange(len(rows))
                        model.marker = rows[index][1]
                        self.loop.trace("marker", model.marker)
                        await store.delivered(model.marker)
                elif random.random() < 0.5:
                    await store.wait()
                else:
                    await asyncio.sleep(0.01)
            except OSError:
                await asyncio.sleep(_UNREADABLE_S)
            except SpoolError as error:
                if not isinstance(error.__cause__, OSError) and "could not be brought" not in str(error):
                    raise
                await asyncio.sleep(_UNREADABLE_S)

    # --- the end

    async def _check_all(self) -> None:
        """Without faults: all that was acknowledged is there, and more is accepted."""
        plan, model = self.plan, self.model
        self.disk.capacity = 1 << 40
        plan.faults.share = 0.0
        last = 0
        for _ in range(2):
            store = await Store.open(
                storage_of(SimulatedFiles(self.disk)), Limits(1 << 30, plan.limits.segment_bytes, 1 << 20)
            )
            after = model.marker
            while rows := await store.read(after, 100):
                model.read(after, rows, 0)
                after = rows[-1][1]
            if after is not None:
                last = Position.of(after).number
            model.check_end(last)
            self.loop.trace("there", last)
            await self._append(store)
            await store.drain()
            await store.close()
            self.disk.cut_power()
        model.check_order()
        self.result.outcomes["there"] = last
