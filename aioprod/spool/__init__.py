"""Records that are kept on disk until they are in Kafka: `SpooledProducer`, and `Spool`, its queue alone."""

from __future__ import annotations

from aioprod.errors import SpoolError
from aioprod.spool.spool import Spool

__all__ = ["Spool", "SpoolError"]
