"""Objects that belong to one process, as they have connections there; and hints for calls that other clients have."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, SupportsIndex

from aioprod.errors import UsageError

__all__ = ["ProcessBound", "hinting_at"]

_OF_CYTHON: Final = ("__pyx_", "__reduce_cython__", "__setstate_cython__")
"""How names begin that Cython gives to a compiled class."""


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


def _of_use(kind: type, names: Iterable[str]) -> list[str]:
    """Without hints and Cython's names, which completion and `help` would show."""
    found = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}
    return [name for name in names if not isinstance(found.get(name), _Hint) and not name.startswith(_OF_CYTHON)]


class _Listed(ABCMeta):
    """The type of the clients: `dir` of a class has what can be called on it.

    An ABCMeta, so that a class of a user's may derive from a client and from an abstract class.
    """

    def __dir__(cls) -> list[str]:
        return _of_use(cls, super().__dir__())


class ProcessBound(metaclass=_Listed):
    """An object with connections, which can't be pickled for another process, nor copied."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __enter__ = _Hint("__enter__", "write `async with`, as its start and its end are awaited.")

    def __dir__(self) -> list[str]:
        return _of_use(type(self), super().__dir__())

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
    return type("ForeignCallHints", (ProcessBound,), {**hints, "__slots__": (), "__module__": __name__})
