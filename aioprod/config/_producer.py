"""The settings of a producer: guarantees, batches, classes, transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aioprod.config._client import ClientConfig, client_adjustments
from aioprod.config._setting import (
    HIGH,
    INT32_MAX,
    INT64_MAX,
    LOW,
    MEDIUM,
    acknowledgements,
    boolean,
    choice,
    decimal,
    instance,
    instances,
    integer,
    optional_encoding,
    optional_integer,
    optional_text,
)
from aioprod.errors import ConfigError

if TYPE_CHECKING:
    from aioprod.config._other_clients import Role

_IN_FLIGHT_MAX_IDEMPOTENT: Final = 5
"""A broker remembers the sequence numbers of this many batches per producer and partition."""


class ProducerConfig(ClientConfig):
    """Every setting of a producer. Names, defaults, ranges and cross-checks are those of Java's ProducerConfig.

    Raises ConfigError, in a sentence that names the setting, for a value that can't be used, for settings that
    contradict each other, and for those that this version does not support yet.
    """

    _ours: ClassVar[tuple[str, ...]] = ("producers",)
    _role: ClassVar[Role] = "producer"

    key_serializer: Any = instance(
        "serializer", importance=HIGH, doc="Turns keys into bytes. None: keys are bytes already."
    )
    value_serializer: Any = instance(
        "serializer", importance=HIGH, doc="Turns values into bytes. None: values are bytes already."
    )
    serializer_encoding: str | None = optional_encoding(
        importance=LOW, doc="The character set of the string and UUID serializers. None: UTF-8."
    )
    key_serializer_encoding: str | None = optional_encoding(
        importance=LOW, doc="The same for keys alone. None: as `serializer.encoding`."
    )
    value_serializer_encoding: str | None = optional_encoding(
        importance=LOW, doc="The same for values alone. None: as `serializer.encoding`."
    )
    acks: int = acknowledgements(
        -1,
        importance=LOW,
        doc="The replicas that must have a record before it counts as delivered: all in-sync ones (all or -1), the "
        "leader (1), or none (0: nothing is known of the outcome, and offsets are -1).",
    )
    enable_idempotence: bool = boolean(
        True,
        importance=LOW,
        doc="Records of a partition keep their order and are not stored twice by a retry.",
    )
    retries: int = integer(
        INT32_MAX,
        importance=HIGH,
        doc="How often a batch is retried. Leave it, and bound the time by `delivery.timeout.ms`.",
    )
    delivery_timeout_ms: int = integer(
        120_000,
        importance=MEDIUM,
        doc="The whole life of a record from its acceptance to its outcome, waits and retries included. At least "
        "`linger.ms` + `request.timeout.ms`.",
    )
    resolve_unknown_outcomes: bool = boolean(
        False,
        importance=LOW,
        doc="Whether a record whose answer was lost gets its outcome only when it is known whether it is stored, up to "
        "`resolve.timeout.ms` after its deadline. `flush()` and `close()` wait for that, too. Not with a "
        "`transactional.id`.",
    )
    resolve_timeout_ms: int = integer(
        60_000,
        at_least=1,
        importance=LOW,
        doc="How long `Producer.resolve`, where its call does not say, and `resolve.unknown.outcomes` try to find out "
        "whether a record is stored.",
    )
    resolve_max_bytes: int = integer(
        268_435_456,
        at_least=1,
        importance=LOW,
        doc="How many bytes of a partition `Producer.resolve` reads to find a record.",
    )
    max_block_ms: int = integer(
        60_000,
        at_most=INT64_MAX,
        importance=MEDIUM,
        doc="How long `start()`, `send()` (for memory and metadata) and `partitions_for()` may wait.",
    )
    close_timeout_ms: int | None = optional_integer(
        importance=MEDIUM,
        doc="How long `close()` without a time, and the end of `async with`, may wait for outcomes before it fails the "
        "rest. None: as long as `delivery.timeout.ms` allows. Not a setting of Java's.",
    )
    max_in_flight_requests_per_connection: int = integer(
        5,
        at_least=1,
        importance=LOW,
        doc="How many requests may wait for their answers on one connection. At most 5 with idempotence.",
    )
    linger_ms: int = integer(
        5,
        at_most=INT64_MAX,
        importance=MEDIUM,
        doc="How long a record may wait for others to share its batch. With `adaptive.linger` this is an upper bound.",
    )
    adaptive_linger: bool = boolean(
        True,
        importance=MEDIUM,
        doc="Records wait for others only while a request to their broker is outstanding; an idle connection sends at "
        "once. False: Java's fixed wait. Not a setting of Java's.",
    )
    batch_size: int = integer(
        16_384,
        importance=MEDIUM,
        doc="The bytes of a batch after which it is full, and leaves. 0: each record is its own batch.",
    )
    batch_size_max: int = integer(
        1_048_576,
        importance=MEDIUM,
        doc="The bytes up to which a full batch grows until a request takes it: its partition or broker has all its "
        "requests in flight, is away, or backs off. At most `max.request.size`. The same as `batch.size`: none grows. "
        "Not a setting of Java's.",
    )
    buffer_memory: int = integer(
        33_554_432,
        at_most=INT64_MAX,
        importance=HIGH,
        doc="The bytes of all records that wait for their outcome. When it is used up, sending waits or fails.",
    )
    buffer_memory_stuck_fraction: float = decimal(
        0.5,
        at_least=0.1,
        at_most=1.0,
        importance=LOW,
        doc="The part of `buffer.memory` for records that can't be delivered now, as their partition has no leader or "
        "backs off, or its broker does not answer, while others are delivered. 1.0: all of it. Not a setting of "
        "Java's.",
    )
    max_request_size: int = integer(
        1_048_576,
        importance=MEDIUM,
        doc="The largest request in bytes, and the largest single record before compression. Unless it is given, "
        "a request has up to 16 MiB of several partitions where the round trip would hold up what it leaves behind.",
    )
    compression_type: str = choice(
        "none",
        ["none", "gzip", "snappy", "lz4", "zstd"],
        absent="none",
        importance=HIGH,
        doc="How batches are compressed. A batch that compression would enlarge goes uncompressed.",
    )
    compression_gzip_level: int = integer(
        -1, at_least=1, at_most=9, also=-1, importance=MEDIUM, doc="More is smaller and slower. -1: zlib's default."
    )
    compression_lz4_level: int = integer(
        9, at_least=1, at_most=17, importance=MEDIUM, doc="More is smaller and slower."
    )
    compression_zstd_level: int = integer(
        3, at_least=-131_072, at_most=22, importance=MEDIUM, doc="More is smaller and slower. 0: zstd's default."
    )
    partitioner_class: Any = instance(
        "partitioner",
        alias="partitioner",
        importance=MEDIUM,
        doc="Chooses the partition of a record that names none. None: by murmur2 of the key; without a key, one "
        "partition until a batch is full, preferring those with short queues.",
    )
    partitioner_adaptive_partitioning_enable: bool = boolean(
        True, importance=LOW, doc="The built-in partitioner prefers partitions with short queues."
    )
    partitioner_availability_timeout_ms: int = integer(
        0,
        at_most=INT64_MAX,
        importance=LOW,
        doc="The built-in partitioner avoids brokers that have taken nothing for this long. 0: never.",
    )
    partitioner_ignore_keys: bool = boolean(
        False, importance=MEDIUM, doc="The built-in partitioner treats records with a key as those without."
    )
    partitioner_rack_aware: bool = boolean(
        False,
        importance=LOW,
        doc="The built-in partitioner sends records without a key to partitions whose leader is in `client.rack`, "
        "while there are any (KIP-1123). A partitioner that is set chooses for itself.",
    )
    interceptor_classes: tuple[Any, ...] = instances(
        "interceptor",
        importance=LOW,
        doc="Objects that see each record before it is serialized, and its outcome, in this order.",
    )
    metadata_max_idle_ms: int = integer(
        300_000,
        at_least=5_000,
        at_most=INT64_MAX,
        importance=LOW,
        doc="The metadata of a topic to which nothing was sent for this long is dropped, and fetched again on use.",
    )
    topic_recreation: str = choice(
        "fail",
        ["fail", "follow"],
        importance=LOW,
        doc="What happens to batches whose topic was deleted and created again: they fail, or follow to the new topic "
        "of that name, for which they wait as long as `delivery.timeout.ms` allows. In a transaction they always fail. "
        "Not a setting of Java's.",
    )
    transactional_id: str | None = optional_text(
        importance=LOW,
        doc="The name of a producer with transactions: a new one with the same name fences off the old one and ends "
        "what it left open. It needs `acks=all` and `enable.idempotence`. None: no transactions.",
    )
    transaction_timeout_ms: int = integer(
        60_000,
        importance=LOW,
        doc="The time after which the broker aborts an open transaction. Without `transactional.id` it has no effect.",
    )
    transaction_two_phase_commit_enable: bool = boolean(
        False,
        built=(False,),
        later="two-phase commit is not built yet.",
        importance=LOW,
        doc="An outside coordinator decides whether a transaction is committed (KIP-939). Known for files of Java's "
        "producers that spell out the default.",
    )

    def _adjustments(self) -> Mapping[str, object]:
        _check_rack(self)
        return client_adjustments(self) | _idempotence(self) | _delivery_timeout(self) | _batch_sizes(self)


def _check_rack(config: ProducerConfig) -> None:
    if config.partitioner_rack_aware and not config.client_rack:
        raise ConfigError(
            "partitioner.rack.aware=true needs client.rack, which is not set.",
            hint="Name the rack in which this client is, as the brokers' broker.rack has it.",
        )


_REQUEST_TIMEOUT_SHORTENED_MIN_MS: Final = 100
"""A default is never lowered below this: brokers on the other side of a network would not answer in time."""


def _transactions(config: ProducerConfig) -> None:
    if config.transactional_id is None:
        return
    if not config.transactional_id:
        raise ConfigError("transactional.id is empty.", hint="Give a name that no other running producer has, or none.")
    contradictions = {
        "enable.idempotence=false": not config.enable_idempotence,
        f"acks={config.acks}": config.acks != -1,
        "retries=0": config.retries == 0,
    }
    for setting, contradicts in contradictions.items():
        if contradicts:
            raise ConfigError(
                f"transactional.id={config.transactional_id!r} contradicts {setting}.",
                hint="Transactions need enable.idempotence=true, acks=all and retries of at least 1, the defaults.",
            )


def _resolving(config: ProducerConfig, *, is_idempotent: bool) -> None:
    if config.resolve_unknown_outcomes and not is_idempotent:
        raise ConfigError(
            "resolve.unknown.outcomes=true needs sequence numbers, which this producer does not send.",
            hint="Set enable.idempotence=true, acks=all and retries of at least 1.",
        )
    if config.resolve_unknown_outcomes and config.transactional_id is not None:
        raise ConfigError(
            "resolve.unknown.outcomes=true is not for transactions: a record has the fate of its transaction.",
            hint="Abort after an UnknownOutcomeError, and send the records again in the next transaction.",
        )


def _idempotence(config: ProducerConfig) -> dict[str, object]:
    _transactions(config)
    _resolving(config, is_idempotent=config.enable_idempotence)
    if not config.enable_idempotence:
        return {}
    if config.max_in_flight_requests_per_connection > _IN_FLIGHT_MAX_IDEMPOTENT:
        raise ConfigError(
            f"max.in.flight.requests.per.connection={config.max_in_flight_requests_per_connection} is more than the "
            f"{_IN_FLIGHT_MAX_IDEMPOTENT} that enable.idempotence allows.",
            hint="Lower it, or set enable.idempotence=false.",
        )
    if config.acks == -1 and config.retries > 0:
        return {}
    if "enable_idempotence" not in config.explicit:
        _resolving(config, is_idempotent=False)
        return {"enable_idempotence": False}
    setting = f"acks={config.acks}" if config.acks != -1 else "retries=0"
    raise ConfigError(
        f"enable.idempotence=true contradicts {setting}.",
        hint="It needs acks=all and retries of at least 1; or set enable.idempotence=false.",
    )


def _delivery_timeout(config: ProducerConfig) -> dict[str, object]:
    limit_ms, linger_ms, request_ms = config.delivery_timeout_ms, config.linger_ms, config.request_timeout_ms
    needed = min(linger_ms + request_ms, INT32_MAX)
    if limit_ms >= needed:
        return {}
    if "delivery_timeout_ms" not in config.explicit:
        return {"delivery_timeout_ms": needed}
    changes: dict[str, object] = {}
    may_shorten = "request_timeout_ms" not in config.explicit
    if "linger_ms" not in config.explicit:
        least_ms = _REQUEST_TIMEOUT_SHORTENED_MIN_MS if may_shorten else request_ms
        linger_ms = changes["linger_ms"] = max(0, min(linger_ms, limit_ms - least_ms))
    if may_shorten:
        request_ms = changes["request_timeout_ms"] = max(_REQUEST_TIMEOUT_SHORTENED_MIN_MS, limit_ms - linger_ms)
    if linger_ms + request_ms <= limit_ms:
        return changes
    raise ConfigError(
        f"delivery.timeout.ms={limit_ms} is less than linger.ms + request.timeout.ms, which is at least "
        f"{linger_ms} + {request_ms}.",
        hint="Raise it, or lower one of the two.",
    )


def _batch_sizes(config: ProducerConfig) -> dict[str, object]:
    batch_size = config.batch_size
    if "batch_size" not in config.explicit:
        batch_size = min(batch_size, config.buffer_memory, config.max_request_size)
    elif batch_size > config.buffer_memory:
        raise _never_full(config)
    size_max = config.batch_size_max
    if "batch_size_max" not in config.explicit:
        return {"batch_size": batch_size, "batch_size_max": max(batch_size, min(size_max, config.max_request_size))}
    if size_max > config.max_request_size:
        raise ConfigError(
            f"batch.size.max={size_max} is larger than max.request.size={config.max_request_size}, so such a batch "
            "would fit into no request.",
            hint="Lower the one, or raise the other together with the topic's max.message.bytes.",
        )
    if size_max < batch_size and "batch_size" in config.explicit:
        raise ConfigError(
            f"batch.size.max={size_max} is smaller than batch.size={batch_size}.",
            hint="Raise batch.size.max, or give the same for both: then no batch grows.",
        )
    return {"batch_size": min(batch_size, size_max)}


def _never_full(config: ProducerConfig) -> ConfigError:
    return ConfigError(
        f"batch.size={config.batch_size} is larger than buffer.memory={config.buffer_memory}, so no batch could ever "
        "be full.",
        hint="Lower the one or raise the other.",
    )
