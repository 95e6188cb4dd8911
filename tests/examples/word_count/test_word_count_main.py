"""The example as a whole on fake brokers, and its verdict."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from aioprod import Producer
from aioprod.testing.fixtures import FakeClusterThread
from examples.demo.screen import Screen
from examples.word_count import __main__ as example
from examples.word_count.counter import COUNTS
from examples.word_count.processes import CounterProcess

LINES = [b"%d and %d" % (number % 5, number % 7) for number in range(200)]


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def screen(out: io.StringIO) -> Screen:
    return Screen(Console(file=out, width=200, highlight=False, markup=False))


async def test_counts_are_right(fake_cluster: FakeClusterThread, screen: Screen, out: io.StringIO) -> None:
    assert await example.count_lines(fake_cluster.bootstrap, LINES, 2, screen) == 0
    assert "Every word was counted as often as it is there." in out.getvalue()


async def test_a_count_that_is_wrong_is_told(
    fake_cluster: FakeClusterThread, screen: Screen, out: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_counted = example.until_counted

    async def and_one_more(servers: str, members: list[CounterProcess], lines: int) -> None:
        await until_counted(servers, members, lines)
        async with Producer(servers) as producer:
            await producer.send(COUNTS, b"3", key=b"never", partition=0)

    monkeypatch.setattr(example, "until_counted", and_one_more)
    assert await example.count_lines(fake_cluster.bootstrap, LINES[:20], 0, screen) == 1
    assert "DIFFERS 'never' is there 0 times, and was counted 3 times." in out.getvalue()


def test_source_lines() -> None:
    lines = list(example.source_lines(1000))
    assert len(lines) == 1000
    assert sum(map(bool, lines)) > 500


def test_a_member_that_ends_by_itself_is_told() -> None:
    process = CounterProcess("", "one")
    with process:
        process._process.wait()
        with pytest.raises(RuntimeError, match="A member has ended: "):
            process.check()
