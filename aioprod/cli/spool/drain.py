"""`aioprod spool drain`: one process brings the records of several folders to Kafka."""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from aioprod._words import counted
from aioprod.cli.progress import Progress
from aioprod.cli.spool.looking import failed
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError
from aioprod.spool.drain import SpoolDrain
from aioprod.spool.looking import files_of
from aioprod.spool.relaying import RelayTerms
from aioprod.spool.storage import Storage

__all__ = ["drain"]

_SHOWN_EVERY_S: Final = 0.5


class _Folder:
    """One folder on its way, and what became of it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.is_empty = False
        self.error: AioprodError | None = None
        self._drain: SpoolDrain | None = None
        self._aside_before = 0

    async def run(self, config: ProducerConfig, terms: RelayTerms, *, until_empty: bool) -> None:
        """Relay it until what no repetition mends ends it; with `until_empty` until nothing is left."""
        try:
            files_of(Path(self.folder)).close()  # Raises for one that is not there: it is not to be created.
            self._drain = drain = await SpoolDrain.open(await Storage.of_folder(Path(self.folder)), config, terms)
            self._aside_before = drain.source.aside_records
            try:
                await drain.run(until_empty=until_empty)
            finally:
                self.is_empty = drain.source.is_empty
                await drain.close()
        except AioprodError as error:
            self.error = error
            failed("drain", error.restated(f"{self.folder} is not relayed any more: {error.message}", hint=error.hint))

    @property
    def delivered(self) -> int:
        """The records that are in Kafka by this process."""
        return 0 if self._drain is None else self._drain.relay.metrics.records.value

    @property
    def set_aside(self) -> int:
        """The records that brokers did not take."""
        return 0 if self._drain is None else self._drain.source.aside_records - self._aside_before

    def document(self) -> dict[str, Any]:
        """What became of it, for programs."""
        error = None if self.error is None else {"type": type(self.error).__name__, "text": self.error.message}
        return {
            "folder": self.folder,
            "delivered": self.delivered,
            "set_aside": self.set_aside,
            "empty": self.is_empty,
            "error": error,
        }

    def __str__(self) -> str:
        aside = f", {self.set_aside:,} set aside" if self.set_aside else ""
        rest = "nothing is left" if self.is_empty else "the rest stays in the folder"
        return f"{self.folder}: {counted(self.delivered, 'record', ',')} delivered{aside}; {rest}"


async def drain(given: Namespace, config: ProducerConfig) -> int:
    """Relay all folders; returns 1 if one could not be relayed to its end."""
    terms = RelayTerms(
        is_exactly_once=given.delivery == "exactly-once",
        marker_topic=given.marker_topic,
        sets_aside=given.poison == "set-aside",
    )
    folders = [_Folder(folder) for folder in given.folders]
    showing = asyncio.create_task(_show(folders), name="aioprod spool shows")
    try:
        await asyncio.gather(*(one.run(config, terms, until_empty=given.until_empty) for one in folders))
    finally:
        showing.cancel()
        await asyncio.wait([showing])
        if given.json:
            sys.stdout.write(f"{json.dumps([one.document() for one in folders])}\n")
        else:
            sys.stderr.write("".join(f"{one}\n" for one in folders))
    return 1 if any(one.error is not None for one in folders) else 0


async def _show(folders: Sequence[_Folder]) -> None:
    progress = Progress(sys.stderr)
    try:
        while True:
            progress.show(lambda: f"{sum(one.delivered for one in folders):,} records delivered")
            await asyncio.sleep(_SHOWN_EVERY_S)
    finally:
        progress.clear()
