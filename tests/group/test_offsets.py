from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest

from aioprod.calls.coordinator import Coordinator
from aioprod.calls.session import Session
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ErrorCode,
    ProtocolError,
    RequestTimedOutError,
)
from aioprod.group.offset_reset import OffsetReset
from aioprod.group.offsets import commit_offsets, start_offsets
from aioprod.messages import FindCoordinatorRequest, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.groups import Committed, FakeGroup
from aioprod.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from tests.support.sessions import running_session
from tests.support.simulated import in_simulated_time

GROUP = "readers"
PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("clicks", 0)]
MEMBER = GroupMetadata(GROUP, 3, "me")


@asynccontextmanager
async def coordinated(count: int = 1) -> AsyncIterator[tuple[FakeCluster, Session, Coordinator]]:
    """Brokers with the topics and a group of one member, and a client of its coordinator."""
    clock = asyncio.get_running_loop().time
    async with FakeCluster(count) as brokers, running_session(brokers, clock=clock) as session:
        brokers.create_topic("orders", 2)
        brokers.create_topic("clicks")
        brokers.state.groups[GROUP] = FakeGroup(generation=3, members={"me"})
        yield brokers, session, Coordinator(session.client, "group", GROUP)


def in_time(session: Session, limit_s: float = 20.0) -> float:
    return session.clock() + limit_s


def next_offsets(*offsets: int, metadata: str = "") -> dict[TopicPartition, OffsetAndMetadata]:
    return {tp: OffsetAndMetadata(offset, metadata) for tp, offset in zip(PLACES, offsets, strict=False)}


def committed(brokers: FakeCluster) -> Mapping[TopicPartition, Committed]:
    return brokers.state.groups[GROUP].offsets


# --- where to begin


LATEST_RESET = OffsetReset("latest")
NO_RESET = OffsetReset("none")


def offsets_of(starts: dict[TopicPartition, OffsetAndMetadata | None]) -> dict[TopicPartition, int | None]:
    """Without the metadata."""
    return {tp: start and start.offset for tp, start in starts.items()}


@pytest.mark.parametrize("versions", [(1, 5), (1, 7), (1, 9), (1, 10)])
async def test_it_begins_where_was_committed_last(versions: tuple[int, int]) -> None:
    async with coordinated() as (brokers, session, coordinator):
        brokers[1].versions[OffsetFetchRequest] = versions
        brokers.state.groups[GROUP].offsets = {PLACES[0]: Committed(7), PLACES[2]: Committed(0)}
        found = await start_offsets(coordinator, PLACES, in_time(session), LATEST_RESET)
        assert offsets_of(found) == {PLACES[0]: 7, PLACES[1]: None, PLACES[2]: 0}
        found = await start_offsets(coordinator, [PLACES[0]], in_time(session), NO_RESET)
        assert offsets_of(found) == {PLACES[0]: 7}
        with pytest.raises(BrokerError, match="has committed nothing for orders-1, and auto") as no:
            await start_offsets(coordinator, PLACES, in_time(session), NO_RESET)
        assert no.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_start_offsets_of_no_partitions_send_no_request() -> None:
    async with coordinated() as (brokers, session, coordinator):
        assert await start_offsets(coordinator, [], in_time(session), NO_RESET) == {}
        assert not brokers.seen_of(OffsetFetchRequest)


@in_simulated_time
async def test_it_waits_for_a_transaction_with_an_offset() -> None:
    async with coordinated() as (brokers, session, coordinator):
        group = brokers.state.groups[GROUP]
        group.pending[7] = {PLACES[0]: Committed(5)}
        with pytest.raises(RequestTimedOutError, match="orders-0 was not stable in time"):
            await start_offsets(coordinator, PLACES, in_time(session, 0.05), LATEST_RESET)
        pending = asyncio.ensure_future(start_offsets(coordinator, PLACES[:1], in_time(session), LATEST_RESET))
        await asyncio.sleep(0.02)
        group.end_transaction(7, commits=True)
        assert offsets_of(await pending) == {PLACES[0]: 5}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.INVALID_GROUP_ID, BrokerError),
    ],
)
async def test_a_group_whose_offsets_can_not_be_fetched(code: ErrorCode, kind: type[AioprodError]) -> None:
    async with coordinated() as (brokers, session, coordinator):
        brokers.fault(OffsetFetchRequest, error=code, partition=PLACES[0] if "TOPIC" in code.name else None)
        with pytest.raises(kind, match=code.name):
            await start_offsets(coordinator, PLACES, in_time(session), LATEST_RESET)


@pytest.mark.parametrize("partition", [None, PLACES[0]])
@in_simulated_time
async def test_a_code_that_does_not_say_what_is_wrong_is_tried_again(partition: TopicPartition | None) -> None:
    async with coordinated() as (brokers, session, coordinator):
        brokers.state.groups[GROUP].offsets = {PLACES[0]: Committed(7)}
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        brokers.fault(OffsetFetchRequest, error=code, partition=partition, times=2)
        found = await start_offsets(coordinator, PLACES[:1], in_time(session), LATEST_RESET)
        assert offsets_of(found) == {PLACES[0]: 7}
        brokers.fault(OffsetFetchRequest, error=code, partition=partition, times=None)
        with pytest.raises(RequestTimedOutError, match="its coordinator answered UNKNOWN_SERVER_ERROR"):
            await start_offsets(coordinator, PLACES[:1], in_time(session, 0.05), LATEST_RESET)


# --- committing


@pytest.mark.parametrize("versions", [(2, 4), (2, 6), (2, 9), (2, 10)])
async def test_offsets_are_committed(versions: tuple[int, int]) -> None:
    async with coordinated() as (brokers, session, coordinator):
        brokers[1].versions[OffsetCommitRequest] = versions
        await commit_offsets(coordinator, MEMBER, next_offsets(5, 6, 7, metadata="here"), in_time(session))
        assert {tp: (one.offset, one.metadata) for tp, one in committed(brokers).items()} == {
            tp: (offset, "here") for tp, offset in zip(PLACES, (5, 6, 7), strict=True)
        }
        seen = [one for one in brokers.seen if isinstance(one.message, OffsetCommitRequest)][-1]
        assert seen.header.version == min(versions[1], 9)
        request = seen.message
        assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == (GROUP, 3, "me")


def ids(brokers: FakeCluster, tps: Iterable[TopicPartition] = PLACES) -> dict[TopicPartition, UUID]:
    """The topic ids of some partitions."""
    return {tp: brokers.state.topics[tp.topic].id for tp in tps}


@pytest.mark.parametrize(("last", "known", "version"), [(10, 3, 10), (10, 2, 9), (9, 3, 9)])
async def test_they_are_committed_by_topic_id_where_all_are_known(last: int, known: int, version: int) -> None:
    async with coordinated() as (brokers, session, coordinator):
        brokers[1].versions[OffsetCommitRequest] = (2, last)
        topic_ids = ids(brokers, PLACES[:known])
        await commit_offsets(coordinator, MEMBER, next_offsets(5, 6, 7), in_time(session), topic_ids=topic_ids)
        assert {tp: one.offset for tp, one in committed(brokers).items()} == dict(zip(PLACES, (5, 6, 7), strict=True))
        seen = [one for one in brokers.seen if isinstance(one.message, OffsetCommitRequest)][-1]
        assert seen.header.version == version


async def test_a_topic_that_was_created_again_is_another_one() -> None:
    async with coordinated() as (brokers, session, coordinator):
        before = ids(brokers)
        brokers.recreate_topic("orders")
        some = {**ids(brokers), PLACES[0]: before[PLACES[0]]}
        with pytest.raises(
            BrokerError, match="could not commit for orders-0: its coordinator answered UNKNOWN_TOPIC_ID"
        ) as failure:
            await commit_offsets(coordinator, MEMBER, next_offsets(5, 6, 7), in_time(session), topic_ids=some)
        assert failure.value.code == ErrorCode.UNKNOWN_TOPIC_ID
        assert "offsets of its own" in (failure.value.hint or "")
        assert {tp: one.offset for tp, one in committed(brokers).items()} == {PLACES[1]: 6, PLACES[2]: 7}
        assert [len(one.topics) for one in brokers.seen_of(OffsetCommitRequest)] == [3, 1, 1, 1, 1]


async def test_a_commit_by_topic_id_finds_a_coordinator_that_moved() -> None:
    async with coordinated() as (brokers, session, coordinator):
        brokers.fault(OffsetCommitRequest, error=ErrorCode.NOT_COORDINATOR, partition=PLACES[0])
        offsets = next_offsets(5, 6, 7)
        await commit_offsets(coordinator, MEMBER, offsets, in_time(session), topic_ids=ids(brokers))
        assert {tp: one.offset for tp, one in committed(brokers).items()} == dict(zip(PLACES, (5, 6, 7), strict=True))
        assert len(brokers.seen_of(FindCoordinatorRequest)) == 2


async def test_a_static_member_commits_with_its_instance_id() -> None:
    async with coordinated() as (brokers, session, coordinator):
        member = MEMBER._replace(group_instance_id="first")
        await commit_offsets(coordinator, member, next_offsets(5), in_time(session))
        (request,) = brokers.seen_of(OffsetCommitRequest)
        assert request.group_instance_id == "first"


async def test_a_commit_of_nothing_sends_no_request() -> None:
    async with coordinated() as (brokers, session, coordinator):
        await commit_offsets(coordinator, MEMBER, {}, in_time(session))
        assert not brokers.seen_of(OffsetCommitRequest)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, "still owned"),
        (ErrorCode.ILLEGAL_GENERATION, "another owner"),
        (ErrorCode.UNKNOWN_MEMBER_ID, "another owner"),
        (ErrorCode.STALE_MEMBER_EPOCH, "another owner"),
        (ErrorCode.FENCED_INSTANCE_ID, "group.instance.id"),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, "less metadata"),
        (ErrorCode.INVALID_COMMIT_OFFSET_SIZE, "fewer partitions"),
    ],
)
async def test_what_no_retry_helps_is_raised(code: ErrorCode, hint: str) -> None:
    async with coordinated() as (brokers, session, coordinator):
        brokers.fault(OffsetCommitRequest, error=code, partition=PLACES[1])
        with pytest.raises(BrokerError, match=f"Group 'readers' could not commit for orders-1: .* {code.name}") as no:
            await commit_offsets(coordinator, MEMBER, next_offsets(5, 6, 7), in_time(session))
        assert no.value.code == code
        assert hint in (no.value.hint or "")
        assert set(committed(brokers)) == {PLACES[0], PLACES[2]}
        assert len(brokers.seen_of(OffsetCommitRequest)) == 1


async def test_a_generation_that_is_over() -> None:
    async with coordinated() as (_, session, coordinator):
        for member, code in [(MEMBER._replace(generation_id=2), 22), (MEMBER._replace(member_id="you"), 25)]:
            with pytest.raises(BrokerError) as failure:
                await commit_offsets(coordinator, member, next_offsets(5), in_time(session))
            assert failure.value.code == code


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
async def test_what_is_not_allowed(code: ErrorCode) -> None:
    async with coordinated() as (brokers, session, coordinator):
        brokers.fault(OffsetCommitRequest, error=code)
        with pytest.raises(AuthorizationError, match=code.name) as failure:
            await commit_offsets(coordinator, MEMBER, next_offsets(5), in_time(session))
        error = failure.value
        kind, name = ("topic", "orders") if "TOPIC" in code.name else ("group", GROUP)
        assert (error.resource_type, error.resource, error.operation) == (kind, name, "READ")
        assert f"--operation Read --{kind} {name}`" in str(error.hint)


async def test_what_may_pass_is_tried_again_for_those_alone() -> None:
    async with coordinated() as (brokers, session, coordinator):
        brokers.fault(OffsetCommitRequest, times=2, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partition=PLACES[1])
        brokers.fault(OffsetCommitRequest, error=ErrorCode.REQUEST_TIMED_OUT)
        await commit_offsets(coordinator, MEMBER, next_offsets(5, 6, 7), in_time(session))
        assert [sum(len(topic.partitions) for topic in one.topics) for one in brokers.seen_of(OffsetCommitRequest)] == [
            3, 1, 1, 1,
        ]  # fmt: skip
        assert {tp: one.offset for tp, one in committed(brokers).items()} == dict(zip(PLACES, (5, 6, 7), strict=True))


@in_simulated_time
async def test_a_commit_ends_at_its_deadline() -> None:
    async with coordinated() as (brokers, session, coordinator):
        brokers.delete_topic("clicks")
        text = "Group 'readers' could not commit for clicks-0: its coordinator answered UNKNOWN_TOPIC_OR_PARTITION"
        with pytest.raises(RequestTimedOutError, match=text) as failure:
            await commit_offsets(coordinator, MEMBER, next_offsets(5, 6, 7), in_time(session, 0.05))
        assert isinstance(failure.value.__cause__, BrokerError)
        assert failure.value.may_be_stored is True
        assert set(committed(brokers)) == set(PLACES[:2])
        brokers.freeze(1)
        with pytest.raises(RequestTimedOutError, match="OffsetCommit was not answered"):
            await commit_offsets(coordinator, MEMBER, next_offsets(5), in_time(session, 0.05))


async def test_a_commit_that_another_one_follows_is_not_tried_for_long() -> None:
    async with coordinated() as (brokers, session, coordinator):
        brokers.delete_topic("clicks")
        with pytest.raises(BrokerError, match="could not commit for clicks-0") as failure:
            await commit_offsets(coordinator, MEMBER, next_offsets(5, 6, 7), in_time(session), tries_max=3)
        assert failure.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert failure.value.may_be_stored is True, "the other two are committed"
        assert set(committed(brokers)) == set(PLACES[:2])
        assert len(brokers.seen_of(OffsetCommitRequest)) == 3


async def test_a_commit_that_may_have_been_carried_out_says_so() -> None:
    async with coordinated() as (brokers, session, coordinator):
        with pytest.raises(RequestTimedOutError) as late:
            await commit_offsets(coordinator, MEMBER, next_offsets(5), session.clock())
        assert late.value.may_be_stored is False, "nothing was sent"
        brokers.fault(OffsetCommitRequest, error=ErrorCode.ILLEGAL_GENERATION)
        with pytest.raises(BrokerError) as refused:
            await commit_offsets(coordinator, MEMBER, next_offsets(5), in_time(session))
        assert refused.value.may_be_stored is False, "the only request was refused as a whole"
        brokers.fault(OffsetCommitRequest, error=ErrorCode.ILLEGAL_GENERATION, partition=PLACES[1])
        with pytest.raises(BrokerError) as refused:
            await commit_offsets(coordinator, MEMBER, next_offsets(5, 6), in_time(session))
        assert refused.value.may_be_stored is True, "one of the two is committed"


async def test_a_partition_that_the_answer_leaves_out() -> None:
    def short(answer: OffsetCommitResponse) -> OffsetCommitResponse:
        return replace(answer, topics=answer.topics[:1])

    async with coordinated() as (brokers, session, coordinator):
        brokers.fault(OffsetCommitRequest, edit=short)
        with pytest.raises(ProtocolError, match="could not commit for clicks-0: its coordinator left it out"):
            await commit_offsets(coordinator, MEMBER, next_offsets(5, 6, 7), in_time(session))


async def test_a_coordinator_that_moves() -> None:
    async with coordinated(2) as (brokers, session, coordinator):
        brokers.move_coordinator(GROUP, 1)
        await commit_offsets(coordinator, MEMBER, next_offsets(5), in_time(session))
        brokers.move_coordinator(GROUP, 2)
        # One partition has a word of its own.
        brokers.fault(OffsetCommitRequest, node=2, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partition=PLACES[0])
        await commit_offsets(coordinator, MEMBER, next_offsets(8, 9), in_time(session))
        assert {tp: one.offset for tp, one in committed(brokers).items()} == {PLACES[0]: 8, PLACES[1]: 9}
        assert len(brokers.seen_of(OffsetCommitRequest, node=1)) == 2
