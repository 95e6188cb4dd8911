"""Packages that replace threads and sockets of the standard library, with which a thread of its own can't work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from aioprod.errors import UsageError

__all__ = ["check_real_threads"]

_PATCHERS: Final[dict[str, tuple[str, Callable[[Any, str], bool], tuple[str, ...]]]] = {
    "gevent": (
        "gevent.monkey",
        lambda monkey, name: monkey.is_module_patched(name),
        ("threading", "thread", "socket", "select", "selectors"),
    ),
    "eventlet": (
        "eventlet.patcher",
        lambda patcher, name: patcher.is_monkey_patched(name),
        ("thread", "socket", "select"),
    ),
}
"""Package -> its module that patches, how that says whether it has patched a module, and the modules that matter."""


def check_real_threads() -> None:
    """Raise UsageError where threads or sockets are those of gevent or eventlet; imports neither."""
    for package, (module, is_patched, names) in _PATCHERS.items():
        patcher = sys.modules.get(module)
        patched = [name for name in names if patcher is not None and is_patched(patcher, name)]
        if patched:
            raise UsageError(
                f"{package} has patched {', '.join(patched)} in this process, and the event loop of aioprod.sync needs "
                "a real thread and real sockets.",
                hint=f"Send from a process without {package}'s patches, such as gunicorn's worker class gthread, or "
                "Celery's pool prefork or threads.",
            )
