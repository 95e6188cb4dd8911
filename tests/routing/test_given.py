"""A partitioner may be a plain function; one that can't be called is refused when the producer is made."""

from __future__ import annotations

from typing import Any

import pytest

from aioprod import Producer, ProducerConfig
from aioprod.errors import ConfigError, InvalidRecordError
from aioprod.routing import RoundRobinPartitioner
from aioprod.routing.given import partitioner_of
from aioprod.testing import FakeCluster

CONFIG = ProducerConfig(bootstrap_servers=("a:1",))


def by_length(topic: str, key: bytes | None, value: bytes | None, cluster: Any) -> int:
    return len(key or b"") % int(cluster.partition_count(topic))


async def test_a_function_chooses_the_partition() -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("t", partitions=3)
        async with Producer(brokers.bootstrap, partitioner=by_length) as producer:
            chosen = [(await producer.send("t", b"v", key=b"k" * size)).partition for size in range(5)]
        async with Producer(brokers.bootstrap, partitioner=f"{__name__}:by_length") as producer:
            assert (await producer.send("t", b"v", key=b"kk")).partition == 2
    assert chosen == [0, 1, 2, 0, 1]


async def test_what_is_wrong_with_a_choice_names_the_function() -> None:
    def choose(topic: str, key: bytes | None, value: bytes | None, cluster: Any) -> int:
        if key is None:
            raise ZeroDivisionError
        return 9

    async with FakeCluster() as brokers:
        brokers.create_topic("t")
        async with Producer(brokers.bootstrap, partitioner=choose) as producer:
            with pytest.raises(InvalidRecordError, match=r"The partitioner test_.*\.choose chose partition 9 of "):
                await producer.send("t", b"v", key=b"k")
            with pytest.raises(InvalidRecordError, match=r"The partitioner test_.*\.choose failed for a record of "):
                await producer.send("t", b"v")


@pytest.mark.parametrize("given", ["round_robin", RoundRobinPartitioner, RoundRobinPartitioner()])
def test_objects_classes_and_names_are_taken_as_before(given: Any) -> None:
    assert isinstance(partitioner_of(given, CONFIG), RoundRobinPartitioner)


def test_a_function_of_any_arguments_is_taken() -> None:
    assert partitioner_of(lambda *_: 7, CONFIG).partition("t", b"k", b"v", None) == 7


@pytest.mark.parametrize("given", [lambda: 0, lambda key: 0, lambda a, b, c, d, e: 0])
def test_a_function_of_other_arguments_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"can't be called with \(topic, key, value, cluster\)\. Hint: It gets"):
        Producer("a:1", partitioner=given)


def test_the_right_form_for_those_of_other_clients_is_said() -> None:
    def theirs(key: Any, all_partitions: Any, available: Any) -> int:
        return 0

    with pytest.raises(ConfigError) as caught:
        Producer("a:1", partitioner=theirs)  # type: ignore[arg-type]
    hint = caught.value.hint or ""
    assert "theirs(key, [p.partition for p in cluster.partitions_for_topic(topic)], " in hint
    assert "lambda topic, key, value, cluster: " in hint


def test_a_coroutine_function_is_refused() -> None:
    async def late(topic: str, key: Any, value: Any, cluster: Any) -> int:
        return 0

    with pytest.raises(ConfigError, match="is a coroutine function: it has to answer at once"):
        Producer("a:1", partitioner=late)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [5, object()])
def test_what_is_neither_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="is not a partitioner"):
        Producer("a:1", partitioner=given)
