"""What the accumulator needs of the configuration."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["AccumulatorSettings"]


class AccumulatorSettings(NamedTuple):
    """Sizes in bytes, times in seconds."""

    batch_size: int
    batch_size_max: int
    buffer_memory: int
    stuck_memory: int
    """What records that can't move may take of it while others move."""
    max_request_size: int
    metadata_max_age_s: float
    linger_s: float
    delivery_timeout_s: float
    max_block_s: float
    partition_in_flight_max: int
    ignore_keys: bool = False
    adaptive_partitioning: bool = True
    availability_timeout_s: float = 0.0
    near_rack: str = ""
    """The rack whose leaders get the records without a key, as far as there are any; empty for all racks."""
