"""Calls in one thread at most: what hangs keeps it, and another try waits."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator

import pytest

from aioprod.net.one_thread import OneThread


class Calls:
    """Numbered calls that wait for their release."""

    def __init__(self) -> None:
        self.begun = 0
        self.fails = False
        self.released = threading.Event()

    def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        assert self.released.wait(60)
        if self.fails:
            raise OSError("away")
        return number


@pytest.fixture
def calls() -> Iterator[Calls]:
    made = Calls()
    yield made
    made.released.set()


async def given_up(thread: OneThread, calls: Calls) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await thread.joined(calls)


async def test_a_call_that_hangs_is_joined_by_the_next_tries(calls: Calls) -> None:
    thread = OneThread()
    for _ in range(3):
        await given_up(thread, calls)
    last = asyncio.create_task(thread.joined(calls))
    await asyncio.sleep(0)
    calls.released.set()
    assert await last == 1
    assert await thread.joined(calls) == 2, "another one, when none runs"


async def test_a_call_of_its_own_waits_for_the_one_before(calls: Calls) -> None:
    thread = OneThread()
    await given_up(thread, calls)
    two = [asyncio.create_task(thread.run(calls)) for _ in range(2)]
    await asyncio.sleep(0)
    assert calls.begun <= 1
    calls.released.set()
    assert sorted([await one for one in two]) == [2, 3]


async def test_what_a_call_raises(calls: Calls) -> None:
    """Once nobody waits for it any more, it is not logged as an exception that nobody saw."""
    seen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    thread = OneThread()
    calls.fails = True
    await given_up(thread, calls)
    calls.released.set()
    with pytest.raises(OSError, match="away"):
        await thread.run(calls)
    assert calls.begun == 2
    del thread
    assert seen == []


async def test_a_call_has_the_context_of_its_caller() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")
    name.set("orders")
    assert await OneThread().joined(name.get) == "orders"
