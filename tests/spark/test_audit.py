"""What an audit says, and from where on it looks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aioprod.errors import ConfigError
from aioprod.spark.auditing.job import _partitions, _settings
from aioprod.spark.auditing.page import page_of
from aioprod.spark.auditing.reading import starts_of
from aioprod.spark.auditing.report import KINDS, AuditReport, Finding, PartitionAudit, key_text
from aioprod.spark.digest import Digest
from aioprod.spark.loading.cluster import TopicState
from aioprod.spark.manifest import Manifest, Plan

ONE = Digest(10, 100, -5, 7, -9, 6, 17)
MANIFEST = Manifest(
    run_id="june",
    cluster_id="c1",
    starts=(5, 4, 0),
    plan=Plan(topic="orders", partitions=3, partitioner="murmur2", value="v"),
    chunks={0: {0: ONE}},
)
CLEAN = AuditReport(
    run_id="june",
    topic="orders",
    isolation="read_committed",
    partitions=(PartitionAudit(0, 10, 10, 100, 100, True), PartitionAudit(1, 2, 2, 20, 20, True)),
)
FINDINGS = (
    Finding("lost", "a", 0, 7),
    Finding("duplicated", None, 0, 8),
    Finding("extra", "<b>", 1, 9),
    Finding("misplaced", "c", 1, 10, promised_partition=0),
    Finding("out_of_order", "d", 1, 11, after_offset=13),
)
WRONG = replace(CLEAN, counts=dict.fromkeys(KINDS, 1) | {"lost": 3}, findings=FINDINGS, was_full=True)


# --- from where on


@pytest.mark.parametrize(
    ("topic", "cluster_id", "starts", "ends", "expected"),
    [
        ("orders", "c1", (0, 0, 0), (20, 20, 20), (5, 4, 0)),
        ("orders", None, (0, 0, 0), (20, 20, 20), (5, 4, 0)),
        ("orders", "c1", (9, 9, 9), (20, 20, 20), (9, 9, 9)),
        ("orders", "c1", (0, 0), (20, 20), (5, 4)),
        ("orders", "c1", (0, 0, 0, 0), (20, 20, 20, 7), (5, 4, 0, 0)),
        ("orders", "c1", (0, 0, 0), (3, 2, 0), (3, 2, 0)),
        ("orders", "c2", (1, 2, 3), (20, 20, 20), (1, 2, 3)),
        ("copy", "c1", (1, 2, 3), (20, 20, 20), (1, 2, 3)),
    ],
)
def test_where_a_topic_is_compared_from(
    topic: str, cluster_id: str | None, starts: tuple[int, ...], ends: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert starts_of(MANIFEST, TopicState(cluster_id, starts, ends), topic) == expected


def test_a_manifest_that_was_lost_and_made_anew_does_not_begin_after_its_own_rows() -> None:
    later = replace(MANIFEST, starts=(100, 4, 0))
    assert starts_of(later, TopicState("c1", (0, 0, 0), (200, 20, 20)), "orders") == (6, 4, 0)


def test_partitions_are_compared_by_their_rows() -> None:
    moved = replace(ONE, first=0, last=9)
    found = _partitions({0: ONE, 1: ONE}, {0: moved, 2: ONE})
    assert [(one.partition, one.promised, one.found, one.is_same) for one in found] == [
        (0, 10, 10, True),
        (1, 10, 0, False),
        (2, 0, 10, False),
    ]
    assert _partitions({}, {}) == ()


def test_settings_of_a_producer_are_left_out() -> None:
    given = {"bootstrap.servers": "b:9", "kafka.client.id": "x", "compression_type": "zstd", "fetch.max.bytes": 70000}
    assert dict(_settings(given)) == {"bootstrap.servers": "b:9", "client.id": "x", "fetch.max.bytes": "70000"}
    with pytest.raises(ConfigError, match="lingr"):
        _settings({"bootstrap.servers": "b:9", "lingr.ms": 5})


# --- what it says


def test_a_clean_topic() -> None:
    assert CLEAN.is_clean
    assert (CLEAN.promised, CLEAN.found) == (12, 12)
    assert str(CLEAN).splitlines() == [
        "Run june in topic 'orders': 12 rows promised, 12 found (read_committed, by digests, 0.0 s).",
        "Clean: all that was promised is there, once, and in order; nothing else is.",
    ]
    assert CLEAN.to_dict()["clean"] is True


def test_each_thing_that_can_be_wrong() -> None:
    assert not WRONG.is_clean
    assert str(WRONG).splitlines()[1:] == [
        "Not clean: 3 lost, 1 duplicated, 1 extra, 1 in the wrong partition, 1 out of order.",
        "  lost: key 'a', which was written to partition 0, offset 7",
        "  duplicated: no key once more at partition 0, offset 8",
        "  extra: key '<b>' at partition 1, offset 9, which the manifest does not know",
        "  in the wrong partition: key 'c' at partition 1, offset 10, promised in partition 0",
        "  out of order: key 'd' at partition 1, offset 11, promised after the row at offset 13",
        "  ... and 2 more",
    ]
    told = WRONG.to_dict()
    assert (told["clean"], told["lost"], told["out_of_order"], told["full"]) == (False, 3, 1, True)
    assert told["findings"][3]["promised_partition"] == 0
    assert told["partitions"][1] == {
        "partition": 1,
        "promised": 2,
        "found": 2,
        "promised_bytes": 20,
        "found_bytes": 20,
        "same": True,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_any_of_them_is_enough(kind: str) -> None:
    counts = dict.fromkeys(KINDS, 0) | {kind: 1}
    assert not replace(CLEAN, counts=counts).is_clean
    tolerant = replace(CLEAN, counts=counts, others=True)
    assert tolerant.is_clean == (kind == "extra")
    if tolerant.is_clean:
        assert "1 extra, of others" in str(tolerant)


def test_receipts_that_are_not_the_manifest_s_are_never_clean() -> None:
    """What each row is compared with says nothing then, also where other rows are expected."""
    partitions = (PartitionAudit(0, 10, 9, 100, 90, False), *CLEAN.partitions[1:])
    report = replace(CLEAN, partitions=partitions, changed=(0,), was_full=True)
    for one in (report, replace(report, others=True, counts=dict(report.counts) | {"extra": 3})):
        assert not one.is_clean
        assert one.verdict.startswith("Not clean: ")
        assert "the receipts of partition 0 are not those that the manifest was made of" in one.verdict
        assert str(one.to_dict()["unexplained"]).startswith("The receipts of partition 0")
    assert CLEAN.to_dict()["unexplained"] is None
    told = replace(report, counts=dict(report.counts) | {"lost": 3}).verdict
    assert told.startswith("Not clean: 3 lost; the receipts of partition 0")


def test_the_page_escapes_and_shows_all() -> None:
    html = page_of(WRONG).html()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "Not clean: 3 lost" in html
    assert "The first 5 of 7." in html
    assert "data:image/png;base64," in html
    assert "Rows that are not as promised" not in page_of(replace(CLEAN, partitions=())).html()


@pytest.mark.parametrize(
    ("key", "shown"),
    [(None, None), (b"", ""), (b"k\xc3\xa9", "k\u00e9"), (b"\xff\x01", "0xff01"), (b"x" * 81, "x" * 80 + "...")],
)
def test_a_key(key: bytes | None, shown: str | None) -> None:
    assert key_text(key) == shown
