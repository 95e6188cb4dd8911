"""Records out of lines: plain ones, JSON, and rows of CSV."""

from __future__ import annotations

import base64
import csv
import json
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aioprod.cli.produce.chunks import read_blocks
from aioprod.errors import InvalidRecordError
from aioprod.producer.batching.lines import Lines, lines_of
from aioprod.types import Headers

__all__ = ["CONVERSIONS", "FORMATS", "Format", "Row", "Rows", "rows_of"]


class Row(NamedTuple):
    """One record that is not like all others of its file."""

    line: int
    value: bytes | None
    key: bytes | None
    headers: Headers | None
    partition: int | None
    timestamp: int | None


@dataclass(slots=True)
class Rows:
    """Some records of a file: values and keys, or `single` ones."""

    line: int
    """That of the first record."""
    values: Sequence[bytes | None] | Lines = ()
    keys: Sequence[bytes | None] | None = None
    single: Sequence[Row] = ()
    error: InvalidRecordError | None = None
    """What is wrong with line `error_line`; nothing was read after it."""
    error_line: int = 0


Conversion = Callable[[str], bytes]

_PACKED: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "short": (">h", int),
    "integer": (">i", int),
    "long": (">q", int),
    "float": (">f", float),
    "double": (">d", float),
}


def _packed(kind: str) -> Conversion:
    layout, number = _PACKED[kind]

    def convert(text: str) -> bytes:
        try:
            return struct.pack(layout, number(text))
        except (ValueError, struct.error, OverflowError):
            raise ValueError(f"is not of type {kind}") from None

    return convert


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        raise ValueError("is not hexadecimal") from None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError("is not Base64") from None


CONVERSIONS: Final[dict[str, Conversion]] = {
    "text": str.encode,
    "hex": _hex,
    "base64": _base64,
    **{kind: _packed(kind) for kind in _PACKED},
}
"""How a text becomes bytes; numbers as Java's serializers write them, big-endian."""


@dataclass(frozen=True, slots=True)
class Format:
    """How the lines of the files are read; a value or key that is the text `null` is None."""

    kind: str
    key_separator: bytes | None = None
    key_field: str | None = None
    null: bytes | None = None
    key_type: str = "text"
    value_type: str = "text"


def rows_of(path: str, how: Format) -> AsyncIterator[Rows]:
    """The records of a file; the iterator raises UsageError where the file can't be read any further."""
    return FORMATS[how.kind](path, how)


def _converted(texts: list[bytes], kind: str, null: bytes | None) -> Sequence[bytes | None]:
    """Texts as bytes of a type; raises ValueError with what is wrong with the first invalid one, and its index."""
    if kind == "text":
        return texts if null is None else [None if text == null else text for text in texts]
    convert = CONVERSIONS[kind]
    converted: list[bytes | None] = []
    for index, text in enumerate(texts):
        if text == null:
            converted.append(None)
            continue
        try:
            converted.append(convert(text.decode()))
        except ValueError as error:
            said = "is not UTF-8" if isinstance(error, UnicodeError) else str(error)
            raise _InvalidLineError(index, said) from None
    return converted


class _InvalidLineError(Exception):
    """What is wrong with the text at an index of several."""

    def __init__(self, index: int, said: str) -> None:
        super().__init__(said)
        self.index = index


async def _plain(path: str, how: Format) -> AsyncIterator[Rows]:
    line = 1
    are_values = how.key_separator is None and how.value_type == "text" and how.null is None
    async for block in read_blocks(path):
        lines = lines_of(block) if are_values else block.split(b"\n")
        yield Rows(line, lines) if isinstance(lines, Lines) else _plain_rows(lines, line, how)
        line += len(lines)


def _plain_rows(lines: list[bytes], line: int, how: Format) -> Rows:
    what = "value"
    try:
        if how.key_separator is None:
            return Rows(line, _converted(lines, how.value_type, how.null))
        what = "key"
        parts = [text.partition(how.key_separator) for text in lines]
        for index, (_, separator, _) in enumerate(parts):
            if not separator:
                raise _InvalidLineError(index, f"is not followed by the separator {how.key_separator.decode()!r}")
        keys = _converted([key for key, _, _ in parts], how.key_type, how.null)
        what = "value"
        return Rows(line, _converted([value for _, _, value in parts], how.value_type, how.null), keys)
    except _InvalidLineError as invalid:
        before = _plain_rows(lines[: invalid.index], line, how) if invalid.index else Rows(line)
        before.error = InvalidRecordError(f"The {what} {invalid}.")
        before.error_line = line + invalid.index
        return before


async def _json_lines(path: str, how: Format) -> AsyncIterator[Rows]:
    line = 1
    async for block in read_blocks(path):
        single: list[Row] = []
        error: InvalidRecordError | None = None
        first = line
        for text in block.split(b"\n"):
            try:
                if text.strip():
                    single.append(_json_row(text, line, how))
            except ValueError as invalid:
                error = InvalidRecordError(f"It {invalid}.")
                break
            line += 1
        yield Rows(first, single=single, error=error, error_line=line)


_KEYS: Final = {"key", "value", "headers", "partition", "timestamp"}


def _json_row(text: bytes, line: int, how: Format) -> Row:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if how.key_field is not None:
        if not isinstance(given, dict) or how.key_field not in given:
            raise ValueError(f"has no field {how.key_field!r}")
        return Row(line, text, _json_bytes(given[how.key_field], how.key_type), None, None, None)
    if not isinstance(given, dict) or not given.keys() <= _KEYS or "value" not in given:
        raise ValueError(
            "is not a record: give an object with value and, if wanted, key, headers, partition and timestamp, or name "
            "the field with the key by --key-field"
        )
    headers = given.get("headers")
    if headers is not None and not isinstance(headers, dict):
        raise ValueError("has headers that are not an object")
    for name in ("partition", "timestamp"):
        if not isinstance(given.get(name, 0), int):
            raise ValueError(f"has a {name} that is not a whole number")
    return Row(
        line,
        _json_bytes(given["value"], how.value_type),
        _json_bytes(given.get("key"), how.key_type),
        None if headers is None else [(name, _json_bytes(value, "text")) for name, value in headers.items()],
        given.get("partition"),
        given.get("timestamp"),
    )


def _json_bytes(value: Any, kind: str) -> bytes | None:
    """A text or number by its type, anything else as compact JSON, None for null."""
    if value is None:
        return None
    if isinstance(value, str) or (kind != "text" and isinstance(value, (int, float))):
        return CONVERSIONS[kind](str(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


async def _csv(path: str, how: Format) -> AsyncIterator[Rows]:
    """Each row as a JSON object of texts by the names in the first row; an empty field is an empty text."""
    names: list[str] | None = None
    line = 1
    held: list[str] = []
    async for block in read_blocks(path):
        single: list[Row] = []
        error: InvalidRecordError | None = None
        first = line
        for text in block.split(b"\n"):
            held.append(text.decode("utf-8", "surrogateescape"))
            line += 1
            if sum(part.count('"') for part in held) % 2:
                continue  # The quoted field continues in the next line.
            (fields,) = csv.reader(["\n".join(held).removesuffix("\r")])
            began = line - len(held)
            held = []
            if names is None:
                names = fields
                if how.key_field is not None and how.key_field not in names:
                    line = began
                    error = InvalidRecordError(f"The first row has no column {how.key_field!r}.")
                    break
                continue
            if len(fields) != len(names):
                line = began
                error = InvalidRecordError(f"The row has {len(fields)} fields, and the first row {len(names)}.")
                break
            row = dict(zip(names, fields, strict=True))
            key = None if how.key_field is None else CONVERSIONS[how.key_type](row[how.key_field])
            value = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")
            single.append(Row(began, value, key, None, None, None))
        yield Rows(first, single=single, error=error, error_line=line)
    if held:
        begun = line - len(held)
        yield Rows(begun, error=InvalidRecordError("A quoted field does not end."), error_line=begun)


FORMATS: Final[dict[str, Callable[[str, Format], AsyncIterator[Rows]]]] = {
    "lines": _plain,
    "jsonl": _json_lines,
    "csv": _csv,
}
