"""Mocks of aioprod's classes for unit tests that need no brokers."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Self
from unittest.mock import NonCallableMagicMock, create_autospec

from aioprod.group import Member
from aioprod.producer import Producer
from aioprod.types import ConsumedRecord

__all__ = ["member_mock", "producer_mock"]


def producer_mock() -> NonCallableMagicMock:
    """A mock of a `Producer` whose methods accept the producer's arguments, and raise TypeError for any others.

    `mock.send` and the other coroutine methods are `AsyncMock`s; `async with` returns the mock itself. Nothing is sent,
    and results are mocks, too, unless a `return_value` or a `side_effect` is set. `create_autospec(Producer)` alone
    does not check arguments where aioprod is compiled: it reads the signatures of Python functions only.
    """
    return _mock_of(Producer)


def member_mock(records: Iterable[ConsumedRecord | Exception] = ()) -> NonCallableMagicMock:
    """A mock of a `Member` that returns these records, and then ends as a closed member does.

    `async for`, `anext` and `batches` return them in order, each once; an exception among them is raised in its place.
    Its methods accept the member's arguments, and raise TypeError for any others: `mock.commit` and the other coroutine
    methods are `AsyncMock`s, whose calls a test looks at. No group is joined, and nothing is committed.
    """
    mocked = _mock_of(Member)
    left = _Records(records)
    mocked.__aiter__ = lambda self: self
    mocked.__anext__ = lambda self: left.next()
    mocked.batches.side_effect = lambda max_records=500, max_wait_ms=0.0: _Lists(left, max_records)
    return mocked


class _Records:
    """The records that a mock has not returned yet."""

    def __init__(self, records: Iterable[ConsumedRecord | Exception]) -> None:
        self._left = deque(records)

    async def next(self) -> ConsumedRecord:
        if not self._left:
            raise StopAsyncIteration
        found = self._left.popleft()
        if isinstance(found, Exception):
            raise found
        return found

    async def next_list(self, size_max: int) -> list[ConsumedRecord]:
        found = [await self.next()]
        while self._left and len(found) < size_max and not isinstance(self._left[0], Exception):
            found.append(await self.next())
        return found


class _Lists:
    """What `batches` of a mock returns; an error does not end it."""

    def __init__(self, records: _Records, size_max: int) -> None:
        self._records = records
        self._size_max = size_max

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[ConsumedRecord]:
        return await self._records.next_list(self._size_max)


def _mock_of(kind: type) -> NonCallableMagicMock:
    mocked: NonCallableMagicMock = create_autospec(kind, instance=True)
    for name in dir(kind):
        method = getattr(kind, name)
        if not name.startswith("_") and callable(method):
            setattr(mocked, name, create_autospec(_signature_of(method)))
    mocked.__aenter__.return_value = mocked
    return mocked


def _signature_of(method: Callable[..., Any]) -> Callable[..., Any]:
    """A Python function with the method's signature, without `self`."""
    signature = inspect.signature(method)

    def plain(*arguments: Any, **named: Any) -> None: ...

    async def awaited(*arguments: Any, **named: Any) -> None: ...

    function: Callable[..., Any] = awaited if inspect.iscoroutinefunction(method) else plain
    vars(function)["__signature__"] = signature.replace(parameters=list(signature.parameters.values())[1:])
    function.__name__ = method.__name__
    return function
