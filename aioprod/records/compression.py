"""The compression codecs of record batches (KIP-98 attributes bits 0 to 2).

Every function may run in any thread, and releases the GIL while the codec works.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam

from aioprod.errors import ConfigError, CorruptRecordError
from aioprod.wire.buffer import Buffer

__all__ = ["Compression", "compress", "decompress", "inline_size", "may_exceed"]

_GZIP_WBITS: Final = 31
_GZIP_READ_SIZE: Final = 4096
"""Small, because zlib copies what is left of its input at the end of each member: tiny members must stay cheap."""

_GZIP_RATIO_MAX: Final = 256
"""What `may_exceed` expects of gzip at most: it can be 1,032, and a producer of such batches gains little by it."""
_BLOCK_COST: Final = 1024
"""Bytes that a block counts for at least where sizes are bounded: looking at tiny ones must not take long either."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE: Final = 32 * 1024

_LZ4_BLOCK_SIZE: Final = 64 * 1024
_LZ4_LEVEL_FAST: Final = 9
"""Java's default level: the one that means LZ4's fast compressor, while all others mean the high-compression one."""
_LZ4_RATIO_MAX: Final = 255
_LZ4_HEAD: Final = bytes.fromhex("04224d18 60 40 82")
"""Magic, version 1 with independent blocks and nothing else, blocks of up to 64 KiB, checksum of these two bytes."""
_LZ4_END: Final = bytes(4)
_LZ4_LONGER_HEAD: Final = 0x09
"""The flags that put a content size or a dictionary id into the head of a frame."""
_LZ4_SIZE_MASK: Final = 0x7FFF_FFFF
_LZ4_RAW: Final = 0x8000_0000
"""A bit in the size of a block: the block is not compressed."""

_ZSTD_BLOCK_SIZE_MAX: Final = 128 * 1024
_ZSTD_BLOCK_RUN: Final = 1
_ZSTD_BLOCK_COMPRESSED: Final = 2
_ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A50


class Compression(IntEnum):
    """The codecs, with their ids in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, name: str) -> Compression:
        """The codec that `compression.type` calls `name`; raises ConfigError for another name."""
        for codec in cls:
            if codec.name.lower() == name:
                return codec
        names = ", ".join(codec.name.lower() for codec in cls)
        raise ConfigError(f"compression.type is {name!r}: it must be one of {names}.")


_MS_PER_MB: Final[dict[Compression, tuple[tuple[float, int], ...]]] = {
    Compression.NONE: ((math.inf, 1),),
    Compression.GZIP: ((-1, 32), (2, 12), (6, 32), (math.inf, 80)),
    Compression.SNAPPY: ((math.inf, 2),),
    Compression.LZ4: ((8, 12), (9, 2), (math.inf, 40)),
    Compression.ZSTD: ((3, 4), (9, 32), (15, 80), (math.inf, 500)),
}
"""What compressing takes up to which level, in ms for each MB of text, measured."""
_DEFAULT_LEVELS: Final = {Compression.GZIP: -1, Compression.LZ4: 9, Compression.ZSTD: 3}


def compress(codec: int, level: int | None, data: Buffer) -> bytes:
    """`data` in the framing that brokers and Java consumers read; `level` None is Java's default of the codec.

    Levels are those of Java's settings: gzip -1 and 1 to 9, lz4 1 to 17, zstd -131072 to 22; others have none.
    """
    return _COMPRESSORS[Compression(codec)](level, data)


def inline_size(codec: Compression, level: int | None, limit_s: float) -> int:
    """How many bytes of ordinary text a core of 2020 compresses in about `limit_s`; an estimate on the low side."""
    if level is None:
        level = _DEFAULT_LEVELS.get(codec, 0)
    ms_per_mb = next(ms for level_max, ms in _MS_PER_MB[codec] if level <= level_max)
    return int(limit_s * 1000 / ms_per_mb * 2**20)


def may_exceed(codec: int, data: Buffer, size: int) -> bool:
    """Whether the records in `data` may have more than `size` bytes, by the headers of its blocks.

    True, too, where these are malformed.
    """
    if codec not in _SIZE_BOUNDS:
        return False
    try:
        return _SIZE_BOUNDS[Compression(codec)](memoryview(data), size) > size
    except (CorruptRecordError, cramjam.DecompressionError):
        return True


def decompress(codec: int, data: Buffer, limit: int) -> bytes | bytearray:
    """The records in `data`, of at most `limit` bytes; more than that is never decompressed, nor allocated.

    Raises CorruptRecordError when `data` is malformed, truncated, of an unknown codec, or decompresses to more.
    """
    if codec not in _DECOMPRESSORS:
        raise CorruptRecordError(f"The batch is compressed with codec {codec}, which does not exist.")
    try:
        return _DECOMPRESSORS[Compression(codec)](memoryview(data), limit)
    except (cramjam.DecompressionError, zlib.error) as error:
        raise CorruptRecordError(
            f"The {Compression(codec).name.lower()} records of a batch are malformed, "
            f"or take more than {limit} bytes: {error}."
        ) from error


def _too_large(limit: int) -> CorruptRecordError:
    return CorruptRecordError(f"The records of a batch take more than the {limit} bytes that are allowed for one.")


def _copy(level: int | None, data: Buffer) -> bytes:
    return bytes(data)


def _copy_back(data: memoryview, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_large(limit)
    return bytes(data)


def _gzip(level: int | None, data: Buffer) -> bytes:
    return zlib.compress(data, -1 if level is None else level, _GZIP_WBITS)


def _gunzip(data: memoryview, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    position = 0
    member = zlib.decompressobj(_GZIP_WBITS)
    while position < len(data):
        if member.eof:
            member = zlib.decompressobj(_GZIP_WBITS)
        chunk = data[position : position + _GZIP_READ_SIZE]
        part = member.decompress(chunk, limit - size + 1)
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        position += len(chunk) - len(member.unused_data)
    if not member.eof:
        raise CorruptRecordError("The gzip records of a batch end in the middle.")
    return b"".join(parts)


def _gzip_size_bound(data: memoryview, limit: int) -> int:
    return len(data) * _GZIP_RATIO_MAX


def _snappy(level: int | None, data: Buffer) -> bytes:
    """Xerial framing, as snappy-java's streams write it: a header, then (size, raw snappy block) pairs."""
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


def _unsnappy(data: memoryview, limit: int) -> bytes:
    """Decompress both forms that are in use: xerial framing, and one raw snappy block."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC or len(data) < len(_XERIAL_HEADER):
        return _unsnappy_block(data, 0, limit)
    parts: list[bytes] = []
    total = 0
    position = len(_XERIAL_HEADER)
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if not 0 < size <= len(data) - position:
            raise CorruptRecordError(f"A snappy block has {size} bytes where {len(data) - position} are left.")
        part = _unsnappy_block(data[position : position + size], total, limit)
        total += len(part)
        parts.append(part)
        position += size
    return b"".join(parts)


def _snappy_size_bound(data: memoryview, limit: int) -> int:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC or len(data) < len(_XERIAL_HEADER):
        return int(cramjam.snappy.decompress_raw_len(data))
    bound = 0
    position = len(_XERIAL_HEADER)
    while position < len(data) and bound <= limit:
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4 + size
        bound += max(cramjam.snappy.decompress_raw_len(data[position - size : position]), _BLOCK_COST)
    return bound


def _unsnappy_block(block: memoryview, total: int, limit: int) -> bytes:
    """One raw block, of which there were `total` bytes before in the same batch."""
    if total + cramjam.snappy.decompress_raw_len(block) > limit:
        raise _too_large(limit)
    return bytes(cramjam.snappy.decompress_raw(block))


def _lz4(level: int | None, data: Buffer) -> bytes:
    """A frame of independent blocks of 64 KiB: Java rejects linked ones (KIP-57, `Lz4BlockInputStream`).

    cramjam's whole frames have linked blocks, with which the levels above 9 (they gain a percent or two) do worse than
    9. Levels 1 and 2 have no meaning to LZ4's high-compression compressor. So both ends get the nearest level.
    """
    view = memoryview(data)
    parts: list[Buffer] = [_LZ4_HEAD]
    for start in range(0, len(view), _LZ4_BLOCK_SIZE):
        raw = view[start : start + _LZ4_BLOCK_SIZE]
        if level is None or level == _LZ4_LEVEL_FAST:
            parts += _lz4_fast_block(raw)
        else:
            parts.append(_lz4_block(raw, min(max(level, 3), 9)))
    parts.append(_LZ4_END)
    return b"".join(parts)


def _lz4_fast_block(raw: memoryview) -> tuple[bytes, Buffer]:
    """The size and the bytes of a block, raw ones where the codec does not make them fewer."""
    block = memoryview(cramjam.lz4.compress_block(raw, store_size=False))
    if len(block) < len(raw):
        return len(block).to_bytes(4, "little"), block
    return (len(raw) | _LZ4_RAW).to_bytes(4, "little"), raw


def _lz4_block(raw: memoryview, level: int) -> bytes:
    """The same at another level, taken out of a frame of its own: cramjam's blocks know the fast one only.

    It is a whole frame, as cramjam holds the GIL for a part of one.
    """
    frame = memoryview(cramjam.lz4.compress(raw, level=level))
    assert not frame[4] & _LZ4_LONGER_HEAD
    size = _little_endian(frame, len(_LZ4_HEAD), 4) & _LZ4_SIZE_MASK
    return bytes(frame[len(_LZ4_HEAD) : len(_LZ4_HEAD) + 4 + size])


def _unlz4(data: memoryview, limit: int) -> bytearray:
    return _decompress_into(cramjam.lz4.decompress_into, data, min(_lz4_size_bound(data, limit), limit))


def _lz4_size_bound(data: memoryview, limit: int) -> int:
    """No well-formed LZ4 frame in `data` holds more bytes, unless that is over `limit`.

    Malformed data is left to the decoder.

    LZ4 frame format 1.6: flags, block size, optional content size and dictionary id, blocks, optional checksums.
    """
    flags = _little_endian(data, 4, 1)
    block_size_max = 1 << (8 + 2 * (_little_endian(data, 5, 1) >> 4 & 7))
    position = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    checksum_size = 4 if flags & 0x10 else 0
    bound = 0
    while position < len(data) and bound <= limit:
        block_size = _little_endian(data, position, 4) & 0x7FFF_FFFF
        position += 4
        if block_size == 0:
            break
        bound += max(min(block_size * _LZ4_RATIO_MAX, block_size_max), _BLOCK_COST)
        position += block_size + checksum_size
    return bound + max(len(data) - position, 0) * _LZ4_RATIO_MAX


def _zstd(level: int | None, data: Buffer) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def _unzstd(data: memoryview, limit: int) -> bytearray:
    return _decompress_into(cramjam.zstd.decompress_into, data, min(_zstd_size_bound(data, limit), limit))


def _zstd_size_bound(data: memoryview, limit: int) -> int:
    """No well-formed zstd frames in `data` hold more bytes, unless that is over `limit`.

    Malformed data is left to the decoder.

    RFC 8878 section 3.1: a frame may declare its content size (a stream's does not), a block has a size limit.
    Raises CorruptRecordError when a declared size is over `limit`.
    """
    bound = 0
    position = 0
    while position < len(data) and bound <= limit:
        magic = _little_endian(data, position, 4)
        descriptor = _little_endian(data, position + 4, 1)
        if magic & 0xFFFF_FFF0 == _ZSTD_SKIPPABLE_MAGIC:
            position += 8 + _little_endian(data, position + 4, 4)
            bound += _BLOCK_COST
            continue
        single_segment = descriptor >> 5 & 1
        position += 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
        field_size = (single_segment, 2, 4, 8)[descriptor >> 6]
        content_size = _little_endian(data, position, field_size) + (256 if field_size == 2 else 0)
        if content_size > limit:
            raise _too_large(limit)
        blocks_bound, position = _zstd_blocks_bound(data, position + field_size, limit)
        if blocks_bound > limit:
            return blocks_bound
        bound += max(min(content_size, blocks_bound) if field_size else blocks_bound, _BLOCK_COST)
        position += 4 if descriptor & 4 else 0
    return bound


def _zstd_blocks_bound(data: memoryview, position: int, limit: int) -> tuple[int, int]:
    """The most bytes in the blocks of one frame, and the position after them; it ends where they are over `limit`."""
    bound = 0
    is_last = False
    while not is_last and position < len(data) and bound <= limit:
        header = _little_endian(data, position, 3)
        is_last = bool(header & 1)
        kind = header >> 1 & 3
        size = header >> 3
        bound += _ZSTD_BLOCK_SIZE_MAX if kind == _ZSTD_BLOCK_COMPRESSED else max(size, _BLOCK_COST)
        position += 3 + (1 if kind == _ZSTD_BLOCK_RUN else size)
    return bound, position


def _little_endian(data: memoryview, position: int, size: int) -> int:
    """The number at `position`; bytes after the end of `data` count as none."""
    return int.from_bytes(data[position : position + size], "little")


def _decompress_into(decoder: Callable[[memoryview, bytearray], int], data: memoryview, size_max: int) -> bytearray:
    output = bytearray(size_max)
    del output[decoder(data, output) :]  # A copy of what may be 128 MiB would hold the GIL, and take as much memory.
    return output


_COMPRESSORS: Final[dict[Compression, Callable[[int | None, Buffer], bytes]]] = {
    Compression.NONE: _copy,
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}

_SIZE_BOUNDS: Final[dict[int, Callable[[memoryview, int], int]]] = {
    Compression.GZIP: _gzip_size_bound,
    Compression.SNAPPY: _snappy_size_bound,
    Compression.LZ4: _lz4_size_bound,
    Compression.ZSTD: _zstd_size_bound,
}

_DECOMPRESSORS: Final[dict[int, Callable[[memoryview, int], bytes | bytearray]]] = {
    Compression.NONE: _copy_back,
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnappy,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
