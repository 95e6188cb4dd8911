"""aioprod: an asyncio Kafka producer that speaks the wire protocol itself and is honest about every record's fate."""

from __future__ import annotations

# First, because it decides how the others are imported.
from aioprod._legs import COMPILED  # isort: skip

from aioprod import errors
from aioprod.cluster import PartitionInfo
from aioprod.config import ProducerConfig
from aioprod.producer import Producer, TransactionHandle, TransactionSession
from aioprod.types import (
    DeliveryReport,
    Headers,
    OffsetAndMetadata,
    ProducerRecord,
    RecordMetadata,
    SendResult,
    TopicPartition,
)

__all__ = [
    "COMPILED",
    "DeliveryReport",
    "Headers",
    "OffsetAndMetadata",
    "PartitionInfo",
    "Producer",
    "ProducerConfig",
    "ProducerRecord",
    "RecordMetadata",
    "SendResult",
    "TopicPartition",
    "TransactionHandle",
    "TransactionSession",
    "errors",
]

__version__ = "0.1.0"
