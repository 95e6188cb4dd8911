from __future__ import annotations

import asyncio
import math

from aioprod.net.waiters import Waiters


async def test_all_waiters_are_woken_in_the_order_of_their_arrival() -> None:
    waiters = Waiters()
    woken: list[int] = []

    async def wait(number: int) -> None:
        await waiters.wait(math.inf)
        woken.append(number)

    tasks = [asyncio.create_task(wait(number)) for number in range(3)]
    await asyncio.sleep(0)
    waiters.notify_all()
    waiters.notify_all()
    async with asyncio.timeout(30):
        await asyncio.gather(*tasks)
    assert woken == [0, 1, 2]


async def test_a_timeout_ends_the_wait_without_an_error() -> None:
    waiters = Waiters()
    async with asyncio.timeout(30):
        await waiters.wait(-1.0)
        woken = asyncio.create_task(waiters.wait(math.inf))
        await asyncio.sleep(0)
        waiters.notify_all()
        await woken
    assert woken.done(), "the timeout leaves nothing behind that keeps others from being woken"


async def test_a_future_ends_the_wait_and_is_left_alone() -> None:
    waiters = Waiters()
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    pending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    async with asyncio.timeout(30):
        await waiters.wait(math.inf, [done, pending])
    assert not pending.done()


async def test_a_cancelled_waiter_is_forgotten() -> None:
    waiters = Waiters()
    task = asyncio.create_task(waiters.wait(math.inf))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    waiters.notify_all()
    assert task.cancelled()
    assert not waiters._waiters
