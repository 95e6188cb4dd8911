"""`python -m benchmarks.work`: the keys of its records, who takes part, and our contenders on a fake broker."""

from __future__ import annotations

from collections import Counter

import pytest

from aioprod.testing import FakeCluster
from benchmarks.work.__main__ import fill
from benchmarks.work.contender import measure
from benchmarks.work.contenders import CONTENDERS as PROGRAMS
from benchmarks.work.java import ORDERS
from benchmarks.work.job import Job, Measurement
from benchmarks.work.loads import CONTENDERS, Load, keys_of, loads


def test_each_contender_has_a_program() -> None:
    assert sorted([*PROGRAMS, *ORDERS]) == sorted(contender.name for contender in CONTENDERS)


def test_one_key_has_half_of_the_records() -> None:
    spread, hot = (next(load for load in loads() if load.hot is hot and not load.wait_ms) for hot in (False, True))
    counts = Counter(keys_of(hot))
    assert counts[b"hot"] * 2 == hot.records
    assert max(Counter(keys_of(spread)).values()) < 50


def test_where_one_key_counts_only_those_take_part_that_keep_the_order_of_keys() -> None:
    (hot,) = (load for load in loads() if load.hot and load.wait_ms)
    assert [contender.name for contender in hot.contenders()] == ["work-key", "java-key"]


def test_contenders_that_handle_one_record_after_the_other_get_fewer() -> None:
    load = loads()[0]
    found = {contender.name: load.scaled(contender) for contender in load.contenders()}
    assert found["work-key"] == found["java-unordered"] == (48_000, 8_000)
    assert found["loop"] == found["faststream-ack"] == (240, 40)


def test_a_measurement_is_one_line() -> None:
    found = Measurement(cpu_us=1.5, records_per_s=20.0, peak_mb=40.0, overlaps=1)
    assert Measurement.from_json(found.to_json()) == found


@pytest.mark.parametrize("name", [name for name in PROGRAMS if not name.startswith("faststream")])
@pytest.mark.parametrize("wait_ms", [0, 1])
async def test_each_of_our_calls_handles_all_records(name: str, wait_ms: int) -> None:
    load = Load("few", 10, True, wait_ms, 60, 10)
    async with FakeCluster() as cluster:
        cluster.create_topic(load.topic)
        await fill(cluster.bootstrap, load)
        job = Job(
            contender=name,
            bootstrap_servers=cluster.bootstrap,
            topic=load.topic,
            group="work",
            records=load.records,
            warm_up=load.warm_up,
            wait_ms=wait_ms,
            concurrency=20,
        )
        found = await measure(Job.from_json(job.to_json()))
    assert min(found.cpu_us, found.records_per_s, found.peak_mb) > 0
    assert found.overlaps == 0 or name == "work-none"
