"""`output_of`: run a process to its end, within a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["ProcessFailedError", "output_of"]

_ROOT: Final = Path(__file__).parent.parent
_TIMEOUT_S: Final = 300.0


class ProcessFailedError(Exception):
    """A process has failed, or was not done in time; the message has the end of its errors."""


async def output_of(
    *command: str, folder: Path = _ROOT, environment: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """What a process writes to stdout and stderr; it is killed when it takes too long, or when this is cancelled.

    Raises ProcessFailedError.
    """
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            out, errors = (written.decode(errors="replace") for written in await process.communicate())
    except TimeoutError:
        raise ProcessFailedError(f"It was not done after {_TIMEOUT_S:.0f} s.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = errors.strip().splitlines() or [f"exit status {process.returncode}"]
        raise ProcessFailedError("\n".join(lines[-8:]))
    return out, errors
