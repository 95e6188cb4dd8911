"""One side of a connection in memory."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

if TYPE_CHECKING:
    from aioprod.testing.simulation.network import Network

__all__ = ["SimulatedTransport"]

HIGH_WATER: Final = 65_536
"""Bytes that wait in a transport from which on its protocol is asked to pause, as asyncio does."""


class SimulatedTransport(asyncio.Transport):
    """What asyncio's socket transport does, over a wire of the simulated network.

    What was written is read when it leaves, not before: bytes that are changed too early arrive changed.
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
        self._protocol: asyncio.Protocol | None = None
        self._closing = False
        self._reading = False
        self._ended = False
        # What leaves: not taken by the network yet, and on its way.
        self._waiting: deque[memoryview] = deque()
        self._waiting_size = 0
        self._high, self._low = HIGH_WATER, HIGH_WATER // 4
        self._paused_writing = False
        self._under_way = 0
        self._ends = False
        # What comes: arrives in order, at these times.
        self._arriving: deque[tuple[float, bytes | None]] = deque()
        self._arrival: asyncio.TimerHandle | None = None
        self._stalled = False
        self._unread: deque[bytes | None] = deque()
        self._broken: Exception | None = None

    def __repr__(self) -> str:
        return f"<SimulatedTransport {self._name}>"

    # -- life --------------------------------------------------------------------------------------------------------

    def begin(self, protocol: asyncio.Protocol) -> None:
        """Attach the protocol: what has arrived meanwhile is for it."""
        self._protocol = protocol
        self._loop.call_soon(self._made)

    def _made(self) -> None:
        assert self._protocol is not None
        self._protocol.connection_made(self)
        self._reading = True
        if self._broken is not None:
            self._lose(self._broken)
        self._read()

    def close(self) -> None:
        """Write out what waits, then end."""
        if not self._closing:
            self._closing = True
            self._reading = False
            if not self._waiting:
                self._end()

    def abort(self) -> None:
        """End now; what waits is dropped, what is on its way arrives."""
        self._lose(None)

    def _end(self) -> None:
        """Everything is written: tell the peer that nothing more comes, and the protocol that this was it."""
        self._send_end()
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        self._closing = True
        self._reading = False
        self._waiting.clear()
        self._waiting_size = 0
        if not self._ended:
            self._ended = True
            self._loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: Exception | None) -> None:
        self._network.trace(self._name, "lost", error or "")
        self.lost = True
        self._send_end()
        self.release()
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def release(self) -> None:
        """Close the socket that stood for the connection."""
        if self._sock is not None:
            self._sock.close()

    def is_closing(self) -> bool:
        """Whether it takes no more."""
        return self._closing

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Who is told."""
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Somebody else is told from now on."""
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; they may not change until they have left."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send bytes; they may not change until they have left."""
        if self._closing:
            return
        if self._ends:
            raise RuntimeError("Cannot write after the end was written.")
        for data in list_of_data:
            if len(data):
                self._waiting.append(memoryview(data))
                self._waiting_size += len(data)
        self._push()
        if self._waiting_size > self._high and not self._paused_writing:
            self._paused_writing = True
            self.get_protocol().pause_writing()

    def _push(self) -> None:
        """Give the network what it takes."""
        conditions = self._conditions
        while self._waiting and self._under_way < conditions.room:
            size = min(self._network.random.randint(1, 2 * conditions.piece_max), conditions.piece_max)
            piece = self._cut(min(size, conditions.room - self._under_way))
            self._under_way += len(piece)
            self._network.trace(self._name, len(piece), crc32(piece))
            self.peer.arrive(piece)

    def _cut(self, size: int) -> bytes:
        """Take bytes off the front of what waits."""
        piece = bytearray()
        while self._waiting and len(piece) < size:
            view = self._waiting.popleft()
            wanted = size - len(piece)
            piece += view[:wanted]
            if len(view) > wanted:
                self._waiting.appendleft(view[wanted:])
        self._waiting_size -= len(piece)
        return bytes(piece)

    def _left(self, size: int) -> None:
        """The peer has taken bytes: there is room for more."""
        self._under_way -= size
        if self._ended:
            return
        self._push()
        if self._paused_writing and self._waiting_size <= self._low:
            self._paused_writing = False
            self.get_protocol().resume_writing()
        if self._closing and not self._waiting:
            self._end()

    def write_eof(self) -> None:
        """Nothing more will be written. (What waits goes first.)"""
        self._send_end()

    def can_write_eof(self) -> bool:
        """It can be."""
        return True

    def _send_end(self) -> None:
        if not self._ends:
            self._ends = True
            self.peer.arrive(None)

    def get_write_buffer_size(self) -> int:
        """Bytes that wait."""
        return self._waiting_size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When the protocol is asked to pause, and to go on."""
        self._high = high if high is not None else (HIGH_WATER if low is None else 4 * low)
        self._low = low if low is not None else self._high // 4

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """The same, low and high."""
        return self._low, self._high

    # -- reading -----------------------------------------------------------------------------------------------------

    def arrive(self, piece: bytes | None) -> None:
        """The peer has sent bytes, or its end (None): they are here in a while, after those before."""
        at = self._loop.time() + self._network.latency_s()
        if self._arriving:
            at = max(at, self._arriving[-1][0])
        self._arriving.append((at, piece))
        self._expect()

    def _expect(self) -> None:
        if self._arrival is None and self._arriving and not self._stalled:
            self._arrival = self._loop.call_at(self._arriving[0][0], self._arrived)

    def _arrived(self) -> None:
        self._arrival = None
        _, piece = self._arriving.popleft()
        if self.lost or self._ended:
            # As a host answers bytes for a connection that it knows no more.
            if piece is not None:
                self.peer.break_off(ConnectionResetError(104, "Connection reset by peer"))
                self.peer._left(len(piece))
        else:
            self._unread.append(piece)
            self._read()
        self._expect()

    def _read(self) -> None:
        while self._unread and self._reading and not self._ended:
            piece = self._unread.popleft()
            if piece is None:
                if not self.get_protocol().eof_received():  # type: ignore[attr-defined]
                    self.close()
                continue
            self.get_protocol().data_received(piece)  # type: ignore[attr-defined]
            self.peer._left(len(piece))

    def pause_reading(self) -> None:
        """Leave what arrives where it is: the sender's buffers fill up."""
        self._reading = False

    def resume_reading(self) -> None:
        """Take what arrives again."""
        if not self._reading and not self._closing:
            self._reading = True
            self._loop.call_soon(self._read)

    def is_reading(self) -> bool:
        """Whether what arrives is taken."""
        return self._reading

    # -- what goes wrong ---------------------------------------------------------------------------------------------

    def break_off(self, error: Exception) -> None:
        """The connection is gone, for this side."""
        if self._protocol is None:
            self._broken = error
        elif not self._ended:
            self._lose(error)

    def stall(self) -> None:
        """Nothing arrives here any more."""
        self._stalled = True
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def resume(self) -> None:
        """What was held back arrives now."""
        if self._stalled:
            self._stalled = False
            now = self._loop.time()
            self._arriving = deque((max(at, now), piece) for at, piece in self._arriving)
            self._expect()

    def drop_arrivals(self) -> None:
        """What is on its way here is lost."""
        self._arriving.clear()
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None
