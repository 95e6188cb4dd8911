"""A service as a process of this machine, at a Unix socket in a folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import httpx

__all__ = ["UvicornProcess"]

ROOT: Final = Path(__file__).parents[2]
READY_S: Final = 60.0


class UvicornProcess:
    """One process of uvicorn at a time, which runs the `make_app` of this module. Its log is in the folder.

    `client` sends requests to it. The end of the block ends both.
    """

    def __init__(self, module: str, folder: Path, environment: Mapping[str, str]) -> None:
        socket = str(folder / f"{module}.sock")
        self.log: Final = folder / f"{module}.log"
        self._command = [sys.executable, "-m", "uvicorn", "--factory", f"{module}:make_app", "--uds", socket]
        self._environment = os.environ | environment
        self._process: subprocess.Popen[bytes] | None = None
        transport = httpx.AsyncHTTPTransport(uds=socket)
        self.client: Final = httpx.AsyncClient(transport=transport, base_url="http://service", timeout=60.0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()
        if self._process is not None:
            self._process.terminate()
            await asyncio.to_thread(self._process.wait)

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
