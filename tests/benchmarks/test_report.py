from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report
from benchmarks.report import (
    BEGIN,
    END,
    HEADLINES,
    ahead,
    all_numbers,
    headlines,
    page_section,
    readme_section,
    target_tables,
    with_section,
)
from benchmarks.rows import ROWS, Check
from benchmarks.spark.__main__ import entries_of
from benchmarks.verdicts import lowest, medians, outcome, runs_of


def run(**metrics: float | None) -> dict[str, Any]:
    """One run of a contender; what is not given was not measured, or is 1."""
    numbers: dict[str, Any] = {"records": 1000, "cpu_us": 1.0, "records_per_s": 1, "peak_mb": 1.0, "growth_mb": 1.0}
    return numbers | {"p50_us": None, "p99_us": None, "gap_ms": None} | metrics


def cpu(*values: float) -> list[dict[str, Any]]:
    return [run(cpu_us=value) for value in values]


def entry(row: str, contender: str, runs: list[dict[str, Any]], broker: str = "kafka") -> dict[str, Any]:
    return {
        "broker": broker,
        "row": row,
        "contender": contender,
        "runs": runs,
        "settings": {"acks": "all", "linger_ms": 5},
        "versions": {contender.partition(" ")[0]: "1.2"},
    }


def results(*entries: dict[str, Any], brokers: tuple[str, ...] = ("kafka",)) -> dict[str, Any]:
    return {
        "environment": {
            "date": "2026-01-02",
            "commit": "abc1234",
            "python": "3.11.7",
            "system": "Linux 6",
            "machine": "2 x CPU",
            "load": 0.1,
            "versions": {"uvloop": "0.2"},
        },
        "runs": 5,
        "brokers": {broker: broker.title() for broker in brokers},
        "entries": list(entries),
    }


def test_the_median_and_the_lowest_run_of_each_metric() -> None:
    runs = [run(cpu_us=3.0, p99_us=7.0), run(cpu_us=1.0, p99_us=9.0), run(cpu_us=2.0, p99_us=8.0)]
    assert medians(runs)["cpu_us"] == 2.0
    assert medians(runs)["p99_us"] == 8.0
    assert lowest(runs)["cpu_us"] == 1.0


def test_a_metric_that_one_run_lacks_is_left_out() -> None:
    assert "gap_ms" not in medians([run(gap_ms=1.0), run(gap_ms=None)])
    assert medians([]) == {}


def test_times_compares_with_the_better_of_the_others() -> None:
    check = Check("cpu_us", "times", 10, ("produce", "produce_batch"), ("ours",))
    found = outcome(
        check, {"ours": cpu(0.1, 0.2, 0.3), "produce": cpu(4.0, 4.0, 4.0), "produce_batch": cpu(1.5, 2.0, 3.0)}
    )
    assert found is not None
    assert (found.ours, found.theirs) == (0.2, 2.0)
    assert found.value == pytest.approx(10.0)
    assert found.lowest == pytest.approx(15.0)
    assert found.reached


def test_the_verdict_is_of_the_medians_and_not_of_the_lowest_runs() -> None:
    check = Check("cpu_us", "times", 3, ("theirs",), ("ours",))
    found = outcome(check, {"ours": cpu(0.1, 1.0, 1.0), "theirs": cpu(2.9, 2.9, 2.9)})
    assert found is not None
    assert found.lowest > 3
    assert not found.reached


def test_within_bounds_what_ours_costs_more() -> None:
    check = Check("cpu_us", "within", 1.3, ("few",), ("many",))
    near = outcome(check, {"many": cpu(1.25), "few": cpu(1.0)})
    far = outcome(check, {"many": cpu(1.35), "few": cpu(1.0)})
    assert near is not None
    assert far is not None
    assert (near.reached, far.reached) == (True, False)
    assert far.value == pytest.approx(1.35)


def test_a_limit_holds_for_the_worst_of_ours() -> None:
    check = Check("gap_ms", "limit", 10, (), ("one", "other"))
    found = outcome(check, {"one": [run(gap_ms=3.0)], "other": [run(gap_ms=10.5)]})
    assert found is not None
    assert (found.ours, found.theirs, found.value, found.reached) == (10.5, None, 10.5, False)


def test_no_verdict_without_a_contender_that_counts() -> None:
    check = Check("cpu_us", "times", 3, ("theirs",), ("ours",))
    assert outcome(check, {"ours": cpu(1.0)}) is None
    assert outcome(check, {"ours": cpu(1.0), "theirs": []}) is None


def test_runs_are_found_by_broker_and_row() -> None:
    found = results(
        entry("tasks", "aioprod", cpu(1.0)),
        entry("tasks", "aioprod", cpu(2.0), broker="mock"),
        entry("idle", "aioprod", cpu(3.0)),
    )
    assert runs_of(found, "mock", "tasks") == {"aioprod": cpu(2.0)}


def test_the_table_has_a_line_per_target_and_a_column_per_broker() -> None:
    ours = [run(cpu_us=1.0, p99_us=3000.0)]
    theirs = [run(cpu_us=5.0, p99_us=2000.0)]
    beside_mock = [entry("tasks", name, [], broker="mock") for name in ("aioprod", "aiokafka")]
    found = results(
        entry("tasks", "aioprod", ours), entry("tasks", "aiokafka", theirs), *beside_mock, brokers=("kafka", "mock")
    )
    head, _, *lines = target_tables(found)
    assert head.split(" | ")[-2:] == ["Kafka", "Mock |"]
    assert [line.split(" | ")[2:] for line in lines] == [
        ["CPU per record 5x less", "1.00 / 5.00 us, **5x** (5x): yes", "not measured |"],
        ["p99 no worse", "3,000 / 2,000 us, **0.667x** (0.667x): **no**", "not measured |"],
    ]


def test_readme_has_ratios_of_the_first_broker_without_verdicts() -> None:
    ours, theirs = [run(cpu_us=2.0)], [run(cpu_us=5.0)]
    found = results(
        entry("tasks", "aioprod", ours),
        entry("tasks", "aiokafka", theirs),
        entry("tasks", "aioprod", theirs, broker="mock"),
        entry("tasks", "aiokafka", ours, broker="mock"),
        brokers=("kafka", "mock"),
    )
    _, _, *lines = headlines(found)
    assert lines == ["| 1000 tasks each awaiting `send` | aiokafka `send_and_wait` | 2.00 us | 5.00 us | 2.5x |"]
    section = "\n".join(readme_section(found))
    assert section.startswith("| call | compared with |")
    assert "Medians of 5 runs on 2026-01-02: Kafka, 2 x CPU, Python 3.11.7, aioprod 1.2, aiokafka 1.2.\n" in section
    assert section.endswith(
        "\nA peer is ahead in 1 of 1 comparisons: [where](docs/performance.md#where-a-peer-is-ahead)."
    )


def test_rows_of_other_brokers_have_a_table_of_their_own() -> None:
    found = results(
        entry("tasks", "aioprod", cpu(1.0)),
        entry("tasks", "aiokafka", cpu(5.0)),
        entry("send-many-tls", "aioprod", cpu(1.0), broker="tls"),
        brokers=("kafka", "tls"),
    )
    heads = [line.split(" | ")[3:] for line in target_tables(found) if line.startswith("| call style")]
    assert heads == [["Kafka |"], ["Tls |"]]


def test_the_results_begin_with_where_a_peer_is_ahead() -> None:
    found = results(
        entry("lz4-10k", "aioprod", cpu(2.0)),
        entry("lz4-10k", "confluent-kafka produce", cpu(1.5)),
        entry("lz4-10k", "aioprod", cpu(1.0), broker="mock"),
        entry("lz4-10k", "confluent-kafka produce", cpu(1.5), broker="mock"),
        entry("read-1000", "aioprod Reader.read", cpu(1.0)),
        entry("read-1000", "confluent-kafka consume", cpu(0.5)),
        brokers=("kafka", "mock"),
    )
    goal, reader = "target: CPU per record", "reading 1,000 B: aioprod Reader.read"
    lines = [
        "A peer is ahead in 2 of 2 comparisons:",
        "",
        f"- {reader}, beside confluent-kafka consume: 1.00 / 0.50 us on Kafka; {goal} 1.1x less",
        f"- 10 KB values, lz4, beside confluent-kafka `produce` + callback: 2.00 / 1.50 us on Kafka; {goal} no worse",
    ]
    assert ahead(found) == lines
    assert all_numbers(found)[2:6] == lines
    assert "\n".join(["## Where a peer is ahead", "", *lines]) in "\n".join(page_section(found))


def test_aioprod_beside_itself_is_no_peer() -> None:
    found = results(
        entry("idempotence", "aioprod, idempotent", cpu(2.0)),
        entry("idempotence", "aioprod, not idempotent", cpu(1.0)),
        entry("tasks", "aioprod", [run(cpu_us=1.0, p99_us=1.0)]),
        entry("tasks", "aiokafka", [run(cpu_us=1.1, p99_us=2.0)]),
    )
    assert ahead(found) == ["A peer is ahead in none of 2 comparisons."]
    assert readme_section(found)[-1] == "A peer is ahead in none of 2 comparisons."


def test_who_is_not_installed_is_named() -> None:
    absent = entry("produce-8", "kcat -P", []) | {"missing": "kcat is not installed"}
    found = results(entry("produce-8", "aioprod", cpu(1.0)), absent)
    assert ahead(found)[-1] == "Not measured on Kafka: kcat -P, as kcat is not installed."
    text = "\n".join(all_numbers(found))
    assert "| kcat -P | not measured: kcat is not installed |" in text
    assert "Rows that were not measured: produce-100, perf, import, read-100," in text


def test_spark_has_its_figures_from_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = results(entry("tasks", "aioprod", cpu(1.0)))
    monkeypatch.setattr(report, "SPARK", tmp_path / "spark.json")
    assert report.with_spark(found) is found
    paths = {"noop": [1.0, 1.0], "aioprod sink": [1.4, 1.6], "Spark's sink": [2.0, 2.0]}
    paths |= {"aioprod source": [1.2, 1.2], "Spark's source": [1.4, 1.4]}
    used = {name: [{"total": total, "rows_per_s": 5.0} for total in totals] for name, totals in paths.items()}
    entries = [one | {"broker": "spark"} for one in entries_of(used, 1000)]
    (tmp_path / "spark.json").write_text(json.dumps({"brokers": {"spark": "Spark"}, "entries": entries}))
    lines = target_tables(report.with_spark(found))
    assert "CPU per row within 0.45x | 0.50 / 1.00 us, **0.5x** (0.4x): **no** |" in lines[-2]
    assert "CPU per row no worse | 0.20 / 0.40 us, **2x** (2x): yes |" in lines[-1]


def test_the_rows_of_readme_compare_with_another_client() -> None:
    assert len(HEADLINES) == 5
    firsts = [ROWS[name].checks[0] for name in HEADLINES]
    assert {(check.kind, check.metric) for check in firsts} == {("times", "cpu_us")}
    assert {ROWS[name].unit for name in HEADLINES} == {"record"}


def test_the_pages_have_the_figures_of_the_results() -> None:
    whole = report.with_spark(json.loads((report.RESULTS / "results.json").read_text()))
    for page, section in ((report.README, readme_section(whole)), (report.PAGE, page_section(whole))):
        assert page.read_text() == with_section(page.read_text(), section), "run: python -m benchmarks.report"


def test_all_numbers_name_settings_and_failures() -> None:
    failed = entry("tasks", "aiokafka", []) | {"failure": "Traceback\nValueError: no"}
    text = "\n".join(all_numbers(results(entry("tasks", "aioprod", cpu(1.0, 2.0, 6.0)), failed)))
    assert "| aioprod | 2.000 [1.000..6.000] |" in text
    assert "- aioprod: 1,000 records, acks=all, linger_ms=5" in text
    assert "| aiokafka | failed: ValueError: no |" in text


def test_the_section_of_a_page_is_replaced_between_its_markers() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert with_section(page, ["new"]) == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    with pytest.raises(ValueError, match="lacks the lines"):
        with_section("no markers", [])


def test_the_section_says_where_the_figures_come_from() -> None:
    section = "\n".join(page_section(results(entry("tasks", "aioprod", cpu(1.0)))))
    assert "Kafka, medians. 5 interleaved runs on 2026-01-02 at commit abc1234" in section
    assert "uvloop 0.2" in section
    assert "aioprod 1.2" in section


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_a_row_measures_everybody_whom_its_targets_name(row: Any) -> None:
    labels = [contender.label for contender in row.contenders]
    assert len(set(labels)) == len(labels)
    assert row.checks
    for check in row.checks:
        assert {*check.ours, *check.against} <= set(labels)
    assert any(row.is_judged(contender) for contender in row.contenders)
