"""What a job looks up in the cluster before it begins: the topic, and whether the run exists."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from aioprod.admin import Admin
from aioprod.config import SessionConfig
from aioprod.errors import RequestTimedOutError, UsageError
from aioprod.producer import TransactionSession
from aioprod.spark import worker
from aioprod.spark.transactions.marker import Policy, group_of
from aioprod.spark.transactions.settings import OnceSettings
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["TopicState", "check_remembered", "check_unused", "topic_state"]

_MARKER_WAIT_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic of a cluster now: by partition, the first offset that is there and the one after the last."""

    cluster_id: str | None
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    topic_id: str | None = None
    """Another one after the topic was deleted and created again; None where brokers don't say (before 2.8)."""


def topic_state(config: SessionConfig, topic: str) -> TopicState:
    """Raises UnknownTopicError, MetadataTimeoutError where no broker answers, and others of `Admin`'s."""
    return worker.run(_state(config, topic))


async def _state(config: SessionConfig, topic: str) -> TopicState:
    async with Admin(config=config) as admin:
        count = len(await admin.partitions(topic))
        starts, ends = await admin.offsets(topic, "earliest"), await admin.offsets(topic, "latest")
        places = [TopicPartition(topic, partition) for partition in range(count)]
        topic_id = await admin.topic_id(topic)
        return TopicState(
            admin.cluster_id,
            tuple(starts[place] for place in places),
            tuple(ends[place] for place in places),
            None if topic_id is None else str(topic_id),
        )


def check_unused(settings: OnceSettings, run_id: str) -> None:
    """Raise UsageError if a run with this id has committed a chunk, or runs now: only `resume` may continue it."""
    worker.run(_check_unused(settings, run_id))


def check_remembered(settings: OnceSettings, run_id: str) -> None:
    """Raise UsageError if nothing says what a run without a manifest, which is to be resumed, has written."""
    if settings.policy is Policy.ASSUME_NOT_COMMITTED:
        return
    with suppress(RequestTimedOutError):  # The marker is in an open transaction: there is one.
        if worker.run(_marker(settings)) is None:
            raise UsageError(
                f"What run {run_id!r} has committed is not known: it has no manifest, and no marker in the group "
                f"{group_of(settings.transactional_id)!r}.",
                hint="Either it has committed nothing, or the marker went: with its topic, or after "
                "offsets.retention.minutes without a commit. Look for its rows in the topic. If there are none leave "
                "resume out, or give when_marker_is_missing='assume-not-committed'. A manifest remembers for ever.",
            )


async def _marker(settings: OnceSettings) -> OffsetAndMetadata | None:
    config = settings.session().replace(default_api_timeout_ms=_MARKER_WAIT_MS)
    async with TransactionSession(config=config) as session:
        group = group_of(settings.transactional_id)
        return (await session.committed_offsets(group, [settings.marker]))[settings.marker]


async def _check_unused(settings: OnceSettings, run_id: str) -> None:
    try:
        found = await _marker(settings)
    except RequestTimedOutError as error:
        raise UsageError(
            f"A transaction of run {run_id!r} is open: it is at work, or was killed.",
            hint="resume=True (--resume) continues it, and stops the process that still runs it.",
        ) from error
    if found is not None:
        raise UsageError(
            f"Run {run_id!r} has committed {found.offset} chunks to topic {settings.marker.topic!r} before.",
            hint="resume=True (--resume) continues it; for another load give another run id.",
        )
