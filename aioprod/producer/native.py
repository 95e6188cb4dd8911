"""What the compiled build gets from the C interface of the interpreter (native.pxd) for less, in its Python form."""

from __future__ import annotations

from threading import get_ident as thread_id
from typing import Any, TypeVar

__all__ = ["made", "thread_id", "untrack"]

T = TypeVar("T")


def made(kind: type[T], arguments: dict[str, Any]) -> T:
    """An object of the class `kind`, made with keyword arguments, which C need not copy."""
    return kind(**arguments)


def untrack(held: object) -> None:
    """Keep the garbage collector from visiting an object, which must not be part of a cycle: nothing would free it."""
