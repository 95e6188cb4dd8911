"""Faults for exactly-once delivery, injected from outside by files: what fails, where, and when.

The fault of a step is a file in a folder that the driver, its planners and all tasks can see. The first process that
reaches the place removes the file and fails, so each fault happens once. aioprod itself has no code for it.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aioprod import TransactionSession
from aioprod.errors import TransactionUnknownError
from aioprod.producer.transactions.requests import CoordinatorRequests
from aioprod.spark.sink.rows import send_rows
from aioprod.spark.transactions import transaction
from aioprod.spark.transactions.reports import Report
from aioprod.spark.transactions.task import TaskIdentity, WriteTask, participating

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = [
    "DRIVER_POINTS",
    "TASK_FAULTS",
    "Faults",
    "FaultyTask",
    "SparksOwn",
    "break_driver",
    "fail_in_task",
    "freeze",
    "state_of",
    "wait_for",
]

TASK_FAULTS = ("task", "kill", "executor", "zombie", "slow", "slow-again")
"""A task raises after a part was stored; its process is killed; its executor is; it leaves a frozen process behind
which thaws in the next attempt; it goes on for longer than the transaction may, and does so once more."""

DRIVER_POINTS = ("init", "job", "offsets", "sent", "end")
"""The driver dies: after the transaction was begun, after the job, after the offsets were sent, when the request to
commit is on its way, after it was answered."""


_module: Any = transaction
_LONG_MS = 300_000


@dataclass(frozen=True)
class Faults:
    """The ordered faults, as files of a folder; may be pickled."""

    folder: Path

    def order(self, step: int, *names: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (self.folder / f"{step}.{name}").touch()

    def take(self, step: int, name: str) -> bool:
        """Whether it is ordered and has not happened yet; now it has."""
        try:
            (self.folder / f"{step}.{name}").unlink()
        except FileNotFoundError:
            return False
        return True

    def left(self) -> list[str]:
        """What has not happened."""
        return sorted(path.name for path in self.folder.glob("*.*") if path.suffix not in (".pid", ".heard"))


def wait_for(happened: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Look until it has happened; raises TimeoutError."""
    deadline = time.monotonic() + timeout_s
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError("It did not happen in time.")
        time.sleep(0.01)


# -- tasks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FaultyTask(WriteTask):
    """A task of host A that fails when it is its turn, after the first of its batches was stored."""

    faults: Faults = field(default=Faults(Path()))
    step: int = -1

    def write(self, identity: TaskIdentity, batches: Iterable[pa.RecordBatch]) -> Report:
        if identity.task == identity.tasks - 1:
            batches = self._failing(identity, iter(batches))
        return super().write(identity, batches)

    def _failing(self, identity: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches, None)
        if first is None:
            return
        thaw_zombie(self.faults, self.step)
        fault = next((name for name in TASK_FAULTS if self.faults.take(self.step, name)), None)
        if fault is not None:
            picked = self.columns.pick(first)
            with participating(self.handle, self.kafka) as producer:
                for _ in send_rows(producer, [picked], topic=self.topic):
                    pass
                fail_in_task(fault, self, picked, producer)
        yield first
        yield from batches


def fail_in_task(fault: str, task: Any, stored: pa.RecordBatch, producer: Any) -> None:
    """Do it, in the middle of a task; `task` has `handle`, `kafka`, `topic`, `faults` and `step`."""
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "executor":
        os.kill(_parent_of(os.getppid()), signal.SIGKILL)
    if fault.startswith("slow"):
        while True:  # until the brokers have enough of it
            for _ in send_rows(producer, [stored.slice(0, 1)], topic=task.topic):
                time.sleep(0.05)
    if fault == "zombie":
        _leave_zombie(task, stored.column("partition")[0].as_py())
    raise RuntimeError(f"injected: {fault}")


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def freeze() -> None:
    """Stop this process, here and now, until somebody thaws it.

    A signal to the process would stop its main thread first, and this one might go on to commit meanwhile.
    """
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def state_of(pid: int) -> str:
    """The state of a process as the kernel names it, T for a stopped one; empty for one that is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def _leave_zombie(task: Any, partition: int) -> None:
    """Start a process that takes part in this transaction, writes once, and freezes."""
    command = [sys.executable, "-m", "integration.spark.programs.zombie"]
    heard = task.faults.folder / f"{task.step}.heard"
    settings = {name: str(value) for name, value in task.kafka.items()}
    given = pickle.dumps((task.handle, settings, task.topic, partition, str(heard))).hex()
    process = subprocess.Popen([*command, given], stdout=subprocess.DEVNULL, start_new_session=True)
    wait_for(lambda: state_of(process.pid) in ("T", "Z", ""))
    (task.faults.folder / f"{task.step}.pid").write_text(str(process.pid))


def thaw_zombie(faults: Faults, step: int) -> None:
    """Let the one of the attempt before go on, and wait until it has told what became of it."""
    path = faults.folder / f"{step}.pid"
    if path.exists():
        os.kill(int(path.read_text()), signal.SIGCONT)
        path.unlink()
        wait_for((faults.folder / f"{step}.heard").exists)


# -- Spark's own sink ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Breaks:
    """Passes a task's rows on, and fails after the first of its batches where that is ordered."""

    faults: Faults
    step: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 1 and context.partitionId() == 1:
                for fault in ("task", "kill", "executor"):
                    if self.faults.take(self.step, fault):
                        time.sleep(0.5)  # the sink, in the JVM, has the rows before these
                        fail_in_task(fault, None, batch, None)
            yield batch


@dataclass(frozen=True)
class SparksOwn:
    """What `foreachBatch` calls to write with Spark's own Kafka sink, under the faults that mean something to it."""

    servers: str
    topic: str
    faults: Faults
    die: Callable[[str], None]

    def __call__(self, df: DataFrame, step: int) -> None:
        if self.faults.take(step, "init"):
            self.die("init")
        rows = df.mapInArrow(_Breaks(self.faults, step), df.schema)
        rows.write.format("kafka").options(**{"kafka.bootstrap.servers": self.servers, "topic": self.topic}).save()
        for point in DRIVER_POINTS:
            if self.faults.take(step, point):
                self.die(point)


# -- the driver ------------------------------------------------------------------------------------------------------


def break_driver(faults: Faults, die: Callable[[str], None]) -> Callable[[], None]:
    """Have this process's `Transactions` fail as ordered: tasks, and `die(point)` at the driver's own points.

    `lost`: the answer to a commit that was carried out; `rival`: somebody takes over before the commit; `freeze`: the
    driver stops before it, until somebody thaws it. Returns what puts everything back.
    """
    step = -1
    originals = (
        transaction.Transactions.write,
        _module.WriteTask,
        TransactionSession.begin,
        TransactionSession.send_offsets,
        TransactionSession.commit,
        CoordinatorRequests.end,
    )
    write, _, begin, send_offsets, commit, end = originals

    def faulty_write(self: Any, df: Any, number: int, **options: Any) -> Any:
        nonlocal step
        step = number
        return write(self, df, number, **options)

    def faulty_task(*arguments: Any, **options: Any) -> FaultyTask:
        return FaultyTask(*arguments, **{**options, "faults": faults, "step": step})

    def dies(point: str) -> None:
        if faults.take(step, point):
            die(point)

    async def faulty_begin(self: Any) -> Any:
        # Only what is meant to be too slow is, however busy this machine may be.
        is_slow = any((faults.folder / f"{step}.{name}").exists() for name in ("slow", "slow-again"))
        self._coordination._timeout_ms = self.config.transaction_timeout_ms if is_slow else _LONG_MS
        handle = await begin(self)
        dies("init")
        return handle

    async def faulty_send_offsets(self: Any, *arguments: Any) -> None:
        dies("job")
        if faults.take(step, "freeze"):
            freeze()
        if faults.take(step, "rival"):
            rival = TransactionSession(config=self.config)
            await rival.start()
            await begin(rival)
            await rival.close()
        await send_offsets(self, *arguments)
        dies("offsets")

    async def faulty_commit(self: Any) -> None:
        await commit(self)
        dies("end")
        if faults.take(step, "lost"):
            raise TransactionUnknownError("injected: the answer is lost")

    async def faulty_end(self: Any, *arguments: Any, **options: Any) -> None:
        if not faults.take(step, "sent"):
            await end(self, *arguments, **options)
            return
        await _begun(end(self, *arguments, **options))
        die("sent")

    def put(write: Any, task: Any, begin: Any, send_offsets: Any, commit: Any, end: Any) -> None:
        transaction.Transactions.write = write  # type: ignore[method-assign]
        _module.WriteTask = task
        TransactionSession.begin = begin  # type: ignore[method-assign]
        TransactionSession.send_offsets = send_offsets  # type: ignore[method-assign]
        TransactionSession.commit = commit  # type: ignore[method-assign]
        CoordinatorRequests.end = end  # type: ignore[method-assign]

    put(faulty_write, faulty_task, faulty_begin, faulty_send_offsets, faulty_commit, faulty_end)
    return lambda: put(*originals)


async def _begun(call: Awaitable[Any]) -> None:
    """Begin a call, and leave it when its request is written: whether it is carried out is not for us to know."""
    running = asyncio.ensure_future(call)
    for _ in range(20):
        await asyncio.sleep(0)
    del running
