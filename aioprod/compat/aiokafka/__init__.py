"""aiokafka's producer on aioprod: `from aioprod.compat.aiokafka import AIOKafkaProducer` is the one import to change.

Constructor, calls, exceptions and the batch API are those of aiokafka 0.14, which need not be installed.
docs/migrating-aiokafka.md lists what differs, and the line for FastStream and kstreams (`install`).
"""

from __future__ import annotations

from typing import Any

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


def __getattr__(name: str) -> Any:
    # An ImportError, as `from ... import` shows no text of another one.
    if name == "AIOKafkaConsumer":
        raise ImportError(
            "aioprod.compat.aiokafka has aiokafka's producer only: AIOKafkaConsumer stays aiokafka's, or becomes "
            "aioprod.group.Member. Hint: docs/migrating-aiokafka.md has a table of its calls, under Consumers."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
