"""Bringing the records of a folder to Kafka, while another process may write to it."""

from __future__ import annotations

import asyncio
from typing import Self

from aioprod.config import ProducerConfig
from aioprod.interceptors import Interceptors
from aioprod.relay.loop import Surroundings
from aioprod.spool.relaying import RelayTerms, new_relay
from aioprod.spool.source import SpoolSource
from aioprod.spool.storage import Storage
from aioprod.spool.store import Limits, Store
from aioprod.spool.waiters import Watched

__all__ = ["SpoolDrain"]


class SpoolDrain:
    """The relay of one folder, for as long as it is open."""

    def __init__(
        self,
        store: Store,
        source: SpoolSource,
        progress: asyncio.Event,
        config: ProducerConfig,
        terms: RelayTerms,
        surroundings: Surroundings,
    ) -> None:
        self._store = store
        self._progress = progress
        """Set by the source when records were delivered, or when there are no more."""
        self.source = source
        # No caller of this process waits for a record.
        watched = Watched(Interceptors(), lambda: None)
        self.relay = new_relay(source, config, terms, watched=watched, on_error=None, surroundings=surroundings)

    @classmethod
    async def open(
        cls, storage: Storage, config: ProducerConfig, terms: RelayTerms, surroundings: Surroundings | None = None
    ) -> Self:
        """Open a folder; raises SpoolError where it is none, or another process relays it."""
        store = await Store.open(storage, Limits(0, 0, 0), writes=False)
        progress = asyncio.Event()
        try:
            source = await SpoolSource.of(store, progress.set)
            return cls(store, source, progress, config, terms, surroundings or Surroundings())
        except BaseException:
            await store.close()
            raise

    async def run(self, *, until_empty: bool = False) -> None:
        """Bring records to Kafka until cancelled, or until there are none; raises what no repetition mends."""
        relaying = asyncio.create_task(self.relay.run(), name="aioprod spool relay")
        relaying.add_done_callback(lambda _: self._progress.set())
        try:
            while not relaying.done() and not (until_empty and self.source.is_empty):
                self._progress.clear()
                await self._progress.wait()
        finally:
            relaying.cancel()
            await asyncio.wait([relaying])
        if not relaying.cancelled():
            relaying.result()

    async def close(self) -> None:
        """Unlock the folder."""
        await self._store.close()
