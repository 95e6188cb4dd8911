"""The same load by several clients, each in a process of its own, one after the other."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

from aioprod.cli.perf.load import Load
from aioprod.errors import AioprodError

__all__ = ["CompareError", "compare"]

_PROGRAM: Final = "aioprod.cli.perf.contender"


class CompareError(AioprodError):
    """The process of a client ended with an error."""


async def compare(
    names: Sequence[str],
    connection: Mapping[str, Any],
    load: Load,
    found: dict[str, dict[str, Any]],
    stream: TextIO,
) -> int:
    """Put the figures of each client into `found`, when it is done; `stream` shows whose turn it is.

    Raises CompareError.
    """
    for name in names:
        stream.write(f"{name} ...\n")
        stream.flush()
        job = {"client": name, "connection": connection, "load": load.to_dict()}
        found[name] = await _measured(name, json.dumps(job))
    return 0


async def _measured(name: str, job: str) -> dict[str, Any]:
    # The job comes by a pipe: arguments, and so the secrets in it, could be seen by others on this machine.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", _PROGRAM),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, said = await process.communicate(job.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        raise CompareError(f"The process of {name} ended with status {process.returncode}: {last}")
    document: dict[str, Any] = json.loads(out)
    return document
