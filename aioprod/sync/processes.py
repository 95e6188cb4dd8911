"""What happens to producers for threads when their process forks, and when its interpreter ends."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["at_fork", "ended", "started"]

T = TypeVar("T")


class Started(Protocol):
    """The thread of a producer."""

    def after_fork(self) -> None:
        """This is the child, where that thread is not: its futures fail."""

    def close_at_exit(self) -> None:
        """The interpreter ends: deliver what can be delivered within some seconds."""


_producers: Final[WeakKeyDictionary[Any, Callable[[Any], None]]] = WeakKeyDictionary()
_sessions: Final[set[Started]] = set()
_of_parent: Final[list[Started]] = []
"""Kept for ever in a child: what closes a loop takes its sockets out of an epoll set that is the parent's as well."""


def at_fork(producer: T, begin_empty: Callable[[T], None]) -> None:
    """Call `begin_empty(producer)` in each child from now on, as long as something refers to the producer."""
    _producers[producer] = begin_empty


def started(session: Started) -> None:
    """Close this session when the interpreter ends."""
    util = sys.modules.get("multiprocessing.util")
    if not _sessions and util is not None:
        # The children of multiprocessing run these, and no others.
        util.Finalize(None, _close_all, exitpriority=0)
    _sessions.add(session)


def ended(session: Started) -> None:
    """This session is closed."""
    _sessions.discard(session)


def _close_all() -> None:
    for session in list(_sessions):
        session.close_at_exit()


def _after_fork() -> None:
    _of_parent.extend(_sessions)
    _sessions.clear()
    for session in _of_parent:
        session.after_fork()
    for producer, begin_empty in list(_producers.items()):
        begin_empty(producer)


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
