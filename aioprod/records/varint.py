# cython: boundscheck=False, wraparound=False
"""Integers of the record format: zigzag variable-length ones, and big-endian ones of fixed size.

KIP-98 (record batch v2) takes the zigzag base-128 encoding of protocol buffers, least significant group first.
"""

from __future__ import annotations

from aioprod.errors import CorruptRecordError
from aioprod.wire.buffer import Buffer

__all__ = ["put_int", "put_varint", "read_varint", "varint_size"]


def varint_size(value: int) -> int:
    """Bytes that `put_varint` takes for `value`, a signed 64-bit integer: 1 to 10."""
    zigzag = (value << 1) ^ (value >> 63)
    size = 1
    while zigzag >= 0x80:
        zigzag >>= 7
        size += 1
    return size


def put_varint(buf: bytearray, pos: int, value: int) -> int:
    """Write `value`, a signed 64-bit integer, at `pos`; the position after it."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag >= 0x80:
        buf[pos] = (zigzag & 0x7F) | 0x80
        zigzag >>= 7
        pos += 1
    buf[pos] = zigzag
    return pos + 1


def put_int(buf: bytearray, pos: int, value: int, size: int) -> None:
    """Write the low `size` bytes of `value` at `pos`, big-endian; negative values as two's complement."""
    shift = 8 * size
    while shift > 0:
        shift -= 8
        buf[pos] = (value >> shift) & 0xFF
        pos += 1


def read_varint(data: Buffer, pos: int, end: int, bits: int) -> tuple[int, int]:
    """Read (value, position after it) of a signed integer of 32 or 64 `bits` from `data[pos:end]`.

    Raises CorruptRecordError when the integer runs over `end`, or has more bits.
    """
    zigzag = 0
    shift = 0
    at = pos
    while at < end:
        byte = data[at]
        if byte >> (bits - shift):
            break
        zigzag |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1), at
        shift += 7
    raise CorruptRecordError(f"The integer at byte {pos} of a batch's records is cut off, or has over {bits} bits.")
