"""`Spool`: a queue of records in a folder, without Kafka."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aioprod.calls.session import check_topic_name
from aioprod.errors import ConfigError, RecordTooLargeError, UsageError
from aioprod.interceptors import Interceptors
from aioprod.producer.preparation import Preparation, Prepared
from aioprod.spool.entries import encode_entry
from aioprod.spool.layout import seed_of
from aioprod.spool.receipts import KeptWaiter
from aioprod.spool.storage import Storage
from aioprod.spool.store import Limits, Store
from aioprod.types import ProducerRecord

__all__ = ["MAX_BYTES", "Spool", "encoded", "limits_of"]

MAX_BYTES: Final = 1 << 30
SEGMENT_BYTES: Final = 64 << 20
_PENDING_BYTES: Final = 32 << 20
_CALL_MAX: Final = 1 << 30
"""The bytes of one call: a group, and a record, have less than 2 GiB."""
_LEAST: Final = 1 << 16
"""The least bytes of a spool."""


class Spool:
    """A queue of records on disk: what `append` has returned for is there after a crash, until it is trimmed.

        async with Spool("/var/lib/shop/spool", max_bytes=20 << 30) as spool:
            position = await spool.append(ProducerRecord("orders", b"a book"))
            for record, position in await spool.read(None, 100):
                ...
            await spool.trim(position)

    Records have bytes as keys and values. A position is bytes: the number of the record, and the name of its group,
    which another copy of the folder does not have. It is a `Source`, so a `Relay` can bring its records to Kafka;
    `SpooledProducer` does that.

    `max_bytes` is what all its files may have; `segment_bytes` is the size of one, which is removed when all of its
    records are trimmed. One process has a folder at a time. Raises ConfigError; touches no file before `start()`.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES, segment_bytes: int | None = None
    ) -> None:
        self._folder = Path(folder)
        self._limits = limits_of(max_bytes, segment_bytes, _PENDING_BYTES)
        self._preparation = Preparation(Interceptors(), None, None)
        self._store: Store | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Open the folder, and create it if it is not there. What a crash has cut off is dropped, and logged.

        Raises SpoolError for a folder that can't be used, and UsageError when it was started before.
        """
        if self._store is not None or self._is_closed:
            raise UsageError("This spool was started before.")
        await self._start_in(await Storage.of_folder(self._folder))

    async def _start_in(self, storage: Storage) -> None:
        """Start on other files, as the simulation does."""
        self._store = await Store.open(storage, self._limits)

    async def close(self) -> None:
        """Write what waits, and unlock the folder."""
        store, self._store = self._store, None
        self._is_closed = True
        if store is not None:
            await store.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def owner(self) -> str:
        """The name of the spool, as markers have it."""
        return self._opened.owner

    async def append(self, records: ProducerRecord | Sequence[ProducerRecord]) -> bytes:
        """Write records, and return the position of the last one when all of them are on the disk.

        Calls that wait at the same time share one sync. Raises InvalidRecordError, BufferFullError where neither
        `max_bytes` nor the disk has room, and SpoolError where the disk fails.
        """
        store = self._opened
        given = [records] if isinstance(records, ProducerRecord) else records
        if not given:
            raise UsageError("append() was given no records.")
        seed, now_ms = seed_of(store.spool_id), time.time_ns() // 1_000_000
        data = b"".join([encoded(self._preparation.prepare(record), now_ms, seed) for record in given])
        if len(data) > _CALL_MAX:
            raise RecordTooLargeError(
                f"append() was given {len(data)} bytes of records, and takes {_CALL_MAX} at a time.",
                hint="Give fewer records, or smaller ones.",
            )
        waiter = KeptWaiter(len(given), None)
        store.add(data, len(given), waiter)
        return (await waiter.future).position

    async def read(self, after: bytes | None, limit: int) -> Sequence[tuple[ProducerRecord, bytes]]:
        """The records behind this position, and theirs: `limit` at most, fewer where they have many bytes.

        None is before the first one. Raises MarkerError where the position is none of this spool, or what follows it
        was trimmed; SpoolError where a file is damaged.
        """
        return await self._opened.read(after, limit)

    async def wait(self) -> None:
        """Return when there may be more records than the last `read` has returned."""
        await self._opened.wait()

    async def trim(self, position: bytes) -> None:
        """Forget all records up to this position. Their bytes are free when all of their segment are trimmed."""
        await self._opened.delivered(position)

    async def delivered(self, position: bytes) -> None:
        """As a relay's source: what is in Kafka is trimmed."""
        await self.trim(position)

    @property
    def trimmed(self) -> bytes | None:
        """Where to read from: the position up to which records were trimmed, None if none was.

        After a crash it may be an earlier one: records that were trimmed may come again.
        """
        position = self._opened.delivered_position
        return None if position is None else position.to_bytes()

    @property
    def _opened(self) -> Store:
        if self._store is None:
            raise UsageError("This spool is not open: use it within `async with`.")
        return self._store


def encoded(prepared: Prepared, now_ms: int, seed: int) -> bytearray:
    """A checked record as the spool has it; one without a timestamp gets the present time. Raises InvalidTopicError."""
    topic, key, value, headers, partition, timestamp = prepared
    check_topic_name(topic)
    return encode_entry(
        topic.encode(), key, value, headers, partition, now_ms if timestamp is None else timestamp, seed
    )


def limits_of(max_bytes: int, segment_bytes: int | None, pending_bytes: int) -> Limits:
    """Check what a user has given; raises ConfigError. Segments are an eighth of all, 64 MiB at most, by default."""
    if not isinstance(max_bytes, int) or max_bytes < _LEAST:
        raise ConfigError(f"max_bytes is {max_bytes!r}: give at least {_LEAST} bytes.")
    if segment_bytes is None:
        segment_bytes = min(SEGMENT_BYTES, max_bytes // 8)
    if not isinstance(segment_bytes, int) or not 1 <= segment_bytes <= max_bytes // 2:
        raise ConfigError(f"segment_bytes is {segment_bytes!r}: give a number of bytes up to half of max_bytes.")
    return Limits(max_bytes, segment_bytes, pending_bytes)
