from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.errors import ProtocolError, UnsupportedVersionError
from aioprod.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    HeartbeatResponse,
    MetadataRequest,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from aioprod.wire.codec import encode
from aioprod.wire.frame import (
    FRAME_SIZE_MAX,
    FrameSplitter,
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
    request_header,
)
from aioprod.wire.schema import Response


def feed(stream: bytes, step: int) -> list[memoryview]:
    """Feed the stream in pieces of `step` bytes."""
    splitter = FrameSplitter()
    return [frame for start in range(0, len(stream), step) for frame in splitter.feed(stream[start : start + step])]


def header_and_body(kind: type[Response], version: int, payload: bytes) -> tuple[int, bytes]:
    correlation_id, body = decode_response_header(kind, version, payload)
    return correlation_id, bytes(body)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


payloads = st.lists(st.binary(max_size=9), max_size=5)


@settings(deadline=None)
@given(payloads, st.integers(1, 12))
def test_frames_come_out_whole_however_the_stream_is_cut(expected: list[bytes], step: int) -> None:
    stream = b"".join(map(framed, expected))
    assert feed(stream, step) == expected


@settings(deadline=None)
@given(payloads, st.binary(min_size=1, max_size=3))
def test_the_start_of_a_frame_is_kept(expected: list[bytes], start: bytes) -> None:
    splitter = FrameSplitter()
    assert splitter.feed(b"".join(map(framed, expected)) + start) == expected
    assert splitter.buffered == len(start)


SIZES = st.integers(0, 9) | st.integers(16_370, 16_390) | st.just(40_000)


def received(splitter: FrameSplitter, stream: bytes, cuts: Iterable[int]) -> list[memoryview]:
    """What comes out of a stream that is received in pieces of these sizes, as far as there is room, then the rest."""
    frames: list[memoryview] = []
    pieces = chain(cuts, repeat(len(stream)))
    at = 0
    while at < len(stream):
        room = splitter.room()
        count = min(next(pieces), len(room), len(stream) - at)
        room[:count] = stream[at : at + count]
        frames += splitter.received(count)
        at += count
    return frames


@settings(deadline=None)
@given(st.lists(SIZES, max_size=5), st.lists(st.integers(1, 30_000), max_size=12))
def test_frames_are_received_whole_wherever_they_arrive(sizes: list[int], cuts: list[int]) -> None:
    expected = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    splitter = FrameSplitter()
    assert received(splitter, b"".join(map(framed, expected)), cuts) == expected
    assert splitter.buffered == 0


def test_a_stream_may_be_cut_at_each_byte() -> None:
    expected = [b"one", b"", b"a" * 300, b"b" * 20_000, b"four"]
    stream = b"".join(map(framed, expected))
    near_borders = [at for at in range(1, len(stream)) if not 330 < at < 16_370 or at % 997 == 0]
    for at in near_borders:
        splitter = FrameSplitter()
        assert [*received(splitter, stream[:at], ()), *received(splitter, stream[at:], ())] == expected
    assert received(FrameSplitter(), stream, repeat(1)) == expected


@pytest.mark.parametrize("size", [0, 5, 20_000])
def test_the_limit_is_that_of_what_is_received(size: int) -> None:
    splitter = FrameSplitter(size)
    assert received(splitter, framed(bytes(size)), ()) == [bytes(size)]
    with pytest.raises(ProtocolError, match=f"0 to {size} are accepted"):
        received(splitter, framed(bytes(size + 1)), ())


def test_the_memory_of_a_frame_grows_with_what_has_come() -> None:
    size = 9 << 20
    splitter = FrameSplitter()
    assert received(splitter, size.to_bytes(4, "big"), ()) == []
    come, frames = 0, []
    while come < size:
        room = splitter.room()
        assert len(room) <= max(2 << 20, come)
        room[:] = bytes([come >> 20]) * len(room)
        come += len(room)
        frames += splitter.received(len(room))
    (frame,) = frames
    assert len(frame) == size
    assert (frame[0], frame[2 << 20], frame[4 << 20], frame[8 << 20]) == (0, 2, 4, 8)


def test_a_frame_grows_while_somebody_has_a_view_of_it() -> None:
    """As Windows' transports have, which ask for room again before they drop the one before."""
    size = 5 << 20
    splitter = FrameSplitter()
    received(splitter, size.to_bytes(4, "big"), ())
    views, come, frames = [], 0, []
    while come < size:
        views.append(splitter.room())
        views[-1][:] = bytes([len(views)]) * len(views[-1])
        come += len(views[-1])
        frames += splitter.received(len(views[-1]))
    assert [frame[(at << 20)] for frame in frames for at in (0, 2, 4)] == [1, 2, 3]


def test_frames_do_not_change_when_later_ones_come() -> None:
    splitter = FrameSplitter()
    (first,) = received(splitter, framed(b"first"), ())
    (second,) = received(splitter, framed(b"later"), ())
    assert (bytes(first), bytes(second)) == (b"first", b"later")
    assert first.readonly


def test_frames_in_pieces_do_not_share_memory_with_later_ones() -> None:
    splitter = FrameSplitter()
    splitter.feed(b"\x00\x00\x00\x02a")
    (first,) = splitter.feed(b"b\x00")
    (second,) = splitter.feed(b"\x00\x00\x01c")
    assert (bytes(first), bytes(second)) == (b"ab", b"c")
    assert first.readonly


def test_nothing_is_fed() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(b"") == []
    assert splitter.feed(b"\x00\x00") == []
    assert splitter.feed(b"") == []


@pytest.mark.parametrize("size", [-1, -(1 << 31), FRAME_SIZE_MAX + 1, (1 << 31) - 1])
@pytest.mark.parametrize("step", [1, 4, 8])
def test_a_size_out_of_bounds_is_refused_as_soon_as_it_is_known(size: int, step: int) -> None:
    stream = size.to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError, match=f"frame of {size} bytes; 0 to {FRAME_SIZE_MAX} are accepted"):
        feed(stream, step)


def test_the_limit_is_the_callers() -> None:
    splitter = FrameSplitter(4)
    assert splitter.feed(framed(b"1234")) == [b"1234"]
    with pytest.raises(ProtocolError, match="0 to 4 are accepted"):
        splitter.feed(framed(b"12345"))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "is an HTTP server"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "speaks TLS"),
        (b"\x16\x03\x01\x02\x00", "speaks TLS"),
    ],
)
@pytest.mark.parametrize("step", [1, 64])
def test_the_error_says_that_a_peer_is_no_broker(answer: bytes, told: str, step: int) -> None:
    with pytest.raises(ProtocolError, match=told) as caught:
        feed(answer, step)
    assert caught.value.hint is not None


def test_request_headers() -> None:
    assert request_header(3, 8, False, 5, "me").hex() == "000300080000000500026d65"
    assert request_header(3, 9, True, 5, "me").hex() == "000300090000000500026d6500"
    assert request_header(3, 9, True, 5, None).hex() == "0003000900000005ffff00"


@pytest.mark.parametrize("version", [0, 8, 9, 13])
def test_a_request_and_its_frame(version: int) -> None:
    request = MetadataRequest(topics=())
    frame = encode_request(request, version, 77, "me")
    (payload,) = FrameSplitter().feed(frame)
    header = decode_request_header(payload, lambda key, version: MetadataRequest.is_flexible(version))
    assert header[:4] == (3, version, 77, "me")
    assert header.body == encode(request, version)


def test_sasl_handshake_is_never_flexible() -> None:
    frame = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "me")
    assert frame.hex() == "00000013001100010000000100026d650005504c41494e"
    assert header_and_body(SaslHandshakeResponse, 1, b"\x00\x00\x00\x01body") == (1, b"body")


@pytest.mark.parametrize(("version", "header"), [(3, "00000009"), (4, "0000000900")])
def test_response_headers(version: int, header: str) -> None:
    response = HeartbeatResponse(error_code=27)
    frame = encode_response(response, version, 9)
    body = encode(response, version)
    assert frame == framed(bytes.fromhex(header) + body)
    assert header_and_body(HeartbeatResponse, version, frame[4:]) == (9, body)


@pytest.mark.parametrize("version", range(5))
def test_the_response_header_of_api_versions_is_never_flexible(version: int) -> None:
    frame = encode_response(ApiVersionsResponse(), version, 9)
    body = encode(ApiVersionsResponse(), version)
    assert frame == framed(b"\x00\x00\x00\x09" + body)
    assert header_and_body(ApiVersionsResponse, version, frame[4:]) == (9, body)


def test_tags_of_headers_are_skipped() -> None:
    tagged = bytes.fromhex("00000009 02 00 01 ff 07 00") + b"body"
    assert header_and_body(HeartbeatResponse, 4, tagged) == (9, b"body")


@pytest.mark.parametrize("payload", ["", "000000", "00000009", "00000009 01", "00000009 01 00 05 00", "00000009 ff"])
def test_a_malformed_response_header_is_refused(payload: str) -> None:
    with pytest.raises(ProtocolError):
        decode_response_header(HeartbeatResponse, 4, bytes.fromhex(payload))


def test_a_malformed_request_header_is_refused() -> None:
    header = request_header(18, 3, True, 1, "me")
    for end in range(len(header)):
        with pytest.raises(ProtocolError):
            decode_request_header(header[:end], lambda key, version: True)


def test_a_request_that_the_version_has_no_place_for() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"MetadataRequest\.allow_auto_topic_creation"):
        encode_request(MetadataRequest(allow_auto_topic_creation=False), 3, 1, None)
    with pytest.raises(UnsupportedVersionError, match="versions 0 to 5, not 6"):
        encode_request(ApiVersionsRequest(), 6, 1, None)
