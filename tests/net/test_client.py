from __future__ import annotations

import asyncio

import pytest

from aioprod.cluster import MetadataUpdate
from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    ErrorCode,
    RequestTimedOutError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from aioprod.messages.create_topics import CreatableTopic
from aioprod.net import ClientListener
from aioprod.net.protocol.backoff import Backoff
from aioprod.testing import FakeCluster
from aioprod.wire.codec import encode
from tests.support.clients import Clock, Listener, new_client, running_client

NOTHING = MetadataRequest(topics=())


# -- requests --------------------------------------------------------------------------------------------------------


async def test_a_request_goes_to_the_broker_that_is_named() -> None:
    async with FakeCluster(3) as brokers, running_client(brokers[1].address) as (client, listener):
        topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        answer = await client.request(CreateTopicsRequest(topics=(topic,)), node_id=3)
        assert answer.topics[0].num_partitions == 2
        assert len(brokers.seen_of(CreateTopicsRequest, node=3)) == 1
        assert ("ready", 3) in listener.events


async def test_a_request_to_any_broker_goes_to_one_that_is_ready() -> None:
    async with FakeCluster(3) as brokers, running_client(*brokers.addresses) as (client, _):
        await asyncio.gather(*(client.request(NOTHING) for _ in range(5)))
        assert len(brokers.seen_of(MetadataRequest)) == 6


async def test_a_request_waits_for_a_broker_to_come_back() -> None:
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, listener):
        for node_id in (None, 1):
            await brokers[1].kill()
            await listener.until(lambda: listener.events[-1] == ("lost", 1))
            waiting = asyncio.create_task(client.request(NOTHING, node_id=node_id))
            await asyncio.sleep(0.02)
            assert not waiting.done()
            await brokers[1].start()
            assert (await waiting).cluster_id == "fake-cluster"


async def test_a_broker_that_the_metadata_does_not_name_raises() -> None:
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, _):
        with pytest.raises(BrokerConnectionError, match=r"The cluster's metadata has no broker 7\."):
            await client.request(NOTHING, node_id=7)


async def test_a_request_ends_with_its_time_out() -> None:
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, _):
        held = brokers.fault(ListOffsetsRequest, hold=True)
        with pytest.raises(
            RequestTimedOutError, match=r"ListOffsets was not answered within 0\.05 s: Broker 1 at .* is ready"
        ):
            await client.request(ListOffsetsRequest(), timeout_s=0.05)
        held.release()
        # The connection was not given up for the sake of an impatient caller.
        await client.request(NOTHING)
        assert len(brokers.seen_of(ApiVersionsRequest)) == 1


async def test_a_request_that_costs_the_connection_says_so() -> None:
    clock = Clock()
    async with FakeCluster() as brokers, running_client(brokers[1].address, clock=clock) as (client, _):
        silent = brokers.fault(ListOffsetsRequest, silent=True)
        asking = asyncio.create_task(client.request(ListOffsetsRequest()))
        await silent.reached.wait()
        clock.advance(30.0)
        client.wake()
        with pytest.raises(RequestTimedOutError, match=r"Broker 1 at .* did not answer ListOffsets within 30 s"):
            await asking


async def test_a_request_that_finds_no_broker_says_why() -> None:
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, listener):
        await brokers[1].kill()
        await listener.seen("lost", 1, times=2)
        with pytest.raises(RequestTimedOutError, match=r"Metadata was not answered within .*Connection refused"):
            await client.request(NOTHING, timeout_s=0.05)


async def test_a_request_fails_with_its_connection() -> None:
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, _):
        brokers.fault(ListOffsetsRequest, drop="after")
        with pytest.raises(BrokerConnectionError) as caught:
            await client.request(ListOffsetsRequest())
        assert not isinstance(caught.value, RequestTimedOutError)


async def test_a_request_that_a_broker_lacks_raises() -> None:
    async with FakeCluster() as brokers:
        del brokers[1].versions[CreateTopicsRequest]
        async with running_client(brokers[1].address) as (client, _):
            with pytest.raises(UnsupportedVersionError):
                await client.request(CreateTopicsRequest())


async def test_each_broker_is_spoken_to_in_its_own_versions() -> None:
    async with FakeCluster(2) as brokers:
        brokers[1].versions[ListOffsetsRequest] = (1, 5)
        async with running_client(*brokers.addresses) as (client, _):
            for node_id in (1, 2):
                await client.request(ListOffsetsRequest(), node_id=node_id)
            versions = {
                one.node: one.header.version for one in brokers.seen if isinstance(one.message, ListOffsetsRequest)
            }
            assert versions == {1: 5, 2: 11}


async def test_brokers_are_connected_side_by_side() -> None:
    async with FakeCluster(3) as brokers, running_client(brokers[1].address) as (client, _):
        held = brokers.fault(ApiVersionsRequest, node=2, hold=True)
        slow = asyncio.create_task(client.request(NOTHING, node_id=2))
        await held.reached.wait()
        await client.request(NOTHING, node_id=3)
        assert not slow.done()
        held.release()
        await slow


# -- events ----------------------------------------------------------------------------------------------------------


async def test_a_throttled_broker_is_left_alone_until_the_time_has_passed() -> None:
    clock = Clock()
    async with FakeCluster() as brokers, running_client(brokers[1].address, clock=clock) as (client, listener):
        brokers.fault(MetadataRequest, throttle_ms=10_000)
        await client.request(NOTHING)
        waiting = asyncio.create_task(client.request(NOTHING))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        clock.advance(10.0)
        client.wake()
        await waiting
        assert ("writable", 1) in listener.events


async def test_data_is_reported_after_the_answers() -> None:
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, listener):
        link = client.link(1)
        assert link is not None
        assert link.connection is not None
        told: list[int] = []
        body = encode(NOTHING, 9)
        for _ in range(2):
            link.connection.send_parts(
                MetadataRequest, 9, True, [body], len(body), lambda *_: told.append(len(listener.events))
            )
        await listener.seen("data", 1)
        assert told
        assert listener.events[told[0]] == ("data", 1)


async def test_idle_connections_are_closed() -> None:
    clock = Clock()
    async with (
        FakeCluster(2) as brokers,
        running_client(brokers[1].address, clock=clock, connections_max_idle_s=100.0) as (client, listener),
    ):
        clock.advance(101.0)
        client.wake()
        await listener.seen("lost", 1)
        assert listener.errors == [None]
        await client.request(NOTHING)


async def test_a_listener_may_leave_out_what_does_not_concern_it() -> None:
    class Indifferent(ClientListener):
        pass

    async with FakeCluster() as brokers:
        loop = asyncio.get_running_loop()
        quiet = Indifferent()
        client = new_client(brokers[1].address, clock=loop.time, listener=quiet)
        await client.start(5.0)
        client.keep_running()
        brokers.fault(MetadataRequest, throttle_ms=1)
        await client.request(NOTHING)
        await client.request(NOTHING)
        quiet.failed(ValueError("bug"))
        assert client.metadata.last_success is not None
        await client.close()


# -- the end ---------------------------------------------------------------------------------------------------------


async def test_closing_fails_what_waits_and_what_is_outstanding() -> None:
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, listener):
        brokers.fault(ListOffsetsRequest, silent=True)
        outstanding = asyncio.create_task(client.request(ListOffsetsRequest()))
        while not brokers.seen_of(ListOffsetsRequest):
            await asyncio.sleep(0.001)
        late = brokers.fault(ApiVersionsRequest, hold=True)
        await client.close()
        with pytest.raises(BrokerConnectionError, match="was closed by this client"):
            await outstanding
        with pytest.raises(UsageError, match=r"The client is closed\."):
            await client.request(NOTHING)
        assert client.poll(client._clock()) == float("inf")
        assert listener.events[-1] == ("lost", 1)
        late.end()


async def test_closing_wakes_the_waiters_for_a_broker() -> None:
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, listener):
        await brokers[1].kill()
        await listener.seen("lost", 1)
        waiting = asyncio.create_task(client.request(NOTHING))
        await asyncio.sleep(0.005)
        await client.close()
        with pytest.raises(UsageError):
            await waiting


@pytest.mark.parametrize("turns", [1, 2, 20])
async def test_closing_is_bounded_and_may_be_cancelled(turns: int) -> None:
    """It may be cancelled while the client's tasks end, and while its connections flush."""
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, _):
        held = brokers.fault(ListOffsetsRequest, hold=True)
        waiting = asyncio.create_task(client.request(ListOffsetsRequest()))
        await held.reached.wait()
        link = client.link(1)
        assert link is not None
        assert link.connection is not None
        blob = bytes(1 << 24)
        link.connection.send_parts(ProduceRequest, 9, True, [blob], len(blob), lambda *_: None)
        closing = asyncio.create_task(client.close(flush_s=60.0))
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not closing.done()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(BrokerConnectionError):
            await waiting
        held.release()


@pytest.mark.parametrize("stage", ["connecting", "negotiating"])
async def test_closing_in_the_middle_of_a_connection_attempt(stage: str) -> None:
    async with FakeCluster(2) as brokers, running_client(brokers[1].address) as (client, _):
        held = brokers.fault(ApiVersionsRequest, hold=True)
        link = client.link(2)
        assert link is not None
        link.ensure(client._clock())
        if stage == "negotiating":
            await held.reached.wait()
        await client.close()
        held.release()
        held.end()


# -- bugs ------------------------------------------------------------------------------------------------------------


async def test_a_listener_that_raises_hears_of_the_change_again() -> None:
    class Broken(Listener):
        broken = True

        def metadata_changed(self, update: MetadataUpdate) -> None:
            super().metadata_changed(update)
            if update.changed_topics and self.broken:
                self.broken = False
                raise ValueError("bug")

    async with FakeCluster() as brokers:
        brokers.create_topic("t")
        listener = Broken()
        client = new_client(brokers[1].address, clock=Clock(), listener=listener)
        await client.start(5.0)
        client.keep_running()
        client.metadata.add_topic("t", client.now())
        client.wake()
        await listener.until(lambda: sum("t" in update.changed_topics for update in listener.updates) == 2)
        assert (await client.request(NOTHING)).cluster_id
        await client.close()
        assert not listener.failures


@pytest.mark.parametrize("event", ["link_ready", "link_data", "link_writable", "link_lost"])
async def test_a_bug_in_a_listener_costs_one_connection_and_not_the_client(
    event: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        setattr(listener, event, lambda *_: None)
        listener._note("broken")
        raise ValueError("bug")

    async with FakeCluster() as brokers:
        listener = Listener()
        client = new_client(brokers[1].address, clock=Clock(), listener=listener)
        setattr(listener, event, broken)
        await client.start(5.0)
        client.keep_running()
        await client.request(NOTHING)
        link = client.link(1)
        assert link is not None
        if event == "link_writable":
            assert link.connection is not None
            link.connection.resume_writing()
        if event == "link_lost":
            assert link.connection is not None
            link.connection.abort(BrokerConnectionError("on purpose"))
        await listener.seen("broken")
        assert (await client.request(NOTHING)).cluster_id
        await client.close()
        assert not listener.failures
    assert caplog.text.count("ValueError: bug") == 1


async def test_a_bug_in_polling_reaches_the_listener() -> None:
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, listener):

        def broken(now: float) -> float:
            raise ValueError("bug")

        client._links.poll = broken  # type: ignore[method-assign]  # on purpose
        client.wake()
        await listener.seen("failed")
        with pytest.raises(AioprodError, match="The client has failed"):
            await client.request(NOTHING)
        listener.failures.clear()


async def test_an_error_code_is_not_a_bug() -> None:
    async with FakeCluster() as brokers:
        brokers.fault(ApiVersionsRequest, error=ErrorCode.INVALID_REQUEST, times=2)
        async with running_client(brokers[1].address, reconnect_backoff=Backoff(0.001, 0.001)) as (client, _):
            assert client.link(1) is not None
