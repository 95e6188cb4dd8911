"""The types of options that a client takes in several forms: an object, a class, a function, or a name.

Only type checkers and editors load this module. What one form must be able to do at run time is checked there by the
module that uses it: `aioprod.serializers`, `aioprod.routing`, `aioprod.interceptors`, `aioprod.metrics`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, Protocol, TypeAlias

from aioprod.cluster import Cluster
from aioprod.errors import AioprodError
from aioprod.metrics import Reporter
from aioprod.oauth_token import OAuthToken
from aioprod.routing import Partitioner
from aioprod.types import ProducerRecord, RecordMetadata

__all__ = [
    "AssignorName",
    "AssignorOption",
    "DeserializerOption",
    "InterceptorOption",
    "InterceptorsOption",
    "PartitionerOption",
    "ReporterOption",
    "SerializerOption",
    "TokenProviderOption",
]


class SerializesValues(Protocol):
    """An object with a serializer's method; it returns bytes, None for a null, or an awaitable of these."""

    def serialize(self, topic: str, headers: Any, value: Any, /) -> Any: ...


class DeserializesValues(Protocol):
    """An object with a deserializer's method; it returns any object, or an awaitable of one."""

    def deserialize(self, topic: str, headers: Any, data: Any, /) -> Any: ...


class InterceptsRecords(Protocol):
    """An interceptor that changes records before they are serialized."""

    def on_send(self, record: ProducerRecord, /) -> ProducerRecord: ...


class InterceptsOutcomes(Protocol):
    """An interceptor that receives the outcome of each record."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None, /) -> object: ...


class AssignsPartitions(Protocol):
    """An assignor: `aioprod.group.assignors.Assignor` says what it gets and returns."""

    name: str

    def assign(self, partitions: Any, members: Any) -> Any: ...


_Serialized: TypeAlias = bytes | bytearray | memoryview | None

SerializerOption: TypeAlias = (
    SerializesValues | type[SerializesValues] | Callable[..., _Serialized | Awaitable[_Serialized]] | str
)
"""A serializer: an object, a class, a function of (value) or of (topic, headers, value), or a name."""

DeserializerOption: TypeAlias = DeserializesValues | type[DeserializesValues] | Callable[..., Any] | str
"""A deserializer: an object, a class, a function of (data) or of (topic, headers, data), or a name."""

PartitionerOption: TypeAlias = (
    Partitioner | type[Partitioner] | Callable[[str, bytes | None, bytes | None, Cluster], int] | str
)
"""A partitioner: an object, a class, a function of (topic, key, value, cluster), or a name."""

InterceptorOption: TypeAlias = (
    InterceptsRecords | InterceptsOutcomes | type[InterceptsRecords | InterceptsOutcomes] | str
)
"""An interceptor: an object or a class with at least one of the two methods, or a name."""

InterceptorsOption: TypeAlias = InterceptorOption | Iterable[InterceptorOption]
"""One interceptor or several."""

AssignorName: TypeAlias = Literal["cooperative-sticky", "range", "roundrobin", "sticky"]
"""An assignor that is here. Names of other classes are given as `config=`."""

AssignorOption: TypeAlias = AssignsPartitions | type[AssignsPartitions] | AssignorName
"""An assignor: an object, a class, or the name of one that is here."""

ReporterOption: TypeAlias = Reporter | type[Reporter] | str
"""A metric reporter: an object, a class, or a name."""

TokenProviderOption: TypeAlias = Callable[[], OAuthToken | Awaitable[OAuthToken]] | str
"""A function or coroutine function that gives a token, or the name of one."""
