"""The parts of a load that need no Spark: what it asks the cluster, what it says meanwhile and at the end."""

from __future__ import annotations

import argparse
import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from aioprod.errors import ConfigError, UnknownTopicError, UsageError
from aioprod.spark import worker
from aioprod.spark.digest import Digest
from aioprod.spark.loading import DryRun, LoadReport
from aioprod.spark.loading.cluster import TopicState, check_remembered, check_unused, topic_state
from aioprod.spark.loading.command import _header, _setting, main, settings_of, write_json
from aioprod.spark.loading.job import _brief, _check_same, _checked_run_id, _made_up, _Tally, checked_partitioner
from aioprod.spark.loading.progress import Progress
from aioprod.spark.sink.written import Written
from aioprod.spark.transactions.marker import Policy
from aioprod.spark.transactions.settings import OnceSettings
from aioprod.spark.transactions.steps import Steps
from aioprod.testing.fixtures import FakeClusterThread

DIGEST = Digest(3, 30, 1, 2, 3, 5, 8)


def settings(cluster: FakeClusterThread, topic: str = "t") -> OnceSettings:
    return OnceSettings.of({"bootstrap.servers": cluster.bootstrap}, transactional_id="aioprod-load.june", topic=topic)


def commit(given: OnceSettings) -> None:
    """The first chunk of a run."""
    steps = Steps(given.session(), marker=given.marker, owner="june 1", policy=Policy.REFUSE)
    worker.run(steps.start())
    try:
        worker.run(steps.begin(0))
        worker.run(steps.commit(0))
    finally:
        worker.run(steps.close())


# --- the cluster


def test_the_state_of_a_topic(fake_cluster: FakeClusterThread) -> None:
    fake_cluster.create_topic("t", 2)
    kafka = settings(fake_cluster).kafka
    worker.run(worker.producer(kafka.producer()).send("t", b"v", partition=1))
    state = topic_state(kafka.session(), "t")
    assert state == TopicState(state.cluster_id, (0, 0), (0, 1), state.topic_id)
    assert state.cluster_id
    assert state.topic_id
    fake_cluster.create_topic("other", 1)
    assert topic_state(kafka.session(), "other").topic_id != state.topic_id
    with pytest.raises(UnknownTopicError, match="nowhere"):
        topic_state(kafka.session(), "nowhere")


def test_a_run_id_is_used_once(fake_cluster: FakeClusterThread) -> None:
    fake_cluster.create_topic("t", 1)
    given = settings(fake_cluster)
    check_unused(given, "june")
    commit(given)
    with pytest.raises(UsageError, match="Run 'june' has committed 1 chunks to topic 't' before"):
        check_unused(given, "june")


def test_a_run_that_nothing_remembers_does_not_go_on(fake_cluster: FakeClusterThread) -> None:
    """Its marker may have expired: chunk 0 would be written once more without a word."""
    fake_cluster.create_topic("t", 1)
    given = settings(fake_cluster)
    for policy in (Policy.REFUSE, Policy.ASSUME_COMMITTED):
        with pytest.raises(UsageError, match="What run 'june' has committed is not known") as raised:
            check_remembered(replace(given, policy=policy), "june")
        assert "offsets.retention.minutes" in str(raised.value.hint)
    check_remembered(replace(given, policy=Policy.ASSUME_NOT_COMMITTED), "june")
    commit(given)
    check_remembered(given, "june")


@pytest.mark.parametrize("run_id", ["", "a b", "a/b", "x" * 201, "\u00e9", 7, None])
def test_a_run_id_that_can_t_be(run_id: object) -> None:
    with pytest.raises(ConfigError, match="The run id"):
        _checked_run_id(run_id)


def test_a_run_id_that_was_made_up() -> None:
    ids = {_made_up("t" * 249) for _ in range(20)}
    assert len(ids) == 20
    assert all(_checked_run_id(one) == one for one in ids)


@pytest.mark.parametrize(
    ("name", "key", "used"),
    [
        ("murmur2", "k", "murmur2"),
        ("murmur2", None, "default"),
        ("crc32", None, "crc32_random"),
        ("fnv1a", None, "fnv1a"),
        ("default", "k", "default"),
    ],
)
def test_rows_without_a_key_are_spread(name: str, key: str | None, used: str) -> None:
    assert checked_partitioner(name, key) == used


def test_a_partitioner_that_can_t_be() -> None:
    with pytest.raises(ConfigError):
        checked_partitioner("round_robin", None)


# --- what was written


def test_receipts_of_something_else_are_refused() -> None:
    done = (Written("t", 4, 3, 5, 8),)
    _check_same({4: DIGEST}, done, "r")
    _check_same({}, None, "r")
    others: tuple[Mapping[int, Digest], ...] = ({}, {3: DIGEST}, {4: DIGEST.then(DIGEST)})
    for parts in others:
        with pytest.raises(UsageError, match="The receipts in 'r'"):
            _check_same(parts, done, "r")


def test_a_tally() -> None:
    tally = _Tally()
    tally.add((Written("t", 4, 3, 5, 8),), {4: DIGEST})
    tally.add(None, {4: DIGEST})
    tally.add((Written("t", 4, 1, 10, 10), Written("t", 0, 2, 0, 1)), {4: DIGEST})
    assert (tally.done, tally.skipped, tally.rows, tally.bytes) == (2, 1, 6, 60)
    assert tally.offsets == {4: (5, 10), 0: (0, 1)}


def test_a_reason_is_brief() -> None:
    assert _brief("step 2: Job aborted.\n\tat org.apache.spark") == "step 2: Job aborted."
    assert len(_brief("x" * 10_000)) == 303


# --- what it says


def test_lines_where_nobody_looks_on() -> None:
    said = io.StringIO()
    with Progress(3, stream=said) as progress:
        progress.say("run id: x")
        progress.written(0, 1234, 5_000_000)
        progress.written(1, 2, None)
        progress.skipped(2)
    lines = [line.rpartition(" (")[0] or line for line in said.getvalue().splitlines()]
    assert lines == [
        "run id: x",
        "chunk 1 of 3: 1,234 rows, 5 MB",
        "chunk 2 of 3: 2 rows",
        "chunk 3 of 3: was committed before",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_where_somebody_does() -> None:
    said = Terminal()
    with Progress(2, stream=said) as progress:
        progress.say("run id: [x]")
        progress.written(0, 1234, 5_000_000)
        progress.skipped(1)
    assert "run id: [x]" in said.getvalue()
    assert "2/2" in said.getvalue()
    assert "1,234 rows, 5 MB" in said.getvalue()


def test_lines_on_a_terminal_that_cannot_redraw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    said = Terminal()
    with Progress(1, stream=said) as progress:
        progress.written(0, 2, None)
    assert said.getvalue().startswith("chunk 1 of 1: 2 rows")


def test_silence() -> None:
    said = Terminal()
    with Progress(1, on=False, stream=said) as progress:
        progress.say("x")
        progress.written(0, 1, 1)
    assert said.getvalue() == ""


def test_a_report() -> None:
    report = LoadReport(
        run_id="june",
        topic="t",
        partitions=5,
        chunks=4,
        chunks_of="files",
        done=3,
        skipped=1,
        rows=6000,
        bytes=1_500_000,
        all_rows=8000,
        seconds=2.25,
        attempts=4,
        reruns=("step 2: a worker died",),
        offsets={4: (5, 10), 0: (0, 1)},
        manifest="/m",
    )
    assert str(report).splitlines() == [
        "Run june: 6,000 rows (1.5 MB) written to topic 't' in 2.2 s, 3 of 4 chunks.",
        "1 chunks had been committed before. The run has 8,000 rows in all.",
        "1 attempts were lost and made again; the last one: step 2: a worker died",
        "Manifest: /m",
    ]
    told = report.to_dict()
    assert told["offsets"] == {"0": {"first": 0, "last": 1}, "4": {"first": 5, "last": 10}}
    assert told["chunks"] == {"count": 4, "of": "files", "done": 3, "skipped": 1}
    assert told["dry_run"] is None


def test_a_dry_run() -> None:
    found = DryRun("value string", (3, 0, 1), (60, 0, 30), 1, ("'k'",), 1000)
    report = LoadReport(run_id="r", topic="t", partitions=3, chunks=1, chunks_of="rows", dry_run=found)
    text = str(report)
    assert "Nothing was sent to topic 't'" in text
    assert "4 rows, 90 B, to 2 of 3 partitions; the fullest holds 2.00 times the mean." in text
    assert "1 rows are larger than max.request.size=1000 allows; their keys: 'k'" in text
    told = report.to_dict()["dry_run"]
    assert (told["rows"], told["bytes"], told["skew"], told["oversize"]["rows"]) == (4, 90, 2.0, 1)
    assert DryRun("", (0, 0), (0, 0), 0, (), 1).skew == 1.0
    assert "larger" not in str(DryRun("", (0, 0), (0, 0), 0, (), 1))


# --- the command


def test_arguments() -> None:
    assert _header("source='a=b'") == ("source", "'a=b'")
    assert _setting("linger.ms=") == ("linger.ms", "")
    for wrong in ("source", "=x", "source="):
        with pytest.raises(argparse.ArgumentTypeError):
            _header(wrong)
    with pytest.raises(argparse.ArgumentTypeError, match="it is not NAME=VALUE"):
        _setting("secret")


def test_help_and_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for option in ("--from", "--rate", "--chunks", "--run-id", "--resume", "--manifest", "--dry-run", "--header"):
        assert option in said
    with pytest.raises(SystemExit) as ended:
        main(["--topic", "t"])
    assert ended.value.code == 2


def test_settings_of_a_file_and_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("linger.ms=5\nsasl.mechanism: PLAIN\n")
    given = argparse.Namespace(config=str(path), set=[("linger.ms", "7")])
    assert settings_of(given) == {"linger.ms": "7", "sasl.mechanism": "PLAIN"}
    assert settings_of(argparse.Namespace(config=None, set=[])) == {}
    with pytest.raises(ConfigError, match="can't be read"):
        settings_of(argparse.Namespace(config=str(tmp_path / "none"), set=[]))


def test_a_report_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(None, {})
    write_json("-", {"a": 1})
    assert capsys.readouterr().out == '{\n  "a": 1\n}\n'
    write_json(str(tmp_path / "r.json"), {"a": 1})
    assert (tmp_path / "r.json").read_text() == '{\n  "a": 1\n}\n'
    with pytest.raises(UsageError, match="can't be written"):
        write_json(str(tmp_path / "none" / "r.json"), {})
