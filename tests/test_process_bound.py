"""What the clients say of themselves: their `repr`, the calls they lack, and that they stay in their process."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import pydoc
from abc import ABC
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import aioprod.sync
from aioprod import Admin, Member, Producer, admin
from aioprod.errors import MetadataTimeoutError, UsageError
from aioprod.group import foreign_calls as of_members
from aioprod.messages import ProduceRequest
from aioprod.producer import foreign_calls as of_producers
from aioprod.reader import Reader
from aioprod.testing import FakeCluster
from tests.support.producers import running

MADE: list[Callable[[], Any]] = [
    lambda: Producer("a:1"),
    lambda: Admin("a:1"),
    lambda: Member("a:1", group_id="g", topics="t"),
    lambda: Reader("a:1"),
    FakeCluster,
]
TABLES: list[tuple[Callable[[], Any], dict[str, str]]] = [
    (MADE[0], of_producers.INSTEAD),
    (MADE[1], admin.INSTEAD),
    (MADE[2], of_members.INSTEAD),
]


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("send", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_live_object_can_not_be_sent_elsewhere(make: Callable[[], Any], send: Callable[[Any], Any]) -> None:
    with pytest.raises(UsageError, match=r"^A \w+ can't be pickled or copied: .* in each process\.$"):
        send(make())


@pytest.mark.parametrize(("make", "name", "words"), [(make, *row) for make, table in TABLES for row in table.items()])
def test_a_call_of_another_client_is_an_attribute_error_with_the_way_out(
    make: Callable[[], Any], name: str, words: str
) -> None:
    client = make()
    with pytest.raises(AttributeError) as caught:
        getattr(client, name)
    assert str(caught.value) == f"{type(client).__name__} has no {name!r}: {words}"
    assert not hasattr(client, name)
    assert name not in dir(client)


@pytest.mark.parametrize("make", MADE)
def test_a_with_without_async_says_so(make: Callable[[], Any]) -> None:
    with pytest.raises(AttributeError, match="has no '__enter__': write `async with`"), make():
        pass


@pytest.mark.parametrize(("make", "table"), TABLES)
def test_completion_offers_only_what_a_client_has(make: Callable[[], Any], table: dict[str, str]) -> None:
    kind = type(make())
    for names in (dir(kind), dir(make())):
        assert not table.keys() & names
        assert not {"__enter__", "__pyx_vtable__", "__reduce_cython__", "__setstate_cython__"} & set(names)
        assert {"start", "close", "__aenter__"} <= set(names)


def test_a_class_of_a_users_may_have_a_call_of_another_client() -> None:
    class Stoppable(Producer, ABC):
        """A producer with aiokafka's name for the end."""

        async def stop(self) -> None:
            await self.close()

    assert "stop" in dir(Stoppable)
    assert "stop" in dir(Stoppable("a:1"))
    assert "poll" not in dir(Stoppable)


@pytest.mark.parametrize("kind", [Producer, Admin, Member, Reader, aioprod.sync.Producer])
def test_help_has_nothing_of_the_inside(kind: type) -> None:
    page = pydoc.plain(pydoc.render_doc(kind))
    assert "See help(type(self))" not in page
    assert "__pyx" not in page


def test_other_names_are_missing_as_ever() -> None:
    with pytest.raises(AttributeError, match="object has no attribute 'xyzzy'"):
        _ = MADE[0]().xyzzy


def test_a_producer_has_no_length_and_is_true() -> None:
    producer = MADE[0]()
    with pytest.raises(TypeError, match=r"^Producer has no len\(\): producer\.buffered has how many records"):
        len(producer)
    assert producer


def test_before_the_start() -> None:
    assert repr(Producer("a:1", client_id="shop")) == "<Producer 'shop' at a:1: not started>"
    assert repr(Producer("a:1,b:2,c:3")) == "<Producer at a:1, b:2 and 1 more: not started>"
    assert repr(Admin("a:1", client_id="x")) == "<Admin 'x' at a:1: not started>"
    assert repr(Reader("a:1")) == "<Reader at a:1: not started>"
    assert repr(Member("a:1", group_id="g", topics="t")) == "<Member of group 'g' at a:1: not started>"


async def test_while_it_runs_and_after_that() -> None:
    async with FakeCluster(2) as brokers:
        brokers.create_topic("t")
        assert repr(brokers) == f"<FakeCluster at {brokers.bootstrap}: 2 of 2 brokers up, 1 topics>"
        at = f"at {', '.join(f'{host}:{port}' for host, port in brokers.addresses)}"
        async with running(brokers, client_id="shop") as producer:
            assert repr(producer) == f"<Producer 'shop' {at}: running>"
            held = brokers.fault(ProduceRequest, hold=True)
            future = producer.submit("t", b"v")
            await held.reached.wait()
            assert repr(producer) == f"<Producer 'shop' {at}: running, 1 record ({producer.buffered.bytes} B) waiting>"
            held.release()
            await future
        assert repr(producer) == f"<Producer 'shop' {at}: closed>"
        async with Admin(brokers.bootstrap) as client:
            assert repr(client) == f"<Admin {at}: running>"
        assert repr(client) == f"<Admin {at}: closed>"


async def test_a_member_says_how_many_partitions_it_has() -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("t", partitions=2)
        assigned = asyncio.Event()
        options: dict[str, Any] = {"group_id": "g", "topics": "t", "on_assigned": lambda _: assigned.set()}
        async with asyncio.timeout(30), Member(brokers.bootstrap, **options) as member:
            waiting = asyncio.create_task(anext(member))
            await assigned.wait()
            assert repr(member) == f"<Member of group 'g' at {brokers.bootstrap}: running, 2 partitions>"
            waiting.cancel()
            await asyncio.wait([waiting])


def by_hand(start: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine as a loop that is not asyncio's does."""
    start.send(None)


@pytest.mark.parametrize("make", MADE[:4])
def test_without_a_loop_of_asyncio_one_sentence_says_so(make: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match=r"^No event loop of asyncio runs here\. Hint: .*trio"):
        by_hand(make().start())


@pytest.mark.parametrize("make", [lambda servers: Producer(servers), lambda servers: Admin(servers)])
async def test_one_that_runs_is_to_be_used(make: Callable[[str], Any]) -> None:
    async with FakeCluster() as brokers, make(brokers.bootstrap) as client:
        with pytest.raises(UsageError, match=r"is running already: use it as it is\. Hint: `async with"):
            await client.start()


async def test_one_that_was_closed_is_to_be_made_anew() -> None:
    async with FakeCluster() as brokers:
        async with running(brokers) as producer:
            pass
        with pytest.raises(UsageError, match="was started before and is closed: make a new one"):
            await producer.start()


def test_one_of_a_loop_that_has_ended_does_not_run_any_more() -> None:
    producer = Producer("127.0.0.1:1", max_block_ms=1)

    async def start() -> None:
        with pytest.raises(MetadataTimeoutError):
            await producer.start()

    asyncio.run(start())
    with pytest.raises(UsageError, match="in an event loop that has ended: make a new one"):
        asyncio.run(producer.start())


def test_the_names_at_the_top_are_those_of_their_rooms() -> None:
    assert aioprod.Admin is admin.Admin
    assert aioprod.Member is Member
    assert aioprod.read.__module__ == "aioprod.reader.reader"
    assert aioprod.AioprodError is aioprod.errors.AioprodError


@pytest.mark.parametrize("kind", [Producer, Admin, Member, Reader])
def test_a_signature_shows_no_private_argument(kind: type) -> None:
    assert not [name for name in inspect.signature(kind).parameters if name.startswith("_")]
