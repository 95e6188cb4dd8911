"""Record headers to bytes and back: a count, then name and value of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aioprod._short_reprs import shown
from aioprod.errors import SerializationError
from aioprod.records.fields import FieldReader
from aioprod.types import Headers
from aioprod.wire.buffer import Buffer, Writer

__all__ = ["NO_HEADERS", "decode_headers", "encode_headers", "header_list"]

NO_HEADERS: Final = b"\x00"


def header_list(headers: object) -> list[Any]:
    """Headers as a list, empty for None; raises SerializationError for an object that is not a sequence."""
    if headers is None:
        return []
    if not isinstance(headers, Sequence):
        raise SerializationError(
            f"Headers are of type {type(headers).__name__}: give a sequence of (name, value) pairs, or None.",
            hint="Give list(headers.items())." if isinstance(headers, Mapping) else None,
        )
    return list(headers)


def encode_headers(headers: Headers) -> bytes:
    """The encoded headers of one record, as `RecordBatchBuilder.append` takes them.

    Raises SerializationError for a header that is no (str, bytes-like or None) pair, and names it.
    """
    headers = header_list(headers)
    writer = Writer()
    writer.varint(len(headers))
    for index, header in enumerate(headers):
        name, value = _checked(index, header)
        writer.varint(len(name))
        writer.write(name)
        if value is None:
            writer.varint(-1)
        else:
            writer.varint(len(value))
            writer.write(value)
    return writer.getvalue()


def _checked(index: int, header: object) -> tuple[bytes, bytes | None]:
    if not isinstance(header, (tuple, list)) or len(header) != 2:
        raise SerializationError(f"Header {index} is {shown(header)}: give it as a (name, value) pair.")
    name, value = header
    if not isinstance(name, str):
        raise SerializationError(f"The name of header {index} is of type {type(name).__name__}: give a str.")
    try:
        encoded_name = name.encode()
    except UnicodeEncodeError as error:
        raise SerializationError(f"The name {name!r} of header {index} has no UTF-8 form: {error.reason}.") from error
    if value is None or isinstance(value, (bytes, bytearray, memoryview)):
        try:
            return encoded_name, None if value is None else bytes(value)
        except Exception as error:
            raise SerializationError(
                f"The value of header {name!r}, of type {type(value).__name__}, can't be read as bytes: "
                f"{type(error).__name__}."
            ) from error
    raise SerializationError(
        f"The value of header {name!r} is of type {type(value).__name__}: give bytes, a bytes-like object or None."
    )


def decode_headers(data: Buffer, pos: int, end: int) -> tuple[tuple[str, bytes | None], ...]:
    """The headers encoded in `data[pos:end]`, all of it.

    Raises CorruptRecordError when the bytes are no headers, or too few or too many.
    """
    return FieldReader(data, pos, end).headers()
