"""aiokafka's producer on aioprod: `from aioprod.compat.aiokafka import AIOKafkaProducer` is the one import to change.

Constructor, calls, exceptions and the batch API are those of aiokafka 0.14, which need not be installed.
docs/migrating-aiokafka.md lists what differs, and the line for FastStream and kstreams (`install`).
"""

from __future__ import annotations

from typing import Any, Final

from aioprod.compat.aiokafka import errors
from aioprod.compat.aiokafka.batch import BatchBuilder
from aioprod.compat.aiokafka.producer import AIOKafkaProducer
from aioprod.compat.aiokafka.replacing import install
from aioprod.compat.aiokafka.structs import OffsetAndMetadata, RecordMetadata, TopicPartition

__all__ = [
    "AIOKafkaProducer",
    "BatchBuilder",
    "OffsetAndMetadata",
    "RecordMetadata",
    "TopicPartition",
    "errors",
    "install",
]


_STAYS: Final = {
    "AIOKafkaConsumer": "AIOKafkaConsumer stays aiokafka's, or becomes aioprod.Member",
    "ConsumerRebalanceListener": "ConsumerRebalanceListener stays aiokafka's; aioprod.Member has the functions "
    "on_assigned=, on_revoked= and on_lost=",
    "ConsumerRecord": "ConsumerRecord stays aiokafka's; aioprod.Member returns aioprod.types.ConsumedRecord",
    "OffsetAndTimestamp": "OffsetAndTimestamp stays aiokafka's; aioprod.Member.offsets_for_times() returns offsets",
    "ConsumerStoppedError": "ConsumerStoppedError stays aiokafka's; a loop over aioprod.Member ends when it is closed",
    "AIOKafkaClient": "AIOKafkaClient stays aiokafka's; aioprod.Admin has topics, partitions and brokers",
    "IllegalOperation": "import IllegalOperation from aioprod.compat.aiokafka.errors",
}
"""Other names of aiokafka -> what to use."""


def __getattr__(name: str) -> Any:
    # An ImportError, as `from ... import` shows no text of another one.
    if name in _STAYS:
        raise ImportError(
            f"aioprod.compat.aiokafka has aiokafka's producer only: {_STAYS[name]}. Hint: docs/migrating-aiokafka.md "
            "has a table of a consumer's calls, under Consumers."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
