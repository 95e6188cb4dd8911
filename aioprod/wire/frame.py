"""Frames and headers: how messages are cut out of a stream of bytes, and what stands before their bodies.

A frame is an int32 size and that many bytes: header, then body. Request headers have versions 1 and 2 (2: with tagged
fields, yet the client id keeps its int16 length), response headers 0 and 1 (KIP-482).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from aioprod.errors import ProtocolError
from aioprod.wire import memory
from aioprod.wire.buffer import Buffer, Reader, Writer
from aioprod.wire.codec import encode_into
from aioprod.wire.schema import Message, Request, Response, derived_once

__all__ = [
    "FRAME_SIZE_MAX",
    "FrameSplitter",
    "RequestHeader",
    "decode_request_header",
    "decode_response_header",
    "encode_request",
    "encode_response",
    "header_end",
    "request_head",
    "request_header",
]

FRAME_SIZE_MAX: Final = 100_000_000
"""The largest frame that is accepted, in bytes: brokers take hardly more (`socket.request.max.bytes`)."""

_NEAR_SIZE: Final = 16_384
"""Bytes that are received at a time while no large frame has begun; each connection holds them."""

_FRESH_MAX: Final = 1 << 21
"""The most bytes that are reserved for a frame of which nothing has come yet."""

_SIZE_WIDTH: Final = 4
_CORRELATION_WIDTH: Final = 4
_FIXED_WIDTH: Final = 8
_pack_head = struct.Struct(">ihhi").pack
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")
"""How an alert and a handshake record of TLS begin."""


class FrameSplitter:
    """Cuts a stream into frames. After an error the position is lost, and the connection must be closed.

    The stream is received into `room()`. A frame that is larger than `_NEAR_SIZE` gets a buffer of its own, and all but
    its beginning is received into it. That buffer grows with what has come, to twice as much at most.
    """

    __slots__ = ("_filled", "_frame", "_near", "_near_end", "_size", "_size_max")

    def __init__(self, size_max: int = FRAME_SIZE_MAX) -> None:
        self._size_max = size_max
        # Where small frames arrive, the beginning of large ones, and the size of the next one while it is not whole.
        self._near = memoryview(bytearray(_NEAR_SIZE))
        self._near_end = 0
        # The frame that is arriving, the bytes of it that have come, and those that it is to have.
        self._frame: bytearray | None = None
        self._filled = 0
        self._size = 0

    def limit(self, size_max: int) -> None:
        """Accept frames of this size from now on."""
        self._size_max = size_max

    def room(self) -> memoryview:
        """Where the next bytes of the stream are to be received, before `received`; never empty."""
        frame = self._frame
        if frame is None:
            return self._near[self._near_end :] if self._near_end else self._near
        if self._filled == len(frame):
            frame = self._frame = memory.grown(frame, min(self._size, 2 * len(frame)))
        return memoryview(frame)[self._filled :]

    def received(self, count: int) -> list[memoryview]:
        """The payloads (header and body) of all frames that `count` bytes in `room()` complete, in order.

        Each has memory with no other user. Raises ProtocolError for a size below 0 or over the limit, which says so if
        the peer is not a Kafka broker.
        """
        if self._frame is not None:
            return self._received_far(self._frame, count)
        end = self._near_end + count
        frames: list[memoryview] = []
        near = memory.first_byte(self._near)
        position = 0
        while position + _SIZE_WIDTH <= end:
            size = memory.number(near, position, _SIZE_WIDTH)
            if not 0 <= size <= self._size_max:
                raise _bad_size(memory.copied(near, position, _SIZE_WIDTH), size, self._size_max)
            position += _SIZE_WIDTH
            if position + size > end:
                self._begin(size, position, end)
                position = end
                break
            frames.append(memoryview(memory.copied(near, position, size)))
            position += size
        self._near_end = end - position
        if self._near_end and position:
            self._near[: self._near_end] = self._near[position:end]
        return frames

    def _received_far(self, frame: bytearray, count: int) -> list[memoryview]:
        self._filled += count
        if self._filled < self._size:
            return []
        self._frame = None
        return [memoryview(frame).toreadonly()]

    def _begin(self, size: int, position: int, end: int) -> None:
        """A frame of `size` bytes begins with those from `position` to `end`; the others will come into its own."""
        self._size = size
        self._filled = end - position
        self._frame = memory.grown(bytearray(self._near[position:end]), min(size, max(_FRESH_MAX, self._filled)))

    def feed(self, data: Buffer) -> list[memoryview]:
        """What `received` returns, for a stream that comes in chunks of its own."""
        frames: list[memoryview] = []
        view = memoryview(data)
        position = 0
        while position < len(view):
            count = self._copy(view[position:])
            frames += self.received(count)
            position += count
        return frames

    def _copy(self, data: memoryview) -> int:
        room = self.room()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        return count

    @property
    def buffered(self) -> int:
        """How many bytes of an unfinished frame are held."""
        return self._near_end if self._frame is None else _SIZE_WIDTH + self._filled


def _bad_size(head: bytes, size: int, size_max: int) -> ProtocolError:
    if head == b"HTTP":
        return ProtocolError("The peer is an HTTP server, no Kafka broker.", hint="Check host and port.")
    if head.startswith(_TLS_RECORDS):
        return ProtocolError(
            "The peer speaks TLS and was spoken to in plaintext.",
            hint="Use the broker's plaintext port, or a security.protocol with SSL.",
        )
    return ProtocolError(f"The peer announces a frame of {size} bytes; 0 to {size_max} are accepted.")


def request_head(size: int, api_key: int, version: int, correlation_id: int, client: bytes) -> bytes:
    """The size of a request's frame and its header, for a body of `size` bytes; `client` is `header_end`."""
    return _pack_head(_FIXED_WIDTH + len(client) + size, api_key, version, correlation_id) + client


def request_header(api_key: int, version: int, flexible: bool, correlation_id: int, client_id: str | None) -> bytes:
    """A request's header, version 2 if `flexible`, else version 1."""
    return request_head(0, api_key, version, correlation_id, header_end(client_id, flexible))[_SIZE_WIDTH:]


def header_end(client_id: str | None, flexible: bool) -> bytes:
    """The client's name in a request's header, and the tagged fields after it: the same for all of a client."""
    writer = Writer()
    writer.string(client_id)
    if flexible:
        writer.uvarint(0)
    return writer.getvalue()


def encode_request(message: Request[Response], version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request's whole frame, size included, for `aioprod.testing`: a client's requests are made of parts.

    Raises as `codec.encode` does.
    """
    writer = Writer()
    writer.write(request_header(message.API_KEY, version, message.is_flexible(version), correlation_id, client_id))
    return _frame(writer, message, version)


def encode_response(message: Response, version: int, correlation_id: int) -> bytes:
    """A response's whole frame, size included, for the servers of `aioprod.testing`; raises as `codec.encode` does."""
    writer = Writer()
    writer.int32(correlation_id)
    if _has_flexible_header(type(message), version):
        writer.uvarint(0)
    return _frame(writer, message, version)


def _frame(header: Writer, message: Message, version: int) -> bytes:
    encode_into(header, message, version)
    payload = header.getvalue()
    return len(payload).to_bytes(_SIZE_WIDTH, "big") + payload


class RequestHeader(NamedTuple):
    """The header of a request, and its body."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: memoryview


def decode_request_header(payload: Buffer, is_flexible: Callable[[int, int], bool]) -> RequestHeader:
    """The header of a request's frame; `is_flexible(api_key, version)` is True for header version 2.

    Raises ProtocolError if it is malformed.
    """
    reader = Reader(payload)
    api_key, version, correlation_id = reader.int16(), reader.int16(), reader.int32()
    client_id = reader.string()
    if is_flexible(api_key, version):
        _skip_tags(reader)
    return RequestHeader(api_key, version, correlation_id, client_id, reader.rest())


def decode_response_header(response: type[Response], version: int, payload: Buffer) -> tuple[int, memoryview]:
    """Correlation id and body of the frame of a `response` in `version`; raises ProtocolError if it is malformed."""
    flexible = _has_flexible_header(response, version)
    view = payload if type(payload) is memoryview else memoryview(payload)
    data = memory.first_byte(view)
    start = _CORRELATION_WIDTH + flexible
    if len(view) >= start and (not flexible or data[_CORRELATION_WIDTH] == 0):
        # No tagged fields: no broker sends any.
        return memory.number(data, 0, _CORRELATION_WIDTH), view[start:]
    reader = Reader(payload)
    correlation_id = reader.int32()
    if flexible:
        _skip_tags(reader)
    return correlation_id, reader.rest()


@derived_once
def _has_flexible_header(response: type[Response], version: int) -> bool:
    return response.FLEXIBLE_HEADER and response.is_flexible(version)


def _skip_tags(reader: Reader) -> None:
    for _ in range(reader.uvarint()):
        reader.uvarint()
        reader.take(reader.uvarint())
