"""The loop with made-up time."""

from __future__ import annotations

import asyncio
import time

import pytest

from aioprod.testing.simulation import SimulatedLoop, StalledError


def test_an_hour_takes_no_time() -> None:
    async def sleep() -> float:
        loop = asyncio.get_running_loop()
        before = loop.time()
        await asyncio.sleep(3600)
        return loop.time() - before

    start = time.monotonic()
    with SimulatedLoop() as loop:
        assert loop.run(sleep()) == pytest.approx(3600)
    assert time.monotonic() - start < 60


def test_what_waits_for_nothing_is_found() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    with SimulatedLoop() as loop, pytest.raises(StalledError, match="A deadlock: no timer is left"):
        loop.run(wait())


def test_an_endless_loop_is_found() -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(60)

    with SimulatedLoop() as loop, pytest.raises(StalledError, match="No end after"):
        loop.run(spin())


def test_a_wait_for_less_than_the_clock_shows_ends() -> None:
    async def wait() -> float:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while loop.time() < begun + 5e-10:
            await asyncio.sleep(begun + 5e-10 - loop.time())
        return loop.time() - begun

    with SimulatedLoop() as loop:
        assert 0.0 < loop.run(wait()) < 2e-9


def test_a_coroutine_that_gives_the_loop_no_turn_is_found() -> None:
    async def spin() -> None:
        loop = asyncio.get_running_loop()
        while True:
            loop.time()

    with SimulatedLoop() as loop, pytest.raises(StalledError, match="the loop got no turn"):
        loop.run(spin())


def test_time_can_be_spent() -> None:
    async def work() -> bool:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        timer = loop.create_future()
        loop.call_later(1.0, timer.set_result, None)
        loop.spend(2.0)
        before = loop.time()
        await timer
        return loop.time() == before

    with SimulatedLoop() as loop:
        assert loop.run(work())


def test_blocking_calls_run_in_the_loop() -> None:
    async def call() -> tuple[object, ...]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(
            loop.run_in_executor(None, int, "7"), asyncio.to_thread(int, "no"), return_exceptions=True
        )

    with SimulatedLoop() as loop:
        number, error = loop.run(call())
    assert number == 7
    assert isinstance(error, ValueError)


def test_timers_that_are_left_can_be_seen() -> None:
    async def leave() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(5.0, print)
        loop.call_later(6.0, print).cancel()

    with SimulatedLoop() as loop:
        loop.run(leave())
        assert [timer.when() for timer in loop.timers] == [pytest.approx(loop.time() + 5.0)]
