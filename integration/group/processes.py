"""The members' processes: start them, let them leave, kill them, and read their reports."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aioprod.testing.kafka.jars import compile_java, java, kafka_libs
from integration.group.plan import CONFLUENT, JAVA, OURS, TRANSFORMER
from integration.group.programs.telling import Job
from integration.group.reports import Report

__all__ = ["Programs", "Running"]

_ROOT: Final = Path(__file__).parent.parent.parent
_JAVA: Final = Path(__file__).parent / "programs" / "JavaMember.java"
_JVM: Final = (
    "-Xmx96m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)

Hear = Callable[[Report], None]


class Programs:
    """The command of each kind of member; `version` is of Kafka's own consumer."""

    def __init__(self, version: str) -> None:
        libs = kafka_libs(version)
        classpath = os.pathsep.join([str(compile_java([_JAVA], libs)), str(libs / "*")])
        self._commands: dict[str, list[str]] = {
            OURS: [sys.executable, "-m", "integration.group.programs.ours"],
            TRANSFORMER: [sys.executable, "-m", "integration.group.programs.transformer"],
            CONFLUENT: [sys.executable, "-m", "integration.group.programs.confluent"],
            JAVA: [str(java()), *_JVM, "-cp", classpath, "JavaMember"],
        }

    async def start(self, kind: str, name: str, job: Job, folder: Path, hear: Hear) -> Running:
        """Start a member; what it says besides its reports goes to a file in `folder`."""
        log = folder / f"{name}.log"
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *self._commands[kind],
                job.to_json(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=_ROOT,
                limit=1 << 20,
            )
        return Running(name, process, log, hear)


class Running:
    """One member; `status` of its end is None while it runs."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path, hear: Hear) -> None:
        self.name = name
        self._process = process
        self._log = log
        self._hearing = asyncio.create_task(self._listen(hear))

    async def _listen(self, hear: Hear) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            # A process that was killed may have been in the middle of one.
            if line.endswith(b"\n"):
                hear(Report.parse(self.name, line))

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    def leave(self) -> None:
        """Ask it to leave the group and end."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def ended(self, timeout_s: float) -> str | None:
        """Wait for its end; what is wrong with it, None for nothing."""
        try:
            async with asyncio.timeout(timeout_s):
                status = await self._process.wait()
        except TimeoutError:
            return f"{self.name} did not end within {timeout_s:.0f} s; {self._said()}"
        await self._hearing
        return None if status == 0 else f"{self.name} ended with status {status}; {self._said()}"

    async def kill(self) -> None:
        """SIGKILL, and hear what it had said before."""
        if not self.has_ended:
            self._process.kill()
        await self._process.wait()
        await self._hearing

    def _said(self) -> str:
        return f"its last words: {self._log.read_text(errors='replace')[-2000:].strip() or 'none'}"
