"""The planner without Spark: a task's part over batches as Spark hands them over, the sums, the words, the page."""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from aioprod.cluster import Cluster, PartitionInfo
from aioprod.config import load_class
from aioprod.console.tables import text_of
from aioprod.errors import ConfigError
from aioprod.routing import HASH_PARTITIONERS, Partitioner
from aioprod.spark.planning.job import checked, report_of
from aioprod.spark.planning.measures import HotKey, PlanReport
from aioprod.spark.planning.page import _skews, page
from aioprod.spark.planning.survey import Survey, task
from aioprod.spark.planning.tables import summary

Key = bytes | None

EVERY_HASHED_PARTITIONER = [name for name in HASH_PARTITIONERS if name not in ("default", "classic")]


def batches(rows: Sequence[Key], size: int = 7) -> Iterator[pa.RecordBatch]:
    """What the tasks get: each key once, with its number of rows, and 10 bytes for each of them."""
    held = list(Counter(rows).items())
    for start in range(0, len(held), size):
        keys, counts = zip(*held[start : start + size], strict=True)
        columns = [pa.array(keys, pa.binary()), pa.array(counts, pa.int64()), pa.array([10 * n for n in counts])]
        yield pa.RecordBatch.from_arrays(columns, names=["key", "rows", "bytes"])


def report(
    rows: Sequence[Key],
    partitioners: Sequence[str] = ("murmur2",),
    counts: Sequence[int] = (4, 8),
    consumers: int | None = None,
    tasks: int = 1,
) -> PlanReport:
    survey = checked(partitioners, counts, consumers)
    answers = []
    for number in range(tasks):
        mine = [key for key in rows if sum(key or b"") % tasks == number]
        work = pickle.loads(pickle.dumps(task(survey)))
        answers += list(work(batches(mine)))
    return report_of(survey, pa.Table.from_batches(answers), key="k", value="v", consumers=consumers)


def customers(count: int, each: int = 1) -> list[Key]:
    keys: list[Key] = [b"customer-%d" % number for number in range(count)]
    return keys * each


def by_partitioner(name: str, rows: Sequence[Key], count: int) -> list[int]:
    """Rows per partition as the partitioner itself places them, one by one."""
    cluster = Cluster([], [PartitionInfo("t", index, None, (), ()) for index in range(count)])
    partitioner: Partitioner = load_class(name, "partitioner")()
    held = Counter(partitioner.partition("t", key, None, cluster) for key in rows)
    return [held[index] for index in range(count)]


class TestMeasures:
    @pytest.mark.parametrize("name", EVERY_HASHED_PARTITIONER)
    def test_loads_are_those_of_the_partitioner(self, name: str) -> None:
        rows = customers(50, 3) + customers(5, 20) + [b"x" * size for size in range(1, 40)]
        found = report(rows, [name], [1, 4, 6, 9], tasks=3)
        for layout in found.results:
            expected = by_partitioner(name, rows, layout.count)
            assert list(layout.rows) == expected
            assert list(layout.bytes) == [10 * load for load in expected]
            assert layout.spread_rows == 0
            assert sum(layout.keys) == found.keys == len(set(rows))

    def test_counts_without_a_usable_common_multiple(self) -> None:
        counts = [9973, 9967, 9949, 7]
        assert Survey(("murmur2",), tuple(counts)).common is None
        found = report(customers(60), ["murmur2"], counts)
        for layout in found.results:
            assert list(layout.rows) == by_partitioner("murmur2", customers(60), layout.count)

    def test_moves_are_counted_by_key_and_row(self) -> None:
        rows = customers(40) + customers(10, 5)
        found = report(rows, ["murmur2", "crc32"], [4, 6], tasks=2)
        for one in found.growth:
            moved = [key for key in rows if place(one.partitioner, key, 4) != place(one.partitioner, key, 6)]
            assert (one.count, one.to, one.rows, one.keys) == (4, 6, len(moved), len(set(moved)))
        for switch in found.switches:
            moved = [key for key in rows if place("murmur2", key, switch.count) != place("crc32", key, switch.count)]
            assert (switch.partitioner, switch.to) == ("murmur2", "crc32")
            assert (switch.rows, switch.keys) == (len(moved), len(set(moved)))
        assert len(found.growth) == len(found.switches) == 2

    def test_hot_keys_are_exact_over_all_tasks(self) -> None:
        rows = customers(100) + [b"hot"] * 50 + [b"warm"] * 20 + [None] * 30
        found = report(rows, tasks=3)
        assert found.hot_keys[:3] == (HotKey(b"hot", 50, 500), HotKey(None, 30, 300), HotKey(b"warm", 20, 200))
        assert len(found.hot_keys) == 10
        assert (found.rows, found.keys, found.bytes, found.keyless_rows) == (200, 102, 2000, 30)

    def test_rows_without_key_are_spread_evenly_or_hashed_as_empty(self) -> None:
        rows = customers(8) + [None] * 10
        spread = report(rows, ["murmur2_random"], [4]).results[0]
        assert spread.spread_rows == 10
        assert [
            load - base for load, base in zip(spread.rows, by_partitioner("murmur2", customers(8), 4), strict=True)
        ] == [
            3,
            3,
            2,
            2,
        ]
        hashed = report(rows, ["murmur2"], [4])
        assert hashed.results[0].spread_rows == 0
        assert list(hashed.results[0].rows) == by_partitioner("murmur2", rows, 4)
        assert "have no key, and murmur2 sends them all to one partition" in hashed.recommendation

    def test_a_partitioner_that_looks_at_no_key_is_even_by_design(self) -> None:
        found = report([b"a"] * 10 + [None] * 2, ["round_robin", "murmur2"], [4])
        assert found.result("round_robin", 4).rows == (3, 3, 3, 3)
        assert [one.partitioner for one in found.growth] == []
        assert found.switches[0].rows == 12

    def test_consumers_read_whole_partitions(self) -> None:
        found = report(customers(100), ["murmur2"], [2, 6], consumers=3)
        layout = found.result("murmur2", 6)
        assert layout.members["range"] == tuple(sum(layout.rows[at : at + 2]) for at in (0, 2, 4))
        assert layout.members["roundrobin"] == tuple(layout.rows[at] + layout.rows[at + 3] for at in range(3))
        assert layout.members.keys() == {"range", "roundrobin", "sticky", "cooperative-sticky"}
        assert found.result("murmur2", 2).members["range"] == (*found.result("murmur2", 2).rows, 0)
        with pytest.raises(KeyError):
            found.result("murmur2", 7)

    def test_json(self) -> None:
        found = report(customers(20) + [b"\xff\x00"] * 3 + [None], ["murmur2", "crc32"], [2, 4], consumers=2)
        told = json.loads(found.to_json())
        assert [(one["partitioner"], one["count"], one["rows"]) for one in told["results"]] == [
            (layout.partitioner, layout.count, list(layout.rows)) for layout in found.results
        ]
        assert told["hot_keys"][0] == {"key": "0xff00", "rows": 3, "bytes": 30, "share": 3 / 24}
        assert told["recommendation"]["count"] == found.count


def place(partitioner: str, key: Key, count: int) -> int:
    return by_partitioner(partitioner, [key], count).index(1)


class TestAdvice:
    def test_one_hot_key_is_beyond_help(self) -> None:
        found = report([b"hot"] * 1000 + customers(500), ["murmur2", "crc32"], [6, 12, 24])
        assert found.recommendation.startswith(
            "No number of partitions evens this out. The key 'hot' alone is 66.7 % of the rows, and one partition "
        )
        assert "another key" in found.recommendation

    def test_rows_without_key_that_are_hashed_can_be_the_hot_ones(self) -> None:
        found = report([None] * 1000 + customers(500), ["murmur2"], [6])
        assert "The rows without key are 66.7 % of the rows" in found.recommendation

    def test_even_data_get_the_most_partitions(self) -> None:
        found = report(customers(20_000), ["murmur2"], [4, 8, 16])
        assert found.count == 16
        assert found.recommendation.startswith("Take 16 partitions with murmur2: the busiest one has 1.0")

    def test_with_consumers_the_fewest_that_serve_them_as_well(self) -> None:
        found = report(customers(20_000), ["murmur2"], [4, 8, 16, 64], consumers=8)
        assert found.count == 8
        assert "the busiest of 8 members reads 1.0" in found.recommendation
        assert "Growing to 16 later moves keys with" in found.recommendation

    def test_more_members_than_partitions(self) -> None:
        found = report(customers(500), ["murmur2"], [2, 3], consumers=5)
        assert "fewer partitions than members: 2 of them would read nothing" in found.recommendation

    def test_uneven_without_a_hot_key(self) -> None:
        rows = [key for number, key in enumerate(customers(9)) for _ in range(10 + number)]
        found = report(rows, ["murmur2"], [8, 9])
        assert found.recommendation.startswith("None of these counts is even.")

    def test_no_key_is_looked_at(self) -> None:
        assert "it looks at no key" in report(customers(9), ["round_robin"], [3]).recommendation

    def test_rows_without_key_that_are_spread(self) -> None:
        found = report(customers(2000) + [None] * 1000, ["crc32_random"], [2])
        assert "33.3 % of the rows have no key: they are spread, even by design" in found.recommendation


class TestBadInput:
    @pytest.mark.parametrize(
        ("partitioners", "counts", "consumers", "message"),
        [
            (["murmur"], [4], None, "'murmur' names no partitioner"),
            ([], [4], None, "no partitioner to try"),
            (["murmur2"], [], None, "no number of partitions to try"),
            (["murmur2"], [4, 0], None, "can't have 0 partitions"),
            (["murmur2"], [-1], None, "can't have -1 partitions"),
            (["murmur2"], [True], None, "can't have True partitions"),
            (["murmur2"], [100_001], None, "at most 100,000"),
            (["murmur2"], list(range(1, 2000)), None, "at most 1,000,000 partitions in all"),
            (["murmur2"], [4], 0, "consumers is 0"),
        ],
    )
    def test_refused_before_anything_runs(
        self, partitioners: list[str], counts: list[int], consumers: int | None, message: str
    ) -> None:
        with pytest.raises(ConfigError, match=message):
            checked(partitioners, counts, consumers)

    def test_no_rows(self) -> None:
        with pytest.raises(ConfigError, match="no rows"):
            report([])

    def test_one_partitioner_as_text_and_counts_in_any_order(self) -> None:
        assert checked("murmur2", [8, 4, 8], None) == Survey(("murmur2",), (4, 8))


class TestShown:
    def test_page(self, tmp_path: Path) -> None:
        found = report([b"<b>"] * 9 + customers(30) + ["ключ$".encode()] * 5, ["murmur2", "crc32"], [2, 4], consumers=2)
        page(found).save(tmp_path / "plan.html")
        html = (tmp_path / "plan.html").read_text()
        assert "&lt;b&gt;" in html
        assert "<b>" not in html
        assert "ключ$" in html
        assert html.count("<figure>") == html.count('alt="') == 6
        assert found.recommendation in html.replace("&#x27;", "'")

    def test_plain_text(self) -> None:
        found = report(customers(30, 2), ["murmur2", "crc32"], [2, 4], consumers=2)
        text = text_of(summary(found))
        assert text.startswith("60 rows, 30 keys (k), 600 bytes of keys and values (value: v).\n")
        assert "  partitioner  partitions  max/mean rows" in text
        assert text.endswith(found.recommendation + "\n")


def test_the_other_counts_are_told_in_words() -> None:
    told = report(customers(300), counts=[12, 24, 48]).recommendation
    assert "With 24 partitions the busiest one has 1.36 times the mean, with 48 partitions 2.08 times." in told
    told = report(customers(300), counts=[6, 12], consumers=5).recommendation
    assert re.search(r" With (6|12) partitions the busiest member reads \d\.\d\d times the mean\.", told)
    assert "busiest one has" not in report(customers(300), counts=[12], consumers=5).recommendation


@pytest.mark.parametrize(
    ("partitioners", "lines"),
    [
        (["murmur2", "crc32"], ["murmur2", "crc32", "bound by the hottest key, at least 1"]),
        (
            ["murmur2", "uniform_sticky"],
            [
                "murmur2",
                "uniform_sticky",
                "bound by the hottest key, at least 1 (murmur2)",
                "bound by the hottest key, at least 1 (uniform_sticky)",
            ],
        ),
    ],
)
def test_each_line_of_the_picture_is_in_its_legend(partitioners: list[str], lines: list[str]) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    _skews(report([*customers(20), *[b"hot"] * 30], partitioners), axes)
    shown = axes.get_legend()
    assert shown is not None
    assert [text.get_text() for text in shown.get_texts()] == lines
    assert len(axes.get_lines()) == len(lines)
    colors = {line.get_label(): line.get_color() for line in axes.get_lines()}
    assert len({colors[name] for name in partitioners} | {colors[lines[-1]]}) == len(partitioners) + 1
