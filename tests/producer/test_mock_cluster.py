"""A producer against brokers that are written by others and speak a little differently."""

from __future__ import annotations

from aioprod import Producer
from tests.support.mock_cluster import mock_cluster


async def test_records_reach_a_mock_cluster_of_librdkafka() -> None:
    async with mock_cluster() as bootstrap, Producer(bootstrap_servers=bootstrap) as producer:
        futures = [producer.submit("orders", b"%d" % number) for number in range(1000)]
        await producer.flush()
        stored = [await future for future in futures]
    for partition in {one.partition for one in stored}:
        offsets = [one.offset for one in stored if one.partition == partition]
        assert offsets == list(range(len(offsets)))
