"""Mocks of aioprod's classes for unit tests that need no brokers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from unittest.mock import NonCallableMagicMock, create_autospec

from aioprod.producer import Producer

__all__ = ["producer_mock"]


def producer_mock() -> NonCallableMagicMock:
    """A mock of a `Producer` whose methods take what the producer's take, and raise TypeError for anything else.

    `mock.send` and the others that are awaited are `AsyncMock`s; `async with` gives the mock itself. Nothing is
    sent, and what comes back is a mock, too, unless a `return_value` or a `side_effect` is set.
    `create_autospec(Producer)` does not look at arguments where aioprod is compiled: it knows functions of Python's
    own alone.
    """
    mocked: NonCallableMagicMock = create_autospec(Producer, instance=True)
    for name in dir(Producer):
        try:
            method = getattr(Producer, name)
        except AttributeError:  # The name of another client's call, which is there to say so.
            delattr(mocked, name)
            continue
        if not name.startswith("_") and callable(method):
            setattr(mocked, name, create_autospec(_signature_of(method)))
    mocked.__aenter__.return_value = mocked
    return mocked


def _signature_of(method: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Python's own that is called as the method is, without its `self`."""
    signature = inspect.signature(method)

    def plain(*arguments: Any, **named: Any) -> None: ...

    async def awaited(*arguments: Any, **named: Any) -> None: ...

    function: Callable[..., Any] = awaited if inspect.iscoroutinefunction(method) else plain
    vars(function)["__signature__"] = signature.replace(parameters=list(signature.parameters.values())[1:])
    function.__name__ = method.__name__
    return function
