from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aioprod.calls import coordinator
from aioprod.calls.coordinator import Coordinator
from aioprod.errors import (
    AuthorizationError,
    BrokerConnectionError,
    BrokerError,
    ErrorCode,
    ProtocolError,
    RequestTimedOutError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.messages import FindCoordinatorRequest, FindCoordinatorResponse, InitProducerIdRequest
from aioprod.messages.find_coordinator import Coordinator as CoordinatorRow
from aioprod.messages.negotiation import ByVersion
from aioprod.net import Client
from aioprod.testing import FakeCluster
from tests.support.clients import Clock, running_client

NOWHERE = 99
INIT = InitProducerIdRequest(transactional_id="orders", transaction_timeout_ms=1000)


class Coordinators:
    """What the cluster says of coordinators; `node_id` is that of all keys, None while there is none."""

    def __init__(self, cluster: FakeCluster, node_id: int | None) -> None:
        self._cluster = cluster
        self.node_id = node_id

    @property
    def node_id(self) -> int | None:
        return self._node_id

    @node_id.setter
    def node_id(self, node_id: int | None) -> None:
        self._node_id = node_id
        for key in ("orders", "readers"):
            self._cluster.state.coordinators[key] = NOWHERE if node_id is None else node_id

    @property
    def found(self) -> list[tuple[int, str]]:
        """The type and the key of each question for a coordinator."""
        asked = self._cluster.seen_of(FindCoordinatorRequest)
        return [(one.key_type, key) for one in asked for key in one.coordinator_keys or (one.key,)]

    def refuse(self, code: ErrorCode, times: int | None = None) -> None:
        """Name no coordinators any more."""
        self._cluster.fault(FindCoordinatorRequest, error=code, times=times)


@contextlib.asynccontextmanager
async def asking(
    count: int = 3, node_id: int | None = 2, version: int = 6, **options: Any
) -> AsyncIterator[tuple[FakeCluster, Coordinators, Client, Coordinator]]:
    """Brokers of which one is the coordinator, and somebody to ask it."""
    async with FakeCluster(count) as brokers:
        coordinators = Coordinators(brokers, node_id)
        for broker in brokers.brokers.values():
            broker.versions[FindCoordinatorRequest] = (version, version)
        async with running_client(*brokers.addresses, **options) as (client, _):
            yield brokers, coordinators, client, Coordinator(client, "transaction", "orders")


async def ask(client: Client, one: Coordinator, timeout_s: float = 10.0) -> int | None:
    """Who answered."""
    message = InitProducerIdRequest(transactional_id=one.key, transaction_timeout_ms=1000)
    answer = await one.request(message, deadline=client.now() + timeout_s)
    assert answer.error_code == ErrorCode.NONE
    return one.node_id


# -- where it is -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
async def test_it_is_found_in_every_version_of_the_question(version: int) -> None:
    async with asking(version=version) as (_, coordinators, client, _):
        group = Coordinator(client, "group", "readers")
        assert await ask(client, group) == 2
        assert coordinators.found == [(0, "readers")]
        if version > 0:
            assert await ask(client, Coordinator(client, "transaction", "orders")) == 2
            assert coordinators.found[1:] == [(1, "orders")]


async def test_the_first_version_knows_nothing_of_transactions() -> None:
    async with asking(1, 1, version=0) as (_, _, client, one):
        with pytest.raises(UnsupportedVersionError):
            await ask(client, one)


async def test_it_is_looked_for_once() -> None:
    async with asking() as (_, coordinators, client, one):
        assert await asyncio.gather(*(ask(client, one) for _ in range(5))) == [2] * 5
        assert len(coordinators.found) == 1
        assert one.node_id == 2
        assert repr(one) == "<Coordinator of transactional id 'orders', broker 2>"


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_it_is_found_again_when_it_has_moved(code: ErrorCode) -> None:
    async with asking() as (brokers, coordinators, client, one):
        assert await ask(client, one) == 2
        coordinators.node_id = 3
        brokers.fault(InitProducerIdRequest, error=code)
        assert await ask(client, one) == 3
        assert len(coordinators.found) == 2


async def test_a_loading_coordinator_is_retried() -> None:
    async with asking() as (brokers, coordinators, client, one):
        brokers.fault(InitProducerIdRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=3)
        assert await ask(client, one) == 2
        assert len(coordinators.found) == 1
        assert len(brokers.seen_of(InitProducerIdRequest, node=2)) == 4


async def test_there_may_be_none_for_a_while() -> None:
    async with asking(node_id=None) as (_, coordinators, client, one):
        waiting = asyncio.create_task(ask(client, one))
        while len(coordinators.found) < 3:
            await asyncio.sleep(0.001)
        assert not waiting.done()
        coordinators.node_id = 1
        assert await waiting == 1


async def test_one_that_the_metadata_does_not_name_yet_is_waited_for() -> None:
    async with asking(2, 2) as (brokers, _, client, one):
        await brokers[2].kill()
        client.metadata.request_update(client.now())
        client.wake()
        while (link := client.link(2)) is not None and not link.retired:
            await asyncio.sleep(0.001)
        waiting = asyncio.create_task(ask(client, one))
        while not brokers.seen_of(FindCoordinatorRequest):
            await asyncio.sleep(0.001)
        await brokers[2].start()
        assert await waiting == 2


# -- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop", ["before", "after"])
async def test_a_request_with_a_lost_answer_is_retried(drop: str) -> None:
    async with asking() as (brokers, _, client, one):
        brokers.fault(InitProducerIdRequest, drop=drop, times=2)
        assert await ask(client, one) == 2
        assert len(brokers.seen_of(InitProducerIdRequest)) == 3
        assert one.lost == 2


async def test_one_that_is_dead_is_left_for_the_next_one() -> None:
    async with asking() as (brokers, coordinators, client, one):
        assert await ask(client, one) == 2
        await brokers[2].kill(stay_in_metadata=True)
        coordinators.node_id = 3
        assert await ask(client, one) == 3
        assert one.lost == 0, "no request was sent to the dead one"


async def test_one_that_hangs_is_left_when_there_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_SILENT_S", 0.01)
    async with asking() as (brokers, coordinators, client, one):
        held = brokers.fault(InitProducerIdRequest, hold=True)
        waiting = asyncio.create_task(ask(client, one))
        await held.reached.wait()
        while len(coordinators.found) < 3:
            await asyncio.sleep(0.001)
        assert not waiting.done()
        coordinators.node_id = 3
        assert await waiting == 3
        held.release()


async def test_a_slow_coordinator_is_waited_for_although_no_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_SILENT_S", 0.01)
    async with asking() as (brokers, coordinators, client, one):
        assert await ask(client, one) == 2
        coordinators.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        held = brokers.fault(InitProducerIdRequest, hold=True)
        waiting = asyncio.create_task(ask(client, one))
        while len(coordinators.found) < 3:
            await asyncio.sleep(0.001)
        held.release()
        assert await waiting == 2


class SlowClock(Clock):
    """Half as fast as the loop's: what the loop calls the end of a wait comes before it, as rounded timers do."""

    def __call__(self) -> float:
        return super().__call__() / 2


@pytest.mark.parametrize("clock", [Clock, SlowClock])
async def test_the_deadline_names_the_last_error(clock: type[Clock]) -> None:
    async with asking(1, 1, clock=clock()) as (brokers, _, client, one):
        brokers.fault(InitProducerIdRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        brokers.fault(InitProducerIdRequest, silent=True, times=None)
        text = (
            r"InitProducerId was not answered by the coordinator of transactional id 'orders' in time\. Last: "
            r"Broker 1 answered COORDINATOR_LOAD_IN_PROGRESS\. Now: Broker 1 at "
        )
        with pytest.raises(RequestTimedOutError, match=text) as caught:
            await ask(client, one, 0.5)
        assert isinstance(caught.value.__cause__, BrokerError)
        with pytest.raises(RequestTimedOutError, match=r"'orders' in time\."):
            await ask(client, one, 0.0)


async def test_no_coordinator_in_time() -> None:
    async with asking(node_id=None) as (_, _, client, one):
        with pytest.raises(RequestTimedOutError, match="No broker is the coordinator of transactional id 'orders'"):
            await ask(client, one, 1.0)


async def test_a_dead_coordinator_in_time() -> None:
    async with asking() as (brokers, _, client, one):
        assert await ask(client, one) == 2
        await brokers[2].kill(stay_in_metadata=True)
        with pytest.raises(RequestTimedOutError) as caught:
            await ask(client, one, 1.0)
        assert isinstance(caught.value.__cause__, BrokerConnectionError)


# -- refusals --------------------------------------------------------------------------------------------------------


async def test_a_caller_without_rights_gets_the_error() -> None:
    async with asking() as (_, coordinators, client, one):
        coordinators.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        text = r"id 'orders' could not be found: the broker answered TRANSACTIONAL_ID_AUTHORIZATION_FAILED\. "
        with pytest.raises(AuthorizationError, match=text) as caught:
            await ask(client, one)
        error = caught.value
        assert (error.resource_type, error.resource, error.operation) == ("transactional_id", "orders", "DESCRIBE")
        assert "--operation Describe --operation Write --transactional-id orders`" in str(error.hint)


async def test_other_errors_have_their_code() -> None:
    async with asking() as (_, coordinators, client, one):
        coordinators.refuse(ErrorCode.INVALID_GROUP_ID, times=1)
        with pytest.raises(BrokerError, match=r"could not be found: INVALID_GROUP_ID\.") as caught:
            await ask(client, one)
        assert caught.value.code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, 9999])
async def test_a_code_that_does_not_say_what_is_wrong_is_tried_again(
    code: ErrorCode | int, caplog: pytest.LogCaptureFixture
) -> None:
    row = CoordinatorRow(key="orders", error_code=code, error_message=None)
    async with asking(1, 1) as (brokers, _, client, one):
        fault = brokers.fault(
            FindCoordinatorRequest, edit=lambda _: FindCoordinatorResponse(coordinators=(row,)), times=1
        )
        assert await ask(client, one) == 1
        one.node_id, fault.times = None, None
        text = f"could not be found: the broker answered {ErrorCode.name_of(code)}"
        with pytest.raises(RequestTimedOutError, match=text):
            await ask(client, one, 0.1)
    assert [record.levelname for record in caplog.records if text in record.message].count("ERROR") == 1


async def test_an_error_of_ours_in_an_answer_is_not_its_own_cause() -> None:
    def error_of(_: object) -> int:
        raise ProtocolError("it does not contain the group.")

    async with asking(1, 1) as (_, _, client, one):
        with pytest.raises(RequestTimedOutError) as caught:
            await one.request(INIT, deadline=client.now() + 0.05, error_of=error_of)
        assert isinstance(caught.value.__cause__, ProtocolError)
        assert caught.value.__cause__.__cause__ is None


@pytest.mark.parametrize("empty", [False, True])
async def test_an_answer_about_other_keys_is_none(empty: bool) -> None:
    async with asking(1, 1) as (brokers, _, client, one):
        rows = () if empty else (CoordinatorRow(key="another", node_id=1, error_message=None),)
        answer = FindCoordinatorResponse(coordinators=rows)
        brokers.fault(FindCoordinatorRequest, edit=lambda _: answer)
        assert await ask(client, one) == 1
        one.node_id = None
        brokers.fault(FindCoordinatorRequest, edit=lambda _: answer, times=None)
        with pytest.raises(RequestTimedOutError, match="does not name the coordinator of transactional id 'orders'"):
            await ask(client, one, 1.0)


async def test_garbage_in_place_of_an_answer_is_a_lost_answer() -> None:
    async with asking(1, 1) as (brokers, _, client, one):
        brokers.fault(FindCoordinatorRequest, reply=b"\xff" * 8)
        brokers.fault(InitProducerIdRequest, reply=b"\x00\x00\x00\x04\xff\xff\xff\xff")
        assert await ask(client, one) == 1
        assert one.lost == 1


async def test_every_other_code_is_the_callers() -> None:
    async with asking() as (brokers, _, client, one):
        brokers.fault(InitProducerIdRequest, error=ErrorCode.CONCURRENT_TRANSACTIONS)
        answer = await one.request(INIT, deadline=client.now() + 10.0)
        assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
        await one.request(INIT, deadline=client.now() + 10.0, error_of=lambda _: codes.pop(0))
        assert not codes


async def test_a_version_may_be_too_new() -> None:
    async with asking() as (brokers, _, client, one):
        versions: list[int] = []

        def build(version: int) -> InitProducerIdRequest:
            versions.append(version)
            return INIT

        await one.request(ByVersion(InitProducerIdRequest, build, at_most=3), deadline=client.now() + 10.0)
        assert versions == [3]
        asked = [one for one in brokers.seen if isinstance(one.message, InitProducerIdRequest)]
        assert [one.header.version for one in asked] == [3]
        with pytest.raises(UnsupportedVersionError):
            await one.request(ByVersion(InitProducerIdRequest, build, at_most=-1), deadline=client.now() + 10.0)


async def test_a_closed_client_raises() -> None:
    async with asking() as (brokers, _, client, one):
        held = brokers.fault(InitProducerIdRequest, hold=True)
        waiting = asyncio.create_task(ask(client, one))
        await held.reached.wait()
        await client.close()
        with pytest.raises(UsageError):
            await waiting
        held.release()


async def test_a_cancelled_request_leaves_nothing() -> None:
    async with asking() as (brokers, _, client, one):
        held = brokers.fault(InitProducerIdRequest, hold=True)
        waiting = asyncio.create_task(ask(client, one))
        await held.reached.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        held.release()
        assert await ask(client, one) == 2
