"""Messages and batches as JSON: the form in which Kafka's own classes hand them over and golden files keep them.

A message's JSON is that of Kafka's `...JsonConverter`s: names in camel case, bytes in base64, ids as Kafka writes them;
fields that the version does not have are left out, and so are tagged fields with their default value.
A batch's JSON is that of `integration/java/Batches.java`.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from aioprod._short_reprs import printable
from aioprod.records import (
    HEADER,
    PREFIX,
    Compression,
    ControlType,
    ParsedBatch,
    RecordBatchBuilder,
    encode_headers,
    record_size_bound,
)
from aioprod.wire.buffer import Buffer
from aioprod.wire.schema import BYTES, RECORDS, TEXT, UUID, Array, Message, Struct, WireField, WireType, fields_of

__all__ = [
    "GOLDEN",
    "as_read",
    "batch_to_json",
    "build_batch",
    "from_base64",
    "from_json",
    "golden_names",
    "java_name",
    "read_golden",
    "to_base64",
    "to_json",
]

GOLDEN = Path(__file__).parent.parent / "golden"
"""Where the golden files are; `integration/write_golden.py` writes them."""

MessageT = TypeVar("MessageT", bound=Message)


def golden_names(folder: str) -> list[str]:
    """The files in `folder`, by their names without suffix."""
    return sorted(path.stem for path in (GOLDEN / folder).glob("*.json"))


def read_golden(folder: str, name: str) -> list[dict[str, Any]]:
    """The samples of one file."""
    samples: list[dict[str, Any]] = json.loads((GOLDEN / folder / f"{name}.json").read_text())
    return samples


def java_name(name: str) -> str:
    """`topic_data` as Kafka's JSON has it: `topicData`."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def to_base64(data: Buffer) -> str:
    """Bytes as they stand in JSON."""
    return base64.b64encode(data).decode()


def from_base64(text: str) -> bytes:
    """What `to_base64` was made of."""
    return base64.b64decode(text)


def _to_base64(data: bytes | None) -> str | None:
    return None if data is None else to_base64(data)


def _from_base64(text: str | None) -> bytes | None:
    return None if text is None else from_base64(text)


def to_json(message: Struct, version: int) -> dict[str, Any]:
    """What `message` says in `version`."""
    found = {}
    for field in _fields(type(message), version):
        value = getattr(message, field.name)
        if field.tag is None or not field.is_default(value):
            found[java_name(field.name)] = _value_to_json(field.type, value, version)
    return found


def from_json(cls: type[MessageT], version: int, data: Mapping[str, Any]) -> MessageT:
    """The message of which `to_json` made `data`."""
    message: MessageT = _struct_from_json(cls, version, data)
    return message


def _struct_from_json(cls: type[Any], version: int, data: Mapping[str, Any]) -> Any:
    values = {}
    for field in _fields(cls, version):
        name = java_name(field.name)
        if field.tag is None or name in data:
            values[field.name] = _value_from_json(field.type, data[name], version)
    return cls(**values)


def as_read(message: Any) -> Any:
    """The message as decoding gives it: texts that are only shown have no control characters."""
    return type(message)(
        **{one.name: _as_read(one.type, getattr(message, one.name)) for one in fields_of(type(message))}
    )


def _as_read(type_: WireType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, Array):
        return tuple(_as_read(type_.element, element) for element in value)
    if isinstance(type_, type):
        return as_read(value)
    return printable(value) if type_ is TEXT else value


def _fields(cls: type[Struct], version: int) -> Iterator[WireField]:
    return (field for field in fields_of(cls) if version in field.versions)


def _value_to_json(type_: WireType, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(type_, Array):
        return [_value_to_json(type_.element, element, version) for element in value]
    if isinstance(type_, type):
        return to_json(value, version)
    if type_ in (BYTES, RECORDS):
        return to_base64(value)
    if type_ is UUID:
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return value


def _value_from_json(type_: WireType, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(type_, Array):
        return tuple(_value_from_json(type_.element, element, version) for element in value)
    if isinstance(type_, type):
        return _struct_from_json(type_, version, value)
    if type_ in (BYTES, RECORDS):
        return from_base64(value)
    if type_ is UUID:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(value + "=="))
    return value


def batch_to_json(batch: ParsedBatch) -> dict[str, Any]:
    """What the parser found in a batch."""
    marker = batch.control_type()
    last_sequence = (batch.base_sequence + batch.last_offset_delta) & 0x7FFF_FFFF
    return {
        "codec": Compression(batch.codec).name.lower(),
        "base_offset": batch.base_offset,
        "last_offset": batch.next_offset - 1,
        "leader_epoch": batch.partition_leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": -1 if batch.base_sequence < 0 else last_sequence,
        "transactional": batch.is_transactional,
        "max_timestamp": batch.max_timestamp,
        "append_time": batch.max_timestamp if batch.is_log_append_time else None,
        "marker": None if marker is None else ControlType(marker).name,
        "records": [
            {
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": _to_base64(record.key),
                "value": _to_base64(record.value),
                "headers": [[name, _to_base64(value)] for name, value in record.headers],
            }
            for record in batch.records()
        ],
    }


def build_batch(batch: Mapping[str, Any], level: int | None = None) -> bytes:
    """The batch as a producer sends it: offsets from 0 on, no leader epoch; `level` is that of the codec."""
    rows = [
        (
            record["timestamp"],
            _from_base64(record["key"]),
            _from_base64(record["value"]),
            encode_headers([(name, _from_base64(value)) for name, value in record["headers"]]),
        )
        for record in batch["records"]
    ]
    size = sum(record_size_bound(key, value, headers) for _, key, value, headers in rows)
    builder = RecordBatchBuilder(bytearray(PREFIX + HEADER + size + 1))
    for row in rows:
        builder.append(*row)
    builder.seal(
        codec=Compression.of(batch["codec"]),
        level=level,
        producer_id=batch["producer_id"],
        producer_epoch=batch["producer_epoch"],
        base_sequence=batch["base_sequence"],
        transactional=batch["transactional"],
    )
    partition_and_length = 8
    return bytes(builder.wire(0, flexible=False)[partition_and_length:])
