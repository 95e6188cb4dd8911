"""confluent-kafka's own serializers and deserializers, as they are, for aioprod's producer, reader and member."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from aioprod.errors import ConfigError, UsageError
from aioprod.schema_registry.roles import RoleOf

try:
    from confluent_kafka.serialization import MessageField, SerializationContext
except ImportError as error:
    raise UsageError(
        "aioprod.schema_registry.confluent needs confluent_kafka, which is not installed.",
        hint="pip install 'confluent-kafka[schemaregistry]'",
    ) from error

if TYPE_CHECKING:
    from aioprod.serializers import HeaderList

__all__ = ["ConfluentDeserializer", "ConfluentSerializer"]


class _Adapted:
    def __init__(self, target: Any) -> None:
        if inspect.isawaitable(target):
            if inspect.iscoroutine(target):
                target.close()
            raise ConfigError(
                "confluent-kafka's asynchronous serializer was not awaited: await AsyncAvroSerializer(…)."
            )
        if not callable(target):
            raise ConfigError(f"{target!r} is not a serializer or deserializer of confluent-kafka: it can't be called.")
        self._target = target
        self._role = RoleOf(type(self).__name__)

    def configure(self, config: object, *, is_key: bool) -> None:
        """Take keys, or values; the client calls it. Raises ConfigError for both by one object."""
        self._role.set(is_key)

    def _called(self, topic: str, headers: HeaderList, given: Any) -> Any:
        field = MessageField.KEY if self._role.name == "key" else MessageField.VALUE
        known: Any = headers
        return self._target(given, SerializationContext(topic, field, known))


class ConfluentSerializer(_Adapted):
    """`ConfluentSerializer(await AsyncAvroSerializer(client, schema))`, and its JSON and Protobuf siblings.

    What it appends to the headers, as the GUID of a schema, is sent. Confluent's synchronous serializers block the
    event loop while they wait for the registry.
    """

    def serialize(self, topic: str, headers: HeaderList, value: Any) -> Any:
        """What the serializer returns: an awaitable of bytes, of the asynchronous ones."""
        return self._called(topic, headers, value)


class ConfluentDeserializer(_Adapted):
    """`ConfluentDeserializer(await AsyncAvroDeserializer(client))`, and its JSON and Protobuf siblings."""

    def deserialize(self, topic: str, headers: HeaderList, data: bytes) -> Any:
        """What the deserializer returns: an awaitable of the value, of the asynchronous ones."""
        return self._called(topic, headers, data)
