"""`LocalNode`: a broker of the `local` backend, a JVM process of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aioprod.testing.errors import KafkaStartError, ToolError
from aioprod.testing.kafka.broker_properties import properties_text
from aioprod.testing.kafka.cache import run_tool

__all__ = ["LocalNode"]

_STOP_TIMEOUT_S: Final = 30.0
_KILL_TIMEOUT_S: Final = 30.0
_LOG_TAIL_BYTES: Final = 6000
_QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


@dataclass(slots=True)
class LocalNode:
    """One broker as a process with its files in `folder`; all methods block.

    `java` is the command that starts a JVM, `broker_options` are for that of the broker alone, `libs` is the folder of
    Kafka's jars; `changed` is called when a process was started or has ended.
    """

    node_id: int
    folder: Path
    java: Sequence[str]
    libs: Path
    properties: Mapping[str, str]
    format_options: Sequence[str]
    cluster_id: str
    changed: Callable[[], None]
    broker_options: Sequence[str] = ()
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def pid(self) -> int | None:
        """The id of the running process, or None."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the broker's process, formatting its data folder the first time; does not wait until it serves."""
        settings = self.folder / "server.properties"
        if not settings.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            settings.write_text(properties_text(self.properties))
            self._format(settings)
        with self._log.open("ab") as log:
            # In its own session, it gets no SIGINT from the terminal: the tests do, and then close the cluster.
            self._process = subprocess.Popen(
                [*self._java_on_jars(*self.broker_options), "kafka.Kafka", str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )
        self.changed()

    def alive(self) -> bool:
        """Whether the process exists, frozen or not."""
        return self.pid is not None

    def kill(self) -> None:
        """Kill the process (SIGKILL), as a crash does."""
        self._end(signal.SIGKILL, _KILL_TIMEOUT_S)

    def stop(self) -> None:
        """Shut the broker down (SIGTERM); after 30 s it is killed."""
        try:
            self._end(signal.SIGTERM, _STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def pause(self) -> None:
        """Freeze the process (SIGSTOP); its connections stay open."""
        self._signal(signal.SIGSTOP)
        if self.pid is not None:
            # The signal stops one thread first; wait until the whole process is stopped.
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Resume a frozen process (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        """Kill the process; the backend removes the folder."""
        self.kill()

    def log(self) -> str:
        """The end of the broker's log."""
        with suppress(FileNotFoundError), self._log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
        return ""

    @property
    def _log(self) -> Path:
        return self.folder / "broker.log"

    def _java_on_jars(self, *options: str) -> list[str]:
        return [*self.java, *options, "-cp", f"{self.libs}/*"]

    def _format(self, settings: Path) -> None:
        tool = [*self._java_on_jars(_QUIET), "kafka.tools.StorageTool", "format"]
        try:
            run_tool([*tool, "-t", self.cluster_id, "-c", settings, *self.format_options])
        except ToolError as error:
            raise KafkaStartError(f"Broker {self.node_id} could not format its data: {error.message}") from error

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _end(self, number: signal.Signals, timeout_s: float) -> None:
        self._signal(number)
        if self._process is not None:
            self._process.wait(timeout_s)
        self.changed()
