"""A disk of one broker that can be filled: a file system in memory, which only root can mount."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aioprod.testing import KafkaCluster

__all__ = ["SmallDisk", "can_mount", "small_disk"]

_BALLAST: Final = "ballast"
_BLOCKS: Final = (1 << 20, 1 << 12)


class SmallDisk:
    """The disk of broker `broker_id`, at `folder`."""

    def __init__(self, broker_id: int, folder: Path) -> None:
        self.broker_id = broker_id
        self._folder = folder

    async def fill(self) -> None:
        """Take all that is free; what the broker writes from now on fails."""
        await asyncio.to_thread(self._fill)

    def _fill(self) -> None:
        with open(self._folder / _BALLAST, "wb", buffering=0) as ballast:
            for size in _BLOCKS:
                try:
                    while True:
                        ballast.write(bytes(size))
                except OSError:
                    continue  # full, as far as blocks of this size go

    async def clear(self) -> None:
        """Give it back."""
        (self._folder / _BALLAST).unlink()


def can_mount() -> bool:
    """Whether this process may mount file systems: root, and not in every container."""
    if os.geteuid() != 0 or shutil.which("mount") is None or shutil.which("unshare") is None:
        return False
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@asynccontextmanager
async def small_disk(cluster: KafkaCluster, broker_id: int, size_mb: int) -> AsyncIterator[SmallDisk]:
    """Move the data of a broker to a disk of its own; the broker is dead at the end of the block, and its data gone."""
    folder = cluster.folder(broker_id) / "data"
    await cluster.stop_broker(broker_id)
    kept = folder.with_name("kept")
    folder.rename(kept)
    folder.mkdir()
    await _run("mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder))
    try:
        await asyncio.to_thread(shutil.copytree, kept, folder, dirs_exist_ok=True)
        shutil.rmtree(kept)
        await cluster.restart(broker_id)
        yield SmallDisk(broker_id, folder)
    finally:
        await cluster.kill(broker_id)
        await _run("umount", str(folder))


async def _run(*command: str) -> None:
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
