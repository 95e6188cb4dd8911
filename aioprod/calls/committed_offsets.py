"""The committed offsets of a consumer group (OffsetFetch), without those of open transactions (KIP-447)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from aioprod._authorization_errors import Right, authorization_error
from aioprod.calls.coordinator import Coordinator
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
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["FIRST_STABLE", "all_offsets", "group_error", "stable_offsets"]

FIRST_STABLE: Final = 7
_FIRST_WITH_GROUPS: Final = 8
_LAST_WITH_NAMES: Final = 9

_Row: TypeAlias = OffsetFetchResponsePartition | OffsetFetchResponsePartitions


async def stable_offsets(
    coordinator: Coordinator, partitions: Iterable[TopicPartition] | None, deadline: float, *, may_be_old: bool = False
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """The committed offset of each partition in the group of `coordinator`, None where there is none.

    Without `partitions` of all that have one; those whose first one is in an open transaction are left out then.

    While an open transaction may change it, and after a code that does not say what is wrong (`ErrorCode.is_unclear`),
    the request is repeated until `deadline` (monotonic seconds). Raises RequestTimedOutError then, which names the tool
    to end hanging transactions, AuthorizationError, BrokerError, and UnsupportedVersionError for brokers before 2.5:
    these don't leave out open transactions, which is accepted where they `may_be_old`.
    """
    requested = None if partitions is None else list(dict.fromkeys(partitions))
    tries = 0
    unstable: list[TopicPartition] = []
    unclear: BrokerError | None = None
    while True:
        request = ByVersion(
            OffsetFetchRequest,
            lambda version: _request(coordinator.key, requested, version, may_be_old),
            _LAST_WITH_NAMES,
        )
        try:
            response = await coordinator.request(request, deadline=deadline, error_of=_code_of)
        except RequestTimedOutError as error:
            if unclear is not None:
                raise RequestTimedOutError(unclear.message) from unclear
            raise (_unstable(coordinator.key, unstable) if unstable else error) from error.__cause__
        try:
            found, unclear = _read(response, coordinator.key), None
            wanted = sorted(found) if requested is None else requested
            unstable = [tp for tp in wanted if found[tp].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT]
            if not unstable:
                return {tp: _offset(found[tp], tp, coordinator.key) for tp in wanted}
        except BrokerError as error:
            if not ErrorCode.is_unclear(error.code):
                raise
            unclear = error
        await coordinator.pause(tries, deadline)
        tries += 1


async def all_offsets(coordinator: Coordinator, deadline: float) -> dict[TopicPartition, OffsetAndMetadata]:
    """All committed offsets of the group of `coordinator`; open transactions are ignored.

    Topics that this client may not describe are left out. Raises RequestTimedOutError after `deadline` (monotonic
    seconds), AuthorizationError and BrokerError.
    """

    def build(version: int) -> OffsetFetchRequest:
        if version < _FIRST_WITH_GROUPS:
            return OffsetFetchRequest(group_id=coordinator.key, topics=None)
        return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=coordinator.key, topics=None),))

    request = ByVersion(OffsetFetchRequest, build, _LAST_WITH_NAMES)
    response = await coordinator.request(request, deadline=deadline, error_of=_code_of)
    found = {tp: _offset(row, tp, coordinator.key) for tp, row in _read(response, coordinator.key).items()}
    return {tp: offset for tp, offset in sorted(found.items()) if offset is not None}


def _request(
    group: str, requested: Sequence[TopicPartition] | None, version: int, may_be_old: bool
) -> OffsetFetchRequest:
    is_stable = version >= FIRST_STABLE
    if not is_stable and not may_be_old:
        raise UnsupportedVersionError(
            "The brokers are older than 2.5: they don't say whether a transaction may still change an offset."
        )
    topics: dict[str, list[int]] = {}
    for topic, index in requested or ():
        topics.setdefault(topic, []).append(index)
    if version < _FIRST_WITH_GROUPS:
        rows = [OffsetFetchRequestTopic(name=name, partition_indexes=tuple(which)) for name, which in topics.items()]
        return OffsetFetchRequest(
            group_id=group, topics=None if requested is None else tuple(rows), require_stable=is_stable
        )
    named = [OffsetFetchRequestTopics(name=name, partition_indexes=tuple(which)) for name, which in topics.items()]
    row = OffsetFetchRequestGroup(group_id=group, topics=None if requested is None else tuple(named))
    return OffsetFetchRequest(groups=(row,), require_stable=True)


def _code_of(response: OffsetFetchResponse) -> int:
    """The error code of the group."""
    return response.groups[0].error_code if response.groups else response.error_code


class _Found(dict[TopicPartition, _Row]):
    """The rows of a response by partition."""

    def __missing__(self, tp: TopicPartition) -> _Row:
        raise ProtocolError(f"The broker's response does not contain {tp.topic}-{tp.partition}.")


def _read(response: OffsetFetchResponse, group: str) -> _Found:
    code = ErrorCode.of(_code_of(response))
    if code != ErrorCode.NONE:
        raise group_error(f"The offsets of group {group!r} can't be fetched", code, [Right("DESCRIBE", "group", group)])
    topics = response.groups[0].topics if response.groups else response.topics
    return _Found(
        {TopicPartition(topic.name, row.partition_index): row for topic in topics for row in topic.partitions}
    )


def _offset(row: _Row, tp: TopicPartition, group: str) -> OffsetAndMetadata | None:
    code = ErrorCode.of(row.error_code)
    if code != ErrorCode.NONE:
        what = f"The offset of group {group!r} for {tp.topic}-{tp.partition} can't be fetched"
        raise group_error(what, code, [Right("DESCRIBE", "topic", tp.topic), Right("DESCRIBE", "group", group)])
    if row.committed_offset < 0:
        return None
    return OffsetAndMetadata(row.committed_offset, row.metadata or "")


def group_error(what: str, code: ErrorCode | int, rights: Iterable[Right], hint: str | None = None) -> AioprodError:
    """The error of a request to a group's coordinator: `what` failed (a sentence without its stop), with `code`.

    `rights` are those that the request needs.
    """
    text = f"{what}: its coordinator answered {ErrorCode.name_of(code)}."
    return authorization_error(text, code, rights) or BrokerError(text, code=code, hint=hint)


def _unstable(group: str, partitions: Sequence[TopicPartition]) -> RequestTimedOutError:
    first = f"{partitions[0].topic}-{partitions[0].partition}"
    return RequestTimedOutError(
        f"The offset of group {group!r} for {first} was not stable in time: a transaction with it has not ended "
        f"(UNSTABLE_OFFSET_COMMIT).",
        hint="If its producer is gone, the transaction may hang since a broker failed: see "
        "`kafka-transactions.sh find-hanging --broker-id ID`, and end it with `kafka-transactions.sh abort`.",
    )
