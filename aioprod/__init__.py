"""aioprod: an asyncio Kafka producer that speaks the wire protocol itself and is honest about every record's fate."""

from __future__ import annotations

from aioprod import errors
from aioprod.cluster import PartitionInfo
from aioprod.config import ProducerConfig
from aioprod.producer import Producer
from aioprod.types import DeliveryReport, Headers, ProducerRecord, RecordMetadata, SendResult, TopicPartition

__all__ = [
    "DeliveryReport",
    "Headers",
    "PartitionInfo",
    "Producer",
    "ProducerConfig",
    "ProducerRecord",
    "RecordMetadata",
    "SendResult",
    "TopicPartition",
    "errors",
]

__version__ = "0.1.0"
