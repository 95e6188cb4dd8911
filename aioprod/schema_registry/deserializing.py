"""What the deserializers of all formats do: the schema that a record names, looked up once."""

from __future__ import annotations

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from aioprod.errors import SerializationError
from aioprod.schema_registry.caches import LruCache, SingleFlight
from aioprod.schema_registry.client import SchemaRegistry, given_registry
from aioprod.schema_registry.failures import Failures
from aioprod.schema_registry.framing import Frame, SchemaKey, header_name, read_frame
from aioprod.schema_registry.roles import RoleOf
from aioprod.schema_registry.schemas import Schema, SchemaType

if TYPE_CHECKING:
    from aioprod.serializers import HeaderList

__all__ = ["Decode", "RegistryDeserializer"]

Decode: TypeAlias = Callable[[bytes], Any]
"""The value of bytes without framing; raises any Exception for bytes that do not fit the schema."""


class RegistryDeserializer(ABC):
    """A deserializer of records that name their schema in a registry, in a header or before their bytes.

    The first record of a schema has to be awaited, as the schema is looked up, and a large record, which is decoded in
    a thread; others are not. `from_dict` turns what the format gives into the value. Raises ConfigError for what is
    not a SchemaRegistry.
    """

    _type: ClassVar[SchemaType]
    _on_loop_max: ClassVar[int] = 65_536
    """A record of more bytes is decoded in a thread."""

    def __init__(self, registry: SchemaRegistry, *, from_dict: Callable[[Any], Any] | None = None) -> None:
        self._registry = given_registry(registry, type(self).__name__)
        self._from_dict = from_dict
        self._role = RoleOf(type(self).__name__)
        self._flights = SingleFlight()
        self._failures = Failures(self._registry.clock)
        self._decoders: LruCache[SchemaKey, Decode] = LruCache(self._registry.config.schemas_cached_max)

    @abstractmethod
    async def _decoder(self, schema: Schema) -> tuple[Decode, int]:
        """What decodes bytes that were written by this schema, and of how many characters of schemas it was made.

        It is made in a thread, as a schema may be large. Raises RegistryError, SerializationError.
        """

    def configure(self, config: object, *, is_key: bool) -> None:
        """Deserialize keys, or values; a reader calls it. Raises ConfigError for both by one deserializer."""
        self._role.set(is_key)

    def deserialize(self, topic: str, headers: HeaderList, data: bytes) -> Any:
        """The value, or an awaitable of it for the first record of a schema and for large ones.

        Raises SerializationError for bytes without framing or that do not fit the schema, and RegistryError.
        """
        frame = read_frame(data, headers, header_name(self._role.name))
        payload = self._payload(frame)
        decode = self._decoders.get(frame.schema)
        if decode is None or len(payload) > self._on_loop_max:
            return self._deserialized_later(frame.schema, payload)
        return self._converted(decode(payload))

    def _payload(self, frame: Frame) -> bytes:
        if frame.header:
            raise SerializationError(f"its header {header_name(self._role.name)} has more than a schema's GUID.")
        return frame.payload

    async def _deserialized_later(self, key: SchemaKey, payload: bytes) -> Any:
        decode = self._decoders.get(key)
        if decode is None:
            decode = await self._flights.run(key, partial(self._look_up, key))
        is_large = len(payload) > self._on_loop_max
        return self._converted(await asyncio.to_thread(decode, payload) if is_large else decode(payload))

    async def _look_up(self, key: SchemaKey) -> Decode:
        self._failures.check(key)
        await self._failures.turn()
        try:
            decode, characters = await self._found(key)
        except SerializationError as error:
            self._failures.put(key, error)
            raise
        self._decoders.put(key, decode, characters)
        return decode

    async def _found(self, key: SchemaKey) -> tuple[Decode, int]:
        schema = await self._registry.schema(key)
        if schema.type != self._type:
            kind = "GUID" if isinstance(key, uuid.UUID) else "id"
            raise SerializationError(
                f"the schema of {kind} {key} is of type {schema.type}, not {self._type}.",
                hint=f"Read this topic with the deserializer for {schema.type}.",
            )
        return await self._decoder(schema)

    def _converted(self, value: Any) -> Any:
        return value if self._from_dict is None else self._from_dict(value)
