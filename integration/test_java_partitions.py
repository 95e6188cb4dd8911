"""The partition of a key compared with the real libraries: Java's producer, and confluent-kafka's librdkafka."""

from __future__ import annotations

import ctypes
import random
from collections import Counter

import confluent_kafka.cimpl
import pytest

from aioprod.cluster import Cluster, Node, PartitionInfo
from aioprod.routing import (
    ClassicPartitioner,
    Crc32Partitioner,
    Crc32RandomPartitioner,
    DefaultPartitioner,
    Fnv1aPartitioner,
    Murmur2Partitioner,
    Murmur2RandomPartitioner,
    Partitioner,
)
from integration.support.java import JavaOracle
from tests.support.golden import to_base64

COUNTS = (1, 12, 997)

_source = random.Random("keys")
KEYS = [_source.randbytes(_source.choice([*range(1, 40), 200, 1000])) for _ in range(10_000)]


def cluster(count: int) -> Cluster:
    node = Node(1, "localhost", 9092, None)
    return Cluster([node], [PartitionInfo("t", index, node, (node,), (node,), ()) for index in range(count)])


def partitions(partitioner: Partitioner, count: int, keys: list[bytes]) -> list[int]:
    topics = cluster(count)
    return [partitioner.partition("t", key, b"value", topics) for key in keys]


@pytest.mark.java
@pytest.mark.timeout(300)  # the first run fetches the jars
@pytest.mark.parametrize("count", COUNTS)
def test_murmur2_is_javas(oracle: JavaOracle, count: int, cases: Counter[str]) -> None:
    java = oracle.call("partitions", keys=[to_base64(key) for key in KEYS], count=count)
    for kind in (DefaultPartitioner, ClassicPartitioner, Murmur2Partitioner, Murmur2RandomPartitioner):
        assert partitions(kind(), count, KEYS) == java, kind.__name__
        cases["partitions of keys equal to Java's"] += len(KEYS)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("name", "partitioner"),
    [
        ("murmur2", Murmur2Partitioner()),
        ("murmur2_random", Murmur2RandomPartitioner()),
        ("consistent", Crc32Partitioner()),
        ("consistent_random", Crc32RandomPartitioner()),
        ("fnv1a", Fnv1aPartitioner()),
        ("fnv1a_random", Fnv1aPartitioner()),
    ],
)
def test_librdkafkas_partitioners(name: str, partitioner: Partitioner, count: int, cases: Counter[str]) -> None:
    theirs = [librdkafka_partition(name, key, count) for key in KEYS]
    assert partitions(partitioner, count, KEYS) == theirs
    cases[f"partitions of keys equal to librdkafka's {name}"] += len(KEYS)


@pytest.mark.parametrize(
    ("name", "partitioner"), [("murmur2", Murmur2Partitioner()), ("consistent", Crc32Partitioner())]
)
@pytest.mark.parametrize("key", [None, b""])
def test_librdkafkas_partition_without_a_key(name: str, partitioner: Partitioner, key: bytes | None) -> None:
    assert partitioner.partition("t", key, b"value", cluster(997)) == librdkafka_partition(name, key, 997)


def librdkafka_partition(name: str, key: bytes | None, count: int) -> int:
    """What `rd_kafka_msg_partitioner_<name>` says; those that draw lots need no topic as long as there is a key."""
    function = getattr(_librdkafka, f"rd_kafka_msg_partitioner_{name}")
    function.argtypes = _PARTITIONER_ARGUMENTS
    function.restype = ctypes.c_int32
    return int(function(None, key, len(key or b""), count, None, None))


_librdkafka = ctypes.CDLL(confluent_kafka.cimpl.__file__)  # what the extension links to is found through it
_PARTITIONER_ARGUMENTS = [
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_size_t,
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
]
