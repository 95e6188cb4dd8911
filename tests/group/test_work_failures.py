"""A handler that fails just as something else happens: no record is lost, no error is swallowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aioprod.errors import AioprodError, AuthorizationError
from aioprod.group import Member
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord
from tests.group.test_work import fill, member_work, new_member, play, until, working


class FailsDuringPoll:
    """A handler whose records of partition 0 fail just before a poll returns: the first one with other partitions."""

    def __init__(self, member: Member, then: Callable[[], object]) -> None:
        self.begun: list[tuple[int, int]] = []
        self._fails = asyncio.Event()
        self._fetcher: Any = member._fetcher
        self._member, self._then = member, then
        self._next_list = self._fetcher.next_list
        self._fetcher.next_list = self._returning  # type: ignore[method-assign]

    async def cook(self, record: ConsumedRecord) -> None:
        self.begun.append((record.partition, record.offset))
        if record.partition == 0:
            await self._fails.wait()
            raise ValueError(f"no {record.offset}")

    async def _returning(self, *given: Any, **named: Any) -> Any:
        found = await self._next_list(*given, **named)
        if found and found[0].partition != 0 and not self._fails.is_set():
            self._fails.set()
            await until(lambda: member_work(self._member)._failure is not None)
            self._then()
        return found


def test_a_handler_that_fails_as_records_of_a_new_partition_arrive() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 1, key=lambda _: b"of partition 0")
        member = new_member(brokers)
        failing = FailsDuringPoll(member, lambda: None)
        async with working(brokers, failing.cook, member) as (_, task):
            await until(lambda: failing.begun == [(0, 0)])
            await fill(brokers, 3, key=lambda _: b"of partition 1")
            with pytest.raises(ValueError, match="no 0"):
                await task
            assert failing.begun == [(0, 0)]
            read = [await anext(member) for _ in range(4)]
            assert sorted((one.partition, one.offset) for one in read) == [(0, 0), (1, 0), (1, 1), (1, 2)]

    play(scene, partitions=2)


def test_a_handler_that_fails_as_the_poll_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def denied() -> None:
        raise AuthorizationError("no right to read")

    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 1, key=lambda _: b"of partition 0")
        member = new_member(brokers)
        failing = FailsDuringPoll(member, denied)
        async with working(brokers, failing.cook, member) as (_, task):
            await until(lambda: failing.begun == [(0, 0)])
            await fill(brokers, 3, key=lambda _: b"of partition 1")
            with pytest.raises(AioprodError, match="no right to read"):
                await task
            assert (await anext(member)).partition == 0

    play(scene, partitions=2)
    text = "has a handler that failed, of offset 0 of t-0: ValueError('no 0'). Its work has ended with another error"
    assert text in caplog.text
