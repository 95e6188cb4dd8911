"""The files that commands write."""

from __future__ import annotations

import sys
from pathlib import Path

from aioprod.errors import UsageError

__all__ = ["write"]


def write(path: str | Path, content: str | bytes, what: str) -> None:
    """Write a text, in UTF-8, or bytes to a file, a text to stdout where the path is `-`.

    Raises UsageError, which begins with `what` it is, where that can't be done.
    """
    if isinstance(content, str) and path == "-":
        sys.stdout.write(content)
        return
    try:
        Path(path).write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise UsageError(f"{what} can't be written to {str(path)!r}: {error.strerror}.") from error
