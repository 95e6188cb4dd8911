"""How bytes reach fastavro's readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

from aioprod.errors import SerializationError
from aioprod.schema_registry._extra import missing

try:
    from fastavro import _read_py
    from fastavro.io.binary_decoder import BinaryDecoder
    from fastavro.schema import parse_schema
except ImportError as error:
    raise missing("aioprod.schema_registry.avro", error) from error

_read_data: Callable[..., Any] = _read_py.read_data

__all__ = ["InterruptibleBytes", "check_items", "read_bounded"]


class InterruptibleBytes(BytesIO):
    """Bytes for a reader in a thread: compiled code lets other threads run only where it calls Python's."""

    def read(self, size: int | None = -1) -> bytes:
        """As BytesIO's."""
        return super().read(size)


def read_bounded(source: BytesIO, types: Any, wanted: Any, items_max: int) -> Any:
    """The value, read by fastavro's reader in Python; raises ValueError for more items, and what that reader raises."""
    names: dict[str, dict[str, Any]] = {"writer": {}, "reader": {}}
    parse_schema(types, names["writer"])
    if wanted is not None:
        parse_schema(wanted, names["reader"])
    return _read_data(_BoundedDecoder(source, items_max), types, names, wanted, {"handle_unicode_errors": "strict"})


def check_items(payload: bytes, types: Any, items_max: int) -> None:
    """Raise SerializationError for bytes that were written and have too many items to be read."""
    try:
        read_bounded(BytesIO(payload), types, None, items_max)
    except ValueError as error:
        raise SerializationError(f"the value can't be read again: {error}.") from error


class _BoundedDecoder(BinaryDecoder):
    """Counts the items of arrays, which may take no bytes."""

    def __init__(self, source: BytesIO, items_max: int) -> None:
        super().__init__(source)  # type: ignore[no-untyped-call]
        self._items_left = items_max

    def iter_array(self) -> Iterator[None]:
        """Once for each item."""
        for item in self._iter_array_or_map():  # type: ignore[no-untyped-call]
            self._items_left -= 1
            if self._items_left < 0:
                raise ValueError("its arrays have too many items that take no bytes")
            yield item
