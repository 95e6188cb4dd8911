"""Files that settings name."""

from __future__ import annotations

import os
import stat
from os import PathLike
from typing import Final

from aioprod.errors import ConfigError

__all__ = ["read_file"]

_SIZE_MAX: Final = 8 << 20
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)  # Windows has none, and no pipes with names in folders


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for the writer of a pipe."""
    return os.open(path, flags | _NONBLOCK)


def read_file(path: str | PathLike[str], what: str, size_max: int = _SIZE_MAX, *, may_wait: bool = False) -> bytes:
    """The content of a file; raises ConfigError, beginning with `what`, if it can't be read or is too large.

    A pipe or a device, which may keep its reader waiting for ever, is an error unless `may_wait`.
    """
    try:
        with open(path, "rb", opener=None if may_wait else _at_once) as file:
            if not may_wait and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(
                    f"{what} is no regular file.", hint="A pipe or a device could be waited for for ever."
                )
            content = file.read(size_max + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{what} can't be read: {reason}.") from error
    if len(content) > size_max:
        raise ConfigError(f"{what} is larger than {size_max} bytes.")
    return content
