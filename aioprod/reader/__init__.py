"""Reading topics back: from given offsets or times to their present end, without consumer groups."""

from __future__ import annotations

from aioprod.reader.bounds import Bound
from aioprod.reader.fetching import FetchedBatch
from aioprod.reader.offsets import At
from aioprod.reader.reader import Reader, read
from aioprod.reader.settings import ReaderConfig

__all__ = ["At", "Bound", "FetchedBatch", "Reader", "ReaderConfig", "read"]
