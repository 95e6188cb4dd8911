"""Calls of aiokafka's, confluent-kafka's and kafka-python's producers that `Producer` lacks, and what to call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aioprod._process_bound import ProcessBound, hinting_at

__all__ = ["INSTEAD", "ForeignCallHints"]

_CLOSE: Final = "call `await producer.close(timeout)`."
_MANY: Final = "call `await producer.send_many(topic, values, keys=..., partition=...)`, which makes the batches."
_STATE: Final = "a call raises ProducerClosedError or UsageError when it can't work, and repr(producer) says its state."

INSTEAD: Final = {
    "send_and_wait": "`await producer.send(...)` waits for the outcome; submit() gives a future of it.",
    "produce": "call `producer.send_nowait(topic, value, key=..., on_delivery=f)`; f gets (metadata, error).",
    "produce_batch": _MANY,
    "poll": "leave it out, callbacks are called by the event loop; `await producer.drain()` waits for room.",
    "stop": _CLOSE,
    "aclose": _CLOSE,
    "disconnect": _CLOSE,
    "connect": "call `await producer.start()`, or use `async with`.",
    "closed": _STATE,
    "is_running": _STATE,
    "bootstrap_connected": _STATE,
    "create_batch": _MANY,
    "send_batch": _MANY,
    "list_topics": "call `await aioprod.Admin(...).topics()`; producer.partitions_for(topic) knows one topic.",
    "topics": "call `await aioprod.Admin(...).topics()`; producer.partitions_for(topic) knows one topic.",
    "partitions": "call `await producer.partitions_for(topic)`.",
    "purge": "`await producer.close(0)` fails the records without outcome; a future of submit() can be cancelled.",
    "send_offsets": "call `await producer.send_offsets_to_transaction(offsets, group)`.",
    "set_sasl_credentials": "call `await producer.reload_credentials()`, which reads them again.",
    "subscribe": "a producer reads nothing, aioprod.Member and aioprod.read do.",
}
"""Name -> what to do in its place."""

if TYPE_CHECKING:
    ForeignCallHints = ProcessBound
else:
    ForeignCallHints = hinting_at(INSTEAD)
