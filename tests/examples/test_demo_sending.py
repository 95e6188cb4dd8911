"""The demo's sending loop, with a producer that is full, fails, and remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from aioprod import Producer, RecordMetadata
from aioprod.errors import AioprodError, BufferFullError, RejectedError
from aioprod.types import Buffered
from examples.demo import sending
from examples.demo.sending import Sent, send
from examples.demo.source import Source

Callback = Callable[[RecordMetadata | None, AioprodError | None], object]


class StandIn:
    """Takes `room` records between two drains, and tells the outcome of a record at the next drain."""

    def __init__(self, room: int, *, fails: bool = False) -> None:
        self.taken: list[tuple[bytes, bytes]] = []
        self._room = room
        self._fails = fails
        self._held: list[Callback | None] = []

    def send_nowait(self, topic: str, value: bytes, *, key: bytes, on_delivery: Callback | None) -> None:
        if len(self._held) == self._room:
            raise BufferFullError("full")
        self._held.append(on_delivery)
        self.taken.append((key, value))

    async def drain(self) -> None:
        held, self._held = self._held, []
        for callback in held:
            if callback is not None and self._fails:
                callback(None, RejectedError("no", topic="demo", partition=0))
            elif callback is not None:
                callback(RecordMetadata("demo", 0, 0, 0), None)

    flush = drain

    @property
    def buffered(self) -> Buffered:
        return Buffered(len(self._held), 0)


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    contents = {b"a": b"0123456789" * 40, b"empty": b"", b"b": b"\n" * 700}
    for name, content in contents.items():
        (tmp_path / name.decode()).write_bytes(content)
    return [Source(name, tmp_path / name.decode()) for name in contents]


def run(producer: StandIn, sources: list[Source]) -> tuple[Sent, list[int]]:
    sent = Sent()
    shown: list[int] = []

    def show(done: int, detail: str) -> None:
        assert "p99" in detail
        shown.append(done)

    asyncio.run(send(cast(Producer, producer), "demo", sources, sent, show))
    return sent, shown


@pytest.mark.parametrize("room", [1, 100, 10_000])
def test_every_line_is_handed_over_once_and_in_order_however_full_it_is(sources: list[Source], room: int) -> None:
    producer = StandIn(room)
    sent, shown = run(producer, sources)
    assert producer.taken == [(source.key, line) for source in sources for line in source.lines()]
    assert sent.digests.records == len(producer.taken) == sent.acknowledged == shown[-1]
    assert sent.value_bytes == 400
    assert set(sent.digests) == {b"a", b"b"}


def test_samples_are_timed(sources: list[Source]) -> None:
    sent, _ = run(StandIn(10_000), sources)
    assert sent.latency.count == -(-sent.digests.records // sending.SAMPLED)
    assert sent.rate > 0


def test_progress_is_shown_on_the_way(sources: list[Source], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SHOWN_EVERY_S", 0.0)
    _, shown = run(StandIn(10_000), sources)
    assert shown == [256, 512, 701]


def test_failed_records_are_kept_and_not_counted_as_acknowledged(sources: list[Source]) -> None:
    sent, _ = run(StandIn(10_000, fails=True), sources)
    assert sent.latency.count == 0
    assert sent.acknowledged == sent.digests.records - len(sent.errors)
    assert all(isinstance(error, RejectedError) for error in sent.errors)


def test_no_records_at_all_have_no_rate() -> None:
    sent: Any = Sent()
    assert sent.rate == 0.0
