"""Schemas in the three formats, with values that fit: nested, unions, logical types, references."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

__all__ = [
    "ADDRESS",
    "AVRO_CASES",
    "JSON_CASES",
    "MESSAGES",
    "ORDER",
    "avro_record",
    "json_schema",
    "protobuf_messages",
]


def avro_record(name: str, namespace: str | None = "shop", /, **fields: Any) -> str:
    """An Avro record as JSON text; a field is its type, or (type, default)."""
    listed = [
        {"name": field, "type": kind[0], "default": kind[1]}
        if isinstance(kind, tuple)
        else {"name": field, "type": kind}
        for field, kind in fields.items()
    ]
    schema = {"type": "record", "name": name, "fields": listed}
    return json.dumps(schema if namespace is None else {**schema, "namespace": namespace})


def json_schema(title: str, /, **properties: Any) -> str:
    """A JSON schema of an object, all of whose properties are required, as JSON text."""
    return json.dumps(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": title,
            "type": "object",
            "properties": properties,
            "required": list(properties),
        }
    )


ORDER: Final = avro_record("Order", id="int")
ADDRESS: Final = avro_record("Address", street="string", number=["null", "int"])

_LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "article", "type": "string"}, {"name": "count", "type": "long"}],
}
_DAY = {"type": "int", "logicalType": "date"}
_MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
_UUID = {"type": "string", "logicalType": "uuid"}

AVRO_CASES: Final[Mapping[str, tuple[str, tuple[Any, ...]]]] = MappingProxyType(
    {
        "record": (ORDER, ({"id": 0}, {"id": -1}, {"id": 2**31 - 1})),
        "no namespace": (avro_record("Bare", None, name="string"), ({"name": "é"},)),
        "nested": (
            avro_record("Cart", lines={"type": "array", "items": _LINE}, by_name={"type": "map", "values": "Line"}),
            (
                {"lines": [], "by_name": {}},
                {
                    "lines": [{"article": "a", "count": 1}, {"article": "b", "count": 2**40}],
                    "by_name": {"c": {"article": "c", "count": 3}},
                },
            ),
        ),
        "unions": (
            avro_record("Choice", what=["null", "string", "long", _LINE], other=(["null", "double"], None)),
            (
                {"what": None, "other": 0.5},
                {"what": "text"},
                {"what": 7, "other": None},
                {"what": {"article": "a", "count": 1}},
                {"what": ("shop.Line", {"article": "a", "count": 1})},
            ),
        ),
        "logical types": (
            avro_record("Invoice", day=_DAY, moment=_MOMENT, total=_MONEY, number=_UUID),
            (
                {
                    "day": datetime.date(2024, 2, 29),
                    "moment": datetime.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=datetime.UTC),
                    "total": decimal.Decimal("-1234.56"),
                    "number": uuid.UUID(int=7),
                },
            ),
        ),
        "enum and fixed": (
            avro_record(
                "Mixed",
                suit={"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]},
                sum={"type": "fixed", "name": "Sum", "size": 4},
                flag="boolean",
                ratio="float",
            ),
            ({"suit": "SPADES", "sum": b"\x00\x01\x02\x03", "flag": True, "ratio": 0.25},),
        ),
        "a string alone": ('"string"', ("", "text")),
        "a long as an object": ('{"type": "long"}', (0, -(2**63))),
        "bytes alone": ('"bytes"', (b"", b"\x00\x01")),
        "a union alone": ('["null", "string", "int"]', ("text", 5)),
        "an array alone": ('{"type": "array", "items": "int"}', ([], [1, 2, 3])),
    }
)
"""Name -> Avro schema, values."""

JSON_CASES: Final[Mapping[str, tuple[str, tuple[Any, ...]]]] = MappingProxyType(
    {
        "object": (json_schema("Order", id={"type": "integer"}), ({"id": 0}, {"id": 2**60, "more": "é\n\u2028"})),
        "nested": (
            json_schema("Cart", lines={"type": "array", "items": {"type": "object", "required": ["count"]}}),
            ({"lines": []}, {"lines": [{"count": 1.5, "note": None, "ok": True}]}),
        ),
        "no title": (json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"}), ("text",)),
    }
)
"""Name -> JSON schema, values."""


def _message(title: str, /, *nested: DescriptorProto, **fields: tuple[int, Any]) -> DescriptorProto:
    """A message; a field is its number with its type, or with the full name of a message."""
    made = DescriptorProto(name=title, nested_type=nested)
    for field, (number, kind) in fields.items():
        added = made.field.add(name=field, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        if isinstance(kind, str):
            added.type, added.type_name = FieldDescriptorProto.TYPE_MESSAGE, kind
        else:
            added.type = kind
    return made


def protobuf_messages(package: str = "shop") -> dict[str, type[Message]]:
    """Classes of messages as protoc generates them, of two files of which one imports the other, in that package."""
    text, number = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_INT64
    money = FileDescriptorProto(name=f"{package}/money.proto", package=package, syntax="proto3")
    money.message_type.append(_message("Money", cents=(1, number), currency=(2, text)))
    part = _message("Part", name=(1, text))
    line = _message("Line", _message("Unused"), part, article=(1, text), part=(2, f".{package}.Order.Line.Part"))
    order = _message(
        "Order",
        line,
        id=(1, number),
        price=(2, f".{package}.Money"),
        at=(3, ".google.protobuf.Timestamp"),
        line=(4, f".{package}.Order.Line"),
    )
    orders = FileDescriptorProto(
        name=f"{package}/orders.proto",
        package=package,
        syntax="proto3",
        dependency=[f"{package}/money.proto", "google/protobuf/timestamp.proto"],
        message_type=[order, _message("Note", text=(1, text))],
    )
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in (money, orders):
        pool.AddSerializedFile(file.SerializeToString())
    names = ("Money", "Order", "Order.Line", "Order.Line.Part", "Note")
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in names}


MESSAGES: Final[Mapping[str, type[Any]]] = MappingProxyType(protobuf_messages())
"""Name -> class of messages; their indexes are [0], [0], [0, 0], [0, 0, 1] and [1]."""
