"""Memory under hostile lengths: what `fuzz.limits` says, measured for the worst that was thought of."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest

from aioprod.errors import CorruptRecordError, ProtocolError
from aioprod.messages import ProduceResponse
from aioprod.records import parse_batches
from aioprod.wire.codec import decode, encode
from aioprod.wire.frame import FRAME_SIZE_MAX, FrameSplitter
from aioprod.wire.schema import Array, Message, Primitive, Struct, WireField, fields_of
from tests.fuzz.limits import MEMORY_PER_BYTE, memory_max
from tests.records.test_parser import make_batch, varints
from tests.support.length import by_length
from tests.support.messages import MESSAGES

SMALL = 2048
LARGE = 100_000
MB = 1 << 20


def memory_of(read: Callable[[], object]) -> int:
    """The most bytes of memory that Python holds at once while it reads."""
    tracemalloc.start()
    try:
        held = read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        held = None  # noqa: F841  # alive until it was measured
        tracemalloc.stop()


def arrays(kind: type[Struct], version: int) -> Iterator[tuple[WireField, ...]]:
    """The way to each array in a message."""
    for field in fields_of(kind):
        if version not in field.versions:
            continue
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(field.type, Array):
            yield (field,)
        if not isinstance(inner, Primitive):
            for rest in arrays(inner, version):
                yield (field, *rest)


def crowded(kind: type[Struct], way: tuple[WireField, ...], count: int) -> Struct:
    """A message with so many of the smallest elements in one array."""
    field, *rest = way
    if not isinstance(field.type, Array):
        assert not isinstance(field.type, Primitive)
        return kind(**{field.name: crowded(field.type, tuple(rest), count)})
    element = field.type.element
    if rest:
        assert not isinstance(element, Primitive)
        return kind(**{field.name: (crowded(element, tuple(rest), count),)})
    smallest = element.zero if isinstance(element, Primitive) else element()
    return kind(**{field.name: (smallest,) * count})


def filled(kind: type[Message], version: int, way: tuple[WireField, ...], size: int) -> bytes:
    """About `size` bytes of such a message."""
    one, two = (len(encode(crowded(kind, way, count), version)) for count in (1, 2))  # type: ignore[arg-type]
    return encode(crowded(kind, way, size // (two - one)), version)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_arrays_of_the_smallest_elements(kind: type[Message]) -> None:
    first, last = kind.VERSIONS
    for version in by_length((first, last), range(first, last + 1)):
        for way in arrays(kind, version):
            body = filled(kind, version, way, SMALL)
            decode(kind, version, body)  # decoders are made once
            assert memory_of(partial(decode, kind, version, body)) <= memory_max(len(body))


def test_a_larger_frame_takes_no_more_for_each_byte() -> None:
    body = filled(ProduceResponse, 12, next(arrays(ProduceResponse, 12)), LARGE)
    assert memory_of(partial(decode, ProduceResponse, 12, body)) <= memory_max(len(body))


@pytest.mark.parametrize("headers", [0, LARGE // 2])
def test_batches_of_many_records_and_of_many_headers(headers: int) -> None:
    tail = varints(-1, -1, headers) + b"\x00\x01" * headers
    bodies = [bytes(1) + varints(0, index) + tail for index in range(1 if headers else LARGE // 9)]
    batch = make_batch(b"".join(varints(len(body)) + body for body in bodies), len(bodies))
    assert memory_of(lambda: [list(one.records()) for one in parse_batches(batch)]) <= memory_max(len(batch))


def refused(kind: type[Message], version: int, body: bytes) -> None:
    with suppress(ProtocolError):
        decode(kind, version, body)


def test_counts_that_no_bytes_stand_for() -> None:
    most = (0x7FFF_FFFF).to_bytes(4, "big")
    for kind in MESSAGES:
        for version in range(kind.VERSIONS[0], kind.VERSIONS[1] + 1):
            for body in (most * 64, b"\xff\xff\xff\xff\x0f" * 50, b"\x00\x01" + most * 64):
                assert memory_of(partial(refused, kind, version, body)) < MB
    [batch] = parse_batches(make_batch(b"", 0x7FFF_FFFF, 0x7FFF_FFFE))
    with pytest.raises(CorruptRecordError):
        list(batch.records())


def test_a_frame_takes_the_memory_that_has_come_and_not_what_is_announced() -> None:
    def feed() -> FrameSplitter:
        splitter = FrameSplitter()
        assert splitter.feed(FRAME_SIZE_MAX.to_bytes(4, "big")) == []
        for _ in range(64):
            assert splitter.feed(bytes(1024)) == []
        return splitter

    # What measures coverage holds memory, too, when it removes its probes from code that has run often enough.
    assert min(memory_of(feed) for _ in range(3)) < 2 * MB + 64 * 1024


BOMBS = """
from aioprod.errors import CorruptRecordError
from aioprod.records import decompress
from tests.fuzz.limits import SLACK, memory_max, peak
from tests.fuzz.targets.records import bombs
LIMIT = 8 << 20
for size, fits in ((LIMIT, True), (LIMIT * 4, False)):
    for codec, bomb in bombs(size):
        before = peak()
        try:
            assert len(decompress(codec, bomb, LIMIT)) <= size and fits, (codec.name, size)
        except CorruptRecordError:
            assert not fits or bomb[5] >> 3 > 17, (codec.name, size)
        assert peak() - before <= memory_max(0, LIMIT) + SLACK + len(bomb), (codec.name, size, peak() - before)
"""


def test_decompression_bombs() -> None:
    """In a process of its own, whose peak counts the native memory of the codecs too."""
    around = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", BOMBS], env=around, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_limit_is_stated_per_byte() -> None:
    assert memory_max(MB) == MB * MEMORY_PER_BYTE
