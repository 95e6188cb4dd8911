"""Start, flush, stop, cancellation, and what comes before and after."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest
from aiokafka.errors import (
    AuthenticationFailedError,
    KafkaConnectionError,
    KafkaError,
    NotEnoughReplicasError,
    ProducerClosed,
)

from aioprod.testing import FakeCluster, Security
from tests.support.aiokafka_pairs.pair import Pair, behaviour
from tests.support.dead_addresses import dead_address


def nowhere() -> str:
    """A server where connections are refused."""
    return "{}:{}".format(*dead_address())


FOREVER_S = 0.2
"""What waits for longer than this in a test waits for ever: nothing is under way that could end it."""


@behaviour()
async def a_block_starts_and_stops(pair: Pair) -> None:
    topic = await pair.topic()
    producer = pair.make()
    async with producer as entered:
        assert entered is producer
        await producer.send(topic, b"value")
    assert await pair.values(topic) == [b"value"]


@behaviour()
async def stop_delivers_what_was_sent(pair: Pair) -> None:
    topic = await pair.topic()
    producer = pair.make(linger_ms=50)
    await producer.start()
    futures = [await producer.send(topic, b"%d" % number) for number in range(200)]
    await producer.stop()
    assert all(future.done() for future in futures)
    assert len(await pair.values(topic)) == 200


@behaviour()
async def stop_may_be_called_twice_and_before_start(pair: Pair) -> None:
    producer = pair.make()
    await producer.stop()
    await producer.stop()


@behaviour(differs="a log-in that fails", on_real=False)
async def a_wrong_password_ends_the_start(pair: Pair) -> None:
    async with FakeCluster(security=Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"])) as brokers:
        producer = pair.client(
            bootstrap_servers=brokers.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_plain_username="alice",
            sasl_plain_password="wrong",
        )
        with pytest.raises(pair.either(KafkaConnectionError, AuthenticationFailedError)):
            await producer.start()
        await producer.stop()


@behaviour()
async def flush_waits_for_what_was_sent(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(linger_ms=50) as producer:
        await producer.flush()
        futures = [await producer.send(topic, b"value") for _ in range(200)]
        await producer.flush()
        assert all(future.done() for future in futures)


@behaviour(differs="`flush()` and `linger_ms`")
async def flush_and_linger(pair: Pair) -> None:
    topic = await pair.topic()
    loop = asyncio.get_running_loop()
    linger_ms = pair.either(300, 600_000)
    async with pair.running(linger_ms=linger_ms, request_timeout_ms=600_000) as producer:
        await producer.partitions_for(topic)
        start = loop.time()
        future = await producer.send(topic, b"value")
        await producer.flush()
        assert future.done()
        if not pair.is_ours:  # It has waited; aioprod would have waited for ten minutes.
            assert loop.time() - start > 0.29


@behaviour()
async def a_lone_record_lingers(pair: Pair) -> None:
    topic = await pair.topic()
    loop = asyncio.get_running_loop()
    async with pair.running(linger_ms=300) as producer:
        await producer.send_and_wait(topic, b"makes the connection")
        start = loop.time()
        await producer.send_and_wait(topic, b"value")
        assert loop.time() - start > 0.29


@behaviour()
async def flush_before_start_returns(pair: Pair) -> None:
    producer = pair.make()
    await producer.flush()
    await producer.stop()


@behaviour(on_real=False)
async def a_start_that_failed_may_be_called_again(pair: Pair) -> None:
    users = {"alice": "another"}
    security = Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"], users=users)
    async with FakeCluster(security=security) as brokers:
        brokers.create_topic("orders")
        producer = pair.client(
            bootstrap_servers=brokers.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_plain_username="alice",
            sasl_plain_password="alice-secret",
        )
        for _ in range(2):
            with pytest.raises(KafkaError):
                await producer.start()
            await producer.flush()
        users["alice"] = "alice-secret"
        await producer.start()
        await producer.send_and_wait("orders", b"value")
        await producer.stop()
        assert [record.value for record in brokers.records("orders")] == [b"value"]


@behaviour(differs="`send()` before `start()`")
async def send_before_start(pair: Pair) -> None:
    producer = pair.make()
    send = asyncio.ensure_future(producer.send("topic", b"value"))
    done, _ = await asyncio.wait([send], timeout=pair.either(FOREVER_S, 30))
    assert (send in done) is pair.either(False, True)
    send.cancel()
    if pair.is_ours:
        with pytest.raises(KafkaError, match="not started"):
            await send
    await producer.stop()


@behaviour()
async def send_after_stop_says_that_it_is_closed(pair: Pair) -> None:
    topic = await pair.topic()
    producer = pair.make()
    await producer.start()
    await producer.send_and_wait(topic, b"value")
    await producer.stop()
    with pytest.raises(ProducerClosed):
        await producer.send(topic, b"value")
    assert await pair.values(topic) == [b"value"]


@behaviour()
async def start_raises_when_no_server_can_be_reached(pair: Pair) -> None:
    producer = pair.make(bootstrap_servers=nowhere(), request_timeout_ms=300)
    with pytest.raises(KafkaConnectionError):
        await producer.start()
    await producer.stop()


@behaviour(differs="`start()` without a broker")
async def start_and_a_broker_that_comes_later(pair: Pair) -> None:
    producer = pair.make(bootstrap_servers=nowhere(), request_timeout_ms=600_000)
    start = asyncio.ensure_future(producer.start())
    done, _ = await asyncio.wait([start], timeout=pair.either(30, FOREVER_S))
    assert (start in done) is pair.either(True, False)
    start.cancel()
    await asyncio.gather(start, return_exceptions=True)
    await producer.stop()


@behaviour()
async def a_server_that_never_answers_ends_the_start(pair: Pair) -> None:
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    producer = pair.make(bootstrap_servers=f"{host}:{port}", request_timeout_ms=300)
    with pytest.raises(KafkaConnectionError):
        await producer.start()
    await producer.stop()
    server.close()
    for writer in writers:
        writer.close()
        await writer.wait_closed()


@behaviour()
async def one_of_several_servers_is_enough(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(bootstrap_servers=[nowhere(), *pair.servers.split(",")]) as producer:
        await producer.send_and_wait(topic, b"value")


@behaviour()
async def cancelling_the_future_does_not_stop_the_record(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(linger_ms=20) as producer:
        future = await producer.send(topic, b"value")
        future.cancel()
        await producer.flush()
    assert await pair.values(topic) == [b"value"]


@behaviour()
async def cancelling_send_itself_stops_the_record(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running() as producer:
        send = asyncio.ensure_future(producer.send(topic, b"value"))
        await asyncio.sleep(0)  # It waits for the topic's metadata now.
        send.cancel()
        with pytest.raises(asyncio.CancelledError):
            await send
        await producer.send_and_wait(topic, b"later")
    assert await pair.values(topic) == [b"later"]


@behaviour(on_real=False)  # Kafka 4.3 takes the record, as the topic has no more replicas.
async def a_record_whose_time_is_over_fails_with_the_last_error(pair: Pair) -> None:
    topic = await pair.topic(min_insync_replicas=2)
    async with pair.running(acks="all", request_timeout_ms=1000, retry_backoff_ms=50) as producer:
        future = await producer.send(topic, b"value")
        with pytest.raises(NotEnoughReplicasError):
            await future


@behaviour(differs="dropped without `stop()` before its start")
async def a_producer_that_is_dropped_warns(pair: Pair) -> None:
    problems: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(str(context["message"])))
    for starts in (False, True):
        producer = pair.make()
        if starts:
            await producer.start()
        client = producer.client
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if pair.is_ours:
                client = None
            del producer
            gc.collect()
            await asyncio.sleep(0)
        wanted = pair.either(True, starts)
        said = [str(one.message) for one in caught if issubclass(one.category, ResourceWarning)]
        assert any("Unclosed AIOKafkaProducer" in one for one in said) is wanted
        if not pair.is_ours:
            await client.close()
        gc.collect()


@behaviour()
async def the_client_knows_the_cluster(pair: Pair) -> None:
    topic = await pair.topic(2)
    unused = await pair.topic()
    async with pair.running() as producer:
        await producer.partitions_for(topic)
        cluster = producer.client.cluster
        (broker,) = cluster.brokers()
        assert f"{broker.host}:{broker.port}" == pair.servers
        assert topic in cluster.topics()
        assert cluster.partitions_for_topic(topic) == {0, 1}
        assert cluster.available_partitions_for_topic(topic) == {0, 1}
        assert cluster.partitions_for_topic("no-such-topic") is None
        assert cluster.broker_metadata(broker.nodeId) == broker
        everything = await producer.client.fetch_all_metadata()
    assert {topic, unused} <= everything.topics()
    assert everything.partitions_for_topic(unused) == {0}
