"""Ways to deliver runs: exactly once, with a marker in each transaction, or at least once, with headers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from aioprod.cluster import Cluster
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    ConfigError,
    InvalidTopicError,
    MarkerError,
    RequestTimedOutError,
)
from aioprod.producer import Producer
from aioprod.relay.claim import Claim
from aioprod.relay.columns import Rows
from aioprod.relay.marker import Marker
from aioprod.relay.markers import Markers
from aioprod.relay.outcomes import Outcomes
from aioprod.relay.runs import Run
from aioprod.relay.sending import Sending, parts_of, send, sending_of
from aioprod.relay.source import NotedSource, Source
from aioprod.types import ProducerRecord, RecordMetadata, TopicPartition

__all__ = ["POSITION_HEADER", "SOURCE_HEADER", "AtLeastOnce", "Delivery", "ExactlyOnce", "says_exactly_once"]

SOURCE_HEADER: Final = "aioprod-source"
"""The header with the source's owner in records that may be repeated."""
POSITION_HEADER: Final = "aioprod-position"
"""The header with the record's position."""
_ABORT_S: Final = 2.0


Sent: TypeAlias = Callable[[Mapping[int, RecordMetadata]], None]


def says_exactly_once(delivery: object) -> bool:
    """What the argument `delivery` says; raises ConfigError for what it can't be."""
    if delivery not in ("exactly-once", "at-least-once"):
        raise ConfigError(f"delivery is {delivery!r}: it must be 'exactly-once' or 'at-least-once'.")
    return delivery == "exactly-once"


class Delivery(Protocol):
    """Delivers the runs of one source through one producer, which has started."""

    async def begin(self) -> bytes | None:
        """Stop earlier relays of this source where that can be; the position of the last record that is in Kafka."""
        ...

    def prepare(self, rows: Rows) -> Sending:
        """What is sent for these records; called while those before are on their way."""
        ...

    async def deliver(self, run: Run, sent: Sent) -> None:
        """Write a run; it is in Kafka for good when this returns.

        `sent` is called with the places of the awaited records, before they are committed.
        """
        ...

    async def renew(self) -> None:
        """Commit again what brokers delete after a week without a commit."""
        ...


class ExactlyOnce:
    """Writes each run in a transaction, with the marker."""

    def __init__(
        self, producer: Producer, markers: Markers, marker_topic: str | None, claim: Claim, outcomes: Outcomes
    ) -> None:
        self._producer = producer
        self._markers = markers
        self._outcomes = outcomes
        self._topic_ids: set[UUID | None] = set()
        """Those that the marker's topic has had: with the second one its marker is gone."""
        self._is_place_given = marker_topic is not None
        self._place = None if marker_topic is None else TopicPartition(marker_topic, 0)
        """The partition whose offset is the marker; None until the first record says it."""
        self._claim = claim
        self._marker = Marker(0, markers.owner, None, claim.name)
        producer.add_metadata_listener(self._note_topic)

    async def begin(self) -> bytes | None:
        """Read the marker, and write it again under the name of this relay: those that were fenced see it then.

        The producer has started, so none before it can commit any more.
        """
        found = await self._markers.find(self._place)
        if found is not None:
            self._place, marker = found
            self._claim.begins_after(marker.claim)
            self._marker = marker._replace(claim=self._claim.name)
            await self.renew()
        return self._marker.position

    def prepare(self, rows: Rows) -> Sending:
        """The records as they are."""
        return sending_of(rows, self._outcomes.awaited(rows), _records)

    async def deliver(self, run: Run, sent: Sent) -> None:
        """Commit the records and the marker together. Raises MarkerError where its topic was created again."""
        place = self._place
        if place is None:
            self._place = place = TopicPartition(run.rows[0][0].topic, 0)
            if await self._markers.find(place) is not None:
                raise RequestTimedOutError(f"The marker in {place.topic}-0 was being committed when it was looked for.")
        number = self._marker.number + len(run.rows)
        await self._commit(place, self._marker._replace(number=number, position=run.position), run, sent)

    async def renew(self) -> None:
        """Commit the marker again: brokers delete offsets of groups that have not been used for a week."""
        if self._place is not None:
            await self._commit(self._place, self._marker)

    async def _commit(
        self, place: TopicPartition, marker: Marker, run: Run | None = None, sent: Sent | None = None
    ) -> None:
        offset = marker.to_offset()
        await self._check_place(place)
        await self._producer.begin_transaction()
        try:
            if run is not None and sent is not None:
                sent(await send(self._producer, run.rows, run.sending, _records))
            self._check_topic(place.topic)
            await self._producer.send_offsets_to_transaction({place: offset}, self._markers.group)
            await self._producer.commit_transaction()
        except BaseException:
            await self._abort()
            raise
        self._marker = marker
        self._claim.was_written()

    async def _abort(self) -> None:
        """Abort what is open if that is quick: else the next relay does, or its time-out."""
        with suppress(AioprodError, TimeoutError):
            async with asyncio.timeout(_ABORT_S):
                await self._producer.abort_transaction()

    async def _check_place(self, place: TopicPartition) -> None:
        """See that the marker's topic can be used; what is wrong with it is not the fault of records."""
        try:
            await self._producer.partitions_for(place.topic)
        except (InvalidTopicError, AuthorizationError) as error:
            if self._marker.number == 0 and not self._is_place_given:
                raise  # It is the topic of the first record, too.
            raise MarkerError(
                f"The topic {place.topic!r}, which is to have the marker of {self._markers.owner!r}, can't be used: "
                f"{error.message}",
                hint="Look whether it is there, or which right is missing.",
            ) from error

    def _check_topic(self, topic: str) -> None:
        if len(self._topic_ids) > 1:
            raise MarkerError(
                f"The topic {topic!r} was deleted and created again while the relay of {self._markers.owner!r} ran, "
                f"and its marker is gone: the {self._marker.number} records before are not in the new topic.",
                hint="See what its readers need. A relay that is started now begins at the source's first record.",
            )

    def _note_topic(self, cluster: Cluster) -> None:
        if self._place is not None and self._place.topic in cluster.topics:
            self._topic_ids.add(cluster.topic_id(self._place.topic))


class AtLeastOnce:
    """Writes each record with its source and position in headers: readers drop what they have had."""

    def __init__(self, producer: Producer, source: Source, outcomes: Outcomes) -> None:
        self._producer = producer
        self._source = source
        self._owner = source.owner.encode()
        self._outcomes = outcomes

    async def begin(self) -> bytes | None:
        """Nothing in Kafka says what is there: begin where the source says, or with its first record, again."""
        return await self._source.noted() if isinstance(self._source, NotedSource) else None

    def prepare(self, rows: Rows) -> Sending:
        """The records with two headers more."""
        return Sending(parts_of(self._records(rows)), self._outcomes.awaited(rows))

    async def deliver(self, run: Run, sent: Sent) -> None:
        """Write the records and wait for their acknowledgements."""
        sent(await send(self._producer, run.rows, run.sending, self._records))

    async def renew(self) -> None:
        """There is nothing to keep."""

    def _records(self, rows: Rows) -> list[ProducerRecord]:
        return [self._with_headers(record, position) for record, position in rows]

    def _with_headers(self, record: ProducerRecord, position: bytes) -> ProducerRecord:
        headers = [*(record.headers or ()), (SOURCE_HEADER, self._owner), (POSITION_HEADER, position)]
        return replace(record, headers=headers)


def _records(rows: Rows) -> list[ProducerRecord]:
    return [record for record, _ in rows]
