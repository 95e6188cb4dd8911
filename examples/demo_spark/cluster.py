"""A Spark cluster of two executors on this machine, one of which is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark
from pyspark.sql import SparkSession

from aioprod.admin import Admin

__all__ = ["ExecutorKiller", "local_cluster"]

LOOK_EVERY_S = 0.05


def local_cluster() -> SparkSession:
    """Two executors, each a JVM of its own with one slot, on loopback and with this interpreter."""
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": str(Path.cwd()),
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.appName("aioprod demo").master("local-cluster[2,1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


class ExecutorKiller:
    """Kills one executor as soon as the first records of a topic are stored: in the middle of a transaction."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers
        self._topic = topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.killed: int | None = None
        """The process that was killed."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        asyncio.run(self._wait())
        executors = _executors()
        if executors and not self._over.is_set():
            os.kill(executors[0], signal.SIGKILL)
            self.killed = executors[0]

    async def _wait(self) -> None:
        async with Admin(self._servers) as admin:
            while not self._over.is_set():
                if any((await admin.offsets(self._topic, "latest")).values()):
                    return
                await asyncio.sleep(LOOK_EVERY_S)


def _executors() -> list[int]:
    """The processes of Spark's executors that descend from this one."""
    parents: dict[int, int] = {}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat, command = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        pid = int(folder.name)
        parents[pid] = int(stat[stat.rindex(")") + 2 :].split()[1])
        if b"CoarseGrainedExecutorBackend" in command:
            found.append(pid)
    return sorted(pid for pid in found if _descends(pid, parents))


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == os.getpid():
            return True
    return False
