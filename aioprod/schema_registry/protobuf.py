"""Protobuf messages with their schema in a registry. https://protobuf.dev/"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, Unpack

from aioprod.errors import ConfigError, SerializationError
from aioprod.schema_registry._extra import missing
from aioprod.schema_registry.client import SchemaRegistry
from aioprod.schema_registry.deserializing import Decode, RegistryDeserializer
from aioprod.schema_registry.framing import Frame, index_bytes, read_indexes
from aioprod.schema_registry.options import SerializerOptions
from aioprod.schema_registry.protobuf_work import MessageWork
from aioprod.schema_registry.schemas import Reference, RegisteredSchema, Schema, SchemaType
from aioprod.schema_registry.serializing import Encode, RegistrySerializer

try:
    from google.protobuf.message import DecodeError, EncodeError, Message
except ImportError as error:
    raise missing("aioprod.schema_registry.protobuf", error) from error

__all__ = ["ProtobufDeserializer", "ProtobufSerializer"]

M = TypeVar("M", bound=Message)

# Each implementation of Protobuf has descriptors of its own.
_Descriptor: TypeAlias = Any
_FileDescriptor: TypeAlias = Any

_BUILT_IN = ("confluent/", "google/protobuf/", "google/type/")
"""The beginnings of the names of files that every registry knows."""


class ProtobufSerializer(RegistrySerializer):
    """Messages of one generated class, such as `ProtobufSerializer(registry, Order)`.

    The schema is the `.proto` file of the class. The files that it imports are registered, or looked up, first, each
    in the subject of its own name (`shop/money.proto`); those of Google and Confluent are known to every registry.
    Options are those of every `RegistrySerializer`.
    """

    _type: ClassVar[SchemaType] = "PROTOBUF"

    def __init__(
        self, registry: SchemaRegistry, message_type: type[Message], **options: Unpack[SerializerOptions]
    ) -> None:
        self._message_type = _checked(message_type)
        descriptor = message_type.DESCRIPTOR
        self._name: str = descriptor.full_name
        self._file = descriptor.file
        self._indexes = index_bytes(_indexes_of(descriptor))
        super().__init__(registry, _schema_of(self._file), **options)

    @property
    def record_name(self) -> str:
        """The message's full name."""
        return self._name

    async def _encoder(self, schema: Schema) -> Encode:
        kind = self._message_type

        def encode(message: Any) -> bytes:
            if not isinstance(message, kind):
                raise SerializationError(f"expected a message {self._name}, not {type(message).__qualname__}.")
            try:
                encoded: bytes = message.SerializeToString()
            except EncodeError as error:
                raise SerializationError(f"the message {self._name} can't be encoded: {error}.") from error
            return encoded

        return encode

    def _after_id(self, framed: bytes) -> bytes:
        return framed + self._indexes

    async def _known(self, subject: str) -> RegisteredSchema:
        if not self._use_latest:
            self._schema = _schema_of(self._file, await self._references(self._file))
        return await super()._known(subject)

    async def _references(self, file: _FileDescriptor) -> tuple[Reference, ...]:
        """The files that a file imports, as the registry has them."""
        references = []
        for other in file.dependencies:
            if other.name.startswith(_BUILT_IN):
                continue
            schema = _schema_of(other, await self._references(other))
            if self._registers:
                await self._registry.register(other.name, schema, normalize=self._normalize)
            known = await self._registry.find(other.name, schema, normalize=self._normalize)
            if known.version is None:
                raise SerializationError(f"the schema registry gives no version of subject {other.name!r}.")
            references.append(Reference(other.name, other.name, known.version))
        return tuple(references)


class ProtobufDeserializer(RegistryDeserializer, Generic[M]):
    """Messages of one generated class, whichever version of it wrote them.

    The registry is used to see that the record's schema is known there and is one of Protobuf. The message has to be at
    the same place of its file in each version, as a record names it by that place.
    """

    _type: ClassVar[SchemaType] = "PROTOBUF"

    def __init__(self, registry: SchemaRegistry, message_type: type[M]) -> None:
        super().__init__(registry)
        self._message_type: type[M] = _checked(message_type)
        self._indexes = tuple(_indexes_of(message_type.DESCRIPTOR))
        self._work = MessageWork(message_type.DESCRIPTOR)

    def _payload(self, frame: Frame) -> bytes:
        indexes, rest = read_indexes(frame.payload if frame.header is None else frame.header)
        if frame.header is not None and rest:
            raise SerializationError("its header has more than a schema's GUID and the message's indexes.")
        if indexes != self._indexes:
            raise SerializationError(
                f"it is the message {list(indexes)} of its file, and {self._message_type.DESCRIPTOR.full_name} is "
                f"{list(self._indexes)}.",
                hint="Read it with the class of that message.",
            )
        return rest if frame.header is None else frame.payload

    async def _decoder(self, schema: Schema) -> tuple[Decode, int]:
        kind = self._message_type
        name = kind.DESCRIPTOR.full_name

        def decode(payload: bytes) -> M:
            self._work.check(payload)
            message = kind()
            try:
                message.ParseFromString(payload)
            except DecodeError as error:
                raise SerializationError(f"its bytes are not a message {name}: {error}.") from error
            return message

        return decode, 0


def _checked(message_type: type[M]) -> type[M]:
    if not isinstance(message_type, type) or not issubclass(message_type, Message) or message_type is Message:
        raise ConfigError(f"{message_type!r} is not a class of Protobuf messages: give the one that protoc generated.")
    return message_type


def _schema_of(file: _FileDescriptor, references: tuple[Reference, ...] = ()) -> Schema:
    return Schema(b64encode(file.serialized_pb).decode(), "PROTOBUF", references)


def _indexes_of(descriptor: _Descriptor) -> list[int]:
    """The place of a message in the message around it, and so on, outermost first."""
    indexes: list[int] = []
    while descriptor.containing_type is not None:
        indexes.insert(0, [each.name for each in descriptor.containing_type.nested_types].index(descriptor.name))
        descriptor = descriptor.containing_type
    return [list(descriptor.file.message_types_by_name).index(descriptor.name), *indexes]
