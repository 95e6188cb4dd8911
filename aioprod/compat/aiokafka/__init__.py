"""aiokafka's producer on aioprod: `from aioprod.compat.aiokafka import AIOKafkaProducer` is the one import to change.

Constructor, calls, exceptions and the batch API are those of aiokafka 0.14, which need not be installed.
docs/migrating-aiokafka.md lists what differs, and the line for FastStream and kstreams (`install`).
"""

from __future__ import annotations

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
