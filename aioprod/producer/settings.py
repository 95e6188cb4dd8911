"""What the parts of a producer need of its configuration, in the units in which they use it."""

from __future__ import annotations

from typing import Final, NamedTuple

from aioprod.config import ProducerConfig
from aioprod.producer.batching.accumulator_settings import AccumulatorSettings
from aioprod.records.compression import Compression

__all__ = ["SenderSettings", "accumulator_settings", "sender_settings"]

_LARGE_REQUEST_SIZE: Final = 16 * 2**20
"""Brokers take 100 MiB (`socket.request.max.bytes`)."""
UNLIMITED: Final = 2**31 - 1
_BATCHES_REMEMBERED: Final = 5
"""Batches of a producer and partition that a broker recognizes as duplicates, and whose offset it returns."""


class SenderSettings(NamedTuple):
    """What the sender and the outcomes need: sizes in bytes, times in seconds unless the name says ms."""

    acks: int
    transactional: bool
    transactional_id: bytes | None
    retries: int
    in_flight_max: int
    max_request_size: int
    large_request_size: int
    """The largest request where a small one would have others wait for a round trip."""
    linger_s: float
    adaptive_linger: bool
    request_timeout_s: float
    request_timeout_ms: int
    delivery_timeout_ms: int
    follows_recreated: bool
    codec: Compression
    compression_level: int | None


def sender_settings(config: ProducerConfig) -> SenderSettings:
    """Read a configuration for the sender."""
    codec = Compression.of(config.compression_type)
    levels = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }
    return SenderSettings(
        acks=config.acks,
        transactional=config.transactional_id is not None,
        transactional_id=None if config.transactional_id is None else config.transactional_id.encode(),
        retries=config.retries,
        in_flight_max=config.max_in_flight_requests_per_connection,
        max_request_size=config.max_request_size,
        large_request_size=_large_request_size(config),
        linger_s=config.linger_ms / 1000,
        adaptive_linger=config.adaptive_linger,
        request_timeout_s=config.request_timeout_ms / 1000,
        request_timeout_ms=config.request_timeout_ms,
        delivery_timeout_ms=config.delivery_timeout_ms,
        follows_recreated=config.topic_recreation == "follow",
        codec=codec,
        compression_level=levels.get(codec),
    )


def _large_request_size(config: ProducerConfig) -> int:
    if "max_request_size" in config.explicit:
        return config.max_request_size
    return max(config.max_request_size, _LARGE_REQUEST_SIZE)


def accumulator_settings(config: ProducerConfig) -> AccumulatorSettings:
    """Read a configuration for the accumulator.

    With sequence numbers a partition has no more batches in flight than a broker remembers (KIP-98).
    """
    return AccumulatorSettings(
        batch_size=config.batch_size,
        batch_size_max=config.batch_size_max if config.batch_size else 0,
        buffer_memory=config.buffer_memory,
        stuck_memory=int(config.buffer_memory * config.buffer_memory_stuck_fraction),
        max_request_size=config.max_request_size,
        metadata_max_age_s=config.metadata_max_age_ms / 1000,
        linger_s=config.linger_ms / 1000,
        delivery_timeout_s=config.delivery_timeout_ms / 1000,
        max_block_s=config.max_block_ms / 1000,
        partition_in_flight_max=_partition_in_flight_max(config),
        ignore_keys=config.partitioner_ignore_keys,
        adaptive_partitioning=config.partitioner_adaptive_partitioning_enable,
        availability_timeout_s=config.partitioner_availability_timeout_ms / 1000,
        near_rack=config.client_rack if config.partitioner_rack_aware else "",
    )


def _partition_in_flight_max(config: ProducerConfig) -> int:
    """One request on a connection is one batch of a partition, also while its leader moves to another broker."""
    if config.enable_idempotence:
        return _BATCHES_REMEMBERED
    return 1 if config.max_in_flight_requests_per_connection == 1 else UNLIMITED
