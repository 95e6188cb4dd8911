"""What a job asks the cluster before it begins: the topic, and whether a run was there before."""

from __future__ import annotations

from dataclasses import dataclass

from aioprod.admin import Admin
from aioprod.errors import RequestTimedOutError, UsageError
from aioprod.producer import TransactionSession
from aioprod.reader.settings import SessionConfig
from aioprod.spark import worker
from aioprod.spark.once.marker import group_of
from aioprod.spark.once.settings import OnceSettings
from aioprod.types import TopicPartition

__all__ = ["TopicState", "check_unused", "topic_state"]

_MARKER_WAIT_MS = 10_000


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic of a cluster now: by partition, the first offset that is there and the one after the last."""

    cluster_id: str | None
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def topic_state(config: SessionConfig, topic: str) -> TopicState:
    """Raises UnknownTopicError, MetadataTimeoutError where no broker answers, and others of `Admin`'s."""
    return worker.run(_state(config, topic))


async def _state(config: SessionConfig, topic: str) -> TopicState:
    async with Admin(config=config) as admin:
        count = len(await admin.partitions(topic))
        starts, ends = await admin.offsets(topic, "earliest"), await admin.offsets(topic, "latest")
        places = [TopicPartition(topic, partition) for partition in range(count)]
        return TopicState(
            admin.cluster_id, tuple(starts[place] for place in places), tuple(ends[place] for place in places)
        )


def check_unused(settings: OnceSettings, run_id: str) -> None:
    """Raise UsageError where a run with this id has committed a chunk, or is at it: only `resume` may go on with it."""
    worker.run(_check_unused(settings, run_id))


async def _check_unused(settings: OnceSettings, run_id: str) -> None:
    config = settings.session().replace(default_api_timeout_ms=_MARKER_WAIT_MS)
    async with TransactionSession(config=config) as session:
        group = group_of(settings.transactional_id)
        try:
            found = (await session.committed_offsets(group, [settings.marker]))[settings.marker]
        except RequestTimedOutError as error:
            raise UsageError(
                f"A transaction of run {run_id!r} is open: it is at work, or was killed.",
                hint="resume=True (--resume) goes on with it, and stops who is still at it.",
            ) from error
    if found is not None:
        raise UsageError(
            f"Run {run_id!r} has committed {found.offset} chunks to topic {settings.marker.topic!r} before.",
            hint="resume=True (--resume) goes on with it; for another load give another run id.",
        )
