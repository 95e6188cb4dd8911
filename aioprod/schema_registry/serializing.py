"""What the serializers of all formats do: the id of the schema for each topic, looked up once, and the framing."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from aioprod._logger import Logger
from aioprod.errors import ConfigError, SerializationError, UsageError
from aioprod.schema_registry.caches import SingleFlight
from aioprod.schema_registry.client import SchemaRegistry, given_registry
from aioprod.schema_registry.errors import RegistryAnswerError
from aioprod.schema_registry.framing import guid_header, header_name, id_prefix
from aioprod.schema_registry.roles import RoleOf
from aioprod.schema_registry.schemas import RegisteredSchema, Schema, SchemaType
from aioprod.schema_registry.subjects import SubjectStrategy, strategy_of

if TYPE_CHECKING:
    from aioprod.serializers import HeaderList

__all__ = ["Encode", "Framing", "RegistrySerializer"]

Framing: TypeAlias = Literal["prefix", "header"]
"""Where a record names its schema: the id before its bytes, or the GUID in a header."""

Encode: TypeAlias = Callable[[Any], bytes]
"""A value's bytes, without framing; raises any Exception for a value that does not fit the schema."""

_logger = Logger("aioprod")


class _Prepared(NamedTuple):
    """All that a record of one topic needs; `due` is when the latest version is to be looked up again."""

    encode: Encode
    prefix: bytes
    header: tuple[str, bytes] | None
    due: float


class RegistrySerializer(ABC):
    """A serializer whose records name their schema in a registry.

    The first record of a topic has to be awaited, as its schema is looked up; later ones are not. `prepare` looks it up
    before the first record. `subject` names the subject: "topic", "record", "topic_record" (`subjects.py`), or a
    function. The schema is registered there; with `auto_register=False` it must be registered already; with
    `use_latest=True` the subject's latest version is used instead. `normalize` lets the registry compare schemas
    without regard to how they are written. `framing` is "prefix", the id before the bytes, or "header", the GUID in a
    header. `to_dict` turns a value into what the format knows.

    Raises ConfigError for options that contradict, and for what is not a SchemaRegistry.
    """

    _type: ClassVar[SchemaType]

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: Schema | None,
        *,
        subject: str | SubjectStrategy = "topic",
        auto_register: bool | None = None,
        use_latest: bool = False,
        normalize: bool = False,
        framing: Framing = "prefix",
        to_dict: Callable[[Any], Any] | None = None,
    ) -> None:
        if use_latest and auto_register:
            raise ConfigError("use_latest and auto_register are both True: the latest version is registered already.")
        if schema is None and not use_latest:
            raise ConfigError("No schema is given.", hint="Give one, or use_latest=True for the subject's latest.")
        if framing not in ("prefix", "header"):
            raise ConfigError(f'framing is {framing!r}: it must be "prefix" or "header".')
        self._registry = given_registry(registry, type(self).__name__)
        self._schema = schema
        self._subject = strategy_of(subject)
        self._registers = not use_latest if auto_register is None else auto_register
        self._use_latest = use_latest
        self._normalize = normalize
        self._by_header = framing == "header"
        self._to_dict = to_dict
        self._role = RoleOf(type(self).__name__)
        self._prepared: dict[str, _Prepared] = {}
        self._flights = SingleFlight()

    @property
    @abstractmethod
    def record_name(self) -> str | None:
        """The record name for the subject strategy, None where the schema has none."""

    @abstractmethod
    async def _encoder(self, schema: Schema) -> Encode:
        """What encodes values by this schema; made in a thread, as a schema may be large.

        Raises RegistryError, SerializationError.
        """

    def configure(self, config: object, *, is_key: bool) -> None:
        """Serialize keys, or values; a producer calls it. Raises ConfigError for both by one serializer."""
        self._role.set(is_key)

    def serialize(self, topic: str, headers: HeaderList, value: Any) -> bytes | Awaitable[bytes]:
        """The framed bytes of the value, or an awaitable of them for the first record of a topic.

        Raises SerializationError for a value that does not fit the schema, and RegistryError, which is one too.
        """
        prepared = self._prepared.get(topic)
        if prepared is None:
            return self._serialized_later(topic, headers, value)
        if self._use_latest and self._registry.clock() >= prepared.due:
            self._refresh(topic)
        return self._framed(prepared, headers, value)

    async def prepare(self, *topics: str) -> None:
        """Look up, and if need be register, the schema for these topics, so that no record of them has to wait.

        A serializer of keys is given to its producer first, which says that its subjects are those of keys. Raises
        RegistryError, and SerializationError where the subject's latest schema is of another type.
        """
        self._role.use()
        if not all(isinstance(topic, str) for topic in topics):
            raise UsageError('prepare() takes the names of topics: prepare("orders", "meals"), or prepare(*names).')
        for topic in topics:
            if topic not in self._prepared:
                await self._flights.run(topic, partial(self._look_up, topic))

    async def _serialized_later(self, topic: str, headers: HeaderList, value: Any) -> bytes:
        await self.prepare(topic)
        return self._framed(self._prepared[topic], headers, value)

    async def _look_up(self, topic: str) -> None:
        subject = self._subject(topic, self._role.name, self.record_name)
        known = await self._known(subject)
        if known.schema.type != self._type:
            raise SerializationError(
                f"the schema of subject {subject!r} is of type {known.schema.type}, not {self._type}.",
                hint=f"Write to this subject with the serializer for {known.schema.type}.",
            )
        header = None
        if self._by_header:
            if known.guid is None:
                raise RegistryAnswerError(
                    f"The schema registry gives no GUID for subject {subject!r}, and framing is 'header'.",
                    subject=subject,
                    hint="Use framing='prefix', which each registry can do.",
                )
            header = header_name(self._role.name), self._after_id(guid_header(known.guid))
        # Another topic of the subject may have looked it up a while ago.
        due = self._registry.latest_due(subject) if self._use_latest else math.inf
        prefix = self._after_id(id_prefix(known.id))
        self._prepared[topic] = _Prepared(await self._encoder(known.schema), prefix, header, due)

    def _after_id(self, framed: bytes) -> bytes:
        """The prefix or header with what the format adds to it."""
        return framed

    async def _known(self, subject: str) -> RegisteredSchema:
        if self._use_latest:
            return await self._registry.latest(subject)
        assert self._schema is not None
        if self._registers:
            return await self._registry.register(subject, self._schema, normalize=self._normalize)
        return await self._registry.find(subject, self._schema, normalize=self._normalize)

    def _framed(self, prepared: _Prepared, headers: HeaderList, value: Any) -> bytes:
        if self._to_dict is not None:
            value = self._to_dict(value)
        payload = prepared.encode(value)
        if headers:
            # Of a record that was read and is sent again: readers look at the headers first.
            name = header_name(self._role.name)
            if any(header[0] == name for header in headers):
                headers[:] = [header for header in headers if header[0] != name]
        if prepared.header is None:
            return prepared.prefix + payload
        headers.append(prepared.header)
        return payload

    def _refresh(self, topic: str) -> None:
        """Look the latest version up again in the background; records are serialized by the known one meanwhile."""
        self._flights.start((topic, "latest"), partial(self._refreshed, topic))

    async def _refreshed(self, topic: str) -> None:
        try:
            await self._look_up(topic)
        except Exception as error:
            _logger.warning("The latest schema for topic %r stays the one that is known: %s", topic, error)
            due = self._registry.clock() + self._registry.config.latest_ttl_ms / 1000
            self._prepared[topic] = self._prepared[topic]._replace(due=due)
