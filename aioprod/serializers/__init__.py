"""Objects to bytes and back, in the byte formats of Java's own serializers, and an adapter around any other.

A serializer is one of two things:

- an object with a method `serialize(topic, headers, value)`, and perhaps `configure(config, is_key=...)` and `close()`;
- a function. One that needs three positional arguments is called as `function(topic, headers, value)`, one that can be
  called with a single argument gets the value alone. So `str.encode` can be used as it is.

`headers` is the list of (name, value) that will be sent: a serializer may append to it. The result is bytes, or None
for a null. A coroutine function, or one that returns an awaitable of these, is a serializer too. A value of None is
null, and no serializer is called. A deserializer is the same with `deserialize`, from bytes to any object. A serializer
or deserializer that knows its schema already can so return at once, and an awaitable where it has to be looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use
from aioprod.serializers._adapter import Deserializer, Serializer, as_deserializer, as_serializer, make_serializer

if TYPE_CHECKING:
    from aioprod.serializers._formats import (
        BooleanDeserializer,
        BooleanSerializer,
        BytesDeserializer,
        BytesSerializer,
        DoubleDeserializer,
        DoubleSerializer,
        FloatDeserializer,
        FloatSerializer,
        HeaderList,
        IntegerDeserializer,
        IntegerSerializer,
        JsonDeserializer,
        JsonSerializer,
        LongDeserializer,
        LongSerializer,
        ShortDeserializer,
        ShortSerializer,
        StringDeserializer,
        StringSerializer,
        UUIDDeserializer,
        UUIDSerializer,
        VoidDeserializer,
        VoidSerializer,
    )

__all__ = [
    "BooleanDeserializer",
    "BooleanSerializer",
    "BytesDeserializer",
    "BytesSerializer",
    "Deserializer",
    "DoubleDeserializer",
    "DoubleSerializer",
    "FloatDeserializer",
    "FloatSerializer",
    "HeaderList",
    "IntegerDeserializer",
    "IntegerSerializer",
    "JsonDeserializer",
    "JsonSerializer",
    "LongDeserializer",
    "LongSerializer",
    "Serializer",
    "ShortDeserializer",
    "ShortSerializer",
    "StringDeserializer",
    "StringSerializer",
    "UUIDDeserializer",
    "UUIDSerializer",
    "VoidDeserializer",
    "VoidSerializer",
    "as_deserializer",
    "as_serializer",
    "make_serializer",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(__name__, dict.fromkeys(__all__, "_formats"))
