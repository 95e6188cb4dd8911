"""`SimulatedTransport`: one side of a connection in memory.

`write` puts bytes into `_waiting`; `_transmit` sends them as segments while the window allows it. A segment arrives at
the peer after the network's latency, in order, and is passed to its protocol unless reading is paused; only then does
the sender's window open again. None in place of a segment is EOF.
"""

from __future__ import annotations

import asyncio
import contextvars
import socket
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

if TYPE_CHECKING:
    from aioprod.testing.simulation.network import Network

__all__ = ["SimulatedTransport"]

_HIGH_WATER: Final = 65_536
"""From so many waiting bytes on the protocol's `pause_writing` is called, as in asyncio."""


class SimulatedTransport(asyncio.Transport):
    """Behaves as asyncio's socket transport, over a `Wire` of the simulated network.

    Written buffers are read when their bytes are sent, not before: a buffer that is reused too early arrives changed.
    """

    peer: SimulatedTransport

    def __init__(
        self, network: Network, number: int, side: str, extra: dict[str, Any], sock: socket.socket | None
    ) -> None:
        super().__init__(extra)
        self.address = extra["sockname"]
        self.lost = False
        self._network = network
        self._loop = network.loop
        self._conditions = network.conditions
        self._name = f"{number}:{side}"
        self._sock = sock
        self._context = contextvars.copy_context()
        """That of the side which it belongs to: what the peer does has no influence on its callbacks."""
        self._protocol: asyncio.Protocol | None = None
        self._closing = False
        self._reading = False
        self._is_closed = False
        # Outgoing: waiting for the window, and in flight.
        self._waiting: deque[memoryview] = deque()
        self._waiting_size = 0
        self._high, self._low = _HIGH_WATER, _HIGH_WATER // 4
        self._paused_writing = False
        self._in_flight = 0
        self._eof_sent = False
        # Incoming: in order, with the time of arrival; then waiting for the protocol.
        self._arriving: deque[tuple[float, bytes | None]] = deque()
        self._arrival: asyncio.TimerHandle | None = None
        self._stalled = False
        self._unread: deque[bytes | None] = deque()
        self._early_error: Exception | None = None

    def __repr__(self) -> str:
        return f"<SimulatedTransport {self._name}>"

    # --- lifetime

    def attach(self, protocol: asyncio.Protocol) -> None:
        """Attach the protocol, which gets what has arrived meanwhile."""
        self._protocol = protocol
        self._loop.call_soon(self._connected, context=self._context)

    def _connected(self) -> None:
        assert self._protocol is not None
        self._protocol.connection_made(self)
        self._reading = True
        if self._early_error is not None:
            self._close_now(self._early_error)
        self._read()

    def close(self) -> None:
        """Send what waits, then close."""
        if not self._closing:
            self._closing = True
            self._reading = False
            if not self._waiting:
                self._finish()

    def abort(self) -> None:
        """Close now; waiting bytes are dropped, bytes in flight arrive."""
        self._close_now(None)

    def _finish(self) -> None:
        """Close after everything was sent: EOF for the peer, `connection_lost` for the protocol."""
        self._send_eof()
        self._close_now(None)

    def _close_now(self, error: Exception | None) -> None:
        self._closing = True
        self._reading = False
        self._waiting.clear()
        self._waiting_size = 0
        if not self._is_closed:
            self._is_closed = True
            self._loop.call_soon(self._notify_lost, error, context=self._context)

    def _notify_lost(self, error: Exception | None) -> None:
        self._network.trace(self._name, "lost", error or "")
        self.lost = True
        self._send_eof()
        self.release()
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def release(self) -> None:
        """Close the socket that stands for the connection."""
        if self._sock is not None:
            self._sock.close()

    def is_closing(self) -> bool:
        """Whether `close` or `abort` was called, or the connection is lost."""
        return self._closing

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The attached protocol."""
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Attach another protocol."""
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    # --- writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; the buffer may not change until they are sent."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send bytes; the buffers may not change until they are sent."""
        if self._closing:
            return
        if self._eof_sent:
            raise RuntimeError("Cannot write after write_eof().")
        for data in list_of_data:
            if len(data):
                self._waiting.append(memoryview(data))
                self._waiting_size += len(data)
        self._transmit()
        if self._waiting_size > self._high and not self._paused_writing:
            self._paused_writing = True
            self.get_protocol().pause_writing()

    def _transmit(self) -> None:
        """Send segments while the window allows it."""
        conditions = self._conditions
        while self._waiting and self._in_flight < conditions.window:
            size = min(self._network.random.randint(1, 2 * conditions.segment_max), conditions.segment_max)
            segment = self._take_segment(min(size, conditions.window - self._in_flight))
            self._in_flight += len(segment)
            self._network.trace(self._name, len(segment), crc32(segment))
            self.peer.arrive(segment)

    def _take_segment(self, size: int) -> bytes:
        """Remove the next segment from the waiting bytes."""
        segment = bytearray()
        while self._waiting and len(segment) < size:
            view = self._waiting.popleft()
            wanted = size - len(segment)
            segment += view[:wanted]
            if len(view) > wanted:
                self._waiting.appendleft(view[wanted:])
        self._waiting_size -= len(segment)
        return bytes(segment)

    def _delivered(self, size: int) -> None:
        """The peer's protocol has got bytes: the window opens."""
        self._in_flight -= size
        if self._is_closed:
            return
        self._transmit()
        if self._paused_writing and self._waiting_size <= self._low:
            self._paused_writing = False
            self.get_protocol().resume_writing()
        if self._closing and not self._waiting:
            self._finish()

    def write_eof(self) -> None:
        """Send EOF after the waiting bytes."""
        self._send_eof()

    def can_write_eof(self) -> bool:
        """Always."""
        return True

    def _send_eof(self) -> None:
        if not self._eof_sent:
            self._eof_sent = True
            self.peer.arrive(None)

    def get_write_buffer_size(self) -> int:
        """The number of waiting bytes."""
        return self._waiting_size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when `pause_writing` and `resume_writing` are called."""
        self._high = high if high is not None else (_HIGH_WATER if low is None else 4 * low)
        self._low = low if low is not None else self._high // 4

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """The low and high water marks in bytes."""
        return self._low, self._high

    # --- reading

    def arrive(self, segment: bytes | None) -> None:
        """The peer has sent a segment, or EOF (None): it arrives after the latency, behind the segments before."""
        at = self._loop.time() + self._network.latency_s()
        if self._arriving:
            at = max(at, self._arriving[-1][0])
        self._arriving.append((at, segment))
        self._schedule_arrival()

    def _schedule_arrival(self) -> None:
        if self._arrival is None and self._arriving and not self._stalled:
            self._arrival = self._loop.call_at(self._arriving[0][0], self._arrived, context=self._context)

    def _arrived(self) -> None:
        self._arrival = None
        _, segment = self._arriving.popleft()
        if self.lost or self._is_closed:
            # As a host answers segments of a closed connection with a reset.
            if segment is not None:
                self.peer.lose(ConnectionResetError(104, "Connection reset by peer"))
                self.peer._delivered(len(segment))
        else:
            self._unread.append(segment)
            self._read()
        self._schedule_arrival()

    def _read(self) -> None:
        while self._unread and self._reading and not self._is_closed:
            segment = self._unread.popleft()
            if segment is None:
                if not self.get_protocol().eof_received():  # type: ignore[attr-defined]
                    self.close()
                continue
            self.get_protocol().data_received(segment)  # type: ignore[attr-defined]
            self.peer._delivered(len(segment))

    def pause_reading(self) -> None:
        """Pass nothing to the protocol: the sender's window and buffers fill up."""
        self._reading = False

    def resume_reading(self) -> None:
        """Pass what arrives to the protocol again."""
        if not self._reading and not self._closing:
            self._reading = True
            self._loop.call_soon(self._read, context=self._context)

    def is_reading(self) -> bool:
        """Whether what arrives is passed to the protocol."""
        return self._reading

    # --- faults

    def lose(self, error: Exception) -> None:
        """Lose the connection with this error, on this side."""
        if self._protocol is None:
            self._early_error = error
        elif not self._is_closed:
            self._close_now(error)

    def stall(self) -> None:
        """Hold back everything that arrives."""
        self._stalled = True
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def resume(self) -> None:
        """Deliver what was held back."""
        if self._stalled:
            self._stalled = False
            now = self._loop.time()
            self._arriving = deque((max(at, now), segment) for at, segment in self._arriving)
            self._schedule_arrival()

    def drop_arrivals(self) -> None:
        """Lose what is in flight to this side."""
        self._arriving.clear()
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None
