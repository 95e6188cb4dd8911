"""Records as bytes for a terminal or a pipe: values, hexadecimal, JSON, or a format string as kcat's."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from aioprod.console.escapes import escaped
from aioprod.console.record_json import record_line
from aioprod.types import Headers

__all__ = ["Format", "Record", "Render", "as_escaped_value", "as_hex", "as_json", "as_value"]


class Record(Protocol):
    """What both a fetched batch and a member give."""

    @property
    def key(self) -> Any:
        """The key, None for none."""

    @property
    def value(self) -> Any:
        """The value, None for a tombstone."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch."""

    @property
    def headers(self) -> Headers:
        """Its headers."""


Render: TypeAlias = Callable[[str, int, Record], bytes]
"""A record of a topic's partition as bytes, its end included."""


def as_value(topic: str, partition: int, record: Record) -> bytes:
    """The value as it is, and a line end; an empty line for a tombstone."""
    return (record.value or b"") + b"\n"


def as_escaped_value(topic: str, partition: int, record: Record) -> bytes:
    """The value and a line end, for a terminal."""
    return _escaped(record.value or b"") + b"\n"


def _escaped(data: bytes) -> bytes:
    """Bytes as a terminal may show them: text, in which control characters and what is not UTF-8 are escaped."""
    return escaped(data.decode("utf-8", "backslashreplace")).encode()


def as_hex(topic: str, partition: int, record: Record) -> bytes:
    """Key and value in hexadecimal, with a tab between them; `-` stands for none."""
    key, value = ("-" if part is None else part.hex() for part in (record.key, record.value))
    return f"{key}\t{value}\n".encode()


def as_json(topic: str, partition: int, record: Record) -> bytes:
    """A JSON object: bytes that are UTF-8 as a string, others as {"base64": ...}; headers as a list of pairs."""
    place = {"topic": topic, "partition": partition, "offset": record.offset, "timestamp": record.timestamp}
    return record_line(place, record.key, record.value, record.headers)


def _size(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in headers)


_TOKENS: Final[dict[str, Render]] = {
    "s": lambda topic, partition, record: record.value or b"",
    "S": lambda topic, partition, record: _size(record.value),
    "k": lambda topic, partition, record: record.key or b"",
    "K": lambda topic, partition, record: _size(record.key),
    "t": lambda topic, partition, record: topic.encode(),
    "p": lambda topic, partition, record: b"%d" % partition,
    "o": lambda topic, partition, record: b"%d" % record.offset,
    "h": lambda topic, partition, record: _headers(record.headers),
    "T": lambda topic, partition, record: b"%d" % record.timestamp,
    "%": lambda topic, partition, record: b"%",
}
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PART: Final = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)


class Format:
    """A format string, and how it renders records; raises ArgumentTypeError for a token that there is not."""

    def __init__(self, template: str) -> None:
        self._parts: list[bytes | Render] = []
        for token, code, escape, text, stray in _PART.findall(template):
            if token and token not in _TOKENS:
                known = " ".join(f"%{name}" for name in _TOKENS)
                raise ArgumentTypeError(f"%{token} in {template!r} is not part of a record: there are {known}")
            if stray or (escape and escape not in _ESCAPES):
                raise ArgumentTypeError(f"{template!r} has {stray or f'{chr(92)}{escape}'}: write %% or {chr(92) * 2}")
            if token:
                self._parts.append(_TOKENS[token])
            else:
                self._parts.append(bytes.fromhex(code) if code else _ESCAPES[escape] if escape else text.encode())

    def render(self, topic: str, partition: int, record: Record) -> bytes:
        """The record as it is."""
        parts = self._parts
        return b"".join([part if isinstance(part, bytes) else part(topic, partition, record) for part in parts])

    def render_escaped(self, topic: str, partition: int, record: Record) -> bytes:
        """The record for a terminal; the control characters of the format string itself are meant."""
        parts = self._parts
        return b"".join(
            [part if isinstance(part, bytes) else _escaped(part(topic, partition, record)) for part in parts]
        )
