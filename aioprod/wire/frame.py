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
    "request_header",
]

FRAME_SIZE_MAX: Final = 100_000_000
"""The largest frame that is accepted, in bytes: brokers take hardly more (`socket.request.max.bytes`)."""

_SIZE_WIDTH = 4
_CORRELATION_WIDTH = 4
_unpack_size = struct.Struct(">i").unpack_from
_pack_head = struct.Struct(">hhi").pack
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""How an alert and a handshake record of TLS begin."""


class FrameSplitter:
    """Cuts a stream into frames. After an error the position is lost, and the connection must be closed."""

    __slots__ = ("_partial", "_size_max")

    def __init__(self, size_max: int = FRAME_SIZE_MAX) -> None:
        self._size_max = size_max
        self._partial = bytearray()

    def limit(self, size_max: int) -> None:
        """Accept frames of this size from now on."""
        self._size_max = size_max

    def feed(self, data: bytes) -> list[memoryview]:
        """The payloads (header and body) of all frames that `data` completes, in order.

        Payloads are views: of `data` where a frame lies whole in it, else of a buffer with no other user.
        Raises ProtocolError for a size below 0 or over the limit, which says so if the peer is not a Kafka broker.
        """
        frames: list[memoryview] = []
        view = memoryview(data)
        position = 0
        end = len(view)
        while self._partial and position < end:
            position = self._fill(view, position, frames)
        while position + _SIZE_WIDTH <= end:
            first = position + _SIZE_WIDTH
            last = first + self._size(view, position)
            if last > end:
                break
            frames.append(view[first:last])
            position = last
        if position < end:
            self._partial += view[position:]
        return frames

    @property
    def buffered(self) -> int:
        """How many bytes of an unfinished frame are held."""
        return len(self._partial)

    def _fill(self, view: memoryview, position: int, frames: list[memoryview]) -> int:
        """Move from `view` what the unfinished frame lacks, first of its size, then of its payload; where that ends."""
        partial = self._partial
        whole = _SIZE_WIDTH + (self._size(partial, 0) if len(partial) >= _SIZE_WIDTH else 0)
        end = position + whole - len(partial)
        partial += view[position:end]
        if len(partial) == whole and whole == _SIZE_WIDTH + self._size(partial, 0):
            frames.append(memoryview(partial).toreadonly()[_SIZE_WIDTH:])
            self._partial = bytearray()
        return end

    def _size(self, data: Buffer, position: int) -> int:
        size: int = _unpack_size(data, position)[0]
        if 0 <= size <= self._size_max:
            return size
        raise _bad_size(bytes(data[position : position + _SIZE_WIDTH]), size, self._size_max)


def _bad_size(head: bytes, size: int, size_max: int) -> ProtocolError:
    if head == b"HTTP":
        return ProtocolError("The peer is an HTTP server, no Kafka broker.", hint="Check host and port.")
    if head.startswith(_TLS_RECORDS):
        return ProtocolError(
            "The peer speaks TLS and was spoken to in plaintext.",
            hint="Use the broker's plaintext port, or a security.protocol with SSL.",
        )
    return ProtocolError(f"The peer announces a frame of {size} bytes; 0 to {size_max} are accepted.")


def request_header(api_key: int, version: int, flexible: bool, correlation_id: int, client_id: str | None) -> bytes:
    """A request's header, version 2 if `flexible`, else version 1."""
    return _pack_head(api_key, version, correlation_id) + _client(client_id, flexible)


@derived_once
def _client(client_id: str | None, flexible: bool) -> bytes:
    """The client's name in a request's header, and the tagged fields after it."""
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
    view = memoryview(payload)
    start = _CORRELATION_WIDTH + flexible
    if len(view) >= start and (not flexible or view[_CORRELATION_WIDTH] == 0):
        # No tagged fields: no broker sends any.
        return memory.number(memory.first_byte(view), 0, _CORRELATION_WIDTH), view[start:]
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
