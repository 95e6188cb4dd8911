"""The service and its relay as processes of this machine, each at a Unix socket in a folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx

from examples.orders.settings import Settings

__all__ = ["ServiceProcess"]

ROOT: Final = Path(__file__).parents[2]
READY_S: Final = 60.0
STOP_S: Final = 30.0


class ServiceProcess:
    """One process of uvicorn, from `start()` on; `module` has the `make_app` of its application.

    `client` sends requests to it; an async context manager, which stops the process and closes the client. Its log is
    `NAME.log` in the folder.
    """

    def __init__(self, module: str, folder: Path, settings: Settings) -> None:
        name = module.rpartition(".")[2]
        self._socket = folder / f"{name}.sock"
        self.log = folder / f"{name}.log"
        self._command = [
            *(sys.executable, "-m", "uvicorn", "--factory", f"{module}:make_app", "--uds", str(self._socket)),
            "--no-access-log",
        ]
        self._environment = {
            **os.environ,
            "DATABASE": settings.database,
            "KAFKA": settings.bootstrap_servers,
            "TOPIC": settings.topic,
            "TRANSACTIONAL_ID": settings.transactional_id,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(self._socket)), base_url="http://orders", timeout=60.0
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.aclose()
        await self.stop()

    def start(self) -> None:
        """Start the process; does not wait until it serves."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT, env=self._environment
            )

    async def until_ready(self) -> None:
        """Wait until it says that it is ready; raises RuntimeError if it ends, TimeoutError after a minute."""
        async with asyncio.timeout(READY_S):
            while not await self._is_ready():
                if self._process is None or self._process.poll() is not None:
                    raise RuntimeError(f"The process has ended: {self.log.read_text()[-2000:]}")
                await asyncio.sleep(0.05)

    async def _is_ready(self) -> bool:
        try:
            return (await self.client.get("/ready")).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    async def stop(self) -> None:
        """End it as an orchestrator does: by SIGTERM, and by SIGKILL if that takes too long."""
        if self._process is not None:
            self._process.terminate()
            try:
                await asyncio.to_thread(self._process.wait, STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None
