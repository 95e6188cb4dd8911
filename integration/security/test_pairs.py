"""Each pair of: Kafka's version, listener, mechanism, event loop, client. Only in the long form."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import pytest
import uvloop

from aioprod import Producer, TransactionSession
from aioprod.admin import Admin
from aioprod.cli.peer_settings import librdkafka_settings
from aioprod.group import Member
from aioprod.reader import read
from aioprod.testing import KafkaCluster, Security
from aioprod.testing.fixtures import running_cluster
from integration.support.brokers import NEWEST, TRANSACTION_VERSION_1
from integration.support.figures import Figures
from integration.support.reading import read_topic

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

VALUES: Final = [b"a", b"b", b"c"]
LISTENERS: Final[Mapping[str, Security]] = {
    "SASL_PLAINTEXT": Security(protocol="SASL_PLAINTEXT", session_ms=3000),
    "SASL_SSL": Security(session_ms=3000),
    "SASL_SSL and a certificate": Security(client_certificates=True),
}
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LOOPS: Final = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


# -- clients: each stores VALUES in a topic, and some read them --------------------------------------------------------


class Place(NamedTuple):
    """Where a client works, and with which settings it comes in."""

    cluster: KafkaCluster
    topic: str
    options: dict[str, Any]

    def producer(self, **more: Any) -> Producer:
        return Producer(self.cluster.bootstrap_servers, **self.options, **more)


async def send(place: Place) -> None:
    async with place.producer() as producer:
        for value in VALUES:
            await producer.send(place.topic, value)


async def submit(place: Place) -> None:
    async with place.producer() as producer:
        await asyncio.gather(*[producer.submit(place.topic, value) for value in VALUES])


async def send_nowait(place: Place) -> None:
    told: list[object] = []
    async with place.producer() as producer:
        for value in VALUES:
            producer.send_nowait(place.topic, value, on_delivery=lambda metadata, error: told.append(error))
        await producer.flush()
    assert told == [None] * len(VALUES)


async def send_many(place: Place) -> None:
    async with place.producer() as producer:
        assert not (await producer.send_many(place.topic, VALUES)).failures


async def send_arrow(place: Place) -> None:
    async with place.producer() as producer:
        batch = pa.record_batch({"value": pa.array(VALUES, pa.binary())})
        assert not (await producer.send_arrow(batch, topic=place.topic)).failures


async def transaction(place: Place) -> None:
    async with place.producer(transactional_id=place.topic) as producer, producer.transaction():
        for value in VALUES:
            await producer.send(place.topic, value)


async def transaction_session(place: Place) -> None:
    servers = place.cluster.bootstrap_servers
    async with TransactionSession(servers, transactional_id=place.topic, **place.options) as session:
        handle = await session.begin()
        async with handle.producer(servers, **place.options) as producer:
            for value in VALUES:
                await producer.send(place.topic, value)
        await session.commit()


async def reader(place: Place) -> None:
    await send(place)
    servers = place.cluster.bootstrap_servers
    found = [record.value async for record in read(place.topic, bootstrap_servers=servers, **place.options)]
    assert sorted(value or b"" for value in found) == VALUES


async def member(place: Place, protocol: Literal["classic", "consumer"] = "classic") -> None:
    await send(place)
    group: dict[str, Any] = {"group_id": place.topic, "topics": place.topic, "auto_offset_reset": "earliest"}
    servers = place.cluster.bootstrap_servers
    async with Member(servers, **group, group_protocol=protocol, **place.options) as joined:
        taken = [(await anext(joined)).value or b"" for _ in VALUES]
        await joined.commit()
    assert sorted(taken) == VALUES


async def member_of_kip_848(place: Place) -> None:
    """Kafka 3.9 has that protocol in preview only."""
    await member(place, "classic" if place.cluster.version < "4" else "consumer")


async def admin(place: Place) -> None:
    async with Admin(place.cluster.bootstrap_servers, **place.options) as client:
        assert place.topic in await client.topics()
    await send(place)


CLIENTS: Final = (
    send,
    submit,
    send_nowait,
    send_many,
    send_arrow,
    transaction,
    transaction_session,
    reader,
    member,
    member_of_kip_848,
    admin,
)


# -- pairs -------------------------------------------------------------------------------------------------------------

DIMENSIONS: Final[Sequence[Sequence[Any]]] = (
    (NEWEST, TRANSACTION_VERSION_1),
    tuple(LISTENERS),
    MECHANISMS,
    tuple(LOOPS),
    CLIENTS,
)
Case = tuple[Any, ...]


def pairs_of(case: Case) -> set[tuple[tuple[int, Any], tuple[int, Any]]]:
    return set(itertools.combinations(enumerate(case), 2))


def covering(dimensions: Sequence[Sequence[Any]]) -> list[Case]:
    """Few cases with each pair of values of two dimensions in one of them; always the same."""
    everything = list(itertools.product(*dimensions))
    missing = set().union(*(pairs_of(case) for case in everything))
    chosen = []
    while missing:
        best = max(everything, key=lambda case: len(pairs_of(case) & missing))
        chosen.append(best)
        missing -= pairs_of(best)
    return chosen


CASES: Final = covering(DIMENSIONS)


@pytest.fixture(scope="module", params=list(itertools.product(*DIMENSIONS[:2])), ids=" ".join)
def place(request: pytest.FixtureRequest) -> Iterator[tuple[KafkaCluster, list[Case]]]:
    """A cluster, and the cases for it."""
    version, listener = request.param
    with running_cluster(security=LISTENERS[listener], version=version, backend="local") as cluster:
        yield cluster, [case for case in CASES if case[:2] == request.param]


def test_pairs(place: tuple[KafkaCluster, list[Case]], figures: Figures) -> None:
    cluster, cases = place
    security = cluster.security
    assert security is not None
    theirs = librdkafka_settings(security.client_options("bob", "SCRAM-SHA-512"))
    for number, (_, _, mechanism, loop, client) in enumerate(cases):
        topic = f"pair-{number}"

        async def work(client: Any = client, topic: str = topic, mechanism: str = mechanism) -> None:
            await cluster.create_topic(topic, 2)
            await client(Place(cluster, topic, security.client_options("alice", mechanism)))

        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(work())
        found = read_topic(cluster.bootstrap_servers, topic, "read_committed", theirs)
        assert sorted(record.value or b"" for record in found) == VALUES, (mechanism, loop, client.__name__)
    figures.add(f"cases with each pair, Kafka {cluster.version}, {security.protocol}", len(cases))


def test_each_pair_is_in_a_case() -> None:
    wanted = set().union(*(pairs_of(case) for case in itertools.product(*DIMENSIONS)))
    assert set().union(*(pairs_of(case) for case in CASES)) == wanted
    assert len(CASES) < 60
