"""A manifest, there and back, and those that are invalid."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioprod.errors import ConfigError, UsageError
from aioprod.spark.digest import Digest
from aioprod.spark.folder import LocalFolder
from aioprod.spark.loading.job import _opened
from aioprod.spark.manifest import FILE, Manifest, Plan, receipts_of

PLAN = Plan(topic="orders", partitions=3, partitioner="murmur2", value="v", key="k", chunks=2, chunks_of="files")
ONE = Digest(10, 100, -5, 7, -9, 0, 12)
TWO = Digest(5, 50, 1, 2, 3, 20, 24)
MANIFEST = Manifest(
    run_id="june",
    cluster_id="c1",
    topic_id="t1",
    starts=(0, 4, 0),
    plan=PLAN,
    chunks={0: {0: ONE, 2: TWO}, 1: {0: TWO}},
)


def test_there_and_back() -> None:
    assert Manifest.from_json(MANIFEST.to_json()) == MANIFEST
    assert MANIFEST.is_complete
    assert MANIFEST.promised() == {0: ONE.then(TWO), 2: TWO}
    begun = replace(MANIFEST, chunks={})
    assert not begun.is_complete
    assert begun.with_chunk(1, {0: TWO}).chunks == {1: {0: TWO}}
    assert Manifest.from_json(begun.to_json()) == begun


def test_chunks_that_overlap_were_not_written_by_a_load() -> None:
    with pytest.raises(ConfigError, match="overlap"):
        MANIFEST.with_chunk(1, {0: replace(TWO, first=12)}).promised()


def test_an_owner_is_of_the_run_and_of_all_that_is_planned() -> None:
    owners = {MANIFEST.owner, replace(MANIFEST, run_id="july").owner}
    for change in (
        {"topic": "t"},
        {"partitions": 4},
        {"partitioner": "crc32"},
        {"value": "w"},
        {"key": None},
        {"headers": "h"},
        {"timestamp": "t"},
        {"order_by": "o"},
        {"chunks": 3},
        {"chunks_of": "rows"},
        {"input": "i"},
        {"rows": 7},
        {"hash_xor": 7},
    ):
        plan = replace(PLAN, **change)
        assert PLAN.differences(plan) == list(change)
        owners.add(replace(MANIFEST, plan=plan).owner)
    assert len(owners) == 15
    assert replace(MANIFEST, chunks={}).owner == MANIFEST.owner


def test_chunks_must_be_the_rows_that_were_counted() -> None:
    whole = replace(MANIFEST, plan=replace(PLAN, chunks_of="rows", rows=20, hash_xor=-5))
    MANIFEST.check_sum()
    whole.check_sum()
    for plan, said in (
        (replace(whole.plan, rows=21), "21 rows were counted before it, 20 rows were written"),
        (replace(whole.plan, hash_xor=-6), "20 rows were counted before it, as many rows, but others were written"),
    ):
        other = replace(whole, plan=plan)
        with pytest.raises(UsageError, match=said):
            other.check_sum()
        replace(other, chunks={}).check_sum()


def changed(**changes: Any) -> str:
    given = json.loads(MANIFEST.to_json())
    return json.dumps({**given, **changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        changed(version=2),
        changed(run_id=None),
        changed(cluster_id=7),
        changed(topic_id=7),
        changed(starts=[0]),
        changed(starts=[0, 1, "2"]),
        changed(plan=None),
        changed(plan={"topic": "t"}),
        changed(plan={**json.loads(MANIFEST.to_json())["plan"], "partitions": "3"}),
        changed(plan={**json.loads(MANIFEST.to_json())["plan"], "topic": None}),
        changed(chunks=[]),
        changed(chunks={"2": {}}),
        changed(chunks={"-1": {}}),
        changed(chunks={"0": []}),
        changed(chunks={"0": {"3": ONE.to_dict()}}),
        changed(chunks={"0": {"0": {"count": 1}}}),
    ],
)
def test_what_is_not_a_manifest(text: str) -> None:
    with pytest.raises(ConfigError):
        Manifest.from_json(text)


# --- in its folder


def test_a_folder_without_a_manifest_gets_one(tmp_path: Path) -> None:
    assert _opened(LocalFolder(str(tmp_path / "new")), MANIFEST, resume=False) is MANIFEST


@pytest.mark.parametrize(
    ("now", "resume", "sentence"),
    [
        (replace(MANIFEST, run_id="july"), True, "holds the manifest of run 'june', not of 'july'"),
        (replace(MANIFEST, run_id="july"), False, "holds the manifest of run 'june', not of 'july'"),
        (MANIFEST, False, "holds a manifest of run 'june' already"),
        (replace(MANIFEST, topic_id="t2"), True, "topic 'orders' was deleted and created again since"),
        (replace(MANIFEST, cluster_id="c2"), True, "was begun on the cluster 'c1'; this is 'c2'"),
        (
            replace(MANIFEST, plan=replace(PLAN, value="w" * 100, partitions=4)),
            True,
            r"another plan than it began with: partitions 3 -> 4, value 'v' -> 'w{59}\.\.\.",
        ),
    ],
)
def test_a_manifest_that_is_not_of_this_run(tmp_path: Path, now: Manifest, resume: bool, sentence: str) -> None:
    folder = LocalFolder(str(tmp_path))
    folder.write(FILE, MANIFEST.to_json())
    with pytest.raises(UsageError, match=sentence):
        _opened(folder, now, resume=resume)


def test_a_run_goes_on_with_what_is_there(tmp_path: Path) -> None:
    folder = LocalFolder(str(tmp_path))
    folder.write(FILE, MANIFEST.to_json())
    begun = replace(MANIFEST, chunks={}, starts=(9, 9, 9), cluster_id=None, topic_id=None)
    assert _opened(folder, begun, resume=True) == MANIFEST


# --- the folder


def test_a_text_is_replaced_in_one_step(tmp_path: Path) -> None:
    folder = LocalFolder(str(tmp_path / "a" / "b"))
    assert folder.read(FILE) is None
    folder.write(FILE, "one \N{SNOWMAN}")
    folder.write(FILE, "two")
    assert folder.read(FILE) == "two"
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == [FILE]
    assert receipts_of(folder.path, 3) == f"{tmp_path}/a/b/receipts/chunk=3"


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    folder = LocalFolder(str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="can't be written"):
        folder.write(FILE, "text")
    with pytest.raises(ConfigError, match="can't be read"):
        folder.read(FILE)
    (tmp_path / FILE).write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="can't be read"):
        LocalFolder(str(tmp_path)).read(FILE)
