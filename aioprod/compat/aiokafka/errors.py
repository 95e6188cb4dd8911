"""aiokafka's exceptions by their names: its own classes where it is installed, else classes of the same names.

So `except` clauses that name `aiokafka.errors` keep their meaning. `translation` says which one is raised when. Nothing
else has a name here, as some names are those of other errors in `aioprod.errors`.
"""

from __future__ import annotations

from types import ModuleType as _ModuleType
from typing import Final as _Final

from aioprod.compat.aiokafka import own_errors as _own

__all__ = ["for_code"]


def _found() -> _ModuleType:
    try:
        import aiokafka.errors
    except ImportError:
        return _own
    module: _ModuleType = aiokafka.errors
    return module


_SOURCE: _Final = _found()


def for_code(error_code: int) -> type[Exception]:
    """The class for a broker's error code."""
    kind: type[Exception] = _SOURCE.for_code(error_code)
    return kind


def __getattr__(name: str) -> type[Exception]:
    if name in _own.names():
        kind: type[Exception] = getattr(_SOURCE, name)
        return kind
    raise AttributeError(f"aiokafka 0.14 has no exception {name!r}.")


def __dir__() -> list[str]:
    return sorted([*__all__, *_own.names()])
