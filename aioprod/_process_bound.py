"""Objects that belong to one process, as they have connections there; and hints for calls that other clients have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

from aioprod.errors import UsageError

__all__ = ["ProcessBound", "hinting_at"]


class _Hint:
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


class ProcessBound:
    """An object with connections, which can't be pickled for another process, nor copied."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __enter__ = _Hint("__enter__", "write `async with`, as its start and its end are awaited.")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        name = type(self).__name__
        raise UsageError(
            f"A {name} can't be pickled or copied: its connections and its event loop belong to this process.",
            hint=f"Send its settings, and make a {name} of them in each process.",
        )


def hinting_at(instead: Mapping[str, str]) -> type[ProcessBound]:
    """A base class for a client; `instead` is the name of a call that it does not have -> what to do instead.

    Getting such a name raises an AttributeError with this hint. Type checkers must see `ProcessBound` in its place, so
    that these names are missing to them.
    """
    hints: dict[str, Any] = {name: _Hint(name, words) for name, words in instead.items()}

    def names_but_these(self: object) -> list[str]:
        return [name for name in object.__dir__(self) if name not in hints]

    return type(
        "ForeignCallHints",
        (ProcessBound,),
        {**hints, "__slots__": (), "__module__": __name__, "__dir__": names_but_these},
    )
