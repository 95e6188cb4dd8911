"""Tasks that a test runs beside itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

__all__ = ["running_task"]


@asynccontextmanager
async def running_task(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run `work` as a task, which is cancelled at the end of the block; its error is left to the block."""
    task: asyncio.Task[None] = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
