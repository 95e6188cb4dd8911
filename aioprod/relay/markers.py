"""Finding the marker of a transactional id in its group."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aioprod.calls.committed_offsets import all_offsets, stable_offsets
from aioprod.calls.coordinator import Coordinator
from aioprod.calls.session import Session
from aioprod.config import ProducerConfig, SessionConfig
from aioprod.errors import MarkerError
from aioprod.relay.marker import Marker, group_of
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["Markers"]


class Markers:
    """Reads the marker of a transactional id, and fences no producer."""

    def __init__(self, config: ProducerConfig, transactional_id: str, owner: str) -> None:
        self._config = SessionConfig.shared_with(config)
        self.transactional_id: Final = transactional_id
        self.group: Final = group_of(transactional_id)
        self.owner: Final = owner

    async def find(self, place: TopicPartition | None = None) -> tuple[TopicPartition, Marker] | None:
        """The marker, and the partition whose offset it is; waits for a transaction that is being ended.

        An offset that is committed for the first time shows only where its `place` is named. Raises MarkerError for
        another source's marker, for two of them, and for one elsewhere; what `stable_offsets` raises.
        """
        async with self._coordinator() as (coordinator, deadline):
            found = await stable_offsets(coordinator, None, deadline)
            if not found and place is not None:
                found = await stable_offsets(coordinator, [place], deadline)
        marker = self._one({at: offset for at, offset in found.items() if offset is not None})
        if marker is not None and place is not None and marker[0] != place:
            topic, index = marker[0]
            raise MarkerError(
                f"The marker of {self.transactional_id!r} is in {topic}-{index}, and marker_topic is {place.topic!r}.",
                hint=f"Leave marker_topic out, or give {topic!r}.",
            )
        return marker

    async def last_claim(self) -> str:
        """The name of the relay that has committed last, "" if there is no marker; waits for no transaction."""
        async with self._coordinator() as (coordinator, deadline):
            marker = self._one(await all_offsets(coordinator, deadline))
        return "" if marker is None else marker[1].claim

    @asynccontextmanager
    async def _coordinator(self) -> AsyncIterator[tuple[Coordinator, float]]:
        session = Session(self._config, "relay")
        await session.start()
        try:
            yield Coordinator(session.client, "group", self.group), session.clock() + session.timeout_s
        finally:
            await session.close()

    def _one(self, found: Mapping[TopicPartition, OffsetAndMetadata]) -> tuple[TopicPartition, Marker] | None:
        if len(found) > 1:
            raise MarkerError(
                f"The group {self.group!r} has {len(found)} markers, "
                f"for {' and '.join(f'{topic}-{index}' for topic, index in sorted(found)[:3])}: which one counts?",
                hint="See which records were sent last, and delete the others: aioprod groups delete-offsets.",
            )
        for at, offset in found.items():
            return at, Marker.of(offset, self.owner, self.transactional_id)
        return None
