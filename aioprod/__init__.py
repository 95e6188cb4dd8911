"""aioprod: an asyncio client for Kafka that speaks the wire protocol itself and reports the outcome of every record."""

from __future__ import annotations

from typing import TYPE_CHECKING

# First, because it decides how the others are imported.
from aioprod._build import COMPILED  # isort: skip

from aioprod import errors
from aioprod._lazy import imported_on_use
from aioprod.errors import AioprodError

if TYPE_CHECKING:
    from aioprod.admin import Admin
    from aioprod.cluster import PartitionInfo
    from aioprod.config import ProducerConfig
    from aioprod.group import Member
    from aioprod.oauth_token import OAuthToken
    from aioprod.producer import Health, Producer
    from aioprod.reader import read
    from aioprod.transactions import TransactionHandle, TransactionSession
    from aioprod.tuning import tune
    from aioprod.types import (
        DeliveryReport,
        GroupMetadata,
        Headers,
        OffsetAndMetadata,
        ProducerRecord,
        RecordMetadata,
        SendResult,
        TopicPartition,
    )

__all__ = [
    "COMPILED",
    "Admin",
    "AioprodError",
    "DeliveryReport",
    "GroupMetadata",
    "Headers",
    "Health",
    "Member",
    "OAuthToken",
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
    "read",
    "tune",
]

__version__ = "0.2.0"

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(
        __name__,
        {
            "Admin": "admin",
            "DeliveryReport": "types",
            "GroupMetadata": "types",
            "Headers": "types",
            "Health": "producer",
            "Member": "group",
            "OAuthToken": "oauth_token",
            "OffsetAndMetadata": "types",
            "PartitionInfo": "cluster",
            "Producer": "producer",
            "ProducerConfig": "config",
            "ProducerRecord": "types",
            "RecordMetadata": "types",
            "SendResult": "types",
            "TopicPartition": "types",
            "TransactionHandle": "transactions",
            "TransactionSession": "transactions",
            "read": "reader",
            "tune": "tuning",
        },
    )
