"""What the driver looks up in the cluster: the partitions, where their logs begin and end, and offsets by time."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from uuid import UUID

from aioprod.calls.broker_errors import named
from aioprod.calls.session import Session
from aioprod.errors import AioprodError, BrokerError, ConfigError, ErrorCode, UnknownTopicError
from aioprod.reader.offsets import EARLIEST, LATEST, look_up
from aioprod.spark import worker
from aioprod.spark.source.options import Limit, SourceOptions
from aioprod.types import TopicPartition

if TYPE_CHECKING:
    from aioprod.admin import Admin

__all__ = ["Cluster", "Offsets", "lost"]

T = TypeVar("T")
_logger = logging.getLogger(__name__)

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Offsets:
    """An offset for each partition, with the ids of their topics where the cluster has ids."""

    of: Mapping[TopicPartition, int]
    ids: Mapping[str, UUID] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As it is kept in a checkpoint; equal offsets give the same text, since Spark compares that."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, index), offset in sorted(self.of.items()):
            offsets.setdefault(topic, {})[str(index)] = offset
        ids = {topic: str(self.ids[topic]) for topic in offsets if topic in self.ids}
        return {"version": _VERSION, "offsets": offsets, "ids": ids}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """From a checkpoint, also one of Spark's own Kafka source; raises ConfigError for what is no such thing."""
        is_ours = type(kept.get("version")) is int
        try:
            if is_ours and kept["version"] != _VERSION:
                raise ConfigError(f"A checkpoint has offsets of version {kept['version']}, of a later aioprod.")
            offsets = kept["offsets"] if is_ours else kept
            return cls(
                {
                    TopicPartition(topic, int(index)): int(offset)
                    for topic, rows in offsets.items()
                    for index, offset in rows.items()
                },
                {topic: UUID(text) for topic, text in kept["ids"].items()} if is_ours else {},
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError("A checkpoint does not hold the offsets of a Kafka source.") from error

    def id_changed(self, topic: str, other: Offsets) -> bool:
        """Whether the topic of that name was another one there."""
        mine, others = self.ids.get(topic), other.ids.get(topic)
        return mine is not None and others is not None and mine != others


def lost(options: SourceOptions, what: str) -> None:
    """Raise or log that records are gone which should have been read: `what` is the sentence without its full stop.

    Raises BrokerError (OFFSET_OUT_OF_RANGE), or warns where failOnDataLoss is false.
    """
    if options.fail_on_data_loss:
        raise BrokerError(
            f"{what}.",
            code=ErrorCode.OFFSET_OUT_OF_RANGE,
            hint="They may have been lost: set failOnDataLoss to false to read what is left.",
        )
    _logger.warning("%s. The query reads what is left, since failOnDataLoss is false.", what)


class Cluster:
    """What a query's driver knows of the cluster; its calls block. All raise what `Session` and `look_up` raise."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        config = options.reader_config()
        self._session = worker.connected(("source", options.kafka), lambda: Session(config, "source"))
        self._admin: Admin | None = None
        if options.topics.pattern is not None:
            from aioprod.admin import Admin

            self._admin = worker.connected(("source topics", options.kafka), lambda: Admin(config=config))

    def _answer(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return worker.run(work)
        except AioprodError:
            for client in (self._session, self._admin):
                if client is not None:
                    worker.forget(client)
            raise

    def partitions(self) -> Offsets:
        """All partitions that are to be read, each at -1; none where no topic matches the pattern.

        Raises UnknownTopicError, and ConfigError for a partition that was assigned and does not exist.
        """
        return self._answer(self._partitions())

    async def _partitions(self) -> Offsets:
        topics = self._options.topics
        names: Iterable[str] = topics.names
        if topics.partitions is not None:
            names = topics.partitions
        elif self._admin is not None and topics.pattern is not None:
            names = [name for name in await self._admin.topics() if re.fullmatch(topics.pattern, name)]
        names = list(names)
        counts = dict(zip(names, await asyncio.gather(*map(self._count, names)), strict=True))
        cluster = self._session.cluster()
        found: dict[TopicPartition, int] = {}
        for topic, count in counts.items():
            chosen: Collection[int] = range(count)
            if topics.partitions is not None:
                chosen = topics.partitions[topic]
                if max(chosen) >= count:
                    raise ConfigError(
                        f"The option assign names {topic}-{max(chosen)}: topic {topic!r} has {count} partitions."
                    )
            found |= {TopicPartition(topic, index): -1 for index in chosen}
        ids = {topic: cluster.topic_id(topic) for topic in counts}
        return Offsets(found, {topic: one for topic, one in ids.items() if one is not None})

    async def _count(self, topic: str) -> int:
        try:
            return len(await self._session.partitions(topic))
        except UnknownTopicError:
            if self._admin is None:
                raise
            return 0  # It matched the pattern, and was deleted since.

    def look_up(
        self, tps: Iterable[TopicPartition], at: int | Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The offset of each partition at EARLIEST, LATEST or a time in ms, for all or for each; -1 for none."""
        return self._answer(self._look_up(tps, at))

    async def _look_up(
        self, tps: Iterable[TopicPartition], at: int | Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        wanted = {tp: at if isinstance(at, int) else at[tp] for tp in tps}
        return await look_up(self._session, wanted, self._options.isolation)

    def resolve(self, tps: Collection[TopicPartition], limit: Limit) -> dict[TopicPartition, int]:
        """Where a limit is in each partition. Raises ConfigError where it does not say so for exactly these, and where
        no record is as late as a time at which to start."""
        given = limit.partitions
        if given is not None:
            _check_same(tps, given, limit.option)
        if isinstance(limit.at, int) and not limit.is_time:
            return self.look_up(tps, limit.at)
        if limit.is_time:
            return self._at_time(tps, limit)
        assert given is not None
        special = {tp: offset for tp, offset in given.items() if offset < 0}
        return {**given, **self.look_up(special, special)}

    def _at_time(self, tps: Collection[TopicPartition], limit: Limit) -> dict[TopicPartition, int]:
        found = self.look_up(tps, limit.at)
        late = sorted(tp for tp, offset in found.items() if offset < 0)
        if late and limit.option.startswith("starting") and self._options.error_without_match:
            raise ConfigError(
                f"There is no record as late as {limit.option} says in {named(late)}.",
                hint="startingOffsetsByTimestampStrategy=latest starts at the end of such a partition.",
            )
        return found | self.look_up(late, LATEST)

    def earliest(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where their logs begin."""
        return self.look_up(tps, EARLIEST)

    def latest(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where their logs end; with read_committed that is where the first open transaction begins."""
        return self.look_up(tps, LATEST)


def _check_same(tps: Collection[TopicPartition], given: Mapping[TopicPartition, int], option: str) -> None:
    missing, unknown = sorted(set(tps) - given.keys()), sorted(given.keys() - set(tps))
    if missing:
        raise ConfigError(f"{option} leaves out {named(missing)}: it must name all partitions that are read.")
    if unknown:
        raise ConfigError(f"{option} names {named(unknown)}, which {'is' if len(unknown) == 1 else 'are'} not read.")
