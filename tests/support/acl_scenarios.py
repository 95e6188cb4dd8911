"""What clients hear of rights that they have not, as scenarios that a fake cluster and a real one go through alike.

Each has a user, topics, a group and a transactional id of its own, about whom nothing is allowed at first.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import pyarrow as pa
import pytest

from aioprod import Producer, TransactionSession
from aioprod.admin import Admin
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    DeliveryError,
    NotSentError,
    Operation,
    RejectedError,
    ResourceType,
    TransactionAbortedError,
)
from aioprod.group import Member
from aioprod.reader import read
from aioprod.testing import Acl, Security
from aioprod.types import RecordMetadata, TopicPartition

__all__ = ["GUARDED", "SCENARIOS", "Bench", "Scenario", "causes_of", "denied"]

GUARDED: Final = Security(protocol="SASL_PLAINTEXT", mechanisms=["OAUTHBEARER"], acls=[], super_users=["User:super"])
"""Where whoever comes has a name of his own, and no rights."""

PATIENCE_S: Final = 60.0
"""After this long a test that waits for something has failed; none depends on how long anything takes."""

T = TypeVar("T")
Scenario = Callable[["Bench"], Awaitable[None]]
SCENARIOS: Final[list[Scenario]] = []


def scenario(told: Scenario) -> Scenario:
    """One of those that both clusters go through."""
    SCENARIOS.append(told)
    return told


def _name() -> str:
    return f"n{uuid.uuid4().hex[:12]}"


@dataclass
class Bench:
    """A cluster that is `GUARDED`, and a user. Topic `ok` may be written, of `secret` nothing is allowed."""

    servers: str
    create_topic: Callable[[str], Awaitable[object]]
    add_acls: Callable[..., Awaitable[object]]
    user: str = field(default_factory=_name)
    ok: str = field(default_factory=_name)
    secret: str = field(default_factory=_name)
    group: str = field(default_factory=_name)
    transactional_id: str = field(default_factory=_name)

    async def check(self, told: Scenario) -> None:
        """Go through a scenario."""
        await self.create_topic(self.ok)
        await self.create_topic(self.secret)
        await self.allow("WRITE", "topic", self.ok)
        await told(self)

    async def allow(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Give the user a right."""
        await self.add_acls(Acl(f"User:{self.user}", operation, resource_type, name))

    def options(self, **more: Any) -> dict[str, Any]:
        """The settings of the user's clients."""
        return {"bootstrap_servers": self.servers, **GUARDED.client_options(self.user), **more}

    def producer(self, **more: Any) -> Producer:
        """A producer of the user, whose records of one moment go in one request."""
        return Producer(**self.options(linger_ms=20, **more))

    async def stores(self, topic: str, values: list[bytes]) -> None:
        """Exactly these values are in a topic, in any order, once the transactions that have ended are settled."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := await self._values(topic)) < len(values):
                await asyncio.sleep(0.01)
        assert sorted(found) == sorted(values)

    async def _values(self, topic: str) -> list[bytes]:
        """What somebody sees who may read everything."""
        options = GUARDED.client_options("super")
        reading = read(topic, bootstrap_servers=self.servers, isolation="read_committed", **options)
        return [record.value async for record in reading]


def denied(
    error: BaseException | None,
    operation: Operation,
    resource_type: ResourceType,
    resource: str,
    *more: Operation,
    place: str | None = None,
) -> AuthorizationError:
    """The error names a right that is missing, and the command that gives it.

    `more` is what will be wanted next; `place` is how the command names the resource, or several of them.
    """
    assert isinstance(error, AuthorizationError)
    assert (error.resource_type, error.resource, error.operation) == (resource_type, resource, operation)
    operations = " ".join(f"--operation {one.title().replace('_', '')}" for one in (operation, *more))
    flag = f"--{resource_type.replace('_', '-')}"
    place = place or (flag if resource_type == "cluster" else f"{flag} {resource}")
    assert error.hint is not None
    assert f"{' and '.join((operation, *more))} on " in error.hint
    assert f"kafka-acls.sh --add --allow-principal User:NAME {operations} {place}`" in error.hint
    # Brokers tell a page of their internals with some of these.
    assert "RequestContext" not in str(error)
    assert len(error.message) < 300
    return error


async def refusal(awaitable: Awaitable[T], kind: type[AioprodError] = AuthorizationError) -> AioprodError:
    """The error that this ends with."""
    with pytest.raises(kind) as caught:
        await awaitable
    assert type(caught.value) is kind
    return caught.value


async def heard(producer: Producer, topic: str, value: bytes) -> AioprodError | None:
    """What a callback of `send_nowait` is told."""
    told: asyncio.Future[AioprodError | None] = asyncio.get_running_loop().create_future()

    def on_delivery(_: RecordMetadata | None, error: AioprodError | None) -> None:
        told.set_result(error)

    producer.send_nowait(topic, value, on_delivery=on_delivery)
    return await told


# -- writing ---------------------------------------------------------------------------------------------------------


@scenario
async def a_topic_that_may_not_be_written(bench: Bench) -> None:
    """Each call names what is missing; records of the other topic that leave with them are stored."""
    await bench.allow("DESCRIBE", "topic", bench.secret)
    async with bench.producer() as producer:
        futures = [producer.submit(topic, b"1") for topic in (bench.ok, bench.secret, bench.ok)]
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        errors = [error for error in outcomes if isinstance(error, BaseException)]
        assert len(errors) == 1
        errors.append(await refusal(producer.send(bench.secret, b"2"), RejectedError))
        told = await asyncio.gather(*(heard(producer, topic, b"3") for topic in (bench.secret, bench.ok)))
        assert told[0] is not None
        assert told[1] is None
        errors.append(told[0])
        results = await asyncio.gather(*(producer.send_many(topic, [b"4", b"4"]) for topic in (bench.secret, bench.ok)))
        assert [len(result.failures) for result in results] == [2, 0]
        errors += [error for _, error in results[0].failures]
        table = pa.table({"value": [b"5", b"5", b"5"], "topic": [bench.ok, bench.secret, bench.ok]})
        arrow = await producer.send_arrow(table)
        assert [row for row, _ in arrow.failures] == [1]
        errors.append(arrow.failures[0][1])
        for error in errors:
            assert type(error) is RejectedError
            assert error.topic == bench.secret
            cause = denied(error.__cause__, "WRITE", "topic", bench.secret)
            assert error.hint == cause.hint
        await bench.allow("WRITE", "topic", bench.secret)
        await producer.send(bench.secret, b"allowed")
        await producer.send_many(bench.secret, [b"allowed"])
    await bench.stores(bench.ok, [b"1", b"1", b"3", b"4", b"4", b"5", b"5"])
    await bench.stores(bench.secret, [b"allowed", b"allowed"])


@scenario
async def a_topic_that_is_hidden(bench: Bench) -> None:
    """It may not be described, and so nobody can tell whether it exists; the same is said of one that does not."""
    missing = _name()
    async with bench.producer() as producer:
        for topic in (bench.secret, missing):
            calls: list[Awaitable[Any]] = [
                producer.send(topic, b"1"),
                producer.send_many(topic, [b"2"]),
                producer.partitions_for(topic),
            ]
            for call in calls:
                error = await refusal(call)
                assert error.message.startswith(f"Topic {topic!r} does not exist, or this client may not describe it")
                denied(error, "DESCRIBE", "topic", topic, "WRITE")
            accepted = [await refusal(producer.submit(topic, b"3"), NotSentError), await heard(producer, topic, b"4")]
            for lost in accepted:
                assert type(lost) is NotSentError
                denied(lost.__cause__, "DESCRIBE", "topic", topic, "WRITE")
            table = pa.table({"value": [b"5", b"5"], "topic": [topic, bench.ok]})
            ((row, failure),) = (await producer.send_arrow(table)).failures
            assert row == 0
            denied(failure, "DESCRIBE", "topic", topic, "WRITE")
            await producer.send(bench.ok, b"6")
        for topic in (bench.secret, missing):
            await bench.allow("WRITE", "topic", topic)
        await producer.send(bench.secret, b"allowed")
        # It may be described, and does not exist: to create it, as brokers do, takes another right.
        error = await refusal(producer.send(missing, b"1"))
        assert "allow CREATE on it" in str(error.hint)
        await bench.allow("CREATE", "topic", missing)
        await producer.send(missing, b"created")
    await bench.stores(bench.ok, [b"5", b"5", b"6", b"6"])
    await bench.stores(bench.secret, [b"allowed"])
    await bench.stores(missing, [b"created"])


@scenario
async def idempotent_writes(bench: Bench) -> None:
    """They take WRITE on any topic (KIP-679), which others than this user may well have."""
    bench.user = _name()
    error = await refusal(bench.producer().start())
    denied(error, "IDEMPOTENT_WRITE", "cluster", "kafka-cluster")
    assert "WRITE on any topic" in str(error.hint)
    assert "enable.idempotence=false" in str(error.hint)
    async with bench.producer(enable_idempotence=False):
        pass
    await bench.allow("IDEMPOTENT_WRITE", "cluster", "kafka-cluster")
    async with bench.producer():
        pass


# -- transactions ----------------------------------------------------------------------------------------------------


@scenario
async def a_transactional_id(bench: Bench) -> None:
    """Its coordinator is told to whom may describe it, a producer id given to whom may write."""
    options = {"transactional_id": bench.transactional_id}
    error = await refusal(bench.producer(**options).start())
    denied(error, "DESCRIBE", "transactional_id", bench.transactional_id, "WRITE")
    await bench.allow("DESCRIBE", "transactional_id", bench.transactional_id)
    error = await refusal(bench.producer(**options).start())
    denied(error, "WRITE", "transactional_id", bench.transactional_id)
    await bench.allow("WRITE", "transactional_id", bench.transactional_id)
    async with bench.producer(**options) as producer, producer.transaction():
        await producer.send(bench.ok, b"1")
    await bench.stores(bench.ok, [b"1"])


@scenario
async def a_transactional_id_that_is_taken_away(bench: Bench) -> None:
    """As in Java that ends the producer: whatever it asks for is refused from then on."""
    await bench.allow("WRITE", "transactional_id", bench.transactional_id)
    async with bench.producer(transactional_id=bench.transactional_id) as producer:
        await producer.begin_transaction()
        await producer.send(bench.ok, b"lost")
        await bench.add_acls(
            Acl(f"User:{bench.user}", "WRITE", "transactional_id", bench.transactional_id, permission="deny")
        )
        error = await refusal(producer.send(bench.ok, b"lost"), RejectedError)
        denied(error.__cause__, "WRITE", "transactional_id", bench.transactional_id)
        for call in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
            denied(await refusal(call()), "WRITE", "transactional_id", bench.transactional_id)
    await bench.stores(bench.ok, [])


def causes_of(error: BaseException | None) -> list[BaseException]:
    """The error, and what caused it."""
    return [] if error is None else [error, *causes_of(error.__cause__)]


@scenario
async def topics_in_a_transaction(bench: Bench) -> None:
    """As in Java the transaction can only be aborted then, and the producer goes on with the next one."""
    await bench.allow("WRITE", "transactional_id", bench.transactional_id)
    async with bench.producer(transactional_id=bench.transactional_id) as producer:
        for rights in (("DESCRIBE", "WRITE"), ("WRITE",)):
            await producer.begin_transaction()
            await producer.send(bench.ok, b"lost")
            lost = producer.submit(bench.secret, b"lost")
            with pytest.raises(DeliveryError) as caught:
                await lost
            denied(causes_of(caught.value)[-1], rights[0], "topic", bench.secret, *rights[1:])
            aborted = await refusal(producer.commit_transaction(), TransactionAbortedError)
            denied(causes_of(aborted)[-1], rights[0], "topic", bench.secret, *rights[1:])
            await producer.abort_transaction()
            await bench.allow(rights[0], "topic", bench.secret)
        async with producer.transaction():
            await producer.send(bench.ok, b"kept")
            await producer.send(bench.secret, b"kept")
    await bench.stores(bench.ok, [b"kept"])
    await bench.stores(bench.secret, [b"kept"])


@scenario
async def offsets_in_a_transaction(bench: Bench) -> None:
    """They take READ on the group and on each topic; without that the transaction can only be aborted."""
    await bench.allow("WRITE", "transactional_id", bench.transactional_id)
    offsets = {TopicPartition(bench.secret, 0): 7}
    steps: list[tuple[Operation, ResourceType, str, tuple[Operation, ...]]] = [
        ("DESCRIBE", "group", bench.group, ("READ",)),
        ("READ", "group", bench.group, ()),
        ("READ", "topic", bench.secret, ()),
    ]
    async with bench.producer(transactional_id=bench.transactional_id) as producer:
        for operation, resource_type, name, more in steps:
            await producer.begin_transaction()
            await producer.send(bench.ok, b"lost")
            error = await refusal(producer.send_offsets_to_transaction(offsets, bench.group))
            denied(error, operation, resource_type, name, *more)
            aborted = await refusal(producer.commit_transaction(), TransactionAbortedError)
            denied(causes_of(aborted)[-1], operation, resource_type, name, *more)
            await producer.abort_transaction()
            await bench.allow(operation, resource_type, name)
        async with producer.transaction():
            await producer.send(bench.ok, b"kept")
            await producer.send_offsets_to_transaction(offsets, bench.group)
    await bench.stores(bench.ok, [b"kept"])


@scenario
async def a_transaction_session(bench: Bench) -> None:
    """Its own rights are those of a producer with transactions; its workers write by themselves."""
    await bench.allow("DESCRIBE", "transactional_id", bench.transactional_id)
    place = TopicPartition(bench.secret, 0)
    async with TransactionSession(**bench.options(), transactional_id=bench.transactional_id) as session:
        denied(await refusal(session.begin()), "WRITE", "transactional_id", bench.transactional_id)
        await bench.allow("WRITE", "transactional_id", bench.transactional_id)
        handle = await session.begin()
        async with handle.producer(**bench.options()) as producer:
            await producer.send(bench.ok, b"lost")
        denied(await refusal(session.send_offsets({place: 7}, bench.group)), "DESCRIBE", "group", bench.group, "READ")
        await session.abort()
        denied(await refusal(session.committed_offsets(bench.group, [place])), "DESCRIBE", "group", bench.group, "READ")
        await bench.allow("DESCRIBE", "group", bench.group)
        denied(await refusal(session.committed_offsets(bench.group, [place])), "DESCRIBE", "topic", bench.secret)
        await bench.allow("READ", "topic", bench.secret)
        await session.begin()
        aborted = await refusal(session.send_offsets({place: 7}, bench.group), TransactionAbortedError)
        denied(aborted.__cause__, "READ", "group", bench.group)
        await session.abort()
        await bench.allow("READ", "group", bench.group)
        handle = await session.begin()
        async with handle.producer(**bench.options()) as producer:
            await producer.send(bench.ok, b"kept")
        await session.send_offsets({place: 7}, bench.group)
        await session.commit()
        committed = (await session.committed_offsets(bench.group, [place]))[place]
        assert committed is not None
        assert committed.offset == 7
    await bench.stores(bench.ok, [b"kept"])


# -- reading ---------------------------------------------------------------------------------------------------------


@scenario
async def reading(bench: Bench) -> None:
    """A topic has to be described before it is read."""
    async with bench.producer() as producer:
        await producer.send(bench.ok, b"1")

    async def values(topic: str) -> list[bytes | None]:
        return [record.value async for record in read(topic, **bench.options())]

    denied(await refusal(values(bench.secret)), "DESCRIBE", "topic", bench.secret, "READ")
    denied(await refusal(values(bench.ok)), "READ", "topic", bench.ok)
    await bench.allow("READ", "topic", bench.ok)
    assert await values(bench.ok) == [b"1"]


async def membership(bench: Bench, protocol: str) -> None:
    """The group is found, joined, its topics described and read, and offsets committed."""
    group = bench.group

    def member(topic: str) -> Member:
        options = bench.options(group_protocol=protocol)
        return Member(group_id=group, topics=topic, auto_offset_reset="earliest", **options)

    async def first_of(topic: str) -> object:
        async with member(topic) as joined:
            return (await anext(joined)).value

    await bench.allow("DESCRIBE", "topic", bench.secret)
    denied(await refusal(first_of(bench.secret)), "DESCRIBE", "group", group, "READ")
    await bench.allow("DESCRIBE", "group", group)
    denied(await refusal(first_of(bench.secret)), "READ", "group", group)
    await bench.allow("READ", "group", group)
    denied(await refusal(first_of(bench.ok)), "DESCRIBE", "topic", bench.ok, "READ")
    await bench.allow("DESCRIBE", "topic", bench.ok)
    async with member(bench.ok) as joined:
        denied(await refusal(anext(joined)), "READ", "topic", bench.ok)
        await bench.allow("READ", "topic", bench.ok)
        assert (await anext(joined)).value == b"1"
        await joined.commit()
        denied(await refusal(joined.commit({TopicPartition(bench.secret, 0): 1})), "READ", "topic", bench.secret)


@scenario
async def members_of_groups(bench: Bench) -> None:
    """By both protocols, each with a user and a group of its own."""
    async with bench.producer() as producer:
        await producer.send(bench.ok, b"1")
    for protocol in ("classic", "consumer"):
        await membership(replace(bench, user=_name(), group=_name()), protocol)


# -- looking after topics --------------------------------------------------------------------------------------------


@scenario
async def topics_and_their_admin(bench: Bench) -> None:
    """Whether a topic exists that may not be described is told by no call."""
    new = _name()
    async with Admin(**bench.options()) as admin:
        error = await refusal(admin.create_topic(new))
        denied(error, "CREATE", "topic", new)
        assert "or CREATE on the cluster" in str(error.hint)
        for name in (bench.secret, new):
            denied(await refusal(admin.delete_topic(name)), "DELETE", "topic", name)
            denied(await refusal(admin.partitions(name)), "DESCRIBE", "topic", name, "READ")
            denied(await refusal(admin.offsets(name, "latest")), "DESCRIBE", "topic", name, "READ")
        assert await admin.topics() == [bench.ok]
        await bench.allow("CREATE", "topic", new)
        error = await refusal(admin.create_topic(new))
        assert error.message.startswith(f"Topic {new!r} was created, but this client may not describe it")
        denied(error, "DESCRIBE", "topic", new)
        await bench.allow("DELETE", "topic", new)
        assert await admin.topics() == sorted([bench.ok, new])
        await admin.delete_topic(new)
