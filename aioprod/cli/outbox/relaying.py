"""`aioprod outbox relay`: a process that brings the rows of a table to Kafka, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import sys
from argparse import Namespace
from contextlib import AsyncExitStack
from typing import Final, TextIO

from aioprod._words import counted
from aioprod.cli.outbox.database import Table
from aioprod.cli.outbox.probes import Probes
from aioprod.cli.progress import Progress
from aioprod.config import ProducerConfig
from aioprod.relay import Relay

__all__ = ["relay"]

_SHOWN_EVERY_S: Final = 0.5


async def relay(given: Namespace, config: ProducerConfig, table: Table) -> int:
    """Relay until it is cancelled; returns 0 then. Raises what ends a relay, or keeps it from its table."""
    progress = Progress(sys.stderr)
    _log(progress)
    running = Relay(
        table, config=config, transactional_id=given.id, marker_topic=given.marker_topic, delivery=given.delivery
    )
    showing = asyncio.create_task(_show(running, table, progress), name="aioprod outbox shows")
    try:
        async with AsyncExitStack() as stack:
            if given.listen is not None:
                await stack.enter_async_context(Probes(running, table, given.listen))
            await stack.enter_async_context(table)
            await running.run()
    except asyncio.CancelledError:  # By a signal, as a relay has no other end.
        return 0
    finally:
        showing.cancel()
        await asyncio.wait([showing])
        sys.stderr.write(f"{counted(_delivered(running), 'record', ',')} delivered; the rest stays in the table.\n")


class _Lines(logging.StreamHandler[TextIO]):
    """Writes a line of the log in place of the progress, which comes again."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(sys.stderr)
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        """Write it."""
        self._progress.clear()
        super().emit(record)


def _log(progress: Progress) -> None:
    """Let people see which relay has the table, and where it continues, beside the warnings."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", handlers=[_Lines(progress)])
    for name in ("aioprod.outbox", "aioprod.relay"):
        logging.getLogger(name).setLevel(logging.INFO)


def _delivered(running: Relay) -> int:
    return int(running.metrics()["relay_records_total"])


async def _show(running: Relay, table: Table, progress: Progress) -> None:
    def line() -> str:
        waiting = counted(table.health().waiting_rows, "row", ",")
        return f"{counted(_delivered(running), 'record', ',')} delivered, {waiting} in the table"

    try:
        while True:
            progress.show(line)
            await asyncio.sleep(_SHOWN_EVERY_S)
    finally:
        progress.clear()
