"""What a consumer group has committed, once no transaction can change it any more (KIP-447)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from aioprod._rights import Right, authorization_error
from aioprod.errors import (
    AioprodError,
    BrokerError,
    ErrorCode,
    ProtocolError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from aioprod.messages import OffsetFetchRequest, OffsetFetchResponse
from aioprod.messages.negotiation import ByVersion
from aioprod.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from aioprod.net import Coordinator
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["FIRST_STABLE", "all_offsets", "group_error", "stable_offsets"]

FIRST_STABLE: Final = 7
_FIRST_WITH_GROUPS: Final = 8
_LAST_WITH_NAMES: Final = 9

_Row = OffsetFetchResponsePartition | OffsetFetchResponsePartitions


async def stable_offsets(
    coordinator: Coordinator, partitions: Iterable[TopicPartition], deadline: float, *, may_be_old: bool = False
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """What the group of `coordinator` has committed for each partition, None for nothing.

    While a transaction may still change it that is asked again, until `deadline` (monotonic seconds). Raises
    RequestTimedOutError then, which names the tool to end transactions that hang, AuthorizationError, BrokerError, and
    UnsupportedVersionError for brokers before 2.5, which can't tell, unless they `may_be_old`.
    """
    wanted = list(dict.fromkeys(partitions))
    tries = 0
    unstable: list[TopicPartition] = []
    while True:
        request = ByVersion(
            OffsetFetchRequest, lambda version: _request(coordinator.key, wanted, version, may_be_old), _LAST_WITH_NAMES
        )
        try:
            answer = await coordinator.request(request, deadline=deadline, error_of=_code_of)
        except RequestTimedOutError as error:
            raise (_unstable(coordinator.key, unstable) if unstable else error) from error.__cause__
        found = _read(answer, coordinator.key)
        unstable = [place for place in wanted if found[place].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT]
        if not unstable:
            return {place: _offset(found[place], place, coordinator.key) for place in wanted}
        await coordinator.pause(tries, deadline)
        tries += 1


async def all_offsets(coordinator: Coordinator, deadline: float) -> dict[TopicPartition, OffsetAndMetadata]:
    """All that the group of `coordinator` has committed, without a look at transactions that may still change it.

    Topics that this client may not describe are left out. Raises RequestTimedOutError after `deadline` (monotonic
    seconds), AuthorizationError and BrokerError.
    """

    def build(version: int) -> OffsetFetchRequest:
        if version < _FIRST_WITH_GROUPS:
            return OffsetFetchRequest(group_id=coordinator.key, topics=None)
        return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=coordinator.key, topics=None),))

    request = ByVersion(OffsetFetchRequest, build, _LAST_WITH_NAMES)
    answer = await coordinator.request(request, deadline=deadline, error_of=_code_of)
    found = {place: _offset(row, place, coordinator.key) for place, row in _read(answer, coordinator.key).items()}
    return {place: offset for place, offset in sorted(found.items()) if offset is not None}


def _request(group: str, wanted: Sequence[TopicPartition], version: int, may_be_old: bool) -> OffsetFetchRequest:
    is_stable = version >= FIRST_STABLE
    if not is_stable and not may_be_old:
        raise UnsupportedVersionError(
            "The brokers are older than 2.5: they can't tell whether an offset may still be changed by a transaction."
        )
    topics: dict[str, list[int]] = {}
    for topic, index in wanted:
        topics.setdefault(topic, []).append(index)
    if version < _FIRST_WITH_GROUPS:
        rows = [OffsetFetchRequestTopic(name=name, partition_indexes=tuple(which)) for name, which in topics.items()]
        return OffsetFetchRequest(group_id=group, topics=tuple(rows), require_stable=is_stable)
    named = [OffsetFetchRequestTopics(name=name, partition_indexes=tuple(which)) for name, which in topics.items()]
    return OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id=group, topics=tuple(named)),), require_stable=True
    )


def _code_of(answer: OffsetFetchResponse) -> int:
    """The code for the group as a whole."""
    return answer.groups[0].error_code if answer.groups else answer.error_code


class _Found(dict[TopicPartition, _Row]):
    """The rows of an answer by partition."""

    def __missing__(self, place: TopicPartition) -> _Row:
        raise ProtocolError(f"The broker's answer leaves {place.topic}-{place.partition} out.")


def _read(answer: OffsetFetchResponse, group: str) -> _Found:
    code = ErrorCode.of(_code_of(answer))
    if code != ErrorCode.NONE:
        raise group_error(f"The offsets of group {group!r} can't be had", code, [Right("DESCRIBE", "group", group)])
    topics = answer.groups[0].topics if answer.groups else answer.topics
    return _Found(
        {TopicPartition(topic.name, row.partition_index): row for topic in topics for row in topic.partitions}
    )


def _offset(row: _Row, place: TopicPartition, group: str) -> OffsetAndMetadata | None:
    code = ErrorCode.of(row.error_code)
    if code != ErrorCode.NONE:
        what = f"The offset of group {group!r} for {place.topic}-{place.partition} can't be had"
        raise group_error(what, code, [Right("DESCRIBE", "topic", place.topic), Right("DESCRIBE", "group", group)])
    if row.committed_offset < 0:
        return None
    return OffsetAndMetadata(row.committed_offset, row.metadata or "")


def group_error(what: str, code: ErrorCode | int, rights: Iterable[Right], hint: str | None = None) -> AioprodError:
    """The error for `what` (a sentence without its stop) that the coordinator of a group answered with `code`.

    `rights` are what it takes.
    """
    text = f"{what}: its coordinator answered {ErrorCode.said(code)}."
    return authorization_error(text, code, rights) or BrokerError(text, code=code, hint=hint)


def _unstable(group: str, places: Sequence[TopicPartition]) -> RequestTimedOutError:
    first = f"{places[0].topic}-{places[0].partition}"
    return RequestTimedOutError(
        f"The offset of group {group!r} for {first} was not settled in time: a transaction with it has not ended "
        f"(UNSTABLE_OFFSET_COMMIT).",
        hint="If no producer is at it any more it may hang since brokers died: see "
        "`kafka-transactions.sh find-hanging --broker-id ID`, and end it with `kafka-transactions.sh abort`.",
    )
