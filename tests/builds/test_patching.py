"""What unit tests of others do to a producer, by `unittest.mock`, works in the same way on both builds."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from tests.support.builds import Build, builds

BOTH = pytest.mark.parametrize("build", [0, 1], ids=["compiled", "interpreted"])
PLAIN = ("submit", "send_nowait", "metrics", "transaction", "explain")


@pytest.fixture
def chosen(build: int) -> Build:
    return builds()[build]


async def sent(producer: Any) -> object:
    return await producer.send("orders", b"two espressi")


@BOTH
def test_the_methods_of_one_producer_are_replaced(chosen: Build) -> None:
    producer = chosen["aioprod"].Producer("localhost:9092")
    producer.send = mock.AsyncMock(return_value="stored")
    assert asyncio.run(sent(producer)) == "stored"
    with mock.patch.object(producer, "submit") as submit:
        producer.submit("orders", b"one espresso")
    submit.assert_called_once_with("orders", b"one espresso")
    assert "submit" not in vars(producer)


@BOTH
@pytest.mark.parametrize("name", PLAIN)
def test_the_methods_of_the_class_are_replaced_and_come_back(chosen: Build, name: str) -> None:
    kind = chosen["aioprod"].Producer
    before = getattr(kind, name)
    with mock.patch.object(kind, name) as replaced:
        getattr(kind("localhost:9092"), name)("orders")
    replaced.assert_called_once_with("orders")
    assert getattr(kind, name) is before


@BOTH
def test_awaited_methods_of_the_class_are_replaced(chosen: Build) -> None:
    kind = chosen["aioprod"].Producer
    with mock.patch.object(kind, "send", mock.AsyncMock(return_value="stored")):
        assert asyncio.run(sent(kind("localhost:9092"))) == "stored"


@BOTH
def test_a_subclass_of_ones_own_overrides_them(chosen: Build) -> None:
    class Recorded(chosen["aioprod"].Producer):  # type: ignore[misc]
        async def send(self, topic: str, value: object = None, **named: object) -> object:
            return topic, value

    assert asyncio.run(sent(Recorded("localhost:9092"))) == ("orders", b"two espressi")


@BOTH
def test_a_mock_takes_what_the_producer_takes_and_no_more(chosen: Build) -> None:
    async def scenario() -> None:
        async with chosen["aioprod.testing.mocks"].producer_mock() as producer:
            producer.send.return_value = "stored"
            assert await producer.send("orders", b"two espressi", key=b"table 7") == "stored"
            producer.send.assert_awaited_once_with("orders", b"two espressi", key=b"table 7")
            producer.send_nowait("orders", b"v", on_delivery=print)
            for call in (producer.send, producer.submit, producer.send_nowait, producer.send_many):
                with pytest.raises(TypeError, match="nope"):
                    call("orders", [b"v"], nope=1)
            with pytest.raises(AttributeError, match="produce"):
                _ = producer.produce

    asyncio.run(scenario())
    mocked = chosen["aioprod.testing.mocks"].producer_mock()
    assert isinstance(mocked, chosen["aioprod"].Producer)


@BOTH
def test_a_mock_of_a_member_returns_its_records_once_and_ends(chosen: Build) -> None:
    kind = chosen["aioprod.types"].ConsumedRecord
    one, two, three, four = (kind("t", 0, offset, None, b"", [], 0) for offset in range(4))

    async def scenario() -> None:
        async with chosen["aioprod.testing.mocks"].member_mock([one, ValueError("two"), two, three, four]) as member:
            assert isinstance(member, chosen["aioprod.group"].Member)
            lists = member.batches(2)
            assert await anext(lists) == [one]
            with pytest.raises(ValueError, match="two"):
                await anext(lists)
            assert await anext(lists) == [two, three]
            assert [record async for record in member] == [four]
            assert [record async for record in member] == [some async for some in member.batches()] == []
            await member.commit(four, timeout=1.0)
            member.commit.assert_awaited_once_with(four, timeout=1.0)
            for call in (member.commit, member.skip, member.batches):
                with pytest.raises(TypeError, match="nope"):
                    call(four, nope=1)
            with pytest.raises(AttributeError, match="getone"):
                _ = member.getone

    asyncio.run(scenario())
