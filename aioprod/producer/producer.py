"""`Producer` is the class that users import: the arguments that it takes. `ProducerCalls` has the calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from aioprod.config import ProducerConfig
from aioprod.errors import UnknownOutcomeError
from aioprod.producer.callbacks import error_callback
from aioprod.producer.foreign_calls import ForeignCallHints
from aioprod.producer.preparation import seconds
from aioprod.producer.producer_calls import ProducerCalls
from aioprod.types import ErrorCallback, RecordMetadata

if TYPE_CHECKING:
    from typing import Unpack

    from aioprod.options import InterceptorsOption, PartitionerOption, ProducerOptions, SerializerOption

__all__ = ["Producer", "all_options"]


class Producer(ProducerCalls, ForeignCallHints):
    """Sends records to Kafka from one event loop; use it as `async with Producer("host:9092") as producer`.

    `options` are fields of `ProducerConfig` (Java's names in snake_case, `linger_ms=5`); they win over those of
    `config`, which may also be a dict with Java's names. Serializers, partitioner and interceptors may be objects,
    classes or names: `aioprod.options` has the types. `on_error(error, record)` is called for each failed record that
    no caller waits for; by default a warning is logged for each failed batch. Raises ConfigError. Touches no network
    before `start()`.
    """

    # A class of Python's own, so that it has a signature and a test may patch its methods, which those of a compiled
    # class do not allow. Its calls cost the same, as they are the other one's.
    __slots__ = ()

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: ProducerConfig | Mapping[str, Any] | None = None,
        key_serializer: SerializerOption | None = None,
        value_serializer: SerializerOption | None = None,
        partitioner: PartitionerOption | None = None,
        interceptors: InterceptorsOption = (),
        on_error: ErrorCallback | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """The class says what the arguments are."""
        given = all_options(options, key_serializer, value_serializer, partitioner, interceptors)
        super().__init__(ProducerConfig.given(config, bootstrap_servers, given), error_callback(on_error))

    async def resolve(self, error: UnknownOutcomeError, timeout: float | None = None) -> RecordMetadata | None:
        """What became of a record that failed with this error: its place, or None if it is in no log and never will be.

        Waits until a later record of the partition is acknowledged, which decides, and reads the log before it: up to
        `resolve.max.bytes`, with the right to READ the topic. A record of a transaction that was aborted counts as not
        stored. `timeout` is in seconds, by default `resolve.timeout.ms`. The same error may be given again.

        Raises StillUnknownError where it can't be said by then, or ever; UsageError for another error, one of another
        producer, and when the producer is closed. See docs/guarantees.md for why its answers are certain.
        """
        self._engine.guard.check_running()
        return await self._engine.parts.resolver.resolve(error, seconds("resolve", timeout))


def all_options(
    options: Mapping[str, Any],
    key_serializer: SerializerOption | None,
    value_serializer: SerializerOption | None,
    partitioner: PartitionerOption | None,
    interceptors: InterceptorsOption,
) -> dict[str, Any]:
    """The options of a producer with those that are arguments of their own."""
    named = {
        "key_serializer": key_serializer,
        "value_serializer": value_serializer,
        "partitioner_class": partitioner,
        "interceptor_classes": _several(interceptors) or None,
    }
    return {**options, **{name: value for name, value in named.items() if value is not None}}


def _several(given: Any) -> tuple[Any, ...]:
    """One object, class or name, or an iterable of them."""
    return tuple(given) if isinstance(given, Iterable) and not isinstance(given, (str, type)) else (given,)
