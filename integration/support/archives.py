"""Archives of tar, unpacked alike by each release of Python."""

from __future__ import annotations

import tarfile
from pathlib import Path

__all__ = ["unpack"]


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack into a folder. The argument `filter`, without which later releases warn, came with Python 3.11.4."""
    archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
    archive.extractall(folder)
