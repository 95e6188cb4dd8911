"""Reading topics back: from given offsets or times to their present end, without consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use

if TYPE_CHECKING:
    from aioprod.reader.bounds import Bound
    from aioprod.reader.config import ReaderConfig
    from aioprod.reader.fetching import FetchedBatch
    from aioprod.reader.offsets import At
    from aioprod.reader.reader import Reader, read

__all__ = ["At", "Bound", "FetchedBatch", "Reader", "ReaderConfig", "read"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(
        __name__,
        {
            "At": "offsets",
            "Bound": "bounds",
            "FetchedBatch": "fetching",
            "Reader": "reader",
            "ReaderConfig": "config",
            "read": "reader",
        },
    )
