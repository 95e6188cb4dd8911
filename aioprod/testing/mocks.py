"""Mocks of aioprod's classes for unit tests that need no brokers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from unittest.mock import NonCallableMagicMock, create_autospec

from aioprod.producer import Producer

__all__ = ["producer_mock"]


def producer_mock() -> NonCallableMagicMock:
    """A mock of a `Producer` whose methods accept the producer's arguments, and raise TypeError for any others.

    `mock.send` and the other coroutine methods are `AsyncMock`s; `async with` returns the mock itself. Nothing is sent,
    and results are mocks, too, unless a `return_value` or a `side_effect` is set. `create_autospec(Producer)` alone
    does not check arguments where aioprod is compiled: it reads the signatures of Python functions only.
    """
    mocked: NonCallableMagicMock = create_autospec(Producer, instance=True)
    for name in dir(Producer):
        try:
            method = getattr(Producer, name)
        except AttributeError:  # A call of another client's producer, which raises with a hint to ours.
            delattr(mocked, name)
            continue
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
