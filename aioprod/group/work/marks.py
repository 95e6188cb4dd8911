"""Marks: which records behind a committed offset are finished, as the metadata of the commit.

An offset says that all records before it are finished. Where records are handled in parallel, some behind it are
finished, too. The marks name them, so that the next owner of the partition leaves them out. They begin with `aioprod1`,
then come the form, the committed offset once more, and base64 of the rest. Another program that keeps the metadata and
changes the offset, as MirrorMaker does between clusters, thereby makes them void. The offset always has as many digits:
what a broker has taken never becomes longer as records are finished. The forms are:

- `g`: varints: how far the marks reach, then the distance of each unfinished record from the one before it.
- `b`: a bit for each offset from the committed one on, the lowest bit of a byte first: 1 is finished.

The shorter one is used.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from typing import Final, NamedTuple

__all__ = ["NOTHING", "Marks", "decoded", "encoded", "fitting", "length_of"]

_GAPS: Final = "aioprod1:g"
_BITS: Final = "aioprod1:b"
_DIGITS: Final = 19
"""Of the committed offset, with leading zeros."""
_TEXT_MAX: Final = 32_767
_VARINT_BITS: Final = 63


class Marks(NamedTuple):
    """What is finished from an offset on: all before `end` but the `gaps`, which are in order."""

    end: int
    gaps: tuple[int, ...]


NOTHING: Final = Marks(0, ())


def encoded(low: int, marks: Marks) -> str:
    """The marks for a commit of the offset `low`, the first gap; "" where nothing is finished behind it."""
    size = marks.end - low
    if size <= 0 or len(marks.gaps) >= size:
        return ""
    if len(marks.gaps) * 8 < size:
        data = bytearray()
        _put(data, size)
        before = low
        for gap in marks.gaps:
            _put(data, gap - before)
            before = gap
        if len(data) * 8 < size:
            return _text(_GAPS, low, data)
    bits = bytearray(b"\xff" * (size // 8) + bytes([(1 << size % 8) - 1])[: 1 if size % 8 else 0])
    for gap in marks.gaps:
        bits[(gap - low) >> 3] &= ~(1 << (gap - low & 7))
    return _text(_BITS, low, bits)


def fitting(low: int, marks: Marks, length_max: int) -> Marks:
    """The marks for a commit of the offset `low`, cut where their `length_of` would be more than that.

    What fits once fits again when more is finished, also before it.
    """
    room = length_max // 4 * 3
    if not room:
        return Marks(low, ())
    by_bits = low + room * 8
    if marks.end <= by_bits:
        return marks
    by_gaps, before = marks.end, low
    room -= _varint_size(marks.end - low)
    for gap in marks.gaps:
        room -= _varint_size(gap - before)
        if room < 0:
            by_gaps = gap
            break
        before = gap
    end = max(by_bits, by_gaps)
    return Marks(end, tuple(gap for gap in marks.gaps if gap < end))


def decoded(low: int, metadata: str) -> Marks:
    """The marks of a commit of the offset `low`: NOTHING for metadata that are not ours, or that make no sense."""
    heads = (_head(_GAPS, low), _head(_BITS, low))
    if not metadata.startswith(heads) or len(metadata) > _TEXT_MAX:
        return NOTHING
    try:
        raw = base64.b64decode(metadata[len(heads[0]) :], validate=True)
        marks = _from_gaps(low, raw) if metadata.startswith(_GAPS) else _from_bits(low, raw)
    except (binascii.Error, ValueError):
        return NOTHING
    return marks if marks.gaps[:1] == (low,) else NOTHING


def length_of(metadata: str) -> int:
    """The characters of the marks, without their form and offset; 0 for metadata that are not ours."""
    return len(metadata.rpartition(":")[2]) if metadata.startswith((_GAPS, _BITS)) else 0


def _head(form: str, low: int) -> str:
    return f"{form}{low:0{_DIGITS}}:"


def _text(form: str, low: int, data: bytes | bytearray) -> str:
    return _head(form, low) + base64.b64encode(data).decode()


def _from_gaps(low: int, raw: bytes) -> Marks:
    numbers = _varints(raw)
    if not numbers:
        raise ValueError("no varint")
    gaps, at = [], low
    for index, distance in enumerate(numbers[1:]):
        if distance == 0 and index:
            raise ValueError("a gap twice")
        at += distance
        gaps.append(at)
    end = low + numbers[0]
    if at >= end:
        raise ValueError("a gap behind the end")
    return Marks(end, tuple(gaps))


def _from_bits(low: int, raw: bytes) -> Marks:
    bits = int.from_bytes(raw, "little")
    end = bits.bit_length()
    return Marks(low + end, tuple(low + at for at in range(end) if not bits >> at & 1))


def _put(data: bytearray, value: int) -> None:
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)


def _varint_size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


def _varints(raw: Collection[int]) -> list[int]:
    found, value, shift = [], 0, 0
    for byte in raw:
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > _VARINT_BITS:
            raise ValueError("a varint is too long")
        if byte < 0x80:
            found.append(value)
            value = shift = 0
    if shift:
        raise ValueError("a varint is cut")
    return found
