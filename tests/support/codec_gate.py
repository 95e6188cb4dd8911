"""`CodecGate`: compression that waits until the test opens it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aioprod.records.compression import compress
from aioprod.wire.buffer import Buffer

GATED = "aioprod.records.builder.compress"
PATIENCE_S = 20.0


class CodecGate:
    """Takes the place of `compress` in the builder while it is entered.

    `calls` counts calls, `threads` names their threads, `active_max` is the highest number at a time. While it is
    `shut` all calls wait; `error` is raised once by the next call that gets through.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.threads: list[str] = []
        self.error: Exception | None = None
        self.active = self.active_max = 0
        self._lock = threading.Lock()
        self._open = threading.Event()

    def __call__(self, codec: int, level: int | None, data: Buffer) -> bytes:
        with self._lock:
            self.calls += 1
            self.threads.append(threading.current_thread().name)
            self.active += 1
            self.active_max = max(self.active, self.active_max)
        try:
            if threading.current_thread() is not threading.main_thread():
                assert self._open.wait(PATIENCE_S)
            with self._lock:
                error, self.error = self.error, None
            if error is not None:
                raise error
            return compress(codec, level, data)
        finally:
            with self._lock:
                self.active -= 1

    def open(self) -> None:
        """Let all calls through."""
        self._open.set()

    def shut(self) -> None:
        """Make calls wait from now on."""
        self._open.clear()


@contextmanager
def codec_gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[CodecGate]:
    """A shut gate before the codec; it is open in the end."""
    gate = CodecGate()
    monkeypatch.setattr(GATED, gate)
    try:
        yield gate
    finally:
        gate.open()
