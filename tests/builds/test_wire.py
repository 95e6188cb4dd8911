"""The wire: both builds write the same bytes for primitives and messages, and read the same out of any."""

from __future__ import annotations

import uuid
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioprod.messages.registry import REQUESTS
from aioprod.wire.schema import Message
from tests.support.builds import Build, builds, check_same, plain
from tests.support.length import by_length
from tests.support.messages import MESSAGES, structs, versioned_id

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
WRITES: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-130, 130),
    "int16": st.integers(-(1 << 15) - 1, 1 << 15),
    "int32": st.integers(-(1 << 31) - 1, 1 << 31),
    "int64": st.integers(-(1 << 63) - 1, 1 << 63),
    "uuid": st.uuids(allow_nil=True),
    "uvarint": st.integers(-1, 1 << 32),
    "varint": st.integers(-(1 << 31) - 1, 1 << 31),
    "string": st.none() | TEXT | st.integers(32_000, 33_000).map(lambda size: "a" * size),
    "compact_string": st.none() | TEXT,
    "bytes_": st.none() | st.binary(max_size=300),
    "compact_bytes": st.none() | st.binary(max_size=300),
    "count": st.none() | st.integers(0, (1 << 31) - 1),
    "compact_count": st.none() | st.integers(0, (1 << 31) - 1),
    "write": st.binary(max_size=20),
}
READS = sorted(WRITES.keys() - {"write", "varint"})


@given(st.lists(st.one_of([st.tuples(st.just(name), values) for name, values in WRITES.items()]), max_size=8))
def test_writing_primitives(calls: list[tuple[str, Any]]) -> None:
    def call(build: Build) -> object:
        writer = build["aioprod.wire.buffer"].Writer()
        for name, value in calls:
            getattr(writer, name)(value)
        return writer.getvalue(), len(writer)

    check_same(call)


@given(st.binary(max_size=60), st.lists(st.sampled_from(READS), max_size=8), st.integers(0, 20))
def test_reading_primitives(data: bytes, names: list[str], size: int) -> None:
    def call(build: Build) -> object:
        reader = build["aioprod.wire.buffer"].Reader(data)
        read: list[object] = []
        for name in names:
            try:
                read.append(plain(getattr(reader, name)()))
            except Exception as error:
                return [*read, plain(error)]
        read.append(plain(reader.take(size)))
        return read

    check_same(call)


def own(build: Build, value: Any) -> Any:
    """A message, or what is in one, with the classes of that build."""
    if isinstance(value, tuple):
        return tuple(own(build, held) for held in value)
    if type(value).__module__.startswith("aioprod.") and hasattr(type(value), "__dataclass_fields__"):
        kind = getattr(build[type(value).__module__], type(value).__name__)
        return kind(**{name: own(build, getattr(value, name)) for name in type(value).__dataclass_fields__})
    return value


@pytest.mark.parametrize("kind", MESSAGES, ids=versioned_id)
@settings(max_examples=by_length(16, 100), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_messages(kind: type[Message], data: st.DataObject) -> None:
    version = data.draw(st.integers(*kind.VERSIONS))
    message = data.draw(structs(kind, version))
    body = bytearray(check_same(lambda build: build["aioprod.wire.codec"].encode(own(build, message), version)))
    damage = data.draw(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=2))

    def decoded(build: Build) -> object:
        own_kind = getattr(build[kind.__module__], kind.__name__)
        return build["aioprod.wire.codec"].decode(own_kind, version, bytes(body))

    assert check_same(decoded) == plain(message)
    for at, byte in damage:
        if body:
            body[at % len(body)] = byte
    check_same(decoded)


@given(st.sampled_from(REQUESTS), st.integers(-(1 << 31), (1 << 31) - 1), st.none() | TEXT, st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_frames(kind: Any, correlation_id: int, client_id: str | None, data: st.DataObject) -> None:
    version = data.draw(st.integers(*kind.VERSIONS))
    request = data.draw(structs(kind, version))
    response = data.draw(structs(kind.RESPONSE, version))
    cuts = data.draw(st.lists(st.integers(0, 300), max_size=4))

    def call(build: Build) -> object:
        frame = build["aioprod.wire.frame"]
        asked = frame.encode_request(own(build, request), version, correlation_id, client_id)
        answered = frame.encode_response(own(build, response), version, correlation_id)
        splitter = frame.FrameSplitter()
        payloads = []
        for piece in pieces(asked + answered, cuts):
            payloads += [bytes(payload) for payload in splitter.feed(piece)]
        own_response = getattr(build[kind.RESPONSE.__module__], kind.RESPONSE.__name__)
        header = frame.decode_response_header(own_response, version, payloads[1])
        return asked, answered, payloads, splitter.buffered, list(header)

    check_same(call)
    check_same(lambda build: build["aioprod.messages.registry"].decode_request(call(build)[0][4:]))  # type: ignore[index]


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data as a socket may bring it."""
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(4, 60))
def test_any_bytes_from_a_socket(parts: list[bytes], size_max: int) -> None:
    def call(build: Build) -> object:
        splitter = build["aioprod.wire.frame"].FrameSplitter(size_max)
        return [[bytes(payload) for payload in splitter.feed(part)] for part in parts], splitter.buffered

    check_same(call)


def test_uuids_are_read_alike() -> None:
    zero, some = uuid.UUID(int=0), uuid.uuid4()
    read = [build["aioprod.wire.buffer"].Reader(zero.bytes + some.bytes) for build in builds()]
    assert [[reader.uuid(), reader.uuid()] for reader in read] == [[zero, some]] * 2
