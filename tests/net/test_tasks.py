from __future__ import annotations

import asyncio

from aioprod.net.tasks import Supervisor


async def test_an_exception_in_a_task_is_reported() -> None:
    failures: list[BaseException] = []
    tasks = Supervisor(asyncio.get_running_loop(), failures.append)

    async def fail() -> None:
        raise ValueError("bug")

    task = tasks.spawn(fail(), name="failing")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert [str(error) for error in failures] == ["bug"]
    assert task.get_name() == "failing"


async def test_close_ends_all_tasks_without_calling_that_a_failure() -> None:
    failures: list[BaseException] = []
    tasks = Supervisor(asyncio.get_running_loop(), failures.append)
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(name)

    for name in ("a", "b"):
        tasks.spawn(work(name), name=name)
    await asyncio.sleep(0)
    await tasks.close()
    assert sorted(ended) == ["a", "b"]
    assert failures == []


async def test_a_task_that_ends_is_no_failure() -> None:
    failures: list[BaseException] = []
    tasks = Supervisor(asyncio.get_running_loop(), failures.append)
    await tasks.spawn(asyncio.sleep(0), name="short")
    await tasks.close()
    assert failures == []
