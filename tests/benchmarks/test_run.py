"""Which rows run on which broker, what is read there, and which programs are missing."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import brokers
from benchmarks.__main__ import selected
from benchmarks.brokers import BROKERS, Broker, Stored, start
from benchmarks.rows import ROWS, Contender
from benchmarks.run import Options, run


def names(broker: str, *, named: bool = False) -> set[str]:
    return {name for name, row in ROWS.items() if row.is_on(broker, named=named)}


def test_each_row_runs_on_its_own_brokers() -> None:
    assert {"tasks", "read-100", "perf", "produce-8"} <= names("kafka")
    assert "read-100" in names("fake")
    assert names("fake") & names("mock") == set()
    assert names("tls") == {"nowait-tls", "plain-1k-tls", "send-many-tls", "submit-each-tls"}
    assert {name for broker in BROKERS for name in names(broker)} == ROWS.keys() - {"spark-sink", "spark-source"}


def test_what_sends_to_kafka_runs_over_tls_when_that_is_named() -> None:
    found = names("tls", named=True)
    assert {"tasks", "read-100", "send-many-tls"} <= found
    assert found.isdisjoint({"perf", "produce-8", "import", "compat-send"})
    assert names("mock", named=True) == names("mock")


def test_rows_are_selected_by_name_or_by_its_first_word() -> None:
    assert selected("tasks,read-100", ROWS, "row") == ("tasks", "read-100")
    assert selected("send-many", ROWS, "row") == ("send-many",)
    assert selected("read,read-100", ROWS, "row") == ("read-100", "read-100-lz4", "read-1000", "read-1000-lz4")
    assert selected("", ROWS, "row") == tuple(ROWS)
    with pytest.raises(SystemExit, match="There is no row 'rea'"):
        selected("rea", ROWS, "row")


def broker(fill: Any) -> Broker:
    return Broker("fake", "Fake", "nowhere:1", 4, 4, lambda names, partitions: None, fill)


def test_a_topic_is_filled_once_and_read_whole() -> None:
    filled: list[Stored] = []

    def fill(stored: Stored) -> int:
        filled.append(stored)
        return stored.records + 7

    given = broker(fill)
    jobs = [contender.job(given, None, 0.1) for contender in ROWS["read-100"].contenders]
    assert [one.name for one in filled] == ["read-100-none-40000"]
    assert {one.topics for one in jobs} == {("read-100-none-40000",)}
    assert {(one.records, one.partitions) for one in jobs} == {(40_007, 4)}


def test_an_import_is_measured_once_whichever_broker_is_named() -> None:
    contender = ROWS["import"].contenders[0]
    assert [contender.job(broker(None), records, scale).records for records, scale in ((None, 0.1), (9, 1.0))] == [1, 1]


def test_few_large_records_are_few() -> None:
    contender = ROWS["zstd-100k"].contenders[0]
    jobs = [contender.job(broker(None), None, scale) for scale in (1.0, 0.1)]
    assert [(job.records, job.warm_up) for job in jobs] == [(2000, 500), (500, 500)]


async def test_the_fake_broker_stores_what_is_to_be_read() -> None:
    async with start("fake") as given:
        topic = given.filled(100, "lz4", 1000)
    assert topic.records >= 1000


async def test_a_program_that_is_not_installed_is_named_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS["produce-8"]
    absent = Contender("kcat -P", "programs", "kcat", 10_000, needs="no-such-program")
    monkeypatch.setitem(ROWS, "produce-8", type(row)(row.name, row.title, "", (absent,), ()))
    monkeypatch.setattr(brokers, "BROKERS", {"mock": BROKERS["mock"]})
    options = Options(rows=("produce-8",), brokers=(), runs=1, records=None, scale=0.1, only="", wrap="")
    (entry,) = (await run(options))["entries"]
    assert entry["missing"] == "no-such-program is not installed"
    assert entry["runs"] == []
    assert "failure" not in entry
