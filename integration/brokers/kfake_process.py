"""kfake, franz-go's broker: a Go program that is built once and cached."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aioprod.errors import AioprodError
from aioprod.testing import TcpProxy
from aioprod.testing.errors import KafkaStartError
from aioprod.testing.kafka import rpc
from aioprod.testing.kafka.broker_properties import HOST, free_ports
from aioprod.testing.kafka.cache import cache_folder, log_progress, once
from integration.brokers.broker import NotRunError

__all__ = ["kfake"]

START_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.1
_SOURCE: Final = Path(__file__).parent / "kfake"


@asynccontextmanager
async def kfake() -> AsyncIterator[TcpProxy]:
    """One kfake; the proxy in front of it.

    Raises NotRunError where there is no Go, KafkaStartError when it can't be built or does not come up.
    """
    program = await asyncio.to_thread(_built)
    [ports] = free_ports(1)
    async with TcpProxy(f"{HOST}:{ports.client}") as proxy:
        # It ends with its standard input, however this process ends.
        process = subprocess.Popen([program, str(ports.client), str(proxy.port)], stdin=subprocess.PIPE)
        try:
            await _wait_until_serving(process, rpc.Address(HOST, ports.client))
            yield proxy
        finally:
            await asyncio.to_thread(process.communicate)


def _built() -> Path:
    go = shutil.which("go")
    if go is None:
        raise NotRunError("no Go")
    sources = sorted(path for path in _SOURCE.iterdir() if path.is_file())
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:24]

    def build(folder: Path) -> None:
        built = subprocess.run(
            [go, "build", "-o", folder / "kfake", "."], cwd=_SOURCE, capture_output=True, text=True, check=False
        )
        if built.returncode:
            raise KafkaStartError(f"Go could not build kfake: {built.stderr[-2000:]}")

    return once(cache_folder() / f"kfake-{key}", build, log_progress) / "kfake"


async def _wait_until_serving(process: subprocess.Popen[bytes], address: rpc.Address) -> None:
    async with asyncio.timeout(START_TIMEOUT_S):
        while True:
            if process.poll() is not None:
                raise KafkaStartError(f"kfake has ended with {process.returncode}.")
            try:
                await rpc.brokers_seen(address)
                return
            except (OSError, AioprodError):
                await asyncio.sleep(_POLL_S)
