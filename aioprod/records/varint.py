# cython: boundscheck=False, wraparound=False
"""Integers of the record format: zigzag variable-length ones, and big-endian ones of fixed size.

KIP-98 (record batch v2) takes the zigzag base-128 encoding of protocol buffers, least significant group first.
"""

from __future__ import annotations

__all__ = ["put_int", "put_varint", "varint_size"]


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
