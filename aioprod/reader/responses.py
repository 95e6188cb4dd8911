"""The responses of brokers to Fetch requests, one after the other, until the end of each position is reached."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

from aioprod.calls.leaders import LeaderRequests
from aioprod.calls.session import Session
from aioprod.cluster import Cluster
from aioprod.errors import BrokerError, ErrorCode
from aioprod.messages import FetchRequest, FetchResponse
from aioprod.reader.config import ReaderConfig
from aioprod.reader.fetching import FetchedBatch, Fetching
from aioprod.reader.offsets import EARLIEST, LATEST, look_up
from aioprod.reader.position import Position
from aioprod.reader.read_replicas import ReadReplicas

__all__ = ["check_same", "lists_of", "responses"]


async def responses(
    session: Session, config: ReaderConfig, replicas: ReadReplicas, positions: Sequence[Position], *, hides: bool = True
) -> AsyncGenerator[Iterator[FetchedBatch], None]:
    """The batches of each response; the caller uses them up before it takes the next one.

    `hides` leaves out what no reader sees: markers, and aborted transactions under read_committed. Raises BrokerError
    (OFFSET_OUT_OF_RANGE, or INCONSISTENT_TOPIC_ID for a topic that was created again), UnknownTopicError,
    AuthorizationError, CorruptRecordError, and RequestTimedOutError after `default.api.timeout.ms` without progress.
    """
    fetching = Fetching(config, replicas, hides=hides)

    def request(node_id: int, requested: Sequence[Position]) -> FetchRequest:
        cluster = session.cluster()
        check_same(requested, cluster)
        return fetching.request(requested, cluster)

    leaders: LeaderRequests[Position, FetchResponse]
    async with LeaderRequests(
        session,
        positions,
        request,
        purpose="read",
        operation="READ",
        version=lambda: replicas.version,
        lost=fetching.lost,
        target=replicas.node,
    ) as leaders:
        while (answered := await leaders.next()) is not None:
            found = fetching.accept(leaders, answered)
            await _check_in_range(session, config, fetching.out_of_range(answered, found))
            yield fetching.batches_of(leaders, answered, found)


async def lists_of(
    session: Session, config: ReaderConfig, replicas: ReadReplicas, position: Position, *, hides: bool = True
) -> AsyncGenerator[list[FetchedBatch], None]:
    """The batches of one partition, a list for each response that has some; arguments and errors of `responses`."""
    async with aclosing(responses(session, config, replicas, [position], hides=hides)) as answers:
        async for batches in answers:
            if response := list(batches):
                yield response


async def _check_in_range(session: Session, config: ReaderConfig, positions: Sequence[Position]) -> None:
    """Raise BrokerError with the range of the log, which does not contain these."""
    for one in positions:
        first, end = [
            (await look_up(session, {one.tp: timestamp}, config.isolation_level))[one.tp]
            for timestamp in (EARLIEST, LATEST)
        ]
        hint = "Retention has removed what was before: keep records longer, or start later."
        raise BrokerError(
            f"Partition {one.tp.partition} of topic {one.tp.topic!r} can't be read from offset {one.offset} on: "
            f"its log goes from {first} to {end} now.",
            code=ErrorCode.OFFSET_OUT_OF_RANGE,
            hint=hint if one.offset < first else None,
        )


def check_same(positions: Sequence[Position], cluster: Cluster) -> None:
    """Raise BrokerError (INCONSISTENT_TOPIC_ID) for a topic that was created again."""
    for one in positions:
        if one.is_replaced(cluster):
            raise BrokerError(
                f"Topic {one.tp.topic!r} was deleted and created again while it was read.",
                code=ErrorCode.INCONSISTENT_TOPIC_ID,
                hint="What was read up to here belongs to the topic that was deleted.",
            )
