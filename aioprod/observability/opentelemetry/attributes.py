"""The attributes of messaging spans and metrics, as OpenTelemetry's conventions name them, and their values."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from opentelemetry.trace import Span, Status, StatusCode

from aioprod.errors import AioprodError, ErrorCode

__all__ = [
    "BATCH_COUNT",
    "CLIENT_ID",
    "CONSUMER_GROUP",
    "DESTINATION",
    "ERROR_TYPE",
    "KEY",
    "OFFSET",
    "OPERATION",
    "OPERATION_TYPE",
    "PARTITION",
    "SCHEMA_URL",
    "SERVER_ADDRESS",
    "SERVER_PORT",
    "SYSTEM",
    "TOMBSTONE",
    "error_type",
    "fail",
    "key_text",
]

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
OFFSET: Final = "messaging.kafka.offset"
KEY: Final = "messaging.kafka.message.key"
TOMBSTONE: Final = "messaging.kafka.message.tombstone"
BATCH_COUNT: Final = "messaging.batch.message_count"
CLIENT_ID: Final = "messaging.client.id"
CONSUMER_GROUP: Final = "messaging.consumer.group.name"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"


def key_text(key: Any) -> str | None:
    """The text of a key that has one: a str, bytes that are printable UTF-8, a number, a UUID; else None."""
    if isinstance(key, (bytes, bytearray, memoryview)):
        try:
            key = bytes(key).decode()
        except UnicodeDecodeError:
            return None
        return key if key.isprintable() else None
    return str(key) if isinstance(key, (str, int, UUID)) else None


def error_type(error: BaseException) -> str:
    """The name of the error code that a broker answered, else that of the error's class."""
    code = getattr(error, "code", None)
    return code.name if isinstance(code, ErrorCode) and code is not ErrorCode.NONE else type(error).__qualname__


def fail(span: Span, error: BaseException) -> None:
    """Say in a span why its operation failed."""
    message = error.message if isinstance(error, AioprodError) else str(error)
    span.set_attribute(ERROR_TYPE, error_type(error))
    span.set_status(Status(StatusCode.ERROR, message))
