"""The arithmetic of a load: what is due when, what the meter counts, what the lines say."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from aioprod.cli.perf.load import Load, Pace, Payload
from aioprod.cli.perf.meter import MIB, Meter, Second
from aioprod.cli.perf.report import comparison, latency_picture
from aioprod.cli.perf.shown import Window, on_terminal
from aioprod.console.tables import Table

LOAD = Load(
    topic="orders",
    records=None,
    seconds=None,
    size=10,
    key_size=0,
    rate=None,
    style="submit",
    seed=1,
    chunk=100,
    tasks=10,
    payload_file=None,
)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_as_fast_as_possible_all_is_due_until_the_records_are_given() -> None:
    pace = Pace(replace(LOAD, records=25), 100.0)
    assert [pace.take(100.0, 10) for _ in range(4)] == [10, 10, 5, 0]
    assert pace.is_over(100.0)


def test_the_time_ends_a_load() -> None:
    pace = Pace(replace(LOAD, seconds=2.0), 100.0)
    assert pace.take(101.9, 10) == 10
    assert pace.is_over(102.0)
    assert pace.take(102.0, 10) == 0


def test_at_a_rate_records_are_due_one_by_one() -> None:
    pace = Pace(replace(LOAD, rate=100.0, seconds=60.0), 100.0)
    assert [pace.take(100.0, 10), pace.take(100.0, 10)] == [1, 0]
    assert pace.wait_s(100.0) == pytest.approx(0.01)
    assert [pace.take(100.01, 10), pace.take(100.05, 10), pace.take(101.0, 10)] == [1, 4, 10]
    assert pace.wait_s(101.0) == 0.0


def test_it_waits_no_longer_than_the_load_lasts() -> None:
    pace = Pace(replace(LOAD, rate=0.1, seconds=2.0), 100.0)
    assert pace.take(100.0, 10) == 1
    assert pace.wait_s(100.5) == pytest.approx(1.5)


def test_a_rate_gives_as_many_records_as_it_says() -> None:
    pace = Pace(replace(LOAD, rate=3000.0, seconds=10.0), 0.0)
    assert sum(pace.take(at / 1000, 500) for at in range(10_000)) == pytest.approx(30_000, abs=3)


def test_keys_change_beside_values() -> None:
    payload = Payload(replace(LOAD, key_size=4))
    pairs = list(payload.pairs(3000))
    assert len(set(pairs)) == 3000
    assert {(len(key or b""), len(value)) for key, value in pairs} == {(4, 10)}


def test_of_large_values_there_are_few() -> None:
    assert len(set(Payload(replace(LOAD, size=4 * MIB)).values(10))) == 2


def test_the_meter_counts_by_the_second() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.begin()
    for at_s, latency_ms, count in ((0.5, 10.0, 1), (0.9, 20.0, 3), (2.5, 40.0, 2)):
        clock.now = 100.0 + at_s
        meter.note(clock.now - latency_ms / 1000, 100 * count, count)
    meter.note_failed(ValueError(), 2)
    clock.now = 104.0
    meter.end()
    clock.now = 200.0
    meter.note(199.0, 100)  # What a producer that is being closed still delivers.
    meter.end()
    assert [(second.at, second.records) for second in meter.seconds] == [(0, 4), (2, 2)]
    assert [second.max for second in meter.seconds] == pytest.approx([20.0, 40.0])
    found = meter.document()
    assert (found["records"], found["failed"], found["errors"]) == (6, 2, {"ValueError": 2})
    assert (found["seconds"], found["records_per_s"]) == (4.0, 1.5)
    assert found["mb_per_s"] == round(600 / MIB / 4, 3)
    latency = found["latency_ms"]
    assert latency["avg"] == pytest.approx((10 + 3 * 20 + 2 * 40) / 6)
    assert [latency["p50"], latency["p99"], latency["max"]] == pytest.approx([20.0, 40.0, 40.0], rel=1 / 64)


def test_a_line_says_what_was_done_since_the_last_one() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.begin()
    window = Window(meter)
    for at in range(10):
        clock.now = 100.0 + at / 2
        meter.note(clock.now - 0.01, MIB)
    clock.now = 105.0
    assert window.line() == (
        "10 records sent, 2.0 records/sec (2.00 MB/sec), 10.0 ms avg latency, 10.0 ms max latency."
    )
    assert window.line().startswith("0 records sent, 0.0 records/sec (0.00 MB/sec), 0.0 ms avg latency")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("has_rich", [False, True])
def test_a_terminal_shows_what_is_known_now(has_rich: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.cli.perf.shown.find_spec", lambda name: has_rich or None)
    monkeypatch.setattr("aioprod.cli.progress._EVERY_S", 0.0)
    monkeypatch.setenv("COLUMNS", "80")
    clock = Clock()
    meter = Meter(clock)
    meter.begin()
    clock.now = 101.0
    meter.note(100.5, 100)
    terminal = Terminal()
    show, clear = on_terminal(terminal)
    show(Window(meter).rates(), meter)
    clear()
    written = terminal.getvalue()
    assert "500.0" in written
    assert all(unit in written for unit in ("records/s", "MB/s", "ms p50", "ms p99", "ms max", "% CPU"))


def test_a_comparison_has_ratios_to_the_first() -> None:
    def measured(records_per_s: float, cpu_s: float) -> dict[str, object]:
        latency = {"p50": 1.0, "p99": 2.0, "max": 3.0}
        return {
            "version": "1.0",
            "records": 1000,
            "failed": 0,
            "records_per_s": records_per_s,
            "mb_per_s": 1.0,
            "latency_ms": latency,
            "cpu_s": cpu_s,
            "peak_rss_mb": 30.2,
        }

    table = comparison({"aioprod": measured(1000.0, 0.01), "aiokafka": measured(250.0, 0.03)}, None)
    assert isinstance(table, Table)
    assert "at a --rate" in table.says
    named = [dict(zip(("client", "rate", "ratio"), row[:3], strict=True)) for row in table.rows]
    assert named == [
        {"client": "aioprod 1.0", "rate": 1000, "ratio": 1.0},
        {"client": "aiokafka 1.0", "rate": 250, "ratio": 0.25},
    ]
    assert [row[7:9] for row in table.rows] == [(10.0, 1.0), (30.0, 3.0)]


@pytest.mark.parametrize("count", [0, 1, 30])
def test_a_picture_of_any_number_of_seconds(count: int) -> None:
    seconds = [Second(at, 100, 1.0 + at, 2.0 + at, 3.0 + at) for at in range(count)]
    assert latency_picture(seconds, "orders", "png").startswith(b"\x89PNG")
