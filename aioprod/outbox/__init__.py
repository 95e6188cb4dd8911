"""Records that are stored in the transaction of the rows that they are about, and brought to Kafka by a relay."""

from __future__ import annotations

from aioprod.outbox.outbox import Outbox

__all__ = ["Outbox"]
