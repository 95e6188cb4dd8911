"""Records that are kept on disk until they are in Kafka: `SpooledProducer`, and `Spool`, its queue alone."""

from __future__ import annotations

from aioprod.errors import SpoolError
from aioprod.spool.health import SpoolHealth
from aioprod.spool.kept import Kept, KeptMany
from aioprod.spool.producer import SpooledProducer
from aioprod.spool.spool import Spool

__all__ = ["Kept", "KeptMany", "Spool", "SpoolError", "SpoolHealth", "SpooledProducer"]
