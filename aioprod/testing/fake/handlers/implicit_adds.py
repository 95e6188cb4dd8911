"""What a broker asks the transaction coordinator before the first write of a transaction (KIP-890)."""

from __future__ import annotations

from typing import NamedTuple

from aioprod.errors import ErrorCode
from aioprod.testing.fake.state.shared import FakeState
from aioprod.types import TopicPartition

__all__ = ["Writer", "join"]


class Writer(NamedTuple):
    """Who writes in a transaction. `joins`: its requests add what they write to, others must have done so before."""

    transactional_id: str
    producer_id: int
    epoch: int
    joins: bool


def join(state: FakeState, writer: Writer, *, partition: TopicPartition | None = None, group: str = "") -> ErrorCode:
    """Let a partition, or a group's offsets, be part of the writer's transaction, or see that they are.

    The error is the coordinator's, but for fencing, where clients expect INVALID_PRODUCER_EPOCH.
    """
    transactional_id, producer_id, epoch, joins = writer
    if not state.serves(state.coordinator(transactional_id)):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    call = state.transactions.add if joins else state.transactions.verify
    partitions = [] if partition is None else [partition]
    error = call(transactional_id, producer_id, epoch, partitions=partitions, groups=[group] if group else []).error
    return ErrorCode.INVALID_PRODUCER_EPOCH if error == ErrorCode.PRODUCER_FENCED else error
