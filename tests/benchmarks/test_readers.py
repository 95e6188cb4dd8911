"""The benchmark of readers: its topics can be read, and its table has all figures."""

from __future__ import annotations

from aioprod.testing import FakeCluster
from benchmarks.readers.__main__ import _table
from benchmarks.readers.broker import PARTITIONS, TOPICS, _fill
from benchmarks.readers.contender import CONTENDERS


async def test_every_client_of_ours_reads_all_records() -> None:
    async with FakeCluster() as cluster:
        for topic in TOPICS:
            records = _fill(cluster.create_topic(topic.name, PARTITIONS).partitions, topic, 500)
            assert records >= 500
            for name, read in CONTENDERS.items():
                if name.startswith("aioprod"):
                    assert await read(cluster.bootstrap, topic.name, records, PARTITIONS) == records


def test_the_table_has_the_least_and_the_median() -> None:
    found = {("one", topic.name): [3.0, 1.0, 2.0] for topic in TOPICS}
    assert _table(["one"], found)[-1] == "| one | 1.00 (2.00) | 1.00 (2.00) | 1.00 (2.00) | 1.00 (2.00) |"
