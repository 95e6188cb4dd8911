"""What all objects with connections have in common: one process, one event loop, a `repr`, and hints for calls that
other clients have and they lack."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeVar

from aioprod.errors import UsageError

__all__ = ["Live", "call_in_loop", "described", "lacking", "running_loop"]

T = TypeVar("T")


class _Lack:
    """A name that other clients have: getting it raises an AttributeError that says what to do instead.

    A descriptor for each name, as a `__getattr__` of the class would make each of its calls slower.
    """

    def __init__(self, name: str, instead: str) -> None:
        self._name = name
        self._instead = instead

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no {self._name!r}: {self._instead}")

    def __repr__(self) -> str:
        return f"<not here: {self._instead}>"


class Live:
    """An object with connections, which can't be sent to another process, nor copied."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __enter__ = _Lack("__enter__", "write `async with`, as its start and its end are awaited.")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        name = type(self).__name__
        raise UsageError(
            f"A {name} can't be pickled or copied: its connections and its event loop belong to this process.",
            hint=f"Send its settings, and make a {name} of them in each process.",
        )


def lacking(instead: Mapping[str, str]) -> type[Live]:
    """A base class whose attributes raise with a hint: name of a call that an object lacks -> what to do instead.

    Type checkers must see `Live` in its place, so that these names are missing to them.
    """
    names: dict[str, Any] = {name: _Lack(name, words) for name, words in instead.items()}

    def shown(self: object) -> list[str]:
        return [name for name in object.__dir__(self) if name not in names]

    return type("Lacking", (Live,), {**names, "__slots__": (), "__module__": __name__, "__dir__": shown})


def described(kind: str, name: str, servers: Iterable[str], what: str) -> str:
    """The `repr` of a client, with at most two servers: `<Producer 'shop' at localhost:9092: running>`."""
    addresses = list(servers)
    more = f" and {len(addresses) - 2} more" if len(addresses) > 2 else ""
    named = f" {name!r}" if name else ""
    return f"<{kind}{named} at {', '.join(addresses[:2])}{more}: {what}>"


def running_loop() -> asyncio.AbstractEventLoop:
    """The running event loop; raises UsageError where asyncio has none, as under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise UsageError(
            "No event loop of asyncio runs here.",
            hint="Call it within asyncio.run(...). Under trio, and under anyio with trio, aioprod does not work.",
        ) from error


def call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], T]) -> Future[T]:
    """Have the event loop of another thread call a function; the future gets its result, or its Exception.

    Raises RuntimeError when the loop is closed.
    """
    future: Future[T] = Future()

    def call() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

    loop.call_soon_threadsafe(call)
    return future
