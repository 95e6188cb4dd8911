"""The deserializers of a reader."""

from __future__ import annotations

from types import CoroutineType
from typing import Any

from aioprod.config import instantiate
from aioprod.errors import SerializationError
from aioprod.reader.config import ReaderConfig
from aioprod.serializers import Deserializer
from aioprod.types import ConsumedRecord

__all__ = ["Deserializers"]


class Deserializers:
    """The deserializers of keys and values that the settings name; None keeps bytes. Raises ConfigError."""

    def __init__(self, config: ReaderConfig) -> None:
        self._key = _adapted(config, config.key_deserializer, is_key=True)
        self._value = _adapted(config, config.value_deserializer, is_key=False)
        self.is_plain = self._key is None and self._value is None
        """There is no deserializer, so that records stay as they are."""

    async def applied(self, record: ConsumedRecord) -> ConsumedRecord:
        """The record with its key and value deserialized; raises SerializationError that names the record."""
        try:
            return record.replaced(
                key=await _applied(self._key, record, record.key),
                value=await _applied(self._value, record, record.value),
            )
        except SerializationError as error:
            topic, partition, offset = record.topic, record.partition, record.offset
            where = f"To leave it out, continue at offset {offset + 1}: a member does so by `member.skip(error)`."
            # A kind of its own says that something else failed than the record.
            hint = f"{error.hint} {where}" if error.hint and type(error) is SerializationError else error.hint or where
            placed = error.restated(f"Offset {offset} of partition {partition}: {error.message}", hint=hint)
            placed.topic, placed.partition, placed.offset, placed.record = topic, partition, offset, record
            raise placed from error

    def close(self) -> None:
        """Close the deserializers."""
        for deserializer in (self._key, self._value):
            if deserializer is not None:
                deserializer.close()


def _adapted(config: ReaderConfig, given: Any, *, is_key: bool) -> Deserializer | None:
    if given is None:
        return None
    return Deserializer(instantiate(given, "deserializer", config, is_key=is_key), is_key=is_key)


async def _applied(deserializer: Deserializer | None, record: ConsumedRecord, data: bytes | None) -> Any:
    if deserializer is None:
        return data
    result = deserializer.deserialize(record.topic, list(record.headers), data)
    return await result if isinstance(result, CoroutineType) else result
