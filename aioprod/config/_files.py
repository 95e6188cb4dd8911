"""Files that settings name."""

from __future__ import annotations

from os import PathLike
from typing import Final

from aioprod.errors import ConfigError

__all__ = ["read_file"]

_SIZE_MAX: Final = 8 << 20


def read_file(path: str | PathLike[str], what: str, size_max: int = _SIZE_MAX) -> bytes:
    """The content of a file; raises ConfigError, beginning with `what`, if it can't be read or is too large."""
    try:
        with open(path, "rb") as file:
            content = file.read(size_max + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{what} can't be read: {reason}.") from error
    if len(content) > size_max:
        raise ConfigError(f"{what} is larger than {size_max} bytes.")
    return content
