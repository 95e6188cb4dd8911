from __future__ import annotations

import gzip
import os
import random
import struct
import threading
import tracemalloc
import zlib

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.errors import ConfigError, CorruptRecordError
from aioprod.records import compression
from aioprod.records.compression import Compression, compress, decompress, may_exceed

CODECS = [codec for codec in Compression if codec]
TEXT = b"".join(b'{"id":%d,"name":"record"}' % index for index in range(12_000))
LEVELS: list[tuple[Compression, int | None]] = [
    *((Compression.GZIP, level) for level in (None, -1, 1, 6, 9)),
    (Compression.SNAPPY, None),
    *((Compression.LZ4, level) for level in (None, *range(1, 18))),
    *((Compression.ZSTD, level) for level in (None, -131072, -100, -1, 0, 1, 3, 12, 22)),
]


def zstd_stream(data: bytes) -> bytes:
    """A frame without a content size, as Java writes it."""
    stream = cramjam.zstd.Compressor(level=3)
    for start in range(0, len(data), 100_000):
        stream.compress(data[start : start + 100_000])
    return bytes(stream.finish())


def test_ids_are_those_of_the_attributes() -> None:
    assert [(codec.name, int(codec)) for codec in Compression] == [
        ("NONE", 0),
        ("GZIP", 1),
        ("SNAPPY", 2),
        ("LZ4", 3),
        ("ZSTD", 4),
    ]


def test_of_takes_the_names_of_compression_type() -> None:
    assert [Compression.of(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == list(Compression)


@pytest.mark.parametrize("name", ["", "GZIP", "zip", "1"])
def test_of_refuses_other_names(name: str) -> None:
    with pytest.raises(ConfigError, match="must be one of none, gzip, snappy, lz4, zstd"):
        Compression.of(name)


@pytest.mark.parametrize(("codec", "level"), LEVELS)
@pytest.mark.parametrize("data", [b"", b"a", bytes(200_000), TEXT[:65_536], TEXT, os.urandom(70_000)])
def test_round_trip_at_every_level(codec: Compression, level: int | None, data: bytes) -> None:
    for given_data in (data, memoryview(bytearray(data))):
        blob = compress(codec, level, given_data)
        assert type(blob) is bytes
        assert decompress(codec, blob, len(data)) == data


@given(st.binary(max_size=2000), st.integers(1, 40), st.sampled_from(list(Compression)))
@settings(max_examples=80)
def test_round_trip_of_anything(data: bytes, repeated: int, codec: Compression) -> None:
    blob = compress(codec, None, data * repeated)
    restored = decompress(codec, memoryview(blob), len(data) * repeated)
    assert restored == data * repeated


@pytest.mark.parametrize("codec", list(Compression))
def test_one_byte_over_the_limit_is_refused(codec: Compression) -> None:
    blob = compress(codec, None, TEXT)
    with pytest.raises(CorruptRecordError, match=f"more than (the )?{len(TEXT) - 1} bytes"):
        decompress(codec, blob, len(TEXT) - 1)


def test_higher_levels_compress_better() -> None:
    for codec, low, high in ((Compression.GZIP, 1, 9), (Compression.LZ4, 9, 12), (Compression.ZSTD, -100, 19)):
        assert len(compress(codec, high, TEXT)) < len(compress(codec, low, TEXT))


def test_defaults_are_javas() -> None:
    assert compress(Compression.GZIP, None, TEXT) == compress(Compression.GZIP, 6, TEXT)
    assert compress(Compression.LZ4, None, TEXT) == compress(Compression.LZ4, 9, TEXT)
    assert compress(Compression.ZSTD, None, TEXT) == compress(Compression.ZSTD, 3, TEXT)


def test_gzip_is_a_stream_of_rfc_1952() -> None:
    assert gzip.decompress(compress(Compression.GZIP, None, TEXT)) == TEXT
    assert decompress(Compression.GZIP, gzip.compress(TEXT), len(TEXT)) == TEXT


def test_gzip_of_many_members() -> None:
    members = [TEXT[:5000], b"", b"x", TEXT[5000:], *[b"y"] * 300]
    blob = b"".join(map(gzip.compress, members))
    assert decompress(Compression.GZIP, blob, len(TEXT) + 301) == b"".join(members)
    with pytest.raises(CorruptRecordError):
        decompress(Compression.GZIP, blob, len(TEXT) + 300)
    with pytest.raises(CorruptRecordError):
        decompress(Compression.GZIP, blob + b"\x00", len(TEXT) + 301)


def test_snappy_is_framed_as_snappy_java_does() -> None:
    blob = compress(Compression.SNAPPY, None, TEXT)
    assert blob[:16].hex() == "82534e41505059000000000100000001"
    blocks = []
    position = 16
    while position < len(blob):
        (size,) = struct.unpack_from(">i", blob, position)
        blocks.append(bytes(cramjam.snappy.decompress_raw(blob[position + 4 : position + 4 + size])))
        position += 4 + size
    assert {len(block) for block in blocks[:-1]} == {32 * 1024}
    assert b"".join(blocks) == TEXT


def test_snappy_without_framing_is_read_too() -> None:
    for data in (b"", b"abc", TEXT):
        assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data)), len(data)) == data


@pytest.mark.parametrize("size", [0, 1, -1, 0x7FFF_FFFF, -(1 << 31)])
def test_snappy_block_sizes_are_checked(size: int) -> None:
    blob = compress(Compression.SNAPPY, None, b"")
    with pytest.raises(CorruptRecordError, match="snappy"):
        decompress(Compression.SNAPPY, blob + struct.pack(">i", size), 1000)


def test_lz4_has_the_flags_that_java_demands() -> None:
    for level in (1, 9, 17):
        blob = compress(Compression.LZ4, level, TEXT)
        assert struct.unpack_from("<I", blob) == (0x184D2204,)
        flags, block_size = blob[4], blob[5]
        assert flags >> 6 == 1, "version"
        assert flags & 0x20, "independent blocks"
        assert not flags & 0x0F, "no content size, content checksum or dictionary, reserved bit clear"
        assert block_size == 0x40, "64 KiB"
        assert blob[-4:] == bytes(4), "end mark"


def lz4_blocks(blob: bytes) -> list[tuple[bool, bytes]]:
    """The blocks of a frame of ours: whether each is compressed, and its bytes."""
    blocks = []
    position = 7
    while size := int.from_bytes(blob[position : position + 4], "little"):
        position += 4
        end = position + (size & 0x7FFF_FFFF)
        blocks.append((not size >> 31, blob[position:end]))
        position = end
    assert position + 4 == len(blob)
    return blocks


@pytest.mark.parametrize("level", [None, 3, 9, 17])
def test_lz4_blocks_that_would_not_shrink_are_raw(level: int | None) -> None:
    noise = random.Random(1).randbytes(64 * 1024 + 100)
    data = TEXT[: 64 * 1024].ljust(64 * 1024, b"x") + noise
    blob = compress(Compression.LZ4, level, data)
    first, second, third = lz4_blocks(blob)
    assert first[0]
    assert bytes(cramjam.lz4.decompress_block(first[1], output_len=64 * 1024)) == data[: 64 * 1024]
    assert (second, third) == ((False, noise[: 64 * 1024]), (False, noise[64 * 1024 :]))
    assert decompress(Compression.LZ4, blob, len(data)) == data
    assert bytes(cramjam.lz4.decompress(blob)) == data


@pytest.mark.parametrize("size", [0, 1, 12, 13, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1])
def test_lz4_blocks_of_any_size(size: int) -> None:
    for data in (bytes(size), random.Random(size).randbytes(size)):
        blob = compress(Compression.LZ4, None, data)
        assert bytes(cramjam.lz4.decompress(blob)) == data
        assert decompress(Compression.LZ4, blob, size) == data


def xxh32_of_short(data: bytes) -> int:
    """The 32-bit xxHash with seed 0 of less than 4 bytes, after its specification."""
    prime_1, prime_2, prime_3, prime_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x165667B1
    value = prime_5 + len(data)
    for byte in data:
        value = value + byte * prime_5 & 0xFFFF_FFFF
        value = (value << 11 | value >> 21) * prime_1 & 0xFFFF_FFFF
    value = (value ^ value >> 15) * prime_2 & 0xFFFF_FFFF
    value = (value ^ value >> 13) * prime_3 & 0xFFFF_FFFF
    return value ^ value >> 16


def test_lz4_header_checksum_is_the_right_one() -> None:
    blob = compress(Compression.LZ4, None, b"a")
    assert blob[6] == xxh32_of_short(blob[4:6]) >> 8 & 0xFF


def test_lz4_of_other_writers_is_read_too() -> None:
    linked = bytes(cramjam.lz4.compress(TEXT))
    assert not linked[4] & 0x20
    assert decompress(Compression.LZ4, linked, len(TEXT)) == TEXT
    stored = bytes.fromhex("04224d1860408205000080") + b"abcde" + bytes(4)
    assert decompress(Compression.LZ4, stored, 5) == b"abcde"


def test_zstd_with_and_without_a_content_size() -> None:
    stream = zstd_stream(TEXT * 3)
    assert stream[4] >> 5 == 0, "neither a content size nor a single segment"
    assert decompress(Compression.ZSTD, stream, len(TEXT) * 3) == TEXT * 3
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"12345"
    two = compress(Compression.ZSTD, None, TEXT) + skippable + stream
    assert decompress(Compression.ZSTD, two, len(TEXT) * 4) == TEXT * 4


def test_zstd_raw_and_run_blocks() -> None:
    frame = struct.pack("<IBB", 0xFD2FB528, 0, 0x58)
    raw = (5 << 3).to_bytes(3, "little") + b"abcde"
    run = (70_000 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"z"
    assert decompress(Compression.ZSTD, frame + raw + run, 70_005) == b"abcde" + b"z" * 70_000


@pytest.mark.parametrize("size", [200, 300, 70_000])
def test_zstd_content_sizes_of_every_width(size: int) -> None:
    assert decompress(Compression.ZSTD, compress(Compression.ZSTD, None, TEXT[:size]), size) == TEXT[:size]


def bomb(codec: Compression, size: int) -> bytes:
    if codec is Compression.ZSTD:
        return zstd_stream(bytes(size))
    return compress(codec, None, bytes(size))


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_no_memory_over_the_limit(codec: Compression) -> None:
    blob = bomb(codec, 50_000_000)
    limit = 500_000
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordError):
            decompress(codec, blob, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * limit + len(blob) * 2


def test_bombs_that_declare_their_size_are_refused_by_the_declaration() -> None:
    zstd = compress(Compression.ZSTD, None, bytes(10_000_000))
    with pytest.raises(CorruptRecordError, match="more than the 9999999 bytes"):
        decompress(Compression.ZSTD, zstd, 9_999_999)
    snappy = b"\xff\xff\xff\xff\x0f" + b"abc"
    with pytest.raises(CorruptRecordError, match="more than the 1000 bytes"):
        decompress(Compression.SNAPPY, snappy, 1000)


def test_a_bomb_of_gzip_members_ends_at_the_limit() -> None:
    with pytest.raises(CorruptRecordError, match="more than the 1000 bytes"):
        decompress(Compression.GZIP, gzip.compress(bytes(400)) * 10_000, 1000)


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_at_every_byte(codec: Compression) -> None:
    data = TEXT[:3000]
    blob = compress(codec, None, data)
    for end in range(len(blob)):
        try:
            restored = decompress(codec, blob[:end], 100_000)
        except CorruptRecordError:
            continue
        # Snappy's framing has no end: a cut between two blocks can't be seen.
        assert codec is Compression.SNAPPY
        assert data.startswith(restored)


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_bytes_decompress_or_are_corrupt(codec: Compression) -> None:
    rng = random.Random(codec)
    blobs = [compress(codec, None, data) for data in (b"a", TEXT[:3000], os.urandom(200))]
    if codec is Compression.ZSTD:
        blobs.append(zstd_stream(TEXT))
    for _ in range(600):
        blob = bytearray(rng.choice(blobs))
        for _ in range(rng.randrange(1, 4)):
            blob[rng.randrange(min(len(blob), rng.choice((30, 1000))))] ^= 1 << rng.randrange(8)
        try:
            assert len(decompress(codec, blob, 400_000)) <= 400_000
        except CorruptRecordError:
            continue


@given(st.sampled_from(CODECS), st.binary(max_size=40))
@settings(max_examples=150)
def test_garbage_is_corrupt_or_short(codec: Compression, garbage: bytes) -> None:
    heads = {
        Compression.GZIP: b"\x1f\x8b\x08",
        Compression.SNAPPY: b"\x82SNAPPY\x00",
        Compression.LZ4: b"\x04\x22\x4d\x18",
        Compression.ZSTD: b"\x28\xb5\x2f\xfd",
    }
    for blob in (garbage, heads[codec] + garbage):
        try:
            assert len(decompress(codec, blob, 100_000)) <= 100_000
        except CorruptRecordError:
            continue


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_an_unknown_codec_is_corrupt(codec: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"codec {codec}, which does not exist"):
        decompress(codec, b"", 10)


def test_several_threads_at_once() -> None:
    failures: list[BaseException] = []

    def work(codec: Compression) -> None:
        try:
            for _ in range(3):
                assert decompress(codec, compress(codec, None, TEXT), len(TEXT)) == TEXT
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(codec,)) for codec in CODECS * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_zlib_is_told_to_check_the_trailer() -> None:
    blob = bytearray(compress(Compression.GZIP, None, TEXT))
    blob[-5] ^= 1
    with pytest.raises(CorruptRecordError) as caught:
        decompress(Compression.GZIP, blob, len(TEXT))
    assert isinstance(caught.value.__cause__, zlib.error)


TINY_BLOCKS: dict[Compression, bytes] = {
    Compression.SNAPPY: compression._XERIAL_HEADER + b"\x00\x00\x00\x01\x00" * 30_000,
    Compression.LZ4: bytes.fromhex("04224d18604082") + b"\x01\x00\x00\x00\x10" * 30_000,
    Compression.ZSTD: (bytes.fromhex("28b52ffd2000") + b"\x01\x00\x00") * 12_000,
}


@pytest.mark.parametrize("codec", TINY_BLOCKS)
def test_looking_at_tiny_blocks_ends_soon(codec: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def noted(data: memoryview, position: int, size: int) -> int:
        looked_at.append(position)
        return int.from_bytes(data[position : position + size], "little")

    monkeypatch.setattr(compression, "_little_endian", noted)
    assert may_exceed(codec, TINY_BLOCKS[codec], 2**20)
    assert len(looked_at) < 6 * 2**10


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
@pytest.mark.parametrize("size", [0, 1, 5_000, 200_000, 3_000_000])
def test_records_never_take_more_than_they_may(codec: Compression, size: int) -> None:
    data = compress(codec, None, bytes(size))
    assert may_exceed(codec, data, size - 1)
    assert not may_exceed(codec, data, 2**30)
